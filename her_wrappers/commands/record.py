"""``her record``: record episodes of an environment and a policy in an archive."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from tyro.conf import UseAppendAction, arg

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import SinkError
from her_wrappers.commands import terminal
from her_wrappers.environments import make_env, present_folder
from her_wrappers.episode_limit import limit_episodes
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.trees import map_tree

MAX_EPISODES_PER_ROUND = 10
"""Largest number of episodes of a worker in a round."""


def record(
    env: terminal.Environment,
    *,
    out: Annotated[Path, arg(metavar="FOLDER")],
    episodes: terminal.Positive = 100,
    policy: str = "random",
    seed: terminal.NotNegative | None = None,
    option: terminal.EnvOptions = (),
    info_keys: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="KEY")] = (),
    max_episode_steps: terminal.Positive | None = None,
    workers: terminal.NotNegative = 0,
    backend: terminal.Backend = "process",
    address: terminal.Address = None,
    deterministic: bool = True,
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
        info_keys: Entry of the infos that is recorded.
        max_episode_steps: Steps after which episodes are truncated; by default only the environment ends
            them.
        workers: Number of workers; 0 records in this process.
        deterministic: Whether workers check that the environment repeats its episodes; some simulators
            cannot.
    """
    options = terminal.parse_options(option)
    made = make_env(env, **options)
    act = None
    if policy != "random":
        act = terminal.import_callable(policy, "--policy", "random or module:function")
    with make_env(env, **options) as other:  # a seeded reset of made would seed its first episode
        keys = recorded_keys(other, info_keys)
    with terminal.exits_with(2, TypeError, ValueError):
        archive = EpisodeArchive(out, env=made)
    first, interrupted = len(archive), False
    total = first + episodes
    first_seed = None if seed is None else seed + first
    try:
        with archive, terminal.progress("recording", episodes, "episodes") as advance:
            if workers:
                from her_wrappers.collecting import Collector, CollectorError

                # The workers import the user's modules from the current folder too.
                with terminal.exits_with(2, ImportError, OSError, TypeError, ValueError), present_folder():
                    collector = Collector(
                        partial(_make_limited_env, env, options, max_episode_steps),
                        _WorkerPolicy(act, made.action_space),
                        num_workers=workers,
                        backend=backend,
                        address=address,
                        seed=secrets.randbits(63) if first_seed is None else first_seed,
                        info_keys=keys,
                        deterministic=deterministic,
                    )
                per_round = min(MAX_EPISODES_PER_ROUND, -(-episodes // workers))
                with collector, terminal.exits_with(3, CollectorError):
                    for each in collector.rounds(per_round):
                        added = each.episodes[: total - len(archive)]
                        archive.add_episodes(added)
                        for _ in range(len(added)):
                            advance()
                        if len(archive) == total:
                            break
            else:
                made.action_space.seed(first_seed)
                limited = limit_episodes(made, max_episode_steps)
                with EpisodeRecorder(limited, archive, advance, info_keys=keys) as recorder:
                    while (number := len(archive)) < total:
                        observation, _ = recorder.reset(seed=None if seed is None else seed + number)
                        while number == len(archive):
                            action = made.action_space.sample() if act is None else act(observation)
                            observation, *_ = recorder.step(action)
    except KeyboardInterrupt:
        interrupted = True
    except (SinkError, OSError) as error:
        cause = error.__cause__ if isinstance(error, SinkError) else error
        raise terminal.CommandError(f"cannot record to {out}: {cause}", 3) from error
    print(
        f"{'interrupted: ' if interrupted else ''}{len(archive) - first} episodes added; "
        f"{archive.path} has {len(archive)} episodes of {archive.num_steps} steps"
    )
    return 130 if interrupted else 0


def recorded_keys(env: gym.Env[Any, Any], keys: tuple[str, ...] = ()) -> list[str]:
    """Return the keys of the infos to record: ``keys``, and ``is_success`` if a random step of env has it."""
    env.reset(seed=0)
    info = env.step(env.action_space.sample())[-1]
    for key in keys:
        if key not in info:
            raise terminal.CommandError(f"--info-keys must be keys of the infos, {sorted(info)}, got {key!r}")
    return list(dict.fromkeys([*(["is_success"] if "is_success" in info else []), *keys]))


class _WorkerPolicy:
    """A policy of one environment, None for random actions, in a vector environment of one environment."""

    def __init__(self, policy: terminal.Policy | None, space: gym.Space[Any]) -> None:
        self._policy = policy
        self._space = space

    def seed(self, seed: int) -> None:
        """Seed the random actions, or the policy if it has a method ``seed``."""
        getattr(self._policy or self._space, "seed", int)(seed)

    def __call__(self, observations: Any) -> Any:
        if self._policy is None:
            action = self._space.sample()
        else:
            action = self._policy(map_tree(lambda leaf: leaf[0], observations))
        return map_tree(lambda leaf: np.asarray(leaf)[None], action)


def _make_limited_env(name: str, options: dict[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
    """Make an environment whose episodes end."""
    return limit_episodes(make_env(name, **options), max_episode_steps)
