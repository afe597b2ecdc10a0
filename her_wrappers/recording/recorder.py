"""EpisodeRecorder and VectorEpisodeRecorder: wrappers that record episodes for sinks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.goals.autoreset import declared_mode, resets_itself
from her_wrappers.goals.interface import layers, remedy_for_env, require_distinct, spaces_of
from her_wrappers.recording.accumulator import EpisodeAccumulator
from her_wrappers.recording.sinks import Sink, SinkError, Sinks
from her_wrappers.support.arguments import require_count, require_keys
from her_wrappers.support.user_warning import warn_user

EXECUTED = frozenset({"intervene_action", "action_intervention", "teleop_action", "executed_action"})
"""Names under which wrappers, such as those of HIL-SERL and LeRobot, return the action that was executed."""


class _Recorder:
    """Base class of `EpisodeRecorder` and `VectorEpisodeRecorder`."""

    env: Any
    _sinks: Sinks

    def _prepare(
        self, env: Any, sinks: Sinks, info_keys: Iterable[str], action_key: str | None, **options: Any
    ) -> None:
        """Prepare recording of ``env``; ``options`` are further arguments of `EpisodeAccumulator`."""
        if options["max_steps"] is not None:
            options["max_steps"] = require_count("max_episode_steps", options["max_steps"], at_least=1)
        self._spaces = spaces_of(env)
        action_space = self._spaces[1]
        if action_key is not None and not isinstance(action_space.shape, tuple):
            raise TypeError(f"action_key={action_key!r} needs actions that are one array, got {action_space}")
        for layer in layers(env):
            if isinstance(layer, _Recorder):
                sinks.require_other(layer._sinks)  # noqa: SLF001 - same class
        self._sinks, self._action_key, self._is_warned = sinks, action_key, False
        self._ended, self._is_watched = 0, True  # number of episodes; whether infos are searched
        keys = (*require_keys("info_keys", info_keys), *self._sinks.info_keys)
        self._accumulator = EpisodeAccumulator(*self._spaces, info_keys=keys, **options)

    @property
    def skipped_episodes(self) -> int:
        """Number of episodes that were skipped, since a sink rejected them; see ``on_error``."""
        return self._sinks.skipped

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment, with an action or the actions of all environments, and record the step.

        If the environment raises an error, or the result of its step cannot be recorded, the sinks get the
        open episodes up to the previous step, as truncated, and a reset is needed.

        Raises:
            gymnasium.error.ResetNeeded: An environment must be reset before its next step.
            SinkError: A sink raised an error. The error's attribute ``result`` contains the values that
                ``step`` would have returned (None if the step failed); ``episodes`` contains the episodes
                for which a sink raised an error.
            ValueError: The action cannot be recorded (then the environment was not called), or an
                observation, a reward or an info cannot be recorded.
        """
        accumulator = self._accumulator
        accumulator.act(action)
        try:
            result: tuple[Any, Any, Any, Any, dict[str, Any]] = self.env.step(action)
            observation, reward, terminated, truncated, info = result
            if self._action_key is not None:
                accumulator.replace_action(self._action_key, action, info)
            elif self._is_watched and type(info) is dict and not EXECUTED.isdisjoint(info):
                self._warn_of_action(action, info)
            episodes = accumulator.observe(observation, reward, terminated, truncated, info)
        except BaseException as error:  # the environment may have taken a step that is not recorded
            try:
                self.truncate()
            except SinkError as sink_error:
                if isinstance(error, Exception):
                    raise
                raise error from sink_error  # a KeyboardInterrupt
            raise
        if episodes is not None:
            self._ended += len(episodes)
            # The search takes 5 % of a step, so it is done in four episodes from each power of two on.
            power = 1 << self._ended.bit_length() >> 1
            self._is_watched = self._ended - power < 4 and not self._is_warned
            self._sinks.deliver(episodes, result)
        return result

    def _require_same_spaces(self) -> None:
        """Raise ValueError if keys, shapes or dtypes of a space have changed."""
        names = "observation", "action"
        for name, known, space in zip(names, self._spaces, spaces_of(self.env), strict=True):
            if space is not known and not SpaceSpec.of(name, known).same_arrays(SpaceSpec.of(name, space)):
                fix = "create a new recorder for the new space"
                raise ValueError(f"the {name} space changed from {known} to {space}; {fix}")

    def _warn_of_action(self, action: Any, info: Any) -> None:
        """Warn once if an info contains an executed action that differs from the recorded action."""
        for name in EXECUTED & set(info):
            executed, given = np.asarray(info[name]), np.asarray(action)
            mask = info.get(f"_{name}", slice(None))
            if executed.shape == given.shape and not np.array_equal(executed[mask], given[mask]):
                self._is_warned, self._is_watched = True, False
                warn_user(
                    f"info[{name!r}] differs from the recorded action; if it was executed instead, pass "
                    f"action_key={name!r}, or put the recorder inside of the wrapper that replaces actions"
                )

    def close(self, **kwargs: Any) -> None:
        """Pass the open episodes to the sinks as truncated, and close the environment.

        Raises:
            SinkError: A sink raised an error; the environment is closed in this case too.
        """
        try:
            self.truncate()
        finally:
            self.env.close(**kwargs)

    def truncate(self, mask: np.ndarray | None = None) -> None:
        """Pass the open episodes to the sinks as truncated. Each environment needs a reset afterwards.

        Args:
            mask: (N,) bool, the environments whose episodes are passed on; None means all.

        Raises:
            SinkError: A sink raised an error.
        """
        episodes = self._accumulator.truncate(mask)
        if episodes is not None:
            self._sinks.deliver(episodes)


