"""A vector-quantised autoencoder whose codebook follows the encodings by moving averages."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantiser(nn.Module):
    def __init__(self, codes=256, dim=32, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("codebook", torch.randn(codes, dim))
        self.register_buffer("count", torch.ones(codes))
        self.register_buffer("total", self.codebook.clone())

    def forward(self, z):
        b, c, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, c)
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codebook.t() + self.codebook.pow(2).sum(1)
        idx = dist.argmin(1)
        q = F.embedding(idx, self.codebook)
        if self.training:
            with torch.no_grad():
                hits = F.one_hot(idx, len(self.codebook)).type(flat.dtype)
                self.count.mul_(self.decay).add_(hits.sum(0), alpha=1 - self.decay)
                self.total.mul_(self.decay).add_(hits.t() @ flat, alpha=1 - self.decay)
                self.codebook.copy_(self.total / self.count.clamp(min=1e-5).unsqueeze(1))
        commit = F.mse_loss(flat, q.detach())
        q = (flat + (q - flat).detach()).view(b, h, w, c).permute(0, 3, 1, 2)
        return q, commit


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 32, 1))
        self.vq = Quantiser()
        self.dec = nn.Sequential(
            nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))

    def forward(self, x):
        q, commit = self.vq(self.enc(x))
        return self.dec(q), commit


def main(steps=20):
    torch.manual_seed(0)
    model = VQVAE()
    opt = torch.optim.Adam(model.parameters(), lr=2e-4)
    data = torch.rand(256, 3, 32, 32)
    for _ in range(steps):
        x = data[torch.randint(0, 256, (32,))]
        recon, commit = model(x)
        loss = F.mse_loss(recon, x) + 0.25 * commit
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
