"""Checks of a simulator's last observations; they wait for the device only after some steps."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch

from her_wrappers.data.trees import leaf_arrays
from her_wrappers.goals.functions import REWARD_TOLERANCE
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.support.user_warning import warn_user

MIN_ENDS = 3  # smallest number of ended episodes, all with the same fault, for an error
ENOUGH_ENDS = 64  # number of ended episodes after which the checks pause
MAX_CHANCE = 1e-6  # largest probability that correct last observations all equal those before them


class Checks:
    """Counts ended episodes whose last observation looks wrong, with counters that stay on the device.

    `add_step` updates the counters. After 1, 2, 4, 8, .. steps, `judge` reads them, which waits for the
    device. After 64 ended episodes, the checks pause until there are ten times as many steps.

    Last observations that are zeros, or that equal the observations after the reset, are a fault if a key
    *jumps*: if its value changes by more than 1.5 times its largest change in steps that do not end an
    episode. So it is correct if states are constant, or if an episode begins where the last one ended. The
    desired goal jumps in the first wrong last observation, since it hardly ever changes within an episode.
    """

    def __init__(self, name: str, setting: str, time_limit: int | None, is_enabled: bool) -> None:
        self.notes: list[str] = []
        self._name, self._setting, self._time_limit = name, setting, time_limit
        self._steps, self._resume_at = 0, 0 if is_enabled else math.inf
        self._counts: dict[str, torch.Tensor] = {}
        self._is_warned = False

    @property
    def is_active(self) -> bool:
        """Whether the checks are not paused."""
        return self._steps >= self._resume_at

    def begin(self, observation: dict[str, Any]) -> None:
        """Prepare for the steps after a reset of all N environments."""
        self._start = torch.cat(_rows(observation), 1)
        self._length = torch.zeros_like(self._start[:, 0], dtype=torch.long)
        self._has_moved = self._length.bool()
        self._largest = self._start.new_tensor([-1.0, -1.0, 0.0])  # change of each key; -1: unknown
        self._has_one_start = (self._start == self._start[:1]).all() & (len(self._start) > 1)

    def add_step(
        self,
        observations: tuple[dict[str, Any], ...],
        ended: torch.Tensor,
        absent: torch.Tensor,
        truncated: torch.Tensor | None,
    ) -> None:
        """Count the signs of faults in one step; ``truncated`` is None if the simulator does not return it.

        ``observations`` are those before the step, after it, and after the resets. ``absent``, (N,) bool,
        marks ended episodes without a last observation.
        """
        before, last, after = map(_rows, observations)
        change = torch.stack([(y - x).abs().sum(1).nan_to_num() for x, y in zip(before, last, strict=True)])
        going, still = ~ended, (change == 0).all(0)
        follows = self._has_moved  # the step before changed something
        self._largest = torch.maximum(self._largest, torch.where(going, change, -1.0).amax(1))
        jumps = ended & (change > 1.5 * self._largest[:, None]) & (self._largest[:, None] >= 0)  # (3, N)
        first = ended & torch.stack([(x == y).all(1) for x, y in zip(last, after, strict=True)])
        zeros = ended & (torch.cat(last, 1) == 0).all(1)
        self._has_moved = going & ~still
        self._length += 1
        is_marked, cut = truncated is not None, torch.zeros_like(ended) if truncated is None else truncated
        is_late = ended & ~cut & (self._length >= (self._time_limit or math.inf))
        self._add(
            ended=ended,
            absent=absent,
            nan=ended & torch.cat(last, 1).isnan().any(1),
            zeros=zeros,
            zero_jumps=zeros & jumps.any(0),
            still=ended & follows & still,
            moved=ended & follows,
            going_still=going & follows & still,
            going_moved=going & follows,
            restarts=jumps[1] & jumps[2],
            other_starts=ended & (torch.cat(after, 1) != self._start).any(1),
            unmarked=ended & (not is_marked),
            late=is_late & (not is_marked),
            late_marked=is_late & is_marked,
            cut=cut,
            length=ended * self._length,
            squares=ended * self._length**2,
            **dict(zip(OBSERVATION_KEYS, first, strict=True)),
            **dict(zip((f"{key}_jumps" for key in OBSERVATION_KEYS), first & jumps, strict=True)),
        )
        self._length = torch.where(ended, 0, self._length)

    def add_rewards(self, reward: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> None:
        """Compare the simulator's rewards with ``compute_reward`` before and after the step, (N,) each."""
        margin = REWARD_TOLERANCE * (1 + reward.abs())
        differs, varies = (reward - after).abs() > margin, (before - after).abs() > margin
        low, high = torch.minimum(before, after) - margin, torch.maximum(before, after) + margin
        between = (reward > low) & (reward < high)
        self._add(wrong=differs & ~between, lagging=differs & between, varied=differs | varies)

    def count_step(self) -> None:
        """Count a step of all environments, and call `judge` after 1, 2, 4, 8, .. of them."""
        count = self._steps + 1 - self._resume_at
        if count > 0 and math.log2(count).is_integer():
            self.judge()
        self._steps += 1

    def judge(self) -> None:
        """Read the counters, raise ValueError for a fault, and warn or add a note for a possible fault."""
        if not self._counts:
            return
        numbers = torch.stack([*self._counts.values(), self._has_one_start.long()]).tolist()  # waits
        n = SimpleNamespace(wrong=0, lagging=0, varied=0)
        vars(n).update(zip([*self._counts, "one_start"], numbers, strict=True))
        many = max(MIN_ENDS, n.ended / 2)
        chance = (n.going_still + 1) / (n.going_moved + 1)
        is_still = n.still == n.moved >= MIN_ENDS and chance**n.moved < MAX_CHANCE
        first = [k for k in OBSERVATION_KEYS if getattr(n, k) == n.ended and getattr(n, f"{k}_jumps") >= many]
        reads = "" if "observation" in first else "; a function must read its argument, not the simulator"
        late, end = f"truncations, after {self._time_limit} steps", "time_limit=0 if the task ends there"
        cuts = f"return them as truncated, or {end}"
        marks = f"return 'time_outs' in the infos or pass truncated=, or {end}"
        differ = "differ from compute_reward for desired_goal"
        goals = "correct desired_goal or compute_reward, or pass reward='compute'"
        faults = [
            (n.absent > 0, f"{n.absent} of {n.ended} ended episodes have no last observation", ""),
            (n.nan == n.ended >= MIN_ENDS, "all last observations contain NaN", ""),
            (n.zeros == n.ended and n.zero_jumps >= many, "all last observations are zeros", ""),
            (is_still, "all last observations equal those before the last step", ""),
            (len(first) > 0, f"{', '.join(first)} of last observations are those after the reset{reads}", ""),
            (n.restarts == n.ended >= MIN_ENDS, "goals change and achieved goals jump in all last steps", ""),
            (n.late > 0, f"`done` contains {late}", marks),
            (n.late_marked >= many and n.cut == 0, f"`terminated` contains {late}", cuts),
            (n.wrong >= max(MIN_ENDS, n.varied / 2), f"{n.wrong} rewards {differ}", goals),
        ]
        for is_found, fault, setting in faults:
            if is_found:
                fix = f"{setting or self._setting} (checks=False skips the checks)"
                raise ValueError(f"{self._name}: {fault}; {fix}")
        is_constant = n.ended * n.squares == n.length**2 and n.length > n.ended == n.unmarked >= 4 * MIN_ENDS
        notes = {
            "some last observations contain NaN": n.nan > 0,
            "the reward lags: it lies between those of the states before and after": n.lagging >= MIN_ENDS,
            "all episodes have one length: pass truncated= if it is a limit": is_constant
            and self._time_limit is None,
        }
        self.notes += [note for note, is_found in notes.items() if is_found and note not in self.notes]
        if n.one_start and n.other_starts and not self._is_warned:
            self._is_warned = True
            warn_user(f"{self._name}: all environments began in one state; do they have the same seed?")
        if n.ended >= ENOUGH_ENDS:
            self._resume_at, self._counts = 10 * (self._steps + 1), {}
            self._length, self._has_moved = torch.zeros_like(self._length), torch.zeros_like(self._has_moved)

    def _add(self, **counts: torch.Tensor) -> None:
        for name, rows in counts.items():
            self._counts[name] = rows.sum() + self._counts.get(name, 0)


def _rows(observation: dict[str, Any]) -> list[torch.Tensor]:
    """Return the values of each of the three keys of an observation as a float32 matrix (N, W)."""
    keys: list[list[Any]] = [leaf_arrays(observation[key]) for key in OBSERVATION_KEYS]
    return [torch.cat([leaf.reshape(len(leaf), -1).float() for leaf in leaves], 1) for leaves in keys]
