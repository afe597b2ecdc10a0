"""Rules GE5xx: infos can be batched. Rules GE6xx: vector environments return complete batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from her_wrappers.checker.comparing import differences, identical, show
from her_wrappers.checker.goal_calls import flat
from her_wrappers.checker.lab import Lab, rule
from her_wrappers.checker.records import StepRecord, ended_rows, row_of, wrong_shapes
from her_wrappers.data.infos import final_observation_row
from her_wrappers.data.trees import copy_tree, try_as_array
from her_wrappers.goals.autoreset import declared_mode
from her_wrappers.rules import Violation
from her_wrappers.support.error_texts import describe

MIN_STARTS, MIN_AUTOMATIC = 12, 4  # least episodes after calls of reset() and automatic resets, to compare
NUM_ENVS, BATCHES = 3, 32  # number of infos in a batch, and number of batches of random infos


@rule(
    "GE501",
    severity="warning",
    fix="return each key with one type and shape at every step; no key may start with an underscore",
    needs=("steps",),
    wrong='info = {"distance": 0}  # later {"distance": 0.5}, which becomes 0 in the batch',
    right='info = {"distance": 0.0}',
)
def info_not_batchable(lab: Lab) -> Iterator[Violation]:
    """Infos raise an exception or lose data when a vector environment batches them."""
    if not_dict := next((each for each in lab.rollout.records if not isinstance(each.info, dict)), None):
        yield Violation(f"the info is {show(not_dict.info)} instead of a dict", not_dict.place)
        return
    rng = np.random.default_rng(lab.budget.seed)
    infos = [step.info for step in lab.steps]
    rows = rng.integers(len(infos), size=(BATCHES, NUM_ENVS)).tolist()
    ends = [i for i, step in enumerate(lab.steps) if step.terminated or step.truncated][:BATCHES]
    batches = [[infos[i] for i in row] for row in [*rows, *([end, max(end - 1, 0), 0] for end in ends)]]
    batcher: Any = gym.vector.VectorEnv()
    batcher.num_envs = NUM_ENVS
    for batch in batches:
        batched: dict[str, Any] = {}
        try:
            for i, info in enumerate(batch):
                batched = batcher._add_info(batched, copy_tree(info), i)  # noqa: SLF001 - as AsyncVectorEnv does
        except Exception as error:
            yield Violation(f"batching these infos in a vector environment raises {describe(error)}")
            return
        for i, info in enumerate(batch):
            for key, value, in_batch in differences(info, _row(batched, info, i), _equal):
                message = f"the value {show(value)} becomes {show(in_batch)} in a batch of infos"
                yield Violation(message, subject=key)


def _row(batched: Any, info: dict[str, Any], i: int) -> dict[str, Any]:
    """Return the info of environment ``i`` in the batched infos, as a dict with the same keys as ``info``."""
    return {
        key: _row(batched[key], value, i) if isinstance(value, dict) else batched[key][i]
        for key, value in info.items()
    }


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.hasobject or b.dtype.hasobject:
        return identical(a.tolist(), b.tolist())
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc"))


@rule(
    "GE601",
    severity="warning",
    fix='set metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode',
    wrong='metadata = {"autoreset": True}',
    right='metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}',
)
def no_autoreset_mode(lab: Lab) -> Iterator[Violation]:
    """A vector environment does not declare its autoreset mode."""
    if lab.vector_run and lab.vector_run.resets and declared_mode(lab.env) is None:
        mode = lab.env.metadata.get("autoreset_mode", "missing")
        yield Violation(f"the mode is {mode!r}, not an AutoresetMode", subject='metadata["autoreset_mode"]')


@rule(
    "GE602",
    fix='put the last observations into infos["final_obs"], and the last infos into infos["final_info"]',
    wrong="infos = {}  # and the observations are those after the reset",
    right='infos = {"final_obs": last_observations, "final_info": last_infos}',
)
def final_obs_missing(lab: Lab) -> Iterator[Violation]:
    """In autoreset mode SAME_STEP, the infos lack the last observation or info of an ended episode."""
    for step in _complete_steps(lab) if lab.mode is AutoresetMode.SAME_STEP else ():
        ended = np.flatnonzero(ended_rows(step)).tolist()
        for i in ended:
            if final_observation_row(step.info, i) is None:
                message = f'the episode of environment {i} ended, but infos["final_obs"] has no observation'
                yield Violation(message, step.place)
        if ended and "final_info" not in step.info:
            message = 'an episode ended, but infos["final_info"] is missing'
            yield Violation(message, step.place, "final_info", severity="warning")


@rule(
    "GE603",
    fix="return rewards, terminations and truncations of shape (num_envs,), and dicts of batched arrays",
    wrong="return observations, rewards[:, None], terminated.astype(float), truncated, infos",
    right="return observations, rewards, terminated, truncated, infos",
)
def vector_shape(lab: Lab) -> Iterator[Violation]:
    """Batches of a vector environment do not have one row per environment, or have a wrong dtype."""
    if not lab.vector_run or not lab.vector_run.resets:
        return
    if lab.env.observation_space != batch_space(lab.observation_space, lab.num_envs):
        message = f"the space is not a batch of single_observation_space: {show(lab.env.observation_space)}"
        yield Violation(message, subject="observation_space")
    for record in lab.vector_run.records:
        for name, message in wrong_shapes(record, lab.num_envs):
            yield Violation(message, record.place, name)
    for step in lab.vector_run.steps:
        for name in ("terminated", "truncated"):
            dtype = try_as_array(getattr(step, name)).dtype
            if dtype != np.bool_:
                yield Violation(f"the batch has dtype {dtype} instead of bool", step.place, name)


@rule(
    "GE606",
    fix="let automatic resets run the code of reset(), return the flags False in the row of a reset, and "
    "reset only the rows of options['reset_mask']",
    wrong="return self._reset(np.ones(self.num_envs, bool))  # for any options",
    right='return self._reset((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))',
)
def reset_rows(lab: Lab) -> Iterator[Violation]:
    """A vector environment ignores reset_mask, or automatic resets differ from reset().

    They keep a state, such as a velocity, or repeat the flags of an episode in the row of its reset.
    """
    steps = _complete_steps(lab)
    is_next_step = lab.vector_run and declared_mode(lab.env) is AutoresetMode.NEXT_STEP
    for before, step in itertools.pairwise(steps if is_next_step else ()):
        if before.episode == step.episode and (ended_rows(before) & ended_rows(step)).any():
            yield Violation("the flags of the last step are repeated in the row of the reset", step.place)
    last_steps = {step.episode: step for step in steps}
    for record in lab.raw_run.resets:
        last: Any = last_steps.get(record.episode - 1)
        mask = (record.options or {}).get("reset_mask")
        for i in np.flatnonzero(~mask).tolist() if last is not None and mask is not None else ():
            if not identical(row_of(last.observation, i), row_of(record.observation, i)):
                yield Violation(f"row {i}, outside of reset_mask, changed", record.place, "reset_mask")

    if found := _kept_value(lab) if lab.vector_run else "":
        yield Violation(found, subject="autoreset")


def _kept_value(lab: Lab) -> str:
    """Return a text on an observed value that reset() sets to one number, and autoreset does not, or ""."""
    called: list[Any] = [each for each in lab.raw_run.resets if "reset_mask" not in (each.options or {})]
    try:
        starts = np.stack([flat(record.observation["observation"]) for record in lab.rollout.resets])
        batches = [record.observation["observation"] for record in called]
        rows = [flat(row_of(batch, i)) for batch in batches for i in range(lab.num_envs)]
    except (IndexError, KeyError, TypeError, ValueError):
        return ""  # other rules report observations that are not arrays of one shape
    automatic = len(starts) - len(rows)
    is_set = np.ptp(rows, axis=0) == 0
    differ = (starts != rows[0])[:, is_set].sum(axis=0)
    if len(rows) < MIN_STARTS or automatic < MIN_AUTOMATIC or differ.max(initial=0) < 0.6 * automatic:
        return ""
    part = np.flatnonzero(is_set)[differ.argmax()]
    wrong = starts[(starts[:, part] != rows[0][part]).argmax(), part]
    values = f"{show(rows[0][part])} after reset(), but {show(wrong)} after an automatic reset"
    return f"observation[{part}] is {values}"


def _complete_steps(lab: Lab) -> list[StepRecord]:
    return [step for step in lab.raw_run.steps if not any(wrong_shapes(step, lab.num_envs))]
