"""``her watch``: show an environment with an agent, a policy or random actions."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
from tyro.conf import Positional, arg

from her_envs.canvas import Window
from her_wrappers.commands import terminal
from her_wrappers.commands.pictures import picture_of, require_movie, write_movie
from her_wrappers.commands.policies import given_policy, is_run, open_policy
from her_wrappers.commands.terminal import CommandError, EnvOptions, NotNegative, Policy, Positive

if TYPE_CHECKING:
    from her_agents.training.evaluation import EpisodeResult


def watch(
    target: Positional[Annotated[str | None, arg(metavar="TARGET")]] = None,
    *,
    option: EnvOptions = (),
    policy: str | None = None,
    env: str | None = None,
    recipe: str | None = None,
    episodes: Positive = 10,
    record: Path | None = None,
    show: bool = True,
    max_episode_steps: Positive | None = None,
    seed: NotNegative = 0,
    fps: Positive | None = None,
) -> None:
    """Show an environment with an agent, a policy or random actions, and measure the success rate.

    Press escape to stop.

    For example:

    - her watch her_envs/PointMaze-v0 -o layout=four_rooms
    - her watch her_envs/PointPush-v0 --policy my_agents:pusher --record push.gif
    - her watch runs/PointReach-v0-sac-0 --record reach.mp4
    - her watch runs/PointReach-v0-sac-0 --no-show --episodes 1000

    Args:
        target: An environment; or an agent, given as the folder of a run, a checkpoint or a policy file. The
            agent is shown in the environment of its run.
        policy: module:function, or the folder of a run, a checkpoint or a policy file; by default the agent
            of the target, or random actions if the target is an environment.
        env: The environment for an agent; by default the environment of its run.
        recipe: Show the trained policy of a recipe.
        episodes: Number of episodes.
        record: File to write, .gif or .mp4, instead of opening a window; no display is needed. MP4 needs
            imageio and PyAV.
        show: Whether to show pictures; results are always printed.
        max_episode_steps: Steps after which episodes are truncated; by default the run's limit, if any.
        seed: Seed of starts, goals and random actions.
        fps: Steps per second; by default render_fps of the environment, or 10 if it has none.
    """
    target = given_policy("TARGET (an environment or a run)", target, recipe)
    if recipe is not None and policy is not None:
        raise CommandError(f"--recipe {recipe} has a policy; remove --policy")
    if record is not None:
        require_movie(record)
    options = terminal.parse_options(option)
    if show or record:
        options["render_mode"] = "rgb_array"
    if is_run(target):
        policy = policy or target
    elif env is None:
        env, policy = target, policy or "random"
    else:
        raise CommandError(f"--env is for an agent, but TARGET is the environment {target}; remove --env")
    shown, act = open_policy(policy, env, options, max_episode_steps)
    shown.action_space.seed(seed)
    fps = fps or round(shown.metadata.get("render_fps") or 10)
    with contextlib.closing(shown):
        if record is not None:
            pictures: list[np.ndarray] = []
            _run(shown, act, episodes, seed, lambda caption: pictures.append(picture_of(shown)))
            write_movie(record, pictures, fps)
            print(f"{len(pictures)} pictures in {record}")
        elif not show:
            _run(shown, act, episodes, seed, lambda caption: None)
        else:
            with terminal.exits_with(3, RuntimeError):
                window = Window()
            with contextlib.closing(window):

                def show_step(caption: str) -> None:
                    if {"escape", "q"} & window.pressed_keys():
                        raise _Quit
                    window.show(picture_of(shown), caption, fps)

                _run(shown, act, episodes, seed, show_step)


class _Quit(Exception):  # noqa: N818 - not an error
    """The user closed the window, or pressed escape or q."""


def _run(env: gym.Env[Any, Any], act: Policy, episodes: int, seed: int, show: Callable[[str], None]) -> None:
    """Run episodes until the last one ends or the user stops, and print the results of complete episodes."""
    from her_agents.training.evaluation import play_episode

    results: list[EpisodeResult] = []

    def watch_step(result: EpisodeResult) -> None:
        show(f"episode {len(results) + 1} | {_text(result)}")

    with contextlib.suppress(_Quit):
        while len(results) < episodes:
            start = None if results else seed
            results.append(play_episode(env, act, start, watch_step, needs_flag=False))
            print(f"episode {len(results)}: {_text(results[-1])}")
    if results:
        success, returns, lengths, once = np.array([dataclasses.astuple(each) for each in results]).T
        print(
            f"{len(results)} episodes, success rate {success.mean():.2f}, success once {once.mean():.2f}, "
            f"return {returns.mean():.4g} from {returns.min():.4g} to {returns.max():.4g}, "
            f"length {lengths.mean():.4g} from {lengths.min():.4g} to {lengths.max():.4g}"
        )


def _text(result: EpisodeResult) -> str:
    success = "success" if result.success else "no success"
    return f"step {result.length} | return {result.total:.4g} | {success}"
