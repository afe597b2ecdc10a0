"""Columns of recorded episodes, computed block by block in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.spaces import SpaceSpec
from her_wrappers.success_flag import flag_name
from her_wrappers.trees import NUMBERS, leaf_arrays

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.trees import Tree

MAX_GOAL_SIZE = 64
"""Goals with more components, such as images, are projected, since a column of them needs much memory."""

PROJECTED_SIZE = 16
"""Components of a projected goal: enough that different goals stay different."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Smallest and largest value of each component, (K,) float64."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Bounds:
        """Return the bounds of (N, ...) rows.

        NaN is ignored. If a component has an infinite value or only NaN, then NaN and infinity count as 0 in
        all components.

        Args:
            rows: (N, ...) numbers, N >= 1.
        """
        flat = rows.reshape(len(rows), -1)
        if flat.dtype.kind != "f":
            return cls(flat.min(axis=0).astype(np.float64), flat.max(axis=0).astype(np.float64))
        low, high = np.fmin.reduce(flat, axis=0), np.fmax.reduce(flat, axis=0)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return cls.of(np.nan_to_num(flat, nan=0, posinf=0, neginf=0))
        return cls(low.astype(np.float64), high.astype(np.float64))

    @classmethod
    def joined(cls, parts: Sequence[Bounds]) -> Bounds:
        """Return the smallest bounds that contain all parts, of which there is at least one."""
        return cls(
            np.min([part.low for part in parts], axis=0), np.max([part.high for part in parts], axis=0)
        )

    @property
    def width(self) -> np.ndarray:
        """(K,) differences of the largest and the smallest values."""
        width: np.ndarray = self.high - self.low
        return width

    @property
    def magnitude(self) -> np.ndarray:
        """(K,) largest absolute values."""
        magnitude: np.ndarray = np.maximum(np.abs(self.low), np.abs(self.high))
        return magnitude


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of n episodes of T steps together, whose goals have G components.

    Attributes:
        lengths: (n,) int64, steps of each episode.
        terminated: (n,) bool.
        truncated: (n,) bool.
        desired: (n, G) float64, desired goal of the first state.
        starts: (n, G) float64, achieved goal of the first state.
        finals: (n, G) float64, achieved goal of the last state.
        moves: (n,) float64, largest distance of the achieved goal from that of the first state.
        is_observation_moved: (n,) bool, whether the observation without goals ever changes.
        start_distances: (n,) float64, Euclidean distance of achieved and desired goal in the first state.
        episode_hashes: (n,) uint64, hash of the first observation without its goals, and all actions.
        start_hashes: (n,) uint64, hash of the first observation with its goals.
        rewards: (T,) float32; 0 instead of NaN and infinity.
        flags: (T,) int8, success flag of each step; -1 where it was not recorded.
        distances: (T,) float32, distance of achieved and desired goal after each step.
        speeds: (T,) float32, distance by which the achieved goal moves in each step.
        future_distances: (T,) float32, distance of the achieved goals before the step and in a random later
            state of the episode, which the strategy "future" could choose as the new goal.
        not_finite: (T, 4) bool, whether observation, goals, action or reward of a step have NaN or infinity.
        achieved: Bounds of the achieved goals.
        desired_bounds: Bounds of the desired goals.
        actions: Bounds of the actions.
        observations: Bounds of each array of numbers in the observation, without the goals, by name.
        has_fractions: Whether first observations, without the goals, have values that are not integers.
        is_projected: Whether goals have more than `MAX_GOAL_SIZE` components. Such goals are projected, and G
            is `PROJECTED_SIZE`.
    """

    lengths: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    desired: np.ndarray
    starts: np.ndarray
    finals: np.ndarray
    moves: np.ndarray
    is_observation_moved: np.ndarray
    start_distances: np.ndarray
    episode_hashes: np.ndarray
    start_hashes: np.ndarray
    rewards: np.ndarray
    flags: np.ndarray
    distances: np.ndarray
    speeds: np.ndarray
    future_distances: np.ndarray
    not_finite: np.ndarray
    achieved: Bounds
    desired_bounds: Bounds
    actions: Bounds
    observations: dict[str, Bounds]
    has_fractions: bool
    is_projected: bool

    @classmethod
    def of(cls, blocks: Iterable[Episodes], seed: int = 0) -> Self | None:
        """Return the columns of all blocks, or None if ``blocks`` is empty.

        Args:
            blocks: Episodes of the same spaces.
            seed: Seed of the random later states of ``future_distances``.

        Raises:
            ValueError: The observations lack a goal key, or the goals are not numbers of one size.
        """
        rng = np.random.default_rng(seed)
        parts = [_columns_of(block, rng) for block in blocks]
        if not parts:
            return None
        columns = {name: [getattr(part, name) for part in parts] for name in Columns.__dataclass_fields__}
        return cls(**{name: _joined(values) for name, values in columns.items()})

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self.lengths)


def _joined(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if isinstance(first, Bounds):
        return Bounds.joined(parts)
    if isinstance(first, dict):
        return {name: Bounds.joined([part[name] for part in parts]) for name in first}
    return any(parts)


def _columns_of(block: Episodes, rng: np.random.Generator) -> Columns:
    achieved, desired, others = _split(block.observations)
    before = block.state_of_step
    last = block.ends[1:] + np.arange(len(block))
    first = last - block.lengths
    first_of_state = first.repeat(block.lengths + 1)
    not_finite = _not_finite_rows(block, achieved, desired, others)
    achieved, desired = (np.nan_to_num(goals, nan=0, posinf=0, neginf=0) for goals in (achieved, desired))
    is_projected = achieved.shape[1] > MAX_GOAL_SIZE
    if is_projected:
        matrix = np.random.default_rng(0).normal(size=(achieved.shape[1], PROJECTED_SIZE))
        achieved, desired = achieved @ matrix, desired @ matrix
    to_last = last.repeat(block.lengths) - before
    future = before + 1 + np.floor(rng.random(len(before)) * to_last).astype(np.int64)
    return Columns(
        lengths=block.lengths.astype(np.int64),
        terminated=block.terminated,
        truncated=block.truncated,
        desired=desired[first],
        starts=achieved[first],
        finals=achieved[last],
        moves=np.maximum.reduceat(_norm(achieved - achieved[first_of_state]), first),
        is_observation_moved=_is_changed(others, first_of_state, first),
        start_distances=_norm(achieved[first] - desired[first]),
        episode_hashes=_hashes([
            (others, first, first + 1),
            (block.actions, block.ends[:-1], block.ends[1:]),
        ]),
        start_hashes=_hashes([(block.observations, first, first + 1)]),
        rewards=np.nan_to_num(block.rewards, nan=0, posinf=0, neginf=0).astype(np.float32),
        flags=_flags(block),
        distances=_norm(achieved[before + 1] - desired[before]).astype(np.float32),
        speeds=_norm(achieved[before + 1] - achieved[before]).astype(np.float32),
        future_distances=_norm(achieved[before] - achieved[future]).astype(np.float32),
        not_finite=not_finite,
        achieved=Bounds.of(achieved),
        desired_bounds=Bounds.of(desired),
        actions=_action_bounds(block.actions),
        observations={name: Bounds.of(leaf) for name, leaf in others.items() if leaf.dtype.kind in NUMBERS},
        has_fractions=any((leaf[first] % 1 != 0).any() for leaf in others.values() if leaf.dtype.kind == "f"),
        is_projected=is_projected,
    )


def _norm(rows: np.ndarray) -> np.ndarray:
    length: np.ndarray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return length


def _split(observations: Tree) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return achieved and desired goals, (S, G) each, and the other arrays of the observations by name."""
    missing = [key for key in GOAL_KEYS if not isinstance(observations, dict) or key not in observations]
    if not isinstance(observations, dict) or missing:
        raise ValueError(
            f"the observations must have the keys {', '.join(GOAL_KEYS)}, but lack {', '.join(missing)}; "
            "her doctor needs episodes of a goal environment"
        )
    achieved, desired = (_flat_goals(key, observations[key]) for key in GOAL_KEYS[1:])
    if achieved.shape != desired.shape:
        raise ValueError(
            "achieved_goal and desired_goal must have equal numbers of components, got "
            f"{achieved.shape[1]} and {desired.shape[1]}; run `her check` on the environment"
        )
    rest = {key: value for key, value in observations.items() if key not in GOAL_KEYS[1:]}
    return achieved, desired, {leaf.name: leaf.find(rest, "") for leaf in SpaceSpec.of_rows("", rest)}


