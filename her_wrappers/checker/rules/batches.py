"""Rules GE1xx: replay buffers can call compute_reward with relabeled goals and with batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from her_wrappers.checker.comparing import ABSOLUTE, RELATIVE, close, show
from her_wrappers.checker.evidence import BATCH_NEEDS, REWARD_NEEDS, Evidence, rule
from her_wrappers.checker.goal_calls import INFO_FORMS, CallResult, Probe, extreme_pairs, flat, leaves
from her_wrappers.data.trees import map_tree
from her_wrappers.rules import Violation
from her_wrappers.support.error_texts import describe

SINGLE_FORMS = ("the step's info for one goal", "an empty dict for one goal")
REQUIRED_FORMS = (*SINGLE_FORMS, *INFO_FORMS[:3])
"""Forms of the info argument that environments and replay buffers use."""

ARRAY = INFO_FORMS[2]


@rule(
    "GE104",
    "reward-not-vectorised",
    meaning="compute_reward raises an exception on a batch of goals, with every form of the info argument.",
    fix="compute norms and sums over axis=-1, the components of a goal, and use np.where instead of `if`",
    needs=REWARD_NEEDS,
    implies=("GE106", "GE108"),
    wrong="""
distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return 0.0 if distance < 0.05 else -1.0""",
    right="""
distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return np.where(distance < 0.05, 0.0, -1.0)""",
)
def reward_not_vectorised(evidence: Evidence) -> Iterator[Violation]:
    """compute_reward must accept a batch of goals: replay buffers call it once for all rows of a batch."""
    if evidence.reward is None:
        return
    forms = evidence.reward.info_form_results
    if evidence.info_form is None and forms and not evidence.reward.needs_info:
        error = forms[INFO_FORMS[0]].error_text
        yield Violation(f"for a batch of 2 goals, compute_reward raises {error}")
    for rows, result in evidence.reward.batch_results:
        if result.error is not None:
            yield Violation(f"for a batch of {len(rows)} goals, compute_reward raises {result.error_text}")


@rule(
    "GE105",
    "reward-batch-shape",
    meaning="For a batch of N goals, compute_reward returns a shape other than (N,).",
    fix="compute norms and sums over axis=-1, without keepdims",
    needs=BATCH_NEEDS,
    implies=("GE106", "GE108"),
    wrong="return -np.linalg.norm(achieved_goal - desired_goal)  # () for any batch",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_shape(evidence: Evidence) -> Iterator[Violation]:
    """For a batch of N goals, compute_reward must return N rewards, of shape (N,)."""
    for rows, result in evidence.reward.batch_results if evidence.reward else ():
        if result.shape not in {None, (len(rows),)}:
            yield Violation(f"compute_reward returns shape {result.shape} for {len(rows)} goals")


@rule(
    "GE106",
    "reward-batch-value",
    meaning="The rewards of a batch of goals differ from the rewards of the same goals one by one.",
    fix="use the last axis only (axis=-1, [..., 0]), so that no reward depends on another goal of the batch",
    needs=BATCH_NEEDS,
    implies=("GE119", "GE121"),
    wrong="return -np.abs(achieved_goal - desired_goal).sum(axis=0)",
    right="return -np.abs(achieved_goal - desired_goal).sum(axis=-1)",
)
def reward_batch_value(evidence: Evidence) -> Iterator[Violation]:
    """A pair of goals must have the same reward in a batch as alone."""
    for rows, result in evidence.reward.batch_results if evidence.reward else ():
        if result.shape != (len(rows),) or result.numbers is None:
            continue
        for i, row in enumerate(rows):
            single = evidence.pair_results[row].number
            if single is not None and not close(result.numbers[i], single):
                yield _batch_value(result.numbers[i], single, i, len(rows))


def _batch_value(in_batch: float, alone: float, row: int, size: int) -> Violation:
    message = f"the reward is {show(in_batch)} in the batch, but {show(alone)} for this pair of goals alone"
    return Violation(message, f"row {row} of {size} relabeled goals")


@rule(
    "GE108",
    "reward-small-shape",
    "warning",
    meaning="The result for one goal has shape (1,), or a batch of 1 or 0 goals raises or loses its axis.",
    fix="return a scalar for one goal, and do not squeeze the batch axis",
    needs=BATCH_NEEDS,
    wrong="return -np.linalg.norm(np.atleast_2d(achieved_goal - desired_goal), axis=-1)  # (1,) for one goal",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_small_shape(evidence: Evidence) -> Iterator[Violation]:
    """For one goal, goal functions must return a scalar; for a batch of 1 or 0 goals, shape (1,) or (0,)."""
    for function in evidence.functions:
        is_reward = function is evidence.reward
        if function.info_form is None or not (is_reward or function.on_views):
            continue  # GE206 reports terminations that are not rowwise
        prefix = "" if is_reward else f"{function.name}, "
        for result in function.pair_results:
            if result.shape not in {(), None}:
                message = f"{function.name} returns shape {result.shape} instead of ()"
                yield Violation(message, subject=f"{prefix}one goal")
        for count in (1, 0) if is_reward else (1,):
            result = function(*evidence.batch(range(count), function.info_form))
            if result.error is None and result.numbers is None:
                continue  # GE114 reports values that are not numbers
            if result.shape != (count,):
                message = f"instead of shape ({count},), {function.name} {result.shape_outcome}"
                yield Violation(message, subject=f"{prefix}a batch of {count}")


@rule(
    "GE113",
    "reward-needs-info",
    "warning",
    meaning="A goal function raises an exception for a form of the info argument that replay buffers use.",
    fix="use defaults for keys that are missing in info, and accept a list or an array of dicts for a batch",
    needs=REWARD_NEEDS,
    wrong='return -distance - info["cost"]',
    right="""
