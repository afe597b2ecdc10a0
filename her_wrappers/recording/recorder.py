"""EpisodeRecorder: hands every episode of an environment to those who asked for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.error import ResetNeeded

from her_wrappers.arguments import require_count, require_keys
from her_wrappers.recording.open_episode import OpenEpisode
from her_wrappers.recording.sinks import Sinks

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from her_wrappers.recording.sinks import Sink


class EpisodeRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Record the episodes of a single environment, whatever its spaces.

    What the environment returns passes through unchanged. An episode goes to the sinks when it terminates or
    is truncated. One that ``reset`` or ``close`` interrupts goes to them too, as truncated: nothing is lost.

    The recorder is no part of the environment's ``spec``: ``gym.make(recorder.spec)`` makes the environment
    alone, which does not feed the same sinks.

    Args:
        env: The environment.
        *sinks: Called in turn with each `Episode`. What has ``add_episodes``, or is that method, gets
            `Episodes`.
        info_keys: Entries of ``info`` to record; each must be there at every step.
        max_episode_steps: Hand over what was recorded after so many steps, as truncated, and go on with the
            next episode from there. The environment is not reset: this cuts endless tasks.

    Raises:
        TypeError: ``env`` is no single environment, a sink is not callable, ``info_keys`` is one string, or a
            space holds no arrays.
        ValueError: ``max_episode_steps`` is no whole number of at least 1.

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
        self._max_episode_steps = max_episode_steps
        super().__init__(env)
        self._episode = OpenEpisode(
            env.observation_space, env.action_space, require_keys("info_keys", info_keys)
        )

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
            ValueError: The observation does not fit its space, or a space is another than it was.
        """
        self._interrupt()
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode.leaves.require_same(self.env.observation_space, self.env.action_space)
        self._episode.begin(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and record what it did.

        Raises:
            gymnasium.error.ResetNeeded: There is no episode under way.
            SinkError: A sink raised; the error has the five values and the episode.
            ValueError: The action cannot be recorded; the environment did not get it. Or the observation, the
                reward or an info cannot: after this, as after any error of the environment itself, the
                episode up to here has been handed over and a reset is needed.
        """
        recorded = self._episode
        if recorded.length < 0:
            raise ResetNeeded("no episode is being recorded; call reset() before step()")
        recorded.act(action)
        try:
            result = self.env.step(action)
            observation, reward, terminated, truncated, info = result
            recorded.observe(reward, observation, info)
        except BaseException:  # whatever it is, the environment may have moved without being seen
            self._interrupt()
            raise
        if terminated or truncated:
            self._sinks.hand_over([recorded.finish(terminated=terminated, truncated=truncated)], result)
        elif recorded.length == self._max_episode_steps:
            episode = recorded.finish(terminated=False, truncated=True)
            recorded.begin(observation, info)
            self._sinks.hand_over([episode], result)
        return result

    def close(self) -> None:
        """Close the environment, after handing over an episode that this interrupts.

        Raises:
            SinkError: A sink raised; the environment is closed nevertheless.
        """
        try:
            self._interrupt()
        finally:
            super().close()

    def _interrupt(self) -> None:
        recorded = self._episode
        if recorded.length > 0:
            self._sinks.hand_over([recorded.finish(terminated=False, truncated=True)], None)
        recorded.forget()
