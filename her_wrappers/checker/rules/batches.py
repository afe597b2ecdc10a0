"""Rules GE1xx: replay buffers can call compute_reward with relabeled goals and with batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.comparing import ABSOLUTE, RELATIVE, close, share_memory, show
from her_wrappers.checker.goal_calls import INFO_FORMS, distance, extreme_pairs, leaves
from her_wrappers.checker.lab import BATCH_NEEDS, REWARD, REWARD_NEEDS, Lab, rule
from her_wrappers.data.trees import Tree, copy_tree, map_tree
from her_wrappers.goals.interface import find_function
from her_wrappers.rules import Violation

SINGLE_FORMS = ("the step's info for one goal", "an empty dict for one goal")
REQUIRED_FORMS = (*SINGLE_FORMS, *INFO_FORMS[:3])  # which environments and replay buffers use
ARRAY = INFO_FORMS[2]
REPEATED_CALLS, REPEATED_SIZE = 4, 3  # batches in succession, to detect a shared output array


@rule(
    "GE104",
    fix="compute norms and sums over axis=-1, the components of a goal, and use np.where instead of `if`",
    needs=REWARD_NEEDS,
    wrong="return 0.0 if distance < 0.05 else -1.0",
    right="return np.where(distance < 0.05, 0.0, -1.0)",
)
def reward_not_vectorised(lab: Lab) -> Iterator[Violation]:
    """compute_reward raises an exception on a batch of goals, with every form of the info argument."""
    forms = lab.form_results(REWARD)
    if forms and lab.info_form(REWARD) is None and not lab.needs_info(REWARD):
        error = forms[INFO_FORMS[0]].error_text
        yield Violation(f"for a batch of 2 goals, compute_reward raises {error}")
    for rows, result in lab.batch_results(REWARD):
        if result.error is not None:
            yield Violation(f"for a batch of {len(rows)} goals, compute_reward raises {result.error_text}")


@rule(
    "GE105",
    fix="compute norms and sums over axis=-1, without keepdims",
    needs=BATCH_NEEDS,
    wrong="return -np.linalg.norm(achieved_goal - desired_goal)  # () for any batch",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_shape(lab: Lab) -> Iterator[Violation]:
    """For a batch of N goals, compute_reward returns a shape other than (N,)."""
    for rows, result in lab.batch_results(REWARD):
        if result.shape not in {None, (len(rows),)}:
            yield Violation(f"compute_reward returns shape {result.shape} for {len(rows)} goals")


@rule(
    "GE106",
    fix="use the last axis only (axis=-1, [..., 0]), and the same code for one pair of goals and for a batch",
    needs=BATCH_NEEDS,
    wrong="return -np.abs(achieved_goal - desired_goal).sum(axis=0)",
    right="return -np.abs(achieved_goal - desired_goal).sum(axis=-1)",
)
def reward_batch_value(lab: Lab) -> Iterator[Violation]:
    """The rewards of a batch of goals differ from the rewards of the same goals one by one."""
    numbers = [result.number for result in lab.pair_results(REWARD)]
    single = np.array([np.nan if number is None else number for number in numbers])
    for rows, result in lab.batch_results(REWARD):
        if result.shape != (len(rows),) or result.numbers is None:
            continue
        alone = single[rows]
        wrong = ~np.isclose(result.numbers, alone, RELATIVE, ABSOLUTE) & ~np.isnan(alone)
        for i in np.flatnonzero(wrong).tolist()[:1]:
            values = f"{show(result.numbers[i])} in the batch, but {show(alone[i])} for this pair of goals"
            yield Violation(f"the reward is {values} alone", f"row {i} of {len(rows)} relabeled goals")


@rule(
    "GE108",
    severity="warning",
    fix="return a scalar for one goal, and do not squeeze the batch axis",
    needs=BATCH_NEEDS,
    wrong="return -np.linalg.norm(np.atleast_2d(achieved_goal - desired_goal), axis=-1)  # (1,) for one goal",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_small_shape(lab: Lab) -> Iterator[Violation]:
    """The result for one goal has shape (1,), or a batch of 1 or 0 goals raises or loses its axis."""
    for name in lab.functions:
        is_reward, form = name == REWARD, lab.info_form(name)
        if form is None or not (is_reward or lab.is_rowwise(name)):
            continue  # GE206 reports terminations that are not rowwise
        prefix = "" if is_reward else f"{name}, "
        for result in lab.pair_results(name):
            if result.shape not in {(), None}:
                message = f"{name} {result.shape_outcome} instead of ()"
                yield Violation(message, subject=f"{prefix}one goal")
        for count in (1, 0) if is_reward else (1,):
            result = lab.call(name, *lab.batch(range(count), form))
            if result.error is None and result.numbers is None:
                continue  # GE114 reports values that are not numbers
            if result.shape != (count,):
                message = f"instead of shape ({count},), {name} {result.shape_outcome}"
                yield Violation(message, subject=f"{prefix}a batch of {count}")


@rule(
    "GE113",
    severity="warning",
    fix="use defaults for keys that are missing in info, and accept a list or an array of dicts for a batch",
    needs=REWARD_NEEDS,
    wrong='costs = info["cost"]',
    right='costs = [row.get("cost", 0.0) for row in ([info] if isinstance(info, dict) else info)]',
)
def reward_needs_info(lab: Lab) -> Iterator[Violation]:
    """A goal function raises or loses values for a form of the info argument that replay buffers use."""
    for name in lab.functions if lab.pairs else ():
        pair = lab.pairs[0]
        without_info = lab.call(name, pair.achieved, pair.desired, {})
        results = dict(zip(SINGLE_FORMS, [lab.pair_results(name)[0], without_info], strict=True))
        if lab.info_form(name) is not None or lab.needs_info(name):
            results |= lab.form_results(name)
        accepted = [form for form, result in results.items() if not result.error]
        for form, result in results.items():
            is_same = form == ARRAY and INFO_FORMS[0] not in accepted  # the list of these infos raises too
            if result.error and form in REQUIRED_FORMS and accepted and not is_same:
                is_key = isinstance(result.error, KeyError)
                keep = f"; a buffer with info_keys=[{result.error}] stores this key" if is_key else ""
                message = f"{name} {result.outcome}, but accepts {', '.join(accepted)}{keep}"
                subject = form if name == REWARD else f"{name}, {form}"
                # Only Stable-Baselines3 with copy_info_dict passes an array.
                yield Violation(message, subject=subject, severity="info" if form == ARRAY else None)
        listed, *others = [lab.form_results(name)[form] for form in INFO_FORMS[:3]]
        for form, result in zip(INFO_FORMS[1:3], others, strict=True):
            is_lost = result.shape != listed.shape or (form == ARRAY and not result.agrees_with(listed))
            if is_lost and not result.error and not listed.error:
                message = f"{name} {result.outcome} for {form}, but {listed.outcome} for {INFO_FORMS[0]}"
                yield Violation(message, subject=f"{name}, {form}")


@rule(
    "GE115",
    severity="warning",
    fix="check the direction of the comparison",
    needs=REWARD_NEEDS,
    wrong="return -(distance < 0.05).astype(np.float32)",
    right="return -(distance > 0.05).astype(np.float32)",
)
def self_goal_not_success(lab: Lab) -> Iterator[Violation]:
    """An achieved goal that equals the desired goal does not get the best reward."""
    pairs = list(zip(lab.pairs, lab.pair_results(REWARD), strict=True))
    reached = {id(pair.info): result.number for pair, result in pairs if pair.is_self}
    for pair, result in pairs:  # pairs with the same info have the same achieved goal too
        best, number = reached.get(id(pair.info)), result.number
        if number is not None and best is not None and number > best and not close(number, best):
            other = f"{show(number)} for two different goals"
            yield Violation(f"the reward is {show(best)} for two equal goals, but {other}")
    own = lab.success_reward
    if lab.is_sparse and own is not None and not close(own, best := max(lab.reward_values)):
        yield Violation(f"the reward is {show(own)} for two equal goals, but {show(best)} in some steps")


@rule(
    "GE116",
    severity="warning",
    fix="compute the reward that reward_type names, and raise ValueError for unknown names",
    needs=REWARD_NEEDS,
    wrong='return -distance if self.reward_type == "dense" else None',
    right="""
