"""DeviceReplayBuffer: relabeled transitions of a batched simulator, stored as tensors on its device."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from her_wrappers.data.arrays import ArrayFile, as_corrupt, write_arrays
from her_wrappers.goals.functions import GoalFunction, rewards_agree
from her_wrappers.goals.interface import OBSERVATION_KEYS, require_goal_space
from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.space_json import space_from_json, space_to_json
from her_wrappers.replay.batch import Batch, Provenance, Statistics, statistics_of
from her_wrappers.replay.goal_selection import STRATEGIES, Geometric, GoalSelection, final, future
from her_wrappers.replay.lanes import Lanes, LaneSteps, NewGoals, SimulatorStep
from her_wrappers.replay.options import (
    SAVED,
    BufferOptions,
    Demonstrations,
    functions_missing,
    option_from_json,
    options_to_json,
)
from her_wrappers.replay.relabeling import (
    BatchFunction,
    TerminationMode,
    follows_recorded,
    reads_unstored_info,
    require_reward,
    resolve_termination,
)
from her_wrappers.replay.tensors import call_unchanged, find_device, is_capturing
from her_wrappers.support.arguments import require_count
from her_wrappers.support.user_warning import warn_user

KIND, VERSION = "replay buffer on a device", 1
SPACES, SIZES = ("observation_space", "action_space"), ("num_envs", "steps_per_env", "states_per_env")
MIN_STATES = 4  # so that each step that is added can be sampled
SAVED_HERE = [name for name in SAVED if name not in {"buffer_size", "prioritized"}]
INSPECTED = (1, 10, 100, 1000)  # in its calls with these numbers, `sample` inspects the data, and waits


class DeviceReplayBuffer:
    """A replay buffer for batched simulators: stores tensors on a device, and relabels goals in hindsight.

    In episodes that have not ended, ``"future"`` chooses among the states up to the newest. Single steps are
    evicted, oldest first.

    A CUDA graph can capture both methods if the functions of the buffer do not wait for the device; register
    `generator` with the graph. `add` never waits; `sample` waits only in its calls 1, 10, 100 and 1,000, and
    never during a capture. `len`, `statistics` and `save` wait too. All calls that wait, except
    `len`, raise ValueError if NaN, an infinite goal or an infinite reward was added.

    Args:
        observation_space: Dict space of one environment: ``observation``, ``achieved_goal``,
            ``desired_goal``.
        action_space: Action space of one environment.
        num_envs: Number of environments, N.
        steps_per_env: Largest number of steps that are stored for each environment.
        states_per_env: Number of states for which each environment has memory. An episode of T steps has
            T + 1 states; the default suffices for ``steps_per_env`` steps of episodes of at least 32 steps.
        max_bytes: Limit of memory in bytes, without infos and demonstrations. ``steps_per_env`` and
            ``states_per_env`` are computed from it, and must not be given then.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the (B,) rewards of a
            batch of goals. All arguments are tensors, and ``info`` is a dict of (B, ...) tensors.
        reward_fn: As for `HindsightReplayBuffer`, but the batch has tensors.
        compute_terminated: Function ``(achieved_goal, desired_goal, info)`` that returns (B,) terminations.
        n_sampled_goal: As for `HindsightReplayBuffer`.
        goal_selection_strategy: As for `HindsightReplayBuffer`. A function ``(t, length, generator) -> s``
            gets two (B,) tensors and a ``torch.Generator``, and returns a (B,) tensor. Results outside of
            1..length are clipped. If the beginning of an episode was evicted, t and length count from its
            oldest stored state.
        termination: As for `HindsightReplayBuffer`.
        n_steps: As for `HindsightReplayBuffer`.
        gamma: As for `HindsightReplayBuffer`.
        info_keys: Keys of the infos to store and to pass to the functions.
        seed: Seed of the random generator: the same seed gives the same batches on the same device.
        device: Torch device that stores the transitions.
        demonstrations: As for `HindsightReplayBuffer`.

    Raises:
        MemoryError: Not enough memory on the device.
        TypeError: An argument has a wrong type, or torch does not support the dtype of a space.
        ValueError: An argument has a wrong value, or a function is missing.

    Example:
        >>> import torch
        >>> from gymnasium.spaces import Box, Dict
        >>> goal = Box(-1, 1, (2,))
        >>> space = Dict(observation=goal, achieved_goal=goal, desired_goal=goal)
        >>> def compute_reward(achieved_goal, desired_goal, info):
        ...     return -((achieved_goal - desired_goal).norm(dim=-1) > 0.05).float()
        >>> buffer = DeviceReplayBuffer(space, goal, 8, compute_reward=compute_reward, seed=0)
        >>> state = dict.fromkeys(space, torch.zeros(8, 2))
        >>> reward, flags = torch.zeros(8), torch.zeros(8, dtype=torch.bool)
        >>> buffer.add(SimulatorStep(state, torch.ones(8, 2), reward, flags, flags, state, {}, state))
        >>> buffer.sample(256).observations["desired_goal"].shape
        torch.Size([256, 2])
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        *,
        steps_per_env: int | None = None,
        states_per_env: int | None = None,
        max_bytes: int | None = None,
        compute_reward: GoalFunction | None = None,
        reward_fn: BatchFunction | None = None,
        compute_terminated: GoalFunction | None = None,
        n_sampled_goal: int | None = None,
        goal_selection_strategy: GoalSelection = "future",
        termination: TerminationMode | GoalFunction | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        info_keys: Sequence[str] = (),
        seed: int | None = None,
        device: str | torch.device = "cpu",
        demonstrations: Demonstrations | None = None,
    ) -> None:
        self.num_envs = require_count("num_envs", num_envs, at_least=1)
        self.observation_space, self.action_space = require_goal_space(observation_space), action_space
        self.device = find_device(device)
        self._lanes = Lanes(self.observation_space, action_space, self.num_envs, self.device)
        if max_bytes is not None:
            if steps_per_env is not None or states_per_env is not None:
                raise ValueError("max_bytes must not be given together with steps_per_env or states_per_env")
            bytes_per_state = self.num_envs * self._lanes.bytes_per_row
            states_per_env = max_bytes // bytes_per_state - 1
            if states_per_env < MIN_STATES:
                least = (MIN_STATES + 1) * bytes_per_state
                raise ValueError(f"max_bytes must be at least {least} for these spaces, got {max_bytes}")
            steps_per_env = states_per_env - 1
        steps = 1000 if steps_per_env is None else steps_per_env
        self.steps_per_env = require_count("steps_per_env", steps, at_least=1)
        if states_per_env is None:
            states_per_env = max(MIN_STATES, self.steps_per_env + self.steps_per_env // 32 + 1)
        self.states_per_env = require_count("states_per_env", states_per_env, at_least=MIN_STATES)
        self.options = BufferOptions(
            buffer_size=self.steps_per_env * self.num_envs,
            compute_reward=compute_reward,
            reward_fn=reward_fn,
            compute_terminated=compute_terminated,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=goal_selection_strategy,
            termination=termination,
            n_steps=n_steps,
            gamma=gamma,
            info_keys=info_keys,
            seed=seed,
            device=device,
            demonstrations=demonstrations,
        )
        self._components = self.options.mixture.components
        self._rule = resolve_termination(termination, compute_terminated)
        self._reward_name, self._reward = "", None  # unused if nothing is relabeled
        if self._components:
            self._reward_name, self._reward = require_reward(compute_reward, reward_fn)
        self.generator = torch.Generator(self.device)
        self.generator.manual_seed(seed) if seed is not None else self.generator.seed()
        self._num_adds = self._num_samples = 0
        self._warned: set[str] = set()
        self._share = 0.0 if demonstrations is None else demonstrations.share
        episodes = [] if demonstrations is None else demonstrations.read()
        self._lanes.allocate(self.states_per_env, sum(map(len, episodes)), len(episodes))
        if episodes:
            self._lanes.add_demonstrations(Episodes.of(episodes), self.info_keys)

    @classmethod
    def for_env(cls, env: Any, **options: Any) -> DeviceReplayBuffer:
        """Make a buffer with the spaces, functions and device of a simulator.

        Args:
            env: A `her_wrappers.simulators.GoalSimulator`, or another object with its attributes.
            **options: Other arguments of the class. Functions given here replace those of ``env``.

        Raises:
            TypeError: ``env`` lacks an attribute, or an option is unknown or has a wrong type.
            ValueError: An option has a wrong value.
        """
        names = ("single_observation_space", "single_action_space", "num_envs")
        if missing := [name for name in names if not hasattr(env, name)]:
            raise TypeError(
                f"env must be a GoalSimulator, got {type(env).__name__}, which has no {missing[0]!r}; wrap "
                "the simulator in her_wrappers.simulators.GoalSimulator"
            )
        return cls(*(getattr(env, name) for name in names), **_functions_of(env, options) | options)

    def add(self, step: SimulatorStep) -> None:
        """Add one step of all environments, and evict the oldest steps as needed.

        Args:
            step: The step. The buffer stores copies.

        Raises:
            TypeError: A value is not a tensor of the expected dtype, or an info is missing; nothing is added.
            ValueError: A shape or a device is wrong, an observation lacks a key, or the first step has no
                ``first_observation``; nothing is added.
        """
        if step.first_observation is None and not self._num_adds:
            raise ValueError(
                "the first step that is added must have first_observation, got None; set it to the "
                "observation that reset() returned"
            )
        self._lanes.add(step, self.info_keys, self.steps_per_env)
        self._num_adds += 1

    def begin_episodes(self, observation: Mapping[str, Any], mask: Tensor | None = None) -> None:
        """Begin new episodes in some or all environments; open episodes of these environments are truncated.

        `add` begins episodes itself: after the end of an episode, and in a step with ``first_observation``.

        Args:
            observation: Dict of (N, ...) tensors, the first observations.
            mask: (N,) bool, the environments whose episodes begin; None for all environments.

        Raises:
            TypeError, ValueError: As for `add`.
        """
        self._lanes.begin_episodes(observation, mask, self.steps_per_env)

    def sample(self, batch_size: int) -> Batch[Tensor]:
        """Sample transitions with replacement, uniformly over all stored steps; relabeled rows come first.

        Args:
            batch_size: Number of transitions, B.

        Raises:
            ValueError: ``batch_size`` is not an integer of at least 1, no step is stored, a function of the
                buffer returns a wrong result, or an invalid value was added, see the class.
        """
        size = require_count("batch_size", batch_size, at_least=1)
        self._num_samples += self._num_adds > 0  # an empty buffer raises, and has nothing to inspect
        if self._num_samples in INSPECTED and not is_capturing(self.device):
            self._inspect()
        return self._sample(size)

    def _sample(self, size: int) -> Batch[Tensor]:
        if not self._num_adds:
            raise ValueError("cannot sample from an empty buffer; call add() first")
        # Row 0 selects the steps, and row 1 the goals. Two numbers of row 2 round shares of the batch.
        random = torch.rand((3, size), dtype=torch.float64, device=self.device, generator=self.generator)
        order = torch.arange(size, device=self.device)
        lanes, is_demonstration = self._lanes, None
        if lanes.num_demonstrations:  # at equal distances, so that all strategies have the same share
            share = (torch.arange(size + 1, device=self.device) * self._share + random[2, -1]).floor()
            is_demonstration = share[1:] > share[:-1]
        steps = lanes.draw(random[0], is_demonstration)
        component = torch.zeros_like(order)
        for end in itertools.accumulate(each.share for each in self._components):
            component += order >= (size * end + random[2, 0]).floor()
        goals, goal_index = self._select_goals(steps, component, random[1], is_demonstration)
        index = lanes.index(steps.lane, steps.number)
        if self.options.n_steps == 1:
            slots = lanes.slots_of(steps)
            batch = lanes.read(slots, index, self.options.gamma, goals)
            batch.rewards, batch.terminations = self._outcome(batch, slots)
            batch.discounts.mul_(~batch.terminations)
        else:
            batch = self._sum_windows(steps, goals, index)
        first_index = lanes.index(steps.lane, steps.number - (steps.row - steps.first))
        names, count = self.options.mixture.names, lanes.num_demonstrations
        batch.provenance = Provenance(first_index, goal_index, component, names, count, steps.lane)
        return batch

    def _select_goals(
        self, steps: LaneSteps, component: Tensor, random: Tensor, is_demonstration: Tensor | None
    ) -> tuple[NewGoals, Tensor]:
        """Return new goals for B rows, and the (B,) step numbers of the steps that supplied these goals."""
        slots, index, takes_desired = torch.zeros_like(component), torch.zeros_like(component), None
        for number, each in enumerate(self._components):
            if each.select is None:
                fractions = torch.empty_like(random).uniform_(generator=self.generator)
                source = self._lanes.draw(fractions, is_demonstration)
                lane, row, found = source.lane, source.row + 1, source.number
            else:
                lane, row = steps.lane, self._select_row(each.select, steps, random)
                found = steps.number + (row - steps.row) - 1
            chosen = component == number
            slots = torch.where(chosen, self._lanes.find(lane, row), slots)
            index = torch.where(chosen, self._lanes.index(lane, found), index)
            takes_desired = chosen if each.takes_desired else None  # "desired" is the last component
        return NewGoals(component < len(self._components), slots, takes_desired), index

    def _select_row(self, select: Any, steps: LaneSteps, random: Tensor) -> Tensor:
        """Return (B,) rows: for each step, the row of the state that the strategy ``select`` chooses."""
        if isinstance(select, Geometric):  # its function is written with NumPy
            left = steps.last - steps.row
            tail = 1 + random * torch.expm1(left * math.log(select.gamma))
            ahead = (tail.log() / math.log(select.gamma)).ceil().long()
            return steps.row + ahead.clamp(min=1).minimum(left)
        # The results of two strategies do not depend on the first row, so the oldest stored one is not found.
        first = steps.first if select in {future, final} else self._lanes.first_stored_row(steps)
        t, length = steps.row - first, steps.last - first
        if select in STRATEGIES.values():
            chosen: Tensor = select(t, length, random)
            return first + chosen
        [function] = select.args  # without the wrapper for arrays, `validated`
        chosen = function(t, length, self.generator)
        chosen = self._require_rows("the goal selection strategy", chosen, len(length))
        return first + chosen.clamp(min=1).minimum(length)

    def _outcome(self, batch: Batch[Tensor], slots: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return (B,) rewards and terminations of ``batch`` for its goals; see also `Lanes.slots_of`."""
        if not self._components:
            return batch.rewards, batch.terminations
        info = self._lanes.infos(slots[0])
        achieved, goal = batch.next_observations["achieved_goal"], batch.observations["desired_goal"]
        rewards, terminations, mode = self._rewards(batch, goal, info), batch.terminations, self._rule.mode
        if mode == "never":
            terminations = torch.zeros_like(terminations)
        elif mode != "keep":
            goals = goal, self._lanes.desired_goal(slots[1])
            if mode == "success":  # the reward of an achieved goal
                best = self._rewards(batch, achieved, info)
                by_goal, by_own_goal = rewards == best, self._rewards(batch, goals[1], info) == best
            else:
                name, count = self._rule.name, len(batch)
                by_goal, by_own_goal = (
                    self._call(name, (achieved, each, info), count).bool() for each in goals
                )
            terminations = by_goal | (terminations & ~by_own_goal)
        return (
            torch.where(batch.relabeled, rewards, batch.rewards),
            torch.where(batch.relabeled, terminations, batch.terminations),
        )

    def _rewards(
        self, batch: Batch[Tensor], goal: Any, info: dict[str, Tensor], achieved: Any = None
    ) -> Tensor:
        """Return (B,) float32 rewards for the desired goals ``goal`` and, if given, other achieved goals."""
        achieved = batch.next_observations["achieved_goal"] if achieved is None else achieved
        arguments: tuple[Any, ...] = achieved, goal, info
        if self._reward_name == "reward_fn":
            observations = batch.observations | {"desired_goal": goal}
            after = batch.next_observations | {"desired_goal": goal, "achieved_goal": achieved}
            arguments = (replace(batch, observations=observations, next_observations=after),)
        return self._call(self._reward_name, arguments, len(batch)).float()

    def _call(self, name: str, arguments: tuple[Any, ...], count: int) -> Tensor:
        """Call a function of the user; raise ValueError unless it returns a tensor of ``count`` numbers."""
        function = self._rule.compute_terminated if name == self._rule.name else self._reward
        try:
            result = call_unchanged(name, function, arguments)
        except KeyError as error:
            key = error.args[0] if error.args else None
            if name != "reward_fn" and isinstance(key, str) and key not in arguments[2]:
                raise ValueError(reads_unstored_info(name, key)) from error
            raise
        return self._require_rows(name, result, count)

    def _require_rows(self, name: str, result: Any, count: int) -> Tensor:
        if not isinstance(result, Tensor) or result.device != self.device:
            got = result.device if isinstance(result, Tensor) else type(result).__name__
            raise ValueError(
                f"{name} must return a tensor on {self.device}, got {got}; compute it with torch"
            )
        if result.shape != (count,):
            fix = "reduce over the goal's own axes only, such as dim=-1"
            raise ValueError(f"{name} must return shape ({count},), got {tuple(result.shape)}; {fix}")
        return result

    def _sum_windows(self, steps: LaneSteps, goals: NewGoals, index: Tensor) -> Batch[Tensor]:
        """Return a batch with n-step returns; each step of a window is relabeled with the row's goal."""
        n, lane, row = self.options.n_steps, steps.lane, steps.row
        left = (steps.last - row).clamp(max=n)
        order = torch.arange(n, device=self.device)
        ahead = order.minimum(left[:, None] - 1)  # short windows are padded with copies of their last step
        lanes, rows = lane.repeat_interleave(n), (row[:, None] + ahead).reshape(-1)
        slots = self._lanes.find(lanes, rows), self._lanes.find(lanes, rows + 1)
        indices = self._lanes.index(lanes, (steps.number[:, None] + ahead).reshape(-1))
        singles = self._lanes.read(slots, indices, self.options.gamma, goals.repeat(n))
        rewards, terminations = (each.reshape(-1, n) for each in self._outcome(singles, slots))

        # A window ends after a step that terminates, and in original rows before the desired goal changes.
        counted = (order < left[:, None]) & (terminations.cumsum(1) <= terminations)
        here = self._lanes.find(lane, row)
        is_same = self._lanes.same_goals(here, slots[1].reshape(-1, n)).long().cumprod(1).bool()
        counted &= is_same | goals.relabeled[:, None] | (order == 0)
        powers = self.options.gamma ** torch.arange(n + 1, dtype=torch.float64, device=self.device)
        length = counted.sum(1)
        end = self._lanes.find(lane, row + length)
        batch = self._lanes.read((here, end), index, self.options.gamma, goals)
        batch.rewards = (rewards * counted * powers[:-1]).sum(1).float()
        batch.terminations = (terminations & counted).any(1)
        batch.truncations = (singles.truncations.reshape(-1, n) & counted).any(1)
        batch.discounts = (powers[length] * ~batch.terminations).float()
        return batch

    # --- calls that wait for the device -----------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of stored transitions, without demonstrations; this waits for the device."""
        return len(self._lanes)

    def __repr__(self) -> str:  # without the number of steps, which only the device knows
        sizes = f"num_envs={self.num_envs} steps_per_env={self.steps_per_env}"
        return f"<{type(self).__name__} {sizes} device={str(self.device)!r}>"

    @property
    def can_sample(self) -> bool:
        """Whether a step is stored."""
        return self._num_adds > 0

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Keys of the infos to store."""
        return tuple(self.options.info_keys)

    @property
    def nbytes(self) -> int:
        """Memory allocated for transitions, in bytes."""
        return sum(each.nbytes for each in self._lanes.tensors().values())

    def statistics(self, batch_size: int = 10_000) -> Statistics:
        """Return statistics of the stored steps, also of open episodes, and of a new batch.

        The random generator does not change. Unlike in `HindsightReplayBuffer.statistics`, the batch includes
        its share of demonstrations.

        Args:
            batch_size: Number of rows of the batch.

        Raises:
            ValueError: As for `sample`.
        """
        size = require_count("batch_size", batch_size, at_least=1)
        self._inspect()
        state = self.generator.get_state()
        batch = self._sample(size)
        self.generator.set_state(state)
        trivial = batch.relabeled[:0]
        if self.options.can_relabel:
            lane, goal = batch.lane, batch.observations["desired_goal"]
            info = self._lanes.infos(self._lanes.slots_of_steps(lane, batch.index))
            before, at_goal = (
                self._rewards(batch, goal, info, each) for each in (batch.observations["achieved_goal"], goal)
            )
            trivial = (before == at_goal)[batch.relabeled]
        ahead = (batch.goal_index - batch.index) / torch.where(batch.is_demonstration, 1, self.num_envs)
        stored = self._lanes.spread(len(self))
        num_episodes = len(set((stored.first * self.num_envs + stored.lane).tolist()))
        counts = {"num_transitions": len(self), "num_episodes": num_episodes, "nbytes": self.nbytes}
        return statistics_of(batch.to_numpy(), ahead.cpu().numpy(), trivial.cpu().numpy(), **counts)

    def _inspect(self) -> None:
        """Raise ValueError for an invalid added value; warn if the functions contradict recorded steps."""
        self._lanes.require_valid()
        if not self.options.can_relabel or not len(self):
            return
        steps = self._lanes.spread(1000)
        slots = self._lanes.slots_of(steps)
        batch, info = self._lanes.read(slots, steps.number, self.options.gamma), self._lanes.infos(slots[0])
        achieved, goal = (batch.next_observations[key] for key in OBSERVATION_KEYS[1:])
        rewards, best = (self._rewards(batch, each, info) for each in (goal, achieved))
        differ = (~rewards_agree(batch.rewards, rewards)).nonzero()[:, 0].tolist()
        if differ:
            found, recorded = (float(each[differ[0]]) + 0.0 for each in (rewards, batch.rewards))  # no -0
            self._warn_once(
                "rewards",
                f"{self._reward_name} returns {found:g} for a step whose recorded reward is {recorded:g}, so "
                "original and relabeled rows disagree; record the rewards of the same function, as "
                "GoalSimulator does by default",
            )
        flags = {key: (info[key] == 0).to(info[key].dtype) for key in FLAG_NAMES if key in info}
        is_batch = self._reward_name == "reward_fn"
        if not differ and (is_batch or flags):
            changed = self._rewards(replace(batch, rewards=batch.rewards + 1), goal, info | flags)
            if rewards_agree(changed, rewards + 1).all() if is_batch else (changed != rewards).any():
                self._warn_once("recorded", follows_recorded(self._reward_name, list(flags)))
        has_original = not self.options.mixture.has_no_original  # rows that could contradict the rule
        goes_on = (rewards == best) & ~batch.terminations & ~batch.truncations
        if self._rule.mode == "success" and has_original and "recorded" not in self._warned and goes_on.any():
            self._warn_once(
                "success",
                'steps at their goals did not terminate, but with termination="success" relabeled steps '
                "terminate there; if episodes do not end at their goals, leave termination= out",
            )
        if not self._rule.is_chosen and (batch.terminations & (rewards == best)).any():
            self._warn_once(
                "terminations",
                "episodes end at their goal, but relabeled rows keep their recorded terminations, which are "
                'wrong then; pass compute_terminated=, or termination="success"',
            )

    def _warn_once(self, subject: str, message: str) -> None:
        if subject not in self._warned:
            self._warned.add(subject)
            warn_user(message)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer, with open episodes and demonstrations, to a file that `load` reads.

        Args:
            path: The file to write or replace; it is replaced as a whole.

        Raises:
            OSError: The file cannot be written.
            TypeError: A space cannot be described in JSON.
            ValueError: An invalid value was added.
        """
        self._inspect()
        options = options_to_json(self.options)
        header = {
            **{name: space_to_json(getattr(self, name)) for name in SPACES},
            "sizes": [getattr(self, name) for name in SIZES],
            "demonstrations": [self._lanes.num_demonstrations, self._lanes.num_demonstrated_episodes],
            "options": {name: options[name] for name in SAVED_HERE if name in options},
            "share": self._share,
            "device": self.device.type,
            "num_adds": self._num_adds,
        }
        arrays = {name: tensor.cpu().numpy() for name, tensor in self._lanes.packed().items()}
        arrays["generator"] = self.generator.get_state().numpy()
        write_arrays(path, arrays, header, kind=KIND, version=VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None, **options: Any) -> DeviceReplayBuffer:
        """Read a buffer from a file that `save` wrote; no code in the file is executed.

        Sampling continues with the same random sequence on a device of the same type, unless ``seed`` is
        given. Without functions, `sample` raises ValueError if rows must be relabeled.

        Args:
            path: The file.
            env: The simulator whose functions and device are used.
            **options: Arguments of the class, such as functions or ``device``; they replace saved options.
                The sizes and ``demonstrations`` cannot change.

        Raises:
            CorruptFileError: The file is damaged, has another kind of content, or another format version.
            MemoryError: Not enough memory on the device.
            OSError: The file cannot be read.
            TypeError: An option is unknown.
            ValueError: An option has a wrong value, or a function is missing.
        """
        if fixed := sorted({*SIZES, "max_bytes", "demonstrations"} & options.keys()):
            raise ValueError(f"{fixed[0]} cannot change when a buffer is loaded; leave it out")
        with ArrayFile(path, kind=KIND, version=VERSION) as file:
            header, damaged = file.header, f"{path} is damaged: its content is not a buffer on a device"
            with as_corrupt(damaged):
                saved = {name: option_from_json(header["options"][name]) for name in header["options"]}
                saved |= dict(zip(SIZES, header["sizes"], strict=True))
                found = [space_from_json(header[name]) for name in SPACES]
                missing = {"goal_selection_strategy", "termination"} - saved.keys() - options.keys()
            if missing:
                fix = f"pass {min(missing)}= to load()"
                raise ValueError(
                    f"the buffer had a function as {min(missing)}, which its file does not contain; {fix}"
                )
            given = saved | _functions_of(env, options) | options
            if given.get("compute_reward") is None and given.get("reward_fn") is None:
                given["compute_reward"] = functions_missing
            buffer = cls(found[0], found[1], **given)
            with as_corrupt(damaged):
                lanes, buffer._num_adds, buffer._share = buffer._lanes, header["num_adds"], header["share"]
                lanes.allocate(buffer.states_per_env, *header["demonstrations"])
                for name in set(file.arrays) - {"generator"}:
                    lanes.restore(name, torch.from_numpy(file.read(name)))
                if "seed" not in options and header["device"] == buffer.device.type:
                    buffer.generator.set_state(torch.from_numpy(file.read("generator")))
        return buffer


def _functions_of(env: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the functions, device and info keys of a simulator, except those that ``options`` has."""
    names = ("compute_reward", "compute_terminated", "device", "info_keys")
    found = {name: getattr(env, name, None) for name in names if options.get(name) is None}
    if options.get("reward_fn") is not None:
        found.pop("compute_reward", None)
    return {name: value for name, value in found.items() if value is not None}
