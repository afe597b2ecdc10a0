"""Call policies, so that their errors are not taken for errors of environments, and add noise to actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.data.trees import try_as_array
from her_wrappers.support.error_texts import describe, raised_at


class PolicyError(ValueError):
    """A policy raised an exception, or returned a value that is not an action."""

    report: Any = None  # of `check_goal_env`, about the steps before the error


def choose_action(policy: Callable[[Any], Any], observation: Any, space: spaces.Space[Any]) -> Any:
    """Return ``policy(observation)``; raise PolicyError if it raises or does not return an action."""
    try:
        action = policy(observation)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(f"the policy raised {describe(error)}; {raised_at(error)}".rstrip("; ")) from error
    plain = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Dict
    is_pair = isinstance(action, tuple) and isinstance(space, plain)
    if action is None or (is_pair and not all(map(np.isscalar, action))):
        got, advice = "None", "add a return statement"
        if action is not None:
            got = f"a tuple of {len(action)} values"
            advice = "Stable-Baselines3's predict returns (action, state); return only the action"
        raise PolicyError(f"the policy must return an action of {space}, got {got}; {advice}")
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        array = try_as_array(action)
        is_number = array.dtype.kind in "biuf"
        # Environments may accept other shapes of the same size.
        if not is_number or array.size != math.prod(space.shape or ()):
            got = f"an array of shape {array.shape}" if is_number else type(action).__name__
            raise PolicyError(f"the policy must return an action of {space}, got {got}")
        if array.dtype.kind == "f" and np.isnan(array).any() and not _has_nan(observation):
            raise PolicyError(f"the policy must return an action of {space}, got NaN: {array}")
    return action


def _has_nan(tree: Any) -> bool:
    if isinstance(tree, Mapping | tuple | list):
        return any(map(_has_nan, tree.values() if isinstance(tree, Mapping) else tree))
    array = try_as_array(tree)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def add_noise(action: Any, space: spaces.Space[Any], noise: float, rng: np.random.Generator) -> Any:
    """Return an action with noise, so that recorded episodes also show how a policy corrects deviations.

    For a Box with bounds, ``noise`` is the standard deviation of Gaussian noise, relative to half of the
    range of each component. For other spaces, it is the probability of a random action.
    """
    if isinstance(space, spaces.Box) and space.is_bounded():
        deviation = noise * rng.standard_normal(space.shape) * (space.high - space.low) / 2
        return np.clip(action + deviation, space.low, space.high).astype(space.dtype)
    if rng.random() >= noise:
        return action
    space.seed(int(rng.integers(2**31)))
    return space.sample()
