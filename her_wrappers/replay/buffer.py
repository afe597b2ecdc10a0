"""HindsightReplayBuffer: relabeled transitions of complete episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from her_wrappers.arguments import require_torch
from her_wrappers.goal_interface import GoalInterface, find_function, goal_spaces, require_goal_space
from her_wrappers.replay.batch import Batch, Provenance, compute_statistics, zero_terminal_discounts
from her_wrappers.replay.checkpoint import SavedBuffer, save_buffer
from her_wrappers.replay.episode_buffer import EpisodeBuffer
from her_wrappers.replay.goal_sampler import GoalSampler
from her_wrappers.replay.layout import StepLayout
from her_wrappers.replay.options import FORMER_NAME, Options, relabels
from her_wrappers.replay.prioritized import require_beta
from her_wrappers.replay.sampling import BatchSampler, n_step_batch
from her_wrappers.replay.storage import EpisodeStorage
from her_wrappers.user_warning import renamed_argument

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import torch
    from gymnasium import spaces

    from her_wrappers.goal_interface import AnyEnv, GoalFunction
    from her_wrappers.replay.batch import Statistics
    from her_wrappers.replay.byte_rows import StoredSteps
    from her_wrappers.replay.goal_sampler import GoalSelection
    from her_wrappers.replay.options import InfoFormat
    from her_wrappers.replay.prioritized import Priority
    from her_wrappers.replay.relabeling import Relabeler
    from her_wrappers.replay.rewards import BatchFunction
    from her_wrappers.replay.terminations import TerminationMode


class HindsightReplayBuffer(EpisodeBuffer):
    """A replay buffer that relabels goals in hindsight while sampling (HER, arXiv 1707.01495).

    Transitions of complete episodes are sampled uniformly or by priorities, in time that hardly depends on
    ``buffer_size``. With k = ``n_sampled_goal``, a share of k / (k + 1) of the rows is relabeled, in
    expectation and for any batch size: an achieved goal replaces the desired goal, the reward is computed
    again, and ``termination`` determines the termination.

    Episodes of up to ``buffer_size`` steps can be added; whole episodes are evicted, oldest first. Memory is
    allocated for ``buffer_size`` * 33 / 32 states at first, and for more if episodes are short, since T steps
    have T + 1 states. An observation that equals the achieved goal, such as an image, is stored once.

    Several threads may add episodes and sample; only one thread may call `add`.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal`` of one environment.
        action_space: Actions of one environment.
        buffer_size: Maximum number of transitions.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the (B,) rewards of a
            batch of goals; not needed if nothing is relabeled.
        reward_fn: Function that returns the (B,) rewards of a `Batch`, instead of ``compute_reward``, if
            rewards depend on the state or the action. The batch has the relabeled transitions with new goals,
            recorded rewards and terminations, and discounts ``gamma``; with ``n_steps``, the single steps of
            the windows. The batch has no infos.
        compute_terminated: Function ``(achieved_goal, desired_goal, info)`` that returns the (B,)
            terminations of a batch of goals, if the environment has such a function.
        n_sampled_goal: Number of relabeled transitions per original transition, k; the default is 4. With 0,
            nothing is relabeled.
        her_ratio: Share of relabeled transitions, instead of ``n_sampled_goal``.
        goal_selection_strategy: Source of new goals. ``"future"``: a state of the episode after the step.
            ``"final"``: the last state of the episode. ``"episode"``: any state of the episode after the
            first. ``"geometric"``, or `Geometric` with another gamma: a state after the step, with
            probabilities that decrease with the distance. ``"random"``: any state of any stored episode after
            the first. ``"desired"``: the desired goal after any stored step. Or a function
            ``(t, length, rng) -> s`` from steps to states, all (B,) integers, or a `Mixture` of these.
        termination: Terminations of relabeled transitions. ``"recompute"``: by ``compute_terminated``; a
            step that terminated independently of its goal, such as a crash, still terminates.
            ``"success"``: a step terminates if its new reward is that of an achieved goal, or if it
            terminated independently of its goal; needs rewards of two values. ``"keep"``: as recorded.
            ``"never"``: none. Or a function like ``compute_terminated``. By default ``"recompute"`` with
            ``compute_terminated``, else ``"keep"``.
        n_steps: Maximum number of steps whose rewards are summed under one goal, see `Batch`. A window ends
            with the episode, with the first step that terminates (under the new goal if relabeled), or, if it
            is not relabeled, before the goal changes. The functions get the steps of all windows in one call;
            a shorter window repeats its last step.
        gamma: Discount factor of the sums of rewards and of ``discounts``.
        resample_achieved_goals: Whether a new goal that was already achieved before the step is sampled once
            more. `statistics` returns the share of such goals. Called ``skip_trivial`` in version 0.1.
        info_keys: Infos that are stored for ``compute_reward`` and ``compute_terminated``, as recorded under
            the original goal. Without ``info_keys``, the functions get an empty dict per row.
        info_format: Form of the infos that functions get: ``"list"`` of dicts, or ``"columns"``, one dict of
            (B, ...) arrays.
        prioritized: Options of sampling by priorities, which `update_priorities` sets; None for uniform
            sampling. Priorities take about 8.6 bytes per transition.
        seed: Seed of the private generator.
        device: Torch device of the batches, such as ``"cuda"``; None for NumPy arrays. The same seed gives
            the same rows and goals on all devices. If the functions accept tensors, transitions are
            stored and relabeled on the device; otherwise batches are copied to it.

    Raises:
        ImportError: ``device`` is given, but torch is not installed.
        MemoryError: Not enough memory for ``buffer_size`` transitions.
        TypeError: An argument has a wrong type, elements of a space are not arrays of one shape, or torch
            does not support their dtype.
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

    @renamed_argument(*FORMER_NAME)
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
        resample_achieved_goals: bool = False,
        info_keys: Sequence[str] = (),
        info_format: InfoFormat = "list",
        prioritized: Priority | None = None,
        seed: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        options = Options(
            buffer_size=buffer_size,
            n_sampled_goal=n_sampled_goal,
            her_ratio=her_ratio,
            goal_selection_strategy=goal_selection_strategy,
            termination=termination,
            n_steps=n_steps,
            gamma=gamma,
            resample_achieved_goals=resample_achieved_goals,
            info_keys=info_keys,
            info_format=info_format,
            prioritized=prioritized,
        )
        goal_space = require_goal_space(observation_space)
        relabeler = options.make_relabeler(goal_space, compute_reward, reward_fn, compute_terminated)
        self._set_up(goal_space, action_space, options, relabeler, seed=seed, device=device)

    def _set_up(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        options: Options,
        relabeler: Relabeler | None,
        *,
        seed: int | None,
        device: str | torch.device | None,
    ) -> None:
        """Initialize an empty buffer; ``relabeler`` is None without relabeling or without functions."""
        layout = StepLayout.of(observation_space, action_space, options.info_keys)
        self._device: torch.device | None = None
        if device is None:
            storage = EpisodeStorage(layout, options.buffer_size)
        else:
            require_torch(f"device={str(device)!r}", otherwise="leave device out")
            from her_wrappers.replay.torch_backend import make_storage  # noqa: PLC0415 - imports torch

            storage, self._device = make_storage(device, layout, options.buffer_size, relabeler)
        super().__init__(storage, options, relabeler)
        self._mixture = options.goal_mixture()
        goals = GoalSampler(self._mixture, resample_achieved_goals=options.resample_achieved_goals)
        windowed = options.n_steps > 1
        self._sampler = BatchSampler(storage, self._mixture, goals, self._priorities, seed, windowed=windowed)

    @classmethod
    def for_env(cls, env: AnyEnv, **options: Any) -> HindsightReplayBuffer:
        """Make a buffer with the spaces and goal functions of a single or vectorized environment.

        Args:
            env: A goal environment, with any wrappers, or a vector environment of goal environments.
            **options: Other arguments of the class; functions have precedence over those of ``env``.

        Raises:
            ImportError: ``device`` is given, but torch is not installed.
            MemoryError: Not enough memory for ``buffer_size`` transitions.
            TypeError: ``env`` is not an environment, or an option is unknown or has a wrong type.
            ValueError: ``env`` has no goal interface, or an option has a wrong value.
        """
        if relabels(**options) and options.get("reward_fn") is None:
            functions = {name: options.pop(name, None) for name in ("compute_reward", "compute_terminated")}
            interface = GoalInterface.of(env, **functions)
            options["compute_reward"] = interface.compute_reward
            options["compute_terminated"] = interface.compute_terminated
        elif relabels(**options) and options.get("compute_terminated") is None:
            options["compute_terminated"] = find_function(env, "compute_terminated")
        return cls(*goal_spaces(env), **options)

    @property
    def device(self) -> torch.device | None:
        """Device of the batches; None for NumPy arrays."""
        return self._device

    @property
    def on_device(self) -> bool:
        """Whether transitions are stored and relabeled on the device, as tensors."""
        return self._storage.on_device

    def sample(self, batch_size: int, beta: float | None = None) -> Batch:
        """Sample transitions with replacement, uniformly or by priorities; relabeled rows come first.

        Args:
            batch_size: Number of transitions, B.
            beta: Exponent of the weights of this batch, instead of that of ``prioritized``.

        Raises:
            ValueError: ``batch_size`` is not an integer of at least 1, ``beta`` is out of [0, 1] or given
                without priorities, no episode is complete, a function returns a wrong result, a sum of
                ``n_steps`` rewards is not finite as float32, or the buffer was loaded without functions.
        """
        with self._lock:
            batch = self._sample(self._sampler, batch_size, beta)
        return batch if self._device is None or self._storage.on_device else batch.to_torch(self._device)

    def _sample(self, sampler: BatchSampler, batch_size: int, beta: float | None = None) -> Batch:
        """Return a batch: tensors if the storage is on a torch device, else NumPy arrays."""
        storage, priorities = self._storage, self._priorities
        if beta is not None:
            require_beta(beta, priorities)
        sampled = sampler.next(batch_size)
        num_relabeled, num_achieved = sampled.num_relabeled, sampled.num_achieved
        if priorities is None:
            weights = storage.filled(batch_size, 1)
        else:
            weights = storage.to_device(priorities.weights(sampled.host_serials, beta))
        goal_states, segment_slots = sampled.goal_states[:num_achieved], sampled.segment_slots[num_achieved:]
        desired = storage.desired_goals(goal_states, segment_slots, num_relabeled - num_achieved)
        if sampled.steps_left is None:
            steps = storage.gather(sampled.serials, sampled.states, desired)
            batch = self._relabel(steps, weights, sampled.is_relabeled, sampled.serials, num_relabeled)
            zero_terminal_discounts(batch.discounts, batch.terminations)
        else:
            n_steps, gamma = self._options.n_steps, self._options.gamma
            columns = sampled, desired, weights
            batch = n_step_batch(storage, *columns, self._relabel, n_steps, gamma)
        batch.provenance = Provenance(
            sampled.episode, sampled.goal_index, sampled.component, self._mixture.names
        )
        return batch

    def _relabel(
        self, steps: StoredSteps, weights: Any, is_relabeled: Any, serials: Any, num_relabeled: int
    ) -> Batch:
        """Return single steps as a batch, with new rewards and terminations in the relabeled rows."""
        discounts = self._storage.filled(len(serials), self._options.gamma)
        fields = self._storage.memory.layout.transitions(steps)
        batch = Batch(*fields, discounts, weights, is_relabeled, serials)
        if num_relabeled:
            if self._relabeler is None:
                raise ValueError(
                    "relabeled transitions need their rewards computed, and the buffer was loaded without "
                    "functions; load it with env=, compute_reward= or reward_fn="
                )
            self._relabeler.relabel(batch, steps, num_relabeled)
        return batch

    def update_priorities(self, index: Any, priorities: Any) -> int:
        """Set the priorities of transitions; transitions with larger priorities are sampled more often.

        New transitions get the largest priority so far, and at least 1.

        Args:
            index: (B,) serial numbers of transitions, as in ``batch.index``, an array or a tensor. Evicted
                transitions are ignored.
            priorities: (B,) numbers of at least 0, such as ``np.abs(td_errors)``, an array or a tensor; a
                transition that occurs several times gets the largest.

        Returns:
            Number of transitions that are ignored.

        Raises:
            ValueError: The shapes differ, a serial number was never given to a transition, a priority is
                negative or not finite, or the buffer has no priorities. No priority changes.
        """
        if self._priorities is None:
            raise ValueError("this buffer has no priorities; make it with prioritized=Priority()")
        with self._lock:
            left_out = self._priorities.update(index, priorities)
            self._sampler.invalidate()
            return left_out

    def statistics(self, batch_size: int = 10_000) -> Statistics:
        """Return statistics of the stored episodes and of a batch.

        The batch is sampled with a copy of the generator, so the next batches of `sample` do not change.

        Args:
            batch_size: Number of rows of the batch.

        Raises:
            ValueError: A batch cannot be sampled, see `sample`.
        """
        with self._lock:
            batch = self._sample(self._sampler.fork(), batch_size).to_numpy()
            return compute_statistics(batch, len(self), self.num_episodes, self.nbytes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to a file that `load` reads. A crash at any moment leaves the previous file.

        The file includes the open episodes of `add`, but no functions. Other threads wait meanwhile.

        Args:
            path: The file to write or replace.

        Raises:
            InUseError: Another writer, in this process or in another one, writes to ``path``.
            OSError: The file cannot be written.
            TypeError: JSON cannot describe a space.
        """
        with self._lock:
            save_buffer(path, self, self._sampler)

    @classmethod
    @renamed_argument(*FORMER_NAME)
    def load(
        cls, path: str | os.PathLike[str], env: AnyEnv | None = None, **options: Any
    ) -> HindsightReplayBuffer:
        """Read a buffer from a file that `save` wrote.

        Sampling continues with the same random sequence, unless options such as ``seed`` change it.
        Transitions keep their serial numbers. Nothing in the file is trusted or executed. Functions are not
        saved: without ``env`` or a reward function, relabeled transitions cannot be sampled.

        Args:
            path: The file.
            env: The environment whose functions are used.
            **options: Arguments of the class that have precedence over the saved options, such as functions
                or ``seed``. With a smaller ``buffer_size``, the oldest episodes are evicted.

        Raises:
            CorruptFileError: The file is damaged, not a buffer, or of a later version.
            ImportError: ``device`` is given, but torch is not installed.
            MemoryError: Not enough memory.
            OSError: The file does not exist, or cannot be read.
            TypeError: ``env`` is not an environment, or an option is unknown.
            ValueError: ``env`` has other spaces, an option has a wrong value, or a saved option was a
                function and is not given again.
        """
        with SavedBuffer(path) as saved:
            buffer: HindsightReplayBuffer = saved.load(cls, env, options)
        return buffer
