"""Find which components of the actions change the state, how many steps later, and in which direction."""

from __future__ import annotations

import numpy as np

from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.diagnosis.columns import finite, flat, projected, split_goals
from her_wrappers.recording.episodes import Episodes

MIN_STEPS, LAGS = 500, range(-3, 4)
"""Smallest number of steps for which `action_effects` returns a result; and numbers of steps from a change of
the state to the actions that may explain it, which are negative for earlier actions."""


def _actions_and_states(block: Episodes) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return the actions, (T, A), and a list of the achieved goals and the observations, each (S, K).

    Return None if an array has more than 1,000 components, such as an image, or if actions are not floats.
    """
    leaves, (achieved, _, others) = leaf_arrays(block.actions), split_goals(block.observations)
    observed = [achieved, *(leaf for leaf in others.values() if leaf.dtype.kind in NUMBERS)]
    if any(leaf[0].size > 1000 for leaf in observed) or any(leaf.dtype.kind != "f" for leaf in leaves):
        return None
    states = [projected(finite(flat(leaf).astype(np.float64))) for leaf in observed]
    return finite(np.hstack([flat(leaf) for leaf in leaves]).astype(np.float64)), states


def action_effects(block: Episodes) -> tuple[np.ndarray, dict[int, float]] | None:
    """Return ``(effects, shares)``: how strongly and how late changes of the state depend on the actions.

    ``effects``, (2, A) float64, has for each of A components of the actions the largest correlation with a
    change of the achieved goal (row 0), or of any component of the state (row 1), in the same step or the
    next. Correlations that chance can explain are 0; a component that is constant in each episode has NaN.

    ``shares[lag]``, for each of `LAGS`, is the largest share of the variance of a change that the actions
    ``lag`` steps later explain in a linear regression. With a negative lag, changes that the state before
    them explains as well do not count, since this state shows actions that take effect later.

    Absolute values of actions and of changes are tried too. Episode means are subtracted first, since an
    action that is repeated in a whole episode proves nothing. The result is None for image observations, for
    actions that are not floats, and for fewer than `MIN_STEPS` steps.
    """
    found, margin = _actions_and_states(block), LAGS[-1]  # steps near the ends of episodes are left out
    counts = np.maximum(block.lengths - 2 * margin, 0)
    counts, first = counts[counts > 0], (block.ends[:-1] + margin)[counts > 0]
    if found is None or counts.sum() < MIN_STEPS:
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
    outputs, effects, shares = np.hstack(changes), np.zeros((2, actions.shape[1])), {}

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
        if lag in {-1, 0}:
            sizes = abs(similar).reshape(2, actions.shape[1], -1).max(axis=0)  # (A, changes)
            on_goal = sizes[:, : changes[0].shape[1]].max(axis=1)
            effects = np.maximum(effects, [on_goal, sizes.max(axis=1)])
            effects[:, ~features[:, : actions.shape[1]].any(axis=0)] = np.nan
    effects[effects < 4.5 / np.sqrt(len(steps))] = 0  # 4.5 standard errors
    return effects, shares


def sign_flips(block: Episodes) -> tuple[int, float]:
    """Return the action component whose effect differs most in sign, and the share of the rarer sign.

    The effect of a component in an episode is its coefficient in a linear regression of a change of the state
    on the actions. The share is that of the episodes with the rarer sign of this effect. Only effects count
    that are strong and similar in size in all episodes, as with a motor that is connected the wrong way
    round, and whose sign no component of the first state shows. Without such an effect, the share is 0.
    """
    found = _actions_and_states(block)
    if found is None:
        return 0, 0.0
    actions, states, first = found[0], np.hstack(found[1]), block.state_of_step[block.ends[:-1]]
    long = np.flatnonzero(block.lengths >= 2 * actions.shape[1] + 4)
    slopes, strengths = np.zeros((2, len(long), actions.shape[1], states.shape[1]))
    if not slopes.size:
        return 0, 0.0
    for i, episode in enumerate(long):
        rows = actions[block.ends[episode] : block.ends[episode + 1]]
        changes = np.diff(states[first[episode] :][: len(rows) + 1], axis=0)
        slopes[i] = np.linalg.pinv(rows - rows.mean(axis=0)) @ changes
        strengths[i] = abs(slopes[i]) * rows.std(axis=0)[:, None] / (changes.std(axis=0) + 1e-12)
    low, middle, high = np.quantile(abs(slopes), (0.25, 0.5, 0.75), axis=0)  # (A, K) each
    rarer = np.minimum((slopes > middle / 2).mean(axis=0), (slopes < -middle / 2).mean(axis=0))
    rarer[(np.median(strengths, axis=0) <= 0.5) | (high - low >= 0.3 * middle)] = 0
    component, change = np.unravel_index(rarer.argmax(), rarer.shape)
    with np.errstate(all="ignore"):
        shown = np.corrcoef(slopes[:, component, change] > 0, states[first[long]], rowvar=False)[0, 1:]
    return int(component), 0.0 if abs(finite(shown)).max() > 0.9 else float(rarer.max())
