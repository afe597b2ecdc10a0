"""EpisodeRecorder: hands every episode of an environment to its sinks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.error import ResetNeeded

from her_wrappers.arguments import require_count, require_keys
from her_wrappers.recording.episode_accumulator import ACTING, READY, EpisodeAccumulator
from her_wrappers.recording.sinks import SinkError, Sinks
from her_wrappers.spaces import require_same_arrays
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from her_wrappers.recording.episode import Episode
    from her_wrappers.recording.sinks import Sink


class EpisodeRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Record the episodes of a single environment, whatever its spaces.

    What the environment returns passes through unchanged. An episode goes to the sinks when it terminates or
    is truncated. An episode that ``reset`` or ``close`` interrupts goes to the sinks too, as truncated.

    A KeyboardInterrupt at any moment loses the step under way at most. The recorder completes an interrupted
    hand-over at the next call of ``reset``, ``step`` or ``close``; see `Sink`.

    The recorder is not part of the environment's ``spec``: ``gym.make(recorder.spec)`` makes the environment
    alone, which does not feed the same sinks.

    Args:
        env: The environment.
        *sinks: Called in turn with each `Episode`. A sink that has ``add_episodes``, or is that method, gets
            `Episodes`.
        info_keys: Entries of ``info`` to record; each must be there at every step.
        max_episode_steps: Hand over the episode after this number of steps, as truncated, and continue with
            the next episode from there. The environment is not reset: this cuts endless tasks.

    Raises:
        TypeError: ``env`` is not a single environment, a sink is not callable, ``info_keys`` is one string,
            or a space has elements that are not arrays.
        ValueError: ``max_episode_steps`` is not a whole number of at least 1.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> episodes = []
        >>> env = EpisodeRecorder(gym.make("her_envs/Counting-v0"), episodes.append, info_keys=["is_success"])
        >>> observation, info = env.reset(seed=0)
        >>> done = False
        >>> while not done:
        ...     observation, reward, terminated, truncated, info = env.step(0)
        ...     done = terminated or truncated
        >>> episodes[0].observations["achieved_goal"][:, 1]
        array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
        >>> bool(episodes[0].infos["is_success"][-1]), episodes[0].terminated
        (True, True)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *sinks: Sink,
        info_keys: Iterable[str] = (),
        max_episode_steps: int | None = None,
    ) -> None:
        if not isinstance(env, gym.Env):
            use = "; use VectorEpisodeRecorder" if isinstance(env, gym.vector.VectorEnv) else ""
            raise TypeError(f"EpisodeRecorder records a single gymnasium Env, got {type(env).__name__}{use}")
        self._sinks = Sinks(sinks)
        if max_episode_steps is not None:
            max_episode_steps = require_count("max_episode_steps", max_episode_steps, at_least=1)
        super().__init__(env)
        self._spaces = env.observation_space, env.action_space
        self._recorded = EpisodeAccumulator(
            *self._spaces, require_keys("info_keys", info_keys), max_steps=max_episode_steps
        )
        self._is_cut = False  # whether max_episode_steps ended the finished episode

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override] # a property in gym.Wrapper too
        """The environment's own spec."""
        return self.env.spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, after handing over an episode that this interrupts.

        Raises:
            SinkError: A sink raised; the environment is not reset yet.
            ValueError: The observation does not fit its space, or a space changed.
        """
        self._hand_over()
        observation, info = self.env.reset(seed=seed, options=options)
        require_same_arrays("observation", self._spaces[0], self.env.observation_space)
        require_same_arrays("action", self._spaces[1], self.env.action_space)
        self._recorded.begin(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and record the step.

        Raises:
            gymnasium.error.ResetNeeded: No episode is open.
            SinkError: A sink raised; the error has the five values and the episode.
            ValueError: The action cannot be recorded; the environment did not get it. Or the observation, the
                reward or an info cannot: after this, as after any error of the environment itself, the
                episode so far was passed to the sinks, and a reset is needed.
        """
        recorded = self._recorded
        if recorded.phase != READY:
            self._require_open()
        recorded.act(action)
        try:
            result = self.env.step(action)
            observation, reward, terminated, truncated, info = result
            recorded.observe(reward, observation, info, terminated, truncated)
        except BaseException as error:  # the environment may have taken a step that is not recorded
            self._hand_over_after(error)
            raise
        if recorded.phase != READY:
            self._hand_over(result)
        return result

    def close(self) -> None:
        """Close the environment, after handing over an episode that this interrupts.

        Raises:
            SinkError: A sink raised; the environment is closed nevertheless.
        """
        try:
            self._hand_over()
        finally:
            super().close()

    def _hand_over(self, result: tuple[Any, ...] | None = None) -> None:
        # The episode stays in _recorded until every sink has taken it.
        recorded = self._recorded
        if recorded.finished is None and recorded.length > 0:
            terminated, truncated = recorded.end or (False, False)
            self._is_cut = recorded.end == (False, False)
            recorded.finish(terminated=terminated, truncated=truncated or not terminated)
        episode = recorded.finished
        if episode is None:
            recorded.discard()
            return
        try:
            self._sinks.hand_over(episode, result)
        except SinkError:
            self._close_episode(episode)
            raise
        self._close_episode(episode)

    def _close_episode(self, episode: Episode) -> None:
        """Forget an episode that the sinks have; begin the next one if ``max_episode_steps`` ended it."""
        if self._is_cut:
            last = map_tree(lambda rows: rows[-1], episode.observations)
            self._recorded.begin(last, {key: rows[-1] for key, rows in episode.infos.items()})
        else:
            self._recorded.discard()
        self._sinks.release()

    def _hand_over_after(self, error: BaseException) -> None:
        # A KeyboardInterrupt stays one if a sink raises.
        try:
            self._hand_over()
        except SinkError as refused:
            if isinstance(error, Exception):
                raise
            raise error from refused

    def _require_open(self) -> None:
        # Completes what an interrupt left unfinished first.
        if self._recorded.phase != ACTING:
            self._hand_over()
            if self._recorded.phase != READY:
                raise ResetNeeded("no episode is being recorded; call reset() before step()")
