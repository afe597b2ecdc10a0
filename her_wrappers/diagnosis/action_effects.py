"""action_effects: find which components of the actions change the state."""

from __future__ import annotations

import numpy as np

from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.diagnosis.columns import finite, flat, projected, split_goals
from her_wrappers.recording.episodes import Episodes

MIN_STEPS = 1000
"""Smallest number of steps for which `action_effects` returns a result."""


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
    leaves, (achieved, _, others) = leaf_arrays(block.actions), split_goals(block.observations)
    observed = [achieved, *(leaf for leaf in others.values() if leaf.dtype.kind in NUMBERS)]
    counts = block.lengths[block.lengths > 1] - 1  # the last step of an episode has no next one
    has_images = any(leaf[0].size > 1000 for leaf in observed)
    if has_images or counts.sum() < MIN_STEPS or any(leaf.dtype.kind != "f" for leaf in leaves):
        return None
    steps = np.setdiff1d(np.arange(block.num_steps), block.ends[1:] - 1)
    before, begins = block.state_of_step[steps], np.cumsum(counts) - counts

    def standardized(rows: np.ndarray) -> np.ndarray:
        rows = np.hstack([rows, abs(rows)])
        size = abs(rows).max(axis=0)
        rows -= (np.add.reduceat(rows, begins) / counts[:, None]).repeat(counts, axis=0)
        spread = np.sqrt((rows**2).mean(axis=0))
        return rows / np.where(spread > 1e-9 * size, spread, np.inf)  # rounded constants are 0

    actions = finite(np.hstack([flat(leaf)[steps] for leaf in leaves]).astype(np.float64))
    features = standardized(actions - actions.mean(axis=0))
    states = [projected(finite(flat(leaf).astype(np.float64))) for leaf in observed]
    changes = [standardized(rows[before + 2] - rows[before]) for rows in states]
    outputs = np.hstack(changes)
    inverse = np.linalg.pinv(features.T @ features)
    weights = inverse @ (features.T @ outputs)
    explained = weights**2 / np.diag(inverse)[:, None]  # by each feature alone
    residual = ((outputs - features @ weights) ** 2).sum(axis=0)
    found = finite(np.sqrt(explained / (explained + residual)))
    found = found.reshape(2, actions.shape[1], -1).max(axis=0)  # (A, changes)
    effects = np.stack([found[:, : changes[0].shape[1]].max(axis=1), found.max(axis=1)])
    effects[effects < 4.5 / np.sqrt(len(steps))] = 0  # 4.5 standard errors
    effects[:, ~features[:, : actions.shape[1]].any(axis=0)] = np.nan
    return effects
