"""Proximal policy optimisation; advantages are added up backwards, one time step after another."""
import torch
import torch.nn as nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=8, n_actions=4, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, n_actions)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def compute_gae(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = torch.zeros_like(rewards)
    last = torch.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        not_done = 1.0 - dones[t]  # may: small-kernels
        delta = rewards[t] + gamma * values[t + 1] * not_done - values[t]  # finds: small-kernels
        advantages[t] = last = delta + gamma * lam * not_done * last  # may: small-kernels
    return advantages


def main(updates=30, horizon=512, n_envs=8):
    torch.manual_seed(0)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, fused=True)
    for _ in range(updates):
        obs = torch.randn(horizon + 1, n_envs, 8)  # a vectorised environment's rollout
        with torch.no_grad():
            dist, values = model(obs)
            actions = dist.sample()
            logp_old = dist.log_prob(actions)
        rewards = torch.randn(horizon, n_envs)
        dones = (torch.rand(horizon, n_envs) < 0.01).float()
        adv = compute_gae(rewards, values, dones)
        returns = adv + values[:-1]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        dist, v = model(obs[:-1])
        ratio = torch.exp(dist.log_prob(actions[:-1]) - logp_old[:-1])
        pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        loss = pg + 0.5 * (v - returns).pow(2).mean() - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
