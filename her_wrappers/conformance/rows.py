"""Rows: sampled rows, decoded and compared with the oracle in each of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.conformance.env import ConformanceEnv, round_to_int
from her_wrappers.conformance.oracle import SOURCES, Oracle, StoredEpisode
from her_wrappers.rules import Violation

FIELDS = {
    "transition": ("observation", "achieved_goal", "action", "next_observation", "next_achieved_goal"),
    "goal": ("desired_goal", "next_desired_goal"),
    "reward": ("reward",),
    "end": ("terminated", "truncated", "discount"),
}
"""Fields of a row by aspect; rows that are wrong in an aspect are not judged in later ones."""

TOLERANCE = 1e-5
"""Relative error of rewards and discounts, which may be float32."""

ENOUGH = 25.0
"""Expected number of rows of steps that are reported as missing if no row is found: exp(-25) is 1e-11."""

Values: TypeAlias = Any
"""A (B,) array. The alias is Any, since NumPy's operators are annotated to return Any."""

Batches: TypeAlias = Sequence[dict[str, np.ndarray]]


class Row(NamedTuple):
    """Statements of the oracle about the row of a step with a goal; the defaults are of an unknown step."""

    is_known: bool = False  # whether the step was added
    may_be_sampled: bool = False
    is_relabeled: bool = True  # whether the goal is not a desired goal of the row's episode
    is_achieved: bool = False  # whether a state achieved the goal
    is_allowed: bool = (
        False  # whether the strategy may choose the goal, or it is the desired goal of the step
    )
    length: int = 0
    goal_step: int = -1  # number of the state that achieved the goal, within its episode
    goal_length: int = 0
    achieved: int = 0  # codes of goals of the row's episode
    end: int = 0  # number of the next state
    next_achieved: int = 0
    next_desired: int = 0
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    discount: float = 0.0
    may_be_truncated: bool = False  # whether truncated can be True or False
    kind_of_end: str = ""  # of the row's episode
    env_index: int = 0


