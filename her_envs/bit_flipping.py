"""BitFlipping: flip one bit in each step until all bits equal the goal bits; the first task of the HER paper.

Source: Andrychowicz et al. 2017, Hindsight Experience Replay, section 3.1, https://arxiv.org/abs/1707.01495
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from gymnasium import spaces

from her_envs.arrays import Movable, cast, copied, namespace, take
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
        self._encoding: _Bits | _Integer | _Image
        if observation == "image":
            self._encoding = _Image(self.n_bits, channel_first)
        else:
            self._encoding = _Bits(self.n_bits) if observation == "bits" else _Integer(self.n_bits)
        self.observation_space = make_observation_space(self._encoding.space, goal=self._encoding.space)
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
        bits = self._encoding.encode(state["bits"])
        return {
            "observation": bits,
            "achieved_goal": copied(bits),
            "desired_goal": self._encoding.encode(state["goal"]),
        }

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether all bits of the achieved goal equal the bits of the desired goal."""
        return self._encoding.equal(achieved_goal, desired_goal)

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the number of bits that differ between achieved and desired goal."""
        return self._encoding.hamming(achieved_goal, desired_goal)

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


# Each encoding has the space of the encoded bits of one environment, and three functions: `encode` returns
# the encoded bits of (N, n_bits) int8 in new memory, `equal` whether all bits are equal, (...) bool, and
# `hamming` the number of bits that differ, (...) float32.


class _Bits(Movable):
    def __init__(self, n_bits: int) -> None:
        self.space = spaces.MultiBinary(n_bits)

    def encode(self, bits: Array) -> Array:
        return copied(bits)

    def equal(self, a: Array, b: Array) -> Array:
        return (a == b).all(-1)

    def hamming(self, a: Array, b: Array) -> Array:
        return ((a != b) * ONE).sum(-1)


class _Integer(Movable):
    def __init__(self, n_bits: int) -> None:
        if n_bits > 62:  # Discrete spaces use int64
            raise ValueError(
                f'observation="integer" supports at most 62 bits, got {n_bits=}; use observation="bits"'
            )
        self.space = spaces.Discrete(2**n_bits)
        self._weights = 2 ** np.arange(n_bits, dtype=np.int64)

    def encode(self, bits: Array) -> Array:
        if isinstance(bits, np.ndarray):
            return bits @ self._weights
        return (bits * self._weights).sum(-1)  # a GPU has no product of integer matrices

    def equal(self, a: Array, b: Array) -> Array:
        return a == b

    def hamming(self, a: Array, b: Array) -> Array:
        differ = a ^ b
        return reduce(operator.add, ((differ & 1 << bit != 0) * ONE for bit in range(len(self._weights))))


class _Image(Movable):
    def __init__(self, n_bits: int, channel_first: bool) -> None:
        cells = math.isqrt(n_bits - 1) + 1  # along each side
        # Along each side of a cell; the convolutions of Mnih et al. 2015 need at least 36 pixels in total.
        pixels = max(4, math.ceil(36 / cells))
        side = cells * pixels
        self.space = spaces.Box(0, 255, (1, side, side) if channel_first else (side, side, 1), np.uint8)
        self._levels = np.array([80, 255], np.uint8)
        # Index of the bit that each pixel shows; n_bits for the black pixels between the squares.
        row, column = np.indices((side, side)) // pixels
        bit = np.minimum(row * cells + column, n_bits)
        gap = (np.indices((side, side)) % pixels == 0).any(axis=0)
        self._bit_of_pixel = np.where(gap, n_bits, bit).reshape(self.space.shape)
        # The pixel in the middle of each cell shows the bit of the cell.
        middle = slice(pixels // 2, None, pixels)
        self._middles = (0, middle, middle) if channel_first else (middle, middle, 0)

    def encode(self, bits: Array) -> Array:
        levels = take(self._levels, cast(bits, "int64"))
        levels = namespace(bits).concatenate([levels, 0 * levels[:, :1]], axis=1)
        return take(levels, self._bit_of_pixel, axis=1)

    def _differ(self, a: Array, b: Array) -> Array:
        middles = (..., *self._middles)
        return a[middles] != b[middles]

    def equal(self, a: Array, b: Array) -> Array:
        return ~self._differ(a, b).any(-1).any(-1)

    def hamming(self, a: Array, b: Array) -> Array:
        return (self._differ(a, b) * ONE).sum(-1).sum(-1)
