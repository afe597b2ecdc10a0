"""Find which components of the actions change the state, how many steps later, and in which direction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.diagnosis.columns import finite, flat, projected, split_goals
from her_wrappers.goals.in_observation import fit_function
from her_wrappers.recording.episodes import Episodes

MIN_STEPS = 500  # for which `action_effects` returns a result
LAGS = range(-3, 4)  # steps from a change of the state to the actions that may explain it


def _actions_and_states(block: Episodes) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return actions, (T, A), and a list of goals and observations, (S, K); None for images or Discrete."""
    leaves, (achieved, _, others) = leaf_arrays(block.actions), split_goals(block.observations)
    observed = [achieved, *(leaf for leaf in others.values() if leaf.dtype.kind in NUMBERS)]
    if any(leaf[0].size > 1000 for leaf in observed) or any(
        leaf.dtype.kind != "f" or not leaf.size for leaf in leaves
    ):
        return None
    states = [projected(finite(flat(leaf).astype(np.float64))) for leaf in observed]
    return finite(np.hstack([flat(leaf) for leaf in leaves]).astype(np.float64)), states


def action_effects(
    block: Episodes, min_steps: int = MIN_STEPS
) -> tuple[np.ndarray, dict[int, float], dict[int, float]] | None:
    """Return ``(effects, shares, goal_shares)``: how strongly and how late the state depends on the actions.

    ``effects``, (2, A) float64, has for each of A components of the actions the largest correlation with a
    change of the achieved goal (row 0), or of any component of the state (row 1), in the same step or the
    next: 0 if chance can explain it, NaN for a component that is constant in each episode.
    ``shares[lag]``, for each of `LAGS`, is the largest share of the variance of a change that the actions
    ``lag`` steps later explain in a linear regression. With a negative lag, changes that the state before
    them explains as well do not count, since this state shows actions that take effect later.
    ``goal_shares[lag]`` is the smallest share of the variance of a change of the achieved goal that changes
    of the observation ``lag`` steps later explain.

    Absolute values are tried too. Episode means are subtracted, since an action that is repeated in a whole
    episode proves nothing. The result is None if `_actions_and_states` is, or for too few steps.
    """
    found, margin = _actions_and_states(block), LAGS[-1]  # steps near the ends of episodes are left out
    counts = np.maximum(block.lengths - 2 * margin, 0)
    counts, first = counts[counts > 0], (block.ends[:-1] + margin)[counts > 0]
    if found is None or counts.sum() < min_steps:
        return None
    actions, states = found
    begins = np.cumsum(counts) - counts
    steps = np.arange(counts.sum()) + (first - begins).repeat(counts)
    before = block.state_of_step[steps]

    def standardized(rows: np.ndarray) -> np.ndarray:
        rows = np.hstack([rows, abs(rows)])
        size = abs(rows).max(axis=0)
        rows -= (np.add.reduceat(rows, begins) / counts[:, None]).repeat(counts, axis=0)
        spread = np.sqrt((rows**2).mean(axis=0))
        return rows / np.where(spread > 1e-9 * size, spread, np.inf)  # rounded constants are 0

    changes = [standardized(rows[before + 1] - rows[before]) for rows in states]
    outputs, effects = np.hstack(changes), np.zeros((2, actions.shape[1]))
    shares, goal_shares = dict[int, float](), dict[int, float]()
    moving = np.flatnonzero(changes[0][:, : states[0].shape[1]].any(axis=0))

    def explained(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        similar = features.T @ outputs / len(steps)  # correlations
        inverse = np.linalg.pinv(features.T @ features / len(steps))
        return similar, np.einsum("ij,ik,kj->j", similar, inverse, similar)

    by_state = explained(standardized(np.hstack([rows[before] for rows in states])))[1]
    for lag in LAGS:
        features = standardized(actions[steps + lag] - actions.mean(axis=0))
        similar, by_actions = explained(features)
        is_counted = by_state < by_actions - 0.1 if lag < 0 else by_actions >= 0
        shares[lag] = float(by_actions[is_counted].max(initial=0))
        if moving.size and len(states) > 1 and len(block) > 1:
            observed = np.hstack([rows[before + 1 + lag] - rows[before + lag] for rows in states[1:]])
            goal_shares[lag] = float(explained(standardized(observed))[1][moving].min())
        if lag in {-1, 0}:
            sizes = abs(similar).reshape(2, actions.shape[1], -1).max(axis=0)  # (A, changes)
            on_goal = sizes[:, : changes[0].shape[1]].max(axis=1)
            effects = np.maximum(effects, [on_goal, sizes.max(axis=1)])
            effects[:, ~features[:, : actions.shape[1]].any(axis=0)] = np.nan
    effects[effects < 4.5 / np.sqrt(len(steps))] = 0  # 4.5 standard errors
    return effects, shares, goal_shares


def best_lag(shares: dict[int, float], *rivals: int) -> int | None:
    """Return the lag with the largest share, if it is 0.8 and clearly above those of ``rivals``; or None."""
    best = max(shares, key=shares.__getitem__, default=0)
    other = max((shares[lag] for lag in rivals if lag != best), default=1)
    is_clear = other < 1 and shares[best] >= 0.8 and shares[best] - other >= max(0.1, (1 - other) / 2)
    return best if is_clear else None


def lag_text(lag: int) -> str:
    """Return a lag in words, such as "1 step earlier"."""
    return f"{abs(lag)} step{'s'[: abs(lag) > 1]} {'later' if lag > 0 else 'earlier'}"


def other_lag(block: Episodes) -> str:
    """Return in how many episodes the state follows actions of other steps than in the others, or ""."""
    least = 4 * sum(leaf[0].size for leaf in leaf_arrays(block.actions)) + 6
    found = [action_effects(block[i : i + 1], least) for i in range(len(block))]
    lags = [best_lag(each[1], *LAGS) for each in found if each]
    values, counts = np.unique([lag for lag in lags if lag is not None], return_counts=True)
    part, most = (int(values[i]) for i in counts.argsort()[-2:]) if len(values) > 1 else (0, 0)
    if part == most or counts.sum() < len(block) / 2 or lags.count(part) < max(5, 0.1 * counts.sum()):
        return ""
    places = [lag_text(lag) if lag else "of the same step" for lag in (part, most)]
    return f"the state follows actions {places[0]} in {lags.count(part)} episodes, and {places[1]} in others"


def _episode_effects(block: Episodes, actions: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the effects of A components of the actions on changes of K of the state, (2, episodes, A, K).

    These are the coefficients of a linear regression in each episode, and those for standardized columns;
    NaN if the regression explains less than half of the variance, since a robot can be blocked, or if the
    components have no separate effects. Steps in which the state jumps, such as an angle, are left out.
    """
    before, width = block.state_of_step, actions.shape[1]
    changes = states[before + 1] - states[before]
    limit = 8 * np.quantile(abs(changes), 0.9, axis=0)
    is_usual = (abs(changes) <= np.where(limit > 0, limit, np.inf)).all(axis=1)
    effects = np.full((2, len(block), width, states.shape[1]), np.nan)
    for episode, (begin, end) in enumerate(pairwise(block.ends)):
        rows, moves = (each[begin:end][is_usual[begin:end]] for each in (actions, changes))
        if len(rows) < 2 * width + 4:
            continue
        spread, scale = rows.std(axis=0), moves.std(axis=0)
        is_constant = spread <= 1e-6 * abs(rows).max(axis=0)
        rows = np.where(is_constant, 0, rows - rows.mean(axis=0)) / np.where(is_constant, 1, spread)
        moves = (moves - moves.mean(axis=0)) / np.where(scale > 1e-6 * abs(moves).max(axis=0), scale, np.inf)
        similar, shared = rows.T @ rows / len(rows) + np.diag(is_constant), rows.T @ moves / len(rows)
        if np.linalg.eigvalsh(similar)[0] >= 0.05:
            found = np.linalg.solve(similar, shared)
            left = (1 - (found * shared).sum(axis=0)) * (len(rows) - 1) / (len(rows) - 1 - width)
            with np.errstate(all="ignore"):
                slopes = found * scale / np.where(is_constant, np.nan, spread)[:, None]
            effects[:, episode] = np.where(left <= 0.5, slopes, np.nan), found
    return effects


def changed_effect(block: Episodes) -> tuple[int, str] | None:
    """Return the component of the actions whose effect differs between two groups of episodes, and how.

    If a function of the first or of the mean state predicts the groups, the result is None: then effects
    depend on the state, such as on the heading of a robot.
    """
    found = _actions_and_states(block)
    if found is None:
        return None
    actions, states, first = found[0], np.hstack(found[1]), block.state_of_step[block.ends[:-1]]
    slopes, strengths = _episode_effects(block, actions, states)
    best, component, groups = 0.0, 0, list[tuple[np.ndarray, float]]()
    for i, j in np.ndindex(slopes.shape[1:]):
        known = np.flatnonzero(~np.isnan(slopes[:, i, j]))
        if len(known) < max(10, len(block) / 2):
            continue
        order, least = known[slopes[known, i, j].argsort()], max(3, len(known) // 10)
        values = slopes[order, i, j]
        split = least + int(np.diff(values)[least - 1 : len(values) - least].argmax())
        low, high = (float(np.median(each)) for each in np.split(values, [split]))
        size, middle = max(abs(low), abs(high)), np.where(np.arange(len(values)) < split, low, high)
        is_near = abs(values - middle) < (high - low) / 4
        strong = abs(strengths[order, i, j])[abs(values) > size / 2]
        is_apart = high - low >= size / 2 and np.median(strong) > 0.5
        is_apart &= (abs(values - (low + high) / 2) < (high - low) / 4).mean() <= 0.05
        is_apart &= is_near[:split].mean() >= 0.8 and is_near[split:].mean() >= 0.8
        if is_apart and values[split] - values[split - 1] > best * size:
            best = (values[split] - values[split - 1]) / size
            component, groups = i, [(order[:split], low), (order[split:], high)]
    if not groups:
        return None
    (part, effect), (others, other) = sorted(groups, key=lambda each: (len(each[0]), -each[0].min()))
    means = np.add.reduceat(states, first) / (block.lengths[:, None] + 1)
    if any(is_predicted(rows[np.append(part, others)], len(part)) for rows in (states[first], means)):
        return None
    where = f"in {len(part) / (len(part) + len(others)):.1%} of the episodes"
    where += f" (the last, from {part.min()} on)" if part.min() > others.max() else ""
    episode = np.arange(len(block)).repeat(block.lengths)
    used = [actions[np.isin(episode, each), component] for each in (part, others)]
    ranges = [f"(actions from {each.min():.3g} to {each.max():.3g})" for each in used]
    return component, (
        f"{where}, the effect on a change of the state is {effect:.2g} {ranges[0]}, and in the others "
        f"{other:.2g} {ranges[1]}"
    )


def is_predicted(rows: np.ndarray, count: int) -> bool:
    """Return whether a function of (n, K) rows predicts which of them are the first ``count`` rows."""
    rows = rows[:, np.ptp(rows, axis=0) > 1e-6 * abs(rows).max(axis=0)]
    label = np.where(np.arange(len(rows)) < count, 1.0, -1.0)
    is_fitted = np.random.default_rng(0).permutation(len(rows)) % 2 == 0
    if not rows.size:
        return False
    guess = fit_function(rows, label[:, None], is_fitted)(rows)[:, 0]
    right = [(guess * label > 0)[~is_fitted & (label == sign)] for sign in (-1, 1)]
    return bool(np.mean([each.mean() for each in right if each.size]) >= 0.75)