if reward_type not in ("sparse", "dense"):
    raise ValueError(f"unknown reward_type {reward_type!r}")""",
)
def reward_type_ignored(lab: Lab) -> Iterator[Violation]:
    """Rewards do not fit reward_type, or compute_reward returns None for an unknown reward_type."""
    kind, count = None, len(lab.reward_values)
    with contextlib.suppress(ValueError):  # the lookup of a wrapper raised
        kind = find_function(lab.env, "reward_type") if lab.vector_run is None else None
    if not isinstance(kind, str):
        return
    if kind == "sparse" and count > 2:
        yield Violation("reward_type is 'sparse', but rewards take more than two values")
    distances = [distance(pair.achieved, pair.desired) for pair in lab.pairs]
    if kind == "dense" and count <= 2 and len(np.unique(np.round(distances, 6))) > 4:
        yield Violation("reward_type is 'dense', but rewards take at most two values")

    def is_none_for_unknown_type(replica: Any) -> bool:
        if hasattr(replica.unwrapped, "reward_type") and lab.pairs:
            pair = copy_tree((lab.pairs[0].achieved, lab.pairs[0].desired, lab.pairs[0].info))
            with contextlib.suppress(Exception):  # an exception is the right reaction
                replica.unwrapped.reward_type = "unknown"
                return replica.get_wrapper_attr(REWARD)(*pair) is None
        return False

    if lab.on_replica(is_none_for_unknown_type):
        message = "compute_reward returns None for an unknown reward_type"
        yield Violation(message, subject="unknown reward_type")


@rule(
    "GE118",
    fix="cast to int64 or a floating dtype before subtracting",
    needs=BATCH_NEEDS,
    wrong="return -np.abs(achieved_goal - desired_goal).sum(-1)  # uint8: 0 - 1 is 255",
    right="return -np.abs(achieved_goal.astype(int) - desired_goal.astype(int)).sum(-1)",
)
def integer_goal_overflow(lab: Lab) -> Iterator[Violation]:
    """The result for integer goals changes after a cast to int64, since the small dtype overflows."""
    kinds = {leaf.dtype.kind for pair in lab.pairs[:1] for leaf in leaves(pair.achieved)}
    if not kinds & {"i", "u"}:
        return

    def as_int64(goal: Any) -> Any:  # the other arrays of a Dict goal are unchanged
        return map_tree(lambda leaf: np.int64(leaf) if np.asarray(leaf).dtype.kind in "iu" else leaf, goal)

    pairs = [*lab.pairs, *extreme_pairs(lab.steps)]
    for name, pair in product(lab.functions, pairs):
        result = lab.call(name, pair.achieved, pair.desired, pair.info)
        wide = lab.call(name, as_int64(pair.achieved), as_int64(pair.desired), pair.info)
        if result.number is not None and wide.number is not None and not close(result.number, wide.number):
            dtypes = {str(leaf.dtype) for leaf in leaves(pair.achieved) if leaf.dtype.kind in "iu"}
            narrow = " and ".join(sorted(dtypes - {"int64"}))
            values = f"{show(result.value)} for {narrow} goals, but {show(wide.value)} for the same"
            yield Violation(f"{name} returns {values} goals as int64")


@rule(
    "GE121",
    fix="never write to an argument; call np.ascontiguousarray where the memory layout matters",
    needs=BATCH_NEEDS,
    wrong="achieved_goal -= desired_goal  # and added again afterwards",
    right="difference = achieved_goal - desired_goal",
)
def goals_read_only(lab: Lab) -> Iterator[Violation]:
    """A goal function raises or returns other values for read-only strided goals in the space's order."""
    space = lab.observation_space["achieved_goal"]  # type: ignore[index] # a Dict, since it has goals
    for name in filter(lab.is_rowwise, lab.functions):
        achieved, desired, infos = lab.batch(range(len(lab.pairs)), lab.info_form(name))
        views = _read_only_view(space, achieved), _read_only_view(space, desired)
        result = lab.call(name, achieved, desired, infos)
        view_result = lab.call(name, *views, infos, copies=False)
        if not result.agrees_with(view_result):
            order = " in the order of the space" if isinstance(achieved, dict) else ""
            seen = f"{view_result.outcome} for read-only strided arrays{order}"
            message = f"the function {seen}, but {result.outcome} for contiguous writable arrays"
            yield Violation(message, subject=name)


