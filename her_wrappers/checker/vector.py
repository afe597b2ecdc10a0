"""Rollouts of vector environments, and their split into episodes of single environments.

The result of the split is a rollout like that of a single environment, so the same rules apply to both. The
split depends on the `gymnasium.vector.AutoresetMode` of the vector environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers.autoreset import declared_mode
from her_wrappers.checker.batches import ended_rows, row, wrong_shapes
from her_wrappers.checker.rollout import (
    InterruptedRunError,
    ResetRecord,
    Rollout,
    RolloutCollector,
    StepRecord,
    require_tuple,
)
from her_wrappers.infos import final_info_row, final_observation_row, final_observations, info_row

if TYPE_CHECKING:
    from her_wrappers.checker.rollout import Policy

Record = TypeVar("Record", ResetRecord, StepRecord)


class VectorRolloutCollector(RolloutCollector):
    """Runs a vector environment and records batches.

    An episode of this rollout lasts from one call of ``reset`` to the next: in mode DISABLED until an episode
    of some environment ends, in the other modes until a number of steps.
    """

    @property
    def _num_envs(self) -> int:
        env: Any = self._env
        return int(env.num_envs)

    def _run_episode(self, policy: Policy, limit: int) -> int:
        disabled = autoreset_mode(self._env, self.rollout) is AutoresetMode.DISABLED
        observation = self._require_complete(self._reset()).observation
        for t in range(limit):
            step = self._require_complete(self._step(t, observation, policy(observation)))
            observation = step.observation
            ended = ended_rows(step)
            self.rollout.ended_episodes += int(ended.sum())
            if disabled and ended.any():
                observation = self._require_complete(self._reset({"reset_mask": ended})).observation
        return limit

    def _require_complete(self, record: Record) -> Record:
        """Return the record, or raise InterruptedRunError if a row is missing, which GE603 reports."""
        if any(wrong_shapes(record, self._num_envs)):
            raise InterruptedRunError
        return record

    def _validated_step(self, returned: Any) -> tuple[Any, ...]:
        values = require_tuple(returned, 5)
        if not isinstance(values[-1], dict):
            raise TypeError(f"expected a dict as infos, got {type(values[-1]).__name__}")
        return values


def autoreset_mode(env: Any, rollout: Rollout) -> AutoresetMode:
    """Return the autoreset mode from the metadata, else the mode that the infos suggest.

    If infos have final observations, this is SAME_STEP, else NEXT_STEP.

    Args:
        env: A vector environment.
        rollout: Rollout of the vector environment.
    """
    mode = declared_mode(env)
    if mode is not None:
        return mode
    has_final = any(final_observations(step.info) is not None for step in rollout.steps)
    return AutoresetMode.SAME_STEP if has_final else AutoresetMode.NEXT_STEP


def split(batches: Rollout, env: Any) -> Rollout:
    """Return a rollout of the episodes of the single environments.

    Args:
        batches: Rollout of the vector environment.
        env: The vector environment.
    """
    return _Splitter(batches, autoreset_mode(env, batches), env.num_envs).split()


class _Splitter:
    """Reads the batches in order, and keeps the current episode and step of each environment."""

    def __init__(self, batches: Rollout, mode: AutoresetMode, num_envs: int) -> None:
        self._batches = batches
        self._mode = mode
        self._num_envs = num_envs
        self._rollout = Rollout(
            failure=batches.failure, cut_off=batches.cut_off, ended_episodes=batches.ended_episodes
        )
        self._episode = [0] * num_envs
        self._t = [0] * num_envs
        self._ended = np.zeros(num_envs, bool)

    def split(self) -> Rollout:
        """Read the batches up to the first one that lacks a row."""
        resets = iter(self._batches.resets)
        run = -1
        for step in self._batches.steps:
            while run < step.episode:
                self._read_reset(next(resets))
                run += 1
            if any(wrong_shapes(step, self._num_envs)):
                break
            self._read_step(step)
        return self._rollout

    def _read_reset(self, record: ResetRecord) -> None:
        mask = (record.options or {}).get("reset_mask", np.ones(self._num_envs, bool))
        for i in np.flatnonzero(mask).tolist():
            self._start_episode(i, record)

    def _start_episode(self, i: int, record: ResetRecord | StepRecord) -> None:
        self._episode[i], self._t[i] = len(self._rollout.resets), 0
        self._ended[i] = False
        self._rollout.resets.append(
            ResetRecord(
                self._episode[i],
                None,
                None,
                row(record.observation, i),
                info_row(record.info, i, self._num_envs),
                row(record.live_observation, i),
                info_row(record.live_info, i, self._num_envs),
            )
        )

    def _read_step(self, step: StepRecord) -> None:
        ended = ended_rows(step)
        for i in range(self._num_envs):
            if self._ended[i]:
                self._start_episode(i, step)  # in mode NEXT_STEP, the row of a reset is not a transition
                continue
            same_step = bool(ended[i]) and self._mode is AutoresetMode.SAME_STEP
            self._add(i, step, same_step=same_step)
            if same_step:
                self._start_episode(i, step)
            elif self._mode is AutoresetMode.NEXT_STEP:
                self._ended[i] = ended[i]

    def _add(self, i: int, step: StepRecord, *, same_step: bool) -> None:
        observation, live = row(step.observation, i), row(step.live_observation, i)
        read_info = final_info_row if same_step else info_row
        info, live_info = (read_info(infos, i, self._num_envs) for infos in (step.info, step.live_info))
        if same_step:
            observation, live = final_observation_row(step.info, i), final_observation_row(step.live_info, i)
            if observation is None:
                return  # reported by final-obs-missing
        self._rollout.steps.append(
            StepRecord(
                self._episode[i],
                self._t[i],
                row(step.before, i),
                row(step.action, i),
                observation,
                step.reward[i],
                bool(step.terminated[i]),
                bool(step.truncated[i]),
                info,
                row(step.live_action, i),
                live,
                live_info,
            )
        )
        self._t[i] += 1
