"""HindsightReplayBuffer: whole episodes in, relabeled transitions out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.arguments import require_count, require_function, require_gamma, require_keys
from her_wrappers.goal_interface import GoalInterface, find_function, goal_spaces, require_goal_space
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.dataset import Dataset, episodes_of
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.open_episode import OpenEpisode
from her_wrappers.recording.values import as_reward
from her_wrappers.replay.backends import choose_backend
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.replay.goals.shares import Shares
from her_wrappers.replay.priorities.stored import make_priorities
from her_wrappers.replay.refusal import require_each, require_fit
from her_wrappers.replay.relabeling.missing_functions import MissingFunctions, missing_reward
from her_wrappers.replay.relabeling.relabeling import BatchRewards, GoalRewards, Relabeling
from her_wrappers.replay.relabeling.termination import make_termination
from her_wrappers.replay.sampling.draws import Draws
from her_wrappers.replay.sampling.windows import end_at
from her_wrappers.replay.saving.saved_options import draws_alike, merged_options, relabels, with_functions
from her_wrappers.replay.saving.snapshot import Snapshot, State, write_snapshot
from her_wrappers.replay.statistics import Statistics, describe
from her_wrappers.replay.storage.contents import Contents
from her_wrappers.replay.storage.infos import InfoFormat, InfoLayout
from her_wrappers.replay.storage.step_layout import INFINITE, StepLayout

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import torch
    from gymnasium import spaces

    from her_wrappers.goal_interface import AnyEnv, GoalFunction
    from her_wrappers.replay.goals.shares import Choice
    from her_wrappers.replay.priorities.priority import Priority
    from her_wrappers.replay.relabeling.relabeling import BatchFunction, RewardRule
    from her_wrappers.replay.relabeling.termination import TerminationMode
    from her_wrappers.replay.sampling.draws import Draw
    from her_wrappers.replay.storage.steps import Records, Steps
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
        goal_selection_strategy: Choice = "future",
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
        self.buffer_size = require_count("buffer_size", buffer_size, at_least=1)
        self._n_steps = require_count("n_steps", n_steps, at_least=1)
        self._gamma = require_gamma(gamma)
        self._options = {
            "buffer_size": self.buffer_size,
            "n_sampled_goal": n_sampled_goal,
            "her_ratio": her_ratio,
            "goal_selection_strategy": goal_selection_strategy,
            "termination": termination,
            "n_steps": self._n_steps,
            "gamma": self._gamma,
            "skip_trivial": bool(skip_trivial),
            "info_keys": tuple(info_keys),
            "info_format": info_format,
            "prioritized": prioritized,
        }
        shares = Shares(goal_selection_strategy, n_sampled_goal, her_ratio)
        self._names = shares.names
        self._infos = InfoLayout(require_keys("info_keys", info_keys), info_format)
        self._layout = StepLayout(goal_space, action_space, self._infos)
        rewards = _reward_rule(compute_reward, reward_fn)
        if rewards is None and shares.relabels:
            raise ValueError(
                "relabeling needs compute_reward(achieved_goal, desired_goal, info); "
                "pass compute_reward= or reward_fn=, or n_sampled_goal=0 for plain replay"
            )
        rule = make_termination(termination, compute_terminated, goal_space["achieved_goal"])
        self._relabeling: Relabeling | MissingFunctions | None = None
        if reward_fn is missing_reward:
            self._relabeling = MissingFunctions()
        elif rewards is not None and shares.relabels:
            self._relabeling = Relabeling(self._layout, self._infos, rewards, rule, self._gamma)
        self._storage, self._device, self._on_device = choose_backend(
            device,
            goal_space,
            action_space,
            buffer_size=self.buffer_size,
            layout=self._layout,
            infos=self._infos,
            relabeling=self._relabeling,
        )
        self._open_episode = OpenEpisode(goal_space, action_space, self._infos.keys)
        self._rng = np.random.default_rng(seed)
        self._priorities = make_priorities(prioritized, self._storage, self.buffer_size)
        self._draws = Draws(
            self._storage,
            shares,
            self._rng,
            priorities=self._priorities,
            skip_trivial=skip_trivial,
            windowed=self._n_steps > 1,
            gamma=self._gamma,
        )
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
        if 0 in {options.get("n_sampled_goal"), options.get("her_ratio")}:
            return cls(*goal_spaces(env), **options)
        if options.get("reward_fn") is not None:
            options.setdefault("compute_terminated", find_function(env, "compute_terminated"))
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
        return self._storage.num_steps

    @property
    def num_episodes(self) -> int:
        """Number of stored episodes."""
        return self._storage.num_episodes

    @property
    def can_sample(self) -> bool:
        """Whether there is a complete episode to sample from."""
        return len(self) > 0

    @property
    def device(self) -> torch.device | None:
        """Where batches of tensors are handed out; None for NumPy arrays."""
        return self._device

    @property
    def on_device(self) -> bool:
        """Whether transitions are kept, gathered and relabeled on the device, as tensors."""
        return self._on_device

    @property
    def nbytes(self) -> int:
        """Bytes allocated for transitions and their priorities."""
        return self._storage.nbytes + self._priorities.nbytes

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
            length = max(0, self._open_episode.length)
            number = as_reward(reward, length)
            _require_finite(number, length)
            _require_flag("terminated", terminated)
            _require_flag("truncated", truncated)
            self._begin_or_continue(obs, length)
            self._open_episode.act(action)
            self._open_episode.observe(number, next_obs, info or {})
            if terminated or truncated:
                episode = self._open_episode.finish(terminated=bool(terminated), truncated=bool(truncated))
                self.add_episode(episode)

    def truncate_open_episode(self) -> None:
        """End the open episode of `add` as truncated, if there is one: after an interruption, say.

        Raises:
            ValueError: `add_episode` refuses it; it is dropped.
        """
        with self._lock:
            if self._open_episode.length > 0:
                self.add_episode(self._open_episode.finish(terminated=False, truncated=True))
            self._open_episode.forget()

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
        if not isinstance(episode, Episode):
            raise TypeError(f"add_episode takes an Episode, got {type(episode).__name__}")
        self.add_episodes([episode])

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add complete episodes, all or none; many at once cost much less than one by one.

        Args:
            episodes: `Episodes`, or any number of `Episode`, all of the buffer's spaces; they are copied.

        Raises:
            TypeError: There is something else among them.
            ValueError: As `add_episode`, for one of them, which is named.
        """
        if isinstance(episodes, Episode):
            raise TypeError("add_episodes takes many episodes, got one Episode; use add_episode")
        if not isinstance(episodes, Episodes):
            episodes = list(episodes)
            if not episodes:
                return
        with self._lock:
            try:
                together = Episodes.of(episodes)
                require_fit(together, self.buffer_size)
                encoded = self._storage.encode(together)
            except ValueError:
                require_each(episodes, self._layout, self.buffer_size)
                raise
            if self._relabeling is not None:
                for part in encoded:
                    self._relabeling.learn(part)
            self._draws.forget()
            for part in encoded:
                self._storage.append(part)

    def extend(self, episodes: Iterable[Episode] | Dataset) -> None:
        """Add the episodes of a source; those before one that is refused stay added.

        Args:
            episodes: An `EpisodeArchive`, which is read shard by shard, `Episodes`, a
                ``minari.MinariDataset``, or any number of `Episode`; of the last two, one at a time.

        Raises:
            TypeError: There is something else among them.
            ValueError: As `add_episode`.
        """
        if isinstance(episodes, EpisodeArchive):
            for shard in episodes.batches():
                self.add_episodes(shard)
        elif isinstance(episodes, Episodes):
            self.add_episodes(episodes)
        else:
            for episode in episodes_of(episodes) if isinstance(episodes, Dataset) else episodes:
                self.add_episode(episode)

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
            batch = self._sample(batch_size, self._draws, beta)
        return batch if self._device is None or self._on_device else batch.to_torch(self._device)

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
            left_out: int = self._priorities.update(index, priorities)
            self._draws.forget()
            return left_out

    def _sample(self, batch_size: int, draws: Draws, beta: float | None = None) -> Batch:
        self._priorities.require_beta(beta)
        draw, count = draws.next(batch_size)
        weights = self._priorities.weights(draw, beta)
        desired = self._storage.desired_goals(draw.sources[:count], draw.places[count:])
        if self._n_steps == 1:
            steps = self._storage.take(draw.numbers, draw.states, desired)
            batch = self._relabel(steps, (draw.discounts, weights, draw.relabeled), count)
        else:
            batch = self._add_up(draw, desired, weights, count)
        batch.provenance = Provenance(draw.first_index, draw.goal_index, draw.part, self._names)
        return batch

    def _relabel(self, steps: Steps, columns: tuple[Any, Any, Any], count: int) -> Batch:
        """Return single steps, of which the first ``count`` are relabeled.

        Args:
            steps: They.
            columns: Their discounts if none terminates, their weights, and which are relabeled.
            count: How many are.
        """
        discounts, weights, relabeled = columns
        batch = Batch(*self._layout.parts(steps), discounts, weights, relabeled, steps.numbers)
        if self._relabeling is not None and count:
            self._relabeling.relabel(batch, steps, count)
        end_at(discounts, batch.terminations)
        return batch

    def _add_up(self, draw: Draw, desired: Records, weights: Any, count: int) -> Batch:
        """Return windows of steps, of which the first ``count`` are relabeled."""
        storage, first = self._storage, draw.states[0]
        windows = storage.windows(draw.left, self._n_steps)
        numbers, begins = windows.steps(draw.numbers), windows.steps(first)
        steps = storage.take(numbers, storage.between(begins, begins + 1), windows.spread(desired))
        of_steps = windows.spread(draw.discounts), windows.spread(weights), windows.spread(draw.relabeled)
        singles = self._relabel(steps, of_steps, count * windows.width)
        returns = windows.returns(singles, self._gamma)
        ends = storage.take(draw.numbers, storage.between(first, first + returns.lengths), desired)
        observations, actions, _, next_observations, *_ = self._layout.parts(ends)
        return Batch(
            observations,
            actions,
            returns.rewards,
            next_observations,
            returns.terminations,
            returns.truncations,
            returns.discounts,
            weights,
            draw.relabeled,
            draw.numbers,
        )

    def statistics(self, batch_size: int = 10_000) -> Statistics:
        """Describe what is stored, and a batch of what is sampled.

        The batch is drawn by a copy of the generator: what `sample` draws next stays the same.

        Args:
            batch_size: Rows to look at.

        Raises:
            ValueError: As `sample`.
        """
        with self._lock:
            batch = self._sample(batch_size, self._draws.fork()).to_numpy()
            return describe(
                batch, num_transitions=len(self), num_episodes=self.num_episodes, nbytes=self.nbytes
            )

    def verify(self) -> None:
        """Check that the buffer's tables agree with each other; costs time in proportion to its size.

        Raises:
            RuntimeError: They do not, as after memory was overwritten from outside.
        """
        with self._lock:
            self._storage.verify()
            self._priorities.verify()

    def episodes(self) -> Iterator[Episode]:
        """Iterate over the stored episodes, oldest first, in memory of their own.

        They are those of when the iteration begins, less those that are evicted meanwhile. Rewards are as
        precise as float32; infos are those of ``info_keys``.
        """
        with self._lock:
            contents = Contents(self._storage, self._layout, self._infos)
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
            state = State(
                observation_space=self.observation_space,
                action_space=self.action_space,
                options=self._options,
                shared=self._layout.shared,
                first_index=self._storage.first_index,
                learned=None if self._relabeling is None else self._relabeling.learned(),
                generator=self._rng.bit_generator.state,
                priorities=self._priorities.saved(),
                ahead=self._draws.ahead(),
                open_episode=self._open_episode.copy() if self._open_episode.length > 0 else None,
            )
            write_snapshot(path, state, Contents(self._storage, self._layout, self._infos))

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
            if env is not None and relabels(merged):
                buffer = cls.for_env(env, **ready)
            else:
                buffer = cls(snapshot.state.observation_space, snapshot.state.action_space, **ready)
            buffer._restore(snapshot, merged, options)
        return buffer

    def _restore(self, snapshot: Snapshot, merged: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Take over what a file holds into an empty buffer made for it.

        Raises:
            CorruptFileError: It is damaged.
        """
        state = snapshot.state
        self._options = {key: merged[key] for key in self._options}
        learn = None
        if self._relabeling is not None:
            with snapshot.blamed():
                known = self._relabeling.recall(state.learned) and "termination" not in given
            learn = None if known else self._relabeling.learn
        snapshot.fill(self._storage, self._layout, learn, self.buffer_size)
        if state.priorities is not None:
            with snapshot.blamed():
                self._priorities.restore(state.priorities, state.first_index, state.options["prioritized"])
        if "seed" not in given:
            self._rng.bit_generator.state = state.generator
            if draws_alike(state.options, merged) and self._storage.first_index == state.first_index:
                with snapshot.blamed():
                    self._draws.restore(state.ahead)
        if state.open_episode is not None:
            with snapshot.blamed():
                self._open_episode.resume(state.open_episode)

    def clear(self) -> None:
        """Drop everything stored and learned, the open episode of `add` included; indices go on.

        Raises:
            MemoryError: There is not so much memory as beginning anew takes; all stays as it was.
        """
        with self._lock:
            self._storage.clear()
            self._draws.forget()
            self._priorities.forget()
            self._open_episode.forget()
            if self._relabeling is not None:
                self._relabeling.forget()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lock behind: copies get one of their own. Meanwhile no other thread may add or sample."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state, with a new lock."""
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def _begin_or_continue(self, obs: Mapping[str, Tree], length: int) -> None:
        """Begin an episode with ``obs``, or see that it follows on the open one.

        Raises:
            ValueError: It does not, or does not fit its space, or the episode is as long as the buffer.
        """
        if length == 0:
            self._open_episode.begin(obs, {})
            return
        try:
            self._open_episode.require_continuation(obs)
        except ValueError as error:
            raise ValueError(
                f"{error}; pass terminated or truncated where an episode ends or its goal is changed from "
                "outside, or call truncate_open_episode() after an interruption"
            ) from error
        if length >= self.buffer_size:
            raise ValueError(
                f"an episode must fit the buffer of {self.buffer_size} transitions, and the open one has as "
                "many; raise buffer_size, or pass truncated before, or call truncate_open_episode()"
            )


def _require_finite(reward: float, step: int) -> None:
    if not abs(reward) < INFINITE:
        raise ValueError(f"reward must be finite as float32, got {reward} at step {step}")


def _require_flag(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be one bool, got {value!r}")


def _reward_rule(compute_reward: GoalFunction | None, reward_fn: BatchFunction | None) -> RewardRule | None:
    if compute_reward is not None and reward_fn is not None:
        raise ValueError("rewards must be computed in one way, got compute_reward and reward_fn; pass one")
    if reward_fn is not None:
        require_function("reward_fn", reward_fn, "batch")
        return BatchRewards(reward_fn)
    if compute_reward is not None:
        require_function("compute_reward", compute_reward)
        return GoalRewards(compute_reward)
    return None
