"""HindsightReplayBuffer: whole episodes in, relabeled transitions out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from her_wrappers.goal_interface import GoalInterface, find_function, goal_spaces, require_goal_space
from her_wrappers.replay.assembly import Functions, assemble
from her_wrappers.replay.intake import as_sequence, parts_of, require_episode
from her_wrappers.replay.options import Options, relabels
from her_wrappers.replay.saving.saved_options import merged_options, with_functions
from her_wrappers.replay.saving.snapshot import Snapshot, write_snapshot
from her_wrappers.replay.saving.state import State, restore
from her_wrappers.replay.statistics import Statistics, describe

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import torch
    from gymnasium import spaces

    from her_wrappers.goal_interface import AnyEnv, GoalFunction
    from her_wrappers.recording.dataset import Dataset
    from her_wrappers.recording.episode import Episode
    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.goals.shares import GoalSelection
    from her_wrappers.replay.priorities.priority import Priority
    from her_wrappers.replay.relabeling.rewards import BatchFunction
    from her_wrappers.replay.relabeling.termination import TerminationMode
    from her_wrappers.replay.storage.infos import InfoFormat
    from her_wrappers.trees import Tree


class HindsightReplayBuffer:
    """A replay buffer that relabels goals in hindsight while sampling (HER, arXiv 1707.01495).

    Sampling is uniform over the transitions of complete episodes, unless they are given priorities, and its
    cost does not depend on how many there are. Of every batch, a share of k / (k + 1) in expectation, for
    k = ``n_sampled_goal`` and any batch size, has its desired goal replaced by one that was achieved, its
    reward recomputed for it, and its termination by ``termination``. Which rows are relabeled depends on
    nothing else.

    Any episode of up to ``buffer_size`` steps fits; whole episodes are evicted, oldest first. An episode of T
    steps takes T + 1 records, since its last state is kept too: there is room for ``buffer_size`` * 33 / 32
    records at first, and for more once episodes are so short on average that they need it. An observation
    that is the achieved goal, as images are, is stored once for both.

    Several threads may add episodes and sample; only one of them may add transitions by `add`.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal`` of one environment.
        action_space: Actions of one environment.
        buffer_size: Transitions that the buffer holds.
        compute_reward: Rewards of a batch of goals; not needed where nothing is relabeled.
        reward_fn: Instead of ``compute_reward``, rewards of a `Batch` of transitions, which have their new
            goals already, for rewards that need the state or the action. Its arrays are read-only; infos
            are not in it; rewards and terminations are as recorded, and discounts are ``gamma``. With
            ``n_steps`` it has all steps one by one.
        compute_terminated: Terminations of a batch of goals, if the environment has such a function.
        n_sampled_goal: Relabeled transitions for every original one; 4 unless the share is given otherwise. 0
            makes it a plain replay buffer.
        her_ratio: Share of relabeled transitions, instead of ``n_sampled_goal``.
        goal_selection_strategy: Where new goals come from: ``"future"``: a state of the episode after the
            step. ``"final"``: its last. ``"episode"``: any that it reached. ``"geometric"``, or `Geometric`
            with another gamma: one after the step, nearer ones more often. ``"random"``: any that any stored
            episode reached. Or a function ``(t, length, rng) -> s`` from steps to states, all (B,) integers.
            Or a `Mixture` of these.
        termination: Terminations of relabeled transitions. ``"recompute"``: what ``compute_terminated`` says,
            and where an episode ended for another reason (a crash), that. ``"success"``: where the relabeled
            reward is that of a reached goal, and other reasons; for rewards of two values. ``"keep"``: as
            recorded. ``"never"``. Or a function used like ``compute_terminated``. The default is
            ``"recompute"`` where there is a ``compute_terminated``, else ``"keep"``.
        n_steps: Most steps whose rewards are added up, all under one goal, `Batch` tells how. They end with
            the episode, with the first that terminates (of relabeled rows: under the new goal), and of
            original rows before a step over which the goal changes. The functions are asked about all steps
            in one call: as many of each relabeled row as the longest window may have; where an episode ends
            earlier, its last one again.
        gamma: Discount factor of these sums, and of ``discounts``.
        skip_trivial: Whether to draw a new goal once more where it was achieved before the step already, and
            asks for nothing; `statistics` tells how often that is so.
        info_keys: Entries of the infos that ``compute_reward`` or ``compute_terminated`` need. They are as
            recorded, under the old goal. Without any, the functions get an empty dict for each row.
        info_format: ``"list"``: they get a list of dicts. ``"columns"``: one dict of (B, ...) arrays.
        prioritized: A `Priority`, for transitions to be drawn by priorities that `update_priorities` gives
            them, rather than uniformly. It takes 8.6 bytes a transition more.
        seed: Seeds the private generator.
        device: Where batches are wanted: None for NumPy arrays, or a torch device such as ``"cuda"`` for
            tensors there. The same seed gives the same rows and goals everywhere. If the functions take
            tensors as well as arrays, which is tried out on two rows, transitions are kept, gathered and
            relabeled there; else on the host, and each batch is copied to the device.

    Raises:
        ImportError: There is no torch for the ``device``.
        MemoryError: There is not so much memory.
        TypeError: A space has elements that are not arrays of one shape, or of a dtype that torch has not.
        ValueError: An argument has a value that it cannot have, or a function is missing.

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
        her_ratio: float | None = None,
        goal_selection_strategy: GoalSelection = "future",
        termination: TerminationMode | GoalFunction | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        skip_trivial: bool = False,
        info_keys: Sequence[str] = (),
        info_format: InfoFormat = "list",
        prioritized: Priority | None = None,
        seed: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        goal_space = self.observation_space = require_goal_space(observation_space)
        self.action_space = action_space
        self._options = Options(
            buffer_size=buffer_size,
            n_sampled_goal=n_sampled_goal,
            her_ratio=her_ratio,
            goal_selection_strategy=goal_selection_strategy,
            termination=termination,
            n_steps=n_steps,
            gamma=gamma,
            skip_trivial=skip_trivial,
            info_keys=info_keys,
            info_format=info_format,
            prioritized=prioritized,
        )
        functions = Functions(compute_reward, reward_fn, compute_terminated)
        self._parts = assemble(goal_space, action_space, self._options, functions, seed=seed, device=device)
        self._lock = threading.RLock()

    @classmethod
    def for_env(cls, env: AnyEnv, **options: Any) -> HindsightReplayBuffer:
        """Make a buffer for an environment, single or vectorised: its spaces, rewards and terminations.

        Args:
            env: A goal environment, with any wrappers around it, or a vector environment of such.
            **options: The other arguments of the class; functions given here win over the environment's.

        Raises:
            TypeError: ``env`` is no environment.
            ValueError: It is no goal environment, or an option has a value that it cannot have.
        """
        if not relabels(**options):
            return cls(*goal_spaces(env), **options)
        if options.get("reward_fn") is not None:
            if options.get("compute_terminated") is None:
                options["compute_terminated"] = find_function(env, "compute_terminated")
            return cls(*goal_spaces(env), **options)
        functions = {name: options.pop(name, None) for name in ("compute_reward", "compute_terminated")}
        interface = GoalInterface.of(env, **functions)
        return cls(
            interface.observation_space,
            interface.action_space,
            compute_reward=interface.compute_reward,
            compute_terminated=interface.compute_terminated,
            **options,
        )

    def __len__(self) -> int:
        """Return the number of stored transitions."""
        return self._parts.backend.storage.num_steps

    @property
    def buffer_size(self) -> int:
        """Transitions that the buffer holds."""
        return self._options.buffer_size

    @property
    def num_episodes(self) -> int:
        """Number of stored episodes."""
        return self._parts.backend.storage.num_episodes

    @property
    def can_sample(self) -> bool:
        """Whether there is a complete episode to sample from."""
        return len(self) > 0

    @property
    def device(self) -> torch.device | None:
        """Where batches of tensors are handed out; None for NumPy arrays."""
        return self._parts.backend.device

    @property
    def on_device(self) -> bool:
        """Whether transitions are kept, gathered and relabeled on the device, as tensors."""
        return self._parts.backend.on_device

    @property
    def nbytes(self) -> int:
        """Bytes allocated for transitions and their priorities."""
        return self._parts.backend.storage.nbytes + self._parts.priorities.nbytes

    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step gives it
        self,
        obs: Mapping[str, Tree],
        action: Tree,
        reward: float,
        next_obs: Mapping[str, Tree],
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one transition; it can be sampled once its episode has ended.

        Args:
            obs: What the agent saw; after the first step of an episode, the ``next_obs`` before.
            action: What it did.
            reward: What it earned.
            next_obs: What it saw then, also where the episode ended.
            terminated: Whether the task ended.
            truncated: Whether the episode was cut short.
            info: Where ``info_keys`` are found.

        Raises:
            TypeError: A flag is no bool; nothing is added.
            ValueError: A value does not fit its space, the reward is not finite, ``obs`` does not follow on
                the ``next_obs`` before, or the episode is longer than the buffer; nothing is added. Or the
                episode that ends is refused by `add_episode`; it is dropped.
        """
        with self._lock:
            self._parts.intake.add(obs, action, reward, next_obs, terminated, truncated, info)

    def truncate_open_episode(self) -> None:
        """End the open episode of `add` as truncated, if there is one: after an interruption, say.

        Raises:
            ValueError: `add_episode` refuses it; it is dropped.
        """
        with self._lock:
            self._parts.intake.truncate()

    def add_episode(self, episode: Episode) -> None:
        """Add a complete episode, evicting the oldest ones as far as needed.

        Args:
            episode: An episode of the buffer's spaces; it is copied.

        Raises:
            TypeError: It is no `Episode`.
            MemoryError: There is not so much memory.
            ValueError: The episode is longer than the buffer, does not fit the spaces, or has a reward that
                is not finite; or ``compute_reward`` or ``compute_terminated`` answer wrongly. Nothing is
                added or evicted.
        """
        self.add_episodes([require_episode("add_episode takes an Episode", episode)])

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add complete episodes, all or none; many at once cost much less than one by one.

        Args:
            episodes: `Episodes`, or any number of `Episode`, all of the buffer's spaces; they are copied.

        Raises:
            TypeError: There is something else among them.
            ValueError: As `add_episode`, for one of them, which is named.
        """
        many = as_sequence(episodes)
        with self._lock:
            self._parts.intake.store(many)

    def extend(self, episodes: Iterable[Episode] | Dataset) -> None:
        """Add the episodes of a source; those before one that is refused stay added.

        Args:
            episodes: An `EpisodeArchive`, which is read shard by shard, `Episodes`, a
                ``minari.MinariDataset``, or any number of `Episode`; of the last two, one at a time.

        Raises:
            TypeError: There is something else among them.
            ValueError: As `add_episode`.
        """
        for part in parts_of(episodes):
            self.add_episodes(part)

    def sample(self, batch_size: int, beta: float | None = None) -> Batch:
        """Draw transitions with replacement, uniformly or by their priorities, relabeled ones first.

        Args:
            batch_size: Number of transitions, B.
            beta: For the weights of this batch, instead of that of ``prioritized``.

        Raises:
            ValueError: ``batch_size`` is below 1, ``beta`` lies outside [0, 1] or has no priorities to go
                with, no episode is complete yet, or ``compute_reward`` or ``compute_terminated`` returns a
                wrong shape.
        """
        with self._lock:
            batch = self._parts.batches.next(self._parts.draws, batch_size, beta)
        return self._parts.backend.hand_out(batch)

    def update_priorities(self, index: Any, priorities: Any) -> int:
        """Give transitions new priorities: the larger, the more often they are drawn from now on.

        The largest priority so far, and at least 1, is that of new transitions.

        Args:
            index: (B,) numbers of transitions, as in ``batch.index``, an array or a tensor. Those that have
                been evicted since are left out.
            priorities: (B,) numbers of at least 0, such as ``np.abs(td_errors)``, an array or a tensor; where
                a transition has several, the largest counts.

        Returns:
            How many were left out.

        Raises:
            ValueError: They have other shapes, a number was never given to a transition, a priority is
                negative or not finite, or the buffer has no priorities; nothing changes.
        """
        with self._lock:
            left_out: int = self._parts.priorities.update(index, priorities)
            self._parts.draws.forget()
            return left_out

    def statistics(self, batch_size: int = 10_000) -> Statistics:
        """Describe what is stored, and a batch of what is sampled.

        The batch is drawn by a copy of the generator: what `sample` draws next stays the same.

        Args:
            batch_size: Rows to look at.

        Raises:
            ValueError: As `sample`.
        """
        with self._lock:
            batch = self._parts.batches.next(self._parts.draws.fork(), batch_size).to_numpy()
            return describe(
                batch, num_transitions=len(self), num_episodes=self.num_episodes, nbytes=self.nbytes
            )

    def verify(self) -> None:
        """Check that the buffer's tables agree with each other; costs time in proportion to its size.

        Raises:
            RuntimeError: They do not, as after memory was overwritten from outside.
        """
        with self._lock:
            self._parts.backend.storage.verify()
            self._parts.priorities.verify()

    def episodes(self) -> Iterator[Episode]:
        """Iterate over the stored episodes, oldest first, in memory of their own.

        They are those of when the iteration begins, less those that are evicted meanwhile. Rewards are as
        precise as float32; infos are those of ``info_keys``.
        """
        with self._lock:
            contents = self._parts.contents()
        for number in range(len(contents)):
            with self._lock:
                part = contents.read(number)
            yield from part.copies() if part is not None else ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all to a file that `load` reads: a crash at any moment leaves the file that was there before.

        The open episode of `add` is in it, too; functions are not. What other threads add or sample waits.

        Args:
            path: The file to write or replace.

        Raises:
            InUseError: Another writer is at work on ``path``.
            OSError: The file cannot be written.
            TypeError: A space is of a kind that JSON cannot describe.
        """
        with self._lock:
            state = State.of(self._parts, self._options)
            write_snapshot(path, state, self._parts.contents())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], env: AnyEnv | None = None, **options: Any
    ) -> HindsightReplayBuffer:
        """Read a buffer from a file that `save` wrote; it goes on as if it had never been away.

        It has the same transitions under the same indices, and samples the same batches next. Nothing in the
        file is trusted or executed. Functions are not in it: without ``env`` or a reward function all works
        but sampling what is relabeled.

        Args:
            path: The file.
            env: The environment, from which the functions are taken.
            **options: Arguments of the class that win over the saved ones: functions; another
                ``buffer_size``, where the oldest episodes go if it is smaller; a ``seed``, which begins anew.

        Raises:
            CorruptFileError: The file is damaged, something else, or of a later version.
            MemoryError: There is not so much memory.
            OSError: There is no such file, or it cannot be read.
            TypeError: ``env`` is no environment, or there is no such option.
            ValueError: ``env`` has other spaces, or an option has a value that it cannot have, or the saved
                buffer had a function as an option, which has to be given again.
        """
        with Snapshot(path) as snapshot:
            if env is not None:
                snapshot.require_spaces_of(env)
            merged = merged_options(snapshot.state.options, options)
            ready = with_functions(merged, has_env=env is not None, rule=snapshot.rule)
            if env is not None:
                buffer = cls.for_env(env, **ready)
            else:
                buffer = cls(snapshot.state.observation_space, snapshot.state.action_space, **ready)
            buffer._options = Options.of(merged)
            restore(snapshot, buffer._parts, buffer._options, given=options)
        return buffer

    def clear(self) -> None:
        """Drop everything stored and learned, the open episode of `add` included; indices go on.

        Raises:
            MemoryError: There is not so much memory as beginning anew takes; all stays as it was.
        """
        with self._lock:
            self._parts.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lock behind: copies get one of their own. Meanwhile no other thread may add or sample."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state, with a new lock."""
        self.__dict__.update(state)
        self._lock = threading.RLock()
