"""``her play``: play an environment with the keyboard, or show a policy, in a window or as a GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer

from her_wrappers.commands.keyboard import key_map
from her_wrappers.commands.make import EnvOptions, Policy, load_policy, parse_options
from her_wrappers.commands.screen import Film, Quit, Screen, picture_of
from her_wrappers.environments import make_env
from her_wrappers.goal_interface import env_name


def play(
    env_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of an environment; `her envs` lists the bundled ones.")
    ],
    *,
    policy: Annotated[str | None, typer.Option(help="Policy to watch: random, or module:function.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write a GIF instead of opening a window; works without a display.")
    ] = None,
    option: EnvOptions = None,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 3,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the first episode and of the random policy.")
    ] = None,
    fps: Annotated[int, typer.Option(min=1, help="Steps per second.")] = 10,
) -> None:
    """Play an environment with the keyboard, watch a policy, or record a GIF of a policy.

    Keys: arrow keys move a point; number keys, or left, right and space, flip bits; escape quits.

    For example:

    - `her play her_envs/PointMaze-v0 -o layout=four_rooms`
    - `her play her_envs/BitFlipping-v0 --policy random`
    - `her play her_envs/PointPush-v0 --policy my_agents:pusher --record push.gif`
    """
    env = make_env(env_id, render_mode="rgb_array", **parse_options(option))
    env.action_space.seed(seed)
    screen: Screen | Film = Film(record, fps) if record else Screen(fps)
    try:
        acts = _chosen_policy(env, policy, screen)
        for number in range(episodes):
            _play_episode(env, acts, screen, number, seed)
    except Quit:
        typer.echo("bye")
    finally:
        screen.close()
        env.close()


def _chosen_policy(env: gym.Env[Any, Any], name: str | None, screen: Screen | Film) -> Policy:
    if isinstance(screen, Film):
        return load_policy(name or "random", env.action_space)
    if name is None:
        return _keyboard_policy(env, screen)
    return _watched(load_policy(name, env.action_space), screen)


def _keyboard_policy(env: gym.Env[Any, Any], screen: Screen) -> Policy:
    """Return a policy that waits until a key of the player chooses an action."""
    keys = key_map(env.action_space)
    typer.echo(f"{keys.help}; escape quits")

    def act(observation: Any) -> Any:
        while (action := keys.action(screen.keys())) is None:
            screen.hint = keys.hint
            screen.refresh()
        return action

    return act


def _watched(policy: Policy, screen: Screen) -> Policy:
    """Return ``policy`` with a check of the keys before each action, so that the player can quit."""

    def act(observation: Any) -> Any:
        screen.keys()
        return policy(observation)

    return act


def _play_episode(
    env: gym.Env[Any, Any], policy: Policy, screen: Screen | Film, number: int, seed: int | None
) -> None:
    """Play one episode and print its result."""
    observation, info = env.reset(seed=None if seed is None else seed + number)
    steps, total, ended = 0, 0.0, False
    screen.show(picture_of(env), _caption(env, steps, total, info))
    while not ended:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        steps, total, ended = steps + 1, total + float(reward), terminated or truncated
        screen.show(picture_of(env), _caption(env, steps, total, info))
    typer.echo(f"episode {number + 1}: {_caption(env, steps, total, info)}")


def _caption(env: gym.Env[Any, Any], steps: int, total: float, info: dict[str, Any]) -> str:
    success = f" | {'success' if info['is_success'] else 'no success'}" if "is_success" in info else ""
    return f"{env_name(env)} | step {steps} | return {total:.4g}{success}"