def _flat_goals(name: str, tree: Tree) -> np.ndarray:
    leaves = {leaf.name: leaf.find(tree, "") for leaf in SpaceSpec.of_rows("", tree)}
    if not leaves or any(leaf.dtype.kind not in NUMBERS for leaf in leaves.values()):
        raise ValueError(f"{name} must consist of arrays of numbers; her doctor cannot use other goals")
    rows = [leaf.reshape(len(leaf), -1) for _, leaf in sorted(leaves.items())]
    return np.concatenate(rows, axis=1).astype(np.float64)


def _not_finite_rows(
    block: Episodes, achieved: np.ndarray, desired: np.ndarray, others: dict[str, np.ndarray]
) -> np.ndarray:
    """Return ``not_finite`` of `Columns`; the states before the first steps are part of the first steps."""
    observation = _not_finite(list(others.values()), len(achieved))
    goals = _not_finite([achieved, desired], len(achieved))
    before, begins = block.state_of_step, block.ends[:-1]
    columns = []
    for of_state in (observation, goals):
        of_step = of_state[before + 1]
        of_step[begins] |= of_state[before[begins]]
        columns.append(of_step)
    steps = block.num_steps
    return np.stack(
        [*columns, _not_finite(leaf_arrays(block.actions), steps), _not_finite([block.rewards], steps)],
        axis=1,
    )


