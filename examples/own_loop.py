"""Add transitions to the buffer in your own loop, without a recorder: ``python -m examples.own_loop``.

The agent is a table of Q values, updated by Q-learning; replace it with your own agent.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import her_envs
from her_wrappers import HindsightReplayBuffer

gym.register_envs(her_envs)


def train(episodes: int, seed: int = 0) -> float:
    """Train on BitFlipping with 4 bits; return the success rate of the last 100 episodes.

    Args:
        episodes: Number of episodes.
        seed: Seed of environment, buffer and exploration.
    """
    env = gym.make("her_envs/BitFlipping-v0", n_bits=4, observation="integer")
    buffer = HindsightReplayBuffer.for_env(env, n_sampled_goal=4, gamma=0.9, seed=seed)
    rng = np.random.default_rng(seed)
    values = np.zeros((16, 16, 4))  # (states, goals, actions)
    successes: list[bool] = []

    observation, info = env.reset(seed=seed)
    while len(successes) < episodes:
        known = values[observation["observation"], observation["desired_goal"]]
        action = rng.integers(4) if rng.random() < 0.1 else known.argmax()
        before = observation
        observation, reward, terminated, truncated, info = env.step(action)
        buffer.add(before, action, float(reward), observation, terminated, truncated, info)
        if not (terminated or truncated):
            continue
        successes.append(info["is_success"])
        observation, info = env.reset()

        batch = buffer.sample(256)
        state, goal = batch.observations["observation"], batch.observations["desired_goal"]
        after = values[batch.next_observations["observation"], goal].max(axis=1)
        values[state, goal, batch.actions] = batch.rewards + batch.discounts * after
    return float(np.mean(successes[-100:]))


if __name__ == "__main__":
    print(f"success rate of the last 100 episodes: {train(1500):.2f}, with one random action in ten")
