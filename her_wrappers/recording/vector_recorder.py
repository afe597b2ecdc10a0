"""VectorEpisodeRecorder: records the episodes of a vector environment for its sinks."""

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
    """Record the episodes of a vector environment, in each of the three autoreset modes.

    The wrapper does not change the values that the environment returns. The sinks get an episode when it
    terminates or is truncated. Episodes that ``reset`` or ``close`` interrupts are passed on as truncated. In
    mode NEXT_STEP the step that begins the next episode is not a transition and is not recorded as one. In
    mode SAME_STEP the last state of an episode is read from ``final_obs`` and ``final_info``.

    A KeyboardInterrupt loses at most the step during which it is raised. If it is raised while sinks are
    called, the next call of ``reset``, ``step`` or ``close`` completes the calls; see `Sink`.

    Args:
        env: The vector environment, with its autoreset mode in ``metadata["autoreset_mode"]``.
        *sinks: Receivers of the episodes, called in order with each `Episode`. A sink that has
            ``add_episodes``, or is that method or the ``add_episode`` of the same object, gets all episodes
            that ended at the same step in one call, as `Episodes`.
        info_keys: Keys of the infos to record, in addition to the ``info_keys`` of the sinks, such as those
            of a buffer. The infos of every step and environment must have them.
        max_episode_steps: Number of steps after which an episode ends as truncated. The environment is not
            reset: the next episode begins in the same state. Use this for tasks that never end.

    Raises:
        TypeError: ``env`` is not a vector environment, a sink is neither callable nor has ``add_episodes``,
            ``info_keys`` is not a list of strings, or a space has elements that are not arrays of one shape.
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
            info_keys=(*require_keys("info_keys", info_keys), *self._sinks.info_keys),
            max_steps=max_episode_steps,
            may_reset_twice=_may_reset_twice(env.unwrapped),
        )
        super().__init__(env)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or only those of ``options["reset_mask"]``, (N,) bool.

        First the open episodes of these environments are passed to the sinks as truncated.

        Args:
            seed: Seed or seeds, as in `gymnasium.vector.VectorEnv.reset`.
            options: Options, as in `gymnasium.vector.VectorEnv.reset`.

        Raises:
            SinkError: A sink raised an error; the environments are not reset yet.
            ValueError: The mask is not valid, an observation does not fit its space, an info cannot be
                recorded, or a space changed.
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

        Args:
            actions: Actions of all environments, (N, ...), as in `gymnasium.vector.VectorEnv.step`.

        Raises:
            gymnasium.error.ResetNeeded: An environment must be reset before its next step.
            SinkError: A sink raised an error; ``result`` has what ``step`` would have returned, and
                ``episodes`` the episodes that the sink did not add. ``result`` is None if the step failed, or
                if the call only completed the delivery of earlier episodes, without a step.
            ValueError: The actions cannot be recorded; the environments did not get them. Or an observation,
                a reward or an info cannot be recorded: the sinks got the episodes up to the step before, and
                a reset is needed, as after any error of the environment.
        """
        self._deliver_unfinished()
        self._require_begun()
        self._recorded.act(actions)
        try:
            result = self.env.step(actions)
            self._recorded.observe(*result)
        except BaseException as error:  # the environments may have taken a step that is not recorded
            self._deliver_after(error)
            raise
        self._deliver(result)
        return result

    def close(self, **kwargs: Any) -> None:
        """Pass the open episodes to the sinks as truncated, and close the environments.

        Raises:
            SinkError: A sink raised an error; the environments are closed all the same.
        """
        try:
            self._truncate(np.arange(self.num_envs))
        finally:
            super().close(**kwargs)

    def _truncate(self, rows: np.ndarray) -> None:
        """Pass the open episodes of some environments to the sinks, as truncated."""
        self._deliver_unfinished()
        self._recorded.truncate(rows)
        self._deliver()

    def _deliver(self, result: StepResult | None = None) -> None:
        # The episodes stay in _recorded until every sink has got them.
        episodes = self._recorded.finished
        if episodes is None:
            return
        try:
            self._sinks.deliver(episodes, result)
        except SinkError:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        self._recorded.release()
        self._sinks.release()

    def _deliver_unfinished(self) -> None:
        """Complete an interrupted delivery, and truncate the episodes of a step that failed."""
        self._deliver()
        if self._recorded.is_moving:
            self._recorded.break_off()
            self._deliver()

    def _deliver_after(self, error: BaseException) -> None:
        # Raises the KeyboardInterrupt again, even if a sink raises an error.
        try:
            self._deliver_unfinished()
        except SinkError as sink_error:
            if isinstance(error, Exception):
                raise
            raise error from sink_error

    def _rows_to_reset(self, options: Mapping[str, Any] | None) -> np.ndarray:
        """Return the indices of the environments that these options of ``reset`` select."""
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
                f"no episode is being recorded in the environments {np.flatnonzero(idle).tolist()}; "
                "call reset() before step(), or reset(options={'reset_mask': ...}) for those that ended"
            )


def _require_mode(env: gym.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return the autoreset mode of an environment."""
    mode = declared_mode(env)
    if mode is None:
        got = env.metadata.get("autoreset_mode")
        raise ValueError(
            f"metadata['autoreset_mode'] of {env} must be a gymnasium.vector.AutoresetMode, got {got!r}; "
            "set env.metadata = env.metadata | {'autoreset_mode': AutoresetMode.NEXT_STEP}, or SAME_STEP or "
            "DISABLED, depending on how the environment begins its next episodes"
        )
    return mode


def _may_reset_twice(env: gym.vector.VectorEnv[Any, Any, Any]) -> bool:
    # The workers of Gymnasium 1.4's AsyncVectorEnv without shared memory reset at the step after an end, even
    # if a call of reset() came in between.
    return isinstance(env, AsyncVectorEnv) and not env.shared_memory
