"""EpisodeAccumulator: the open episodes of one environment, or of N environments that step together.

An open episode consists of the rows of a `StepRing` from its first moment to the current moment, ``_now``. A
step writes the next row first; this row belongs to no episode until ``_now`` is set to its moment. When an
episode ends, it is first removed from the open episodes, then ``_now`` is increased, and then the next
episode is added. So if an exception interrupts this, an episode can be lost, but two are never mixed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy import ndarray

from her_wrappers.data.infos import (
    InfoBatch,
    Where,
    as_info,
    final_mask,
    info_batch,
    info_columns,
    missing_info,
)
from her_wrappers.data.spaces import LeafSpec, SpaceSpec
from her_wrappers.data.trees import Tree, try_as_array
from her_wrappers.recording.episodes import Episodes, unchecked
from her_wrappers.recording.last_states import ReuseWatch, read_last_observations
from her_wrappers.recording.ring import StepRing, write
from her_wrappers.recording.values import BATCH_HINT, as_batch, as_flags, as_reward, as_rewards

Flags: TypeAlias = Any
"""(N,) bools, or one bool for a single environment. ``flags ^ True`` means "not" for arrays and for bools."""


class EpisodeAccumulator:
    """The open episodes of one environment or of ``num_envs`` environments.

    Call `begin` to open episodes, `act` before every step, which might change the actions, and `observe`
    after the step, which returns the episodes that ended.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int | None = None,  # None: a single environment, whose values have no axis N
        mode: AutoresetMode = AutoresetMode.DISABLED,
        *,
        info_keys: Iterable[str] = (),
        max_steps: int | None = None,  # then an episode is truncated; the next one begins in its last state
        watches_reuse: bool = False,  # warn if last states are overwritten by the next first states
    ) -> None:
        self.is_ready = False  # whether the next row can be written; if not, `act` prepares the ring first
        self.is_stepping = False  # whether the environments may have taken a step that is not recorded
        self.observations = SpaceSpec.of("observation", observation_space)
        self.num_envs = num_envs or 1
        self.is_single = num_envs is None  # then values have no leading axis
        self._mode = mode
        self._info_keys = tuple(dict.fromkeys(info_keys))
        self._max_steps = max_steps
        repair = "" if num_envs is None else ", or use AutoresetMode.NEXT_STEP"
        self._reuse_watch = ReuseWatch(self.observations, repair) if watches_reuse else None
        self._ring = StepRing(self.observations, SpaceSpec.of("action", action_space), num_envs)
        self._now = 0  # the current moment
        self._limit = 0  # the moment at which the ring must be prepared again
        self._all_envs: Flags = True if num_envs is None else np.ones(num_envs, bool)
        self._no_env: Flags = self._all_envs ^ True
        self._begun: Any = 0 if num_envs is None else np.zeros(num_envs, np.int64)  # first moments
        self._is_open = self._no_env
        self._resets_next = self._no_env  # the next step of the environment is a reset
        self._first_infos: list[dict[str, np.ndarray]] = [{}] * self.num_envs  # of the first states

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int64, number of steps of each environment's open episode; -1 if no episode is open."""
        if self.is_single:  # faster
            return np.array([self._now - self._begun if self._is_open else -1])
        return np.where(self._is_open, self._now - self._begun, -1)

    def begin(self, observations: Tree, infos: Any, chosen: np.ndarray | None = None) -> None:
        """Open an episode in the environments ``chosen``, (N,) bool or None; ``infos`` may lack keys."""
        self.is_ready = False
        ring = self._ring
        if not self._any(self._is_open):
            self._now = 0
            if self.is_single:
                ring.infos.clear()
        now = self._now
        batches: dict[str, InfoBatch] = {}
        if self._info_keys:
            columns = infos if self.is_single else info_columns(infos, self.num_envs, self._info_keys)
            batches = self._read_infos(columns, self._no_env, self.where(None))
        if chosen is None:
            ring.seek(now)
            write(ring.state_writers, observations, self._check, 0)
            chosen = self._all_envs
        else:
            values = [self._check(leaf, observations, 0)[chosen] for leaf in self.observations]
            ring.put_states(now, chosen, values)
        self._keep_first_infos(batches, chosen)
        self._resets_next = self._resets_next & (chosen ^ True)
        self._begun = _where(chosen, now, self._begun)
        self._is_open = self._is_open | chosen
        self._watch_first_states(chosen)

    def act(self, actions: Tree) -> None:
        """Record the actions of the next step; round floats to the dtype of the action space."""
        if not self.is_ready:
            self._prepare()
        self.is_ready = False
        write(self._ring.action_writers, actions, self._check, 0, True)
        self.is_stepping = True

    def replace_action(self, key: str, actions: Any, infos: Any) -> None:
        """After a step, replace recorded actions by ``infos[key]``, where environments have this info."""
        if self.is_single:
            if key not in infos:
                return
            actions = infos[key]
        else:
            infos = info_columns(infos, self.num_envs, [key])
            final = infos.get("final_info", {})  # of the episodes that ended, in mode SAME_STEP
            actions, ended = np.array(actions), final_mask(infos, self.num_envs)
            for found, envs in ((infos, ~ended), (final, ended)):
                batch = info_batch(key, found, self._no_env, self.where(0))
                if batch is not None:
                    executed = envs & batch.present
                    actions[executed] = batch.values[executed]
        self._ring.seek(self._now + 1)
        write(self._ring.action_writers, actions, self._check, 0, True)

    def observe(
        self, observations: Tree, rewards: Any, terminated: Any, truncated: Any, infos: Any
    ) -> Episodes | None:
        """Record the outcome of a step; return the episodes that ended with it, or None if none ended."""
        if not self.is_single:
            return self._observe_batch(observations, rewards, terminated, truncated, infos)
        ring, now = self._ring, self._now + 1
        ring.rewards[now % ring.capacity] = (
            rewards if type(rewards) is float else as_reward(rewards, now - 1 - self._begun)
        )
        write(ring.state_writers, observations, self._check, 1)
        batches: dict[str, InfoBatch] = {}
        if self._info_keys:
            batches = self._read_infos(infos, not self._resets_next, self.where(0))
            ring.put_infos(now, batches, True)
        if terminated or truncated or now == self._limit or self._resets_next:
            return self._advance(bool(terminated), bool(truncated), batches, self._resets_next)
        self._now, self.is_stepping, self.is_ready = now, False, True
        return None

    def truncate(self, which: np.ndarray | None = None) -> Episodes | None:
        """Truncate open episodes, all after an interrupted step; return those with steps, or None."""
        closed = self._all_envs if which is None or self.is_stepping else which
        if self.is_stepping:
            self._resets_next = self._no_env
        episodes = self._collect(closed, self._now, self._no_env, self._all_envs)
        self._is_open = self._is_open & (closed ^ True)
        self.is_ready = self.is_stepping = False
        return episodes

    def copy(self) -> Episodes | None:
        """Return truncated copies of all open episodes that have steps, or None. The originals stay open."""
        return self._collect(self._all_envs, self._now, self._no_env, self._all_envs)

    def set_autoreset(self, mode: AutoresetMode, is_ended: np.ndarray) -> None:
        """Set the autoreset mode; ``is_ended``, (N,) bool, marks environments that the next step resets."""
        self._mode = mode
        self._resets_next = is_ended.copy()

    def changes(self, observations: Tree) -> Iterator[tuple[LeafSpec, np.ndarray, np.ndarray]]:
        """Yield (leaf, current states, given states), arrays (N, ...), for each leaf whose states differ."""
        for leaf, was in zip(self.observations, self._ring.states_at(self._now), strict=True):
            given, shape = self._check(leaf, observations, 0), (self.num_envs, *leaf.shape)
            if was.tobytes() != given.tobytes():
                yield leaf, was.reshape(shape), given.reshape(shape)

    def where(self, ahead: int | None) -> Where:
        """Return a function from an index to a place, such as "at step 3 of environment 0" or "at reset"."""

        def place(i: int) -> str:
            step = "at reset" if ahead is None else f"at step {max(0, int(self.lengths[i])) + ahead}"
            return step if self.is_single else f"{step} of environment {i}"

        return place

    def _observe_batch(
        self, observations: Tree, rewards: Any, terminations: Any, truncations: Any, infos: Any
    ) -> Episodes | None:
        ring, now, count = self._ring, self._now + 1, self.num_envs
        terminated = as_flags("terminations", terminations, count, ValueError)
        truncated = as_flags("truncations", truncations, count, ValueError)
        ended = terminated | truncated
        is_any_ended = self._any(ended)
        numbers = as_rewards(rewards, count)
        begins = self._resets_next
        write(ring.state_writers, observations, self._check, 1)
        ring.rewards[now % ring.capacity] = numbers
        has_last = is_any_ended and self._mode is AutoresetMode.SAME_STEP
        batches: dict[str, InfoBatch] = {}
        if self._info_keys or has_last:
            columns, others = info_columns(infos, count, self._info_keys), self._all_envs
            if has_last:
                self._put_last_states(ended, columns)
                others = ~ended
            batches = self._read_infos(columns, others & ~begins, self.where(0))
            ring.put_infos(now, batches, others)
        if not (is_any_ended or now == self._limit or self._any(begins)):
            self._now, self.is_stepping, self.is_ready = now, False, True
            return None
        first_states = observations if has_last else None
        episodes = self._advance(terminated, truncated, batches, begins, first_states)
        if has_last:
            # Infos in a list may repeat the last infos.
            self._watch_first_states(ended, batches if isinstance(infos, Mapping) else None)
        return episodes

    def _advance(
        self,
        terminated: Flags,
        truncated: Flags,
        batches: Mapping[str, InfoBatch],  # infos of the step
        begins: Flags,  # environments in which this step was a reset
        first_states: Tree = None,  # states after this step, if the ring has last states of episodes instead
    ) -> Episodes | None:
        """Close the episodes that end at this step, and open the next ones; return closed ones or None."""
        now, opened, episodes = self._now + 1, begins, None
        ended = over = terminated | truncated
        cut = self._no_env
        if self._any(begins):
            self._begun = _where(begins, now, self._begun)
        if self._max_steps is not None:
            cut = self._is_open & (now - self._begun == self._max_steps) & (ended ^ True)
            over = ended | cut
        is_any_over = self._any(over)
        if is_any_over:
            episodes = self._collect(over, now, terminated, truncated | cut)
            self._is_open = self._is_open & (over ^ True)
            if first_states is not None:
                self._ring.seek(now)
                write(self._ring.state_writers, first_states, self._check, 1)
            opened = begins & (over ^ True) | (over if self._mode is AutoresetMode.SAME_STEP else cut)
        is_any_opened = self._any(opened)
        if is_any_opened:
            self._begun = _where(opened, now, self._begun)
            self._keep_first_infos(batches, opened)
        self._now = now
        if is_any_opened:
            self._is_open = self._is_open | opened
        self._resets_next = ended if self._mode is AutoresetMode.NEXT_STEP else self._no_env
        self.is_stepping = False
        self.is_ready = not (is_any_over or is_any_opened or now == self._limit)
        return episodes

    def _prepare(self) -> None:
        """Make room for the next row of the ring; raise ResetNeeded if an environment cannot step."""
        is_idle = (self._is_open | self._resets_next) ^ True
        if self.is_stepping or self._any(is_idle):
            if self.is_single:
                raise ResetNeeded("no episode is being recorded; call reset() before step()")
            envs = np.flatnonzero(self._all_envs if self.is_stepping else is_idle)
            raise ResetNeeded(
                f"no episode is being recorded in the environments {envs.tolist()}; "
                "call reset(), or reset(options={'reset_mask': ...}) for these environments, before step()"
            )
        if not self._any(self._is_open):  # the first rows are likely in the processor's cache
            self._now = 0
        now = self._now
        oldest = self._begun if self.is_single else int(self._begun[self._is_open].min(initial=now))
        if now + 1 - oldest == self._ring.capacity:
            self._ring = self._ring.grown()
        capacity = self._ring.capacity
        # The row after the limit would overwrite the oldest one, or is in slot 0, which writers must seek.
        self._limit = min(oldest + capacity - 1, now + capacity - (now + 1) % capacity)
        if self._max_steps is not None:
            self._limit = min(self._limit, oldest + self._max_steps)
        self._ring.seek(now + 1)

    def _collect(self, which: Flags, now: int, terminated: Flags, truncated: Flags) -> Episodes | None:
        """Copy the open episodes of the environments in the mask ``which``, until ``now``; None if empty."""
        chosen = which & self._is_open & (self._begun < now)
        if not self._any(chosen):
            return None
        if self.is_single:
            envs, begun = None, self._begun
            ends = [np.array([value]) for value in (now - begun, terminated, truncated)]
        else:
            envs = chosen.nonzero()[0]
            begun = self._begun[envs]
            ends = [now - begun, terminated[envs], truncated[envs]]
        found = self._ring.collect(envs, begun, now - begun)
        firsts: Sequence[Mapping[str, np.ndarray]] = ()
        if self._info_keys:
            firsts = self._first_infos if envs is None else [self._first_infos[i] for i in envs.tolist()]
        episodes = unchecked(
            Episodes, **found, lengths=ends[0], terminated=ends[1], truncated=ends[2], reset_infos=firsts
        )
        if self._reuse_watch is not None:
            self._reuse_watch.ended(np.flatnonzero(chosen).tolist(), episodes)
        return episodes

    def _read_infos(self, infos: Any, required: Flags, where: Where) -> dict[str, InfoBatch]:
        is_dict = isinstance(infos, Mapping)
        batches: dict[str, InfoBatch] = {}
        for key in self._info_keys:
            batch = None
            if not self.is_single:
                batch = info_batch(key, infos, required, where)
            elif is_dict and key in infos:
                batch = InfoBatch(as_info(key, infos[key], where, 0), self._all_envs)
            elif required:
                raise ValueError(missing_info(key, where(0), sorted(infos) if is_dict else infos))
            if batch is not None:
                self._ring.fit_info(key, batch, where)
                batches[key] = batch
        return batches

    def _keep_first_infos(self, batches: Mapping[str, InfoBatch], opened: Flags) -> None:
        if self.is_single:
            self._first_infos = [{key: batch.values for key, batch in batches.items()}]
            return
        for i in np.flatnonzero(opened).tolist() if self._info_keys else ():
            present = {key: batch.values for key, batch in batches.items() if batch.present[i]}
            self._first_infos[i] = {key: np.array(values[i]) for key, values in present.items()}

    def _watch_first_states(self, opened: Flags, infos: Mapping[str, InfoBatch] | None = None) -> None:
        """Warn if the current states, and ``infos``, have overwritten the last states of the environments."""
        if self._reuse_watch is not None:
            leaves = zip(self.observations, self._ring.states_at(self._now), strict=True)
            states = [state.reshape(self.num_envs, *leaf.shape) for leaf, state in leaves]
            self._reuse_watch.began(np.flatnonzero(opened).tolist(), states, infos)
            if not self._reuse_watch.is_watching:
                self._reuse_watch = None

    def _put_last_states(self, ended: np.ndarray, infos: Any) -> None:
        """Write the last states and infos of ended episodes over the first states of the next episodes."""
        ring, now, where = self._ring, self._now + 1, self.where(0)
        envs = np.flatnonzero(ended)
        states = read_last_observations(self.observations, infos, envs, self.num_envs, self.where(1))
        final = infos.get("final_info", {})
        batches = self._read_infos(final, ended, lambda i: f"in final_info {where(i)}")
        ring.put_states(now, envs, states)
        ring.put_infos(now, batches, ended)

    def _check(self, leaf: LeafSpec, tree: Tree, ahead: int, rounding: bool = False) -> np.ndarray:
        """Return the values of ``leaf`` in ``tree``; errors name the current step plus ``ahead``."""
        value: Any = tree[leaf.key] if isinstance(tree, dict) and leaf.key in tree else tree
        shape = leaf.shape if self.is_single else (self.num_envs, *leaf.shape)
        if type(value) is int and leaf.dtype == np.int64:  # an action of a Discrete space
            with contextlib.suppress(OverflowError):
                value = np.int64(value)
        is_array = type(value) is ndarray or isinstance(value, np.generic)
        if is_array and value.dtype is leaf.dtype and value.shape == shape:
            array: np.ndarray = value  # before the descriptions of places are made
            return array
        where = self.where(ahead)
        if self.is_single:
            found = leaf.find(tree, where(0))
            try:
                return leaf.check(found, where(0), rounding=rounding)
            except ValueError as error:
                if (got := try_as_array(found).shape) != leaf.shape and got[1:] == leaf.shape:
                    raise ValueError(f"{error}{BATCH_HINT}") from error
                raise
        value = leaf.find(tree, "in the batch")
        return as_batch(leaf, value, count=self.num_envs, where=where, rounding=rounding)

    def _any(self, flags: Flags) -> bool:
        return bool(flags if self.is_single else np.count_nonzero(flags))


def _where(flags: Flags, value: int, other: Any) -> Any:
    """Return ``value`` where ``flags`` are True, else ``other``."""
    return np.where(flags, value, other) if isinstance(flags, ndarray) else value if flags else other
