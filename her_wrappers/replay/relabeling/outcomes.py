"""Outcomes: what rules for rewards and for terminations are asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from her_wrappers.replay.storage.infos import Infos

Bools: TypeAlias = NDArray[np.bool_]


class Outcomes(NamedTuple):
    """What steps led to, under the goals that are looked at.

    Attributes:
        achieved_goal: Tree of (B, G) goals reached by the steps; read-only.
        desired_goal: Tree of (B, G) goals asked for; read-only.
        info: Infos of the steps, in the form that goal functions get.
        terminated: (B,) bool, as recorded.
        other_reason: (B,) bool, whether something else than the goal ended the episode.
    """

    achieved_goal: Any
    desired_goal: Any
    info: Infos
    terminated: Bools
    other_reason: Bools
