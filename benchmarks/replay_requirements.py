"""Required speed and memory of our buffer, with the measurements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.replay_memory import IMAGES, SAME_IMAGES, VECTORS
from benchmarks.replay_work import Costs, Sampling
from benchmarks.result_page import Requirement, at_least, at_most

OURS, SB3, CPPRB, FLOOR = "her-toolkit", "Stable-Baselines3", "cpprb", "floor"
TENSORS = "her-toolkit, to_torch()"


def ratio(costs: Costs, cost: Sampling, over: Sampling) -> float | None:
    """Return the median over the turns of the ratio of two costs; None if one is missing."""
    if cost not in costs or over not in costs:
        return None
    return float(np.median(costs[cost] / costs[over]))


def speed_requirements(costs: Costs, small: int, large: int) -> list[Requirement]:
    """Return the requirements for sampling from buffers with ``small`` and ``large`` numbers of rows."""

    def faster_than(
        peer: str,
        batch_size: int,
        promised: float,
        hoped: float | None,
        *,
        stored: int = large,
        ours: str = OURS,
    ) -> Requirement:
        ours_and_theirs = [Sampling(name, stored, batch_size) for name in (ours, peer)]
        call = f"sample({batch_size}){'.to_torch()' if ours == TENSORS else ''}"
        what = f"{call} of {stored:,}: times as fast as {peer}"
        return at_least(what, promised, ratio(costs, *ours_and_theirs[::-1]), hoped=hoped)

    def cost_over(what: str, base: Sampling) -> Requirement:
        measured = ratio(costs, Sampling(OURS, large, 256), base)
        return at_most(f"sample(256) of {large:,}: cost over {what}", 2.5, measured, hoped=1.5)

    return [
        faster_than(SB3, 256, 28, 40),
        faster_than(SB3, 256, 20, None, ours=TENSORS),
        faster_than(CPPRB, 256, 1.8, 2),
        faster_than(CPPRB, 256, 1, None, stored=small),
        cost_over("the floor", Sampling(FLOOR, large, 256)),
        faster_than(SB3, 1024, 12, 20),
        faster_than(CPPRB, 1024, 1, None),
        cost_over(f"sample(256) of {small:,}", Sampling(OURS, small, 256)),
    ]


def memory_requirements(sizes: Mapping[str, tuple[float, float | None]]) -> list[Requirement]:
    """Return the requirements for memory, from our bytes and those of Stable-Baselines3 (None if missing)."""
    requirements = []
    for kind, promised in ((VECTORS, 0.6), (IMAGES, 0.36), (SAME_IMAGES, 0.19)):
        ours, theirs = sizes[kind]
        what = f"bytes per transition / those of {SB3}: {kind}"
        requirements.append(at_most(what, promised, ours / theirs if theirs else None))
    return requirements
