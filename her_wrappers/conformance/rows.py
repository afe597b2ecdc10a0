"""Rows: sampled rows, decoded and compared with the oracle in each of their fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.conformance.env import ConformanceEnv, round_to_int
from her_wrappers.conformance.oracle import SOURCES, StoredEpisode
from her_wrappers.conformance.uniformity import LIMIT, share_z
from her_wrappers.rules import Violation

if TYPE_CHECKING:
    from her_wrappers.conformance.driver import BufferDriver

FIELDS = {
    "transition": ("observation", "achieved_goal", "action", "next_observation", "next_achieved_goal"),
    "goal": ("desired_goal", "next_desired_goal"),
    "reward": ("reward",),
    "end": ("terminated", "truncated", "discount"),
}
"""Fields of a row by aspect; rows that are wrong in an aspect are not judged in later aspects."""

TOLERANCE = 1e-5  # allowed relative error of rewards and discounts, which may be float32

ENOUGH = 25.0
"""If at least this number of rows is expected and none is found, a rule reports it: exp(-25) is 1e-11."""

Values: TypeAlias = Any
"""A (B,) array. The alias is Any, since NumPy's operators are annotated to return Any."""

Batches: TypeAlias = Sequence[dict[str, np.ndarray]]


class Row(NamedTuple):
    """Expected values of a sampled row, and facts about its goal; the defaults are for an unknown step."""

    here: int = -1  # number of the state before the step
    there: int = -1  # number of the next state
    goal_state: int = -1  # number of the state that achieved the goal; -1 if none did
    is_relabeled: bool = True  # whether the goal is not a desired goal of the row's episode
    is_allowed: bool = False  # whether the goal is that of the step, or one that the strategy may choose
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    discount: float = 0.0
    may_be_truncated: bool = False  # whether truncated can be True or False


