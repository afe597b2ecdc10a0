"""Starts: episodes of a run that begin in recorded states instead of states that the environment samples.

The states are those of demonstrations (Nair et al. 2018, section IV-D, https://arxiv.org/abs/1709.10089) or
of the run itself. The reverse curriculum moves the starts from the end of each demonstration to its beginning
(RFCL: Tao et al. 2024, section 4.1, https://arxiv.org/abs/2405.03379). The rule of the curriculum:

Demonstration i of T_i steps has a start step t_i, at first e_i, the step after which all states are at the
goal. A start is in demonstration i with a probability proportional to t_i / T_i (1e-6 if t_i = 0), at step
min(t_i + k, T_i - 1), where k is 0, 1, 2, 3, 4 with the probabilities 1/2, 1/4, 1/8, 1/16, 1/16. After
`SUCCESSES` successive episodes from t_i that reach their goal, t_i becomes max(t_i - `STRIDE`, 0) or, if t_i
was 0, demonstration i is solved: it has no further starts. An episode from step t is truncated after
e_i - t + `SLACK` steps. In RFCL, an episode counts only if it ends at its goal; here, it may leave the goal
again, since exploration can cause this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.goals.interface import goal_spaces
from her_wrappers.support.error_texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from her_agents.training.config import Config
    from her_wrappers import HindsightReplayBuffer

START = "start_step"
"""Info key: the step of a recorded episode at which this episode began; -1 after an ordinary reset."""

SUCCESSES, STRIDE, SLACK = 3, 4, 16  # of the curriculum
DRAWN_EPISODES = 100  # of the run, for the starts of one epoch


class Starts:
    """The recorded states in which episodes can begin, shared by all environments of a run.

    ``how`` is ``config.start_state`` or, if this option names a function, the function. ``success_key`` is
    the key of the success flag in infos.
    """

    def __init__(self, config: Config, env: gym.Env[Any, Any], how: Any, success_key: str) -> None:
        self._share, self._source, self._how = config.start_share, config.start_source, how
        self.success_key, self._name = success_key, f"start_state={config.start_state!r}"
        self._episodes: list[Any] = []
        self._ends: list[int] = []  # e_i
        self.curriculum: list[list[int]] = []  # t_i, or -1 if solved, and number of successes at t_i
        keys = goal_spaces(env)[0].spaces
        if not callable(how) and how not in (*keys, *config.info_keys):
            raise ValueError(
                f"start_state must be a key of the observations {sorted(keys)} or of info_keys, or "
                f"module:function, got {how!r}"
            )
        self._first = int(not callable(how) and how not in keys)  # in a buffer, infos begin after a step

    def begin(self, seed: int, buffer: HindsightReplayBuffer) -> None:
        """Read the demonstrations or, for starts in states of the run, draw episodes from the buffer."""
        if self._source == "run":
            # At the beginning of an epoch, the buffer of a resumed run has the same episodes.
            drawn = set(np.random.default_rng((seed, 2)).permutation(buffer.num_episodes)[:DRAWN_EPISODES])
            self._episodes = [each for i, each in enumerate(buffer.episodes()) if i in drawn]
        elif not self._episodes and buffer.demonstrations is not None:
            for each in buffer.demonstrations.episodes():
                # Flag t belongs to state t + 1. Without flags, success is the last state.
                flags = each.infos.get(self.success_key, np.arange(len(each)) == len(each) - 1)
                if flags[-1] or self._source == "demos":
                    self._episodes.append(each)
                    self._ends.append(int(np.flatnonzero(flags == 0).max(initial=-1)) + 1)
            if not self._episodes:
                raise ValueError(
                    "start_source='curriculum' needs demonstrations that end in success, got only failures; "
                    "record successes, or pass start_source='demos'"
                )
            if self._source == "curriculum" and not self.curriculum:  # else it is that of a checkpoint
                self.curriculum = [[end if end >= self._first else -1, 0] for end in self._ends]

    def choose(self, rng: np.random.Generator) -> tuple[int, int]:
        """Choose a start; return the number of its episode and its step, or -1, -1 for an ordinary reset."""
        lengths = np.array([len(each) for each in self._episodes])
        weights = lengths - self._first
        if self.curriculum:
            steps = np.array(self.curriculum)[:, 0]
            weights = np.where(steps < 0, 0, np.maximum(steps / lengths, 1e-6))
        if rng.random() >= self._share or not weights.any():
            return -1, -1
        i = int(rng.choice(len(lengths), p=weights / weights.sum()))
        if self.curriculum:
            return i, int(min(steps[i] + min(rng.geometric(0.5) - 1, 4), lengths[i] - 1))
        return i, int(rng.integers(self._first, lengths[i]))

    def reset(self, env: gym.Env[Any, Any], i: int, step: int) -> tuple[Any, dict[str, Any]]:
        """Set ``env`` to the state of episode ``i`` at ``step``; return the observation and the info."""
        how, episode = self._how, self._episodes[i]
        if callable(how):
            result = how(env, episode, step)
            if not isinstance(result, tuple) or len(result) != 2:
                raise ValueError(f"{self._name} must return an observation and an info, got {result!r}")
            return result
        states = episode.observations
        options = {"state": states[how][step] if how in states else episode.infos[how][step - 1]}
        if self._source != "run":
            options["goal"] = states["desired_goal"][step]
        fix = "pass a function as start_state"
        try:
            observation, info = env.reset(options=options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._name}: reset(options=...) raised {describe(error)}; {fix}") from error
        # If the environment ignores an option, soon an episode begins far from the recorded state or goal.
        extent = np.linalg.norm(np.ptp(states["achieved_goal"].astype(float), axis=0))
        for option, key in zip(options, ("achieved_goal", "desired_goal"), strict=False):
            got, wanted = observation[key], states[key][step].astype(float)
            if np.linalg.norm(got - wanted) > 0.5 * extent + 1e-3 * np.linalg.norm(wanted):
                got = f"must set {key!r} to {wanted}, as recorded, got {got}"
                raise ValueError(f"{self._name}: reset(options={{{option!r}: ...}}) {got}; {fix}")
        return observation, info

    def limit(self, i: int, step: int) -> float:
        """Return the length limit of an episode that begins at ``step`` of demonstration ``i``, or inf."""
        return self._ends[i] - step + SLACK if self.curriculum and step >= 0 else np.inf

    def end(self, i: int, step: int, *, success: bool) -> None:
        """Update the curriculum after an episode that began in the state of episode ``i`` at ``step``."""
        if not self.curriculum or step < 0 or step != self.curriculum[i][0]:
            return
        self.curriculum[i][1] = self.curriculum[i][1] + 1 if success else 0
        if self.curriculum[i][1] == SUCCESSES:
            self.curriculum[i] = [max(step - STRIDE, self._first) if step > self._first else -1, 0]

    def measure(self) -> dict[str, float]:
        """Return the mean progress of the curriculum: from 0 to 1 (all solved); {} without a curriculum."""
        left = [(each[0] + 1) / (end + 1) for each, end in zip(self.curriculum, self._ends, strict=False)]
        return {"curriculum": 1 - float(np.mean(left))} if left else {}


class StartWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Begins a share of the episodes in recorded states."""

    _start, _left = (-1, -1), np.inf  # episode and step of the start; steps until the episode ends
    _reached = False  # whether a step of the episode was a success

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], starts: Starts) -> None:
        super().__init__(make())
        self._starts, self._rng = starts, np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset the environment, perhaps to a recorded state."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._rng = np.random.default_rng((seed, 2))
        self._start = self._starts.choose(self._rng)
        self._left, self._reached = self._starts.limit(*self._start), False
        if self._start[1] >= 0:
            observation, info = self._starts.reset(self.env, *self._start)
        return observation, info | {START: self._start[1]}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment; move the curriculum at the end of an episode."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._left -= 1
        self._reached |= bool(info[self._starts.success_key])
        truncated = truncated or bool(self._left <= 0 and not terminated)
        if terminated or truncated:
            self._starts.end(*self._start, success=self._reached)
        return observation, reward, terminated, truncated, info | {START: self._start[1]}
