"""``her record``: record episodes of an environment and a policy in an archive."""

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
from her_wrappers.commands.make import EnvOptions, Policy, load_policy, parse_options
from her_wrappers.commands.record_rounds import RandomPolicy, make_collector, record_rounds
from her_wrappers.commands.terminal import fail
from her_wrappers.environments import make_env
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.recording.sinks import SinkError


def record(
    env_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of an environment; `her envs` lists the bundled ones.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the archive; episodes are added to an existing one.")],
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 100,
    policy: Annotated[str, typer.Option(help="Policy: random, or module:function.")] = "random",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the episodes and of the random policy.")
    ] = None,
    option: EnvOptions = None,
    info: Annotated[
        list[str] | None,
        typer.Option(help="Key of an info to record; is_success is recorded too if it exists."),
    ] = None,
    max_episode_steps: Annotated[
        int | None, typer.Option(min=1, help="Truncate episodes after this number of steps.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Number of workers; 0 records in this process.", metavar="N")
    ] = 0,
    backend: Annotated[str, typer.Option(help="Where workers run: process, ray or local.")] = "process",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, for --backend ray.")] = None,
) -> None:
    """Record episodes in an archive. Ctrl-C stops the recording and keeps the recorded episodes.

    For example:

    - `her record her_envs/PointReach-v0 --out runs/reach`
    - `her record her_envs/BitFlipping-v0 -o n_bits=5 --episodes 1000 --out runs/bits --seed 0`
    - `her record her_envs/PointPush-v0 --policy my_agents:pusher --out runs/push`
    - `her record her_envs/PointPush-v0 --workers 4 --out runs/push`
    """
    options = parse_options(option)
    env = make_env(env_id, **options)
    act = load_policy(policy, env.action_space)
    with make_env(env_id, **options) as other:  # a seeded reset of env would seed its first episode
        keys = info_keys(other, info or [])
    with _archive(out, env) as archive, _progress(episodes) as advance:
        recorder = EpisodeRecorder(env, archive, advance, info_keys=keys, max_episode_steps=max_episode_steps)
        first, exit_code = len(archive), 0
        first_seed = None if seed is None else seed + first
        collector = (
            None
            if not workers
            else make_collector(
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
        )
        try:
            if collector is None:
                env.action_space.seed(first_seed)
                _play(recorder, act, seed, first + episodes, archive)
            else:
                record_rounds(collector, archive, episodes, workers, advance)
        except KeyboardInterrupt:
            exit_code = 130  # as shells report a command that Ctrl-C ended
        finally:
            (recorder if collector is None else collector).close()
    typer.echo(
        f"{'interrupted: ' if exit_code else ''}{len(archive) - first} episodes added; "
        f"{archive.path} has {len(archive)} episodes of {archive.num_steps} steps"
    )
    raise typer.Exit(exit_code)


def info_keys(env: gym.Env[Any, Any], keys: list[str]) -> list[str]:
    """Return the keys of the infos to record: ``keys``, and ``is_success`` if the environment has it.

    Args:
        env: An environment; it is reset with seed 0, and takes one random step.
        keys: Keys that the user chose.

    Raises:
        typer.BadParameter: The info of the step lacks one of ``keys``.
    """
    env.reset(seed=0)
    info = env.step(env.action_space.sample())[-1]
    for key in keys:
        if key not in info:
            raise typer.BadParameter(f"--info must be a key of the infos, one of {sorted(info)}, got {key!r}")
    return list(dict.fromkeys([*(["is_success"] if "is_success" in info else []), *keys]))


@contextlib.contextmanager
def _archive(out: Path, env: gym.Env[Any, Any]) -> Iterator[EpisodeArchive]:
    """Open the archive, and close it at the end; end the command if it cannot be written."""
    try:
        archive = EpisodeArchive(out, env=env)
    except (OSError, CorruptFileError) as error:
        fail(f"cannot record to {out}: {error}")
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(f"cannot record to {out}: {error}") from error
    try:
        with archive:
            yield archive
    except (SinkError, OSError) as error:
        fail(f"cannot record to {out}: {error.__cause__ if isinstance(error, SinkError) else error}")


def _play(env: gym.Env[Any, Any], act: Policy, seed: int | None, total: int, archive: EpisodeArchive) -> None:
    """Play until the archive has ``total`` episodes; the seed of an episode is ``seed`` plus its number."""
    while (number := len(archive)) < total:
        observation, _ = env.reset(seed=None if seed is None else seed + number)
        ended = False
        while not ended and len(archive) < total:
            observation, _, terminated, truncated, _ = env.step(act(observation))
            ended = terminated or truncated


@contextlib.contextmanager
def _progress(episodes: int) -> Iterator[Callable[[Any], None]]:
    """Show a progress bar, and yield the sink that advances it by one episode."""
    columns = (TextColumn("recording"), BarColumn(), MofNCompleteColumn(), TextColumn("episodes"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=episodes)
        yield lambda episode: progress.advance(task)
