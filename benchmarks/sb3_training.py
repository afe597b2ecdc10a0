"""Training with Stable-Baselines3, with its own HerReplayBuffer and with ours, in one run.

For example:

    python -m benchmarks.sb3_training --quick             to see that it runs
    python -m benchmarks.sb3_training --out a_page.md     some minutes

SAC as SB3 sets it up (two hidden layers of 256, batches of 256, one update after every step) learns
on the spaces of FetchPush: observations of 25, goals of 3 and actions of 4 numbers, episodes of 50 steps. The
environment only moves its goal by the action, since a simulator would cost both sides alike and hide the
difference. Buffers are full before anything is timed. One thread; time is that of the processor, so that
waiting for other work on the machine does not count, though what that takes of caches and memory does. Both
train in turns of some whole episodes each; ratios are taken within one turn, and tables give medians.

The replay's time is that of all calls of `add` and `sample`, the environment's `compute_reward` and the
reading of the clock included; both sides are wrapped in the same way. What the update pays to read a batch,
whose rows do not stand side by side with ours, is in the step and not in the replay. The share is the
replay's part of a step: environment, policy, replay, and update.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch

from benchmarks.benchmark import Benchmark
from benchmarks.replay_task import (
    ACTION,
    ACTION_SPACE,
    GOAL,
    HORIZON,
    OBSERVATION,
    TOLERANCE,
    observation_space,
)
from benchmarks.timing import Stopwatch
from her_agents.studies.result_page import Claim, Grid, at_least, claim_grid
from her_wrappers.integrations.sb3 import HerReplayBuffer

BENCHMARK = Benchmark(
    "sb3_training",
    "What the replay costs in training with Stable-Baselines3",
    __doc__,
    ("stable-baselines3",),
)
OURS, SB3 = "her_wrappers", "Stable-Baselines3"
CLASSES: dict[str, type[sb3.HerReplayBuffer]] = {OURS: HerReplayBuffer, SB3: sb3.HerReplayBuffer}


class PushSpaces(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """The spaces and the reward of FetchPush, and next to no physics."""

    observation_space = observation_space(np.float64)  # as Fetch has them
    action_space = ACTION_SPACE

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin anywhere."""
        super().reset(seed=seed)
        self._state, self._goal = self.np_random.normal(size=OBSERVATION), self.np_random.normal(size=GOAL)
        self._t = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Move by the action."""
        self._state[:ACTION] += 0.03 * action
        self._t += 1
        reward = self.compute_reward(self._state[:GOAL], self._goal, {})
        return self._observation(), float(reward), False, self._t == HORIZON, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> Any:
        """Pay 0 within 5 cm and -1 outside."""
        apart = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return -(apart > TOLERANCE).astype(np.float32)

    def _observation(self) -> dict[str, np.ndarray]:
        return {
            "observation": self._state.copy(),
            "achieved_goal": self._state[:GOAL].copy(),
            "desired_goal": self._goal.copy(),
        }


class Training:
    """SAC with a full buffer.

    Args:
        kind: Class of the buffer.
        slots: Transitions that it holds.
    """

    def __init__(self, kind: type[sb3.HerReplayBuffer], slots: int) -> None:
        self._model = sb3.SAC(
            "MultiInputPolicy",
            PushSpaces(),
            replay_buffer_class=kind,
            buffer_size=slots,
            learning_starts=0,
            device="cpu",
            seed=0,
        )
        fill(self._model.replay_buffer, slots)
        self._watch = Stopwatch()
        for name in ("add", "sample"):
            timed = self._watch.around(getattr(self._model.replay_buffer, name))
            setattr(self._model.replay_buffer, name, timed)
        self.turn(HORIZON)  # to warm up

    def turn(self, steps: int) -> tuple[float, float]:
        """Train for some steps; return the microseconds of a step, and those of its replay."""
        before, start = self._watch.seconds, time.thread_time()
        self._model.learn(steps, reset_num_timesteps=False, log_interval=10**9)
        total, replay = time.thread_time() - start, self._watch.seconds - before
        return 1e6 * total / steps, 1e6 * replay / steps


def fill(buffer: Any, slots: int) -> None:
    """Add random walks until a buffer is full."""
    env, rng = PushSpaces(), np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (HORIZON, 1, ACTION)).astype(np.float32)
    walks = [_walk(env, actions, seed) for seed in range(100)]
    for number in range(-(-slots // HORIZON)):
        for step in walks[number % len(walks)]:
            buffer.add(*step)


def _walk(env: PushSpaces, actions: np.ndarray, seed: int) -> list[tuple[Any, ...]]:
    """Return the arguments of ``add`` for each step of an episode."""
    steps = []
    obs = _batch(env.reset(seed=seed)[0])
    for action in actions:
        observation, reward, _, truncated, info = env.step(action[0])
        next_obs = _batch(observation)
        info |= {"TimeLimit.truncated": truncated}
        steps.append((obs, next_obs, action, np.array([reward], np.float32), np.array([truncated]), [info]))
        obs = next_obs
    return steps


def _batch(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: value[None] for key, value in observation.items()}


@dataclass(frozen=True)
class Result:
    """Microseconds in each turn, (turns,), with buffers of one size.

    Attributes:
        slots: Transitions that the buffers hold.
        steps: Of a step of training, by the name of the buffer.
        replays: Of its replay.
    """

    slots: int
    steps: dict[str, np.ndarray]
    replays: dict[str, np.ndarray]

    def share(self, name: str) -> np.ndarray:
        """Return the replay's share of the time of a step."""
        share: np.ndarray = self.replays[name] / self.steps[name]
        return share

    @property
    def speedup(self) -> float:
        """How many times as fast training is with ours."""
        return float(np.median(self.steps[SB3] / self.steps[OURS]))

    @property
    def share_ratio(self) -> float:
        """How many times smaller the replay's share is with ours."""
        return float(np.median(self.share(SB3) / self.share(OURS)))


