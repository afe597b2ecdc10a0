"""find_goal_in_observation: find values of an observation that depend on the desired goal.

Relabeling replaces the desired goal of a transition. Values that the environment computed from the former
goal, such as a copy, a difference or a distance, stay in the observation and contradict the new goal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from her_wrappers.spaces import SpaceSpec
from her_wrappers.trees import NUMBERS, Tree

Floats = NDArray[np.float64]

MAX_ROWS = 512  # number of states that are compared
MAX_COLUMNS = 256  # number of values of an observation; larger leaves are only searched for copies
MAX_COPIED = 100_000  # number of values of such a leaf
MAX_GOALS = 32  # number of components of a goal
TOLERANCE = 1e-4  # largest error of a relation, in standard deviations
MIN_BITS = 20  # information that the goals of the episodes must have: a coincidence is then out of question


class _Columns(NamedTuple):
    """Components of goals or observations in n states."""

    values: Floats  # (n, W)
    places: list[tuple[str, tuple[int, ...], int]]  # of W components: leaf, its shape, index in it

    @classmethod
    def of(cls, tree: Tree, name: str) -> _Columns:
        found, places = [], []
        for leaf, values in _leaves(tree, name):
            found.append(values.reshape(len(values), -1).astype(np.float64))
            places += [(leaf, values.shape[1:], i) for i in range(found[-1].shape[1])]
        columns = cls(np.concatenate(found, 1) if found else np.empty((0, 0)), places)
        return columns.take(np.flatnonzero(np.isfinite(columns.values).all(0)))

    def take(self, chosen: Sequence[int] | NDArray[np.intp]) -> _Columns:
        return _Columns(self.values[:, chosen], [self.places[i] for i in chosen])

    def name(self, chosen: Sequence[int]) -> str:
        """Return the name of some components, such as ``"observation[2:4]"``."""
        names = []
        for (leaf, shape), places in itertools.groupby(
            (self.places[i] for i in chosen), lambda place: place[:2]
        ):
            index = [i for _, _, i in places]
            begin, end = index[0], index[-1] + 1
            text = f"{begin}:{end}" if len(index) > 1 else str(begin)
            if index != list(range(begin, end)):
                text = ", ".join(map(str, index))
            is_whole = len(index) == np.prod(shape)
            names.append(leaf if is_whole else f"{leaf}{'.ravel()' * (len(shape) > 1)}[{text}]")
        return " and ".join(names)


class _Feature(NamedTuple):
    """A value that depends on the desired goal."""

    text: str  # with the names of components in place of {d} and {a}
    desired: list[int]  # the components
    achieved: list[int]
    values: Floats  # (n,)


def find_goal_in_observation(observations: Mapping[str, Tree], episode: NDArray[np.intp]) -> str | None:
    """Return which part of the observations depends on the desired goal.

    Copies, differences, distances and directions are found, scaled and shifted too, and any desired goal that
    is a linear function of the observation. At least 7 episodes are needed whose goals are numbers of a
    continuous range, and up to 20 with goals of two values. A goal that is a linear function of the achieved
    goal of the same state is ignored, and so are goals that are equal in all episodes.

    Args:
        observations: Recorded states with the keys of a goal environment: trees of (n, ...) arrays.
        episode: (n,) integers that are equal for states of the same episode.

    Returns:
        A clause such as ``"observation[2:4] is desired_goal - achieved_goal"``, or None.
    """
    episode = np.unique(episode, return_inverse=True)[1].reshape(-1)
    first = np.unique(episode, return_index=True)[1]
    if len(first) * np.log2(len(first)) < MIN_BITS:
        return None
    every = _Columns.of(observations["desired_goal"], "desired_goal")
    if not every.places:  # goals that are not numbers
        return None
    bits = [len(first) * np.log2(len(np.unique(values))) for values in every.values[first].T]
    varying = np.flatnonzero(np.array(bits) >= MIN_BITS)
    if not len(varying):
        return None
    order = episode.argsort(kind="stable")
    rows = order[_spread(len(order), MAX_ROWS)]
    chosen = varying[_spread(len(varying), MAX_GOALS)]
    achieved = _Columns.of(_rows_of(observations["achieved_goal"], rows), "achieved_goal")
    achieved = achieved if len(achieved.places) == len(every.places) else achieved.take([])
    desired = _Columns(every.values[rows], every.places)
    if len(every.places) > MAX_GOALS:
        desired, achieved = (each.take(chosen[: len(each.places)]) for each in (desired, achieved))
        chosen = np.arange(len(chosen))
    narrow, wide = _split({
        key: _rows_of(part, rows)
        for key, part in observations.items()
        if key not in {"achieved_goal", "desired_goal"}
    })
    found = None
    if narrow.places:
        narrow = narrow.take(np.flatnonzero(~_is_linear(achieved.values, narrow.values)))
        found = _find_feature(narrow, desired, achieved, chosen.tolist())
        found = found or _find_linear(narrow, desired, achieved, chosen, episode[rows])
    return found or _find_copy(wide, desired, achieved, chosen)


def _leaves(tree: Tree, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the (n, ...) values of each leaf of numbers."""
    for leaf in SpaceSpec.of_rows(name, tree):
        values = np.asarray(leaf.find(tree, ""))
        if values.dtype.kind in NUMBERS:
            yield leaf.name, values


