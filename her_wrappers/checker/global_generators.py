"""The global random generators of Python, NumPy and torch: does an environment seed them?

After a global generator was seeded, the random numbers of all other code repeat: exploration noise, or the
batches of a replay buffer.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.policies import random_policy
from her_wrappers.checker.probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from her_wrappers.checker.evidence import Evidence


def find_global_seeding(evidence: Evidence, env: Any) -> list[str]:
    """Return the calls after which a global generator no longer depends on its earlier state."""
    policy = random_policy(env.action_space, evidence.seed)
    calls: dict[str, Callable[[], Any]] = {"reset()": lambda: env.reset(seed=evidence.seed)}
    calls["step()"] = lambda: env.step(policy(None))
    for name in ("compute_reward", "compute_terminated"):
        function = probe(env, name)
        if function is not None and evidence.pairs:
            pair = evidence.pairs[0]
            calls[f"{name}()"] = partial(function, pair.achieved, pair.desired, pair.info)
    before = _states()
    try:
        found = []
        for name, call in calls.items():
            states = []
            for seed in (1, 2):
                env.reset(seed=evidence.seed)
                _seed(seed)
                call()
                states.append(_states())
            found += [f"{name} seeds {kind}" for kind in before if states[0][kind] == states[1][kind]]
        return found
    finally:
        _restore(before)


def _states() -> dict[str, Any]:
    """Return the states of the generators, torch's only where torch is imported."""
    name, *parts = np.random.get_state()  # noqa: NPY002 - the generator that environments should not touch
    states: dict[str, Any] = {
        "Python's random": random.getstate(),
        "numpy.random": (name, np.asarray(parts[0]).tolist(), *parts[1:]),
    }
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().tolist()
    return states


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - restored afterwards
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)


def _restore(states: dict[str, Any]) -> None:
    random.setstate(states["Python's random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002 - the generator that environments should not touch
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