class Rows:
    """The rows (sampled transitions) of several batches, and the values that each row should have.

    The B rows of all batches are concatenated. ``columns`` is a dict of the sampled (B, ...) arrays,
    ``expected`` of the arrays that they should be. Other arrays are (B,): ``episode[i]`` and ``step[i]`` are
    the numbers of row i, and ``wrong[field]`` is a mask of the rows that are wrong in this field. Each
    attribute of `Row` is an array with the same name.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        env: ConformanceEnv,
        oracle: Oracle,
        kept: Sequence[StoredEpisode],
        strategy: str,
        n_sampled_goal: int,
    ) -> None:
        self.env, self.oracle, self.strategy, self.k = env, oracle, strategy, n_sampled_goal
        self.episodes, self.termination = list(env.episodes), oracle.termination
        columns = self.columns = {
            key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]
        }
        self.batch = np.repeat(np.arange(len(batches)), [len(batch["reward"]) for batch in batches])
        self.must_be_sampled = list(oracle.must_be_sampled())
        self._goals: dict[int, tuple[set[Any], dict[Any, int]]] = {}
        self._stored = {id(each) for each in (*oracle.may_be_sampled(), *kept)}

        self.episode, self.step = round_to_int(columns["observation"][:, :2]).T
        self.goal_episode, self.goal_code = env.decode(columns["desired_goal"])
        self.transition: Values = self.episode * 1024 + self.step  # no episode has 1024 steps
        keys = np.stack([self.episode, self.step, self.goal_episode, self.goal_code], axis=1)
        different, inverse = np.unique(keys, axis=0, return_inverse=True)
        found = [self._row(*key) for key in different.tolist()]
        of_row = inverse.reshape(-1)
        for name, values in zip(Row._fields, zip(*found, strict=True), strict=True):
            setattr(self, name, np.array(values)[of_row])
        self.relabeled: Values = self.is_relabeled
        self.is_own: Values = self.goal_episode == self.episode
        self.has_own_goal: Values = self.relabeled & self.is_achieved & self.is_own
        self._compare()

    def __getattr__(self, name: str) -> Values:  # for type checkers; __init__ sets the attributes
        raise AttributeError(name)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.batch)

    def _row(self, number: int, t: int, goal_number: int, code: int) -> Row:
        """Return what the oracle says about the row of step ``t`` with a goal."""
        if not (0 <= number < len(self.episodes) and 0 <= t < len(self.episodes[number])):
            return Row()
        episode, goal = self.episodes[number], (goal_number, code)
        is_own = number == goal_number
        is_relabeled = not (is_own and goal in self._goals_of(number)[0])
        s = goal_length = -1
        if is_relabeled and 0 <= goal_number < len(self.episodes):
            s, goal_length = self._goals_of(goal_number)[1].get(goal, -1), len(self.episodes[goal_number])
        is_allowed = goal == episode.states[t]["desired_goal"]
        if s >= 0 and self.strategy in SOURCES:
            may_be_first = s == 0 and self.strategy == "episode"
            is_allowed = is_own and (may_be_first or s in SOURCES[self.strategy](t, len(episode)))
        elif s >= 0:
            is_allowed = True
        expected = self.oracle.row(episode, t, goal if is_relabeled else None)
        there = episode.states[expected.end]
        return Row(
            True,
            id(episode) in self._stored,
            is_relabeled,
            s >= 0,
            is_allowed,
            len(episode),
            s,
            goal_length,
            episode.states[t]["achieved_goal"][1],
            expected.end,
            there["achieved_goal"][1],
            there["desired_goal"][1],
            *expected[1:],
            expected.end in {episode.saved_at, len(episode) if episode.was_interrupted else -1},
            kind_of_end(episode),
            episode.env,
        )

    def _goals_of(self, number: int) -> tuple[set[Any], dict[Any, int]]:
        """Return the desired goals of an episode, and the number of the state for each achieved goal."""
        if number not in self._goals:
            states = self.episodes[number].states
            achieved = {state["achieved_goal"]: s for s, state in enumerate(states)}
            self._goals[number] = {state["desired_goal"] for state in states}, achieved
        return self._goals[number]

    def _compare(self) -> None:
        """Compare all fields; set ``expected`` and ``wrong``."""
        env, columns, number = self.env, self.columns, np.maximum(self.episode, 0)
        is_terminated = np.asarray(columns.get("terminated", self.terminated), bool)
        discount = self.discount
        if (
            self.oracle.n_steps == 1
        ):  # gamma is not an argument; all rows that continue have the same discount
            discount = np.where(is_terminated, 0.0, columns.get("discount", np.ones(1)).max())
        goal = env.encode(np.maximum(self.goal_episode, 0), np.maximum(self.goal_code, 0))
        next_goal = env.encode(number, self.next_desired)
        of_goal = self.relabeled.reshape(-1, *[1] * (goal.ndim - 1))
        self.expected: dict[str, Values] = {
            "observation": env.observation(number, self.step),
            "achieved_goal": env.encode(number, self.achieved),
            "action": env.action(number, self.step),
            "next_observation": env.observation(number, self.end),
            "next_achieved_goal": env.encode(number, self.next_achieved),
            "desired_goal": goal,
            "next_desired_goal": np.where(of_goal, goal, next_goal),
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "discount": discount,
        }
        self.wrong: dict[str, Values] = {}
        judged = np.ones(len(self), bool)
        for fields in FIELDS.values():
            wrong = {key: judged & self._differs(key) for key in fields}
            if "observation" in wrong:
                wrong["observation"] |= ~self.is_known
            if "desired_goal" in wrong:
                wrong["desired_goal"] |= judged & ~self.is_allowed
            if "truncated" in wrong:  # whether a row that is terminated is also truncated has no effect
                either = (self.truncated & is_terminated) | self.may_be_truncated
                wrong["truncated"] &= ~either
            self.wrong |= wrong
            judged = judged & ~np.logical_or.reduce(list(wrong.values()))

    def has_wrong(self, *aspects: str) -> bool:
        """Return whether a row is wrong in one of the aspects."""
        return any(self.wrong[key].any() for aspect in aspects for key in FIELDS[aspect])

    def _differs(self, key: str) -> Values:
        """Return whether a field differs from its expected value, (B,) bool; False if it is not returned."""
        if key not in self.columns:
            return np.zeros(len(self), bool)
        found, expected = self.columns[key], self.expected[key]
        if key in {"reward", "discount"}:
            return ~(np.abs(found - expected) <= TOLERANCE * np.maximum(np.abs(expected), 1))  # also for NaN
        is_wrong = np.asarray(found != expected).reshape(len(self), -1).any(axis=1)
        return is_wrong | (key.endswith("goal") and found.dtype != expected.dtype)

    def describe(self, i: int) -> str:
        """Return a text that names the step, the episode and the goal of row ``i``."""
        goal = f"goal of state {self.goal_code[i]} of episode {self.goal_episode[i]}"
        goal = goal if self.relabeled[i] else "its desired goal"
        return f"step {self.step[i]} of episode {self.episode[i]} with {goal}"

    def violation(self, wrong: Values, message: str) -> Iterator[Violation]:
        """Yield a violation for the first row in the mask ``wrong``, if any."""
        for i in np.flatnonzero(wrong)[:1].tolist():
            yield Violation(f"{message}: {int(wrong.sum())} of {len(self)} rows", self.describe(i))

    def differences(self, aspect: str, ignore: set[tuple[str, bool]] = frozenset()) -> Iterator[Violation]:  # type: ignore[assignment]
        """Yield a violation for each field of an aspect that is wrong in original or in relabeled rows.

        The subject of a violation is the field. ``ignore`` has pairs (field, whether rows are relabeled).
        """
        for key in FIELDS[aspect]:
            kinds = [kind for kind in (True, False) if (key, kind) not in ignore]
            wrong = self.wrong[key] & np.isin(self.relabeled, kinds)
            for i in np.flatnonzero(wrong)[:1].tolist():
                yield from self.violation(wrong, self._explain(key, i, wrong))

    def _explain(self, key: str, i: int, wrong: Values) -> str:
        """Return a text on the wrong value of a field in row ``i``."""
        kind = "relabeled" if self.relabeled[i] else "original"
        if not self.is_known[i]:
            return "the row matches no step that was added"
        found, expected = (np.asarray(each[key][i]).tolist() for each in (self.columns, self.expected))
        if key == "desired_goal" and found == expected and not self.is_allowed[i]:
            return self._explain_goal(i)
        text = f"{key} of a row that is {kind} is {found} instead of {expected}"
        if self.columns[key].dtype != self.expected[key].dtype and found == expected:
            text += f" with dtype {self.columns[key].dtype} instead of {self.expected[key].dtype}"
        return text + (self._explain_reward(wrong) if key == "reward" and self.relabeled[i] else "")

    def _explain_goal(self, i: int) -> str:
        if not self.relabeled[i]:
            return "the desired goal of the row is that of another step"
        if not self.is_achieved[i]:
            return "no state achieved the goal of the relabeled row"
        if not self.is_own[i]:
            return "the goal was achieved in another episode"
        if self.strategy == "final":
            return "the goal is not that of the last state of the episode"
        place = "action of the step" if self.goal_step[i] == self.step[i] else "step"
        return f"the goal was achieved before the {place}"

    def _explain_reward(self, wrong: Values) -> str:
        """Return a text that explains all ``wrong`` rewards, or an empty text if nothing does."""
        columns, goal = self.columns, self.columns["desired_goal"]
        infos = {"cost": self.env.cost(self.episode, self.step)}
        recorded = {
            episode: self.episodes[episode].rewards for episode in np.unique(self.episode[wrong]).tolist()
        }
        of_step = [
            recorded[e][t] if w else 0.0 for e, t, w in zip(self.episode, self.step, wrong, strict=True)
        ]
        for rewards, text in (
            (of_step, "it is the reward for the original goal"),
            (
                self.env.rewards(columns["achieved_goal"], goal, infos),
                "it is that of the goal before the action",
            ),
            (self.env.rewards(goal, columns["next_achieved_goal"], infos), "both goals were swapped"),
        ):
            if np.allclose(columns["reward"][wrong], np.asarray(rewards)[wrong], atol=TOLERANCE):
                return f"; {text}"
        return ""

    # --- steps ---

    def features(self, episode: Values, step: Values) -> dict[str, Values]:
        """Return values by which steps can be grouped, each a (B,) array: kinds of steps and of episodes."""
        length, end, env_index, ages = (values[episode] for values in self._facts)
        return {
            "step": step,
            "steps to the end": length - step,
            "length of the episode": length,
            "end of the episode": end,
            "env_index": env_index,
            "age of the episode (0 oldest, 3 newest)": ages,
        }

    @cached_property
    def _facts(self) -> list[Values]:
        """Length, kind of end, env_index and age (-1 if not stored) of each episode."""
        count = len(self.must_be_sampled)
        age = {id(stored): 3 - 4 * i // count for i, stored in enumerate(self.must_be_sampled)}
        facts = [(len(each), kind_of_end(each), each.env, age.get(id(each), -1)) for each in self.episodes]
        return [np.array(values) for values in zip(*facts, strict=True)]

    def judged_steps(self) -> tuple[Values, Values]:
        """Return the episode numbers and step numbers of all steps that must be sampled."""
        number_of = {id(stored): number for number, stored in enumerate(self.episodes)}
        numbers = [number_of[id(stored)] for stored in self.must_be_sampled]
        lengths = [len(stored) for stored in self.must_be_sampled]
        steps = [np.arange(length) for length in lengths]
        return np.repeat(numbers, lengths), np.concatenate([*steps, np.empty(0, int)])

    def extra(self) -> Iterator[Violation]:
        """Yield a violation if a row is of a step that may no longer or not yet be sampled."""
        wrong = self.is_known & ~self.may_be_sampled
        for i in np.flatnonzero(wrong)[:1].tolist():
            is_open = self.kind_of_end[i] == "open"
            state = "is open" if is_open else "was evicted, or is not part of the saved buffer"
            yield from self.violation(wrong, f"episode {self.episode[i]} {state}")

    def missing(self) -> Iterator[Violation]:
        """Yield a violation if no row has a kind of steps of which many rows are expected."""
        episode, step = self.judged_steps()
        name = episode * 1024 + step
        if not len(name):
            return
        expected = len(self) / len(name)
        found = np.isin(name, self.transition)
        for kind, values in (self.features(episode, step) | {"episode": episode, "transition": name}).items():
            different, group = np.unique(values, return_inverse=True)
            members, rows = np.bincount(group), np.bincount(group, found)
            for i in np.flatnonzero((members * expected >= ENOUGH) & (rows == 0))[:1].tolist():
                value = different[i]
                label = f"{kind} {value}"
                if kind == "transition":
                    label = f"step {value % 1024} of episode {value // 1024}"
                count = f"{members[i]} of {len(name)} stored transitions"
                yield Violation(f"none of {len(self)} rows is of {label}, of which {count} are")
                return


def kind_of_end(episode: StoredEpisode) -> str:
    """Return how an episode ended."""
    last = episode.states[-1]
    if episode.was_interrupted:
        return "interruption"
    if not episode.terminated:
        return "time limit" if episode.truncated else "open"
    kind = "success" if ConformanceEnv.reaches(last["achieved_goal"], last["desired_goal"]) else "crash"
    return kind + " at the time limit" * episode.truncated