def _rows_of(tree: Tree, rows: NDArray[np.intp]) -> Tree:
    spec = SpaceSpec.of_rows("", tree)
    return spec.build([np.asarray(leaf.find(tree, ""))[rows] for leaf in spec])


def _spread(count: int, most: int) -> NDArray[np.intp]:
    """Return up to ``most`` of the indices below ``count``, at equal distances."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)


def _split(parts: Mapping[str, Tree]) -> tuple[_Columns, list[tuple[str, Any]]]:
    """Return the components of small leaves, and the large leaves."""
    small, wide, count = {}, [], 0
    for key, part in parts.items():
        for name, values in _leaves(part, key):
            width = int(np.prod(values.shape[1:]))
            if count + width <= MAX_COLUMNS:
                small[name], count = values, count + width
            elif width <= MAX_COPIED:
                wide.append((name, values))
    columns = [_Columns.of(values, name) for name, values in small.items()]
    if not columns:
        return _Columns(np.empty((0, 0)), []), wide
    places = [place for each in columns for place in each.places]
    return _Columns(np.concatenate([each.values for each in columns], 1), places), wide


def _standardized(values: Floats) -> Floats:
    """Return columns of mean 0 and standard deviation 1; constant columns become 0."""
    deviations = values - values.mean(0)
    scale = deviations.std(0)
    is_constant = scale <= 1e-12 * np.abs(values).max(0, initial=0)
    standardized: Floats = np.where(is_constant, 0, deviations / np.where(is_constant, 1, scale))
    return standardized


def _fit(features: Floats, targets: Floats) -> Floats:
    # Columns that are equal except for rounding to float32 count as one.
    solution: Any = np.linalg.lstsq(features, targets, rcond=1e-6)[0]
    return np.asarray(solution, np.float64)


def _is_linear(features: Floats, targets: Floats) -> NDArray[np.bool_]:
    """Return which columns of ``targets`` are constant, or linear functions of ``features``."""
    features, targets = _standardized(features), _standardized(targets)
    errors = np.abs(targets - features @ _fit(features, targets))
    return np.asarray(errors.max(0, initial=0) <= TOLERANCE)


def _features(
    narrow: _Columns, desired: _Columns, achieved: _Columns, varying: list[int]
) -> Iterator[_Feature]:
    """Yield the values that environments add to observations; for each observation the first fit counts."""
    d, a = desired.values, achieved.values
    yield from (_Feature("{d}", [j], [], d[:, j]) for j in varying)
    if len(achieved.places) != len(desired.places):
        return
    yield from (_Feature("{d} - {a}", [j], [j], d[:, j] - a[:, j]) for j in varying)
    count = len(desired.places)
    blocks = {tuple(range(count))} | {
        tuple(range(i, i + size)) for size in (1, 2, 3) if count % size == 0 for i in range(0, count, size)
    }
    for block in sorted(blocks, key=len, reverse=True):
        if not set(block) & set(varying):
            continue
        part = list(block)
        difference = d[:, part] - a[:, part]
        distance = np.linalg.norm(difference, axis=1)
        yield _Feature("the distance of {d} and {a}", part, part, distance)
        yield _Feature("the squared distance of {d} and {a}", part, part, distance**2)
        yield _Feature("the distance of {d} and {a}", part, part, np.abs(difference).sum(1))
        if len(part) > 1:
            unit = difference / np.maximum(distance, 1e-12)[:, None]
            yield from (_Feature("the direction from {a} to {d}", part, part, each) for each in unit.T)
            angle = np.arctan2(difference[:, 1], difference[:, 0])
            yield _Feature("the angle from {a} to {d}", part, part, angle)
        for i in range(len(narrow.places) - len(part) + 1 if len(part) > 1 else 0):
            other = np.linalg.norm(d[:, part] - narrow.values[:, i : i + len(part)], axis=1)
            name = narrow.name(range(i, i + len(part)))
            yield _Feature(f"the distance of {{d}} and {name}", part, [], other)
    if count <= 8:
        pairs = ((j, k) for j in varying for k in range(count) if j != k)
        yield from (_Feature("{d} - {a}", [j], [k], d[:, j] - a[:, k]) for j, k in pairs)


def _find_feature(narrow: _Columns, desired: _Columns, achieved: _Columns, varying: list[int]) -> str | None:
    """Return the first components that are a scaled and shifted `_Feature`."""
    if not narrow.places:
        return None
    features = list(_features(narrow, desired, achieved, varying))
    values = np.stack([each.values for each in features], 1)
    correlation = _standardized(values).T @ _standardized(narrow.values) / len(values)
    fits = correlation**2 >= 1 - TOLERANCE**2
    fitted = np.flatnonzero(fits.any(0)).tolist()
    if not fitted:
        return None
    begin = fitted[0]
    feature = features[fits[:, begin].argmax()]
    d, a = list(feature.desired), list(feature.achieved)
    end = begin + 1
    while len(feature.desired) == 1 and end in fitted:  # the same relation of the next components
        following = features[fits[:, end].argmax()]
        expected = feature.text, [d[-1] + 1], [k + 1 for k in a[-1:]]
        if following[:3] != expected:
            break
        d, a, end = d + expected[1], a + expected[2], end + 1
    observed = narrow.values[:, begin]
    is_equal = np.abs(feature.values - observed).max() <= TOLERANCE * observed.std()
    relation = "is" if is_equal else "is a linear function of"
    text = feature.text.format(d=desired.name(d), a=achieved.name(a))
    return f"{narrow.name(range(begin, end))} {relation} {text}"


def _find_linear(
    narrow: _Columns,
    desired: _Columns,
    achieved: _Columns,
    varying: NDArray[np.intp],
    episode: NDArray[np.intp],
) -> str | None:
    """Return components that are a linear function of goals, or of which a desired goal is one.

    The latter is fitted to half of the episodes, and must be exact in the others.
    """
    goals = np.concatenate([desired.values[:, varying], achieved.values], 1)
    of_goals = np.flatnonzero(_is_linear(goals, narrow.values)).tolist()
    if of_goals and episode.max() > 2 * goals.shape[1]:
        return f"{narrow.name(of_goals)} is a linear function of desired_goal and achieved_goal"
    varying = varying[~_is_linear(achieved.values, desired.values[:, varying])]
    is_fitted = episode % 2 == 0
    features = np.concatenate([_standardized(each.values) for each in (narrow, achieved)], 1)
    targets = _standardized(desired.values[:, varying])
    if not len(varying) or not narrow.places or is_fitted.sum() < 2 * features.shape[1]:
        return None
    features = np.concatenate([features, np.ones((len(features), 1))], 1)
    solution = _fit(features[is_fitted], targets[is_fitted])
    errors = np.abs(targets - features @ solution)[~is_fitted]
    exact = np.flatnonzero(errors.max(0, initial=0) <= TOLERANCE)
    used = np.flatnonzero((np.abs(solution[: len(narrow.places), exact]) > 0.01).any(1))
    if not len(exact) or not len(used):
        return None
    return f"{desired.name(varying[exact].tolist())} is a linear function of {narrow.name(used.tolist())}"


def _find_copy(
    wide: list[tuple[str, Any]], desired: _Columns, achieved: _Columns, varying: NDArray[np.intp]
) -> str | None:
    """Return the first large leaf with copies of the desired goal or of differences, anywhere in the leaf."""
    for name, values in wide:
        rows = _spread(len(values), 32)
        columns = np.ascontiguousarray(values[rows].reshape(len(rows), -1).T, np.float32)
        known = {each.tobytes() for each in columns}
        d = desired.values[rows][:, varying]
        kinds = {"desired_goal": d}
        if len(achieved.places) == len(desired.places):
            difference = d - achieved.values[rows][:, varying]
            kinds |= {
                "desired_goal - achieved_goal": difference,
                "achieved_goal - desired_goal": 0 - difference,
                "abs(desired_goal - achieved_goal)": np.abs(difference),
            }
        for kind, expected in kinds.items():
            found = [each.tobytes() in known for each in np.ascontiguousarray(expected.T, np.float32)]
            if np.mean(found) >= 0.5:
                return f"{name} contains the values of {kind}"
    return None
