"""What is promised of our buffer, what is hoped for, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.replay_memory import IMAGES, SAME_IMAGES, VECTORS
from benchmarks.replay_work import Costs, Sampling
from her_agents.studies.result_page import Claim, at_least, at_most

OURS, SB3, CPPRB, FLOOR = "her-toolkit", "Stable-Baselines3", "cpprb", "floor"
TENSORS = "her-toolkit, to_torch()"


def ratio(costs: Costs, cost: Sampling, over: Sampling) -> float | None:
    """Return the median over the turns of a ratio within a turn, None where one of them is missing."""
    if cost not in costs or over not in costs:
        return None
    return float(np.median(costs[cost] / costs[over]))


def speed_claims(costs: Costs, small: int, large: int) -> list[Claim]:
    """Return the claims about sampling from buffers of so many rows."""

    def faster_than(
        peer: str,
        batch_size: int,
        promised: float,
        hoped: float | None,
        *,
        stored: int = large,
        ours: str = OURS,
    ) -> Claim:
        ours_and_theirs = [Sampling(name, stored, batch_size) for name in (ours, peer)]
        call = f"sample({batch_size}){'.to_torch()' if ours == TENSORS else ''}"
        what = f"{call} of {stored:,}: times as fast as {peer}"
        return at_least(what, promised, ratio(costs, *ours_and_theirs[::-1]), hoped=hoped)

    def dearer_than(what: str, base: Sampling) -> Claim:
        measured = ratio(costs, Sampling(OURS, large, 256), base)
        return at_most(f"sample(256) of {large:,}: cost over {what}", 2.5, measured, hoped=1.5)

    return [
        faster_than(SB3, 256, 28, 40),
        faster_than(SB3, 256, 20, None, ours=TENSORS),
        faster_than(CPPRB, 256, 1.8, 2),
        faster_than(CPPRB, 256, 1, None, stored=small),
        dearer_than("the floor", Sampling(FLOOR, large, 256)),
        faster_than(SB3, 1024, 12, 20),
        faster_than(CPPRB, 1024, 1, None),
        dearer_than(f"that of {small:,}", Sampling(OURS, small, 256)),
    ]


def memory_claims(sizes: Mapping[str, tuple[float, float | None]]) -> list[Claim]:
    """Return the claims about bytes: ours and Stable-Baselines3's, None where it is missing."""
    claims = []
    for kind, promised in ((VECTORS, 0.5), (IMAGES, 0.36), (SAME_IMAGES, 0.2)):
        ours, theirs = sizes[kind]
        what = f"bytes a transition over {SB3}'s: {kind}"
        claims.append(at_most(what, promised, ours / theirs if theirs else None))
    return claims
