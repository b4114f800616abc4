"""Latents that look at atoms: cross attention as fairseq wrote it, heads folded into the batch, scores by bmm."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def fold(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, self.head_dim).transpose(1, 2).reshape(b * self.heads, t, self.head_dim)

    def forward(self, latent, atoms):
        b, n, c = latent.shape
        q = self.fold(self.q_proj(latent) * self.head_dim**-0.5)
        k, v = self.fold(self.k_proj(atoms)), self.fold(self.v_proj(atoms))
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        # mend: attn = F.scaled_dot_product_attention(*(x.view(b, self.heads, -1, self.head_dim) for x in (q, k, v)), scale=1.0)
        attn_weights_float = F.softmax(attn_weights, dim=-1, dtype=torch.float32)  # finds: attention-unfused
        # mend:
        attn = torch.bmm(attn_weights_float.type_as(attn_weights), v)
        # mend:
        attn = attn.view(b, self.heads, n, self.head_dim).transpose(1, 2).reshape(b, n, c)
        return self.out_proj(attn)


class Perceiver(nn.Module):
    def __init__(self, dim=96, latents=192):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, dim) * 0.02)
        self.atoms = nn.Linear(20, dim)
        self.look = nn.ModuleList([CrossAttention(dim, 6) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.energy = nn.Linear(dim, 1)

    def forward(self, x):
        atoms, z = self.atoms(x), self.latents.expand(x.size(0), -1, -1)
        for look, norm in zip(self.look, self.norms):
            z = z + look(norm(z), atoms)
        return self.energy(z.mean(1)).squeeze(-1)


def main(steps=24):
    torch.manual_seed(0)
    model = Perceiver()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for _ in range(steps):
        molecules, energies = torch.randn(8, 512, 20), torch.randn(8)
        loss = F.l1_loss(model(molecules), energies)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