def _not_finite(leaves: Sequence[np.ndarray], count: int) -> np.ndarray:
    found = np.zeros(count, np.bool_)
    for leaf in leaves:
        if leaf.dtype.kind == "f":
            found |= ~np.isfinite(leaf).reshape(count, -1).all(axis=1)
    return found


def _is_changed(leaves: dict[str, np.ndarray], first_of_state: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return for each episode whether an array ever differs from its value in the first state."""
    changed = np.zeros(len(first_of_state), np.bool_)
    for leaf in leaves.values():
        rows = leaf.reshape(len(leaf), -1)
        changed |= (rows != rows[first_of_state]).any(axis=1)
    return np.logical_or.reduceat(changed, first)


def _action_bounds(actions: Tree) -> Bounds:
    rows = [leaf.reshape(len(leaf), -1) for leaf in leaf_arrays(actions) if leaf.dtype.kind in NUMBERS]
    return Bounds.of(np.concatenate(rows, axis=1) if rows else np.zeros((1, 0)))


def _flags(block: Episodes) -> np.ndarray:
    """Return the success flag of each step, (T,) int8, or -1 for all steps if flags were not recorded."""
    name = flag_name(block.infos)
    flags = None if name is None else block.infos[name]
    if flags is None or flags.size != block.num_steps or flags.dtype.kind not in NUMBERS:
        return np.full(block.num_steps, -1, np.int8)
    return (flags.reshape(-1) > 0.5).astype(np.int8)


def _hashes(columns: Sequence[tuple[Tree, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return a hash of the rows ``begins[i]`` to ``ends[i] - 1`` of all trees, for each i."""
    listed = [
        (np.ascontiguousarray(leaf), begins.tolist(), ends.tolist())
        for tree, begins, ends in columns
        for leaf in leaf_arrays(tree)
    ]
    count = len(columns[0][1])
    hashes = np.zeros(count, np.uint64)
    for i in range(count):
        digest = blake2b(digest_size=8)
        for leaf, begins, ends in listed:
            digest.update(
                leaf[begins[i] : ends[i]].data
                if leaf.dtype.kind in "biuf"
                else leaf[begins[i] : ends[i]].tobytes()
            )
        hashes[i] = int.from_bytes(digest.digest(), "little")
    return hashes
