"""Situations in which relabeling recorded episodes gives wrong transitions, for each way of recording.

    python -m benchmarks.situations            writes docs/results/situations.md, in a minute

Each cell records the situation and looks at the transitions of the buffer: "right", "warned" (wrong
transitions, after a warning), "rejected" (an error) or "silently wrong". A cell is "-" where the situation
does not exist. Rows of libraries that are not installed are kept from the existing page.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder
from her_wrappers.collecting import Collector

PAGE = Path("docs/results/situations.md")
STEPS = 600
STEP_SIZE = 0.2
Change = Callable[[float], object] | None  # sets the radius of all environments


class Reach(gym.Env[Any, Any]):
    """A point in a square moves to a goal within 20 steps; each situation changes one thing."""

    def __init__(self, situation: str = "") -> None:
        self.situation, self.radius = situation, 0.2
        goal = spaces.Box(-3, 3, (2,), np.float32)
        width = 4 if situation == "goal in observation" else 2
        seen = spaces.Box(-3, 3, (width,), np.float32)
        self.observation_space = spaces.Dict(observation=seen, achieved_goal=goal, desired_goal=goal)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.reused = {key: np.zeros(part.shape, np.float32) for key, part in self.observation_space.items()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Draw a start and a goal."""
        super().reset(seed=seed)
        self.elapsed = 0
        self._draw()
        return self._observe(), {"cost": 0.0, "effort": self._effort()}

    def step(self, action: Any) -> Any:
        """Move the point."""
        self.elapsed += 1
        self.position = np.clip(self.position + STEP_SIZE * np.clip(action, -1, 1), -1, 1).astype(np.float32)
        if self.situation == "hidden reset" and self.elapsed == 10:
            self._draw()
        obs, info = self._observe(), {"cost": 0.0, "effort": self._effort()}
        reward = self.compute_reward(self.position, self.goal, info)
        ended = (
            self.situation == "termination" and float(np.linalg.norm(self.position - self.goal)) < self.radius
        )
        return obs, float(reward), bool(ended), self.elapsed >= 20, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return 0 at the goal and -1 elsewhere, less the effort in the info."""
        reward = (np.linalg.norm(achieved_goal - desired_goal, axis=-1) < self.radius) - 1.0
        if self.situation == "infos":
            each = [info] if isinstance(info, dict) else info
            reward -= np.array([one.get("effort", 0.0) for one in each]).reshape(reward.shape)
        return reward

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return False for each row."""
        return np.zeros(np.shape(achieved_goal)[:-1], bool)

    def set_radius(self, radius: float) -> None:
        """Change the radius of success."""
        self.radius = radius

    def _draw(self) -> None:
        self.position, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)

    def _effort(self) -> float:
        return 5.0 * (abs(float(self.position[0])) > 0.5)

    def _observe(self) -> dict[str, Any]:
        seen = self.position
        if self.situation == "goal in observation":
            seen = np.concatenate([seen, self.goal - self.position])
        obs = {"observation": seen, "achieved_goal": self.position, "desired_goal": self.goal}
        if self.situation != "reused arrays":
            return {key: value.copy() for key, value in obs.items()}
        for key, value in obs.items():
            self.reused[key][:] = value
        return dict(self.reused)


def jumps(buffer: HindsightReplayBuffer) -> bool:
    """Return whether a step of an episode is longer than a step can be."""
    moves = [np.abs(np.diff(each.observations["achieved_goal"], axis=0)) for each in buffer.episodes()]
    is_still = any((each.max(1) == 0).mean() > 0.5 for each in moves)
    return is_still or any(each.max() > 1.01 * STEP_SIZE for each in moves)


def relabeled(buffer: HindsightReplayBuffer, radius: float = 0.2) -> tuple[Any, Any, Any]:
    """Return relabeled rows, the achieved goals after their steps, and whether they reach their goals."""
    batch = buffer.sample(2000)
    achieved = batch.next_observations["achieved_goal"]
    distance = np.linalg.norm(achieved - batch.next_observations["desired_goal"], axis=1)
    return batch, achieved, distance < radius


def ends_are_wrong(buffer: HindsightReplayBuffer) -> bool:
    """Return whether a relabeled success does not terminate."""
    batch, _, reaches = relabeled(buffer)
    return bool((batch.terminations != reaches).any())


