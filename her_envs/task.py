"""GoalTask: a goal-conditioned task as functions of batches, independent of Gymnasium's environments.

To write a task, subclass `GoalTask` and implement its six abstract methods. `her_envs.TaskEnv` and
`her_envs.TaskVectorEnv` make environments from a task: they add rewards, seeding, time limit, termination
and rendering. `point_reach.py` is an example; docs/write_a_task.md explains a second example.

Rewards are computed from `success` and `distance` only, so they always agree with these methods. Both
methods must support NumPy arrays and torch tensors with any number of leading axes: use operators, and
methods that both types have. On a device, `reset`, `step` and `observe` must support tensors too; see
`her_envs.arrays`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces

from her_envs.arrays import Movable

if TYPE_CHECKING:
    from her_envs.canvas import Canvas, Point

Array: TypeAlias = Any
"""A NumPy array or scalar, or a torch tensor."""

State: TypeAlias = dict[str, Array]
"""Arrays by name, with a leading axis N (environments). The entry ``goal`` is the desired goal."""

RewardType = Literal["sparse", "dense"]

ONE = np.float32(1)  # factor that converts booleans to float32 in a product, in NumPy and in torch

_ZERO = np.float32(0)
_MINUS_ONE = np.float32(-1)


class GoalTask(Movable, ABC):
    """Base class of tasks. All arrays have a leading axis N, with one row for each environment.

    Attributes:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal`` of one environment.
        action_space: Action space of one environment.
        max_steps: Default number of steps after which an episode is truncated.
        terminate_on_success: Default of the environment's option of this name: whether success terminates an
            episode. False unless a task sets this attribute.
    """

    observation_space: spaces.Dict
    action_space: spaces.Space[Any]
    max_steps: int
    terminate_on_success: bool = False

    @abstractmethod
    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Sample starts and goals.

        A start may already be at its goal: `TaskEnv` and `TaskVectorEnv` then sample another start.

        Args:
            num_envs: Number of environments, N.
            rng: Random generator; on a device, a `her_envs.tensors.TensorRandom`, which returns tensors.

        Returns:
            A new state of N rows.
        """

    @abstractmethod
    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Return the next state in new arrays.

        Args:
            state: The current state; must not be changed.
            action: Valid actions: (N, A) Box actions, already clipped, or (N,) Discrete actions, in range.
            rng: Random generator.
        """

    @abstractmethod
    def observe(self, state: State) -> dict[str, Array]:
        """Return the observations as new arrays, which share no memory with ``state`` or each other.

        Args:
            state: A state of N rows.

        Returns:
            ``observation``, ``achieved_goal`` and ``desired_goal``, with a leading axis N.
        """

    @abstractmethod
    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether each desired goal is reached, (...) bool; rewards and terminations follow from it.

        Args:
            achieved_goal: (..., G) achieved goals, a NumPy array or a torch tensor.
            desired_goal: (..., G) desired goals, of the same type.
        """

    @abstractmethod
    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the distance of each pair of goals of `success`, (...) float32; 0 only for equal goals."""

    @abstractmethod
    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw one environment.

        Args:
            canvas: Picture to draw on.
            state: A state of N rows.
            index: Row of the environment in ``state``.
        """

    def trail_points(self, state: State, index: int) -> tuple[Point, ...]:
        """Return the points whose paths are drawn in a picture; by default none.

        Args:
            state: A state of N rows.
            index: Row of the environment in ``state``.

        Returns:
            Positions in the unit square: the agent's, then the object's if there is one.
        """
        return ()

    def reached_goal(self, state: State) -> Array:
        """Return the achieved goals of N states; a state whose entry ``goal`` is replaced by them is solved.

        The default returns the achieved goals of the observations. A task must override this method if these
        goals have another format than the entry ``goal`` of the state, such as images instead of bits.
        """
        return self.observe(state)["achieved_goal"]

    def start_error(self, state: State) -> str | None:
        """Return an error message if the task does not allow a start, for example in a wall; else None.

        Starts outside the observation space are rejected in any case. The message names the reset option,
        ``'goal'`` or ``'state'``, whose values in ``state`` are wrong.
        """
        return None

    def reward(self, achieved_goal: Array, desired_goal: Array, reward_type: RewardType) -> Array:
        """Return the reward of each pair of goals, (...) float32.

        Args:
            achieved_goal: (..., G) achieved goals, a NumPy array or a torch tensor.
            desired_goal: (..., G) desired goals, of the same type.
            reward_type: ``"sparse"``: 0 on success, else -1 (HER paper, section 3.1).
                ``"dense"``: minus the distance.
        """
        if reward_type == "sparse":
            return self.success(achieved_goal, desired_goal) + _MINUS_ONE
        return -self.distance(achieved_goal, desired_goal) + _ZERO  # adding 0 changes -0.0 to 0.0

    def outcome(
        self, achieved_goal: Array, desired_goal: Array, reward_type: RewardType
    ) -> tuple[Array, Array]:
        """Return the results of `success` and `reward`; success is computed only once."""
        success = self.success(achieved_goal, desired_goal)
        if reward_type == "sparse":
            return success, success + _MINUS_ONE
        return success, self.reward(achieved_goal, desired_goal, reward_type)


def make_observation_space(observation: spaces.Space[Any], goal: spaces.Space[Any]) -> spaces.Dict:
    """Return the observation space of a goal environment from the spaces of observations and of goals."""
    return spaces.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal})


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` of the option ``name`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}; choose from {', '.join(map(repr, choices))}")


def require_bool(name: str, value: object) -> bool:
    """Return ``value`` of the option ``name``; raise TypeError unless it is a bool."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def require_positive(name: str, value: object) -> int:
    """Return ``value`` of the option ``name``; raise ValueError unless it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    return int(value)


def require_length(name: str, value: object, largest: float = math.inf) -> float:
    """Return ``value`` of the option ``name``; raise ValueError unless it is finite and in (0, largest]."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if is_number and 0 < value <= largest and value < math.inf:  # type: ignore[operator] # it is a number
        return float(value)  # type: ignore[arg-type] # likewise
    closing = ")" if largest == math.inf else "]"
    raise ValueError(f"{name} must be a number in (0, {largest:g}{closing}, got {value!r}")
