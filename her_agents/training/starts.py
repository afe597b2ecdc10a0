"""Starts: episodes that begin in recorded states, of demonstrations (arXiv 1709.10089) or of the run."""

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

DRAWN_EPISODES = 100  # of the run, for the starts of one epoch


class Starts:
    """The recorded states in which episodes can begin, shared by all environments of a run.

    ``how`` is ``config.start_state`` or, if this option names a function, the function.
    """

    def __init__(self, config: Config, env: gym.Env[Any, Any], how: Any) -> None:
        self._share, self._source, self._how = config.start_share, config.start_source, how
        self._name = f"start_state={config.start_state!r}"
        self._episodes: list[Any] = []
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
            self._episodes = list(buffer.demonstrations.episodes())

    def choose(self, rng: np.random.Generator) -> tuple[int, int]:
        """Choose a start; return the number of its episode and its step, or -1, -1 for an ordinary reset."""
        lengths = np.array([len(each) for each in self._episodes])
        weights = lengths - self._first
        if rng.random() >= self._share or not weights.any():
            return -1, -1
        i = int(rng.choice(len(lengths), p=weights / weights.sum()))
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


class StartWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Begins a share of the episodes in recorded states."""

    _start = -1  # step at which the episode began

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], starts: Starts) -> None:
        super().__init__(make())
        self._starts, self._rng = starts, np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset the environment, perhaps to a recorded state."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._rng = np.random.default_rng((seed, 2))
        number, self._start = self._starts.choose(self._rng)
        if self._start >= 0:
            observation, info = self._starts.reset(self.env, number, self._start)
        return observation, info | {START: self._start}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment, and add the start of the episode to the info."""
        *result, info = self.env.step(action)
        return *result, info | {START: self._start}