def costs_are_wrong(buffer: HindsightReplayBuffer) -> bool:
    """Return whether a relabeled reward lacks the cost in the info."""
    batch, achieved, reaches = relabeled(buffer)
    return bool((batch.rewards != reaches - 1.0 - 5 * (np.abs(achieved[:, 0]) > 0.5)).any())


def radius_is_old(buffer: HindsightReplayBuffer) -> bool:
    """Return whether a relabeled reward has the former radius."""
    batch, _, reaches = relabeled(buffer, 0.9)
    return bool((batch.rewards[batch.relabeled] != reaches[batch.relabeled] - 1.0).any())


SITUATIONS: dict[str, tuple[str, Callable[[HindsightReplayBuffer], bool]]] = {
    "termination": ("1 episodes end at goals, compute_terminated is False", ends_are_wrong),
    "infos": ("2 a cost in the info, without info_keys", costs_are_wrong),
    "hidden reset": ("3 a reset inside of an episode", jumps),
    "goal in observation": ("4 the observation has goal - position", lambda buffer: True),
    "reused arrays": ("5 the environment returns the same arrays", jumps),
    "changed radius": ("6 the radius changes in the environments", radius_is_old),
    "stacked frames": ("7 stacked goals", lambda buffer: True),
    "shared object": ("B one object in several slots", jumps),
}


def make_env(situation: str) -> gym.Env[Any, Any]:
    """Return an environment in a situation."""
    env: Any = Reach(situation)
    return gym.wrappers.FrameStackObservation(env, 3) if situation == "stacked frames" else env


def makers(situation: str, count: int) -> list[Callable[[], Any]]:
    """Return functions that make ``count`` environments."""
    if situation == "shared object":
        env = Reach()
        return [lambda: env] * count
    return [partial(make_env, situation)] * count


