"""Learn to push a puck with 20 demonstrations of a scripted controller, and without: ``python -m examples.demonstrations``.

The controller is an example of a policy for ``her record --policy`` and ``her train --demos``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tyro

from her_agents.config import make_config
from her_agents.loop import train


def push(observation: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return an action, (2,) float32, in PointPush-v0: go behind the puck, then push it to the goal.

    Args:
        observation: Observation of the environment.
    """
    agent, puck = np.split(observation["observation"], 2)
    to_goal = observation["desired_goal"] - puck
    distance = float(np.linalg.norm(to_goal))
    if distance < 0.02:
        return np.zeros(2, np.float32)
    ahead = to_goal / distance
    aside = np.array([-ahead[1], ahead[0]])
    along, across = (agent - puck) @ ahead, (agent - puck) @ aside
    if along < -0.06 and abs(across) < 0.02:  # behind the puck
        move = min(distance, 0.05) * ahead - across * aside
    elif along > -0.08 and abs(across) < 0.1:  # the puck is in the way
        move = 0.05 * np.sign(across or 1.0) * aside
    else:
        move = puck - 0.1 * ahead - agent
    return np.clip(20 * move, -1, 1).astype(np.float32)


def main(steps: int = 10_000, demo_episodes: int = 20, seed: int = 0) -> None:
    """Train SAC on PointPush with demonstrations and without, and print the success rates.

    For example:

    - python -m examples.demonstrations --seed 1
    - python -m examples.demonstrations --demo-episodes 5

    Args:
        steps: Environment steps of each run.
        demo_episodes: Number of demonstrations.
        seed: Seed of both runs.
    """
    options = {"env": "her_envs/PointPush-v0", "algo": "sac", "steps": steps, "seed": seed, "gamma": 0.95}
    demonstrations = {"demos": "examples.demonstrations:push", "demo_episodes": demo_episodes}
    for name, more in {"with demonstrations": demonstrations, "without": {}}.items():
        result = train(make_config(options, more), on_epoch=None, threads=1)
        rates = ", ".join(f"{row['success_rate']:.2f}" for row in result.history)
        print(f"{name}: success rates {rates}")


if __name__ == "__main__":
    tyro.cli(main)
