"""Targets of a diagnosis: archives, run folders, replay buffers, episodes, and environments, as a `Case`."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.checker.check import ignore_warnings, open_env
from her_wrappers.checker.exceptions import describe
from her_wrappers.checker.goal_calls import stack
from her_wrappers.checker.records import StepRecord
from her_wrappers.checker.replicas import close_safely
from her_wrappers.checker.rollout import Budget, roll_out
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.diagnosis.registry import Case, Row, SelfGoals, TrainingOptions
from her_wrappers.environments import make_env, present_folder
from her_wrappers.goal_interface import GoalInterface, env_name, env_spec
from her_wrappers.recording.archive import MANIFEST, EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.success_flag import flag_of
from her_wrappers.trees import STRINGS, leaf_arrays

if TYPE_CHECKING:
    from her_wrappers.checker.records import Rollout

CHUNK = 1000
"""Largest number of episodes that are concatenated in a block."""

PAIRS = 256
"""Number of pairs of goals whose rewards are computed, for equal goals and again for different goals."""

EPISODE_SHARE = 0.1
"""An episode that does not end stops after this share of the steps, so that several episodes begin."""


def open_target(
    target: Any, *, max_steps: int, seed: int, env_options: Mapping[str, Any] | None = None
) -> tuple[str, Case]:
    """Return the name of a target, and its case.

    Args:
        target: See `diagnose`.
        max_steps: Number of steps for which an environment is run.
        seed: Seed of the run of an environment.
        env_options: Arguments of an environment that is given by its name.

    Raises:
        BrokenModuleError: The module of an environment, or the making of the environment, raised an error.
        OSError: A file does not exist, or cannot be read.
        TypeError: The target is of another type, or is a vector environment.
        ValueError: A file is damaged, the target lacks episodes or goals, or an environment cannot be used.
    """
    if isinstance(target, str | Path):
        return _open_path(target) or _open_env_name(str(target), env_options or {}, max_steps, seed)
    if isinstance(target, EpisodeArchive):
        return str(target.path), Case(require_episodes(target.iter_shards(), f"the archive {target.path}"))
    if isinstance(target, HindsightReplayBuffer):
        return "replay buffer", Case(require_episodes(_blocks(target.episodes()), "the replay buffer"))
    if isinstance(target, gym.Env) or callable(target):
        return _open_environment(target, max_steps=max_steps, seed=seed)
    if isinstance(target, Episodes):
        return "episodes", Case(require_episodes([target], "the target"))
    if isinstance(target, Iterable):
        return "episodes", Case(require_episodes(_blocks(target), "the target"))
    raise TypeError(
        "target must be a path, an EpisodeArchive, a HindsightReplayBuffer, episodes or an environment, got "
        f"{type(target).__name__}"
    )


def require_episodes(blocks: Iterable[Episodes], name: str) -> Facts:
    """Return the facts of episodes.

    Args:
        blocks: The episodes.
        name: Name of the target, for the message.

    Raises:
        ValueError: ``blocks`` is empty, or the observations lack goals.
    """
    facts = Facts.of(blocks)
    if facts is None:
        raise ValueError(f"{name} has no complete episode; her doctor needs recorded episodes")
    return facts


def _blocks(episodes: Iterable[Any]) -> Iterator[Episodes]:
    source = iter(episodes)
    while chunk := list(islice(source, CHUNK)):
        for episode in chunk:
            if not isinstance(episode, Episode):
                raise TypeError(
                    f"all elements of target must be of type Episode, got {type(episode).__name__}"
                )
        yield from (Episodes.of(run) for _, run in groupby(chunk, _dtypes))


def _dtypes(episode: Episode) -> list[Any]:
    """Return the info keys and dtypes of an episode; strings of all lengths count as one dtype."""
    trees = (episode.observations, episode.actions, episode.rewards, episode.infos)
    dtypes = (leaf.dtype for tree in trees for leaf in leaf_arrays(tree))
    return [sorted(episode.infos), *(dtype.kind if dtype.kind in STRINGS else dtype for dtype in dtypes)]


def _open_path(target: str | Path) -> tuple[str, Case] | None:
    """Return the name and case of a file or folder; None if it does not exist."""
    path = Path(target)
    if path.is_file():
        saved = HindsightReplayBuffer.load(path)
        return str(target), Case(require_episodes(_blocks(saved.episodes()), f"the buffer {path}"))
    if (path / MANIFEST).exists():
        return str(target), Case(require_episodes(EpisodeArchive(path).iter_shards(), f"the archive {path}"))
    return (str(target), read_run(path)) if path.is_dir() else None


def _open_env_name(name: str, options: Mapping[str, Any], max_steps: int, seed: int) -> tuple[str, Case]:
    if name not in gym.registry and ":" not in name and not re.search(r"-v\d+$", name):
        raise FileNotFoundError(
            f"there is no file or folder {name}, and no environment of this name; expected an archive, a "
            "folder of her train, a saved buffer, or an environment"
        )
    with present_folder(), closing(make_env(name, disable_env_checker=True, **options)) as env:
        return _open_environment(env, max_steps=max_steps, seed=seed)


def read_run(folder: Path) -> Case:
    """Return the case of a run folder of `her train`: config, history, and the latest saved buffer.

    Args:
        folder: The run folder.

    Raises:
        OSError: A file cannot be read.
        ValueError: The folder is not that of a training, has neither evaluations nor saved episodes, or has a
            damaged file.
    """
    if not (folder / "config.json").exists():
        raise ValueError(
            f"{folder} is neither an archive nor a folder of her train: no {MANIFEST}, no config.json"
        )
    options = read_config(folder / "config.json")
    progress = folder / "progress.csv"
    history = read_progress(progress) if progress.exists() else []
    buffers = [
        (int(path.stem.removeprefix("buffer-")), path)
        for path in folder.glob("buffer-*.replay")
        if path.stem.removeprefix("buffer-").isdigit()
    ]
    facts = None
    if buffers:
        facts = Facts.of(_blocks(HindsightReplayBuffer.load(max(buffers)[1]).episodes()))
    if facts is None and not history:
        raise ValueError(
            f"{folder} has neither an evaluation nor a saved buffer; train for at least one epoch"
        )
    return Case(facts, options, history)


def read_config(path: Path) -> TrainingOptions:
    """Return the options that rules read from a ``config.json`` of `her train`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged.
    """
    try:
        return options_of_config(json.loads(path.read_text()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: it is not the config of a training ({error})") from error


def options_of_config(config: Mapping[str, Any]) -> TrainingOptions:
    """Return the options that rules read from a config of `her train`.

    Args:
        config: Options of the training by name, as in ``config.json``.

    Raises:
        AttributeError: ``env_kwargs`` is not a dict.
        KeyError: An option is missing.
        TypeError: ``gamma`` is not a number.
        ValueError: An option is out of range.
    """
    limit = config["env_kwargs"].get("max_steps")
    gamma = float(config["gamma"])
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must lie in [0, 1], got {gamma}")
    return TrainingOptions(
        gamma=gamma,
        clip_targets=bool(config["clip_targets"]),
        time_limit=None if limit is None else require_count("max_steps", limit, at_least=1),
        batch_size=require_count("batch_size", config["batch_size"], at_least=1),
        normalizes=True,
    )


def read_progress(path: Path) -> list[Row]:
    """Return the rows of a ``progress.csv`` of `her train`, without empty cells.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged.
    """
    try:
        with path.open(newline="") as file:
            rows = [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]
    except (AttributeError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is damaged: its cells must be numbers ({error})") from error
    if any("success_rate" not in row for row in rows):
        raise ValueError(f"{path} is damaged: each row must have a success_rate")
    return list(rows)


def _open_environment(target: Any, *, max_steps: int, seed: int) -> tuple[str, Case]:
    env, factory = open_env(target)
    try:
        if not isinstance(env, gym.Env):
            raise TypeError(
                "her doctor needs a single environment, got a vector environment; use gymnasium.make"
            )
        interface = GoalInterface.of(env)
        spec = env_spec(env)
        limit = None if spec is None else spec.max_episode_steps
        with ignore_warnings():
            rollout = _collect(env, max_steps, seed)
            facts = _facts_of_rollout(rollout, env_name(env))
            self_goals = _self_goals(rollout.steps, interface.compute_reward, seed)
        case = Case(facts, TrainingOptions(time_limit=limit), is_environment=True, self_goals=self_goals)
        return env_name(env), case
    finally:
        if factory is not None:
            close_safely(env)


def _collect(env: gym.Env[Any, Any], max_steps: int, seed: int) -> Rollout:
    """Run the policies of the checker: random, repeated and steering actions."""
    rollout = roll_out(env, Budget(max_steps, seed=seed, episode_share=EPISODE_SHARE))
    failure = rollout.failure
    if failure is not None:
        raise ValueError(
            f"{failure.call} of {env_name(env)} raised at {failure.place}: {describe(failure.error)}; "
            "`her check` finds the reason"
        ) from failure.error
    return rollout


def _facts_of_rollout(rollout: Rollout, name: str) -> Facts:
    try:
        return require_episodes(_blocks(episodes_of_rollout(rollout)), name)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} returned values that cannot be recorded ({error}); `her check` finds the reason"
        ) from error


def episodes_of_rollout(rollout: Rollout) -> Iterator[Episode]:
    """Yield the episodes of a rollout; an episode that was cut off is neither terminated nor truncated."""
    begin = 0
    steps = rollout.steps
    while begin < len(steps):
        end = begin + 1
        while end < len(steps) and steps[end].episode == steps[begin].episode:
            end += 1
        yield _episode(steps[begin:end])
        begin = end


def _episode(steps: Sequence[StepRecord]) -> Episode:
    flags = [flag_of(step.info) for step in steps]
    infos = {} if None in flags else {"is_success": np.array(flags, np.bool_)}
    return Episode(
        observations=stack([steps[0].before, *(step.observation for step in steps)]),
        actions=stack([step.action for step in steps]),
        rewards=np.array([float(step.reward) for step in steps]),
        terminated=bool(steps[-1].terminated),
        truncated=bool(steps[-1].truncated),
        infos=infos,
    )


def _self_goals(
    steps: Sequence[StepRecord], compute_reward: Callable[..., Any], seed: int
) -> SelfGoals | None:
    """Return rewards of equal and of different goals; None if compute_reward raises an exception."""
    rng = np.random.default_rng(seed)
    chosen = [steps[i] for i in rng.integers(len(steps), size=PAIRS)]
    others = [steps[i] for i in rng.integers(len(steps), size=PAIRS)]
    infos = [step.info for step in chosen]
    achieved = stack([step.observation["achieved_goal"] for step in chosen])
    desired = stack([step.observation["desired_goal"] for step in others])
    try:
        equal, different = (
            np.asarray(compute_reward(achieved, goals, infos), np.float64) for goals in (achieved, desired)
        )
    except Exception:  # of the environment; `her check` reports it
        return None
    return SelfGoals(equal, different)


def with_given(case: Case, **given: Any) -> Case:
    """Return a copy of a case with other options.

    Args:
        case: The case.
        **given: Fields of `TrainingOptions`; None keeps the option of the case.
    """
    known = {name: value for name, value in given.items() if value is not None}
    return replace(case, options=replace(case.options, **known))
