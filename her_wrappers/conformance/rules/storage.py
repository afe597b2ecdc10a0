"""Rules HB001 to HB005: the adapter works. Rules HB502 to HB517: rows equal the steps that were added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.conformance.registry import REPORTED_SCENARIOS, replay_rule
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.rows import HORIZON, DecodedRows
from her_wrappers.conformance.scenarios import CAPACITY, EQUAL_EPISODES, FullBuffer, MemoryChanges
from her_wrappers.rules import Violation

INTERFACE = "the interface ReplayAdapter of her_wrappers.conformance"


def _failure_rule(code: str, name: str, **texts: Any) -> None:
    """Register the rule ``code``, which reports scenarios whose `ScenarioError` has the same code."""

    def check(results: ScenarioResults) -> Iterator[Violation]:
        results.of(EQUAL_EPISODES)  # runs the scenario, which may fail
        for scenario, failure in results.failures.items():
            if failure.code == code and not (code == "HB001" and scenario in REPORTED_SCENARIOS):
                yield Violation(str(failure), subject=f"scenario {scenario!r}")

    replay_rule(code, name, scenario=None, **{"source": INTERFACE, **texts})(check)


_failure_rule(
    "HB001",
    "adapter-raises",
    meaning="The buffer or its adapter raises an exception.",
    fix="call her_wrappers.conformance.scenarios.run_scenario(NAME, Adapter), and read the traceback",
    wrong="def sample(self, n): raise NotImplementedError",
    right="def sample(self, n): return self.buffer.sample(n)",
)
_failure_rule(
    "HB002",
    "batch-keys",
    meaning="A batch is not a dict, or does not contain a required key.",
    fix="return all keys that ReplayAdapter.sample lists",
    wrong="return batch.obs, batch.act, batch.rew",
    right='return {"observation": batch.obs, "action": batch.act, ...}',
)
_failure_rule(
    "HB003",
    "batch-shape",
    meaning="A value of a batch has the wrong shape, or is not an array of numbers.",
    fix="for batch size B, return NumPy arrays of shape (B, ...), with rewards and flags of shape (B,)",
    wrong='return {"reward": batch.rewards, ...}  # (B, 1)',
    right='return {"reward": batch.rewards[:, 0], ...}',
)
_failure_rule(
    "HB004",
    "not-completed",
    meaning="A scenario did not end within the time limit.",
    fix="look for an infinite loop, such as a search for a row that can be relabeled",
    wrong="while not relabeled: row = sample_row()",
    right="row = sample_row()",
)
_failure_rule(
    "HB005",
    "transition-mixed",
    meaning="A row is not one of the transitions that were added; its values belong to different steps.",
    fix="read observation, action and next observation with the same index",
    wrong='return {"observation": obs[i], "action": actions[i], "next_observation": obs[j], ...}',
    right='return {"observation": obs[i], "action": actions[i], "next_observation": obs[i + 1], ...}',
    source="Gymnasium, Env.step: one call returns the values of one transition",
)


def _rows_rule(code: str, name: str, **options: Any) -> None:
    """Add a rule that reports the exception that its scenario raised, or the first wrong row."""

    def check(result: Any) -> Iterator[Violation]:
        yield from getattr(result, "rows", result).first_violation()

    replay_rule(code, name, reports_exceptions=True, **options)(check)


_rows_rule(
    "HB502",
    "image-goals",
    scenario="image goals",
    meaning="Goals that are uint8 images raise an error, or change.",
    fix="store images with their dtype and shape, and do not scale them",
    wrong="desired_goal = np.zeros((size, *shape), np.float32); desired_goal[i] = image / 255",
    right="desired_goal = np.zeros((size, *shape), np.uint8)",
    source="RIG, arXiv 1807.04742: goals are images",
    implies=("HB201",),
)
_rows_rule(
    "HB503",
    "discrete-goals",
    scenario="discrete goals",
    meaning="Goals of a Discrete space raise an error, or change.",
    fix="store goals as integers with the dtype of the space",
    wrong="desired_goal = np.zeros((size, goal_space.shape[0]))",
    right="desired_goal = np.zeros((size, *goal_space.shape), goal_space.dtype)",
    source="Gymnasium, spaces.Discrete",
)
_rows_rule(
    "HB504",
    "overwritten-episode",
    scenario="full buffer",
    meaning="After old transitions were overwritten, sampling raises an exception or returns wrong rows.",
    fix="remove an episode when its first transition is overwritten",
    wrong="self.storage[pos] = step  # the bounds of the old episode stay",
    right="self.remove_episode_at(pos); self.storage[pos] = step",
    source="stable-baselines3 HerReplayBuffer.add; tianshou issue 811",
    implies=("HB507", "HB510", "HB517"),
)
_rows_rule(
    "HB507",
    "stale-bounds",
    scenario="overwritten without sampling",
    meaning="Sampling fails or returns wrong rows if all transitions were overwritten between two batches.",
    fix="update the bounds of the stored episodes when transitions are added",
    wrong="if len(storage) != self.cached_len: self.bounds = find_bounds(storage)",
    right="self.bounds.append((start, end))  # when the episode ends",
    source="torchrl 0.14.1, HERReplayBuffer",
)
_rows_rule(
    "HB509",
    "different-lengths",
    scenario="different lengths",
    meaning="Rows are wrong if episodes have different lengths.",
    fix="store the length of each episode",
    wrong="episode, t = divmod(i, horizon)",
    right="episode, t = np.searchsorted(starts, i, 'right') - 1, i - starts[episode]",
    source="garage issue 837",
    implies=("HB504", "HB508", "HB512", "HB513", "HB605"),
)
_rows_rule(
    "HB510",
    "episode-fills-buffer",
    scenario="episode as long as the buffer",
    meaning="An episode of exactly buffer_size steps cannot be sampled, or has wrong rows.",
    fix="distinguish a full ring buffer from an empty one",
    wrong="length = (end - start) % buffer_size  # 0",
    right="length = end - start  # with counters that never wrap",
    source="stable-baselines3 2.9.2: such an episode is never sampled",
)
_rows_rule(
    "HB511",
    "open-episode",
    scenario="open episode",
    meaning="Sampling raises an exception or returns wrong rows while an episode is open.",
    fix="sample transitions of complete episodes only",
    wrong="i = rng.integers(len(storage))",
    right="i = rng.choice(transitions_of_complete_episodes)",
    source="stable-baselines3 HerReplayBuffer: only complete episodes are sampled",
    implies=("HB513",),
)
_rows_rule(
    "HB512",
    "interrupted-episode",
    scenario="interrupted episode",
    meaning="An episode that was ended with end_episode continues with the steps of the next episode.",
    fix="end the open episode at its last added step",
    wrong="def end_episode(self): pass",
    right="def end_episode(self): self.episodes.append(self.open); self.open = []",
    source="stable-baselines3 HerReplayBuffer.truncate_last_trajectory",
)
_rows_rule(
    "HB513",
    "several-environments",
    scenario="interleaved steps",
    meaning="Rows are wrong if the steps of several environments are interleaved.",
    fix="store one open episode for each environment",
    wrong="self.open.append(step)",
    right="self.open[env_index].append(step)",
    source="stable-baselines3 issue 520",
)


@replay_rule(
    "HB505",
    scenario="full buffer",
    meaning="The newest complete episode is missing in most batches of a full buffer.",
    fix="evict the oldest episode first",
    wrong="if len(self) >= buffer_size: return  # new transitions are not stored",
    right="while len(self) > buffer_size: self.episodes.pop(0)",
    source="Lin 1992; DQN: the buffer holds the most recent transitions",
    implies=("HB205",),
)
def newest_episode_missing(full: FullBuffer) -> Iterator[Violation]:
    rows = full.rows
    found = [(rows.episode[rows.batch == i] == newest).any() for i, newest in enumerate(full.newest)]
    if sum(found) < 0.5 * len(found):
        yield Violation(f"only {sum(found)} of {len(found)} batches of 96 rows have the newest episode")


@replay_rule(
    "HB506",
    severity="warning",
    scenario="full buffer",
    meaning="More transitions are stored than buffer_size plus the steps of one episode.",
    fix="evict the oldest episodes until buffer_size transitions remain",
    wrong="self.episodes.append(episode)",
    right="self.episodes.append(episode); self.evict()",
    source="ReplayAdapter, argument buffer_size",
)
def capacity_exceeded(full: FullBuffer) -> Iterator[Violation]:
    rows = full.rows
    most = max(len(np.unique(rows.transition[rows.batch == i])) for i in range(len(full.newest)))
    if most > CAPACITY + HORIZON:  # an episode may lose its relabeled copies one by one
        yield Violation(f"a batch has {most} different transitions, with buffer_size={CAPACITY}")


@replay_rule(
    "HB508",
    scenario="different lengths",
    meaning="Episodes of one step are not sampled, or not relabeled.",
    fix="store episodes of one step, and relabel the step with the achieved goal of its next state",
    wrong="if T > 1: self.store(episode)",
    right="self.store(episode)",
    source="hill-a/stable-baselines issue 578",
)
def one_step_episode(rows: DecodedRows) -> Iterator[Violation]:
    short = rows.length == 1
    count, relabeled = int(short.sum()), int((short & rows.relabeled).sum())
    if count < 10 or relabeled < 0.3 * count * rows.relabeled.mean():
        yield Violation(
            f"{count} of {len(rows)} rows are of episodes of one step; {relabeled} of these are relabeled"
        )


@replay_rule(
    "HB514",
    scenario=None,
    inconclusive_without=("shared memory", "set priorities"),
    meaning="add or update_priorities changes an argument of the caller.",
    fix="copy arguments before changing their shape or dtype",
    wrong='obs["desired_goal"] = obs["desired_goal"].reshape(1, -1)',
    right='goal = np.asarray(obs["desired_goal"]).reshape(1, -1)',
    source="stable-baselines3 DictReplayBuffer.add reshapes Discrete entries of the caller's dict",
)
def arguments_changed(results: ScenarioResults) -> Iterator[Violation]:
    for result in map(results.of, ("shared memory", "set priorities")):
        if result is not None and result.arguments_changed:
            yield Violation(f"the buffer changed the argument {', '.join(result.arguments_changed)}")


@replay_rule(
    "HB515",
    scenario="shared memory",
    reports_exceptions=True,
    meaning="Stored transitions change if the caller changes the arrays after adding them.",
    fix="copy the arrays before storing them",
    wrong="self.open.append(obs)",
    right="self.open.append(copy.deepcopy(obs))",
    source="environments that reuse one array for all observations",
    implies=("HB517",),
)
def arguments_aliased(memory: MemoryChanges) -> Iterator[Violation]:
    rows = memory.stored_changed
    yield from rows.violation(~rows.is_added, "the row contains later changes of the arrays that were added")


@replay_rule(
    "HB516",
    scenario=None,
    inconclusive_without=("shared memory", "set priorities"),
    meaning="A batch changes when the next batch is sampled, or when transitions are added.",
    fix="return new arrays from each call of sample",
    wrong='np.take(self.rewards, i, out=self.out); return {"reward": self.out, ...}',
    right='return {"reward": self.rewards[i], ...}',
    source="cpprb 11.0.0: index and weights of a batch are views of memory that the next batch overwrites",
    implies=("HB517",),
)
def batch_overwritten(results: ScenarioResults) -> Iterator[Violation]:
    for result in map(results.of, ("shared memory", "set priorities")):
        if result is not None and result.batch_changed:
            changed = ", ".join(map(repr, result.batch_changed))
            yield Violation(f"{changed} of a batch changed in later calls of add() or sample()")


@replay_rule(
    "HB517",
    scenario="shared memory",
    meaning="Changing a batch changes the stored transitions.",
    fix="return copies of the stored rows",
    wrong="return self.storage[start:stop]",
    right="return self.storage[start:stop].copy()",
)
def storage_aliased(memory: MemoryChanges) -> Iterator[Violation]:
    yield from memory.storage_changed.first_violation()
