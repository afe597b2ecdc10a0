"""GE104 to GE108, GE113, GE115, GE116, GE118: compute_reward works for relabeled goals and for batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.evidence import INFO_FORMS
from her_wrappers.checker.goals import flat, leaves
from her_wrappers.checker.pairs import extreme_pairs
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import close, show
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.pairs import Pair

SINGLE_FORMS = ("the step's info for one goal", "an empty dict for one goal")
REQUIRED_FORMS = (*SINGLE_FORMS, *INFO_FORMS[:2])
"""Forms of the info argument that environments and replay buffers use."""


@rule(
    "GE104",
    "reward-not-vectorised",
    "error",
    meaning="compute_reward raises an exception on a batch of goals, with every form of the info argument.",
    fix="reduce over axis=-1, and use np.where instead of `if`",
    needs=("reward",),
    implies=("GE106", "GE108", "GE119", "GE121"),
    wrong="""
distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return 0.0 if distance < 0.05 else -1.0""",
    right="""
distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return np.where(distance < 0.05, 0.0, -1.0)""",
)
def reward_not_vectorised(evidence: Evidence) -> Iterator[Violation]:
    """A replay buffer computes the rewards of a whole batch by one call."""
    if evidence.info_form is None and evidence.info_form_results and not _needs_info(evidence):
        yield Violation(evidence.info_form_results[INFO_FORMS[0]].error_text, "rewards of a batch of 2 goals")
        return
    for rows, result in evidence.batch_results:
        if result.error is not None:
            yield Violation(result.error_text, f"rewards of a batch of {len(rows)} goals")


@rule(
    "GE105",
    "reward-batch-shape",
    "error",
    meaning="For a batch of N goals, compute_reward returns a shape other than (N,).",
    fix="reduce over axis=-1 without keepdims",
    needs=("batch",),
    implies=("GE106", "GE108", "GE119", "GE121"),
    wrong="return -np.linalg.norm(achieved_goal - desired_goal)  # () for any batch",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_shape(evidence: Evidence) -> Iterator[Violation]:
    """Each row of a batch has one reward."""
    for rows, result in evidence.batch_results:
        if result.shape not in {None, (len(rows),)}:
            yield Violation(f"shape {result.shape}", f"shape ({len(rows)},) for {len(rows)} goals")


@rule(
    "GE106",
    "reward-batch-value",
    "error",
    meaning="The rewards of a batch differ from the rewards of its rows computed one by one.",
    fix="index and reduce the last axis only, so that no row depends on another",
    needs=("batch",),
    implies=("GE119", "GE121"),
    wrong="return -np.abs(achieved_goal - desired_goal).sum(axis=0)",
    right="return -np.abs(achieved_goal - desired_goal).sum(axis=-1)",
)
def reward_batch_value(evidence: Evidence) -> Iterator[Violation]:
    """A pair of goals has the same reward in a batch and alone."""
    for rows, result in evidence.batch_results:
        if result.shape != (len(rows),) or result.numbers is None:
            continue
        for i, row in enumerate(rows):
            single = evidence.pair_results[row].number
            if single is not None and not close(result.numbers[i], single):
                expected = f"{show(single)} as for this pair of goals alone"
                yield Violation(show(result.numbers[i]), expected, f"row {i} of {len(rows)} relabeled goals")


@rule(
    "GE108",
    "reward-small-shape",
    "warning",
    meaning="The reward of one goal has shape (1,), or a batch of 1 or 0 goals raises or loses its axis.",
    fix="return a scalar for one goal, and do not squeeze the batch axis",
    needs=("batch",),
    wrong="return -np.linalg.norm(np.atleast_2d(achieved_goal - desired_goal), axis=-1)  # (1,) for one goal",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_small_shape(evidence: Evidence) -> Iterator[Violation]:
    """The rewards have the axes of the goals except the last one, also for one goal and no goals."""
    if evidence.reward is None or evidence.info_form is None:
        return
    for result in evidence.pair_results:
        if result.shape not in {(), None}:
            yield Violation(f"shape {result.shape}", "shape () for one goal", subject="one goal")
    for count in (1, 0):
        result = evidence.call_batch(evidence.reward, range(count), evidence.info_form)
        if result.error is None and result.numbers is None:
            continue  # GE114 reports values that are not numbers
        if result.shape != (count,):
            got = result.error_text or f"shape {result.shape}"
            yield Violation(got, f"shape ({count},)", subject=f"a batch of {count}")


@rule(
    "GE113",
    "reward-needs-info",
    "warning",
    meaning="compute_reward raises with a form of the info argument that replay buffers use.",
    fix="use defaults for keys that are missing in info, and accept a list of dicts for a batch",
    needs=("reward",),
    wrong='return -distance - info["cost"]',
    right="""
