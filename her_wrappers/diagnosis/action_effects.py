"""Find which components of the actions change the state, how many steps later, and in which direction."""

from __future__ import annotations

import numpy as np

from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.diagnosis.columns import finite, flat, projected, split_goals
from her_wrappers.recording.episodes import Episodes

MIN_STEPS = 1000
"""Smallest number of steps for which `action_effects` returns a result."""

LAGS = range(-3, 4)
"""Steps by which `action_lags` shifts the actions."""


def _actions_and_states(block: Episodes) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return actions (T, A), and achieved goals and observations (S, K) each; None with images or integers."""
    leaves, (achieved, _, others) = leaf_arrays(block.actions), split_goals(block.observations)
    observed = [achieved, *(leaf for leaf in others.values() if leaf.dtype.kind in NUMBERS)]
    if any(leaf[0].size > 1000 for leaf in observed) or any(leaf.dtype.kind != "f" for leaf in leaves):
        return None
    states = [projected(finite(flat(leaf).astype(np.float64))) for leaf in observed]
    return finite(np.hstack([flat(leaf) for leaf in leaves]).astype(np.float64)), states


@np.errstate(invalid="ignore", divide="ignore")  # 0 / 0 is 0, by `finite`
def action_effects(block: Episodes) -> np.ndarray | None:
    """Return how strongly changes of the state depend on each of A components of the actions, (2, A) float64.

    Row 0 is for changes of the achieved goal, row 1 for changes of the achieved goal or the observation. A
    change is the difference between the state before an action and the state two steps later.

    The value of an action component is its largest partial correlation with a component of the changes, given
    the other action components. Absolute values of actions and of changes are tried too. Episode means are
    subtracted first, since an action that is repeated in a whole episode proves nothing. Correlations that
    chance can explain become 0, and an action component that is constant in each episode gets NaN. The result
    is None for image observations, for actions that are not floats, and for fewer than `MIN_STEPS` steps.
    """
    found = _actions_and_states(block)
    counts = block.lengths[block.lengths > 1] - 1  # the last step of an episode has no next one
    if found is None or counts.sum() < MIN_STEPS:
        return None
    actions, states = found
    steps = np.setdiff1d(np.arange(block.num_steps), block.ends[1:] - 1)
    before, begins = block.state_of_step[steps], np.cumsum(counts) - counts

    def standardized(rows: np.ndarray) -> np.ndarray:
        rows = np.hstack([rows, abs(rows)])
        size = abs(rows).max(axis=0)
        rows -= (np.add.reduceat(rows, begins) / counts[:, None]).repeat(counts, axis=0)
        spread = np.sqrt((rows**2).mean(axis=0))
        return rows / np.where(spread > 1e-9 * size, spread, np.inf)  # rounded constants are 0

    features = standardized(actions[steps] - actions[steps].mean(axis=0))
    changes = [standardized(rows[before + 2] - rows[before]) for rows in states]
    outputs = np.hstack(changes)
    inverse = np.linalg.pinv(features.T @ features)
    weights = inverse @ (features.T @ outputs)
    explained = weights**2 / np.diag(inverse)[:, None]  # by each feature alone
    residual = ((outputs - features @ weights) ** 2).sum(axis=0)
    shares = finite(np.sqrt(explained / (explained + residual)))
    shares = shares.reshape(2, actions.shape[1], -1).max(axis=0)  # (A, changes)
    effects = np.stack([shares[:, : changes[0].shape[1]].max(axis=1), shares.max(axis=1)])
    effects[effects < 4.5 / np.sqrt(len(steps))] = 0  # 4.5 standard errors
    effects[:, ~features[:, : actions.shape[1]].any(axis=0)] = np.nan
    return effects


def action_lags(block: Episodes) -> dict[int, float]:
    """Return, for each of `LAGS`, how well the actions of that many steps later explain the changes of a step.

    That is the share of the variance that a linear regression explains of the component of the state whose
    change it explains best. Empty for images, actions that are not floats, and fewer than 500 steps.
    """
    found = _actions_and_states(block)
    begins, ends = (each.repeat(block.lengths) for each in (block.ends[:-1], block.ends[1:]))
    numbers = np.arange(block.num_steps)
    steps = np.flatnonzero((numbers - begins >= LAGS[-1]) & (ends - numbers > LAGS[-1]))
    if found is None or len(steps) < MIN_STEPS / 2:
        return {}
    actions, states = found[0], np.hstack(found[1])
    before = block.state_of_step[steps]
    changes = states[before + 1] - states[before]
    changes = changes[:, changes.std(axis=0) > 1e-9 * abs(states).max(axis=0)]  # others are rounding errors
    shares = {}
    for lag in LAGS:
        features = np.hstack([actions[steps + lag], np.ones((len(steps), 1))])
        rest = changes - features @ (np.linalg.pinv(features.T @ features) @ (features.T @ changes))
        shares[lag] = float((1 - rest.var(axis=0) / changes.var(axis=0)).max(initial=0))
    return shares


def sign_flips(block: Episodes) -> tuple[int, float]:
    """Return the action component whose effect has another sign in the largest share of episodes, and the share.

    An effect is the coefficient of the component in a linear regression of a change of the state, in each
    episode. It counts only if it is strong and its size is similar in all episodes, as with a motor that is connected the wrong way
    round, and if no component of the first state shows its sign.
    """
    found = _actions_and_states(block)
    actions, states = (np.zeros((0, 0)),) * 2 if found is None else (found[0], np.hstack(found[1]))
    first = block.state_of_step[block.ends[:-1]]
    long = np.flatnonzero(block.lengths >= 2 * actions.shape[1] + 4)
    slopes, strengths = np.zeros((2, len(long), actions.shape[1], states.shape[1]))
    if not slopes.size:
        return 0, 0.0
    for i, episode in enumerate(long):
        rows = actions[block.ends[episode] : block.ends[episode + 1]]
        changes = np.diff(states[first[episode] :][: len(rows) + 1], axis=0)
        slopes[i] = np.linalg.pinv(rows - rows.mean(axis=0)) @ changes
        strengths[i] = abs(slopes[i]) * rows.std(axis=0)[:, None] / (changes.std(axis=0) + 1e-12)
    low, middle, high = np.quantile(abs(slopes), (0.25, 0.5, 0.75), axis=0)
    rarer_sign = np.minimum((slopes > middle / 2).mean(axis=0), (slopes < -middle / 2).mean(axis=0))  # (A, K)
    is_clear = (np.median(strengths, axis=0) > 0.5) & (high - low < 0.3 * middle)
    shares = np.where(is_clear, rarer_sign, 0)
    component, change = np.unravel_index(shares.argmax(), shares.shape)
    signs = np.column_stack([slopes[:, component, change] > 0, states[first[long]]])
    with np.errstate(all="ignore"):
        is_shown = abs(finite(np.corrcoef(signs, rowvar=False))[0, 1:]).max() > 0.9
    return int(component), 0.0 if is_shown else float(shares.max())
