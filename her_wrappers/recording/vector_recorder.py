"""VectorEpisodeRecorder: hands every episode of many environments to those who asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from her_wrappers.arguments import require_count, require_keys
from her_wrappers.autoreset import declared_mode
from her_wrappers.recording.sinks import Sinks
from her_wrappers.recording.timeline import Timeline

if TYPE_CHECKING:
    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.recording.sinks import Sink

    StepResult = tuple[Any, Any, Any, Any, dict[str, Any]]


class VectorEpisodeRecorder(gym.vector.VectorWrapper):  # without types: not generic in Gymnasium 1.1
    """Record the episodes of a vector environment, whatever its kind, its spaces and its autoreset mode.

    What the environment returns passes through unchanged. Episodes go to the sinks when they terminate or are
    truncated, and those that ``reset`` or ``close`` interrupts go to them too, as truncated: nothing is lost.
    The row with which a NEXT_STEP environment begins its next episode is no transition and is not recorded as
    one; the last state of a SAME_STEP environment comes from ``final_obs`` and ``final_info``.

    Args:
        env: The vector environment; its ``metadata["autoreset_mode"]`` says how it begins its next episodes.
        *sinks: Called in turn with each `Episode`. What has ``add_episodes``, or is that method or the
            ``add_episode`` beside it, gets all that ended together in one call, as `Episodes`.
        info_keys: Entries of the infos to record; each must be there at every step of every environment.
        max_episode_steps: Hand over an episode after so many steps, as truncated, and go on with the next
            one from there. The environment is not reset: this cuts endless tasks.

    Raises:
        TypeError: ``env`` is no vector environment, a sink takes no episodes, ``info_keys`` is one string, or
            a space holds no arrays.
        ValueError: The metadata have no autoreset mode, or ``max_episode_steps`` is no whole number of at
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
        self._mode = _require_mode(env)
        self._sinks = Sinks(sinks)
        if max_episode_steps is not None:
            max_episode_steps = require_count("max_episode_steps", max_episode_steps, at_least=1)
        self._max_episode_steps = max_episode_steps
        self._timeline = Timeline(
            env.single_observation_space,
            env.single_action_space,
            env.num_envs,
            require_keys("info_keys", info_keys),
        )
        self._ended = np.zeros(env.num_envs, bool)  # whose next step only begins an episode
        self._in_doubt = np.zeros(env.num_envs, bool)
        super().__init__(env)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or those of ``options["reset_mask"]``.

        Episodes that this interrupts are handed over before.

        Raises:
            SinkError: A sink raised; the environments are not reset yet.
            ValueError: The mask is none, an observation does not fit its space, or a space is another than it
                was.
        """
        rows = self._rows_to_reset(options)
        self._interrupt(rows)
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type] # lists too
        self._timeline.leaves.require_same(self.env.single_observation_space, self.env.single_action_space)
        self._timeline.begin(rows, observations, infos)
        self._in_doubt[rows] = self._ended[rows] & _forgets_resets(self.env.unwrapped)
        self._ended[rows] = False
        return observations, infos

    def step(self, actions: Any) -> StepResult:
        """Step the environments and record what they did.

        Raises:
            gymnasium.error.ResetNeeded: An environment has no episode under way.
            SinkError: A sink raised; the error has the five values and the episodes.
            ValueError: The actions cannot be recorded; the environments did not get them. Or an observation,
                a reward or an info cannot: after this, as after any error of the environment itself, the
                episodes up to here have been handed over and a reset is needed.
        """
        self._require_begun()
        self._timeline.act(actions)
        try:
            result = self.env.step(actions)
            episodes = self._record(*result)
        except BaseException:  # whatever it is, the environments may have moved without being seen
            self._ended[:] = False
            self._interrupt(np.arange(self.num_envs))
            raise
        if episodes is not None:
            self._sinks.hand_over(episodes, result)
        return result

    def close(self, **kwargs: Any) -> None:
        """Close the environments, after handing over the episodes that this interrupts.

        Raises:
            SinkError: A sink raised; the environments are closed nevertheless.
        """
        try:
            self._interrupt(np.arange(self.num_envs))
        finally:
            super().close(**kwargs)

    def _record(
        self, observations: Any, rewards: Any, terminations: Any, truncations: Any, infos: Any
    ) -> Episodes | None:
        """Add a step to the timeline, and return the episodes that end with it."""
        line = self._timeline
        terminated = _as_flags("terminations", terminations, self.num_envs)
        truncated = _as_flags("truncations", truncations, self.num_envs)
        ended = terminated | truncated
        beginning = self._beginning(rewards, ended)
        last, required = None, ~beginning
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            last = line.read_last(np.flatnonzero(ended), infos)
            required &= ~ended
        line.observe(rewards, observations, infos, required, last)
        line.begin_here(beginning)
        self._ended = ended & (self._mode is AutoresetMode.NEXT_STEP)
        cut = self._cut(ended)
        over = ended | cut
        if not over.any():
            return None
        episodes = line.finish(np.flatnonzero(over), terminated, truncated | cut, last)
        line.begin_here(over if self._mode is AutoresetMode.SAME_STEP else cut)
        return episodes

    def _beginning(self, rewards: Any, ended: np.ndarray) -> np.ndarray:
        """Return which environments began an episode at this step instead of taking one: (N,) bool."""
        beginning = self._ended
        if self._in_doubt.any():
            beginning = beginning | (self._in_doubt & ~ended & (np.asarray(rewards) == 0))
            self._in_doubt = np.zeros_like(beginning)
        return beginning

    def _cut(self, ended: np.ndarray) -> np.ndarray:
        """Return which episodes are as long as they may be: (N,) bool."""
        if self._max_episode_steps is None:
            return np.zeros_like(ended)
        cut: np.ndarray = (self._timeline.lengths == self._max_episode_steps) & ~ended
        return cut

    def _interrupt(self, rows: np.ndarray) -> None:
        """Hand over what was recorded of open episodes, as truncated."""
        flags = np.zeros(self.num_envs, bool)
        episodes = self._timeline.finish(rows, flags, ~flags)
        if episodes is not None:
            self._sinks.hand_over(episodes, None)

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
        """Refuse to step where an environment has no episode.

        Raises:
            gymnasium.error.ResetNeeded: One has none.
        """
        idle = ~(self._timeline.is_open | self._ended)
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


def _forgets_resets(env: gym.vector.VectorEnv[Any, Any, Any]) -> bool:
    """Whether an environment may begin an episode twice when it is reset right after one has ended.

    The workers of Gymnasium 1.4's AsyncVectorEnv do without shared memory: they reset again at the next step.
    """
    return isinstance(env, AsyncVectorEnv) and not env.shared_memory


def _as_flags(name: str, flags: Any, count: int) -> np.ndarray:
    """Return terminations or truncations as an array.

    Raises:
        ValueError: They are not one bool for each environment.
    """
    array = np.asarray(flags)
    if array.shape != (count,) or array.dtype != np.bool_:
        raise ValueError(f"{name} must be ({count},) bools, got {flags!r}")
    return array
