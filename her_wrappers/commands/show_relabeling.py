"""``her show-relabeling``: a failed episode, before and after relabeling."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from tyro.conf import arg

from her_envs import TaskEnv
from her_envs.canvas import AGENT, BACKGROUND, FAINT, INK, REACHED, Canvas
from her_envs.pictures import Painter
from her_wrappers.commands import terminal
from her_wrappers.commands.pictures import picture_of, require_writable, write_pictures
from her_wrappers.commands.record import recorded_keys
from her_wrappers.data.trees import leaf_arrays
from her_wrappers.goals.environments import import_callable, make_env
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.interface import GoalInterface
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.replay.goal_selection import StrategyName
from her_wrappers.replay.relabel_episode import relabel_episode
from her_wrappers.replay.relabeling import TerminationMode

MAX_EPISODE_STEPS = 1000
"""Number of steps after which an episode is truncated."""

MAX_FRAMES = 100
"""Maximal number of states that a GIF shows."""

USUAL, LAST = 100, 3000
"""Duration [ms] of each picture of a GIF except the last picture, and of the last picture."""

PERSISTENCE = 0.9
"""Correlation of successive actions of the policy wander; independent actions would hardly move the agent."""


@dataclass(frozen=True, eq=False)
class Side:
    """The steps of an episode, seen with one goal: either the recorded goal or the new goal."""

    title: str
    rewards: np.ndarray  # (T,)
    reached: np.ndarray  # (T,) bool, steps that reach the goal
    end: int  # number of steps until the episode would terminate at the goal, or T

    def outcome(self, t: int) -> str:
        """Return a text about the first ``t`` steps: whether the goal was reached, and the rewards."""
        ends = " and ends there" if t >= self.end < len(self.rewards) else ""
        t = min(t, self.end)
        reached = np.flatnonzero(self.reached[:t])
        result = f"reached at step {reached[0] + 1}{ends}" if reached.size else "not reached"
        if len(np.unique(self.rewards)) > 2:
            return f"{result}: return {self.rewards[:t].sum():.3g}"
        return f"{result}: {reached.size} of {t} steps rewarded"


@dataclass(frozen=True, eq=False)
class Hindsight:
    """An episode of T steps with its own goal, and with a goal that it achieved."""

    seed: int  # of the reset
    episode: Episode
    frames: list[Any]  # T + 1 states of a bundled task, else T + 1 pictures, or none
    goal_state: int  # number of the state that achieved the new goal, in 1..T
    sides: tuple[Side, Side]  # the steps with the episode's own goal, and with the new one


def show_relabeling(
    env: terminal.Environment,
    *,
    option: terminal.EnvOptions = (),
    out: Annotated[Path, arg(metavar="FILE")] = Path("relabeling.gif"),
    goal_selection_strategy: StrategyName = "final",
    policy: str = "wander",
    seed: terminal.NotNegative = 0,
    episodes: terminal.Positive = 20,
    size: terminal.Positive = 320,
) -> None:
    """Show a failed episode, and next to it the same episode with a goal that it achieved.

    The command records several episodes and shows the failed episode in which the achieved goal moved most.
    Bundled tasks are drawn again with the new goal. For other environments, the rendered pictures and a chart
    of the goals are shown.

    For example:

    - her show-relabeling her_envs/PointReach-v0
    - her show-relabeling her_envs/PointMaze-v0 -o layout=four_rooms --out maze.gif --seed 7
    - her show-relabeling her_envs/PointPush-v0 --goal-selection-strategy future --out push.png

    Args:
        out: File to write: .gif is animated, .png shows the end of the episode.
        goal_selection_strategy: Strategy that selects the new goal.
        policy: wander (random actions that change slowly), random, or module:function.
        seed: Seed of the first episode.
        episodes: Number of episodes to choose from.
        size: Size of each picture in pixels.
    """
    if out.suffix.lower() not in {".gif", ".png"}:
        raise terminal.CommandError(f"--out must end in .gif or .png, got {out}")
    options = terminal.parse_options(option)
    made = make_env(env, **options)
    if not isinstance(made.unwrapped, TaskEnv) and "rgb_array" in made.metadata.get("render_modes", ()):
        made.close()
        made = make_env(env, **{"render_mode": "rgb_array"} | options)
    with contextlib.closing(made):
        seeds = range(seed, seed + episodes)
        hindsight = find_miss(made, policy, seeds, goal_selection_strategy)
        require_writable(out)
        title, length = f"{' '.join([env, *option])}, seed {hindsight.seed}", len(hindsight.episode)
        count = min(length + 1, MAX_FRAMES) if out.suffix.lower() == ".gif" else 1
        times = np.linspace(length, 0, count).round().astype(int).tolist()
        pictures = [draw_page(title, hindsight, made, t, size) for t in reversed(times)]
    write_pictures(out, pictures, [*[USUAL] * (count - 1), LAST])
    for side in hindsight.sides:
        print(f"{side.title}; {side.outcome(length)}")
    print(f"seed {hindsight.seed} in {out}")


def find_miss(env: gym.Env[Any, Any], policy: str, seeds: range, strategy: StrategyName) -> Hindsight:
    """Record an episode for each seed, and relabel the failed episode whose achieved goal moved most.

    The movement of an achieved goal is the distance between its first and its last value. The distance is
    multiplied by the mean share of goal components that change in a step, so that movement in many steps
    counts more than a single jump.
    """
    goals_of_env = GoalInterface.of(env)
    compute_reward = goals_of_env.compute_reward
    keys = recorded_keys(env)
    best, farthest = None, -1.0
    for seed in seeds:
        episode, frames = _record(env, policy, seed, keys)
        length, achieved = len(episode), episode.observations["achieved_goal"]
        # The last step reaches the goal that it achieved, so its reward is the reward of a reached goal.
        rewards = relabel(episode, length, goals_of_env)[0]
        flags = episode.infos.get("is_success", np.zeros(length)).astype(bool)
        reached = np.asarray(flags | (episode.rewards >= rewards[-1]))
        goals = np.concatenate([leaf.reshape(length + 1, -1) for leaf in leaf_arrays(achieved)], axis=1)
        moving = (goals[1:] != goals[:-1]).mean()
        distance = float(np.linalg.norm(goals[-1].astype(float) - goals[0]) * moving)
        if not reached.any() and distance > farthest:
            best, farthest = (seed, episode, frames, reached), distance
    if best is None:
        raise ValueError(
            f"the picture needs a failed episode, but all {len(seeds)} episodes reached their goals; "
            "use another --seed, more --episodes, or --policy random"
        )
    seed, episode, frames, reached = best
    rng = np.random.default_rng(seed)
    copies = relabel_episode(episode, strategy, 1, compute_reward, rng, termination="never")
    goal_state = int(copies.goal_index[0]) + 1
    before = Side("As it was: goal missed", episode.rewards, reached, len(episode))
    after = Side(f"In hindsight: goal of step {goal_state}", *relabel(episode, goal_state, goals_of_env))
    return Hindsight(seed, episode, frames, goal_state, (before, after))


def _record(env: gym.Env[Any, Any], policy: str, seed: int, keys: list[str]) -> tuple[Episode, list[Any]]:
    """Record an episode; return it, and the list ``frames`` for `Hindsight`."""
    episodes: list[Episode] = []
    frames: list[Any] = []

    def look() -> None:
        if isinstance(env.unwrapped, TaskEnv):
            frames.append(env.unwrapped.state)
        elif env.render_mode is not None:
            frames.append(picture_of(env))

    recorder = EpisodeRecorder(env, episodes.append, info_keys=keys, max_episode_steps=MAX_EPISODE_STEPS)
    env.action_space.seed(seed)
    act = make_policy(env.action_space, policy)
    observation, _ = recorder.reset(seed=seed)
    look()
    while not episodes:
        observation, *_ = recorder.step(act(observation))
        look()
    return episodes[0], frames


def relabel(episode: Episode, goal_state: int, goals: GoalInterface) -> tuple[np.ndarray, np.ndarray, int]:
    """Relabel an episode with the achieved goal of the state ``goal_state``.

    Return the (T,) rewards for this goal, a (T,) bool array of the steps that reach this goal, and the number
    of steps until the episode terminates at this goal, or T if it does not. The step that ends in the state
    ``goal_state`` reaches the goal, and so do steps whose reward for this goal is at least as high.
    """

    def select(t: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.full_like(t, goal_state)

    rng = np.random.default_rng(0)
    termination: TerminationMode | GoalFunction = goals.compute_terminated or "never"
    batch = relabel_episode(episode, select, 1, goals.compute_reward, rng, termination=termination)
    ends = np.append(np.flatnonzero(batch.terminations) + 1, len(episode))
    return batch.rewards, np.asarray(batch.rewards >= batch.rewards[goal_state - 1]), int(ends[0])


def make_policy(space: spaces.Space[Any], name: str) -> terminal.Policy:
    """Return the policy ``name`` for one episode: random, module:function or wander.

    In a Box space, successive actions of wander are correlated; in other spaces, wander is the same as
    random. ``space`` is the action space; all random numbers come from its generator.
    """
    if name not in {"wander", "random"}:
        forms = "wander, random or module:function"
        return import_callable(name, "--policy", forms)  # type: ignore[no-any-return] # a function
    if name == "random" or not isinstance(space, spaces.Box):
        return lambda observation: space.sample()
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1.0), np.where(bounded, space.high, 1.0)
    drift = space.np_random.normal(size=space.shape)

    def act(observation: Any) -> Any:
        nonlocal drift
        noise = space.np_random.normal(size=space.shape)
        drift = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * noise
        return np.clip((low + high + (high - low) * drift) / 2, space.low, space.high).astype(space.dtype)

    return act


def draw_page(title: str, hindsight: Hindsight, env: gym.Env[Any, Any], t: int, size: int) -> np.ndarray:
    """Draw the state ``t`` in 0..T twice, side by side, with two goals; return an array, (H, W, 3) uint8.

    The left half is for the episode's own goal, the right half for the new goal. Each half has a title, a
    panel of ``size`` pixels with the state and the goal, a bar with a cell for each step, and the outcome of
    the first ``t`` steps.
    """
    from PIL import Image, ImageDraw, ImageFont

    line, margin, length = size // 16 + 2, size // 20, len(hindsight.episode)
    width = size - 2 * margin
    page = Image.new("RGB", (2 * size, size + 6 * line), BACKGROUND)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(0.6 * line)
    draw_state = draw_task if isinstance(env.unwrapped, TaskEnv) else draw_other
    for number, side in enumerate(hindsight.sides):
        left, below = number * size + margin, size + 2 * line
        draw.text((left, line / 2), side.title, INK, font)
        panel = draw_state(env, hindsight, t, size, is_relabeled=bool(number))
        page.paste(Image.fromarray(panel), (number * size, 2 * line))
        colors = np.where(side.reached[:, None], REACHED, AGENT).astype(np.uint8)
        colors[min(t, side.end) :] = FAINT
        pixels = colors[np.arange(width) * length // width]
        page.paste(Image.fromarray(np.tile(pixels, (line // 2, 1, 1))), (left, below))
        foot = f"step {t} of {length}" if number else title
        draw.text((left, below + line), f"{side.outcome(t)}\n{foot}", INK, font, spacing=line / 2)
    return np.asarray(page)


def draw_task(
    env: gym.Env[Any, Any], hindsight: Hindsight, t: int, size: int, *, is_relabeled: bool
) -> np.ndarray:
    """Draw state ``t`` of a bundled task with the new goal if ``is_relabeled``, else the original goal."""
    task = env.unwrapped.task  # type: ignore[attr-defined] # a TaskEnv
    painter, goal = Painter(task), task.reached_goal(hindsight.frames[hindsight.goal_state])
    for state in hindsight.frames[: t + 1]:
        painter.append(state | {"goal": goal} if is_relabeled else state)
    return painter.draw_picture(0, t, size)


def draw_other(
    env: gym.Env[Any, Any], hindsight: Hindsight, t: int, size: int, *, is_relabeled: bool
) -> np.ndarray:
    """Draw state ``t`` of an environment that is not a bundled task.

    With ``is_relabeled``, draw a chart of the two goal components that vary most, with the new goal. Without,
    return the rendered picture or, if the environment does not render, a chart with the original goal.
    """
    if hindsight.frames and not is_relabeled:
        from PIL import Image, ImageOps

        frame = Image.fromarray(np.asarray(hindsight.frames[t], np.uint8))
        return np.asarray(ImageOps.pad(frame, (size, size), color=BACKGROUND))
    space = env.observation_space["achieved_goal"]  # type: ignore[index] # a goal environment has a Dict space
    if len(space.shape or ()) != 1:
        raise ValueError(
            f"cannot draw the goals: the space of 'achieved_goal' must have one axis, got the space {space}"
        )
    observations: Any = hindsight.episode.observations
    goals = np.stack([observations[key] for key in ("achieved_goal", "desired_goal")]).astype(float)
    axes = np.sort(np.argsort(-np.ptp(goals, axis=(0, 1)), kind="stable")[:2])
    goals = goals[..., axes]
    low, high = goals.min(axis=(0, 1)), goals.max(axis=(0, 1))
    middle, span = (low + high) / 2, max((high - low).max(), 1e-9)
    places = 0.5 + 0.7 * (goals - middle) / span  # in the unit square, with one scale for both axes
    places = np.pad(places, ((0, 0), (0, 0), (0, 2 - len(axes))), constant_values=0.5)
    achieved, desired = places  # (T + 1, 2) each
    canvas = Canvas(size)
    canvas.frame()
    canvas.trail(list(achieved[: t + 1]))
    canvas.goal(achieved[hindsight.goal_state] if is_relabeled else desired[t], radius=0.03)
    canvas.agent(achieved[t])
    for axis, component in enumerate(axes):
        name = f"{'up' if axis else 'right'}: achieved_goal[{component}]"
        canvas.text(name, (0.5, 0.97 if axis else 0.03), size=0.03)
        for side in (-1, 1):
            along = 0.5 + 0.35 * side
            place = (0.1, along) if axis else (along, 0.03)
            canvas.text(f"{middle[axis] + span / 2 * side:.3g}", place, size=0.03)
    return canvas.pixels()
