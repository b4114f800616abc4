"""A Gaussian process fitted by its marginal likelihood, in double precision because of the factorisation."""
import math

import torch


def kernel(a, b, log_scale, log_amplitude):
    d = (a[:, None, :] - b[None, :, :]).div(log_scale.exp()).square().sum(-1)
    return log_amplitude.exp() * torch.exp(-0.5 * d)


def main(steps=25):
    torch.manual_seed(0)
    x = torch.rand(400, 3, dtype=torch.float64) * 4
    y = torch.sin(x.sum(1)) + 0.1 * torch.randn(400, dtype=torch.float64)
    log_scale = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    log_amplitude = torch.zeros((), dtype=torch.float64, requires_grad=True)
    log_noise = torch.tensor(-2.0, dtype=torch.float64, requires_grad=True)
    opt = torch.optim.Adam([log_scale, log_amplitude, log_noise], lr=0.05)
    eye = torch.eye(400, dtype=torch.float64)
    for _ in range(steps):
        k = kernel(x, x, log_scale, log_amplitude) + log_noise.exp() * eye
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], chol)[:, 0]
        nll = 0.5 * y @ alpha + chol.diagonal().log().sum() + 200 * math.log(2 * math.pi)
        opt.zero_grad()
        nll.backward()
        opt.step()
    print(float(nll))


if __name__ == "__main__":
    main()
