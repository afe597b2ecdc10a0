"""Counting episodes whose rewards depend on infos, or on the state and the action."""

from __future__ import annotations

import numpy as np

from tests.support.counting import compute_reward, counting_buffer, counting_episode


def costs(number, length):
    """Return infos of a counting episode: the cost of step t, number + t / 100, and a force of shape (2,)."""
    cost = number + np.arange(length) / 100
    return {"cost": cost, "force": np.stack([cost, -cost], axis=1).astype(np.float32)}


def episode_with_costs(number, length):
    infos = costs(number, length)
    return counting_episode(number, length, infos=infos, rewards=-1 - infos["cost"])


def reward_of_rows(achieved, desired, infos):
    assert isinstance(infos, list)
    assert all(
        info["force"].tolist() == [np.float32(info["cost"]), -np.float32(info["cost"])] for info in infos
    )
    return compute_reward(achieved, desired, None) - np.array([info["cost"] for info in infos])


def reward_of_columns(achieved, desired, infos):
    assert infos["force"].shape == (len(achieved), 2)
    return compute_reward(achieved, desired, None) - infos["cost"]


def effort_reward(batch):
    """Return 0 where the goal is achieved, else -1, minus a cost of the action and the state."""
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    return -1.0 + reached - batch.actions[:, 0] / 8 - batch.observations["observation"][:, 1] / 64


def effort_buffer(reward_fn=effort_reward, **options):
    return counting_buffer(compute_reward=None, reward_fn=reward_fn, **options)


def effort_episode(number, length, **changes):
    """Return a counting episode with the rewards of `effort_reward`."""
    action = number + np.arange(length) / 1000
    return counting_episode(number, length, rewards=-1 - action / 8 - np.arange(length) / 64, **changes)
