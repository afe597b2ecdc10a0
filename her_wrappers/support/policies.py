"""choose_action: call a policy, so that its errors are not taken for errors of the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.support.error_texts import describe, raised_at


class PolicyError(ValueError):
    """A policy raised an exception, or returned a value that is not an action."""


def choose_action(policy: Callable[[Any], Any], observation: Any, space: spaces.Space[Any]) -> Any:
    """Return ``policy(observation)``; raise PolicyError if that raises, or is not an action of ``space``."""
    try:
        action = policy(observation)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(f"the policy raised {describe(error)}; {raised_at(error)}".rstrip("; ")) from error
    plain = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Dict
    is_pair = isinstance(action, tuple) and isinstance(space, plain)
    if action is None or (is_pair and not all(map(np.isscalar, action))):
        got = "None" if action is None else f"a tuple of {len(action)} values"
        advice = (
            "Stable-Baselines3's predict returns (action, state), of which the policy must return the first"
        )
        raise PolicyError(f"the policy must return an action of {space}, got {got}; {advice}")
    return action
