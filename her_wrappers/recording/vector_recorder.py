"""VectorEpisodeRecorder: hands every episode of many environments to its sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from her_wrappers.arguments import require_count, require_keys
from her_wrappers.autoreset import declared_mode
from her_wrappers.recording.sinks import SinkError, Sinks
from her_wrappers.recording.vector_episode_accumulator import VectorEpisodeAccumulator
from her_wrappers.spaces import require_same_arrays

if TYPE_CHECKING:
    from her_wrappers.recording.sinks import Sink

    StepResult = tuple[Any, Any, Any, Any, dict[str, Any]]


class VectorEpisodeRecorder(gym.vector.VectorWrapper):  # without types: not generic in Gymnasium 1.1
    """Record the episodes of a vector environment, whatever its kind, its spaces and its autoreset mode.

    What the environment returns passes through unchanged. Episodes go to the sinks when they terminate or are
    truncated. Episodes that ``reset`` or ``close`` interrupts go to the sinks too, as truncated.
    The row with which a NEXT_STEP environment begins its next episode is not a transition and is not recorded
    as one; the last state of a SAME_STEP environment comes from ``final_obs`` and ``final_info``.

    A KeyboardInterrupt at any moment loses the step under way at most. The recorder completes an interrupted
    hand-over at the next call of ``reset``, ``step`` or ``close``; see `Sink`.

    Args:
        env: The vector environment; its ``metadata["autoreset_mode"]`` says how it begins its next episodes.
        *sinks: Called in turn with each `Episode`. A sink that has ``add_episodes``, or is that method or
            the ``add_episode`` of the same object, gets all episodes that ended together in one call, as
            `Episodes`.
        info_keys: Entries of the infos to record; each must be there at every step of every environment.
        max_episode_steps: Hand over an episode after this number of steps, as truncated, and continue with
            the next one from there. The environment is not reset: this cuts endless tasks.

    Raises:
        TypeError: ``env`` is not a vector environment, a sink takes no episodes, ``info_keys`` is one string,
            or a space has elements that are not arrays.
        ValueError: The metadata have no autoreset mode, or ``max_episode_steps`` is not a whole number of at
            least 1.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> episodes = []
        >>> envs = gym.make_vec("her_envs/PointReach-v0", num_envs=2, max_steps=3)
        >>> envs = VectorEpisodeRecorder(envs, episodes.append)
        >>> observations, infos = envs.reset(seed=0)
        >>> for _ in range(7):  # three steps, the beginning of the next episodes, three steps
        ...     _ = envs.step(envs.action_space.sample())
        >>> [len(episode) for episode in episodes]
        [3, 3, 3, 3]
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        *sinks: Sink,
        info_keys: Iterable[str] = (),
        max_episode_steps: int | None = None,
    ) -> None:
        if not isinstance(env, gym.vector.VectorEnv):
            use = "; use EpisodeRecorder" if isinstance(env, gym.Env) else ""
            raise TypeError(
                f"VectorEpisodeRecorder records a gymnasium VectorEnv, got {type(env).__name__}{use}"
            )
        mode = _require_mode(env)
        self._sinks = Sinks(sinks)
        if max_episode_steps is not None:
            max_episode_steps = require_count("max_episode_steps", max_episode_steps, at_least=1)
        self._spaces = env.single_observation_space, env.single_action_space
        self._recorded = VectorEpisodeAccumulator(
            *self._spaces,
            env.num_envs,
            mode,
            info_keys=require_keys("info_keys", info_keys),
            max_steps=max_episode_steps,
            may_reset_twice=_may_reset_twice(env.unwrapped),
        )
        super().__init__(env)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or those of ``options["reset_mask"]``.

        Episodes that this interrupts are handed over before.

        Raises:
            SinkError: A sink raised; the environments are not reset yet.
            ValueError: The mask is not valid, an observation does not fit its space, or a space changed.
        """
        rows = self._rows_to_reset(options)
        self._truncate(rows)
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type] # lists too
        require_same_arrays("observation", self._spaces[0], self.env.single_observation_space)
        require_same_arrays("action", self._spaces[1], self.env.single_action_space)
        self._recorded.begin(rows, observations, infos)
        return observations, infos

    def step(self, actions: Any) -> StepResult:
        """Step the environments and record the step.

        Raises:
            gymnasium.error.ResetNeeded: An environment has no open episode.
            SinkError: A sink raised; the error has the five values and the episodes.
            ValueError: The actions cannot be recorded; the environments did not get them. Or an observation,
                a reward or an info cannot: after this, as after any error of the environment itself, the
                episodes so far were passed to the sinks, and a reset is needed.
        """
        self._hand_over_unfinished()
        self._require_begun()
        self._recorded.act(actions)
        try:
            result = self.env.step(actions)
            self._recorded.observe(*result)
        except BaseException as error:  # the environments may have taken a step that is not recorded
            self._hand_over_after(error)
            raise
        self._hand_over(result)
        return result

    def close(self, **kwargs: Any) -> None:
        """Close the environments, after handing over the episodes that this interrupts.

        Raises:
            SinkError: A sink raised; the environments are closed nevertheless.
        """
        try:
            self._truncate(np.arange(self.num_envs))
        finally:
            super().close(**kwargs)

    def _truncate(self, rows: np.ndarray) -> None:
        """Hand over the open episodes of some environments, as truncated."""
        self._hand_over_unfinished()
        self._recorded.truncate(rows)
        self._hand_over()

    def _hand_over(self, result: StepResult | None = None) -> None:
        # The episodes stay in _recorded until every sink has taken them.
        episodes = self._recorded.finished
        if episodes is None:
            return
        try:
            self._sinks.hand_over(episodes, result)
        except SinkError:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        self._recorded.release()
        self._sinks.release()

    def _hand_over_unfinished(self) -> None:
        """Complete a hand-over that an interrupt stopped, and close episodes that a step broke off."""
        self._hand_over()
        if self._recorded.is_moving:
            self._recorded.break_off()
            self._hand_over()

    def _hand_over_after(self, error: BaseException) -> None:
        # A KeyboardInterrupt stays one if a sink raises.
        try:
            self._hand_over_unfinished()
        except SinkError as refused:
            if isinstance(error, Exception):
                raise
            raise error from refused

    def _rows_to_reset(self, options: Mapping[str, Any] | None) -> np.ndarray:
        """Return the environments that a reset is about.

        Raises:
            ValueError: The mask is none.
        """
        mask = None if options is None else options.get("reset_mask")
        if mask is None:
            return np.arange(self.num_envs)
        flags = np.asarray(mask)
        if flags.shape != (self.num_envs,) or flags.dtype != np.bool_:
            raise ValueError(
                f"reset option 'reset_mask' must be bool of shape ({self.num_envs},), got {mask!r}"
            )
        return np.flatnonzero(flags)

    def _require_begun(self) -> None:
        idle = self._recorded.is_idle
        if idle.any():
            raise ResetNeeded(
                f"no episode is being recorded in environment {idle.argmax()} and {idle.sum() - 1} others; "
                "call reset() before step(), or reset(options={'reset_mask': ...}) for those that ended"
            )


def _require_mode(env: gym.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return the environment's autoreset mode.

    Raises:
        ValueError: Its metadata do not tell.
    """
    mode = declared_mode(env)
    if mode is None:
        got = env.metadata.get("autoreset_mode")
        raise ValueError(
            f"metadata['autoreset_mode'] of {env} must be a gymnasium.vector.AutoresetMode, got {got!r}: it "
            "tells which rows are no transitions; set env.metadata = env.metadata | "
            "{'autoreset_mode': AutoresetMode.NEXT_STEP}, SAME_STEP or DISABLED, whichever it does"
        )
    return mode


def _may_reset_twice(env: gym.vector.VectorEnv[Any, Any, Any]) -> bool:
    """Whether an environment that is reset right after an end may reset again at the next step.

    The workers of Gymnasium 1.4's AsyncVectorEnv without shared memory do.
    """
    return isinstance(env, AsyncVectorEnv) and not env.shared_memory
