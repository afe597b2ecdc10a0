"""HindsightReplayBuffer: stores episodes, and samples transitions of complete ones with relabeled goals."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.data import Json
from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import Tree
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.interface import AnyEnv, GoalInterface, find_function, goal_spaces, require_goal_space
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.dataset import Dataset, EpisodeErrors, episodes_of, require_no_path
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.open_episodes import OpenEpisodes
from her_wrappers.replay.batch import Batch, Statistics
from her_wrappers.replay.demonstrations import make_replay
from her_wrappers.replay.goal_selection import GoalSelection
from her_wrappers.replay.options import BufferOptions, Demonstrations, relabels
from her_wrappers.replay.priorities import Priority, require_updates
from her_wrappers.replay.relabeled_replay import RelabeledReplay
from her_wrappers.replay.relabeling import BatchFunction, TerminationMode
from her_wrappers.replay.saving import load_buffer, save_buffer
from her_wrappers.support.arguments import require_count, require_number, require_torch

if TYPE_CHECKING:
    import torch


class HindsightReplayBuffer:
    """A replay buffer that relabels goals in hindsight while sampling (HER, arXiv 1707.01495).

    Transitions of complete episodes are sampled uniformly or by priorities. In a relabeled row, a new goal
    replaces the desired goal, the reward is computed again, and the rule ``termination`` sets the termination
    flag. With k = ``n_sampled_goal``, an expected share of k / (k + 1) of the rows is relabeled, for any
    batch size. Whole episodes are evicted, oldest first.

    Memory is allocated for ``buffer_size`` * 33 / 32 states at first, and for more if episodes are short. If
    an observation always equals the achieved goal, such as an image, only one of the two is stored.

    Several threads may call `add_episode` and `sample` at the same time, but only one thread may call `add`.

    Args:
        observation_space: Dict space of one environment: ``observation``, ``achieved_goal``,
            ``desired_goal``.
        action_space: Action space of one environment.
        buffer_size: Maximum number of transitions, and of the steps of an episode.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the (B,) rewards of a
            batch of goals; not needed if nothing is relabeled.
        reward_fn: Function to use instead of ``compute_reward`` if rewards depend on the state or the action:
            ``reward_fn(batch)`` returns the (B,) rewards of a `Batch`. This batch contains the relabeled
            transitions: goals are new, rewards and terminations are still the recorded ones, and each
            discount is ``gamma``. With ``n_steps``, it contains every step whose reward may be summed.
        compute_terminated: Function ``(achieved_goal, desired_goal, info)`` that returns the (B,)
            terminations of a batch of goals, if the environment has such a function.
        n_sampled_goal: Number of relabeled transitions per original transition, k; the default is 4. With 0,
            nothing is relabeled.
        goal_selection_strategy: Source of new goals. Most strategies choose a state, whose achieved goal is
            the new goal. ``"future"``: a state of the episode after the step. ``"final"``: the last state of
            the episode. ``"episode"``: any state of the episode except the first. ``"geometric"``, or
            `Geometric` with another gamma: a state after the step; nearer states are more likely.
            ``"random"``: any state, except the first, of any stored episode. A function
            ``(t, length, rng) -> s`` returns a state number s, 1 <= s <= length, for each step t of an
            episode of ``length`` steps; t, length and s are (B,) integers. With ``"desired"``, the new goal
            is the desired goal of any stored step. A `Mixture` combines several strategies, and can also set
            the share of rows that are not relabeled.
        termination: Rule for the terminations of relabeled transitions. ``"recompute"``: computed by
            ``compute_terminated``; a step that terminated independently of its goal, such as a crash, still
            terminates. ``"success"``: rewards must have exactly two values, for success and for no success; a
            step terminates if its new reward is the one for success, or if it terminated independently of
            its goal. ``"keep"``: as recorded. ``"never"``: always False. Or a function to use in place of
            ``compute_terminated``. The default is ``"recompute"`` if there is a ``compute_terminated``, and
            ``"keep"`` otherwise.
        n_steps: Maximum number of steps whose rewards are summed, see `Batch`. The window of a row is shorter
            if the episode ends or a step terminates under the goal of the row. In an original row, it also
            ends before the desired goal changes. The functions get the steps of all windows in one call;
            short windows are padded with copies of their last step.
        gamma: Discount factor of rewards that are summed, and of ``discounts`` in a `Batch`.
        info_keys: Keys of the infos to store. ``compute_reward`` and ``compute_terminated`` get a list with a
            dict of these infos for each row, as recorded under the original goal. Without ``info_keys``, the
            dicts are empty.
        prioritized: `Priority` options to sample by priorities, which `update_priorities` sets; None to
            sample uniformly. Priorities take about 8.6 bytes per transition.
        seed: Seed of the buffer's random generator.
        device: Torch device to which each batch is copied, such as ``"cuda"``; None for NumPy arrays.
            Transitions stay in the memory of the CPU, and rows and goals do not depend on the device.
        demonstrations: Episodes that are never evicted and make up a fixed share of each batch. Only
            `sample`, `update_priorities` and `save` include them.

    Raises:
        ImportError: ``device`` is given, but torch is not installed.
        MemoryError: Not enough memory for ``buffer_size`` transitions.
        TypeError: An argument has a wrong type, elements of a space are not arrays of a fixed shape, or
            ``device`` is given and torch does not support the dtype of a space.
        ValueError: An argument has a wrong value, or a function is missing.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
        >>> env = gym.make("her_envs/PointReach-v0")
        >>> buffer = HindsightReplayBuffer.for_env(env, buffer_size=1000, seed=0)
        >>> env = EpisodeRecorder(env, buffer.add_episode)
        >>> observation, info = env.reset(seed=0)
        >>> for _ in range(50):
        ...     observation, reward, terminated, truncated, info = env.step([0.5, 0.5])
        >>> batch = buffer.sample(256)
        >>> batch.observations["desired_goal"].shape, int(batch.relabeled.sum())
        ((256, 2), 205)
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        buffer_size: int = 1_000_000,
        compute_reward: GoalFunction | None = None,
        reward_fn: BatchFunction | None = None,
        compute_terminated: GoalFunction | None = None,
        n_sampled_goal: int | None = None,
        goal_selection_strategy: GoalSelection = "future",
        termination: TerminationMode | GoalFunction | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        info_keys: Sequence[str] = (),
        prioritized: Priority | None = None,
        seed: int | None = None,
        device: str | torch.device | None = None,
        demonstrations: Demonstrations | None = None,
    ) -> None:
        options = BufferOptions(
            buffer_size=buffer_size,
            compute_reward=compute_reward,
            reward_fn=reward_fn,
            compute_terminated=compute_terminated,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=goal_selection_strategy,
            termination=termination,
            n_steps=n_steps,
            gamma=gamma,
            info_keys=info_keys,
            prioritized=prioritized,
            seed=seed,
            device=device,
            demonstrations=demonstrations,
        )
        space = require_goal_space(observation_space)
        self.observation_space, self.action_space = space, action_space
        self._device = None if device is None else _require_device(device, space, action_space)
        self._attachment: dict[str, Json] = {}  # JSON that an integration saves with the buffer
        self._lock = threading.RLock()
        self._set_up(make_replay(space, action_space, options))

    def _set_up(self, replay: RelabeledReplay) -> None:
        """Store transitions in ``replay``, which is empty; make a buffer of its demonstrations, if any."""
        self._replay = replay
        keys, size = replay.options.info_keys, replay.options.buffer_size
        self._open_episodes = OpenEpisodes(self.observation_space, self.action_space, keys, size)
        self._demonstrations: HindsightReplayBuffer | None = None
        if replay.demonstrations is not None:
            view = self._demonstrations = copy.copy(self)  # whose lock is new, see `__setstate__`
            view._lock = self._lock  # noqa: SLF001 - same class; `sample` of the buffer reads both replays
            view._set_up(replay.demonstrations)  # noqa: SLF001 - same class

    @classmethod
    def for_env(cls, env: AnyEnv, **options: Any) -> HindsightReplayBuffer:
        """Make a buffer with the spaces and goal functions of a single or vectorized environment.

        Args:
            env: A goal environment, with any wrappers, or a vector environment of goal environments.
            **options: Other arguments of the class. Functions given here replace the functions of ``env``.

        Raises:
            TypeError: ``env`` is not an environment; see also the class.
            ValueError: ``env`` is not a goal environment; see also the class.
        """
        is_relabeled = relabels(options)
        if is_relabeled and options.get("reward_fn") is None:
            functions = {name: options.pop(name, None) for name in ("compute_reward", "compute_terminated")}
            interface = GoalInterface.of(env, **functions)
            options |= {name: getattr(interface, name) for name in functions}
        elif is_relabeled and options.get("compute_terminated") is None:
            options["compute_terminated"] = find_function(env, "compute_terminated")
        return cls(*goal_spaces(env), **options)

    def __len__(self) -> int:
        """Return the number of stored transitions."""
        return len(self._replay)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} transitions={len(self)} buffer_size={self.buffer_size} episodes="
            f"{self.num_episodes} goal_selection_strategy={self._replay.options.goal_selection_strategy!r}>"
        )

    @property
    def buffer_size(self) -> int:
        """Maximum number of transitions."""
        return self._replay.options.buffer_size

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Keys of the infos to store. A recorder that has this buffer as a sink records these infos too."""
        return tuple(self._replay.options.info_keys)

    @property
    def num_episodes(self) -> int:
        """Number of stored episodes."""
        return self._replay.storage.stored.num_episodes

    @property
    def can_sample(self) -> bool:
        """Whether there is a complete episode to sample from."""
        return len(self) > 0

    @property
    def nbytes(self) -> int:
        """Memory allocated for transitions and priorities, in bytes."""
        return self._replay.nbytes

    @property
    def demonstrations(self) -> HindsightReplayBuffer | None:
        """A read-only buffer that contains the demonstrations, or None without them."""
        return self._demonstrations

    @property
    def device(self) -> torch.device | None:
        """Device of the batches; None for NumPy arrays."""
        return self._device

    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step returns it
        self,
        obs: Mapping[str, Tree],
        action: Tree,
        reward: Any,
        next_obs: Mapping[str, Tree],
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        skip: Any = None,
    ) -> None:
        """Add one transition of a single environment, or one transition for each of N environments.

        The transitions of an episode can be sampled once the episode has ended.

        With N environments, all values have a leading axis of length N, and row i belongs to environment i.
        Each environment has its own open episode. Arrays may be torch tensors on any device.

        Args:
            obs: Observation before the step. Within an episode, it must equal the previous ``next_obs``.
            action: Action.
            reward: Reward, a number or (N,).
            next_obs: Observation after the step and before any reset. At the last step of an episode,
                ``final_obs`` or ``terminal_observation`` in ``info``, if present, replaces ``next_obs``.
            terminated: Whether the task ended, a bool or (N,) bool.
            truncated: Whether the episode was truncated, a bool or (N,) bool.
            info: Info of the step. It must have the buffer's ``info_keys``; other keys are ignored. For N
                environments, a list of dicts, or one dict of arrays as of Gymnasium's vector environments.
            skip: Bool or (N,) bool, True for environments whose row is not a transition: in Gymnasium's
                autoreset mode NEXT_STEP and its wrapper `Autoreset`, if the previous step ended the episode.

        Raises:
            TypeError: A flag is not a bool; nothing is added.
            ValueError: A value does not fit its space, a reward is not finite, ``obs`` differs from the
                previous ``next_obs``, N changes while episodes are open, or an episode is longer than
                ``buffer_size``; nothing is added.
            MemoryError, ValueError: As for `add_episode`; all episodes that end with this step are dropped.
        """
        with self._lock:
            transition = obs, action, reward, next_obs, terminated, truncated
            ended = self._open_episodes.add(*transition, info, skip)
            if ended is not None:
                self._replay.add(ended)

    def truncate_open_episode(self) -> None:
        """End all open episodes of `add` as truncated and store them, for example after an interruption.

        Raises:
            MemoryError, ValueError: As for `add_episode`; then all open episodes are dropped.
        """
        with self._lock:
            ended = self._open_episodes.truncate()
            if ended is not None:
                self._replay.add(ended)

    def add_episode(self, episode: Episode) -> None:
        """Add a complete episode, and evict as many of the oldest episodes as needed.

        If an error is raised, nothing is added or evicted.

        Args:
            episode: An episode with the spaces of the buffer, which stores a copy.

        Raises:
            TypeError: ``episode`` is not an `Episode`.
            MemoryError: Not enough memory.
            ValueError: The episode is longer than ``buffer_size``, does not fit the spaces, or has a reward
                that is not finite; or the reward or termination function returns a wrong result.
        """
        if not isinstance(episode, Episode):
            raise TypeError(f"add_episode() takes an Episode, got {type(episode).__name__}")
        with self._lock:
            self._replay.add([episode])

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add complete episodes, or none if an error is raised; much faster than repeated `add_episode`.

        Args:
            episodes: `Episodes` or an iterable of `Episode`, with the spaces of the buffer.

        Raises:
            MemoryError, TypeError, ValueError: As for `add_episode`; the message names the episode.
        """
        listed = episodes if isinstance(episodes, Episodes) else list(_iterate("add_episodes", episodes))
        if listed:
            with self._lock:
                self._replay.add(listed)

    def extend(self, episodes: Iterable[Episode] | Dataset, *, on_error: str = "raise") -> int:
        """Add the episodes of a source. If an episode is rejected, earlier episodes stay in the buffer.

        Args:
            episodes: An `EpisodeArchive`, `Episodes`, a ``minari.MinariDataset`` or an iterable of `Episode`.
            on_error: ``"raise"``: raise an error with the number of the episode. ``"skip"``: skip damaged
                shards and episodes that cannot be read or added, and warn of the number of skipped episodes.

        Returns:
            Number of episodes that were skipped.

        Raises:
            CorruptFileError: A shard of the archive is damaged.
            OSError: An archive cannot be read, or cannot write its pending episodes, which it does first.
            MemoryError, TypeError, ValueError: As for `add_episode`, or all episodes were skipped.
        """
        errors = EpisodeErrors(on_error)
        blocks: Iterable[Sequence[Episode]]
        if isinstance(episodes, EpisodeArchive):
            blocks = episodes.read_shards(errors)
        elif isinstance(episodes, Episodes):
            blocks = [episodes]
        elif isinstance(episodes, Dataset):
            blocks = ([episode] for episode in episodes_of(episodes, errors))
        else:
            blocks = ([episode] for episode in _iterate("extend", episodes))
        for block in blocks:
            try:
                self.add_episodes(block)
                errors.number += len(block)
            except (TypeError, ValueError):
                for episode in block:
                    try:
                        self.add_episode(episode)
                        errors.number += 1
                    except (TypeError, ValueError) as error:
                        errors.handle(error)
        return errors.finish()

    def sample(self, batch_size: int, beta: float | None = None) -> Batch:
        """Sample transitions with replacement, uniformly or by priorities; relabeled rows come first.

        Args:
            batch_size: Number of transitions, B.
            beta: Exponent of the importance weights of this batch; by default ``prioritized.beta``.

        Raises:
            ValueError: ``batch_size`` is not an integer of at least 1; ``beta`` is out of [0, 1], or is given
                for a buffer without priorities; no complete episode is stored; a function of the buffer, such
                as ``compute_reward``, returns a wrong result; or rows must be relabeled, but the buffer was
                loaded without a reward function.
        """
        if beta is not None:
            if self._replay.priorities is None:
                fix = "leave beta= out, or make the buffer with prioritized=Priority()"
                raise ValueError(f"sample() got beta={beta!r}, but this buffer has no priorities; {fix}")
            require_number("beta", beta, "[0, 1]")
        with self._lock:
            batch: Batch[Any] = self._replay.sample(batch_size, beta)
        if self._device is not None:
            batch = batch.to_torch(self._device)
        return batch

    def update_priorities(self, index: Any, priorities: Any) -> int:
        """Set the priorities of transitions; transitions with larger priorities are sampled more often.

        New transitions get the largest priority that was set so far, but at least 1.

        Args:
            index: (B,) step numbers of transitions, as in ``batch.index``, an array or a tensor. Evicted
                transitions are ignored.
            priorities: (B,) numbers of at least 0, such as ``np.abs(td_errors)``, an array or a tensor. A
                transition that occurs several times in ``index`` gets the largest of its priorities.

        Returns:
            Number of elements of ``index`` that were ignored, since their transitions were evicted.

        Raises:
            ValueError: The shapes differ, an element of ``index`` was never the step number of a transition,
                a priority is negative or not finite, or the buffer has no priorities. In these cases, no
                priority changes.
        """
        index, priorities = require_updates(index, priorities)
        with self._lock:
            return self._replay.update_priorities(index, priorities)

    def infos(self, index: np.ndarray) -> dict[str, Any]:
        """Return the infos of stored steps, for example of those in a batch.

        Args:
            index: (B,) int64, step numbers, as in ``batch.index``. For demonstrations, call
                ``buffer.demonstrations.infos(index)`` instead.

        Returns:
            For each key of ``info_keys``, an array (B, ...).

        Raises:
            ValueError: A step was never stored, or was evicted.
        """
        with self._lock:
            stored, index = self._replay.storage.stored, np.asarray(index)
            wrong = index[(index < stored.first) | (index >= stored.end)]
            if wrong.size:
                raise ValueError(
                    f"index must have step numbers of stored steps, {stored.first} to {stored.end - 1}, got "
                    f"{wrong[0]}; smaller numbers are those of evicted steps or of buffer.demonstrations"
                )
            return self._replay.storage.take_infos(index)

    def statistics(self, batch_size: int = 10_000) -> Statistics:
        """Return statistics of the stored episodes and of a new batch; later batches are not affected.

        Args:
            batch_size: Number of rows of the batch.

        Raises:
            ValueError: As for `sample`.
        """
        size = require_count("batch_size", batch_size, at_least=1)
        with self._lock:
            return self._replay.statistics(size)

    def episodes(self) -> Iterator[Episode]:
        """Iterate over copies of the stored episodes, oldest first.

        Episodes that are added later, or evicted before the iteration reaches them, are left out. Rewards
        have the precision of float32, and infos have only the keys ``info_keys``.
        """
        with self._lock:
            blocks = self._replay.storage.episode_blocks()
        for firsts in blocks:
            with self._lock:
                storage = self._replay.storage
                left = firsts[firsts >= storage.stored.first]
                stored = storage.read_episodes(int(left[0]), int(left[-1]))[0] if len(left) > 1 else ()
            for episode in stored:
                yield replace(episode, rewards=episode.rewards.astype(np.float64))

    def clear(self) -> None:
        """Remove all transitions and open episodes, but no demonstrations. No step number is used twice."""
        with self._lock:
            self._replay.clear()
            self._open_episodes.discard()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to a file that `load` reads. A crash leaves the previous file intact.

        The file includes the episodes that `add` has begun but not ended, but no functions. Other threads
        that add or sample wait until the file is written.

        Args:
            path: The file to write or replace.

        Raises:
            OSError: The file cannot be written.
            TypeError: The observation space or action space cannot be described in JSON.
        """
        with self._lock:
            save_buffer(path, self)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], env: AnyEnv | None = None, **options: Any
    ) -> HindsightReplayBuffer:
        """Read a buffer from a file that `save` wrote.

        Sampling continues with the same random sequence, unless options such as ``seed`` change it. No code
        in the file is executed. If neither ``env`` nor a reward function is given, `sample` raises ValueError
        if a row must be relabeled.

        Args:
            path: The file.
            env: The environment whose functions are used.
            **options: Arguments of the class, such as functions or ``seed``; they replace the saved options.
                With a smaller ``buffer_size``, the oldest episodes are evicted.

        Raises:
            CorruptFileError: The file is damaged, is not a buffer, or has another format version.
            OSError: The file cannot be read.
            ImportError, MemoryError, TypeError: As for the class.
            ValueError: The spaces of ``env`` differ from the saved spaces, an option has a wrong value, or a
                function is missing. Functions are not saved: those that were passed as ``termination`` or in
                ``goal_selection_strategy`` must be given together with ``env`` or a reward function.
        """
        loaded: HindsightReplayBuffer = load_buffer(cls, path, env, options)
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the lock. During the call, no other thread may add or sample."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes, with a new lock."""
        self.__dict__.update(state)
        self._lock = threading.RLock()
        if self._demonstrations is not None:
            self._demonstrations._lock = self._lock  # noqa: SLF001 - same class


def _require_device(device: Any, *spaces_: spaces.Space[Any]) -> torch.device:
    """Return the torch device; raise TypeError if torch does not support the dtype of an array in a space."""
    require_torch(f"device={str(device)!r}", otherwise="leave device out")
    from her_wrappers.replay import tensors  # noqa: PLC0415 - imports torch

    found = tensors.find_device(device)
    for name, space in zip(("observations", "actions"), spaces_, strict=True):
        for leaf in SpaceSpec.of(name, space):
            tensors.torch_dtype(leaf.name, leaf.dtype)
    return found


def _iterate(method: str, episodes: Any) -> Iterator[Episode]:
    require_no_path(f"{method}()", episodes)
    if not isinstance(episodes, Iterable):
        got = "one Episode; use add_episode()" if isinstance(episodes, Episode) else type(episodes).__name__
        raise TypeError(f"{method}() takes an iterable of episodes, got {got}")
    return iter(episodes)
