"""Phase retrieval through a night: the aberrations behind three defocused images of a star, by Fourier optics and LBFGS."""

import math

import torch

SIZE = 128


def aperture_and_modes(count=15):
    axis = torch.linspace(-2, 2, SIZE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    r, angle = torch.hypot(x, y), torch.atan2(y, x)
    pupil = (r <= 1).float()
    modes = []
    for n in range(2, 9):
        for m in range(n % 2, n + 1, 2):
            radial = sum(
                (-1) ** k * math.comb(n - k, k) * math.comb(n - 2 * k, (n - m) // 2 - k) * r ** (n - 2 * k)
                for k in range((n - m) // 2 + 1)
            )
            modes += [radial * torch.cos(m * angle) * pupil]
    return pupil, torch.stack(modes[:count])


def star(pupil, phase):
    """Intensity in the focal plane for each pupil phase."""
    field = torch.fft.fft2(torch.polar(pupil.expand_as(phase), phase), norm="ortho")
    return field.real.square() + field.imag.square()


def estimate(images, pupil, defocus, flat, start, iterations=10):
    guess = start.clone().requires_grad_()
    solver = torch.optim.LBFGS([guess], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe")

    def misfit():
        solver.zero_grad()
        error = (star(pupil, defocus + (guess @ flat).view(SIZE, SIZE)) - images).square().mean()
        error.backward()
        return error

    solver.step(misfit)
    return guess.detach()


def main(steps: int = 60):
    torch.manual_seed(31)
    pupil, modes = aperture_and_modes()
    defocus = torch.tensor([-3.0, 0.0, 3.0])[:, None, None] * modes[0]
    flat = modes.flatten(1)
    truth = 0.2 * torch.randn(len(modes))
    found = torch.zeros_like(truth)
    errors = torch.zeros(steps)
    for exposure in range(steps):
        truth = 0.98 * truth + 0.04 * torch.randn(len(modes))
        images = star(pupil, defocus + (truth @ flat).view(SIZE, SIZE))
        images = images + 0.002 * images.mean() * torch.randn_like(images)
        found = estimate(images, pupil, defocus, flat, found)
        errors[exposure] = (found - truth).square().mean().sqrt()
    print("error of the coefficients (radian): first", errors[0].item(), "median", errors.median().item())


if __name__ == "__main__":
    main()
