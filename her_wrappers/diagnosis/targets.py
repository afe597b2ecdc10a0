"""Read the target of a diagnosis (run folder, recorded episodes, buffer or environment) as `Facts`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.check import ignore_warnings, open_env
from her_wrappers.checker.goal_calls import stack
from her_wrappers.checker.records import StepRecord
from her_wrappers.checker.replicas import close_safely
from her_wrappers.checker.rollout import Budget, roll_out
from her_wrappers.data.text import parse_file, read_progress
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.goals.environments import make_env, present_folder
from her_wrappers.goals.interface import env_name, env_spec
from her_wrappers.goals.success_flag import flag_of
from her_wrappers.integrations.recordings import LEROBOT_INFO, SB3_ADVICE, SB3_FILES, open_episodes
from her_wrappers.recording.archive import MANIFEST, EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.goal_selection import DEFAULT_SAMPLED_GOALS, ORIGINAL
from her_wrappers.support.arguments import require_count, require_gamma
from her_wrappers.support.error_texts import describe

CONFIG, PROGRESS = "config.json", "progress.csv"  # names of the files of a run folder


def read_target(
    target: Any, *, max_steps: int = 3000, seed: int = 0, env_options: Mapping[str, Any] | None = None
) -> Facts:
    """Return the facts of ``target``. `make_env` gets ``env_options``; the others are as in `diagnose`."""
    if isinstance(target, str | Path):
        return _read_name(str(target), max_steps, seed, env_options or {})
    if isinstance(target, HindsightReplayBuffer):
        return _facts_of_episodes("replay buffer", target.episodes())
    if isinstance(target, EpisodeArchive):  # before functions, since an archive is a sink
        return _facts_of_episodes(str(target.path), target)
    if isinstance(target, gym.Env) or callable(target):
        env, factory = open_env(target)
        try:
            return _run_environment(env, max_steps, seed)
        finally:
            if factory is not None:
                close_safely(env)
    if isinstance(target, Iterable):
        return _facts_of_episodes("episodes", target)
    raise TypeError(
        "target must be a path, an EpisodeArchive, a HindsightReplayBuffer, episodes or an environment, got "
        f"{type(target).__name__}"
    )


def _facts_of_episodes(name: str, episodes: Iterable[Episode], **others: Any) -> Facts:
    facts = Facts.of(name, _blocks(episodes), **others)
    if not len(facts):
        raise ValueError(f"cannot diagnose {name}: at least one complete episode is needed, got none")
    return facts


def _blocks(episodes: Iterable[Episode]) -> Iterator[Episodes]:
    """Yield the episodes in blocks, since all episodes together can need too much memory."""
    if isinstance(episodes, EpisodeArchive):
        yield from episodes.iter_shards()
    elif isinstance(episodes, Episodes):
        yield episodes
    else:
        source = iter(episodes)
        while chunk := list(islice(source, 1000)):
            yield Episodes.of(chunk)


def _read_name(name: str, max_steps: int, seed: int, env_options: Mapping[str, Any]) -> Facts:
    """Return the facts of a run folder of `her train`, of recorded episodes, or of an environment."""
    path = Path(name)
    if (path / CONFIG).exists() and not (path / MANIFEST).exists():
        return _read_run(path)
    log = path if path.name == PROGRESS else path / PROGRESS
    is_of_sb3 = not any((log.parent / each).exists() for each in (MANIFEST, "latest.pt"))
    if log.exists() and is_of_sb3:
        return Facts.of(name, (), history=read_progress(log))
    if path.is_dir() and not any((path / each).exists() for each in (MANIFEST, LEROBOT_INFO)):
        raise ValueError(
            f"{path} is neither an archive nor a run folder of `her train`: the folder has neither "
            f"{MANIFEST} nor {CONFIG}"
            + (SB3_ADVICE if SB3_FILES & {each.suffix for each in path.iterdir()} else "")
        )
    if path.exists():
        return _facts_of_episodes(name, open_episodes(name))
    if ":" not in name and name not in gym.registry:
        try:
            return _facts_of_episodes(name, open_episodes(name))
        except FileNotFoundError as error:
            # For an unknown id with a version, Gymnasium's error message names similar ids.
            if not re.search(r"-v\d+$", name):
                raise FileNotFoundError(
                    f"there is no file or folder {name}, and no environment or dataset with this name; "
                    "expected an archive, a run folder of `her train`, a saved buffer, or an environment"
                ) from error
    with present_folder(), closing(make_env(name, disable_env_checker=True, **env_options)) as env:
        return _run_environment(env, max_steps, seed)


def _read_run(path: Path) -> Facts:
    """Return the facts of a run folder of `her train`."""
    options = parse_file(
        path / CONFIG, lambda text: options_of_config(json.loads(text)), "the config of a run"
    )
    history = read_progress(path / PROGRESS) if (path / PROGRESS).exists() else []
    numbers = [each.stem.removeprefix("buffer-") for each in path.glob("buffer-*.replay")]
    latest = max(filter(str.isdigit, numbers), key=int, default="")
    is_on_device = options["options"]["on_device"][0]  # whose buffer has steps, not episodes
    has_episodes = latest and not is_on_device
    saved = HindsightReplayBuffer.load(path / f"buffer-{latest}.replay").episodes() if has_episodes else ()
    facts = Facts.of(str(path), _blocks(saved), history=history, **options)
    if not len(facts) and not history:
        raise ValueError(f"{path} has neither an evaluation nor a saved buffer; train for at least one epoch")
    return facts


def options_of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Facts` that follow from a run's config; a damaged config can raise any error."""
    with_defaults = import_module("her_agents.training.config").with_defaults  # only runs need her_agents
    limits = config["env_kwargs"].get("max_steps"), config.get("max_episode_steps")
    limit = min((each for each in limits if each is not None), default=None)
    strategy = config.get("goal_selection_strategy", "future")
    shares = strategy if isinstance(strategy, dict) else {strategy: 1.0}
    relabeled = float(sum(share for name, share in shares.items() if name not in {ORIGINAL, "desired"}))
    if ORIGINAL not in shares:
        sampled = require_count(
            "n_sampled_goal", config.get("n_sampled_goal", DEFAULT_SAMPLED_GOALS), at_least=1
        )
        relabeled *= sampled / (sampled + 1)
    unjudged = {"updates_per_step"} if config.get("on_device") else set()  # usual values are per environment
    return {
        "gamma": require_gamma(config["gamma"]),
        "clip_targets": bool(config["clip_targets"]),
        "time_limit": None if limit is None else require_count("max_steps", limit, at_least=1),
        "batch_size": require_count("batch_size", config["batch_size"], at_least=1),
        "normalizes": True,
        "relabeled_share": relabeled if config.get("her", True) else 0.0,
        "options": {name: each for name, each in with_defaults(config).items() if name not in unjudged},
    }


