"""``her record``: record episodes of an environment and a policy in an archive."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from tyro.conf import FlagCreatePairsOff, UseAppendAction, arg

from her_wrappers import SinkError
from her_wrappers.arguments import require_number
from her_wrappers.commands import terminal
from her_wrappers.commands.policies import is_run, load_run
from her_wrappers.environments import import_callable, make_env, present_folder
from her_wrappers.episode_limit import limit_episodes
from her_wrappers.noise import add_noise
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.success_flag import FLAG_NAMES
from her_wrappers.trees import map_tree

MAX_EPISODES_PER_ROUND = 10
"""Largest number of episodes of a worker in a round."""

MAX_TRIES = 10
"""Largest number of episodes that are played for each success that ``--only-successes`` has to record."""


def record(
    env: terminal.Environment,
    *,
    out: Annotated[Path, arg(metavar="FOLDER")],
    episodes: terminal.Positive = 100,
    policy: str = "random",
    noise: float = 0.0,
    only_successes: FlagCreatePairsOff[bool] = False,
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
    - her record her_envs/PointReach-v0 --policy runs/PointReach-v0-sac-0 --out runs/solved
    - her record her_envs/PointPush-v0 --policy pusher.py:push --noise 0.1 --only-successes --out demos
    - her record her_envs/PointPush-v0 --workers 4 --out runs/push

    Args:
        out: Folder of the archive; episodes are added to an existing one.
        episodes: Number of episodes.
        policy: random, the folder of a run, a checkpoint, a policy file, module:function or
            path/to/file.py:function.
        noise: Noise of the policy's actions: a standard deviation relative to half of their range, or, for
            actions without a range, the probability of a random action.
        only_successes: Record only episodes whose last step is a success.
        seed: Seed of the episodes, of the noise and of the random policy; by default a random one.
        info_keys: Entry of the infos that is recorded.
        max_episode_steps: Steps after which episodes are truncated; by default only the environment ends
            episodes.
        workers: Number of workers; 0 records in this process.
        deterministic: Whether workers check that the environment repeats its episodes; some simulators
            cannot.
    """
    options = terminal.parse_options(option)
    made = make_env(env, **options)
    act = None
    if is_run(policy):
        act = load_run(policy)[0](made)
    elif policy != "random":
        act = import_callable(policy, "--policy", "random, a run, or module:function")
    with make_env(env, **options) as other:  # a seeded reset of made would seed its first episode
        keys = recorded_keys(other, info_keys)
    flag = next((key for key in FLAG_NAMES if key in keys), None) if only_successes else ""
    if flag is None:
        raise terminal.CommandError("--only-successes needs a success flag in the infos, such as is_success")
    with terminal.exits_with(2, TypeError, ValueError):
        require_number("--noise", noise, "[0, inf)")
        archive = EpisodeArchive(out, env=made)
    first, interrupted = len(archive), False
    first_seed = None if seed is None else seed + first
    try:
        with archive, terminal.progress("recording", episodes, "episodes") as advance:
            recording = _Recording(archive, episodes, flag, advance)
            if workers:
                from her_wrappers.collecting import Collector, CollectorError

                # The workers import the user's modules from the current folder too.
                with terminal.exits_with(2, ImportError, OSError, TypeError, ValueError), present_folder():
                    collector = Collector(
                        partial(_make_limited_env, env, options, max_episode_steps),
                        _Actor(act, made.action_space, noise),
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
                        recording.add_episodes(each.episodes)
                        if recording.is_complete():
                            break
            else:
                made.action_space.seed(first_seed)
                limited = limit_episodes(made, max_episode_steps)
                play = _Actor(act, made.action_space, noise)
                with EpisodeRecorder(limited, recording, info_keys=keys) as recorder:
                    while not recording.is_complete():
                        number = recording.played
                        episode_seed = None if first_seed is None else first_seed + number
                        observation, _ = recorder.reset(seed=episode_seed)
                        play.begin(episode_seed)
                        while number == recording.played:
                            observation, *_ = recorder.step(play.act(observation))
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


class _Recording:
    """Adds episodes to an archive until there are enough; optionally, only successful episodes."""

    def __init__(self, archive: EpisodeArchive, count: int, flag: str, advance: Callable[[], None]) -> None:
        self._archive, self._count, self._flag, self._advance = archive, count, flag, advance
        self._added = self.played = 0

    def add_episodes(self, episodes: Sequence[Episode]) -> None:
        """Add episodes, up to the last one that is needed."""
        self.played += len(episodes)
        kept = [each for each in episodes if not self._flag or each.infos[self._flag][-1]]
        for each in kept[: self._count - self._added]:
            self._archive.add_episode(each)
            self._added += 1
            self._advance()

    def is_complete(self) -> bool:
        """Return whether there are enough episodes; raise CommandError if too few are successes."""
        if self._added < self._count and self.played >= MAX_TRIES * self._count:
            successes = f"only {self._added} of {self.played} episodes are successes"
            raise terminal.CommandError(f"{successes}; improve the policy, or lower --noise", 3)
        return self._added == self._count


class _Actor:
    """A policy with noise, or random actions. Called as a function, it acts in one vectorized environment."""

    def __init__(self, policy: terminal.Policy | None, space: gym.Space[Any], noise: float) -> None:
        self._policy, self._space, self._noise = policy, space, noise
        self._rng = np.random.default_rng()

    def begin(self, seed: int | None) -> None:
        """Begin an episode: call the policy's method ``reset``, if it has one, and seed the noise."""
        getattr(self._policy, "reset", lambda: None)()
        self._rng = np.random.default_rng(seed)

    def seed(self, seed: int) -> None:
        """Begin an episode; seed the random actions, or the policy if it has a method ``seed``."""
        self.begin(seed)
        getattr(self._policy or self._space, "seed", int)(seed)

    def act(self, observation: Any) -> Any:
        """Return the action for the observation of one environment."""
        if self._policy is None:
            return self._space.sample()
        action = self._policy(observation)
        return add_noise(action, self._space, self._noise, self._rng) if self._noise else action

    def __call__(self, observations: Any) -> Any:
        action = self.act(map_tree(lambda leaf: leaf[0], observations))
        return map_tree(lambda leaf: np.asarray(leaf)[None], action)


def _make_limited_env(name: str, options: dict[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
    """Make an environment whose episodes end."""
    return limit_episodes(make_env(name, **options), max_episode_steps)