rows = [info] if isinstance(info, dict) else info
return -distance - np.array([row.get("cost", 0.0) for row in rows]).reshape(distance.shape)""",
)
def reward_needs_info(evidence: Evidence) -> Iterator[Violation]:
    """Goal functions must accept a dict or, for a batch, a list or array of dicts; each dict may be empty."""
    for function in evidence.functions if evidence.pairs else ():
        pair = evidence.pairs[0]
        without_info = function(pair.achieved, pair.desired, {})
        results = dict(zip(SINGLE_FORMS, [function.pair_results[0], without_info], strict=True))
        if function.info_form is not None or function.needs_info:
            results |= function.info_form_results
        accepted = [form for form, result in results.items() if not result.error]
        for form, result in results.items():
            is_same = form == ARRAY and INFO_FORMS[0] not in accepted  # the list of these infos raises too
            if result.error and form in REQUIRED_FORMS and accepted and not is_same:
                yield _rejected_form(function, form, result.error, accepted)


def _rejected_form(function: Probe, form: str, error: Exception, accepted: list[str]) -> Violation:
    keep = f"; a buffer with info_keys=[{error}] stores this key" if isinstance(error, KeyError) else ""
    message = f"{function.name} raises {describe(error)}, but accepts {', '.join(accepted)}{keep}"
    subject = form if function.name == "compute_reward" else f"{function.name}, {form}"
    # Only Stable-Baselines3 with copy_info_dict passes an array.
    return Violation(message, subject=subject, severity="info" if form == ARRAY else None)


@rule(
    "GE115",
    "self-goal-not-success",
    "warning",
    meaning="An achieved goal that equals the desired goal does not get the best reward.",
    fix="check the direction of the comparison",
    needs=REWARD_NEEDS,
    implies=("GE202", "GE204", "GE205", "GE207"),
    wrong="return -(distance < 0.05).astype(np.float32)",
    right="return -(distance > 0.05).astype(np.float32)",
)
def self_goal_not_success(evidence: Evidence) -> Iterator[Violation]:
    """An achieved goal must get the best reward if the desired goal is equal to it."""
    pairs = list(zip(evidence.pairs, evidence.pair_results, strict=True))
    reached = {id(pair.info): result.number for pair, result in pairs if pair.is_self}
    for pair, result in pairs:  # pairs with the same info have the same achieved goal too
        best, number = reached.get(id(pair.info)), result.number
        if number is not None and best is not None and number > best and not close(number, best):
            yield Violation(
                f"the reward is {show(best)} for two equal goals, but {show(number)} for two different goals"
            )


@rule(
    "GE116",
    "reward-type-ignored",
    "warning",
    meaning="Rewards do not fit reward_type, or compute_reward returns None for an unknown reward_type.",
    fix="compute the reward that reward_type names, and raise ValueError for unknown names",
    needs=REWARD_NEEDS,
    wrong="""
if self.reward_type == "sparse":
    return -(distance > 0.05).astype(np.float32)
if self.reward_type == "dense":
    return -distance""",
    right="""
