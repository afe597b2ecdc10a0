"""Records of the calls of an environment: resets, steps, and the batches of a vector environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers.data.infos import final_observation_row, info_row
from her_wrappers.data.spaces import is_list_of_dicts
from her_wrappers.data.trees import copy_tree, leaf_arrays, map_tree, try_as_array
from her_wrappers.support.error_texts import raised_at
from her_wrappers.support.policies import PolicyError

Item = TypeVar("Item")

OUTCOME = ("reward", "terminated", "truncated")
STATE = ("observation", "info")


@dataclass(frozen=True, eq=False, slots=True)
class ResetRecord:
    """One call of ``reset``, which began the episode with index ``episode``."""

    episode: int
    seed: int | None
    options: Any
    observation: Any  # this and the info are copies made when ``reset`` returned
    info: Any
    live: dict[str, Any]  # the returned objects by name, which the environment may change later
    env: int = 0  # index of the environment in a vector environment

    @classmethod
    def of(cls, episode: int, seed: int | None, options: Any, returned: tuple[Any, Any]) -> ResetRecord:
        """Return a record of one reset; ``returned`` is the observation and info, which are copied."""
        live = dict(zip(STATE, returned, strict=True))
        return cls(episode, seed, options, **copy_tree(live), live=live)

    @property
    def place(self) -> str:
        """The index of the episode, and the options of the reset, if any, for messages."""
        return f"episode {self.episode}, reset{f' with options={self.options!r}' if self.options else ''}"


@dataclass(frozen=True, eq=False, slots=True)
class StepRecord:
    """One call of ``step``: step ``t`` of the episode with index ``episode``."""

    episode: int
    t: int
    before: Any  # a copy of the observation before the step
    action: Any  # a copy made before the step
    observation: Any  # this and the next four are copies made when ``step`` returned
    reward: Any
    terminated: Any
    truncated: Any
    info: Any
    live_action: Any  # the action object that was passed to ``step``
    live: dict[str, Any]  # the five returned objects by name, which the environment may change later

    @classmethod
    def of(
        cls, place: tuple[int, int], before: Any, action: Any, live_action: Any, returned: tuple[Any, ...]
    ) -> StepRecord:
        """Return a record of one step; ``place`` is (episode, t), and the values ``returned`` are copied."""
        live = dict(zip(("observation", *OUTCOME, "info"), returned, strict=True))
        return cls(*place, before, action, **copy_tree(live), live_action=live_action, live=live)

    @property
    def place(self) -> str:
        """The index of the episode and of the step, for messages."""
        return f"episode {self.episode}, step {self.t}"


def goals_of(record: ResetRecord | StepRecord) -> tuple[Any, Any]:
    """Return the achieved and the desired goal after a reset or a step."""
    return record.observation["achieved_goal"], record.observation["desired_goal"]


@dataclass(frozen=True)
class FailedCall:
    """A call of the environment that raised an exception."""

    place: str  # episode and step, or part of the check
    call: str  # such as ``"step()"``
    error: Exception

    @property
    def hint(self) -> str:
        """Hint for the user: a fix for an old Gym API, or else the line of code that raised; may be empty."""
        text = str(self.error)
        if self.call == "reset()" and re.search("unexpected keyword argument '(seed|options)'", text):
            return "add this parameter: define reset(self, *, seed=None, options=None)"
        if self.call == "reset()" and "expected 2" in text:
            return "return (observation, info); old Gym returned the observation alone"
        if self.call == "step()" and re.search("expected 5.* got 4", text):
            return "old Gym returned 4; return (observation, reward, terminated, truncated, info)"
        return raised_at(self.error)


@dataclass(frozen=True)
class Divergence:
    """The first difference between a rollout and its repetition."""

    place: str  # episode and step, or the options of a reset
    at_reset: bool  # whether the difference is in a reset
    path: str  # path of the value that differs, such as ``"desired_goal[0]"``
    original: Any  # value in the rollout
    repeated: Any  # value in the repetition


@dataclass(eq=False)
class Rollout:
    """The recorded calls of a run: a list of resets and a list of steps, both in the order of time."""

    resets: list[ResetRecord] = field(default_factory=list)  # records of the calls of ``reset``
    steps: list[StepRecord] = field(default_factory=list)  # records of the calls of ``step``
    failure: FailedCall | None = None  # the call that raised, in the run or in an experiment after it
    policy_error: PolicyError | None = None  # of the user's policy, in the run or in an experiment after it
    cut_off: str = ""  # reason why the run stopped early, or an empty text
    ended_episodes: int = 0  # number of episodes that terminated or were truncated
    spaces_replaced: Sequence[str] = ()  # names of the space attributes that the environment replaced
    diverged: list[str] = field(default_factory=list)  # places of steps with a bad state of MuJoCo

    @property
    def records(self) -> list[ResetRecord | StepRecord]:
        """All resets, followed by all steps."""
        return [*self.resets, *self.steps]


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` evenly spaced items, including the first and the last item."""
    return [items[i] for i in np.unique(np.linspace(0, len(items) - 1, most).astype(int))]


