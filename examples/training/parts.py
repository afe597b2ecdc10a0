"""What a config asks for: environments, a buffer, an agent, and a check of the environment."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

import her_envs
from examples.agents.ddpg import DDPG
from examples.agents.dqn import DQN
from examples.agents.sac import SAC
from examples.agents.td3 import TD3
from her_wrappers import HindsightReplayBuffer, Priority, Report, check_goal_env
from her_wrappers.goal_interface import goal_spaces

if TYPE_CHECKING:
    from pathlib import Path

    from examples.agents.networks import Agent
    from examples.training.config import Config

ALGORITHMS: dict[str, type[Agent]] = {"dqn": DQN, "ddpg": DDPG, "td3": TD3, "sac": SAC}

gym.register_envs(her_envs)


def use_threads(count: int) -> None:
    """Set torch's threads; on networks so small more than one only wait for each other."""
    torch.set_num_threads(count)


def make_env(config: Config, **options: Any) -> gym.Env[Any, Any]:
    """Make one environment.

    Args:
        config: Which.
        **options: More arguments for it.

    Raises:
        ValueError: There is no such environment, or it has no such arguments.
    """
    try:
        return gym.make(config.env, disable_env_checker=True, **config.env_kwargs, **options)
    except (gym.error.Error, ImportError, TypeError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(
            f"cannot make {config.env}: {reason}; `her envs` lists the bundled ones and their options"
        ) from error


def make_vector_env(config: Config) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make ``num_envs`` of them, natively vectorised where the environment is.

    Raises:
        ValueError: There is no such environment, or it has no such arguments.
    """
    module, _, name = config.env.rpartition(":")
    try:
        if module:
            importlib.import_module(module)  # registers the name
        native = gym.spec(name).vector_entry_point is not None
        options: dict[str, Any] = {} if native else {"disable_env_checker": True}
        return gym.make_vec(name, config.num_envs, **options, **config.env_kwargs)
    except (gym.error.Error, ImportError, TypeError, ValueError) as error:
        raise ValueError(f"cannot make {config.num_envs} {config.env} together: {error}") from error


def check(config: Config) -> Report:
    """Check the environment's goal interface, once it is clear that the algorithm fits it.

    Raises:
        TypeError: It does not.
        ValueError: The environment cannot be made or is no goal environment; there is no such algorithm.
    """
    env = make_env(config)
    make_agent(config, *goal_spaces(env))
    env.close()
    return check_goal_env(partial(make_env, config))


def make_buffer(config: Config, env: Any, saved: Path | None = None) -> HindsightReplayBuffer:
    """Make the replay buffer of an environment, or load the one that was saved.

    Raises:
        ValueError: It is no goal environment, or the strategy or the rule for terminations is unknown; or the
            file is none of its.
    """
    buffer_size = min(config.buffer_size, config.steps)
    if saved is not None:
        return HindsightReplayBuffer.load(saved, env, buffer_size=buffer_size)
    return HindsightReplayBuffer.for_env(
        env,
        buffer_size=buffer_size,
        n_sampled_goal=config.k if config.her else 0,
        goal_selection_strategy=config.strategy,
        termination=config.termination,
        n_steps=config.n_steps,
        gamma=config.gamma,
        prioritized=Priority() if config.prioritized else None,
        info_keys=config.info_keys,
        seed=config.seed,
    )


def make_agent(config: Config, observation_space: Any, action_space: Any) -> Agent:
    """Make the agent.

    Raises:
        TypeError: It does not fit the spaces.
        ValueError: There is no such algorithm, or it has no such argument.
    """
    if config.algo not in ALGORITHMS:
        raise ValueError(f"unknown algo {config.algo!r}; choose from {', '.join(map(repr, ALGORITHMS))}")
    algorithm = ALGORITHMS[config.algo]
    known = (algorithm.__init__.__kwdefaults__ or {}).keys() - {"seed", "gamma", "clip_targets"}
    for name in config.agent:
        if name not in known:
            raise ValueError(
                f"{config.algo} has no option {name!r}; choose from {', '.join(map(repr, sorted(known)))}"
            )
    options = {"gamma": config.gamma, "clip_targets": config.clip_targets, "seed": config.seed}
    agent: Agent = algorithm(observation_space, action_space, **options, **config.agent)
    return agent
