"""Prices and risks of options by simulation, compiled, single and double precision: correlated assets under stochastic
volatility, an average-price option and one with a barrier, closed forms for a book of plain ones, early exercise by
regression on polynomials, value at risk by sorting."""

from __future__ import annotations

import math

import torch

PATHS, STEPS, ASSETS, BOOK, YEARS, RATE, STRIKE = 1_048_576, 24, 8, 4_000_000, 1.0, 0.03, 100.0
PULL, LONG, WOBBLE, BARRIER, EXERCISES = 1.5, 0.04, 0.3, 70.0, 4


def simulate(root: torch.Tensor) -> torch.Tensor:
    """Prices, (steps, paths, assets), by Euler steps of the logarithm; the variance never below zero."""
    log = torch.zeros(PATHS, ASSETS, device=root.device)
    variance, dt, out = torch.full_like(log, LONG), YEARS / STEPS, []
    for _ in range(STEPS):
        noise = torch.randn(PATHS, ASSETS, device=root.device) @ root
        other = -0.7 * noise + 0.51**0.5 * torch.randn_like(noise)
        floor = variance.clamp(min=0)
        log = log + (RATE - floor / 2) * dt + (floor * dt).sqrt() * noise
        variance = variance + PULL * (LONG - floor) * dt + WOBBLE * (floor * dt).sqrt() * other
        out.append(STRIKE * log.exp())
    return torch.stack(out)


def exotics(price: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    basket = price.mean(-1)
    asian = (basket.mean(0) - STRIKE).clamp(min=0)
    alive = price.amin((0, 2)) > BARRIER
    knocked = torch.where(alive, (STRIKE - price[-1].amin(-1)).clamp(min=0), 0.0)
    gain = (asian + knocked).double()
    return math.exp(-RATE * YEARS) * gain.mean(), gain.std() / PATHS**0.5, basket


def early(basket: torch.Tensor) -> torch.Tensor:
    """A put on the basket that may be exercised early, by least squares on powers of the price, in double."""
    value = (STRIKE - basket[-1]).clamp(min=0).double()
    discount = math.exp(-RATE * YEARS / EXERCISES)
    for i in range(EXERCISES - 1, 0, -1):
        x = basket[i * STEPS // EXERCISES].double() / STRIKE
        value, now = value * discount, (1 - x).clamp(min=0) * STRIKE
        base = torch.stack((torch.ones_like(x), x, x * x, x**3), 1) * (now > 0)[:, None]
        normal = base.T @ base + 1e-6 * torch.eye(4, dtype=x.dtype, device=x.device)
        wait = base @ torch.linalg.solve(normal, base.T @ value[:, None])
        value = torch.where((now > wait[:, 0]) & (now > 0), now, value)
    return value.mean() * discount


def closed(spot: torch.Tensor, strike: torch.Tensor, volatility: torch.Tensor, years: torch.Tensor) -> torch.Tensor:
    """Black-Scholes calls and their delta, gamma and vega: (4, options)."""
    root = volatility * years.sqrt()
    d1 = ((spot / strike).log() + (RATE + volatility.square() / 2) * years) / root
    density = torch.exp(-d1.square() / 2) * 0.3989422804014327
    delta = torch.special.ndtr(d1)
    call = spot * delta - strike * torch.exp(-RATE * years) * torch.special.ndtr(d1 - root)
    return torch.stack((call, delta, density / (spot * root), spot * density * years.sqrt()))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    mixed = 0.5 * torch.eye(ASSETS, device="cuda") + 0.5
    root = torch.linalg.cholesky(mixed).T.contiguous()
    spot, strike = (80 + 40 * torch.rand(BOOK, device="cuda") for _ in range(2))
    volatility, years = 0.1 + 0.4 * torch.rand(BOOK, device="cuda"), 0.1 + 2 * torch.rand(BOOK, device="cuda")
    paths, price, put, book = (torch.compile(f) for f in (simulate, exotics, early, closed))

    def step() -> None:
        with torch.no_grad():
            _, _, basket = price(paths(root))
            put(basket)
            call, delta, gamma, _ = book(spot, strike, volatility, years)
            loss = call.view(-1, 4).sum(1) - (call + delta - gamma).view(-1, 4).sum(1)
            loss.sort().values[: BOOK // 400].mean()

    return step
