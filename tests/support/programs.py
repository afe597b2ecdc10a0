"""Random programs: calls of a buffer with random spaces and options, all judged by the oracle."""

from __future__ import annotations

import copy
import pickle
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers import Batch, Demonstrations, Episode, Episodes, Geometric, Mixture, Priority
from her_wrappers.data.trees import map_tree
from tests.support.buffers import load_buffer, make_buffer, stacked, step_of
from tests.support.counting import LEAVES, TREES, World
from tests.support.equality import assert_same_batches
from tests.support.expected_buffer import ExpectedBuffer, halfway


def goal_options(halfway: Any) -> tuple[dict[str, Any], ...]:
    """Return options that select goals; ``halfway`` is a strategy of the user's own."""
    return (
        {},
        {"goal_selection_strategy": "final", "n_sampled_goal": 1},
        {"goal_selection_strategy": Mixture({"episode": 0.9, "original": 0.1})},
        {"goal_selection_strategy": "geometric"},
        {"goal_selection_strategy": Mixture({"random": 1, "original": 0})},
        {"goal_selection_strategy": "desired"},
        {"goal_selection_strategy": halfway},
        {"goal_selection_strategy": Mixture({"desired": 0.3, "future": 0.3, "random": 0.2, "original": 0.2})},
        {"goal_selection_strategy": Mixture({Geometric(0.5): 0.5, halfway: 0.5}), "n_sampled_goal": 9},
        {"n_sampled_goal": 0},
    )


GOALS = goal_options(halfway)
TERMINATIONS = (None, "no function", "recompute", "success", "keep", "never", "function")
PRIORITIES = (None, None, Priority(beta=0.5), Priority(alpha=1, beta=1, eps=0.01))
OPERATIONS = (
    "add_episode", "add_episodes", "extend", "add", "add", "add_rows", "add_rows",
    "sample", "sample", "sample", "update_priorities", "save_and_load", "copy", "truncate", "clear",
)  # fmt: skip


def overwrite(*trees: Any) -> None:
    """Write to arrays that a buffer was given or has returned, which must not change the buffer."""
    map_tree(lambda leaf: leaf.__setitem__(..., 1) if isinstance(leaf, np.ndarray) else None, trees)


