"""``her record --workers``: episodes from many processes or machines in one archive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import typer

from her_wrappers.commands.terminal import fail
from her_wrappers.environments import make_env, present_folder
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from her_wrappers.collecting import Collector
    from her_wrappers.commands.make import Policy
    from her_wrappers.recording.archive import EpisodeArchive

MAX_EPISODES_PER_ROUND = 10
"""Largest number of episodes of a worker in a round."""


class RandomPolicy:
    """Samples the actions of one environment from its action space.

    Args:
        space: Action space of the environment.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        self._space = space

    def seed(self, seed: int) -> None:
        """Seed the action space."""
        self._space.seed(seed)

    def __call__(self, observation: Any) -> Any:
        """Return a random action."""
        return self._space.sample()


class OneEnvPolicy:
    """A policy for one environment, used with a vector environment of one environment.

    Args:
        policy: Returns the action for an observation; may have a method ``seed``.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def seed(self, seed: int) -> None:
        """Seed the policy, if it has a method ``seed``."""
        if hasattr(self._policy, "seed"):
            self._policy.seed(seed)

    def __call__(self, observations: Any) -> Any:
        """Return the actions, with a leading axis of length 1."""
        action = self._policy(map_tree(lambda leaf: leaf[0], observations))
        return map_tree(lambda leaf: np.asarray(leaf)[None], action)


def make_collector(
    env_id: str,
    options: Mapping[str, Any],
    policy: Policy,
    *,
    num_workers: int,
    backend: str,
    address: str | None,
    seed: int | None,
    info_keys: list[str],
    max_episode_steps: int | None,
) -> Collector:
    """Make the collector for the options of the command line; each worker has one environment.

    Args:
        env_id: Name of the environment.
        options: Arguments of the environment.
        policy: Returns the action for an observation.
        num_workers: Number of workers.
        backend: Backend of the `Collector`.
        address: Address of a Ray cluster, or None.
        seed: Seed of the collector; None for a random seed.
        info_keys: Keys of the infos to record.
        max_episode_steps: Number of steps after which episodes are truncated, or None.

    Raises:
        typer.BadParameter: An option is wrong, or the policy cannot be pickled.
    """
    from her_wrappers.collecting import Collector

    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    try:
        with present_folder():  # the workers import the user's modules from here too
            return Collector(
                partial(_make_limited_env, env_id, dict(options), max_episode_steps),
                OneEnvPolicy(policy),
                num_workers=num_workers,
                backend=backend,
                address=address,
                seed=seed,
                info_keys=info_keys,
            )
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


def record_rounds(
    collector: Collector,
    archive: EpisodeArchive,
    episodes: int,
    num_workers: int,
    advance: Callable[..., Any],
) -> None:
    """Add a number of episodes to an archive.

    Args:
        collector: A collector whose workers have one environment each.
        archive: The archive.
        episodes: Number of episodes.
        num_workers: Number of workers.
        advance: Called with each added episode.

    Raises:
        typer.Exit: The collector raised `CollectorError`.
    """
    from her_wrappers.collecting import CollectorError

    per_round = min(MAX_EPISODES_PER_ROUND, -(-episodes // num_workers))
    missing = episodes
    try:
        for each in collector.rounds(per_round):
            kept = each.episodes[:missing]
            archive.add_episodes(kept)
            for episode in kept:
                advance(episode)
            missing -= len(kept)
            if not missing:
                return
    except CollectorError as error:
        fail(str(error))


def _make_limited_env(
    env_id: str, options: dict[str, Any], max_episode_steps: int | None
) -> gym.Env[Any, Any]:
    """Make an environment; truncate its episodes after a number of steps, if one is given."""
    env = make_env(env_id, **options)
    return env if max_episode_steps is None else gym.wrappers.TimeLimit(env, max_episode_steps)