def wrong_shapes(record: ResetRecord | StepRecord, num_envs: int) -> Iterator[tuple[str, str]]:
    """Yield (name, description of the fault) for each array that does not have one row per environment."""
    observation = record.observation
    if is_list_of_dicts(observation):
        yield "observation", f"the batch is a {type(observation).__name__} of dicts, not a dict of arrays"
        return
    trees = observation if isinstance(observation, dict) else {"observation": observation}
    for key, tree in trees.items():
        for leaf in map(try_as_array, leaf_arrays(tree)):
            if leaf.shape[:1] != (num_envs,):
                yield str(key), f"the batch has shape {leaf.shape} instead of ({num_envs}, ...)"
    if isinstance(record, StepRecord):
        for name in OUTCOME:
            shape = try_as_array(getattr(record, name)).shape
            if shape != (num_envs,):
                yield name, f"the batch has shape {shape} instead of ({num_envs},)"


def ended_rows(step: StepRecord) -> np.ndarray:
    """Return for each of N environments whether its episode ended in this step, (N,) bool."""
    return np.array([bool(one or other) for one, other in zip(step.terminated, step.truncated, strict=True)])


def split_batches(vector_run: Rollout, mode: AutoresetMode, num_envs: int) -> Rollout:
    """Convert batches to records of single environments, up to the first step with a wrong shape."""
    rollout = replace(vector_run, resets=[], steps=[])
    episodes, times, ended = [0] * num_envs, [0] * num_envs, np.zeros(num_envs, bool)

    def start_episode(i: int, record: ResetRecord | StepRecord) -> None:
        episodes[i], times[i], ended[i] = len(rollout.resets), 0, False
        copies, live = ({name: row[name] for name in STATE} for row in _rows(record, i, num_envs))
        rollout.resets.append(ResetRecord(episodes[i], None, None, **copies, live=live, env=i))

    resets, episode = iter(vector_run.resets), -1  # index of the latest call of reset, see `_Runner`
    for step in vector_run.steps:
        while episode < step.episode:
            record, episode = next(resets), episode + 1
            mask = (record.options or {}).get("reset_mask", np.ones(num_envs, bool))
            for i in np.flatnonzero(mask).tolist():
                start_episode(i, record)
        if any(wrong_shapes(step, num_envs)):
            break
        ends = ended_rows(step)
        for i in range(num_envs):
            if ended[i]:
                start_episode(i, step)  # in mode NEXT_STEP, the row of a reset is not a transition
                continue
            resets_now = bool(ends[i]) and mode is AutoresetMode.SAME_STEP
            copies, live = _rows(step, i, num_envs, is_last=resets_now)
            if copies["observation"] is not None:  # else final-obs-missing reports it
                copies |= {"live": live, "live_action": row_of(step.live_action, i)}
                place_and_action = episodes[i], times[i], row_of(step.before, i), row_of(step.action, i)
                rollout.steps.append(StepRecord(*place_and_action, **copies))
                times[i] += 1
            if resets_now:
                start_episode(i, step)
            ended[i] = ends[i] and mode is AutoresetMode.NEXT_STEP
    return rollout


def _rows(
    record: ResetRecord | StepRecord, i: int, num_envs: int, *, is_last: bool = False
) -> list[dict[str, Any]]:
    """Return two dicts of values of environment ``i``: from the copies in ``record``, and from ``live``."""
    rows = []
    # With is_last, the last observation and info of an episode are in the infos of the batch.
    for values in ({name: getattr(record, name) for name in record.live}, record.live):
        infos = values["info"].get("final_info") if is_last else values["info"]
        last = final_observation_row(values["info"], i) if is_last else row_of(values["observation"], i)
        row = {"observation": last, "info": info_row(infos, i, num_envs)}
        if "reward" in values:
            flags = {name: bool(values[name][i]) for name in ("terminated", "truncated")}
            row |= {"reward": values["reward"][i], **flags}
        rows.append(row)
    return rows


def row_of(batch: Any, i: int) -> Any:
    """Return row ``i`` of an array; for a dict of arrays, return a dict with row ``i`` of each array."""
    return map_tree(lambda leaf: leaf[i], batch)
