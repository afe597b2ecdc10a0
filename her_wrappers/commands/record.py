"""``her record``: episodes of an environment, acted by a policy, into an archive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import CorruptFileError
from her_wrappers.collecting import Collector
from her_wrappers.commands.make import EnvOptions, Policy, load_policy, make_env, parse_options
from her_wrappers.commands.record_rounds import RandomPolicy, make_collector, record_rounds
from her_wrappers.commands.terminal import fail
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.recording.sinks import SinkError


def record(
    env_id: Annotated[str, typer.Argument(metavar="ID", help="An environment's id; `her envs` lists ours.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the archive; one that exists is added to.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to record.")] = 100,
    policy: Annotated[str, typer.Option(help="What acts: random, or module:function.")] = "random",
    seed: Annotated[int | None, typer.Option(min=0, help="Seeds environment and random policy.")] = None,
    option: EnvOptions = None,
    info: Annotated[
        list[str] | None, typer.Option(help="An info to record too; is_success is, where there is one.")
    ] = None,
    max_episode_steps: Annotated[
        int | None, typer.Option(min=1, help="Cut longer episodes into several.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Number of workers; 0 records in this process.", metavar="N")
    ] = 0,
    backend: Annotated[str, typer.Option(help="Where workers run: process, ray or local.")] = "process",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, for --backend ray.")] = None,
) -> None:
    """Record episodes into an archive. Ctrl-C ends early and keeps what was recorded.

    For example:

    - `her record her_envs/PointReach-v0 --out runs/reach`
    - `her record her_envs/BitFlipping-v0 -o n_bits=5 --episodes 1000 --out runs/bits --seed 0`
    - `her record her_envs/PointPush-v0 --policy my_agents:pusher --out runs/push`
    - `her record her_envs/PointPush-v0 --workers 4 --out runs/push`
    """
    options = parse_options(option)
    env = make_env(env_id, **options)
    act = load_policy(policy, env.action_space)
    with make_env(env_id, **options) as other:  # or a seeded look would fix the starts of unseeded episodes
        keys = info_keys(other, info or [])
    with _archive(out, env) as archive, _progress(episodes) as advance:
        recorder = EpisodeRecorder(env, archive, advance, info_keys=keys, max_episode_steps=max_episode_steps)
        first = len(archive)
        first_seed = None if seed is None else seed + first
        if workers:
            collector = make_collector(
                env_id,
                options,
                RandomPolicy(env.action_space) if policy == "random" else act,
                num_workers=workers,
                backend=backend,
                address=address,
                seed=first_seed,
                info_keys=keys,
                max_episode_steps=max_episode_steps,
            )
            with _interruptible(collector) as outcome:
                record_rounds(collector, archive, episodes, workers, advance)
        else:
            env.action_space.seed(first_seed)
            with _interruptible(recorder) as outcome:
                _play(recorder, act, seed, first + episodes, archive)
    _tell(archive, first, outcome)


class _Outcome:
    """How recording went.

    Attributes:
        interrupted: Whether by Ctrl-C.
    """

    interrupted = False


@contextlib.contextmanager
def _interruptible(recorder: EpisodeRecorder | Collector) -> Iterator[_Outcome]:
    """Close the recorder or collector at the end, and note Ctrl-C."""
    outcome = _Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        outcome.interrupted = True
    finally:
        recorder.close()


def _tell(archive: EpisodeArchive, first: int, outcome: _Outcome) -> None:
    """Say what was recorded.

    Raises:
        typer.Exit: It was interrupted.
    """
    typer.echo(
        f"{'interrupted: ' if outcome.interrupted else ''}{len(archive) - first} episodes added; "
        f"{archive.path} has {len(archive)}, of {archive.num_steps} steps"
    )
    if outcome.interrupted:
        raise typer.Exit(130)  # as a shell says of what Ctrl-C ended


def info_keys(env: gym.Env[Any, Any], wanted: list[str]) -> list[str]:
    """Return the infos to record, after a look at what a step brings.

    Raises:
        typer.BadParameter: One that is wanted is not there.
    """
    env.reset(seed=0)
    info = env.step(env.action_space.sample())[-1]
    for key in wanted:
        if key not in info:
            raise typer.BadParameter(f"info has no {key!r}; it has {sorted(info)}")
    return list(dict.fromkeys([*(["is_success"] if "is_success" in info else []), *wanted]))


@contextlib.contextmanager
def _archive(out: Path, env: gym.Env[Any, Any]) -> Iterator[EpisodeArchive]:
    """Open the archive, and close it at the end.

    Raises:
        typer.BadParameter: The archive is of another environment.
    """
    try:
        archive = EpisodeArchive(out, env=env)
    except (OSError, CorruptFileError) as error:
        fail(f"cannot record to {out}: {error}")
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(f"cannot record to {out}: {error}") from error
    try:
        with _one_sentence(out, SinkError):
            yield archive
    finally:
        with _one_sentence(out, OSError):
            archive.close()


@contextlib.contextmanager
def _one_sentence(out: Path, *errors: type[Exception]) -> Iterator[None]:
    """End the command if the archive cannot be written."""
    try:
        yield
    except errors as error:
        fail(f"cannot record to {out}: {error.__cause__ if isinstance(error, SinkError) else error}")


def _play(env: gym.Env[Any, Any], act: Policy, seed: int | None, total: int, archive: EpisodeArchive) -> None:
    """Play until there are enough episodes; the seed of each is the run's and its number in the archive."""
    while (number := len(archive)) < total:
        observation, _ = env.reset(seed=None if seed is None else seed + number)
        ended = False
        while not ended and len(archive) < total:
            observation, _, terminated, truncated, _ = env.step(act(observation))
            ended = terminated or truncated


@contextlib.contextmanager
def _progress(episodes: int) -> Iterator[Callable[[Any], None]]:
    """Show a bar on the terminal, and give the sink that moves it."""
    columns = (TextColumn("recording"), BarColumn(), MofNCompleteColumn(), TextColumn("episodes"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=episodes)
        yield lambda episode: progress.advance(task)
