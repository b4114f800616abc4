"""Lines of handwriting read by a convolutional and recurrent network with the CTC loss."""
import torch
import torch.nn as nn


class CRNN(nn.Module):
    def __init__(self, n_chars=80, hidden=128):
        super().__init__()
        def block(cin, cout, pool):
            return nn.Sequential(
                nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True), nn.MaxPool2d(pool))
        self.cnn = nn.Sequential(block(1, 16, 2), block(16, 32, 2), block(32, 64, (2, 1)), block(64, 64, (4, 1)))
        self.rnn = nn.GRU(64, hidden, num_layers=2, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, n_chars)

    def forward(self, x):
        f = self.cnn(x).squeeze(2).permute(2, 0, 1)  # (T, B, C)
        out, _ = self.rnn(f)
        return self.fc(out).log_softmax(2)


def batches(n, batch_size=8):
    g = torch.Generator().manual_seed(0)
    for _ in range(n):
        images = torch.rand(batch_size, 1, 32, 256, generator=g)
        lengths = torch.randint(8, 24, (batch_size,), generator=g)
        targets = torch.randint(1, 80, (int(lengths.sum()),), generator=g)
        yield images, targets, lengths


def main(n_batches=30):
    torch.manual_seed(0)
    model = CRNN()
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    running = torch.zeros(())
    for step, (images, targets, lengths) in enumerate(batches(n_batches), 1):
        log_probs = model(images)
        input_lengths = torch.full((len(images),), log_probs.shape[0], dtype=torch.long)
        loss = ctc(log_probs, targets, input_lengths, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if step % 20 == 0:
            print(step, float(running / step))


if __name__ == "__main__":
    main()
