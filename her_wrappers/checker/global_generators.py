"""Detection of environments that seed the global random generators of Python, NumPy or torch.

After a global generator is seeded, the random numbers of all other code that uses this generator repeat, such
as exploration noise or the batches of a replay buffer.
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

MAX_EPISODE_STEPS = 60
"""Largest number of steps in the search for a step that seeds a generator, such as the last of an episode."""


def find_global_seeding(evidence: Evidence, env: Any, make: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return the calls that seed a global generator, each with the name of the generator.

    After such a call the state of the generator does not depend on its state before the call.

    Args:
        evidence: Evidence with the seed of the check and the relabeled pairs.
        env: A replica, for calls of ``reset``, ``step`` and the goal functions.
        make: Returns a new replica.
    """
    calls: dict[str, Callable[[], Any]] = {
        "the constructor": make,
        "reset()": lambda: env.reset(seed=evidence.seed),
        "step()": lambda: _run_episode(env, evidence.seed),
    }
    for name in ("compute_reward", "compute_terminated"):
        function = probe(env, name)
        if function is not None and evidence.pairs:
            pair = evidence.pairs[0]
            calls[f"{name}()"] = partial(function, pair.achieved, pair.desired, pair.info)
    initial = get_global_states()
    try:
        found = []
        for name, call in calls.items():
            states = []
            for seed in (1, 2):
                env.reset(seed=evidence.seed)
                seed_global_generators(seed)
                call()
                states.append(get_global_states())
            found += [(name, kind) for kind in initial if states[0][kind] == states[1][kind]]
        return found
    finally:
        set_global_states(initial)


def _run_episode(env: Any, seed: int) -> None:
    policy = random_policy(env.action_space, seed)
    for _ in range(MAX_EPISODE_STEPS):
        _, _, terminated, truncated, _ = env.step(policy(None))
        if np.any(terminated) or np.any(truncated):
            return


def get_global_states() -> dict[str, Any]:
    """Return the states of the global generators by name, with torch's only if torch is imported."""
    name, *values = np.random.get_state()  # noqa: NPY002 - other code uses this generator
    states: dict[str, Any] = {
        "Python's random": random.getstate(),
        "numpy.random": (name, np.asarray(values[0]).tolist(), *values[1:]),
    }
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().tolist()
    return states


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of Python, NumPy and, if it is imported, torch."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - restored afterwards
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)


def set_global_states(states: dict[str, Any]) -> None:
    """Set the states that `get_global_states` returned."""
    random.setstate(states["Python's random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002 - other code uses this generator
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