rows = info if isinstance(info, (list, tuple)) else [info]
return -distance - np.array([row.get("cost", 0.0) for row in rows]).reshape(distance.shape)""",
)
def reward_needs_info(evidence: Evidence) -> Iterator[Violation]:
    """compute_reward works with stored infos, and without infos."""
    results = _single_forms(evidence) | (evidence.info_form_results if _takes_some_batch(evidence) else {})
    accepted = [form for form, result in results.items() if not result.error]
    for form, result in results.items():
        if result.error and form in REQUIRED_FORMS:
            hint = f"compute_reward accepts {', '.join(accepted) or 'no form'}"
            yield Violation(result.error_text, "a reward with this form of info", subject=form, hint=hint)


@rule(
    "GE115",
    "self-goal-not-success",
    "warning",
    meaning="An achieved goal that equals the desired goal does not get the best reward.",
    fix="check the direction of the comparison",
    needs=("reward",),
    implies=("GE202", "GE204", "GE205", "GE207"),
    wrong="return -(distance < 0.05).astype(np.float32)",
    right="return -(distance > 0.05).astype(np.float32)",
)
def self_goal_not_success(evidence: Evidence) -> Iterator[Violation]:
    """No pair of goals has a better reward than two equal goals."""
    pairs = list(zip(evidence.pairs, evidence.pair_results, strict=True))
    reached = {id(pair.info): result.number for pair, result in pairs if pair.is_self}
    for pair, result in pairs:  # pairs with the same info have the same achieved goal too
        best, number = reached.get(id(pair.info)), result.number
        if number is not None and best is not None and number > best and not close(number, best):
            expected = f"at least {show(number)} as for another desired goal"
            yield Violation(f"{show(best)} for two equal goals", expected)


@rule(
    "GE116",
    "reward-type-ignored",
    "warning",
    meaning="reward_type contradicts the rewards, or compute_reward returns None for an unknown reward_type.",
    fix="compute the reward that reward_type names, and raise ValueError for unknown names",
    needs=("reward",),
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
    """Sparse rewards have two values, dense rewards have more."""
    kind, count = _attribute(evidence.env, "reward_type"), len(evidence.reward_values)
    if kind == "sparse" and count > 2:
        yield Violation("more than two values", "two values from reward_type='sparse'")
    if kind == "dense" and count <= 2 and _count_distances(evidence.pairs) > 4:
        yield Violation("at most two values", "many values from reward_type='dense'")
    if isinstance(kind, str) and _gives_none_for_unknown_type(evidence):
        yield Violation("None", "an exception or a reward", subject="unknown reward_type")


@rule(
    "GE118",
    "integer-goal-overflow",
    "error",
    meaning="Integer goals get another reward after a cast to int64: a difference, square or sum overflows.",
    fix="cast to int64 or a floating dtype before subtracting",
    needs=("batch",),
    implies=("GE101", "GE106", "GE115", "GE202", "GE205"),
    wrong="return -np.abs(achieved_goal - desired_goal).sum(-1)  # uint8: 0 - 1 is 255",
    right="return -np.abs(achieved_goal.astype(int) - desired_goal.astype(int)).sum(-1)",
)
def integer_goal_overflow(evidence: Evidence) -> Iterator[Violation]:
    """The reward depends on the values of the goals, not on their dtype."""
    kinds = {leaf.dtype.kind for pair in evidence.pairs[:1] for leaf in leaves(pair.achieved)}
    if evidence.reward is None or not kinds & {"i", "u"}:
        return
    extremes = extreme_pairs(evidence.steps)
    results = [evidence.reward(pair.achieved, pair.desired, pair.info) for pair in extremes]
    for pair, result in zip(evidence.pairs + extremes, evidence.pair_results + results, strict=True):
        wide = evidence.reward(_as_int64(pair.achieved), _as_int64(pair.desired), pair.info)
        if result.number is not None and wide.number is not None and not close(result.number, wide.number):
            dtypes = {str(leaf.dtype) for leaf in leaves(pair.achieved) if leaf.dtype.kind in "iu"}
            got = f"{show(result.value)} for {' and '.join(sorted(dtypes - {'int64'}))} goals"
            yield Violation(got, f"{show(wide.value)} as for int64 goals")


def _needs_info(evidence: Evidence) -> bool:
    """Whether batches raised because a key is missing in info."""
    return any(isinstance(result.error, KeyError) for result in evidence.info_form_results.values())


def _takes_some_batch(evidence: Evidence) -> bool:
    return evidence.info_form is not None or _needs_info(evidence)


def _single_forms(evidence: Evidence) -> dict[str, Any]:
    if evidence.reward is None or not evidence.pairs:
        return {}
    pair = evidence.pairs[0]
    return {
        SINGLE_FORMS[0]: evidence.pair_results[0],
        SINGLE_FORMS[1]: evidence.reward(pair.achieved, pair.desired, {}),
    }


def _attribute(env: Any, name: str) -> Any:
    if not hasattr(env, "has_wrapper_attr"):
        return None
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _count_distances(pairs: list[Pair]) -> int:
    distances = [np.linalg.norm(flat(pair.achieved) - flat(pair.desired)) for pair in pairs]
    return len(np.unique(np.round(distances, 6)))


def _gives_none_for_unknown_type(evidence: Evidence) -> bool:
    """Whether compute_reward of a replica with an unknown reward_type returns None."""
    replica = evidence.replica
    if replica is None or not hasattr(replica.unwrapped, "reward_type") or not evidence.pairs:
        return False
    try:
        replica.unwrapped.reward_type = "unknown"
        pair = evidence.pairs[0]
        return replica.get_wrapper_attr("compute_reward")(pair.achieved, pair.desired, pair.info) is None
    except Exception:
        return False  # an exception is the right reaction


def _as_int64(goal: Any) -> Any:
    """Return a goal with its integer leaves as int64; other leaves of a Dict goal stay as they are."""

    def cast(leaf: Any) -> Any:
        leaf = np.asarray(leaf)
        return leaf.astype(np.int64)[()] if leaf.dtype.kind in "iu" else leaf

    return map_tree(cast, goal)