def measure(slots: int, turns: int, steps: int) -> Result:
    """Train with both in turns."""
    trainings = {name: Training(kind, slots) for name, kind in CLASSES.items()}
    times = {name: np.empty((turns, 2)) for name in trainings}
    for turn in range(turns):
        for name, training in trainings.items():
            times[name][turn] = training.turn(steps)
    return Result(
        slots,
        steps={name: columns[:, 0] for name, columns in times.items()},
        replays={name: columns[:, 1] for name, columns in times.items()},
    )


def time_grid(results: Sequence[Result]) -> Grid:
    """Return what a step costs."""
    rows = []
    for result in results:
        for name in CLASSES:
            step, replay, share = map(
                np.median, (result.steps[name], result.replays[name], result.share(name))
            )
            rows.append([f"{result.slots:,}", name, f"{step:,.0f}", f"{replay:,.0f}", f"{share:.1%}"])
    return Grid("What a step costs", ["slots", "buffer", "us a step", "us of it replay", "share"], rows)


def claims(small: Result, large: Result) -> list[Claim]:
    """Return what is promised beside what was measured."""
    fast = f"training, {small.slots:,} slots: times as fast as with {SB3}'s buffer"
    share = f"the replay's share of a step, {large.slots:,} slots: times smaller than with {SB3}'s buffer"
    return [at_least(fast, 1, small.speedup), at_least(share, 10, large.share_ratio)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    options = BENCHMARK.parse(arguments, quick="seconds rather than minutes; small and rough")
    torch.set_num_threads(1)
    sizes, turns, steps = ((1000, 10_000), 3, 50) if options.quick else ((10_000, 1_000_000), 10, 200)
    results = [measure(slots, turns, steps) for slots in sizes]
    grids = [claim_grid(claims(*results), quick=options.quick), time_grid(results)]
    BENCHMARK.publish(options, grids, {"run": f"medians of {turns} turns of {steps} steps each"})


if __name__ == "__main__":
    main()
