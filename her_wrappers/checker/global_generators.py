"""Detection of calls that seed global generators, after which the random numbers of other code repeat."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def seeded_generators(call: Callable[[], Any], before: Callable[[], Any]) -> list[str]:
    """Return the names of the global generators that ``call`` seeds; their states are restored."""
    initial = get_global_states()
    try:
        states = []
        for seed in (1, 2):  # a generator with the same state after both passes was seeded by the call
            before()
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 - restored afterwards
            if "torch" in sys.modules:
                sys.modules["torch"].default_generator.manual_seed(seed)
            call()
            states.append(get_global_states())
        return [name for name in initial if states[0][name] == states[1][name]]
    finally:
        set_global_states(initial)


def used_generators(call: Callable[[], Any]) -> list[str]:
    """Return the names of the global generators from which ``call`` draws, or which it seeds."""
    before = get_global_states()
    call()
    return [name for name, state in get_global_states().items() if state != before.get(name, state)]


def get_global_states() -> dict[str, Any]:
    """Return the states of the global random generators by name; torch is included only if it is imported."""
    name, *values = np.random.get_state()  # noqa: NPY002 - other code uses this generator
    states: dict[str, Any] = {
        "Python's random": random.getstate(),
        "numpy.random": (name, np.asarray(values[0]).tolist(), *values[1:]),
    }
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().tolist()
    return states


def set_global_states(states: dict[str, Any]) -> None:
    """Restore the states that `get_global_states` returned."""
    random.setstate(states["Python's random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002 - other code uses this generator
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
