"""Stable-Baselines3: a drop-in replacement for SB3's `HerReplayBuffer`, based on `HindsightReplayBuffer`.

``docs/stable_baselines3.md`` lists the differences from SB3's class.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.goals.functions import batched_terminated
from her_wrappers.goals.interface import find_function, require_goal_space, require_own_goals
from her_wrappers.recording.last_states import ReuseWatch
from her_wrappers.recording.sinks import NotFiniteError
from her_wrappers.recording.values import as_rewards
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.goal_selection import GoalMixture
from her_wrappers.replay.options import Demonstrations
from her_wrappers.support.user_warning import warn_user

try:
    import stable_baselines3 as sb3
    from stable_baselines3.common.buffers import BaseBuffer
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecTransposeImage
    from stable_baselines3.her.goal_selection_strategy import KEY_TO_GOAL_STRATEGY, GoalSelectionStrategy
except ImportError as error:
    raise ImportError(
        'her_wrappers.integrations.sb3 needs Stable-Baselines3; run: pip install "her-toolkit[sb3]"'
    ) from error

from her_wrappers.integrations.sb3_batches import TensorBatches, normalized
from her_wrappers.integrations.sb3_episodes import (
    STEP,
    RecordedInfos,
    Sb3Shapes,
    StepBytes,
    VectorEpisodeBytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from gymnasium import spaces
    from stable_baselines3.common.type_aliases import DictReplayBufferSamples
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    from her_wrappers.goals.functions import GoalFunction
    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.goal_selection import GoalSelection
    from her_wrappers.replay.relabeling import BatchFunction, TerminationMode

__all__ = ["GoalSelectionStrategy", "HerReplayBuffer"]


class HerReplayBuffer(sb3.HerReplayBuffer):
    """Faster drop-in replacement for Stable-Baselines3's ``HerReplayBuffer``, with a ``termination`` option.

    The methods, and the arguments up to ``copy_info_dict``, are the same as in SB3's class. An episode longer
    than ``buffer_size / n_envs`` steps is truncated. An episode that is interrupted by a reset, such as the
    reset at the start of a second call of ``learn``, is truncated too.

    Args:
        buffer_size: Maximum number of transitions of all environments together.
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``.
        action_space: Action space of one environment.
        env: Training environment with ``compute_reward``; SB3's algorithms pass it.
        device: Device of the batches.
        n_envs: Number of environments, N.
        optimize_memory_usage: Ignored, since a state is never stored twice.
        handle_timeout_termination: Whether an episode that ends with ``info["TimeLimit.truncated"]`` counts
            as truncated. If False, it counts as terminated.
        n_sampled_goal: Number of relabeled transitions per original transition. Must be None if
            ``goal_selection_strategy`` is a `Mixture` with a share of ``"original"``.
        goal_selection_strategy: SB3's enum or names, or a strategy of `HindsightReplayBuffer`:
            ``"geometric"``, ``"random"``, ``"desired"``, a function, or a `Mixture`.
        copy_info_dict: Whether ``compute_reward`` gets the infos that were recorded with the steps. They
            describe the original goal, not the new one. If False, ``compute_reward`` gets empty dicts.
        termination: Rule for the terminations of relabeled steps, as in `HindsightReplayBuffer`:
            ``"recompute"``, ``"success"``, ``"keep"`` (as in SB3), ``"never"``, or a function. The default
            is ``"recompute"`` if the environment has ``compute_terminated``, and ``"keep"`` otherwise, with
            one warning if an episode terminated at its goal. By default, ``compute_terminated`` is
            called only in a DummyVecEnv: in a SubprocVecEnv, an exception in it would end a worker process.
        reward_fn: Function to use instead of ``compute_reward`` if rewards depend on the state or the action,
            as in `HindsightReplayBuffer`. The actions and pictures in the batch that the function gets have
            the format of the environment, not of SB3.
        n_steps: Maximum number of steps of n-step returns; all rewards of one return are for the same goal.
            The ``n_steps`` of SB3's algorithms has no effect together with a custom replay buffer.
        gamma: Discount factor of n-step returns, equal to the algorithm's gamma. Unused if ``n_steps`` is 1.
        seed: Seed of the buffer's own random generator. None draws the seed from NumPy's global generator,
            which SB3's algorithms seed.
        demonstrations: A `Demonstrations` object: recorded episodes of the environment, with their share of
            each batch. The recorded actions must be in the units of the environment, not scaled to [-1, 1] as
            SB3 stores actions.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.
        ValueError: ``observation_space`` has no goals, its goals have another size than the goals of the
            environment (such as with VecFrameStack), or an argument is not valid.

    Attributes:
        her_buffer: The `HindsightReplayBuffer`, with ``statistics()`` and ``episodes()``.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> from stable_baselines3 import SAC
        >>> env = gym.make("her_envs/PointReach-v0")
        >>> model = SAC("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer)
    """

    _warned_of_length = False

    def __init__(  # noqa: PLR0917 - in the order of SB3's class
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: VecEnv | None,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int | None = 4,
        goal_selection_strategy: GoalSelectionStrategy | GoalSelection = "future",
        copy_info_dict: bool = False,
        *,
        termination: TerminationMode | GoalFunction | None = None,
        reward_fn: BatchFunction | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        demonstrations: Demonstrations | None = None,
    ) -> None:
        observation_space = require_goal_space(observation_space)
        # The classes between BaseBuffer and this class would allocate arrays.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.env = env
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.copy_info_dict = copy_info_dict
        self.n_sampled_goal = n_sampled_goal  # type: ignore[assignment] # may be None here
        choice: Any = goal_selection_strategy
        if isinstance(choice, GoalSelectionStrategy | str):  # SB3's names may have capital letters
            choice = (choice if isinstance(choice, str) else choice.name).lower()
        known: Any = KEY_TO_GOAL_STRATEGY
        self.goal_selection_strategy = known.get(choice, choice) if isinstance(choice, str) else choice
        self.her_ratio = sum(each.share for each in GoalMixture(choice, n_sampled_goal).components)
        self._infos = RecordedInfos() if copy_info_dict else None
        self._shapes = Sb3Shapes(observation_space, action_space, n_envs)
        self._open = VectorEpisodeBytes(self._shapes)
        self._reuse_watch = ReuseWatch(self._shapes.state_spec)
        self._warned_of_infos = False
        inner: Any = None if env is None else env.unwrapped
        first = inner.envs[0] if isinstance(inner, DummyVecEnv) else None
        inside: Any = first
        if isinstance(inner, SubprocVecEnv):
            inside = gym.Env()
            inside.observation_space = inner.get_attr("observation_space", [0])[0]
        if self.her_ratio > 0 and inside is not None:
            require_own_goals(observation_space, inside)
        compute_terminated: GoalFunction | None = None
        if termination == "recompute":
            self._require_env()
        # Other processes are called on request only: an exception would end the process of a SubprocVecEnv.
        by_default = first is not None and self.her_ratio > 0
        is_called = termination == "recompute" or (termination is None and by_default)
        if is_called and env is not None and env.has_attr("compute_terminated"):
            source = None if first is None else find_function(first, "compute_terminated")
            compute_terminated = batched_terminated(
                partial(self._call_env_method, "compute_terminated"),
                self._shapes.states["achieved_goal"],
                source,
            )
        if seed is None:
            seed = int(np.random.randint(2**31))  # noqa: NPY002 - SB3's algorithms seed this one
        self.her_buffer = HindsightReplayBuffer(
            self._shapes.states,
            self._shapes.actions,
            buffer_size=self.buffer_size * n_envs,
            compute_reward=partial(self._call_env_method, "compute_reward") if reward_fn is None else None,
            reward_fn=None if reward_fn is None else partial(self._call_reward_fn, reward_fn),
            compute_terminated=compute_terminated,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=choice,
            termination=partial(self._call, termination) if callable(termination) else termination,
            n_steps=n_steps,
            gamma=gamma,
            info_keys=(STEP,) if copy_info_dict else (),
            seed=seed,
            demonstrations=self._read(demonstrations)
            if isinstance(demonstrations, Demonstrations)
            else demonstrations,
        )
        self._batches = TensorBatches(self.her_buffer, seed, discounts=n_steps > 1)

    def _read(self, demonstrations: Demonstrations) -> Demonstrations:
        """Read all demonstrations, and return them in SB3's shapes and dtypes."""
        episodes = []
        pictures = self._transposed_pictures()
        for number, episode in enumerate(demonstrations.read()):
            try:
                read = self._shapes.read_episode(episode, pictures)
            except (KeyError, TypeError, ValueError) as error:
                cause = f"{type(error).__name__}: {error}"
                raise ValueError(f"demonstration {number} does not fit the spaces of env: {cause}") from error
            infos = {}
            if self._infos is not None:
                rows = [{key: rows[t] for key, rows in episode.infos.items()} for t in range(len(episode))]
                infos[STEP] = self._infos.keep(rows)
            episodes.append(replace(read, infos=infos))
        return replace(demonstrations, episodes=episodes)

    def add(  # type: ignore[override] # as in SB3's class  # noqa: PLR0917
        self,
        obs: dict[str, np.ndarray],
        next_obs: dict[str, np.ndarray],
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Add one transition per environment. A transition can be sampled once its episode has ended.

        Args:
            obs: Observations of all environments, (N, ...) arrays.
            next_obs: Next observations, (N, ...) arrays. If an episode ended, the row of its environment has
                the last observation of this episode, not the first observation of the next episode.
            action: (N, A) actions, scaled to [-1, 1] if the action space is a Box, as SB3's algorithms do.
            reward: (N,) rewards.
            done: (N,) bool, whether the episode ended.
            infos: List of N info dicts, one per environment.

        Raises:
            ValueError: A value does not fit its space, or the buffer has no environment to compute rewards
                (call ``set_env``); then nothing is added. ValueError is also raised if an episode that ends
                has a number that is not finite; only this episode is dropped.
        """
        self._require_env()
        states = self._shapes.read_states(obs, self._open.where)
        actions = self._shapes.read_actions(action, self._open.where)
        rewards = as_rewards(reward, self.n_envs).tolist()
        outcomes = self._shapes.read_states(next_obs, partial(self._open.where, ahead=1))
        if begun := self._open.environments_not_at(states):  # after a reset, also at the first step
            self._store(begun, [False] * len(begun))
            if self._reuse_watch.is_watching:
                self._reuse_watch.began(begun, self._shapes.arrays_of(states))
            self._open.begin(begun, states)
        ended = np.asarray(done).tolist()
        if self._infos is not None and not self._warned_of_infos:
            pairs = zip(infos, ended, strict=True)
            if any(not end and "terminal_observation" in info for info, end in pairs):  # of an earlier step
                self._warned_of_infos = True
                warn_user(
                    "the environment returns the same info dict at every step, so its reset overwrites the "
                    "info of an episode's last step; wrap each environment in "
                    "her_wrappers.repairs.CopyObservation"
                )
        recorded = None if self._infos is None else self._infos.keep(infos)
        self._open.add(StepBytes(actions, rewards, recorded), outcomes)
        self.pos += 1  # SB3's algorithms read `pos` and `full`
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0
        lengths = self._open.lengths
        over = [i for i, end in enumerate(ended) if end or lengths[i] == self.buffer_size]
        if over:
            if not (self._warned_of_length or all(ended[i] for i in over)):
                self._warned_of_length = True
                got = f"buffer_size / n_envs = {self.buffer_size} steps"
                warn_user(f"an episode is longer than {got}, so it is truncated; increase buffer_size")
            timeouts = [self.handle_timeout_termination and infos[i].get("TimeLimit.truncated") for i in over]
            flags = [bool(ended[i] and not late) for i, late in zip(over, timeouts, strict=True)]
            episodes = self._store(over, flags)
            self._reuse_watch.ended(over, episodes or ())

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> DictReplayBufferSamples:  # type: ignore[override] # as in SB3's class
        """Sample transitions uniformly with replacement; relabeled transitions come first in the batch.

        Args:
            batch_size: Number of transitions, B.
            env: VecNormalize that normalizes the observations and rewards of the batch, or None. Rewards are
                computed before the goals are normalized.

        Raises:
            RuntimeError: No episode is complete yet.
            ValueError: ``batch_size`` is below 1, or the buffer has no environment to compute rewards (call
                ``set_env``).
        """
        self._require_env()
        if not self.her_buffer.can_sample:
            raise RuntimeError(
                "Unable to sample before the end of the first episode; learning_starts must be greater than "
                "the number of steps of an episode times n_envs"
            )
        batch = self._batches.next(batch_size, self.device)
        return batch if env is None else normalized(batch, env)

    def truncate_last_trajectory(self) -> None:
        """Store the open episodes as truncated; warn if there are any.

        If ``handle_timeout_termination`` is False, store them as terminated, as SB3's class does.
        """
        envs = [i for i, length in enumerate(self._open.lengths) if length > 0]
        if envs:
            warn_user(
                "The last trajectory in the replay buffer will be truncated; pass truncate_last_traj=False "
                "to load_replay_buffer() if the environment continues the episode"
            )
            self._store(envs, [not self.handle_timeout_termination] * len(envs))

    def reset(self) -> None:
        """Remove all episodes, including the open ones."""
        self.her_buffer.clear()
        if self._infos is not None:
            self._infos.keep_first(len(self.her_buffer.demonstrations or ()))
        self._batches.invalidate()
        self._open = VectorEpisodeBytes(self._shapes)
        super().reset()

    @property
    def dones(self) -> Any:  # type: ignore[override] # an array in SB3's class
        """A new empty dict: SB3's ``learn`` may set an item of ``dones``, which this buffer does not need."""
        return {}

    def set_env(self, env: VecEnv) -> None:
        """Set the environment that computes rewards, for example after the buffer was loaded from a file.

        Raises:
            ValueError: ``env`` has another number of environments or other observations than the buffer, or
                the buffer has an environment already.
        """
        given: Any = (self.observation_space, env.observation_space)
        mine, other = (SpaceSpec.of("observation", space) for space in given)
        if env.num_envs != self.n_envs or not mine.same_arrays(other):
            raise ValueError(
                f"env must have {self.n_envs} environments with the space {self.observation_space}, as "
                f"the buffer has, got {env.num_envs} with {env.observation_space}; make a new buffer"
            )
        super().set_env(env)

    def _store(self, envs: Sequence[int], terminated: Sequence[bool]) -> Episodes | None:
        """Close and store the open episodes of ``envs``; arguments and result are those of `_open.finish`."""
        episodes = self._open.finish(envs, terminated)
        if episodes is not None:
            self._batches.invalidate()
            self._add(episodes)
        return episodes

    def _add(self, episodes: Episodes) -> None:
        """Store episodes. If one has an invalid number, raise its error after the others have been stored."""
        try:
            self.her_buffer.add_episodes(episodes)
        except NotFiniteError:
            if len(episodes) == 1:
                raise
            try:
                self._add(episodes[: len(episodes) // 2])
            finally:
                self._add(episodes[len(episodes) // 2 :])
        else:
            if self._infos is not None:
                self._infos.evict(episodes, len(self.her_buffer))

    def _require_env(self) -> None:
        # Raises ValueError if rewards will be computed and there is no environment.
        if self.env is None and self.her_ratio > 0:
            raise ValueError(
                "rewards of relabeled transitions need an environment, but this buffer has none; call "
                "set_env(vec_env), as load_replay_buffer() of SB3's algorithms does"
            )

    def _call_env_method(self, name: str, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Call a method of the first environment; all environments have the same method."""
        function = partial(self.env.env_method, name, indices=[0])  # type: ignore[union-attr] # `_require_env`
        try:
            returned = self._call(function, achieved_goal, desired_goal, info)[0]
        except (EOFError, ConnectionError) as error:  # of the pipe of a SubprocVecEnv
            raise ConnectionError(
                f"the process of the first environment ended in {name}, called with {len(achieved_goal)} "
                f"goals; its traceback is above. {name} must accept batches: correct it, or use DummyVecEnv"
            ) from error
        return returned[:, 0] if np.shape(returned) == (len(achieved_goal), 1) else returned

    def _call(self, function: Any, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        goals = {"achieved_goal": achieved_goal, "desired_goal": desired_goal}
        achieved_goal, desired_goal = self._shapes.as_env(goals, self._transposed_pictures()).values()
        return function(achieved_goal, desired_goal, info if self._infos is None else self._infos.of(info))

    def _call_reward_fn(self, reward_fn: BatchFunction, batch: Batch) -> Any:
        pictures, shapes = self._transposed_pictures(), self._shapes
        observations, after = (
            shapes.as_env(each, pictures) for each in (batch.observations, batch.next_observations)
        )
        actions = shapes.env_actions(batch.actions)
        return reward_fn(replace(batch, observations=observations, next_observations=after, actions=actions))

    def _transposed_pictures(self) -> Sequence[str]:
        """Return the keys of pictures (H, W, C) of the environment that SB3 converts to (C, H, W)."""
        env: Any = self.env
        while env is not None:
            if isinstance(env, VecTransposeImage) and not env.skip:
                return env.image_space_keys
            env = getattr(env, "venv", None)
        return ()
