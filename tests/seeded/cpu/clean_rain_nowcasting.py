"""Radar images of rain, the next ones from the last ones, with convolutional LSTM cells."""
import torch
import torch.nn as nn


class ConvLSTMCell(nn.Module):
    def __init__(self, inp, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(inp + hidden, 4 * hidden, 3, padding=1)

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class Nowcast(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.encoder, self.decoder = ConvLSTMCell(1, hidden), ConvLSTMCell(1, hidden)
        self.out = nn.Conv2d(hidden, 1, 1)

    def forward(self, past, future=6):
        b, _, _, height, width = past.shape
        state = (past.new_zeros(b, self.encoder.hidden, height, width),) * 2
        for frame in past.unbind(1):
            state = self.encoder(frame, state)
        frame, frames = past[:, -1], []
        for _ in range(future):
            state = self.decoder(frame, state)
            frame = self.out(state[0])
            frames.append(frame)
        return torch.stack(frames, 1)


def main(steps=8):
    torch.manual_seed(0)
    model = Nowcast()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    radar = torch.rand(8, 14, 1, 48, 48)
    for _ in range(steps):
        pred = model(radar[:, :8])
        loss = nn.functional.mse_loss(pred, radar[:, 8:])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
