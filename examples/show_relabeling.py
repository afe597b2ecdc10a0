"""Draw a failed episode next to the same episode with the goal that it achieved, as an animated GIF.

The episode is recorded with random actions in a bundled environment, whose task can be drawn with any goal.
For another environment, replace `draw_picture`. Run it with ``python -m examples.show_relabeling``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from PIL import Image, ImageDraw, ImageFont

import her_envs
from her_envs import GoalTask
from her_envs.base import draw_picture
from her_envs.canvas import AGENT, BACKGROUND, FAINT, INK, REACHED
from her_envs.task import State
from her_wrappers import Episode, EpisodeRecorder, relabel_episode
from her_wrappers.commands.pictures import write_gif

PERSISTENCE = 0.9  # correlation of successive actions; independent actions would hardly move the agent
USUAL, LAST = 100, 3000  # duration of each picture, and of the last one [ms]

gym.register_envs(her_envs)


@dataclass(frozen=True)
class Side:
    """An episode of T steps, seen with one goal: the recorded goal or the new one."""

    title: str
    states: list[State]  # T + 1 states of the task, with the goal
    reached: np.ndarray  # (T,) bool, steps that reach the goal

    def outcome(self, t: int) -> str:
        """Return a text about the first ``t`` steps."""
        reached = np.flatnonzero(self.reached[:t])
        first = f"reached at step {reached[0] + 1}" if reached.size else "not reached"
        return f"{first}: {reached.size} of {t} steps rewarded"


def record(env: gym.Env[Any, Any], seed: int) -> tuple[Episode, list[State]]:
    """Record an episode of actions that change slowly; return it with its T + 1 states."""
    episodes: list[Episode] = []
    task_env: Any = env.unwrapped
    recorder = EpisodeRecorder(env, episodes.append, info_keys=["is_success"])
    space: Any = env.action_space
    space.seed(seed)
    drift = space.np_random.normal(size=space.shape)
    recorder.reset(seed=seed)
    states = [task_env.state]
    while not episodes:
        if isinstance(space, gym.spaces.Box):
            noise = space.np_random.normal(size=space.shape)
            drift = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * noise
            middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
            action = np.clip(middle + half * drift, space.low, space.high).astype(space.dtype)
        else:
            action = space.sample()
        recorder.step(action)
        states.append(task_env.state)
    return episodes[0], states


def find_failure(env: gym.Env[Any, Any], seeds: range) -> tuple[int, Episode, list[State]]:
    """Return the failed episode whose achieved goal moved farthest, with its seed and its states.

    Raises:
        ValueError: All episodes reached their goals.
    """
    failures = []
    for seed in seeds:
        episode, states = record(env, seed)
        if not episode.infos["is_success"].any():
            goals = np.asarray(episode.observations["achieved_goal"], float).reshape(len(states), -1)
            moving = (goals[1:] != goals[:-1]).mean()  # many moves are better than one jump
            failures.append((float(np.linalg.norm(goals[-1] - goals[0]) * moving), seed, episode, states))
    if not failures:
        raise ValueError(f"all {len(seeds)} episodes reached their goals; use another seed")
    return max(failures, key=lambda each: each[0])[1:]


def both_sides(env: gym.Env[Any, Any], episode: Episode, states: list[State]) -> tuple[Side, Side]:
    """Return the episode with its own goal, and with the goal that it achieved in its last state."""
    task_env: Any = env.unwrapped
    batch = relabel_episode(
        episode, "final", 1, task_env.compute_reward, np.random.default_rng(), termination="never"
    )
    goal = task_env.task.reached_goal(states[-1])
    return (
        Side("As it was: goal missed", states, episode.infos["is_success"]),
        Side(
            f"In hindsight: goal of step {len(episode)}",
            [state | {"goal": goal} for state in states],
            np.asarray(batch.rewards >= batch.rewards[-1]),  # the last step reaches the new goal
        ),
    )


def draw_page(task: GoalTask, title: str, sides: tuple[Side, Side], t: int, size: int) -> np.ndarray:
    """Draw the state after ``t`` steps with both goals, as (H, 2 * size, 3) uint8.

    Below each state, a bar has one cell for each step: green if the step reaches the goal.
    """
    line, margin, length = size // 16 + 2, size // 20, len(sides[0].reached)
    width = size - 2 * margin
    page = Image.new("RGB", (2 * size, size + 6 * line), BACKGROUND)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(0.6 * line)
    for number, side in enumerate(sides):
        left, below = number * size + margin, size + 2 * line
        draw.text((left, line / 2), side.title, INK, font)
        panel = Image.fromarray(draw_picture(task, side.states[: t + 1], 0, size))
        page.paste(panel, (number * size, 2 * line))
        cells = np.where(side.reached[:, None], REACHED, AGENT).astype(np.uint8)
        cells[t:] = FAINT
        bar = cells[np.arange(width) * length // width]
        page.paste(Image.fromarray(np.tile(bar, (line // 2, 1, 1))), (left, below))
        foot = f"step {t} of {length}" if number else title
        draw.text((left, below + line), f"{side.outcome(t)}\n{foot}", INK, font, spacing=line / 2)
    return np.asarray(page)


def main(
    env_id: str = "her_envs/PointReach-v0",
    seed: int = 0,
    episodes: int = 20,
    size: int = 320,
    out: Path = Path("relabeling.gif"),
) -> None:
    """Draw a failed episode next to its relabeling.

    For example:

    - python -m examples.show_relabeling --seed 1
    - python -m examples.show_relabeling --env-id her_envs/BitFlipping-v0

    Args:
        env_id: A bundled environment.
        seed: Seed of the first episode.
        episodes: Number of episodes from which a failed one is chosen.
        size: Size of each picture in pixels.
        out: GIF file to write.
    """
    env = gym.make(env_id)
    task: GoalTask = env.unwrapped.task  # type: ignore[attr-defined] # a TaskEnv
    chosen, episode, states = find_failure(env, range(seed, seed + episodes))
    sides = both_sides(env, episode, states)
    title = f"{env_id}, seed {chosen}"
    pages = [draw_page(task, title, sides, t, size) for t in range(len(states))]
    write_gif(out, pages, [*[USUAL] * len(episode), LAST])
    for side in sides:
        print(f"{side.title}; {side.outcome(len(episode))}")
    print(f"{title} in {out}")


if __name__ == "__main__":
    tyro.cli(main)