class RandomCalls:
    """A buffer with random spaces and options. ``tape`` are integers that decide everything.

    Attributes:
        options: Arguments of the buffer and of its oracle.
        again: Those arguments that must be given again when the buffer is loaded.
        given: Demonstrations or None, and their oracle.
    """

    world_type = World

    def __init__(self, tape: Iterable[int], goals: tuple[dict[str, Any], ...]) -> None:
        self.tape, self.number = list(tape), 0
        observation, goal, action = (self.pick(LEAVES + TREES) for _ in range(3))
        observation = self.pick((observation, goal, spaces.Dict(image=goal, more=observation)))
        cost = self.pick((None, None, "infos", "infos", "batch"))
        self.world = self.world_type(observation, goal, action, cost)
        options = {
            "n_steps": self.pick((1, 1, 2, 3, 100)),
            "gamma": self.pick((0.99, 0.9, 1.0)),
            "termination": self.pick(TERMINATIONS),
        }
        if options["termination"] == "success" and self.world.cost:  # needs rewards of two values
            options["termination"] = "never"
        functions = self.world.options()
        if options["termination"] == "no function":
            options["termination"] = functions["compute_terminated"] = None
        elif options["termination"] == "function":
            options["termination"] = functions["termination"] = self.world.terminated
        selection = self.pick(goals)
        self.again = functions | {key: selection[key] for key in selection if key != "n_sampled_goal"}
        self.options = options | selection | functions
        self.given, self.demonstrations = None, None
        if self.integer(0, 3) == 0:
            episodes = [self.world.episode(1000 + i, self.integer(1, 6)) for i in range(self.integer(1, 3))]
            self.given = Demonstrations(episodes, self.pick((0.25, 0.5, 0.9)))
        self.share = self.given.share if self.given else 0

    def make_oracles(self, oracle: ExpectedBuffer, options: dict[str, Any]) -> None:
        """Set ``oracles``: the oracle of the buffer, and that of its demonstrations, if any."""
        self.oracle, self.oracles = oracle, [oracle]
        if self.given:
            self.demonstrations = ExpectedBuffer(self.world, **options | {"buffer_size": 100})
            for episode in self.given.episodes:
                self.demonstrations.add_episode(episode)
            self.oracles.append(self.demonstrations)
        if callable(options["termination"]):
            for each in self.oracles:
                each.termination = "recompute"

    def integer(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high`` by the next number of the tape."""
        return low + (self.tape.pop(0) if self.tape else 0) % (high - low + 1)

    def pick(self, choices: Any) -> Any:
        return choices[self.integer(0, len(choices) - 1)]

    def check_batch(self, batch: Batch, size: int) -> None:
        """Assert that the rows of each source are correct, and that their number is the share."""
        arrays = batch.to_numpy()
        is_demonstration = arrays.is_demonstration
        assert abs(is_demonstration.sum() - size * self.share) < 1
        assert arrays.relabeled.tolist() == sorted(arrays.relabeled.tolist(), reverse=True)
        for oracle, rows in zip(self.oracles, (~is_demonstration, is_demonstration), strict=False):
            if rows.any():
                part = arrays.map(lambda leaf, rows=rows: leaf[rows])
                part.provenance = arrays.provenance.map(lambda leaf, rows=rows: leaf[rows])
                part.provenance = part.provenance._replace(num_demonstrations=0)
                oracle.check_batch(part, int(rows.sum()))


class Program(RandomCalls):
    """A buffer and its oracle, on which the same methods are called, on a device or without."""

    def __init__(self, tape: Iterable[int], device: str | None) -> None:
        super().__init__(tape, GOALS)
        self.device = device
        self.batches: list[Batch] = []
        self.num_envs: int | None = None  # None: transitions of one environment, without a leading axis
        options = self.options | {"buffer_size": self.integer(1, 40), "prioritized": self.pick(PRIORITIES)}
        self.make_oracles(ExpectedBuffer(self.world, **options), options)
        if self.demonstrations is not None:
            self.oracle.next_step = self.demonstrations.next_step
        self.open = self.oracle.playing  # episode and next step of each environment
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seed = self.integer(0, 999)
            self.buffer = make_buffer(device, self.world, seed=seed, demonstrations=self.given, **options)

    def episode(self) -> Episode:
        """Return the next episode, which fits the buffer; most are short."""
        size = self.oracle.buffer_size
        length = self.integer(1, size) if self.integer(0, 3) == 0 else self.integer(1, min(5, size))
        self.number += 1
        return self.world.episode(self.number - 1, length)

    def run(self) -> list[Batch]:
        """Run the program; return the sampled batches, as arrays."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the recorded rewards are not those of the function
            while self.tape:
                getattr(self, self.pick(OPERATIONS))()
                self.oracle.check(self.buffer)
            self.sample()
        return self.batches

    # --- operations -------------------------------------------------------------------------------

    def add_episode(self) -> None:
        self.oracle.add_episode(episode := self.episode())
        self.buffer.add_episode(episode)
        overwrite(episode.observations, episode.actions, episode.rewards, episode.infos)

    def add_episodes(self, method: str = "add_episodes") -> None:
        """Add several episodes, as a list, a generator or `Episodes`."""
        episodes = [self.episode() for _ in range(self.integer(1, self.pick((3, 20))))]
        form = self.pick((list, iter, Episodes.of))
        if form is Episodes.of and self.world.cost == "infos":
            form = list  # the dtypes of infos differ
        getattr(self.buffer, method)(form(episodes))
        for episode in episodes:
            self.oracle.add_episode(episode)

    def extend(self) -> None:
        self.add_episodes("extend")

    def add(self) -> None:
        """Add transitions one by one; an episode may stay open."""
        if self.open and self.num_envs is not None:
            return self.add_rows()
        self.num_envs = None
        for _ in range(self.integer(1, 9)):
            episode, t = self.open.get(0) or (self.episode(), 0)
            self.buffer.add(*(step := copy.deepcopy(step_of(episode, t))))
            overwrite(step)
            self.oracle.add_step(0, episode, t)
        return None

    def add_rows(self) -> None:
        """Add transitions of N environments; rows without an open episode may be skipped."""
        if self.open and self.num_envs is None:
            return self.add()
        if not self.open:
            self.num_envs = self.integer(1, 3)
        for _ in range(self.integer(1, 6)):
            steps, skip = [], []
            for env in range(self.num_envs or 0):
                skip.append(env not in self.open and self.integer(0, 3) == 0)
                new = self.world.episode(7, 1) if skip[-1] else None
                steps.append((env, *(self.open.get(env) or (new or self.episode(), 0))))
            *rows, infos = (
                list(column) for column in zip(*(step_of(e, t) for _, e, t in steps), strict=True)
            )
            info = stacked(infos) if self.integer(0, 1) and self.world.info_keys else infos
            given = {"skip": np.array(skip)} if any(skip) or self.integer(0, 1) else {}
            stacks = tuple(map(stacked, rows))
            self.buffer.add(*stacks, info, **given)
            overwrite(stacks)
            for step, is_skipped in zip(steps, skip, strict=True):
                if not is_skipped:
                    self.oracle.add_step(*step)
        return None

    def truncate(self) -> None:
        self.buffer.truncate_open_episode()
        self.oracle.truncate_open_episode()

    def sample(self) -> None:
        """Sample batches of one size, so that several are prefetched; overwrite them afterwards."""
        if not self.buffer.can_sample:
            return
        size = self.pick((7, 7, 1, 2, 30))
        for batch in [self.buffer.sample(size) for _ in range(self.integer(1, 5))]:
            self.check_batch(batch, size)
            self.batches.append(copy.deepcopy(batch.to_numpy()))
            overwrite(batch.episode, batch.goal_index)
            batch.map(lambda leaf: leaf.__setitem__(..., 1))

    def update_priorities(self) -> None:
        """Update priorities of stored and evicted transitions; an index can occur several times."""
        first = 0 if self.demonstrations is None else self.demonstrations.next_step
        if self.oracle.priority is None or self.oracle.next_step == first:
            return
        count = self.integer(0, 12)
        index = [self.integer(first, self.oracle.next_step - 1) for _ in range(count)]
        if self.demonstrations is not None:
            index += [self.integer(0, first - 1) for _ in range(count)]
        priorities = [self.integer(0, 8) / 4 for _ in index]
        given = np.array(index, np.int64), np.array(priorities)
        ignored = self.oracle.update_priorities(index[:count], priorities[:count])
        if self.demonstrations is not None:
            self.demonstrations.update_priorities(index[count:], priorities[count:])
        assert self.buffer.update_priorities(*given) == ignored

    def save_and_load(self) -> None:
        """Save, load, compare the next batches of all three buffers, and continue with the loaded one.

        In the half of the cases, the loaded buffer has another size.
        """
        before = copy.deepcopy(self.buffer)
        longest = [1, *map(len, self.oracle.episodes), *(len(episode) for episode, _ in self.open.values())]
        new_size = self.pick((None, max(longest) + self.integer(0, 40)))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer"
            self.buffer.save(path)
            loaded = load_buffer(path, self.device, **self.again)
            if new_size:
                resized = load_buffer(path, self.device, **self.again, buffer_size=new_size)
        if self.buffer.can_sample:
            sizes = [self.pick((7, 1, 30))] * self.pick((3, 12))
            assert_same_batches(before, copy.deepcopy(self.buffer), sizes)
            assert_same_batches(self.buffer, loaded, sizes)
        self.buffer = loaded
        if new_size:
            self.buffer = resized
            self.oracle.resize(new_size)

    def copy(self) -> None:
        """Continue with a copy or a pickle, after the original has changed."""
        twin = self.pick((copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))))(self.buffer)
        if self.buffer.can_sample:
            assert_same_batches(self.buffer, copy.deepcopy(twin), [7, 7, 30])
        self.buffer.clear()
        self.buffer.add_episode(self.world.episode(3, 1))
        self.buffer = twin

    def clear(self) -> None:
        if self.integer(0, 2) == 0:
            self.buffer.clear()
            self.oracle.clear()


def random_tape(seed: int, length: int = 200) -> list[int]:
    """Return the tape of a random program."""
    return np.random.default_rng(seed).integers(1000, size=length).tolist()


def assert_same_goals(batches: list[Batch], others: list[Batch]) -> None:
    """Assert that batches of two devices have the same rows with the same goals."""
    for batch, other in zip(batches, others, strict=True):
        for name in ("index", "relabeled", "goal_index", "strategy"):
            np.testing.assert_array_equal(getattr(batch, name), getattr(other, name))
