"""OpenEpisodes: the episodes, of one or N environments, that `HindsightReplayBuffer.add` is recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_wrappers.data.infos import final_observations, info_columns
from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import FLOAT32_OVERFLOW, Tree, equal_rows, take_rows, try_as_array
from her_wrappers.recording.accumulator import EpisodeAccumulator
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.values import as_flags, as_reward, as_rewards
from her_wrappers.support.user_warning import warn_user

REWARD_RANGE = "reward must be between -3.4e38 and 3.4e38, the range of float32"


class OpenEpisodes:
    """Records the transitions that `HindsightReplayBuffer.add` passes on, until their episodes end.

    In an open episode, ``obs`` of each transition must equal the previous ``next_obs``.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        info_keys: Sequence[str],
        max_steps: int,
    ) -> None:
        self._spaces = observation_space, action_space
        self._observations = SpaceSpec.of("observation", observation_space)
        self._info_keys = info_keys
        self._max_steps = max_steps
        self._accumulator: EpisodeAccumulator | None = None  # None before the first transition
        self._just_ended = np.zeros(0, bool)  # (N,) environments whose next obs could be the last state
        self._may_warn = True

    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step returns it
        self,
        obs: Tree,
        action: Tree,
        reward: Any,
        next_obs: Tree,
        terminated: Any,
        truncated: Any,
        info: Any,
        skip: Any,
    ) -> Episodes | None:
        """Add a transition, or N; return ended episodes or None. ``skip`` marks resets."""
        count = self._num_envs(obs)
        accumulator = self._accumulator_for(count)
        if count is not None:
            transition = obs, action, reward, next_obs, terminated, truncated, info
            return self._add_batch(accumulator, transition, skip)
        length = max(0, int(accumulator.lengths[0]))
        number = as_reward(reward, length)
        if not abs(number) < FLOAT32_OVERFLOW:
            raise ValueError(f"{REWARD_RANGE}, got {number} at step {length}")
        flags = _as_flag("terminated", terminated), _as_flag("truncated", truncated)
        last = final_observations(info) if any(flags) else None
        if skip is not None and _as_flag("skip", skip):
            self._require_ended(np.array([length > 0]))
            return None
        if length == 0:
            accumulator.begin(obs, {})
        else:
            self._require_continuation(accumulator, obs, np.array([0]))
            self._require_room(length)
        accumulator.act(action)
        if last is not None:
            next_obs, info = last, info.get("final_info", info)
        return accumulator.observe(next_obs, number, *flags, info or {})

    def truncate(self) -> Episodes | None:
        """End all open episodes as truncated; return those with at least one step, or None if none has."""
        return None if self._accumulator is None else self._accumulator.truncate()

    def discard(self) -> None:
        """Drop all open episodes."""
        self._accumulator = None

    def copy(self) -> tuple[bool, np.ndarray, Episodes | None]:
        """Return the arguments of `resume`; its episodes are copies of the open ones, marked as truncated."""
        if self._accumulator is None:
            return False, np.zeros(0, np.int64), None
        return self._accumulator.is_single, self._accumulator.lengths.clip(0), self._accumulator.copy()

    def resume(
        self,
        is_single: bool,  # whether transitions have no leading axis
        lengths: np.ndarray,  # (N,) int64, steps of each environment's open episode; at least one has steps
        episodes: Episodes,  # the open episodes that have steps
    ) -> None:
        """Add the open episodes of a file; ValueError if the arguments contradict each other."""
        if (found := episodes.lengths.tolist()) != lengths[lengths > 0].tolist():
            raise ValueError(f"the header has open episodes of {lengths} steps, but the file has {found}")
        begun = lengths.max() - lengths  # time t at which the episode of each environment begins
        first_steps = np.zeros(len(lengths), np.int64)
        first_steps[lengths > 0] = episodes.ends[:-1]
        envs = 0 if is_single else slice(None)  # values of a single environment have no axis N
        for t in range(lengths.max()):
            step = (first_steps + (t - begun).clip(0))[envs]
            state = episodes.state_of_step[step]
            action, reward, info = take_rows((episodes.actions, episodes.rewards, episodes.infos), step)
            obs, next_obs = (take_rows(episodes.observations, k) for k in (state, state + (t >= begun)[envs]))
            no = np.zeros(len(lengths), bool)[envs]
            self.add(obs, action, reward, next_obs, no, no, info, None if is_single else begun > t)

    def _num_envs(self, obs: Tree) -> int | None:
        """Return N, the length of the leading axis of ``obs``, or None if ``obs`` has no such axis."""
        leaf = self._observations.leaves[0]
        try:
            shape = np.shape(leaf.find(obs, ""))
        except ValueError:  # the error is raised again, with the step in its message
            return None
        return shape[0] if len(shape) == len(leaf.shape) + 1 else None

    def _accumulator_for(self, count: int | None) -> EpisodeAccumulator:
        """Return the accumulator for ``count`` environments (None: a single one); create it if needed."""
        accumulator = self._accumulator
        if accumulator is not None and count == (None if accumulator.is_single else accumulator.num_envs):
            accumulator.is_stepping = False  # a transition that was rejected does not move an environment
            return accumulator
        if count == 0:
            raise ValueError("obs must have a row for each environment, got 0 rows")
        if accumulator is not None and accumulator.lengths.max() > 0:
            kind = "a single environment" if accumulator.is_single else f"{accumulator.num_envs} environments"
            raise ValueError(
                f"obs must be from {kind}, like the open episodes; call truncate_open_episode() before you "
                "add transitions of another number of environments"
            )
        options: dict[str, Any] = {"info_keys": self._info_keys, "watches_reuse": True}
        self._accumulator = EpisodeAccumulator(*self._spaces, count, **options)
        self._just_ended = np.zeros(count or 1, bool)
        return self._accumulator

    def _add_batch(
        self, accumulator: EpisodeAccumulator, transition: tuple[Any, ...], skip: Any
    ) -> Episodes | None:
        obs, action, reward, next_obs, terminated, truncated, info = transition
        count, lengths = accumulator.num_envs, accumulator.lengths
        has_steps = lengths > 0
        is_skipped = np.zeros(count, bool) if skip is None else as_flags("skip", skip, count)
        ends = [as_flags("terminated", terminated, count), as_flags("truncated", truncated, count)]
        rewards = as_rewards(reward, count)
        invalid = ~(np.abs(rewards.astype(np.float64)) < FLOAT32_OVERFLOW) & ~is_skipped
        if invalid.any():
            i = int(invalid.argmax())
            raise ValueError(f"{REWARD_RANGE}, got {rewards[i]} in environment {i}")
        self._require_room(int(lengths.max()))
        if skip is None and self._may_warn and self._just_ended.any():
            self._warn_of_resets(accumulator, obs)
        self._require_ended(is_skipped & has_steps)
        infos = info_columns(info, count, self._info_keys)
        self._require_continuation(accumulator, obs, np.flatnonzero(has_steps))
        self._just_ended = np.zeros(count, bool)  # also if a value is rejected after the next line
        if not (has_steps | is_skipped).all():
            accumulator.begin(obs, {}, ~has_steps & ~is_skipped)
        has_last = final_observations(infos) is not None
        # A skipped row begins an episode and adds no step, like the reset after an end in mode NEXT_STEP.
        accumulator.set_autoreset(AutoresetMode.SAME_STEP if has_last else AutoresetMode.DISABLED, is_skipped)
        accumulator.act(action)
        terminations, truncations = (each & ~is_skipped for each in ends)
        episodes = accumulator.observe(next_obs, rewards, terminations, truncations, infos)
        self._just_ended = (terminations | truncations) & (not has_last)
        return episodes

    def _require_room(self, length: int) -> None:
        if length >= self._max_steps:
            raise ValueError(
                f"the open episode already has {self._max_steps} steps, which fill the buffer; increase "
                "buffer_size, end episodes with truncated=True, or call truncate_open_episode() in time"
            )

    def _require_continuation(self, accumulator: EpisodeAccumulator, obs: Tree, envs: np.ndarray) -> None:
        """Raise ValueError unless ``obs`` equals the last recorded states of the environments ``envs``."""
        for leaf, was, given in accumulator.changes(obs):
            same = equal_rows(was, given)[envs]
            if not same.all():
                i = int(envs[same.argmin()])
                raise ValueError(
                    f"obs {accumulator.where(0)(i)} must equal the previous next_obs, but {leaf.name} is "
                    f"{given[i]}, not {was[i]}. If the episode ended or its goal changed, pass "
                    "terminated=True or truncated=True with its last transition. If you stopped in an "
                    "episode, call truncate_open_episode(). If the environment reuses its arrays, wrap it in "
                    "her_wrappers.repairs.CopyObservation"
                )

    def _require_ended(self, is_wrong: np.ndarray) -> None:
        if is_wrong.any():
            raise ValueError(
                f"skip must be False for environment {is_wrong.argmax()}, got True: its episode has not "
                "ended; pass True only for the step that follows terminated=True or truncated=True"
            )

    def _warn_of_resets(self, accumulator: EpisodeAccumulator, obs: Tree) -> None:
        """Warn if a row of ``obs`` is the last state of an episode that ended at the previous call."""
        is_reset = self._just_ended
        for _, was, given in accumulator.changes(obs):
            is_reset = is_reset & equal_rows(was, given)
        if is_reset.any():
            self._may_warn = False
            warn_user(
                f"the row of environment {is_reset.argmax()} begins in the last state of its previous "
                "episode. If the autoreset mode is NEXT_STEP, this row is a reset, not a transition; then "
                "pass skip=, a bool array that is True for environments whose episode ended at the previous "
                "step."
            )


def _as_flag(name: str, value: Any) -> bool:
    if type(value) is bool:
        return value
    array = try_as_array(value)
    if array.dtype != np.bool_ or array.size != 1:
        raise TypeError(f"{name} must be one bool, got {value!r}")
    return bool(array.reshape(-1)[0])