class Rows:
    """The rows (sampled transitions) of several batches, and the values that each row should have.

    The S states of all episodes are numbered from 0, and a step has the number of the state before it.
    ``states`` is a dict of the (S, ...) arrays of their values, and ``features`` a dict of (S,) arrays by
    which steps can be grouped. ``must_be_sampled`` and ``may_be_sampled`` are (S,) masks of steps.

    The B rows of all batches are concatenated. ``columns`` is a dict of the sampled (B, ...) arrays, and
    ``expected`` a dict of the arrays that a correct buffer returns. Other arrays are (B,): ``episode`` and
    ``step`` have the episode of each row and the step in this episode, ``wrong[field]`` is a mask of the rows
    that are wrong in this field, and each field of `Row` is an array with the same name.
    """

    def __init__(self, batches: Batches, driver: BufferDriver) -> None:
        env, oracle = driver.env, driver.oracle
        self.env, self.oracle, self.strategy = env, oracle, driver.strategy
        self.k = driver.options["n_sampled_goal"]
        self.columns = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
        self.batch = np.repeat(np.arange(len(batches)), [len(batch["reward"]) for batch in batches])
        self.episodes = list(env.episodes)
        self._number_states()
        self.episode, self.step = round_to_int(self.columns["observation"][:, :2]).T
        self.goal_episode, self.goal_code = env.decode(self.columns["desired_goal"])
        numbers = self.episode, self.step, self.goal_episode, self.goal_code
        keys = list(zip(*(each.tolist() for each in numbers), strict=True))
        found = {key: self._row(*key) for key in set(keys)}
        for name, values in zip(Row._fields, zip(*(found[key] for key in keys), strict=True), strict=True):
            setattr(self, name, np.array(values))
        self.length: Values = self.features["length of the episode"][self.here]
        self.goal_step: Values = np.where(self.goal_state < 0, -1, self.features["step"][self.goal_state])
        self.has_own_goal: Values = (
            self.is_relabeled & (self.goal_step >= 0) & (self.goal_episode == self.episode)
        )
        self._compare()
        self._find_extra_and_missing()

    def __getattr__(self, name: str) -> Values:  # for type checkers; __init__ sets the attributes
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.batch)

    # --- the steps that were added ---

    def _number_states(self) -> None:
        """Set ``states``, ``features``, ``must_be_sampled`` and ``may_be_sampled``."""
        states = [state for each in self.episodes for state in each.states]
        self._achieved = {state["achieved_goal"]: i for i, state in enumerate(states)}
        self._desired = {state["desired_goal"] for state in states}
        self.states: dict[str, Values] = self.env.arrays_of(states)
        episode, step = np.transpose([state["observation"] for state in states])
        self.first_state = np.flatnonzero(step == 0)  # of each episode
        length = np.array([len(each) for each in self.episodes])[episode]

        def of_steps(stored: Iterable[StoredEpisode]) -> Values:
            ids = set(map(id, stored))
            return np.array([id(each) in ids for each in self.episodes])[episode] & (step < length)

        self.must_be_sampled = must = of_steps(self.oracle.must_be_sampled())
        self.may_be_sampled = of_steps(self.oracle.may_be_sampled())
        self.features: dict[str, Values] = {
            "step": step,
            "steps to the end": length - step,
            "length of the episode": length,
            "end of the episode": np.array([kind_of_end(each) for each in self.episodes])[episode],
            "env_index": np.array([each.env for each in self.episodes])[episode],
            "age (1 oldest, 4 newest)": -(-4 * np.cumsum(must) // max(must.sum(), 1)),
            "episode": episode,
            "number": np.arange(len(states)),
        }

    def uneven(self, steps: Values, among: Values, *clusters: Values, absent: bool = False) -> Iterator[str]:
        """Yield a text on each group of steps that occurs too often or too rarely in the sample ``steps``.

        The (M,) sampled ``steps`` should occur in proportion to the (S,) numbers ``among``. ``clusters`` are
        as in `share_z`. With ``absent``, only groups that never occur are reported.
        """
        for kind, values in self.features.items():
            different, group = np.unique(values, return_inverse=True)
            shares = np.bincount(group, among) / max(among.sum(), 1)
            counts, expected = np.bincount(group[steps], minlength=len(different)), shares * len(steps)
            is_far = np.abs(counts - expected) > LIMIT * np.sqrt(expected * (1 - shares))
            for i in np.flatnonzero((counts == 0) & (expected >= ENOUGH) if absent else is_far):
                if absent or share_z(group[steps] == i, shares[i], *clusters) > LIMIT:
                    found = f"{counts[i]} of {len(steps)} rows are of steps with {kind} = {different[i]}"
                    yield f"{found}, the expected number is {expected[i]:.3g}"

    def _find_extra_and_missing(self) -> None:
        """Set ``stored``: ``extra`` if a wrong step is sampled, ``missing`` if a step never is."""
        self.stored: dict[str, Violation] = {}
        if self.has_wrong("transition"):  # some steps are unknown
            return
        extra = ~self.may_be_sampled[self.here]
        if extra.any():
            i = int(extra.argmax())
            is_open = self.features["end of the episode"][self.here[i]] == "open"
            state = "is open" if is_open else "was evicted, or is not part of the saved buffer"
            self.stored["extra"] = self.violation(extra, f"episode {self.episode[i]} {state}")
        for text in itertools.islice(self.uneven(self.here, self.must_be_sampled, absent=True), 1):
            self.stored["missing"] = Violation(text)

    # --- the oracle ---

    def _row(self, number: int, t: int, goal_number: int, code: int) -> Row:
        """Return the `Row` of step ``t`` of episode ``number`` with the goal (``goal_number``, ``code``)."""
        if not (0 <= number < len(self.episodes) and 0 <= t < len(self.episodes[number])):
            return Row()
        episode, goal, is_own = self.episodes[number], (goal_number, code), number == goal_number
        is_relabeled = not (is_own and goal in self._desired)
        goal_state = self._achieved.get(goal, -1) if is_relabeled else -1
        is_allowed = goal == episode.states[t]["desired_goal"]
        if goal_state >= 0:
            s, sources = goal_state - self.first_state[goal_number], SOURCES.get(self.strategy)
            is_first = s == 0 and self.strategy == "episode"  # the first state is optional
            is_allowed = not sources or (is_own and (is_first or s in sources(t, len(episode))))
        expected = self.oracle.row(episode, t, goal if is_relabeled else None)
        may_end = {episode.saved_at, len(episode) if episode.was_interrupted else -1}
        first = self.first_state[number]
        here, there = first + t, first + expected.end
        return Row(here, there, goal_state, is_relabeled, is_allowed, *expected[1:], expected.end in may_end)

    def _compare(self) -> None:
        """Compare all fields; set ``expected`` and ``wrong``."""
        columns, here, there = self.columns, self.here, self.there
        is_terminated = np.asarray(columns.get("terminated", self.terminated), bool)
        discount = self.discount
        if self.oracle.n_steps == 1:  # gamma is not an argument; rows that continue have the same discount
            discount = np.where(is_terminated, 0.0, columns.get("discount", np.ones(1)).max())
        self.expected: dict[str, Values] = {key: values[here] for key, values in self.states.items()}
        self.expected |= {f"next_{key}": values[there] for key, values in self.states.items()}
        self.expected["action"] = self.env.action(self.features["episode"][here], self.features["step"][here])
        for key in ("desired_goal", "next_desired_goal"):
            goal = self.states["achieved_goal"][self.goal_state]
            of_goal = self.is_relabeled.reshape(-1, *[1] * (goal.ndim - 1))
            self.expected[key] = np.where(of_goal, goal, self.expected[key])
        flags = {"terminated": self.terminated, "truncated": self.truncated}
        self.expected |= {"reward": self.reward, "discount": discount, **flags}
        self.wrong: dict[str, Values] = {}
        judged = np.ones(len(self), bool)
        for fields in FIELDS.values():
            wrong = {key: judged & self._differs(key) for key in fields}
            if "observation" in wrong:
                wrong["observation"] |= here < 0
            if "desired_goal" in wrong:
                wrong["desired_goal"] |= judged & ~self.is_allowed
            if "truncated" in wrong:  # whether a row that is terminated is also truncated has no effect
                wrong["truncated"] &= ~((self.truncated & is_terminated) | self.may_be_truncated)
            self.wrong |= wrong
            judged = judged & ~np.logical_or.reduce(list(wrong.values()))

    def _differs(self, key: str) -> Values:
        """Return whether a field differs from its expected value, (B,) bool; False if it is not returned."""
        if key not in self.columns:
            return np.zeros(len(self), bool)
        found, expected = self.columns[key], self.expected[key]
        if key in {"reward", "discount"}:
            return ~(np.abs(found - expected) <= TOLERANCE * np.maximum(np.abs(expected), 1))  # also for NaN
        is_wrong = np.asarray(found != expected).reshape(len(self), -1).any(axis=1)
        return is_wrong | (key.endswith("goal") and found.dtype != expected.dtype)

    # --- faults ---

    def has_wrong(self, *aspects: str) -> bool:
        """Return whether a row is wrong in one of the aspects."""
        return any(self.wrong[key].any() for aspect in aspects for key in FIELDS[aspect])

    def is_sound(self, *aspects: str) -> bool:
        """Return whether all rows are of stored steps and correct in these aspects, as statistics require."""
        return not (self.stored or self.has_wrong("transition", *aspects))

    def faults(self, known: set[tuple[str, bool]]) -> Iterator[tuple[str, Violation]]:
        """Yield (aspect, violation) for each pair (wrong field, is relabeled) not in ``known``; add it."""
        for aspect, key in ((aspect, key) for aspect, fields in FIELDS.items() for key in fields):
            kinds = {(key, bool(kind)) for kind in np.unique(self.is_relabeled[self.wrong[key]])} - known
            wrong = self.wrong[key] & np.isin(self.is_relabeled, [kind for _, kind in kinds])
            known |= kinds
            if wrong.any():
                yield aspect, self.violation(wrong, self._explain(key, wrong))
        for key, fault in self.stored.items():
            if (key, False) not in known:
                yield "stored", fault
            known.add((key, False))

    def violation(self, wrong: Values, message: str) -> Violation:
        """Return a violation that names the first row in the mask ``wrong``."""
        i = int(wrong.argmax())
        goal = f"goal of state {self.goal_code[i]} of episode {self.goal_episode[i]}"
        goal = goal if self.is_relabeled[i] else "its desired goal"
        place = f"step {self.step[i]} of episode {self.episode[i]} with {goal}"
        return Violation(f"{message}: {int(wrong.sum())} of {len(self)} rows", place)

    def _explain(self, key: str, wrong: Values) -> str:
        """Return a text on the wrong value of a field in the first row in the mask ``wrong``."""
        i = int(wrong.argmax())
        if self.here[i] < 0:
            return "the row matches no step that was added"
        if key == "desired_goal" and not self.is_allowed[i]:
            of_strategy = f"the strategy {self.strategy} does not choose this goal for the step"
            return of_strategy if self.is_relabeled[i] else "the row has the desired goal of another step"
        columns = self.columns[key], self.expected[key]
        found, expected = (each[i].tolist() for each in columns)
        dtypes = [f" with dtype {each.dtype}" if found == expected else "" for each in columns]
        kind = "relabeled" if self.is_relabeled[i] else "original"
        return f"{key} of a row that is {kind} is {found}{dtypes[0]} instead of {expected}{dtypes[1]}"


def kind_of_end(episode: StoredEpisode) -> str:
    """Return how an episode ended, such as ``"time limit"``, or ``"open"`` if it did not end."""
    last = episode.states[-1]
    if episode.was_interrupted:
        return "interruption"
    if not episode.terminated:
        return "time limit" if episode.truncated else "open"
    kind = "success" if ConformanceEnv.reaches(last["achieved_goal"], last["desired_goal"]) else "crash"
    return kind + " at the time limit" * episode.truncated
