"""HindsightReplayBuffer: relabeled transitions of complete episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from her_wrappers.arguments import renamed_argument, require_torch
from her_wrappers.goal_interface import GoalInterface, find_function, goal_spaces, require_goal_space
from her_wrappers.replay.batch import Batch, Provenance, describe
from her_wrappers.replay.checkpoint import SavedBuffer, save_buffer
from her_wrappers.replay.episode_buffer import EpisodeBuffer
from her_wrappers.replay.goal_sampler import GoalSampler
from her_wrappers.replay.layout import StepLayout
from her_wrappers.replay.options import FORMER_NAME, Options, relabels
from her_wrappers.replay.prioritized import require_beta
from her_wrappers.replay.relabeling import zero_terminal_discounts
from her_wrappers.replay.sampling import BatchSampler, n_step_batch
from her_wrappers.replay.storage import EpisodeStorage

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

    Sampling is uniform over the transitions of complete episodes, or by priorities, and its cost does not
    depend on ``buffer_size``. In every batch, a share of k / (k + 1) in expectation, for k =
    ``n_sampled_goal`` and any batch size, has its desired goal replaced by an achieved one, its reward
    recomputed, and its termination set by ``termination``. Nothing else decides which rows are relabeled.

    Any episode of up to ``buffer_size`` steps can be added; whole episodes are evicted, oldest first. Memory
    is allocated for ``buffer_size`` * 33 / 32 states at first, and for more if episodes are short: T steps
    have T + 1 states. An observation that equals the achieved goal, as images do, is stored once for both.

    Several threads may add episodes and sample; only one of them may add transitions by `add`.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal`` of one environment.
        action_space: Actions of one environment.
        buffer_size: Maximum number of transitions.
        compute_reward: Rewards of a batch of goals; not needed if nothing is relabeled.
        reward_fn: Instead of ``compute_reward``: rewards of a `Batch` of transitions with their new goals,
            for rewards that need the state or the action. Its arrays are read-only; infos are not in it;
            rewards and terminations are as recorded, and discounts are ``gamma``. With ``n_steps``, it has
            all single steps.
        compute_terminated: Terminations of a batch of goals, if the environment has such a function.
        n_sampled_goal: Relabeled transitions per original one; 4 if the share is not given otherwise. 0 makes
            a plain replay buffer.
        her_ratio: Share of relabeled transitions, instead of ``n_sampled_goal``.
        goal_selection_strategy: Source of new goals. ``"future"``: a state of the episode after the step.
            ``"final"``: its last state. ``"episode"``: any state that it reached. ``"geometric"``, or
            `Geometric` with another gamma: a state after the step, near ones more often. ``"random"``: any
            state that any stored episode reached. Or a function ``(t, length, rng) -> s`` from steps to
            states, all (B,) integers. Or a `Mixture` of these.
        termination: Terminations of relabeled transitions. ``"recompute"``: by ``compute_terminated``; an
            episode that terminated independently of its goal (a crash) still does. ``"success"``: where the
            new reward is that of an achieved goal, and such other ends; for rewards of two values.
            ``"keep"``: as recorded. ``"never"``. Or a function used like ``compute_terminated``. The default
            is ``"recompute"`` if there is a ``compute_terminated``, else ``"keep"``.
        n_steps: Maximum number of steps whose rewards are summed, all under one goal, see `Batch`. A window
            ends with the episode, with the first step that terminates (of relabeled rows: under the new
            goal), and of original rows before the goal changes. The functions get all steps of all windows in
            one call; a shorter window repeats its last step.
        gamma: Discount factor of these sums, and of ``discounts``.
        resample_achieved_goals: Whether a new goal that was achieved before the step already is sampled once
            more. `statistics` returns the share of such goals. Called ``skip_trivial`` in version 0.1.
        info_keys: Infos that ``compute_reward`` or ``compute_terminated`` need, as recorded under the old
            goal. Without any, the functions get an empty dict per row.
        info_format: ``"list"``: functions get a list of dicts. ``"columns"``: one dict of (B, ...) arrays.
        prioritized: A `Priority`, to sample transitions by priorities that `update_priorities` sets. Takes
            8.6 bytes more per transition.
        seed: Seed of the private generator.
        device: None for batches of NumPy arrays, or a torch device such as ``"cuda"`` for tensors on it. The
            same seed gives the same rows and goals everywhere. If the functions accept tensors (they are
            tried with two rows), transitions are stored and relabeled on the device; otherwise on the host,
            and each batch is copied to the device.

    Raises:
        ImportError: ``device`` needs torch.
        MemoryError: Not enough memory for ``buffer_size`` transitions.
        TypeError: A space has elements that are not arrays of one shape, or have a dtype that torch has not.
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
        """Make an empty buffer; only one that is loaded without functions relabels and has no relabeler."""
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
        """Make a buffer for an environment, single or vectorised: its spaces, rewards and terminations.

        Args:
            env: A goal environment, with any wrappers around it, or a vector environment of such.
            **options: The other arguments of the class; functions have precedence over the environment's.

        Raises:
            TypeError: ``env`` is not an environment.
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
        """Sample transitions with replacement, uniformly or by priorities; relabeled ones come first.

        Args:
            batch_size: Number of transitions, B.
            beta: Exponent of the weights of this batch, instead of that of ``prioritized``.

        Raises:
            ValueError: ``batch_size`` is below 1, ``beta`` is out of [0, 1] or given without priorities, no
                episode is complete, or ``compute_reward`` or ``compute_terminated`` returns a wrong result.
        """
        with self._lock:
            batch = self._sample(self._sampler, batch_size, beta)
        return batch if self._device is None or self._storage.on_device else batch.to_torch(self._device)

    def _sample(self, sampler: BatchSampler, batch_size: int, beta: float | None = None) -> Batch:
        """Return a batch where the storage is."""
        storage, priorities = self._storage, self._priorities
        if beta is not None:
            require_beta(beta, priorities)
        sampled, num_relabeled = sampler.next(batch_size)
        if priorities is None:
            weights = storage.filled(batch_size, 1)
        else:
            weights = storage.to_device(priorities.weights(sampled.host_serials, beta))
        desired = storage.desired_goals(
            sampled.goal_states[:num_relabeled], sampled.segment_slots[num_relabeled:]
        )
        if sampled.steps_left is None:
            steps = storage.gather(sampled.serials, sampled.states, desired)
            batch = self._relabel(steps, weights, sampled.is_relabeled, sampled.serials, num_relabeled)
            zero_terminal_discounts(batch.discounts, batch.terminations)
        else:
            n_steps, gamma = self._options.n_steps, self._options.gamma
            columns = sampled, desired, weights
            batch = n_step_batch(storage, *columns, self._relabel, num_relabeled, n_steps, gamma)
        batch.provenance = Provenance(
            sampled.episode, sampled.goal_index, sampled.component, self._mixture.names
        )
        return batch

    def _relabel(
        self, steps: StoredSteps, weights: Any, is_relabeled: Any, serials: Any, num_relabeled: int
    ) -> Batch:
        """Return single steps as a batch, the first of them with rewards and terminations under new goals."""
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
        """Set the priorities of transitions: the larger, the more often they are sampled from now on.

        New transitions get the largest priority so far, and at least 1.

        Args:
            index: (B,) serial numbers of transitions, as in ``batch.index``, an array or a tensor.
                Transitions that have been evicted are left out.
            priorities: (B,) numbers of at least 0, such as ``np.abs(td_errors)``, an array or a tensor; if a
                transition has several, the largest counts.

        Returns:
            Number of transitions that are left out.

        Raises:
            ValueError: The shapes differ, a serial number was never given to a transition, a priority is
                negative or not finite, or the buffer has no priorities; nothing changes.
        """
        if self._priorities is None:
            raise ValueError("this buffer has no priorities; make it with prioritized=Priority()")
        with self._lock:
            left_out = self._priorities.update(index, priorities)
            self._sampler.invalidate()
            return left_out

    def statistics(self, batch_size: int = 10_000) -> Statistics:
        """Describe what is stored, and a batch of what is sampled.

        The batch is sampled with a copy of the generator: what `sample` returns next stays the same.

        Args:
            batch_size: Number of rows to describe.

        Raises:
            ValueError: As `sample`.
        """
        with self._lock:
            batch = self._sample(self._sampler.fork(), batch_size).to_numpy()
            return describe(batch, len(self), self.num_episodes, self.nbytes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to a file that `load` reads. A crash at any moment leaves the previous file.

        The open episodes of `add` are included, functions are not. Other threads wait meanwhile.

        Args:
            path: The file to write or replace.

        Raises:
            InUseError: Another process writes to ``path``.
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
        """Read a buffer from a file that `save` wrote; sampling continues with the same random sequence.

        Transitions keep their serial numbers. Nothing in the file is trusted or executed. Functions are not
        in it: without ``env`` or a reward function everything works but sampling relabeled transitions.

        Args:
            path: The file.
            env: The environment whose functions are used.
            **options: Arguments of the class that have precedence over the saved ones: functions; another
                ``buffer_size``, for which the oldest episodes are dropped if it is smaller; a new ``seed``.

        Raises:
            CorruptFileError: The file is damaged, not a buffer, or of a later version.
            MemoryError: Not enough memory.
            OSError: The file does not exist, or cannot be read.
            TypeError: ``env`` is not an environment, or an option is unknown.
            ValueError: ``env`` has other spaces, an option has a wrong value, or an option of the saved
                buffer was a function, which has to be given again.
        """
        with SavedBuffer(path) as saved:
            buffer: HindsightReplayBuffer = saved.load(cls, env, options)
        return buffer
