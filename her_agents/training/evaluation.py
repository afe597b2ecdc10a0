"""Evaluation: success rate, return and length of a policy's episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np

from her_wrappers.goals.episode_limit import MAX_EPISODE_STEPS, EndlessEpisodeError
from her_wrappers.goals.success_flag import FLAG_NAMES, flag_name, flag_of
from her_wrappers.support.arguments import require_count
from her_wrappers.support.policies import choose_action

if TYPE_CHECKING:
    from her_wrappers.simulators import GoalSimulator

Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``."""


@dataclass(frozen=True)
class EpisodeResult:
    """The result of an episode; during the episode, the result of the steps so far."""

    success: bool = False  # whether the last step is a success
    total: float = 0.0  # sum of the rewards
    length: int = 0  # number of steps
    success_once: bool = False  # whether any step is a success


@dataclass(frozen=True)
class Evaluation:
    """Means over complete episodes.

    Attributes:
        success_rate: Share of episodes whose last step is a success.
        mean_return: Mean sum of the rewards.
        mean_length: Mean number of steps.
        success_once: Share of episodes in which any step is a success.
    """

    success_rate: float
    mean_return: float
    mean_length: float
    success_once: float


def success_key(info: dict[str, Any]) -> str:
    """Return the key of the success flag in the info of a step; raise ValueError if there is none."""
    name = flag_name(info)
    if name is None:
        raise ValueError(
            f"info must contain {' or '.join(map(repr, FLAG_NAMES))}, got the keys {sorted(info)}; "
            "add the success flag in step()"
        )
    return name


def play_episode(
    env: gym.Env[Any, Any],
    policy: Policy,
    seed: int | None = None,
    watch: Callable[[EpisodeResult], None] | None = None,
    *,
    needs_flag: bool = True,
) -> EpisodeResult:
    """Run one complete episode.

    Args:
        env: An environment whose episodes end.
        policy: ``policy(observation) -> action``.
        seed: Seed of the reset.
        watch: Function that is called after the reset and after each step, for example to draw pictures. Its
            argument is the result of the steps so far.
        needs_flag: Whether infos must have a success flag. If False, a step without it is not a success.

    Raises:
        ValueError: The policy failed, or a step has no success flag although ``needs_flag`` is True.
    """
    observation, _ = env.reset(seed=seed)
    result, done = EpisodeResult(), False
    if watch is not None:
        watch(result)
    while not done:
        action = choose_action(policy, observation, env.action_space)
        observation, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        success = bool(info[success_key(info)]) if needs_flag else bool(flag_of(info))
        once = result.success_once or success
        result = EpisodeResult(success, result.total + float(reward), result.length + 1, once)
        if watch is not None:
            watch(result)
    return result


def evaluate(
    env: gym.Env[Any, Any], policy: Policy, episodes: int = 100, seed: int | None = None
) -> Evaluation:
    """Run complete episodes, and return means over them.

    Args:
        env: An environment whose episodes end, and whose infos have a success flag.
        policy: ``policy(observation) -> action``.
        episodes: Number of episodes.
        seed: Seed of the first reset. The later resets continue the random sequence of the environment.

    Raises:
        ValueError: ``episodes`` is below 1, the policy failed, or the info of a step has no success flag.
    """
    require_count("episodes", episodes, at_least=1)
    results = [astuple(play_episode(env, policy, seed if i == 0 else None)) for i in range(episodes)]
    return Evaluation(*np.mean(results, axis=0).tolist())


def evaluate_simulator(
    simulator: GoalSimulator, policy: Policy, episodes: int = 100, seed: int | None = None
) -> Evaluation:
    """Run complete episodes in all environments of a simulator, and return means over them.

    Args:
        simulator: The simulator, which is reset.
        policy: ``policy(observation) -> action``, with tensors for N environments, such as `Agent.act`.
        episodes: Number of episodes, rounded up to a multiple of the number of environments. All environments
            run the same number of episodes, so that short episodes do not count more often than long ones.
        seed: Seed of the reset, if the simulator takes one.

    Raises:
        EndlessEpisodeError: An episode did not end.
        ValueError: ``episodes`` is below 1.
    """
    import torch  # noqa: PLC0415 - her watch needs it for agents only

    rounds = -(-require_count("episodes", episodes, at_least=1) // simulator.num_envs)
    observation: Any = simulator.reset(seed if simulator.takes_seed else None)
    sums = torch.zeros(4, simulator.num_envs, dtype=torch.float64, device=simulator.device)
    number, reached = torch.zeros_like(sums[0]), torch.zeros_like(sums[0], dtype=torch.bool)
    for _ in range(rounds * max(MAX_EPISODE_STEPS, simulator.max_steps or 0)):
        step = simulator.step(policy(observation))
        observation, success, counts = step.observation, simulator.is_success(step), number < rounds
        ended, reached = counts & (step.terminated | step.truncated), reached | success
        values = (ended & success, counts * step.reward, counts, ended & reached)  # as in Evaluation
        sums += torch.stack([each.double() for each in values])
        number, reached = number + ended, reached & ~ended
        if not (number < rounds).any():  # waits for the device
            return Evaluation(*(sums.mean(dim=1) / rounds).tolist())
    raise EndlessEpisodeError(
        f"an episode of {type(simulator.sim).__name__} did not end after {MAX_EPISODE_STEPS:,} steps or its "
        "time limit; let the simulator truncate episodes"
    )
