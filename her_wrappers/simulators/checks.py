"""Checks of a simulator's last observations, which do not wait for the device in each step."""

from __future__ import annotations

import math
from typing import Any

import torch

from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.simulators.reading import leaves
from her_wrappers.support.user_warning import warn_user

MIN_ENDS = 3  # smallest number of ended episodes, all with the same fault, for an error
ENOUGH_ENDS = 64  # number of ended episodes after which the checks pause
MAX_CHANCE = 1e-6  # of correct last observations that all equal the ones before


class Checks:
    """Counters on the device of ended episodes whose last observation looks wrong.

    `add_step` counts, and `judge` reads the counters, which waits for the device, after 1, 2, 4, 8, .. steps.
    After 64 ended episodes, the checks pause until there are ten times as many steps.

    Last observations that equal those after the reset, or zeros, are a fault if something in them *jumps*: its
    change is more than 1.5 times its largest change in steps that end no episode. So an episode that begins
    where the last one ended is correct, and so are constant states. The desired goal hardly ever changes within
    an episode, and it jumps first.
    """

    def __init__(self, name: str, setting: str, time_limit: int | None, is_enabled: bool) -> None:
        self.notes: list[str] = []
        self._name, self._setting, self._time_limit = name, setting, time_limit
        self._steps, self._resume_at = 0, 0 if is_enabled else math.inf
        self._counts: dict[str, torch.Tensor] = {}
        self._is_warned = False

    @property
    def is_active(self) -> bool:
        """Whether this step is to be counted."""
        return self._steps >= self._resume_at

    def begin(self, observation: dict[str, Any], num_envs: int) -> None:
        """Prepare for the steps after a reset of all N environments."""
        self._start = torch.cat(_rows(observation), 1)
        self._length = torch.zeros(num_envs, dtype=torch.long, device=self._start.device)
        self._has_moved = self._length.bool()
        self._largest = self._length.new_tensor([-1.0, -1.0, 0.0], dtype=torch.float32)  # changes; -1: unknown
        self._has_one_start = (self._start == self._start[:1]).all() & (num_envs > 1)

    def add_step(
        self, before: dict[str, Any], last: dict[str, Any], after: dict[str, Any], ended: torch.Tensor,
        absent: torch.Tensor, is_marked: bool,
    ) -> None:  # fmt: skip
        """Count the faults of one step: observations before and after it and after resets, and (N,) bools.

        ``absent`` are the ended environments without a last observation; ``is_marked`` is False if the simulator
        does not tell truncations from terminations.
        """
        was, now, then = _rows(before), _rows(last), _rows(after)
        change = torch.stack([(y - x).abs().sum(1).nan_to_num() for x, y in zip(was, now, strict=True)])  # (3, N)
        going, still, follows = ~ended, (change == 0).all(0), self._has_moved
        self._largest = torch.maximum(self._largest, torch.where(going, change, -1.0).amax(1))
        known = self._largest[:, None]
        jumps = ended & (change > 1.5 * known) & (known >= 0)
        is_first = ended & torch.stack([(x == y).all(1) for x, y in zip(now, then, strict=True)])
        zeros = ended & (torch.cat(now, 1) == 0).all(1)
        self._has_moved = going & ~still
        self._length += 1
        unmarked = ended & (not is_marked)
        self._add(
            ended=ended,
            absent=absent,
            nan=ended & torch.cat(now, 1).isnan().any(1),
            zeros=zeros,
            zero_jumps=zeros & jumps.any(0),
            still=ended & follows & still,  # after a step that changed the observation
            moved=ended & follows,
            going_still=going & follows & still,
            going_moved=going & follows,
            restarts=jumps[1] & jumps[2],
            other_starts=ended & (torch.cat(then, 1) != self._start).any(1),
            unmarked=unmarked,
            late=unmarked & (self._length >= (self._time_limit or math.inf)),
            length=ended * self._length,
            squares=ended * self._length**2,
            **{f"first_{key}": rows for key, rows in zip(OBSERVATION_KEYS, is_first, strict=True)},
            **{f"jumps_{key}": rows for key, rows in zip(OBSERVATION_KEYS, is_first & jumps, strict=True)},
        )
        self._length = torch.where(ended, 0, self._length)

    def add_rewards(self, reward: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> None:
        """Compare the simulator's rewards with those for the goals before and after the step, (N,) each."""
        tolerance = 1e-4 * (1 + reward.abs())
        differs = (reward - after).abs() > tolerance
        between = (reward - torch.minimum(before, after) > -tolerance) & (reward - torch.maximum(before, after) < tolerance)
        varied = differs | ((before - after).abs() > tolerance)
        self._add(wrong=differs & ~between, lagging=differs & between, varied=varied)

    def count_step(self) -> None:
        """Count a step of all environments, and call `judge` after 1, 2, 4, 8, .. of them."""
        if self.is_active:
            count = self._steps + 1 - int(self._resume_at)
            if count & (count - 1) == 0:
                self.judge()
        self._steps += 1

    def judge(self) -> None:
        """Read the counters. Raise ValueError for a fault; warn once, or note, what may be right."""
        if not self._counts:
            return
        numbers = torch.stack([*self._counts.values(), self._has_one_start.long()]).tolist()  # waits
        seen = {"wrong": 0, "lagging": 0, "varied": 0} | dict(zip([*self._counts, "one_start"], numbers, strict=True))
        ended = seen["ended"]
        many = max(MIN_ENDS, ended / 2)
        chance = (seen["going_still"] + 1) / (seen["going_moved"] + 1)
        first = [k for k in OBSERVATION_KEYS if seen[f"first_{k}"] == ended and seen[f"jumps_{k}"] >= many]
        reads = "; a function must read its argument, not the simulator" if "observation" not in first else ""
        marks = "return 'time_outs' in the infos, or pass truncated= with the key; time_limit=0 if it is no truncation"
        faults = [
            (seen["absent"] > 0, f"{seen['absent']} of {ended} ended episodes have no last observation", ""),
            (seen["nan"] == ended >= MIN_ENDS, "all last observations contain NaN", ""),
            (seen["zeros"] == ended and seen["zero_jumps"] >= many, "all last observations are zeros", ""),
            (
                seen["still"] == seen["moved"] >= MIN_ENDS and chance ** seen["moved"] < MAX_CHANCE,
                "all last observations are those before the last step",
                "",
            ),
            (len(first) > 0, f"{', '.join(first)} of all last observations are those after the reset{reads}", ""),
            (seen["restarts"] == ended >= MIN_ENDS, "goals change and achieved goals jump in all last steps", ""),
            (seen["late"] > 0, f"`done` contains truncations, after {self._time_limit} steps", marks),
            (
                seen["wrong"] >= MIN_ENDS and seen["wrong"] > seen["varied"] / 2,
                f"{seen['wrong']} rewards are not compute_reward(achieved_goal, desired_goal, info), but of another "
                "goal or with other terms",
                "correct desired_goal or compute_reward, or pass reward='compute'",
            ),
        ]
        for is_fault, fault, setting in faults:
            if is_fault:
                raise ValueError(f"{self._name}: {fault}; {setting or self._setting} (or skip this with checks=False)")
        is_constant = ended * seen["squares"] == seen["length"] ** 2 and seen["length"] > ended >= 4 * MIN_ENDS
        notes = {
            "some last observations contain NaN": seen["nan"] > 0,
            "the simulator's reward lags: it is between those before and after the step": seen["lagging"] >= MIN_ENDS,
            "all episodes have the same length: if it is a time limit, pass truncated=": is_constant
            and seen["unmarked"] == ended
            and self._time_limit is None,
        }
        self.notes += [note for note, is_found in notes.items() if is_found and note not in self.notes]
        if seen["one_start"] and seen["other_starts"] and not self._is_warned:
            self._is_warned = True
            warn_user(f"{self._name}: all environments began in the same state, but later episodes in others; do they share a seed?")
        if ended >= ENOUGH_ENDS:
            self._resume_at, self._counts = 10 * (self._steps + 1), {}
            self._length, self._has_moved = torch.zeros_like(self._length), torch.zeros_like(self._has_moved)

    def _add(self, **counts: torch.Tensor) -> None:
        for name, rows in counts.items():
            self._counts[name] = rows.sum() + self._counts.get(name, 0)


def _rows(observation: dict[str, Any]) -> list[torch.Tensor]:
    """Return all values of each of the three keys as one matrix (N, W)."""
    parts = ([leaf.reshape(len(leaf), -1).float() for leaf in leaves(observation[key])] for key in OBSERVATION_KEYS)
    return [torch.cat(part, 1) for part in parts]