def _in_order(space: Any, goals: Tree) -> Any:
    """Return goals whose dicts have the order of a space; keys that the space lacks come last."""
    if not isinstance(goals, dict) or not isinstance(space, spaces.Dict):
        return goals
    return {key: _in_order(space.get(key), goals[key]) for key in sorted(goals, key=[*space, *goals].index)}


def _read_only_view(space: Any, goals: Tree) -> Any:
    """Copy goals into arrays that are read-only and not contiguous."""

    def view(leaf: np.ndarray) -> Any:
        rows = np.repeat(leaf, 2, axis=0)[::2]
        rows.flags.writeable = False
        return rows

    return map_tree(view, _in_order(space, goals))


@rule(
    "GE122",
    fix="return a new array at each call",
    needs=BATCH_NEEDS,
    wrong="return np.negative(distance, out=self._rewards[: len(distance)])",
    right="return -distance",
)
def output_reused(lab: Lab) -> Iterator[Violation]:
    """A goal function reuses its output array, so that a call changes the results of earlier calls."""
    calls = np.arange(REPEATED_CALLS * REPEATED_SIZE).reshape(REPEATED_CALLS, -1)
    for name in filter(lab.is_rowwise, lab.functions):
        outputs: list[Any] = []
        with contextlib.suppress(Exception):
            batches = [lab.batch(rows, lab.info_form(name)) for rows in (calls % len(lab.pairs)).tolist()]
            outputs = [lab.functions[name](*copy_tree(batch)) for batch in batches]
        arrays = [output for output in outputs if isinstance(output, np.ndarray)]
        if any(share_memory(first, later) for first, later in combinations(arrays, 2)):
            yield Violation("the result shares memory with the result of an earlier call", subject=name)