if reward_type not in ("sparse", "dense"):
    raise ValueError(f"unknown reward_type {reward_type!r}")""",
)
def reward_type_ignored(evidence: Evidence) -> Iterator[Violation]:
    """Rewards must take two values if reward_type is "sparse", and more values if it is "dense"."""
    kind, count = evidence.reward_type, len(evidence.reward_values)
    if not isinstance(kind, str):
        return
    if kind == "sparse" and count > 2:
        yield Violation("reward_type is 'sparse', but rewards take more than two values")
    distances = [np.linalg.norm(flat(pair.achieved) - flat(pair.desired)) for pair in evidence.pairs]
    if kind == "dense" and count <= 2 and len(np.unique(np.round(distances, 6))) > 4:
        yield Violation("reward_type is 'dense', but rewards take at most two values")
    if evidence.none_for_unknown_type:
        yield Violation(
            "compute_reward returns None for an unknown reward_type", subject="unknown reward_type"
        )


@rule(
    "GE118",
    "integer-goal-overflow",
    meaning="The result for integer goals changes after a cast to int64, since the small dtype overflows.",
    fix="cast to int64 or a floating dtype before subtracting",
    needs=BATCH_NEEDS,
    implies=("GE101", "GE106", "GE115"),
    wrong="return -np.abs(achieved_goal - desired_goal).sum(-1)  # uint8: 0 - 1 is 255",
    right="return -np.abs(achieved_goal.astype(int) - desired_goal.astype(int)).sum(-1)",
)
def integer_goal_overflow(evidence: Evidence) -> Iterator[Violation]:
    """The results of goal functions must depend on the values of integer goals only, not on their dtype."""
    kinds = {leaf.dtype.kind for pair in evidence.pairs[:1] for leaf in leaves(pair.achieved)}
    if not kinds & {"i", "u"}:
        return
    pairs = [*evidence.pairs, *extreme_pairs(evidence.steps)]
    for function, pair in product(evidence.functions, pairs):
        result = function(pair.achieved, pair.desired, pair.info)
        wide = function(_as_int64(pair.achieved), _as_int64(pair.desired), pair.info)
        if result.number is not None and wide.number is not None and not close(result.number, wide.number):
            dtypes = {str(leaf.dtype) for leaf in leaves(pair.achieved) if leaf.dtype.kind in "iu"}
            narrow = " and ".join(sorted(dtypes - {"int64"}))
            values = f"{show(result.value)} for {narrow} goals, but {show(wide.value)} for the same"
            yield Violation(f"{function.name} returns {values} goals as int64")


def _as_int64(goal: Any) -> Any:
    """Return a goal with its integer leaves as int64; other leaves of a Dict goal stay as they are."""

    def cast(leaf: Any) -> Any:
        leaf = np.asarray(leaf)
        return leaf.astype(np.int64)[()] if leaf.dtype.kind in "iu" else leaf

    return map_tree(cast, goal)


@rule(
    "GE119",
    "reward-batch-size",
    meaning="For large batches, compute_reward raises or returns other rewards than for single goals.",
    fix="compute each row in the same way for every batch size",
    needs=BATCH_NEEDS,
    wrong="""
rewards = -np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return np.where(np.arange(len(rewards)) < 100, rewards, 0)""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_size(evidence: Evidence) -> Iterator[Violation]:
    """The reward of a pair of goals must not depend on the size of the batch."""
    numbers = [result.number for result in evidence.pair_results]
    single = np.array([np.nan if number is None else number for number in numbers])
    for rows, result in evidence.reward.large_batches if evidence.reward else ():
        if result.shape != (len(rows),) or result.numbers is None:
            yield Violation(f"for {len(rows)} goals, compute_reward {result.shape_outcome}")
            continue
        wrong = ~np.isclose(result.numbers, single[rows], RELATIVE, ABSOLUTE, equal_nan=True)
        for i in np.flatnonzero(wrong & ~np.isnan(single[rows]))[:1]:
            yield _batch_value(result.numbers[i], single[rows][i], int(i), len(rows))


@rule(
    "GE121",
    "goals-read-only",
    meaning="For read-only strided arrays, as in buffers, a goal function raises or returns other values.",
    fix="never write to an argument; call np.ascontiguousarray where the memory layout matters",
    needs=BATCH_NEEDS,
    wrong="""
achieved_goal -= desired_goal
reward = -np.linalg.norm(achieved_goal, axis=-1)
achieved_goal += desired_goal""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def goals_read_only(evidence: Evidence) -> Iterator[Violation]:
    """Goal functions must return the same results for read-only, non-contiguous arrays as for new arrays."""
    for function in evidence.functions:
        result, view_result = function.on_views or (CallResult(None), CallResult(None))
        if not result.agrees_with(view_result):
            contiguous = f"{result.outcome} for contiguous writable arrays"
            message = f"the function {view_result.outcome} for read-only strided arrays, but {contiguous}"
            yield Violation(message, subject=function.name)


@rule(
    "GE122",
    "output-reused",
    meaning="A goal function reuses its output array, so that a call changes the results of earlier calls.",
    fix="return a new array at each call",
    needs=BATCH_NEEDS,
    wrong="""
np.negative(distance, out=self._rewards[: len(distance)])
return self._rewards[: len(distance)]""",
    right="return -distance",
)
def output_reused(evidence: Evidence) -> Iterator[Violation]:
    """A goal function must return a new array at each call, so that earlier results do not change."""
    for function in evidence.functions:
        if function.reuses_output:
            message = "the result shares memory with the result of an earlier call"
            yield Violation(message, subject=function.name)
