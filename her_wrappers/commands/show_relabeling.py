"""``her show-relabeling``: a failed episode, before and after relabeling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from tyro.conf import arg

from her_envs import TaskEnv
from her_envs.canvas import require_pygame
from her_wrappers.checker.goal_calls import flat
from her_wrappers.commands.record import recorded_keys
from her_wrappers.commands.screen import picture_of, write_picture
from her_wrappers.commands.terminal import (
    CommandError,
    Environment,
    EnvOptions,
    NotNegative,
    Policy,
    Positive,
    exits_with,
    fail,
    import_policy,
    parse_options,
)
from her_wrappers.environments import make_env
from her_wrappers.goal_interface import GoalInterface
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.replay.relabel_episode import relabel_episode
from her_wrappers.trees import map_tree

MAX_EPISODE_STEPS = 1000
"""Number of steps after which an episode is truncated."""

PERSISTENCE = 0.9
"""Correlation of successive actions of the policy wander; independent actions would hardly move the agent."""


@dataclass(frozen=True, eq=False)
class Hindsight:
    """An episode of T steps with its own goal, and with a goal that it achieved.

    Attributes:
        seed: Seed of the reset.
        episode: The recorded episode.
        frames: T + 1 states of a bundled task, or T + 1 pictures that another environment rendered; empty if
            the environment does not render.
        goal_state: Number of the state whose achieved goal is the new goal, in 1..T.
        rewards: (T,) float32, rewards for the new goal.
        reached_before: (T,) bool, steps that reach the episode's own goal.
        reached_after: (T,) bool, steps that reach the new goal.
    """

    seed: int
    episode: Episode
    frames: list[Any]
    goal_state: int
    rewards: np.ndarray
    reached_before: np.ndarray
    reached_after: np.ndarray


def show_relabeling(
    env: Environment,
    *,
    option: EnvOptions = (),
    out: Annotated[Path, arg(metavar="FILE")] = Path("relabeling.gif"),
    goal_selection_strategy: Literal["final", "future", "episode", "geometric"] = "final",
    policy: str = "wander",
    seed: NotNegative = 0,
    episodes: Positive = 20,
    size: Positive = 320,
) -> None:
    """Show a failed episode, and next to it the same episode with a goal that it achieved.

    The command records several episodes and shows the failed one that got farthest. Bundled tasks are drawn
    again with the new goal. For other environments, the rendered pictures and a chart of the goals are shown.

    For example:

    - her show-relabeling her_envs/PointReach-v0
    - her show-relabeling her_envs/PointMaze-v0 -o layout=four_rooms --out maze.gif --seed 7
    - her show-relabeling her_envs/PointPush-v0 --goal-selection-strategy future --out push.png

    Args:
        out: File to write: .gif is animated, .png shows the end of the episode.
        goal_selection_strategy: Strategy that selects the new goal.
        policy: Policy: wander, random, or module:function.
        seed: Seed of the first episode.
        episodes: Number of episodes to choose from.
        size: Size of each picture in pixels.
    """
    if out.suffix.lower() not in {".gif", ".png"}:
        raise CommandError(f"--out must end in .gif or .png, got {out}")
    require_pygame()
    try:
        from her_wrappers.commands.relabeling_page import RelabelingPage
    except ImportError:
        fail('show-relabeling needs pillow, which is not installed; run: pip install "her-toolkit[render]"')
    options = parse_options(option)
    made = make_env(env, **options)
    if not isinstance(made.unwrapped, TaskEnv) and "rgb_array" in made.metadata.get("render_modes", ()):
        made.close()
        made = make_env(env, **{"render_mode": "rgb_array"} | options)
    with contextlib.closing(made):
        with exits_with(3, ValueError):
            interface = GoalInterface.of(made)
        acts = policies_of(made.action_space, policy)
        hindsight = find_miss(made, interface, acts, range(seed, seed + episodes), goal_selection_strategy)
        title = f"{' '.join([env, *option])}, seed {hindsight.seed}"
        page = RelabelingPage(title, hindsight, made, goal_selection_strategy, size)
        content = page.gif() if out.suffix.lower() == ".gif" else page.png()
    write_picture(out, content)
    for side in page.sides:
        print(f"{side.title}; {side.outcome(len(hindsight.episode))}")
    print(f"seed {hindsight.seed} in {out}")


def policies_of(space: spaces.Space[Any], name: str) -> Callable[[int], Policy]:
    """Return a function that returns the policy for a seed.

    Args:
        space: Action space of one environment.
        name: ``random``, ``wander`` (random, with correlated actions of a Box), or ``module:function``.

    Raises:
        CommandError: There is no such policy.
    """
    if name not in {"wander", "random"}:
        policy = import_policy(name, known=("wander", "random"))
        return lambda seed: policy
    if name == "random" or not isinstance(space, spaces.Box):

        def sample(seed: int) -> Policy:
            space.seed(seed)
            return lambda observation: space.sample()

        return sample
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1.0), np.where(bounded, space.high, 1.0)

    def wander(seed: int) -> Policy:
        rng = np.random.default_rng(seed)
        drift = rng.normal(size=space.shape)

        def act(observation: Any) -> Any:
            nonlocal drift
            drift = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * rng.normal(size=space.shape)
            action = (low + high + (high - low) * drift) / 2
            return np.clip(action, space.low, space.high).astype(space.dtype)

        return act

    return wander


def find_miss(
    env: gym.Env[Any, Any],
    interface: GoalInterface,
    policy: Callable[[int], Policy],
    seeds: range,
    strategy: str,
) -> Hindsight:
    """Record an episode for each seed, and relabel the failed one that moved its achieved goal farthest.

    The measure is the distance between the first and the last achieved goal, times the mean share of goal
    components that change in a step. This share is low if the agent moves along a wall. Episodes that achieve
    their last goal only in the last fifth of their steps are preferred.

    Args:
        env: The environment.
        interface: Its goal interface.
        policy: Function that returns the policy for a seed.
        seeds: Seeds of the episodes.
        strategy: Goal selection strategy.

    Raises:
        ValueError: All episodes reached their goals.
    """
    keys = recorded_keys(env)

    def frame() -> Any:
        if isinstance(env.unwrapped, TaskEnv):
            return env.unwrapped.state
        return None if env.render_mode is None else picture_of(env)

    def record(seed: int) -> tuple[int, Episode, list[Any]]:
        episodes: list[Episode] = []
        recorder = EpisodeRecorder(env, episodes.append, info_keys=keys, max_episode_steps=MAX_EPISODE_STEPS)
        act = policy(seed)
        observation, _ = recorder.reset(seed=seed)
        frames = [frame()]
        while not episodes:
            observation, *_ = recorder.step(act(observation))
            frames.append(frame())
        return seed, episodes[0], [] if frames[0] is None else frames

    def relabel(episode: Episode, goal_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rewards for the goal that a state achieved, and whether the steps reach it, (T,)."""
        batch = relabel_episode(
            episode,
            lambda t, length, rng: np.full_like(t, goal_state),
            1,
            interface.compute_reward,
            np.random.default_rng(0),
            termination="never",
        )
        if isinstance(env.unwrapped, TaskEnv):
            observations: Any = batch.next_observations
            success = env.unwrapped.task.success(observations["achieved_goal"], observations["desired_goal"])
            return batch.rewards, np.asarray(success)
        return batch.rewards, np.asarray(batch.rewards >= batch.rewards[goal_state - 1])

    def reached_before(episode: Episode) -> np.ndarray:
        """Return whether the steps reach the episode's own goal, (T,)."""
        observations: Any = episode.observations
        if isinstance(env.unwrapped, TaskEnv):
            task = env.unwrapped.task
            return np.asarray(
                task.success(observations["achieved_goal"][1:], observations["desired_goal"][1:])
            )
        flags = episode.infos.get("is_success", np.zeros(len(episode))).astype(bool)
        # The last step reaches the goal that it achieved, so its reward is the reward of a reached goal.
        return np.asarray(flags | (episode.rewards >= relabel(episode, len(episode))[0][-1]))

    def score(episode: Episode) -> tuple[bool, float]:
        length, achieved = len(episode), episode.observations["achieved_goal"]
        _, reached = relabel(episode, length)
        goals = np.stack([flat(map_tree(itemgetter(t), achieved)) for t in range(length + 1)])
        moving = (goals[1:] != goals[:-1]).mean()
        return not reached[: 4 * length // 5].any(), float(np.linalg.norm(goals[-1] - goals[0]) * moving)

    misses = (each for each in map(record, seeds) if not reached_before(each[1]).any())
    best = max(misses, key=lambda each: score(each[1]), default=None)
    if best is None:
        raise ValueError(
            f"a failed episode is needed, but all {len(seeds)} episodes reached their goals; "
            "use another --seed, more --episodes, or --policy random"
        )
    seed, episode, frames = best
    rng = np.random.default_rng(seed)
    copies = relabel_episode(episode, strategy, 1, interface.compute_reward, rng, termination="never")
    goal_state = int(copies.goal_index[0]) + 1
    rewards, reached_after = relabel(episode, goal_state)
    return Hindsight(seed, episode, frames, goal_state, rewards, reached_before(episode), reached_after)
