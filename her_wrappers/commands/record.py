"""``her record``: record episodes of an environment and a policy in an archive."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
from tyro.conf import arg

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import CorruptFileError, SinkError
from her_wrappers.commands import terminal
from her_wrappers.commands.terminal import (
    Address,
    Backend,
    CommandError,
    Environment,
    EnvOptions,
    InfoKeys,
    NotNegative,
    Policy,
    Positive,
    exits_with,
)
from her_wrappers.environments import make_env, present_folder
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from her_wrappers.collecting import Collector

MAX_EPISODES_PER_ROUND = 10
"""Largest number of episodes of a worker in a round."""


def record(
    env: Environment,
    *,
    out: Annotated[Path, arg(metavar="FOLDER")],
    episodes: Positive = 100,
    policy: str = "random",
    seed: NotNegative | None = None,
    option: EnvOptions = (),
    info_keys: InfoKeys = (),
    max_steps: Positive | None = None,
    workers: NotNegative = 0,
    backend: Backend = "process",
    address: Address = None,
) -> int:
    """Record episodes in an archive. Ctrl-C stops the recording and keeps the recorded episodes.

    For example:

    - her record her_envs/PointReach-v0 --out runs/reach
    - her record her_envs/BitFlipping-v0 -o n_bits=5 --episodes 1000 --out runs/bits --seed 0
    - her record her_envs/PointPush-v0 --policy my_agents:pusher --out runs/push
    - her record her_envs/PointPush-v0 --workers 4 --out runs/push

    Args:
        out: Folder of the archive; episodes are added to an existing one.
        episodes: Number of episodes.
        policy: Policy: random, or module:function.
        seed: Seed of the episodes and of the random policy; by default a random one.
        max_steps: Steps after which episodes are truncated; by default only the environment ends them.
        workers: Number of workers; 0 records in this process.
    """
    options = terminal.parse_options(option)
    made = make_env(env, **options)
    act = _RandomPolicy(made.action_space) if policy == "random" else terminal.import_policy(policy)
    with make_env(env, **options) as other:  # a seeded reset of made would seed its first episode
        keys = recorded_keys(other, info_keys)
    interrupted = False
    with _open_archive(out, made) as archive, terminal.progress("recording", episodes, "episodes") as advance:
        first = len(archive)
        first_seed = None if seed is None else seed + first
        source: Collector | EpisodeRecorder
        if workers:
            from her_wrappers.collecting import Collector

            # The workers import the user's modules from the current folder too.
            with exits_with(2, ImportError, OSError, TypeError, ValueError), present_folder():
                source = Collector(
                    partial(_make_limited_env, env, options, max_steps),
                    _OneEnvPolicy(act),
                    num_workers=workers,
                    backend=backend,
                    address=address,
                    seed=secrets.randbits(63) if first_seed is None else first_seed,
                    info_keys=keys,
                )
        else:
            made.action_space.seed(first_seed)
            source = EpisodeRecorder(made, archive, advance, info_keys=keys, max_episode_steps=max_steps)
        try:
            if isinstance(source, EpisodeRecorder):
                _play(source, act, seed, first + episodes, archive)
            else:
                _collect(
                    source, archive, episodes, min(MAX_EPISODES_PER_ROUND, -(-episodes // workers)), advance
                )
        except KeyboardInterrupt:
            interrupted = True
        finally:
            source.close()
    print(
        f"{'interrupted: ' if interrupted else ''}{len(archive) - first} episodes added; "
        f"{archive.path} has {len(archive)} episodes of {archive.num_steps} steps"
    )
    return 130 if interrupted else 0


def recorded_keys(env: gym.Env[Any, Any], keys: tuple[str, ...] = ()) -> list[str]:
    """Return the keys of the infos to record: ``keys``, and ``is_success`` if the environment has it.

    Args:
        env: An environment; it is reset with seed 0, and takes one random step.
        keys: Keys that the user chose.

    Raises:
        CommandError: The info of the step lacks one of ``keys``.
    """
    env.reset(seed=0)
    info = env.step(env.action_space.sample())[-1]
    for key in keys:
        if key not in info:
            raise CommandError(f"--info-keys must be keys of the infos, {sorted(info)}, got {key!r}")
    return list(dict.fromkeys([*(["is_success"] if "is_success" in info else []), *keys]))


@contextlib.contextmanager
def _open_archive(out: Path, env: gym.Env[Any, Any]) -> Iterator[EpisodeArchive]:
    """Open the archive, and close it at the end; end the command if it cannot be written."""
    try:
        archive = EpisodeArchive(out, env=env)
    except (OSError, CorruptFileError) as error:
        raise CommandError(f"cannot record to {out}: {error}", 3) from error
    except (TypeError, ValueError) as error:
        raise CommandError(f"cannot record to {out}: {error}") from error
    try:
        with archive:
            yield archive
    except (SinkError, OSError) as error:
        cause = error.__cause__ if isinstance(error, SinkError) else error
        raise CommandError(f"cannot record to {out}: {cause}", 3) from error


def _play(env: gym.Env[Any, Any], act: Policy, seed: int | None, total: int, archive: EpisodeArchive) -> None:
    """Play until the archive has ``total`` episodes; the seed of an episode is ``seed`` plus its number."""
    while (number := len(archive)) < total:
        observation, _ = env.reset(seed=None if seed is None else seed + number)
        ended = False
        while not ended and len(archive) < total:
            observation, _, terminated, truncated, _ = env.step(act(observation))
            ended = terminated or truncated


class _RandomPolicy:
    """Samples the actions of one environment from its action space."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self.seed = space.seed
        self._space = space

    def __call__(self, observation: Any) -> Any:
        return self._space.sample()


class _OneEnvPolicy:
    """A policy for one environment, used with a vector environment of one environment."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def seed(self, seed: int) -> None:
        """Seed the policy, if it has a method ``seed``."""
        if hasattr(self._policy, "seed"):
            self._policy.seed(seed)

    def __call__(self, observations: Any) -> Any:
        action = self._policy(map_tree(lambda leaf: leaf[0], observations))
        return map_tree(lambda leaf: np.asarray(leaf)[None], action)


def _collect(
    collector: Collector, archive: EpisodeArchive, episodes: int, per_round: int, advance: Callable[..., None]
) -> None:
    """Add a number of episodes to the archive."""
    from her_wrappers.collecting import CollectorError

    missing = episodes
    with exits_with(3, CollectorError):
        for each in collector.rounds(per_round):
            kept = each.episodes[:missing]
            archive.add_episodes(kept)
            for _ in range(len(kept)):
                advance()
            missing -= len(kept)
            if not missing:
                return


def _make_limited_env(name: str, options: dict[str, Any], max_steps: int | None) -> gym.Env[Any, Any]:
    """Make an environment; truncate its episodes after a number of steps, if one is given."""
    env = make_env(name, **options)
    return env if max_steps is None else gym.wrappers.TimeLimit(env, max_steps)
