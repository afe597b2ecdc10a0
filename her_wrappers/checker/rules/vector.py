"""GE6xx: a vector environment declares its autoreset mode, and its batches are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from her_wrappers.autoreset import declared_mode
from her_wrappers.checker.batches import ended_rows, leaf_array, wrong_shapes
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show
from her_wrappers.checker.vector import autoreset_mode
from her_wrappers.infos import final_observation_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.rollout import StepRecord


@rule(
    "GE601",
    "no-autoreset-mode",
    "warning",
    meaning="A vector environment does not declare its autoreset mode.",
    fix='set metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode',
    wrong='metadata = {"autoreset": True}',
    right='metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}',
)
def no_autoreset_mode(evidence: Evidence) -> Iterator[Violation]:
    """The autoreset mode is declared, since it determines which rows are transitions."""
    if evidence.vector_rollout.resets and declared_mode(evidence.env) is None:
        got = show(evidence.env.metadata.get("autoreset_mode"))
        yield Violation(got, "an AutoresetMode", subject='metadata["autoreset_mode"]')


@rule(
    "GE602",
    "final-obs-missing",
    "error",
    meaning="A vector environment resets in the same step and does not return the last observation.",
    fix='put the last observations into infos["final_obs"]',
    wrong="observations[ended] = self._reset(ended)",
    right="""
infos["final_obs"] = {key: rows.copy() for key, rows in observations.items()}
observations[ended] = self._reset(ended)""",
)
def final_obs_missing(evidence: Evidence) -> Iterator[Violation]:
    """The last observation of an episode is returned in the infos."""
    for step in _resetting_steps(evidence):
        for i in np.flatnonzero(ended_rows(step)).tolist():
            if final_observation_row(step.info, i) is None:
                yield Violation("no such key", 'infos["final_obs"] for the episode that ended', step.place)


@rule(
    "GE603",
    "vector-shape",
    "error",
    meaning="Batches of a vector environment do not have one row per environment, or have a wrong dtype.",
    fix="return rewards, terminations and truncations of shape (num_envs,), and batched observations",
    wrong="return observations, rewards[:, None], terminated.astype(float), truncated, infos",
    right="return observations, rewards, terminated, truncated, infos",
)
def vector_shape(evidence: Evidence) -> Iterator[Violation]:
    """Each returned batch has one row per environment."""
    env = evidence.env
    if not evidence.vector_rollout.resets:
        return
    if env.observation_space != batch_space(env.single_observation_space, env.num_envs):
        yield Violation(
            show(env.observation_space), "a batch of single_observation_space", subject="observation_space"
        )
    for record in evidence.vector_rollout.records:
        for name, shape, expected in wrong_shapes(record, env.num_envs):
            yield Violation(f"shape {shape}", f"shape {expected}", record.place, name)
    for step in evidence.vector_rollout.steps:
        for name in ("terminated", "truncated"):
            dtype = leaf_array(getattr(step, name)).dtype
            if dtype != np.bool_:
                yield Violation(f"dtype {dtype}", "dtype bool", step.place, name)


@rule(
    "GE604",
    "final-info-missing",
    "warning",
    meaning="A vector environment resets in the same step and does not return the last info.",
    fix='put the last infos into infos["final_info"]',
    wrong='infos = {"is_success": self._success()}  # already of the new episodes',
    right='infos = {"final_info": last_infos, "_final_info": ended, **reset_infos}',
)
def final_info_missing(evidence: Evidence) -> Iterator[Violation]:
    """The last info of an episode, which has its success flag, is returned in the infos."""
    for step in _resetting_steps(evidence):
        if "final_info" not in step.info:
            yield Violation("no such key", 'infos["final_info"] for the episode that ended', step.place)


def _resetting_steps(evidence: Evidence) -> list[StepRecord]:
    """Return the steps in which a vector environment of mode SAME_STEP starts new episodes."""
    rollout = evidence.vector_rollout
    if not rollout.resets or autoreset_mode(evidence.env, rollout) is not AutoresetMode.SAME_STEP:
        return []
    steps = (step for step in rollout.steps if not any(wrong_shapes(step, evidence.env.num_envs)))
    return [step for step in steps if ended_rows(step).any()]
