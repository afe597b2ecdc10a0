"""GE10x, GE11x: compute_reward answers for batches of relabeled goals, row by row."""

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
"""Forms that environments and replay buffers use."""


@rule(
    "GE104",
    "reward-not-vectorised",
    "error",
    meaning="compute_reward raises on a batch of goals, for every form of the info.",
    fix="reduce over axis=-1, and use np.where in place of `if`",
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
    """Buffers ask for a whole batch at once."""
    if evidence.info_form is None and evidence.form_answers and not _needs_info(evidence):
        yield Violation(evidence.form_answers[INFO_FORMS[0]].raised, "rewards of a batch of 2 goals")
        return
    for rows, answer in evidence.batch_answers:
        if answer.error is not None:
            yield Violation(answer.raised, f"rewards of a batch of {len(rows)} goals")


@rule(
    "GE105",
    "reward-batch-shape",
    "error",
    meaning="A batch of N goals gets rewards of another shape than (N,).",
    fix="reduce over axis=-1 without keepdims",
    needs=("batch",),
    implies=("GE106", "GE108", "GE119", "GE121"),
    wrong="return -np.linalg.norm(achieved_goal - desired_goal)  # () for any batch",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_shape(evidence: Evidence) -> Iterator[Violation]:
    """One reward a row."""
    for rows, answer in evidence.batch_answers:
        if answer.shape not in {None, (len(rows),)}:
            yield Violation(f"shape {answer.shape}", f"shape ({len(rows)},) for {len(rows)} goals")


@rule(
    "GE106",
    "reward-batch-value",
    "error",
    meaning="The rewards of a batch are not those of its rows one by one.",
    fix="index and reduce the last axis only; let no row look at another",
    needs=("batch",),
    implies=("GE119", "GE121"),
    wrong="return -np.abs(achieved_goal - desired_goal).sum(axis=0)",
    right="return -np.abs(achieved_goal - desired_goal).sum(axis=-1)",
)
def reward_batch_value(evidence: Evidence) -> Iterator[Violation]:
    """Batched or not, a pair of goals has one reward."""
    for rows, answer in evidence.batch_answers:
        if answer.shape != (len(rows),) or answer.numbers is None:
            continue
        for i, row in enumerate(rows):
            alone = evidence.rows[row].number
            if alone is not None and not close(answer.numbers[i], alone):
                yield Violation(
                    show(answer.numbers[i]),
                    f"{show(alone)} as alone",
                    f"row {i} of {len(rows)} relabeled goals",
                )


@rule(
    "GE108",
    "reward-small-shape",
    "warning",
    meaning="One goal gets a reward of shape (1,), or a batch of 1 or 0 goals fails or changes its rank.",
    fix="return a scalar for one goal, and squeeze no batch axis",
    needs=("batch",),
    wrong="return -np.linalg.norm(np.atleast_2d(achieved_goal - desired_goal), axis=-1)  # (1,) for one goal",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_small_shape(evidence: Evidence) -> Iterator[Violation]:
    """The rank of the rewards is that of the goals less one."""
    if evidence.reward is None or evidence.info_form is None:
        return
    for answer in evidence.rows:
        if answer.shape not in {(), None}:
            yield Violation(f"shape {answer.shape}", "shape () for one goal", subject="one goal")
    for count in (1, 0):
        answer = evidence.call_batch(evidence.reward, range(count), evidence.info_form)
        if answer.error is not None or answer.shape != (count,):
            got = answer.raised or f"shape {answer.shape}"
            yield Violation(got, f"shape ({count},)", subject=f"a batch of {count}")


@rule(
    "GE113",
    "reward-needs-info",
    "warning",
    meaning="compute_reward fails with some form of the info argument that replay buffers use.",
    fix="use defaults for what is missing in info, and take a list of dicts for a batch",
    needs=("reward",),
    wrong='return -distance - info["cost"]',
    right="""
rows = info if isinstance(info, (list, tuple)) else [info]
return -distance - np.array([row.get("cost", 0.0) for row in rows]).reshape(distance.shape)""",
)
def reward_needs_info(evidence: Evidence) -> Iterator[Violation]:
    """Relabeling has no other info than the stored one, or none at all."""
    answers = _single_forms(evidence) | (evidence.form_answers if _takes_some_batch(evidence) else {})
    accepted = [form for form, answer in answers.items() if not answer.error]
    for form, answer in answers.items():
        if answer.error and form in REQUIRED_FORMS:
            hint = f"it accepts {', '.join(accepted)}" if accepted else "it accepts no form"
            yield Violation(answer.raised, f"a reward with {form} as info", subject=form, hint=hint)


@rule(
    "GE115",
    "self-goal-not-success",
    "warning",
    meaning="A goal that is reached exactly does not get the best reward.",
    fix="check the direction of the comparison",
    needs=("reward",),
    implies=("GE202", "GE204", "GE205", "GE207"),
    wrong="return -(distance < 0.05).astype(np.float32)",
    right="return -(distance > 0.05).astype(np.float32)",
)
def self_goal_not_success(evidence: Evidence) -> Iterator[Violation]:
    """No pair of goals is rewarded better than a goal and itself."""
    asked = list(zip(evidence.pairs, evidence.rows, strict=True))
    reached = {id(pair.info): row.number for pair, row in asked if pair.is_self}
    for pair, row in asked:  # pairs with one info share their achieved goal too
        best = reached.get(id(pair.info))
        if row.number is not None and best is not None and row.number > best and not close(row.number, best):
            yield Violation(
                f"{show(best)} for the goal and itself", f"at least {show(row.number)} as for another"
            )


@rule(
    "GE116",
    "reward-type-ignored",
    "warning",
    meaning="reward_type and the rewards disagree, or an unknown reward_type gives no reward at all.",
    fix="honour reward_type, and refuse values that you do not know",
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
    """What is called sparse has two values, what is called dense more."""
    kind, count = _attribute(evidence.env, "reward_type"), len(evidence.reward_values)
    if kind == "sparse" and count > 2:
        yield Violation("more than two values", "two values from reward_type='sparse'")
    if kind == "dense" and count <= 2 and _different_distances(evidence.pairs) > 4:
        yield Violation("at most two values", "many values from reward_type='dense'")
    if isinstance(kind, str) and _gives_none_for_unknown_type(evidence):
        yield Violation("None", "an error, or a reward, for an unknown reward_type", subject="unknown type")


@rule(
    "GE118",
    "integer-goal-overflow",
    "error",
    meaning="Integer goals get another reward after a cast to int64: differences or squares overflow.",
    fix="cast to int64 or a floating dtype before subtracting",
    needs=("batch",),
    implies=("GE101", "GE106", "GE115", "GE202", "GE205"),
    wrong="return -np.abs(achieved_goal - desired_goal).sum(-1)  # uint8: 0 - 1 is 255",
    right="return -np.abs(achieved_goal.astype(int) - desired_goal.astype(int)).sum(-1)",
)
def integer_goal_overflow(evidence: Evidence) -> Iterator[Violation]:
    """The reward depends on the numbers, not on their dtype."""
    kinds = {leaf.dtype.kind for pair in evidence.pairs[:1] for leaf in leaves(pair.achieved)}
    if evidence.reward is None or not kinds & {"i", "u"}:
        return
    extremes = extreme_pairs(evidence.steps)
    rows = [evidence.reward(pair.achieved, pair.desired, pair.info) for pair in extremes]
    for pair, row in zip(evidence.pairs + extremes, evidence.rows + rows, strict=True):
        wide = evidence.reward(_widened(pair.achieved), _widened(pair.desired), pair.info)
        if row.number is not None and wide.number is not None and not close(row.number, wide.number):
            dtype = leaves(pair.achieved)[0].dtype
            yield Violation(f"{show(row.value)} for {dtype} goals", f"{show(wide.value)} as for int64 goals")


def _needs_info(evidence: Evidence) -> bool:
    """Whether the batches failed for the same reason as a single goal without info does."""
    return any(isinstance(answer.error, KeyError) for answer in evidence.form_answers.values())


def _takes_some_batch(evidence: Evidence) -> bool:
    return evidence.info_form is not None or _needs_info(evidence)


def _single_forms(evidence: Evidence) -> dict[str, Any]:
    if evidence.reward is None or not evidence.pairs:
        return {}
    pair = evidence.pairs[0]
    return {
        SINGLE_FORMS[0]: evidence.rows[0],
        SINGLE_FORMS[1]: evidence.reward(pair.achieved, pair.desired, {}),
    }


def _attribute(env: Any, name: str) -> Any:
    if not hasattr(env, "has_wrapper_attr"):
        return None
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _different_distances(pairs: list[Pair]) -> int:
    distances = [np.linalg.norm(flat(pair.achieved) - flat(pair.desired)) for pair in pairs]
    return len(np.unique(np.round(distances, 6)))


def _gives_none_for_unknown_type(evidence: Evidence) -> bool:
    """Whether a replica with a reward_type that cannot be known answers None."""
    replica = evidence.replica
    if replica is None or not hasattr(replica.unwrapped, "reward_type") or not evidence.pairs:
        return False
    try:
        replica.unwrapped.reward_type = "a type that nobody defines"
        pair = evidence.pairs[0]
        return replica.get_wrapper_attr("compute_reward")(pair.achieved, pair.desired, pair.info) is None
    except Exception:
        return False  # refusing it is right


def _widened(goal: Any) -> Any:
    """Return a goal with its integer leaves as int64; the parts of a Dict goal can differ in kind."""
    return map_tree(
        lambda leaf: leaf.astype(np.int64)[()] if leaf.dtype.kind in "iu" else leaf, _as_arrays(goal)
    )


def _as_arrays(goal: Any) -> Any:
    return map_tree(np.asarray, goal)
