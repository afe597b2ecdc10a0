"""RealRobot: a wrapper for a robot, and for a person who resets it, judges its episodes, or takes over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from her_wrappers.goals.interface import layers
from her_wrappers.goals.success_flag import flag_of
from her_wrappers.support.arguments import require_function

INTERVENED = "intervened"  # key of the info that says whether a person moved the robot


class RealRobot(gym.Wrapper[Any, Any, Any, Any]):
    """Wraps the environment of a real robot, for ``her train --real`` and for recording.

    The environment keeps its control rate itself: its ``step`` sends the action, waits for the end of the
    control period, and reads the sensors. The wrapper measures whether the rate holds. It adds to the infos
    of each step:

    - ``"is_success"``: at the last step of an episode, the result of ``success``; at other steps, False.
      Without ``success``, the flag of the environment.
    - ``"intervened"``: whether the info has ``action_key``, so a person moved the robot.
    - ``"step_seconds"``: seconds since the previous step began; 0.0 at the first step of an episode.

    Args:
        env: The environment of the robot.
        before_reset: Function without arguments that is called before each reset; it returns when the robot
            may move. `input` waits until a person has pressed Enter.
        success: Function that gets the observation and the info of the last step of each episode, and returns
            whether the episode is a success. With `input`, a person answers at the terminal.
        action_key: Key of the info with the executed action; infos have it only if the action of the agent is
            not executed. Runs store the executed action, and may imitate it (``bc_weight``).

    Raises:
        TypeError: ``before_reset`` or ``success`` is not a function.

    Example:
        ``make = lambda: RealRobot(Arm("192.168.0.2"), before_reset=input, action_key="intervene_action")``
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        before_reset: Callable[[], object] | None = None,
        success: Callable[[Any, dict[str, Any]], Any] | None = None,
        action_key: str | None = None,
    ) -> None:
        super().__init__(env)
        self._before_reset: Callable[..., object] | None = before_reset
        if before_reset is not None:
            require_function("before_reset", before_reset, takes="no arguments that waits for the robot")
        if success is not None:
            require_function("success", success, takes="(observation, info) that returns a bool")
        self._success: Callable[..., Any] | None = success
        self.action_key = action_key
        self._started: float | None = None  # when the latest step of the episode began

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Wait until the robot may move, and reset the environment.

        Raises:
            ValueError: ``before_reset`` is `input`, and the program has no terminal.
        """
        self._started = None
        if self._before_reset is input:
            _ask("before_reset", "Reset the scene, then press Enter: ")
        elif self._before_reset is not None:
            self._before_reset()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment, and add the infos.

        Raises:
            ValueError: The info has no success flag, and ``success`` is None; or ``success`` is `input`, and
                the program has no terminal.
        """
        now = time.perf_counter()
        seconds = 0.0 if self._started is None else now - self._started
        self._started = now
        observation, reward, terminated, truncated, info = self.env.step(action)
        success: Any = False
        if self._success is None:
            success = flag_of(info)
            if success is None:
                raise ValueError(
                    "the infos of a robot need the success flag 'is_success', a bool, got the keys "
                    f"{sorted(info)}; set it in step(), or let RealRobot(env, success=input) ask a person"
                )
        elif terminated or truncated:
            if self._success is input:
                answer = _ask("success", "Was this episode a success? [y/N] ")
                success = answer.strip().lower().startswith("y")
            else:
                success = bool(self._success(observation, info))
        added = {
            "is_success": success,
            INTERVENED: self.action_key is not None and self.action_key in info,
            "step_seconds": seconds,
        }
        return observation, reward, terminated, truncated, {**info, **added}


def _ask(argument: str, prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError as error:
        raise ValueError(f"{argument}=input needs a terminal; pass a function of your own") from error


def find_robot(env: gym.Env[Any, Any]) -> RealRobot | None:
    """Return the `RealRobot` among the wrappers of an environment, or None."""
    return next((layer for layer in layers(env) if isinstance(layer, RealRobot)), None)