def _run_environment(env: gym.Env[Any, Any], max_steps: int, seed: int) -> Facts:
    """Run the environment with random, repeated and goal-seeking actions, and return the facts."""
    if not isinstance(env, gym.Env):
        raise TypeError("target is a vector environment, but must be a single one; use gymnasium.make()")
    spec, name = env_spec(env), env_name(env)
    with ignore_warnings():
        # An episode that does not end is stopped after a tenth of all steps, so that others can begin.
        rollout = roll_out(env, Budget(max_steps, seed=seed, episode_share=0.1))
        failure, steps = rollout.failure, rollout.steps
        if failure is not None:
            raise ValueError(
                f"{failure.call} of {name} in {failure.place} raised {describe(failure.error)}; run "
                "`her check` on this environment"
            ) from failure.error
        episodes = (_episode(list(group)) for _, group in groupby(steps, lambda step: step.episode))
        try:
            return _facts_of_episodes(
                name,
                episodes,
                time_limit=None if spec is None else spec.max_episode_steps,
                is_environment=True,
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} returned values that cannot be diagnosed: {error}; run `her check` on this "
                "environment"
            ) from error


def _episode(steps: Sequence[StepRecord]) -> Episode:
    """Return the steps of one episode as an `Episode`, which need not be terminated or truncated."""
    flags = [flag_of(step.info) for step in steps]
    return Episode(
        observations=stack([steps[0].before, *(step.observation for step in steps)]),
        actions=stack([step.action for step in steps]),
        rewards=np.array([float(step.reward) for step in steps]),
        terminated=bool(steps[-1].terminated),
        truncated=bool(steps[-1].truncated),
        infos={"is_success": np.array(flags, np.float64)},  # NaN instead of None
    )
