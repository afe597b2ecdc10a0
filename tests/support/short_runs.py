"""Configs of very short runs, and comparison of their results."""

import torch

from her_agents.training.config import make_config
from her_agents.training.loop import train

TINY = {
    "num_envs": 4,
    "steps": 300,
    "steps_per_epoch": 100,
    "learning_starts": 30,
    "updates_per_step": 0.1,
    "batch_size": 32,
    "evaluation_episodes": 3,
    "seed": 3,
    "clip_targets": True,
    "agent": {"hidden": [16]},
}


TASKS = {
    "dqn": {"env": "her_envs/BitFlipping-v0", "env_kwargs": {"n_bits": 5}},
    "ddpg": {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}},
    "td3": {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}},
    "sac": {"env": "her_envs/BitFlippingContinuous-v0", "env_kwargs": {"n_bits": 5}},
    "tqc": {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}},
}


def tiny(task="dqn", **options):
    return make_config(TINY, {"algo": task}, TASKS.get(task, TASKS["td3"]), options)


def without_time(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def same(first, second):
    """Return whether two trees of tensors and numbers are equal to the last bit."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second


def assert_same_results(one, other):
    assert same(one.agent.state_dict(), other.agent.state_dict())
    assert without_time(one.history) == without_time(other.history)


def assert_resumes(config, folder, **options):
    """Assert that a run equals one that stops after its first epoch and is resumed; return the latter."""
    options |= {"on_epoch": None}
    whole = train(config, **options)
    options |= {"folder": folder, "tensorboard": False}
    train(config, stop=lambda history: len(history) == 1, **options)
    resumed = train(config, resume=True, **options)
    assert len(resumed.history) > 1
    assert_same_results(resumed, whole)
    return resumed
