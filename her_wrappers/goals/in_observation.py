"""Goals that are in the observation, which contradict relabeled goals, and goals that agents cannot see."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import NUMBERS, Tree

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Function: TypeAlias = Callable[[Floats], Floats]

MAX_ROWS = 512  # number of states that are compared
MAX_COLUMNS = 256  # number of values of an observation; further leaves are only searched for copies
MAX_GOALS = 32  # number of components of a goal; larger goals are only searched for copies
MAX_COPIED = 100_000  # number of values of a leaf that is searched for copies
MAX_NUMBER = 1e100  # squares of smaller numbers are finite
TOLERANCE = 1e-4  # largest error of a relation, in standard deviations
DISTANCE = "the distance of desired_goal and achieved_goal"
MIN_EPISODES = 10  # number of episodes from which a hidden goal is found; objects seldom move within one
SHOWN = 0.25  # a component is hidden if predictions explain a smaller share of its variance
NEAR, MIN_PAIRS = 0.05, 30  # mean squared difference of nearly equal observations, and number of such pairs
VARIED = 0.1  # least mean squared difference of goals with equal observations, such as those of resets
STILL = 0.01  # a component with a smaller range in an episode, in standard deviations, does not move
RIDGE, WIDTHS = 1e-4, (0.3, 1.0, 3.0)  # penalty, and widths of Gaussians, of `fit_function`
MAX_CHOSEN = 12  # number of columns from which `fit_columns` chooses at once
MIN_BITS = 20  # least information in the goals of all episodes that rules out a relation by chance


class _Columns(NamedTuple):
    """An (n, W) array: in each of n states, the values of W components of goals or of observations."""

    values: Floats  # (n, W); 0 for NaN and numbers from MAX_NUMBER on
    places: list[tuple[str, tuple[int, ...], int]]  # of each component: name and shape of its leaf, index

    @classmethod
    def of(cls, leaves: Iterable[tuple[str, Any]], rows: NDArray[np.intp]) -> _Columns:
        found, places = [np.empty((len(rows), 0))], []
        for name, values in leaves:
            found.append(values[rows].reshape(len(rows), -1).astype(np.float64))
            places += [(name, values.shape[1:], i) for i in range(found[-1].shape[1])]
        joined = np.concatenate(found, 1)
        return cls(np.where(np.abs(joined) < MAX_NUMBER, joined, 0), places)

    def take(self, chosen: Bools | NDArray[np.intp]) -> _Columns:
        return _Columns(self.values[:, chosen], [self.places[i] for i in np.arange(len(self.places))[chosen]])

    def name(self) -> str:
        """Return the name of the components, such as ``"observation[2:4]"``."""
        names = []
        for (leaf, shape), places in itertools.groupby(self.places, lambda place: place[:2]):
            index = [i for _, _, i in places]
            begin, end = index[0], index[-1] + 1
            is_range = len(index) > 1 and index == list(range(begin, end))
            text = f"{begin}:{end}" if is_range else ", ".join(map(str, index))
            is_whole = len(index) == np.prod(shape)
            names.append(leaf if is_whole else f"{leaf}{'.ravel()' * (len(shape) > 1)}[{text}]")
        return " and ".join(names)


def find_goal_in_observation(observations: Mapping[str, Tree], episode: NDArray[np.intp]) -> str | None:
    """Return a clause such as ``"observation[2:4] is a linear function of desired_goal"``, or None.

    The search finds copies of the desired goal, and its difference, distance and direction from the achieved
    goal, even if they are scaled, shifted or in a rotated frame, and desired goals that are a linear function
    of observation and achieved goal. A relation is fitted to half of the episodes and must be exact in the
    other half. Goal components that are a linear function of the achieved goal, or constant, are ignored. The
    search needs about 8 episodes, 24 for binary goals, and twice as many as a goal has components.

    ``observations`` are the recorded states, trees of (n, ...) arrays under the keys of a goal environment.
    ``episode``, (n,), has equal integers for states of the same episode.
    """
    episode = np.unique(episode, return_inverse=True)[1].reshape(-1)
    first = np.unique(episode, return_index=True)[1]
    if len(first) * np.log2(len(first)) < MIN_BITS:
        return None
    leaves = {key: list(_leaves(key, part)) for key, part in observations.items()}
    goals = leaves.pop("desired_goal")
    bits = np.array([_information(column) for column in _Columns.of(goals, first).values.T])
    varying = np.flatnonzero(bits >= MIN_BITS)
    # Policies act on goals, so that velocities may depend on them, but not before the first step.
    rows = np.union1d(
        episode.argsort(kind="stable")[_spread(len(episode), MAX_ROWS)], first[_spread(len(first), MAX_ROWS)]
    )
    is_fitted = episode[rows] % 2 == 0
    desired, achieved = (_Columns.of(each, rows) for each in (goals, leaves.pop("achieved_goal")))
    others = sorted(itertools.chain(*leaves.values()), key=_width)
    if len(bits) <= MAX_GOALS:
        varying = varying[~_are_linear(achieved.values, desired.values[:, varying], is_fitted)]
        if not len(varying):
            return None
        count = np.searchsorted(np.cumsum([_width(leaf) for leaf in others]), MAX_COLUMNS, "right")
        narrow = _Columns.of(others[:count], rows)
        own = np.concatenate([achieved.values, achieved.values**2], 1)  # distances contain these squares
        for known in (achieved.values, own):
            narrow = narrow.take(~_are_linear(known, narrow.values, is_fitted))
        if clause := _find_relation(desired, achieved, narrow, varying, is_fitted):
            return clause
    # By chance, the values of a few pixels of a goal may equal those of other pixels.
    return _find_copy(others, rows, desired, achieved) if bits.sum() >= 3 * MIN_BITS else None


def _find_relation(
    desired: _Columns,
    achieved: _Columns,
    narrow: _Columns,  # components of the small leaves of the observation
    varying: NDArray[np.intp],  # indices of the goal components that are searched for
    is_fitted: Bools,  # states to which relations are fitted; the other states test them
) -> str | None:
    """Return text such as ``"observation[2:4] is a linear function of desired_goal"``; None if not found."""
    relations = dict(_relations(desired.values, achieved.values, varying))
    for text, values in relations.items():
        found = _are_linear(values, narrow.values, is_fitted)
        if found.any():
            return f"{narrow.take(found).name()} is a linear function of {text}"
    for size in {2, 3} - set(range(len(narrow.places) + 1, 4)) if DISTANCE in relations else ():
        norms = (np.lib.stride_tricks.sliding_window_view(narrow.values, size, axis=1) ** 2).sum(2)
        found = _are_linear(relations[DISTANCE], norms, is_fitted)
        if found.any() and not _are_linear(achieved.values, norms[:, found], is_fitted).any():
            name = narrow.take(found.argmax() + np.arange(size)).name()
            return f"{name} is the desired_goal relative to the achieved_goal, in another frame"
    known = np.concatenate([narrow.values, achieved.values], 1)
    found = _are_linear(known, desired.values[:, varying], is_fitted)
    if found.any():
        leaves = dict.fromkeys(place[0] for place in narrow.places)
        name = desired.take(varying[found]).name()
        return f"{name} is a linear function of {' and '.join([*leaves, 'achieved_goal'])}"
    return None


def _leaves(name: str, tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the name and the values, (n, ...), of each numeric leaf of ``tree``."""
    for leaf in SpaceSpec.of_rows(name, tree):
        values = np.asarray(leaf.find(tree, ""))
        if values.dtype.kind in NUMBERS:
            yield leaf.name, values


