"""EpisodeRecorder: records the episodes of an environment for its sinks."""

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
    """Record the episodes of a single environment.

    The wrapper does not change the values that the environment returns. The sinks get an episode when it
    terminates or is truncated. If ``reset`` or ``close`` interrupts an episode, they get it as truncated.

    A KeyboardInterrupt loses at most the step during which it is raised. If it is raised while sinks are
    called, the next call of ``reset``, ``step`` or ``close`` completes the calls; see `Sink`.

    The recorder is not part of the environment's ``spec``: ``gym.make(recorder.spec)`` makes the environment
    without the recorder.

    Args:
        env: The environment.
        *sinks: Receivers of the episodes, called in order with each `Episode`. A sink that has
            ``add_episodes``, or is that method, gets `Episodes`.
        info_keys: Keys of ``info`` to record, in addition to the ``info_keys`` of the sinks, such as those of
            a buffer. The info of every step must have them.
        max_episode_steps: Number of steps after which an episode ends as truncated. The environment is not
            reset: the next episode begins in the same state. Use this for tasks that never end.

    Raises:
        TypeError: ``env`` is not a single environment, a sink is neither callable nor has ``add_episodes``,
            ``info_keys`` is not a list of strings, or a space has elements that are not arrays of one shape.
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
            *self._spaces,
            (*require_keys("info_keys", info_keys), *self._sinks.info_keys),
            max_steps=max_episode_steps,
        )
        self._is_cut = False  # whether max_episode_steps ended the finished episode

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override] # a property in gym.Wrapper too
        """The environment's own spec."""
        return self.env.spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Pass an open episode to the sinks as truncated, and reset the environment.

        Args:
            seed: Seed, as in `gymnasium.Env.reset`.
            options: Options, as in `gymnasium.Env.reset`.

        Raises:
            SinkError: A sink raised an error; the environment is not reset yet.
            ValueError: The observation does not fit its space, an info cannot be recorded, or a space
                changed.
        """
        self._deliver()
        observation, info = self.env.reset(seed=seed, options=options)
        require_same_arrays("observation", self._spaces[0], self.env.observation_space)
        require_same_arrays("action", self._spaces[1], self.env.action_space)
        self._recorded.begin(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and record the step.

        Args:
            action: An action, as in `gymnasium.Env.step`.

        Raises:
            gymnasium.error.ResetNeeded: No episode is open.
            SinkError: A sink raised an error; ``result`` has what ``step`` would have returned, and
                ``episode`` the episode that the sink did not add. ``result`` is None if the step failed, or
                if the call only completed the delivery of an earlier episode, without a step.
            ValueError: The action cannot be recorded; the environment did not get it. Or the observation, the
                reward or an info cannot be recorded: the sinks got the episode up to the step before, and a
                reset is needed, as after any error of the environment.
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
            self._deliver_after(error)
            raise
        if recorded.phase != READY:
            self._deliver(result)
        return result

    def close(self) -> None:
        """Pass an open episode to the sinks as truncated, and close the environment.

        Raises:
            SinkError: A sink raised an error; the environment is closed all the same.
        """
        try:
            self._deliver()
        finally:
            super().close()

    def _deliver(self, result: tuple[Any, ...] | None = None) -> None:
        # The episode stays in _recorded until every sink has got it.
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
            self._sinks.deliver(episode, result)
        except SinkError:
            self._close_episode(episode)
            raise
        self._close_episode(episode)

    def _close_episode(self, episode: Episode) -> None:
        """Drop an episode that the sinks received; begin the next one if ``max_episode_steps`` ended it."""
        if self._is_cut:
            last = map_tree(lambda rows: rows[-1], episode.observations)
            self._recorded.begin(last, {key: rows[-1] for key, rows in episode.infos.items()})
        else:
            self._recorded.discard()
        self._sinks.release()

    def _deliver_after(self, error: BaseException) -> None:
        # Raises the KeyboardInterrupt again, even if a sink raises an error.
        try:
            self._deliver()
        except SinkError as sink_error:
            if isinstance(error, Exception):
                raise
            raise error from sink_error

    def _require_open(self) -> None:
        # First completes a delivery that was interrupted.
        if self._recorded.phase != ACTING:
            self._deliver()
            if self._recorded.phase != READY:
                raise ResetNeeded("no episode is being recorded; call reset() before step()")
