"""Demonstrations of a scripted controller in a replay buffer: ``python -m examples.demonstrations``.

The controller can also be the policy of ``her record --policy`` and of ``her train --demos``.
"""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym
import numpy as np

import her_envs
from her_agents import record_successes
from her_wrappers import Demonstrations, EpisodeRecorder, HindsightReplayBuffer

gym.register_envs(her_envs)


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
    action: np.ndarray = np.clip(20 * move, -1, 1).astype(np.float32)
    return action


def main() -> None:
    """Record demonstrations; print how often the puck moves in demonstrations and in random episodes."""
    env = gym.make("her_envs/PointPush-v0")
    rng = np.random.default_rng(0)
    episodes = record_successes(env, push, count=20, noise=0.1, rng=rng, info_keys=["is_success"])
    demonstrations = Demonstrations(episodes, share=0.25)
    buffer = HindsightReplayBuffer.for_env(env, demonstrations=demonstrations, seed=0)

    recorder = EpisodeRecorder(env, buffer.add_episode)
    for seed in range(20):
        recorder.reset(seed=seed)
        for _ in range(100):
            recorder.step(env.action_space.sample())

    batch = buffer.sample(10_000)
    pucks = [each["achieved_goal"] for each in (batch.observations, batch.next_observations)]
    is_moved = (pucks[0] != pucks[1]).any(axis=1)
    for name, rows in {"demonstrations": batch.is_demonstration, "others": ~batch.is_demonstration}.items():
        print(f"{name}: {rows.mean():.2f} of the rows; the puck moves in {is_moved[rows].mean():.2f} of them")


if __name__ == "__main__":
    main()