def _width(leaf: tuple[str, Any]) -> int:
    return math.prod(leaf[1].shape[1:])


def _information(values: Floats) -> float:
    """Return n times the entropy, in bits, of n values. If all values differ, the result is n log2(n)."""
    counts = np.unique(values, return_counts=True)[1]
    return float((counts * np.log2(len(values) / counts)).sum())


def _spread(count: int, most: int) -> NDArray[np.intp]:
    """Return up to ``most`` evenly spaced integers from 0 to ``count - 1``."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)


def _standardized(values: Floats) -> Floats:
    """Return columns of mean 0 and standard deviation 1; constant columns become 0."""
    deviations = values - values.mean(0)
    scale = deviations.std(0)
    is_constant = scale <= 1e-12 * np.abs(values).max(0, initial=0)
    standardized: Floats = np.where(is_constant, 0, deviations / np.where(is_constant, 1, scale))
    return standardized


def _are_linear(sources: Floats, targets: Floats, is_fitted: Bools) -> Bools:
    """Return which columns of ``targets`` are linear functions of ``sources``; with too few rows, none."""
    if 2 * sources.shape[1] >= is_fitted.sum() or not targets.size:
        return np.zeros(targets.shape[1], np.bool_)
    sources = np.column_stack([_standardized(sources), np.ones(len(sources))])
    targets = _standardized(targets)
    # Columns that are equal except for rounding to float32 count as one.
    solution: Any = np.linalg.lstsq(sources[is_fitted], targets[is_fitted], rcond=1e-6)[0]
    errors = np.abs(targets - sources @ solution)[~is_fitted]  # the other rows test the fit
    return np.asarray(errors.max(0, initial=0) <= TOLERANCE)


def _relations(desired: Floats, achieved: Floats, varying: NDArray[np.intp]) -> Iterator[tuple[str, Floats]]:
    """Yield (name, (n, F) values) of quantities that depend on the desired goal, such as distances."""
    yield "desired_goal", desired[:, varying]
    count = desired.shape[1]
    if achieved.shape == desired.shape:
        yield "desired_goal and achieved_goal", np.concatenate([desired[:, varying], achieved], 1)
        distances, directions = [], []
        for size in {1, 2, 3, count} - set(range(count + 1, 4)):  # a goal may consist of several positions
            begins = np.arange(count - size + 1)
            begins = begins[((varying >= begins[:, None]) & (varying < begins[:, None] + size)).any(1)]
            difference = (desired - achieved)[:, begins[:, None] + np.arange(size)]
            distance = np.linalg.norm(difference, axis=2)
            distances += [distance, distance**2]
            directions.append((difference / np.maximum(distance, 1e-12)[..., None]).reshape(len(desired), -1))
            if size > 1:
                directions.append(np.arctan2(difference[..., 1], difference[..., 0]))
        yield "desired_goal - achieved_goal", desired[:, varying] - achieved[:, varying]
        yield DISTANCE, np.concatenate(distances, 1)
        yield "the direction from achieved_goal to desired_goal", np.concatenate(directions, 1)


def _find_copy(
    leaves: list[tuple[str, Any]], rows: NDArray[np.intp], desired: _Columns, achieved: _Columns
) -> str | None:
    """Return text such as ``"camera contains the values of desired_goal"``, or None if no leaf has a copy."""
    some = _spread(len(rows), 32)
    goals = desired.values[some]
    kinds = {"desired_goal": goals}
    if achieved.values.shape == desired.values.shape:
        difference = goals - achieved.values[some]
        kinds |= {
            "desired_goal - achieved_goal": difference,
            "achieved_goal - desired_goal": 0 - difference,
            "abs(desired_goal - achieved_goal)": np.abs(difference),
        }
    for name, values in leaves:
        if _width((name, values)) > MAX_COPIED:
            break
        known = _column_bytes(values[rows[some]].reshape(len(some), -1))
        for kind, expected in kinds.items():
            varying = np.flatnonzero(np.ptp(expected, 0))
            sought = _column_bytes(expected[:, varying[_spread(len(varying), MAX_COLUMNS)]])
            if sought and len(sought & known) >= 0.9 * len(sought):
                return f"{name} contains the values of {kind}"
    return None


def _column_bytes(values: Any) -> set[bytes]:
    return {column.tobytes() for column in np.ascontiguousarray(values.T, np.float32)}


def find_hidden_goal(observations: Mapping[str, Tree], episode: NDArray[np.intp]) -> str | None:
    """Return the name of achieved goals that other keys do not show, like ``"achieved_goal[0:2]"``, or None.

    A component is hidden if a function of the other keys, fitted to half of the episodes, does not predict it
    in the other half, and one of three facts confirms this: states of different episodes have equal
    observations, but different goals; or nearly equal ones, and no value is correlated with the goal; or,
    without a correlation, the goal does not move in most episodes, while all other values change. Components
    that move little or equal the desired goal, images, and fewer than `MIN_EPISODES` are not judged.
    """
    order = episode.argsort(kind="stable")
    first = np.unique(episode[order], return_index=True)[1]
    rows = order[np.union1d(_spread(len(order), 2 * MAX_ROWS), first[_spread(len(first), MAX_ROWS)])]
    episode = np.unique(episode[rows], return_inverse=True)[1].reshape(-1)
    leaves = {key: list(_leaves(key, part)) for key, part in observations.items()}
    desired, achieved = (_Columns.of(leaves.pop(f"{kind}_goal"), rows) for kind in ("desired", "achieved"))
    known = [*itertools.chain(*leaves.values())]
    is_vector = all(values.ndim <= 2 for _, values in known) and sum(map(_width, known)) <= MAX_COLUMNS
    others = _Columns.of(known, rows).values if is_vector else np.empty((len(rows), 0))
    if not others.shape[1] or episode[-1] + 1 < MIN_EPISODES:
        return None
    spread = achieved.values.std(0)
    is_judged = spread > 0.05 * max(spread.max(), desired.values.std(0).max())
    if desired.values.shape == achieved.values.shape:
        is_judged &= (achieved.values == desired.values).mean(0) < 0.99
    near = NEAR if (others % 1).any() else 1e-9  # integers can be codes, whose neighbors mean nothing
    others, hidden = _standardized(others[:, np.ptp(others, 0) > 0]), achieved.take(is_judged)
    goals = _standardized(hidden.values)
    if others.shape[1] and goals.shape[1]:
        tested = episode % 2 == 1
        errors = goals[tested] - fit_function(others, goals, ~tested)(others[tested])
        predicted = 1 - (errors**2).mean(0) / (goals[tested].var(0) + 1e-300)
        correlations = np.abs(others.T @ goals / len(goals)).max(0)
        distances = _squared_distances(others, others) / others.shape[1]
        distances[episode[:, None] == episode] = np.inf
        nearest, distances = distances.argmin(1), distances.min(1)
        differences = (goals - goals[nearest]) ** 2  # 2 on average for independent goals
        is_equal = distances <= 1e-9
        has_equal = len(np.unique(episode[is_equal])) >= MIN_EPISODES
        is_proven = has_equal & (differences[is_equal].sum(0) > VARIED * is_equal.sum())
        # With few episodes, a value can be correlated with the goal by chance.
        is_hidden = (predicted <= SHOWN) & ((correlations**2 <= SHOWN) | is_proven)
        if is_hidden.any():
            goals, differences, is_near = goals[:, is_hidden], differences[:, is_hidden], distances <= near
            if is_proven[is_hidden].any() or _is_evident(others, goals, differences, episode, is_near):
                return hidden.take(is_hidden).name()
    return None


def _is_evident(
    others: Floats, goals: Floats, differences: Floats, episode: NDArray[np.intp], is_near: Bools
) -> bool:
    """Whether one of the last two facts in `find_hidden_goal` confirms that ``goals`` are hidden."""
    if is_near.sum() >= MIN_PAIRS and len(np.unique(episode[is_near])) >= MIN_EPISODES / 2:
        return bool((differences[is_near].mean(0) > 1).any())
    begins = np.flatnonzero(np.diff(episode, prepend=-1))
    goal_ranges, ranges = (
        np.maximum.reduceat(each, begins) - np.minimum.reduceat(each, begins) for each in (goals, others)
    )
    still = (goal_ranges <= STILL).all(1)
    is_varied = still.sum() >= max(MIN_EPISODES, still.size / 2) and goals[begins][still].std(0).min() > 0.25
    return bool(is_varied and ((ranges[still] > STILL).mean(0) > 0.9).all())


def fit_function(inputs: Floats, targets: Floats, is_fitted: Bools) -> Function:
    """Fit a linear function plus Gaussians, (n, W) -> (n, G); the other rows choose the width."""
    center, scale = inputs.mean(0), (inputs.std(0) + 1e-12) * np.sqrt(inputs.shape[1])
    known, middle = (inputs[is_fitted] - center) / scale, targets[is_fitted].mean(0)

    def kernel(rows: Floats, width: float) -> Floats:
        rows = (rows - center) / scale
        return np.asarray(np.exp(-_squared_distances(rows, known) / (2 * width**2)) + rows @ known.T)

    def fitted(width: float) -> Function:
        matrix = kernel(inputs[is_fitted], width) + RIDGE * np.eye(len(known))
        weights = np.linalg.solve(matrix, targets[is_fitted] - middle)
        return lambda rows: np.asarray(kernel(rows, width) @ weights + middle)

    def error(function: Function) -> float:
        errors = function(inputs[~is_fitted]) - targets[~is_fitted]
        return float((errors**2 / (targets.var(0) + 1e-300)).sum())

    return min(map(fitted, WIDTHS), key=error)


def fit_columns(inputs: Floats, targets: Floats, is_fitted: Bools, exact: float) -> float:
    """Return the median squared error of a function of few columns, in the rows not in ``is_fitted``."""
    # Columns are chosen one by one, while the error is above ``exact`` and each makes it a tenth smaller.

    def fit(columns: list[int]) -> tuple[float, list[int]]:
        function = fit_function(inputs[:, columns], targets, is_fitted)
        errors = function(inputs[~is_fitted][:, columns]) - targets[~is_fitted]
        return float(np.median((errors**2).sum(1))), columns

    varying = np.flatnonzero(np.ptp(inputs, 0)).tolist()
    best, least = fit([]), fit(varying)[0] if len(varying) > MAX_CHOSEN else np.inf
    while min(best[0], least) > exact and (rest := set(varying) - set(best[1])):
        found = min(fit([*best[1], column]) for column in rest)
        if found[0] > 0.9 * best[0]:
            break
        best = found
    return min(best[0], least)


def _squared_distances(rows: Floats, others: Floats) -> Floats:
    return np.asarray((rows**2).sum(1)[:, None] + (others**2).sum(1) - 2 * rows @ others.T)
