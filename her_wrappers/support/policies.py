"""choose_action: call a policy, so that errors of the policy are not taken for errors of the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.support.error_texts import describe, raised_at


class PolicyError(ValueError):
    """A policy raised an exception, or returned a value that is not an action."""


def choose_action(policy: Callable[[Any], Any], observation: Any, space: spaces.Space[Any]) -> Any:
    """Return ``policy(observation)``, an action of ``space``.

    Raises:
        PolicyError: The policy raised an exception, returned None, or returned a tuple that is not an action.
    """
    try:
        action = policy(observation)
    except PolicyError:
        raise
    except Exception as error:
        place = f"; {raised_at(error)}" if raised_at(error) else ""
        raise PolicyError(f"the policy raised {describe(error)}{place}") from error
    if action is None or (isinstance(action, tuple) and not _is_array_of(space, action)):
        got = "None" if action is None else f"a tuple of {len(action)} values"
        advice = "add a return statement to the policy"
        if action is not None:
            advice = "Stable-Baselines3's predict returns (action, state): return predict(observation)[0]"
        raise PolicyError(f"the policy must return an action of {space}, got {got}; {advice}")
    return action


def _is_array_of(space: spaces.Space[Any], action: tuple[Any, ...]) -> bool:
    """Whether a tuple is an action: an element of a Tuple space, or numbers in the shape of an array."""
    if isinstance(space, spaces.Tuple):
        return len(action) == len(space.spaces)
    try:
        return space.shape is not None and np.asarray(action, np.float64).shape == space.shape
    except (TypeError, ValueError):
        return False
