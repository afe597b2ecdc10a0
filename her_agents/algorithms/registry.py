"""Algorithms by name, default options for an environment, and agents made from a config."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from her_agents.algorithms.dqn import DQN
from her_agents.algorithms.iql import IQL
from her_agents.algorithms.options import agent_options, options_type
from her_agents.algorithms.sac import SAC
from her_agents.algorithms.td3 import DDPG, TD3
from her_agents.algorithms.tqc import TQC
from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.goals.action_masks import valid_action
from her_wrappers.goals.environments import import_callable
from her_wrappers.goals.episode_limit import declared_time_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym

    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config
    from her_wrappers.simulators import GoalSimulator

ALGORITHMS: dict[str, type[Agent]] = {each.__name__.lower(): each for each in (DQN, DDPG, TD3, SAC, TQC, IQL)}

STEPS_PER_LENGTH, DEFAULT_STEPS = 4_000, 100_000
"""Default steps of a run: `STEPS_PER_LENGTH` times the time limit, or `DEFAULT_STEPS` without a limit."""

UNKNOWN_LENGTH = 1_000  # assumed length of an episode in a simulator without a known time limit

NOT_ON_DEVICE = ("offline", "workers", "prioritized", "max_episode_steps", "info_keys", "start_share")
"""Options that runs on a simulator do not support."""

MAX_PROBE_STEPS = 100

LEAST_PRODUCTS = 50_000_000
"""``device="auto"`` chooses a GPU if the hidden layers need at least this many multiplications per batch. The
threshold was measured in `docs/results/agents_gpu.md`."""


def choose_defaults(config: Config, env: gym.Env[Any, Any]) -> Config:
    """Choose ``algo``, ``steps``, ``steps_per_epoch`` and ``updates_per_step`` where they are None.

    For a simulator, ``num_envs``, ``device`` and ``on_device`` become those of the simulator.
    """
    length = config.max_episode_steps or declared_time_limit(env)
    steps, per_epoch, updates = DEFAULT_STEPS if length is None else STEPS_PER_LENGTH * length, 4_000, 0.25
    if (simulator := getattr(env.unwrapped, "simulator", None)) is not None:
        config = _of_simulator(config, simulator)
        lanes = simulator.num_envs * (length or UNKNOWN_LENGTH)
        steps, per_epoch, updates = 200 * lanes, 4 * lanes, 2 / simulator.num_envs
    return replace(
        config,
        algo=config.algo or ("dqn" if isinstance(env.action_space, spaces.Discrete) else "sac"),
        steps=config.steps or steps,
        steps_per_epoch=config.steps_per_epoch or per_epoch,
        updates_per_step=config.updates_per_step or updates,
    )


def _of_simulator(config: Config, simulator: GoalSimulator) -> Config:
    """Return the config with the number of environments and the device of the simulator."""
    for name in NOT_ON_DEVICE:
        if getattr(config, name):
            raise ValueError(
                f"{name} cannot be used with a simulator (on_device=True), got {getattr(config, name)!r}; "
                "leave it out" + (", and pass info_keys to GoalSimulator" if name == "info_keys" else "")
            )
    default = type(config).num_envs
    if config.num_envs not in {default, simulator.num_envs}:
        raise ValueError(
            f"num_envs must be {simulator.num_envs}, the number of environments that {config.env} makes, got "
            f"{config.num_envs}; give the function a parameter num_envs"
        )
    device = simulator.device
    if config.device not in {"auto", "cpu"} and torch.device(config.device).type != device.type:
        raise ValueError(
            f"device must be {str(device)!r}, where {config.env} makes its tensors, got {config.device!r}; "
            "give the function the parameters num_envs and device"
        )
    return replace(config, on_device=True, num_envs=simulator.num_envs, device=str(device))


def choose_clipping(config: Config, env: gym.Env[Any, Any]) -> tuple[Config, str]:
    """If ``clip_targets`` is None, set it to True if all rewards of a random episode are -1 or 0, else False.

    The episode has at most `MAX_PROBE_STEPS` steps. Also return the reason for the choice False, else "".
    """
    if config.clip_targets is not None:
        return config, ""
    if config.real:
        return replace(config, clip_targets=False), "a robot plays no random episode"
    observation, info = env.reset(seed=0)
    env.action_space.seed(0)
    rng = np.random.default_rng(0)
    for _ in range(MAX_PROBE_STEPS):
        action = valid_action(env.action_space.sample(), env, observation, info, rng)
        observation, reward, terminated, truncated, info = env.step(action)
        if float(reward) not in {-1, 0}:
            return replace(config, clip_targets=False), "some rewards are not -1 or 0"
        if terminated or truncated:
            break
    return replace(config, clip_targets=True), ""


def choose_device(config: Config, observation_space: Any) -> tuple[str, str]:
    """Return the device of a run and, if ``config.device`` is ``"auto"``, the reason, else ``""``."""
    if config.device != "auto":
        return config.device, ""
    if not torch.cuda.is_available():
        return "cpu", "torch finds no CUDA device"
    hidden: Sequence[int] = config.agent.get("hidden", options_type(config.algo).hidden)
    is_small = config.batch_size * sum(a * b for a, b in pairwise(hidden)) < LEAST_PRODUCTS
    if is_small and all(len(each.shape or ()) < 3 for each in leaf_spaces(observation_space).values()):
        return "cpu", "networks and batches are small; a GPU would not be faster"
    return "cuda", torch.cuda.get_device_name()


def make_agent(
    config: Config,
    observation_space: Any,
    action_space: Any,
    *,
    agent: type[Agent] | None = None,
    device: str | None = None,
) -> Agent:
    """Make an agent from a config; ``agent`` and ``device`` replace those of the config."""
    if agent is None:
        agent_options(config.algo, config.agent)
        agent = ALGORITHMS.get(config.algo) or import_callable(config.algo, "algo")
    return agent(
        observation_space,
        action_space,
        gamma=config.gamma,
        clip_targets=config.clip_targets,
        seed=config.seed,
        device=device or config.device,
        use_keys=config.use_keys,
        critic_keys=config.critic_keys,
        **config.agent,
    )
