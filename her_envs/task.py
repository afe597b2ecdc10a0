"""GoalTask: the mathematics of one goal-conditioned task, over a batch, with no Gymnasium machinery in it.

To write a task, subclass `GoalTask` and answer six questions; `her_envs.TaskEnv` and `her_envs.TaskVectorEnv`
turn the answers into environments with rewards, seeding, time limit, termination and pictures.
`point_reach.py` is an example, and docs/write_a_task.md goes through another one.

Rewards follow from `success` and `distance` alone, so they cannot disagree with them. Both must work on
NumPy arrays and on torch tensors, for any number of leading axes: use operators, and methods that both have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_envs.canvas import Canvas, Point

Array: TypeAlias = Any
"""A NumPy array or scalar, or a torch tensor."""

State: TypeAlias = dict[str, np.ndarray]
"""Named arrays with a leading axis N (environments); the entry `goal` is the desired goal."""

RewardType = Literal["sparse", "dense"]
REWARD_TYPES: tuple[str, ...] = get_args(RewardType)

ONE = np.float32(1)
"""Multiplying by it turns booleans into float32, in NumPy and in torch alike."""

_ZERO = np.float32(0)
_MINUS_ONE = np.float32(-1)


class GoalTask(ABC):
    """The rules of a task. All arrays have a leading axis N, one row an environment.

    Attributes:
        observation_space: Dict of `observation`, `achieved_goal`, `desired_goal` of one environment.
        action_space: Actions of one environment.
        max_steps: Steps after which an episode is truncated, unless the environment is told otherwise.
        terminate_on_success: Whether success ends an episode, unless the environment is told otherwise.
    """

    observation_space: spaces.Dict
    action_space: spaces.Space[Any]
    max_steps: int
    terminate_on_success: bool

    @abstractmethod
    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Draw ``num_envs`` starts and goals; a start that already is the goal is redrawn by the caller."""

    @abstractmethod
    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Return the next state in new arrays.

        Args:
            state: The present state; must not be changed.
            action: (N, A) valid actions: clipped to a Box, in range for a Discrete.
            rng: Source of all randomness.
        """

    @abstractmethod
    def observe(self, state: State) -> dict[str, Array]:
        """Return what the agent sees, in arrays that share no memory with ``state`` or each other."""

    @abstractmethod
    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Say which goals are reached: (..., G), (..., G) -> (...) bool. The only definition of success."""

    @abstractmethod
    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Measure how far the goals are apart: (..., G), (..., G) -> (...) float32, 0 only where equal."""

    @abstractmethod
    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw environment ``index`` of ``state``."""

    def trail_points(self, state: State, index: int) -> tuple[Point, ...]:
        """Places in the unit square whose way through the episode is drawn, the agent's first; none here."""
        return ()

    def reached_goal(self, state: State) -> Array:
        """Return the goals that states reach, in the form of their entry `goal`: put there, they are reached.

        This is what the agent sees as achieved; a task that shows goals in another form says it anew.
        """
        return self.observe(state)["achieved_goal"]

    def start_error(self, state: State) -> str | None:
        """Say why a start that reset options ask for cannot be, where the observation space does not tell.

        Returns:
            One sentence that names the option, ``'goal'`` or ``'state'``, or None for a possible start.
        """
        return None

    def reward(self, achieved_goal: Array, desired_goal: Array, reward_type: RewardType) -> Array:
        """Reward of reaching ``achieved_goal`` when asked for ``desired_goal``.

        Args:
            achieved_goal: (..., G) goals reached.
            desired_goal: (..., G) goals asked for.
            reward_type: ``"sparse"``: 0 on success, else -1 (HER paper, section 3.1).
                ``"dense"``: minus the distance.

        Returns:
            (...) float32, the shape of a goal's leading axes; () for one goal.
        """
        if reward_type == "sparse":
            return _sparse_reward(self.success(achieved_goal, desired_goal))
        return -self.distance(achieved_goal, desired_goal) + _ZERO  # the sum turns -0.0 into 0.0

    def outcome(
        self, achieved_goal: Array, desired_goal: Array, reward_type: RewardType
    ) -> tuple[Array, Array]:
        """Return `success` and `reward` of a step, without working out success twice."""
        success = self.success(achieved_goal, desired_goal)
        if reward_type == "sparse":
            return success, _sparse_reward(success)
        return success, self.reward(achieved_goal, desired_goal, reward_type)


def _sparse_reward(success: Array) -> Array:
    return success + _MINUS_ONE


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse an option that is none of its choices.

    Raises:
        ValueError: ``value`` is not one of ``choices``.
    """
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}; choose from {', '.join(map(repr, choices))}")


def require_flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool.

    Raises:
        TypeError: ``value`` is neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def require_positive(name: str, value: object) -> int:
    """Return ``value`` as an int.

    Raises:
        ValueError: ``value`` is not a whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
    return int(value)


def require_length(name: str, value: object, largest: float = math.inf) -> float:
    """Return ``value`` as a float.

    Raises:
        ValueError: ``value`` is no finite number above 0 and up to ``largest``.
    """
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if is_number and 0 < value <= largest and value < math.inf:  # type: ignore[operator] # it is a number
        return float(value)  # type: ignore[arg-type] # likewise
    closing = ")" if largest == math.inf else "]"
    raise ValueError(f"{name} must lie in (0, {largest:g}{closing}, got {value!r}")
