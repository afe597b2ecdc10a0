"""BitFlipping: flip one bit in each step until all bits equal the goal bits; the first task of the HER paper.

Source: Andrychowicz et al. 2017, Hindsight Experience Replay, section 3.1, https://arxiv.org/abs/1707.01495
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from her_envs.arrays import cast, copied, namespace, take
from her_envs.task import (
    ONE,
    Array,
    GoalTask,
    State,
    make_observation_space,
    require_bool,
    require_choice,
    require_positive,
)

if TYPE_CHECKING:
    from her_envs.canvas import Canvas

GoalChoice = Literal["random", "ones"]
ObservationForm = Literal["bits", "integer", "image"]


class BitFlipping(GoalTask):
    """Flip bits, one in each step, until all ``n_bits`` bits equal the goal bits.

    State: the bits. The option ``observation`` sets the encoding of observations and goals.
    Action: Discrete(n_bits), the bit to flip. With ``continuous=True``, Box(-1, 1, (n_bits,)); each component
    above 0 flips its bit.
    Start and goal: independent and uniform over all bit strings; with ``goal="ones"`` the goal is all ones.
    Success: all bits equal the bits of the goal.
    Episode: terminates on success, and is truncated after ``n_bits`` steps (HER paper, appendix A).

    Args:
        n_bits: Number of bits.
        goal: ``"random"`` as in the paper, or ``"ones"`` as in Stable-Baselines3's BitFlippingEnv.
        observation: ``"bits"``: MultiBinary(n_bits). ``"integer"``: Discrete(2**n_bits), where bit i has the
            weight 2**i. ``"image"``: a square uint8 Box that shows the bits as a grid of bright and dark
            squares.
        continuous: Whether actions are continuous.
        channel_first: Whether images have shape (1, H, W); if False, they have shape (H, W, 1).

    Raises:
        TypeError: ``continuous`` or ``channel_first`` is not a bool.
        ValueError: ``n_bits`` is out of range, or ``goal`` or ``observation`` is unknown.
    """

    terminate_on_success = True

    def __init__(
        self,
        *,
        n_bits: int = 10,
        goal: GoalChoice = "random",
        observation: ObservationForm = "bits",
        continuous: bool = False,
        channel_first: bool = True,
    ) -> None:
        self.n_bits = self.max_steps = require_positive("n_bits", n_bits)
        require_choice("goal", goal, get_args(GoalChoice))
        require_choice("observation", observation, get_args(ObservationForm))
        require_bool("channel_first", channel_first)
        self._random_goal = goal == "random"
        self._form = observation
        self._shifts = np.arange(self.n_bits)
        space = self._make_space(channel_first)
        self.observation_space = make_observation_space(space, goal=space)
        self._continuous = require_bool("continuous", continuous)
        box = spaces.Box(-1.0, 1.0, (self.n_bits,), np.float32)
        self.action_space = box if continuous else spaces.Discrete(self.n_bits)
        self._single_bits = np.eye(self.n_bits, dtype=np.int8)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Sample bits and goals."""
        # For a few bits, comparing floats is more than twice as fast as sampling integers.
        bits, goal = cast(rng.random((2, num_envs, self.n_bits), np.float32) < 0.5, "int8")
        return {"bits": bits, "goal": goal if self._random_goal else goal | 1}

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Flip the bits that the actions select."""
        flips = action > 0 if self._continuous else take(self._single_bits, action)
        return {"bits": state["bits"] ^ flips, "goal": state["goal"]}

    def observe(self, state: State) -> dict[str, Array]:
        """Return the encoded bits, as observation and as achieved goal."""
        bits = self._encode(state["bits"])
        return {
            "observation": bits,
            "achieved_goal": copied(bits),
            "desired_goal": self._encode(state["goal"]),
        }

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether all bits of the achieved goal equal the bits of the desired goal."""
        if self._form == "integer":
            return achieved_goal == desired_goal
        return ~self._differ(achieved_goal, desired_goal).any(-1)

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the number of bits that differ between achieved and desired goal."""
        if self._form == "integer":
            differ = achieved_goal ^ desired_goal
            return reduce(operator.add, ((differ & 1 << bit != 0) * ONE for bit in range(self.n_bits)))
        return (self._differ(achieved_goal, desired_goal) * ONE).sum(-1)

    def reached_goal(self, state: State) -> Array:
        """Return the goals that ``state`` reaches: its bits, as 0 and 1 even if observations are images."""
        return copied(state["bits"])

    def start_error(self, state: State) -> str | None:
        """Return an error message if a bit of the state or the goal is neither 0 nor 1, else None."""
        for name, part in (("state", "bits"), ("goal", "goal")):
            if not np.isin(state[part], (0, 1)).all():
                return f"reset option {name!r} must contain only 0 and 1, got {state[part].tolist()}"
        return None

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw the bits on the left and the goal bits on the right, and mark the bits that differ."""
        bits, goal = state["bits"][index], state["goal"][index]
        differ = bits != goal
        canvas.bits(bits, (0.02, 0.09, 0.48, 0.9), marked=differ)
        canvas.bits(goal, (0.52, 0.09, 0.98, 0.9))
        canvas.text("state", (0.25, 0.95))
        canvas.text("goal", (0.75, 0.95))
        canvas.text("reached" if not differ.any() else f"{differ.sum()} to flip", (0.5, 0.045), size=0.05)

    def _make_space(self, channel_first: bool) -> spaces.Space[Any]:
        """Return the space of bits in the chosen form; for images, prepare the indices of their pixels."""
        n_bits = self.n_bits
        if self._form == "bits":
            return spaces.MultiBinary(n_bits)
        if self._form == "integer" and n_bits > 62:  # Discrete spaces use int64
            raise ValueError(
                f'observation="integer" supports at most 62 bits, got {n_bits=}; use observation="bits"'
            )
        if self._form == "integer":
            return spaces.Discrete(2**n_bits)
        cells = math.isqrt(n_bits - 1) + 1  # along each side
        # Along each side of a cell; the convolutions of Mnih et al. 2015 need at least 36 pixels in total.
        pixels = max(4, math.ceil(36 / cells))
        side = cells * pixels
        space = spaces.Box(0, 255, (1, side, side) if channel_first else (side, side, 1), np.uint8)
        self._levels = np.array([80, 255], np.uint8)
        # Index of the bit that each pixel shows; n_bits for the black pixels between the squares.
        row, column = np.indices((side, side)) // pixels
        bit = np.minimum(row * cells + column, n_bits)
        gap = (np.indices((side, side)) % pixels == 0).any(axis=0)
        self._bit_of_pixel = np.where(gap, n_bits, bit).reshape(space.shape)
        # The pixel in the middle of each cell shows the bit of the cell.
        middle = slice(pixels // 2, None, pixels)
        self._middles = (..., 0, middle, middle) if channel_first else (..., middle, middle, 0)
        return space

    def _encode(self, bits: Array) -> Array:
        """Return bits (N, n_bits) as observations, in new memory."""
        if self._form == "bits":
            return copied(bits)
        if self._form == "integer":
            return (cast(bits, "int64") << self._shifts).sum(-1)
        levels = take(self._levels, cast(bits, "int64"))
        levels = namespace(bits).concatenate([levels, 0 * levels[:, :1]], axis=1)
        return take(levels, self._bit_of_pixel, axis=1)

    def _differ(self, a: Array, b: Array) -> Array:
        """Return which bits, (..., n_bits) bool, or which cells of two images differ."""
        if self._form == "bits":
            return a != b
        cells = a[self._middles] != b[self._middles]
        return cells.reshape(*cells.shape[:-2], cells.shape[-1] ** 2)