class EpisodeRecorder(_Recorder, gym.Wrapper[Any, Any, Any, Any]):
    """Record the episodes of a single environment.

    The wrapper does not change the values that the environment returns. The sinks get an episode when it
    terminates or is truncated. An episode that ``reset`` or ``close`` interrupts counts as truncated. If
    ``env`` has Gymnasium's wrapper `Autoreset`, the resets of `Autoreset` are not recorded as steps.

    After a KeyboardInterrupt, call ``reset``. The open episode, or an episode that is being delivered, may be
    lost, but a sink never gets a wrong episode, or the same episode twice.

    The recorder is not part of the environment's ``spec``: ``gym.make(recorder.spec)`` makes the environment
    without the recorder.

    Args:
        env: The environment.
        *sinks: Receivers of the episodes, in order. A sink with the method ``add_episodes``, such as a
            buffer, gets `Episodes` by this method. Other sinks are called with each `Episode`. As sinks,
            ``buffer``, ``buffer.add_episode`` and ``buffer.add_episodes`` are equivalent.
        info_keys: Keys of ``info`` to record, in addition to the ``info_keys`` of the sinks, for example of a
            buffer. The info of every step must have these keys.
        max_episode_steps: Number of steps after which an episode ends as truncated. The environment is not
            reset: the next episode begins in the last state of this one. Use this for tasks that never end.
        on_error: ``"raise"``: if a sink raises, ``step`` raises SinkError. ``"skip"``: if a sink rejects an
            episode since it contains NaN, an infinite goal or an infinite reward, skip this episode, count it
            in ``skipped_episodes``, and warn once; for other errors, raise SinkError.
        action_key: Key of an info that contains the executed action, such as ``"intervene_action"`` of a
            wrapper with which a person can take over. This action is recorded at steps that have the key.

    Raises:
        TypeError: ``env`` is not a single environment, a sink is neither callable nor has ``add_episodes``,
            ``info_keys`` is not a list of strings, elements of a space are not arrays of a fixed shape, or
            ``action_key`` is given for actions that are not one array.
        ValueError: ``max_episode_steps`` is not an integer of at least 1, ``on_error`` is not valid, or a
            sink is given twice, also to a recorder inside of ``env``.

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
        on_error: str = "raise",
        action_key: str | None = None,
    ) -> None:
        if not isinstance(env, gym.Env):
            is_vector = isinstance(env, gym.vector.VectorEnv)
            use = "use VectorEpisodeRecorder" if is_vector else remedy_for_env(env)
            raise TypeError(f"EpisodeRecorder needs a single gymnasium Env, got {type(env).__name__}; {use}")
        mode = AutoresetMode.NEXT_STEP if resets_itself(env) else AutoresetMode.DISABLED
        arguments = Sinks(sinks, on_error), info_keys, action_key
        self._prepare(env, *arguments, max_steps=max_episode_steps, mode=mode)
        super().__init__(env)

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override] # a property in gym.Wrapper too
        """The spec of the wrapped environment; it does not list the recorder as a wrapper."""
        spec: EnvSpec | None = self.env.spec
        return spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Pass an open episode to the sinks as truncated, and reset the environment.

        The arguments are those of `gymnasium.Env.reset`.

        Raises:
            RuntimeError: The recorder is in a worker process of a vector environment, where a sink, such as a
                buffer, is a copy that the main program cannot read.
            SinkError: A sink raised an error, and the environment was not reset; call ``reset`` again.
            ValueError: The observation does not fit its space, an info cannot be recorded, or a space of the
                environment changed.
        """
        self._sinks.require_reachable()
        self.truncate()
        observation, info = self.env.reset(seed=seed, options=options)
        self._require_same_spaces()
        self._accumulator.begin(observation, info)
        return observation, info