def record_single(situation: str) -> Any:
    """Record with EpisodeRecorder."""
    env = make_env(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    play(EpisodeRecorder(env, buffer.add_episode), env, situation)
    return buffer


def play(recorder: Any, env: Any, situation: str, add: Any = None) -> None:
    """Step an environment, and pass the transitions to ``add``, if given."""
    obs, _ = recorder.reset(seed=0)
    env.action_space.seed(0)
    for t in range(STEPS):
        if t == STEPS // 2 and situation == "changed radius":
            env.unwrapped.set_radius(0.9)
        action = env.action_space.sample()
        after, reward, terminated, truncated, info = recorder.step(action)
        if add is not None:
            add(obs, action, reward, after, terminated, truncated, info)
        obs = recorder.reset()[0] if terminated or truncated else after


def record_rows(kind: Any, mode: AutoresetMode, situation: str) -> Any:
    """Record with VectorEpisodeRecorder."""
    envs = kind(makers(situation, 3), autoreset_mode=mode)
    try:
        buffer = HindsightReplayBuffer.for_env(envs, seed=0)
        recorder = VectorEpisodeRecorder(envs, buffer.add_episodes)
        recorder.reset(seed=0)
        recorder.action_space.seed(0)
        for t in range(STEPS):
            if t == STEPS // 2 and situation == "changed radius":
                envs.call("set_radius", 0.9)
            *_, terminated, truncated, _ = recorder.step(recorder.action_space.sample())
            ended = terminated | truncated
            if mode is AutoresetMode.DISABLED and ended.any():
                recorder.reset(options={"reset_mask": ended})
        return buffer
    finally:
        envs.close()


def record_by_add(situation: str) -> Any:
    """Record with `HindsightReplayBuffer.add`."""
    env = make_env(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    play(env, env, situation, buffer.add)
    return buffer


def record_by_collector(situation: str) -> Any:
    """Record with Collector."""
    env = make_env(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    maker = makers(situation, 1)[0]
    with Collector(maker, any_actions, num_envs=3) as collector:
        for collected in collector.rounds(episodes_per_env=3):
            buffer.add_episodes(collected.episodes)
            if buffer.num_episodes > 40:
                break
    return buffer


def any_actions(observations: Any) -> Any:
    """Return actions that depend on the observations alone, without a pattern."""
    return np.sin(1e4 * observations["achieved_goal"]).astype(np.float32)


def record_by_sb3(kind: str, situation: str) -> Any:
    """Record with the drop-in of Stable-Baselines3."""
    from stable_baselines3 import SAC  # noqa: PLC0415 - may be missing
    from stable_baselines3.common import vec_env  # noqa: PLC0415

    from her_wrappers.integrations.sb3 import HerReplayBuffer  # noqa: PLC0415

    envs = getattr(vec_env, kind)(makers(situation, 3))
    model = SAC(
        "MultiInputPolicy", envs, replay_buffer_class=HerReplayBuffer, learning_starts=10**6, seed=0,
        replay_buffer_kwargs={"termination": "recompute"},
    )  # fmt: skip
    model.learn(3 * STEPS // 2)
    if situation == "changed radius":
        envs.env_method("set_radius", 0.9)
    model.learn(3 * STEPS // 2, reset_num_timesteps=False)
    return model.replay_buffer.hindsight  # type: ignore[union-attr]


def record_by_adapter(library: str, situation: str) -> Any:
    """Record with the integration of TorchRL or RLlib."""
    module = importlib.import_module(f"her_wrappers.conformance.adapters.{library}")
    env = make_env(situation)
    adapter = getattr(module, {"torchrl": "OursForTorchRL", "rllib": "OursForRLlib"}[library])(
        env, buffer_size=10_000, strategy="future", n_sampled_goal=4, max_episode_steps=20
    )
    play(env, env, situation, adapter.add)
    adapter.sample(32)
    return adapter.buffer.hindsight


COLUMNS: dict[str, tuple[str | None, Callable[[str], Any]]] = {
    "EpisodeRecorder": (None, record_single),
    **{
        f"{kind.__name__[:-9]} {mode.value}": (None, partial(record_rows, kind, mode))
        for kind in (SyncVectorEnv, AsyncVectorEnv)
        for mode in AutoresetMode
    },
    "add": (None, record_by_add),
    "Collector": (None, record_by_collector),
    "SB3 DummyVecEnv": ("sb3", partial(record_by_sb3, "DummyVecEnv")),
    "SB3 SubprocVecEnv": ("sb3", partial(record_by_sb3, "SubprocVecEnv")),
    "TorchRL": ("torchrl", partial(record_by_adapter, "torchrl")),
    "RLlib": ("rllib", partial(record_by_adapter, "rllib")),
}
"""Ways of recording: the integration, if one is needed, and the function."""

SINGLE = ("EpisodeRecorder", "add", "TorchRL", "RLlib")


def cell(column: str, situation: str) -> str:
    """Record a situation, and return how the buffer dealt with it."""
    is_missing = situation == "shared object" and (
        column in SINGLE or "Async" in column or "Subproc" in column
    )
    if is_missing or (situation == "changed radius" and column == "Collector"):
        return "-"
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            buffer = COLUMNS[column][1](situation)
        except Exception as error:  # any error says that the episodes cannot be used
            print(f"{column}, {situation}: {type(error).__name__}: {str(error)[:200]}")
            return "rejected"
        is_wrong = SITUATIONS[situation][1](buffer)
    ours = [str(each.message) for each in found if issubclass(each.category, UserWarning)]
    print(f"{column}, {situation}: {'wrong' if is_wrong else 'right'}, {[each[:100] for each in ours]}")
    ours = [each for each in ours if re.search("goal|reward|terminat|arrays|object|environment", each)]
    return "right" if not is_wrong else "warned" if ours else "**silently wrong**"


def is_installed(library: str | None) -> bool:
    """Return whether the library of a column can be imported."""
    try:
        return library is None or bool(importlib.import_module(f"her_wrappers.integrations.{library}"))
    except ImportError:
        return False


def main() -> None:
    """Run all cells, and write the page."""
    old: dict[tuple[str, str], str] = {}
    if PAGE.exists():
        lines = [
            [part.strip() for part in line.strip().strip("|").split("|")]
            for line in PAGE.read_text(encoding="utf-8").splitlines()
            if line.startswith("|")
        ]
        old = {(row[0], name): value for row in lines[2:] for name, value in zip(lines[0], row, strict=True)}
    names = [title for title, _ in SITUATIONS.values()]
    rows = ["| way of recording | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for column, (library, _) in COLUMNS.items():
        cells = [
            cell(column, each) if is_installed(library) else old.get((column, title), "not run")
            for each, (title, _) in SITUATIONS.items()
        ]
        rows.append(f"| {column} | " + " | ".join(cells) + " |")
    text = (__doc__ or "").split("\n\n", 2)
    PAGE.write_text(
        f"# What the buffer notices\n\n{text[0]}\n`python -m benchmarks.situations` writes this page.\n\n"
        f"{text[2].strip()}\n\n" + "\n".join(rows) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