class VectorEpisodeRecorder(_Recorder, gym.vector.VectorWrapper):  # not generic in Gymnasium 1.1
    """Record the episodes of a vector environment, in each of the three autoreset modes.

    In mode NEXT_STEP, the step that begins the next episode is a reset, and is not recorded as a transition.
    In mode SAME_STEP, the last state of an episode is read from ``final_obs`` and ``final_info``. Everything
    else, also the other arguments and errors, is as in `EpisodeRecorder`.

    Args:
        env: The vector environment, with its autoreset mode in ``metadata["autoreset_mode"]``.

    Raises:
        TypeError: ``env`` is not a vector environment.
        ValueError: ``env.metadata`` has no autoreset mode, ``env`` contains the same environment object
            more than once, or ``env`` is an AsyncVectorEnv in mode NEXT_STEP without shared memory.

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
        on_error: str = "raise",
        action_key: str | None = None,
    ) -> None:
        if not isinstance(env, gym.vector.VectorEnv):
            use = "use EpisodeRecorder" if isinstance(env, gym.Env) else remedy_for_env(env)
            raise TypeError(
                f"VectorEpisodeRecorder needs a gymnasium VectorEnv, got {type(env).__name__}; {use}"
            )
        require_distinct(env)
        mode = declared_mode(env)
        if mode is None:
            raise ValueError(
                f"metadata['autoreset_mode'] of {env} must be a gymnasium.vector.AutoresetMode, "
                f"got {env.metadata.get('autoreset_mode')!r}; "
                "set env.metadata = env.metadata | {'autoreset_mode': AutoresetMode.X}, where X is SAME_STEP "
                "if the last step of an episode resets too, NEXT_STEP if the next step resets, else DISABLED"
            )
        inner = env.unwrapped
        if mode is AutoresetMode.NEXT_STEP and isinstance(inner, AsyncVectorEnv) and not inner.shared_memory:
            # Gymnasium 1.4's workers reset at the step after an end, even if a call of reset() came between.
            raise ValueError("AsyncVectorEnv resets twice without shared memory; pass shared_memory=True")
        arguments = Sinks(sinks, on_error), info_keys, action_key
        self._prepare(
            env,
            *arguments,
            max_steps=max_episode_steps,
            num_envs=env.num_envs,
            mode=mode,
            watches_reuse=mode is AutoresetMode.SAME_STEP,
        )
        super().__init__(env)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or only the environments in ``options["reset_mask"]``, (N,) bool.

        First the open episodes of these environments are passed to the sinks as truncated. The arguments are
        those of `gymnasium.vector.VectorEnv.reset`.

        Raises:
            SinkError: A sink raised an error, and the environments were not reset; call ``reset`` again.
            ValueError: The mask is not valid, an observation does not fit its space, an info cannot be
                recorded, or a space of the environments changed.
        """
        mask = (options or {}).get("reset_mask")
        chosen = None if mask is None else np.array(mask)
        if chosen is not None and (chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_):
            raise ValueError(
                f"options['reset_mask'] must be a bool array of shape ({self.num_envs},), got {mask!r}"
            )
        self.truncate(chosen)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._require_same_spaces()
        self._accumulator.begin(observations, infos, chosen)
        return observations, infos
