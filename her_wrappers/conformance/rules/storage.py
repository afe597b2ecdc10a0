"""HB502 to HB517: all kinds of episodes are stored and sampled as they were added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.registry import (
    PAPER,
    correct_rows,
    failures_of,
    first_wrong_row,
    first_wrong_row_by_aspect,
    replay_rule,
)
from her_wrappers.conformance.scenarios.driver import HORIZON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.conformance.results import ScenarioResults

replay_rule(
    "HB502",
    "image-goals",
    meaning="Goals that are uint8 images raise an error, or change.",
    fix="store images with their dtype and shape, and do not scale them",
    wrong="desired_goal = np.zeros((size, *shape), np.float32); desired_goal[i] = image / 255",
    right="desired_goal = np.zeros((size, *shape), np.uint8)",
    source="RIG, arXiv 1807.04742: goals are images",
    offers=("images",),
    scenario="image goals",
)(correct_rows("image goals"))
replay_rule(
    "HB503",
    "discrete-goals",
    meaning="Goals of a Discrete space raise an error, or change.",
    fix="store goals as integers with the dtype of the space",
    wrong="desired_goal = np.zeros((size, goal_space.shape[0]))",
    right="desired_goal = np.zeros((size, *goal_space.shape), goal_space.dtype)",
    source="Gymnasium, spaces.Discrete",
    offers=("discrete",),
    scenario="discrete goals",
)(correct_rows("discrete goals"))
replay_rule(
    "HB504",
    "overwritten-episode",
    meaning="After old transitions were overwritten, sampling raises or rows are wrong.",
    fix="remove an episode when its first transition is overwritten",
    wrong="self.storage[pos] = step  # the bounds of the old episode stay",
    right="self.remove_episode_at(pos); self.storage[pos] = step",
    source="stable-baselines3 HerReplayBuffer.add; tianshou issue 811",
    implies=("HB507",),
    scenario="full buffer",
)(correct_rows("full buffer"))
replay_rule(
    "HB507",
    "stale-bounds",
    meaning="Sampling raises or rows are wrong if all transitions were overwritten between two batches.",
    fix="update the bounds when transitions are added",
    wrong="if len(storage) != self.cached_len: self.bounds = find_bounds(storage)",
    right="self.bounds.append((start, end))  # when the episode ends",
    source="torchrl 0.14.1, HERReplayBuffer",
    scenario="overwritten without sampling",
)(correct_rows("overwritten without sampling"))
replay_rule(
    "HB509",
    "different-lengths",
    meaning="Rows are wrong if episodes have different lengths.",
    fix="store the length of each episode",
    wrong="episode, t = divmod(i, horizon)",
    right="episode, t = np.searchsorted(starts, i, 'right') - 1, i - starts[episode]",
    source="garage issue 837",
    implies=("HB504", "HB507", "HB508", "HB512", "HB513", "HB605"),
    scenario="different lengths",
)(correct_rows("different lengths"))
replay_rule(
    "HB510",
    "episode-fills-buffer",
    meaning="An episode of exactly buffer_size steps cannot be sampled, or has wrong rows.",
    fix="distinguish a full ring buffer from an empty one",
    wrong="length = (end - start) % buffer_size  # 0",
    right="length = end - start  # with counters that never wrap",
    source="stable-baselines3 2.9.2: such an episode is never sampled",
    scenario="episode as long as the buffer",
)(correct_rows("episode as long as the buffer"))
replay_rule(
    "HB511",
    "open-episode",
    meaning="Sampling raises or returns wrong rows while an episode is open.",
    fix="sample transitions of complete episodes only",
    wrong="i = rng.integers(len(storage))",
    right="i = rng.choice(transitions_of_complete_episodes)",
    source="stable-baselines3 HerReplayBuffer: only complete episodes are sampled",
    implies=("HB513",),
    scenario="open episode",
)(correct_rows("open episode"))
replay_rule(
    "HB512",
    "interrupted-episode",
    meaning="An episode that was ended with end_episode continues with the steps of the next episode.",
    fix="end the open episode at its last added step",
    wrong="def end_episode(self): pass",
    right="def end_episode(self): self.episodes.append(self.open); self.open = []",
    source="stable-baselines3 HerReplayBuffer.truncate_last_trajectory",
    offers=("end episode",),
    scenario="interrupted episode",
)(correct_rows("interrupted episode"))
replay_rule(
    "HB513",
    "several-environments",
    meaning="Rows are wrong if the steps of several environments are interleaved.",
    fix="store one open episode for each environment",
    wrong="self.open.append(step)",
    right="self.open[env_index].append(step)",
    source="stable-baselines3 issue 520",
    offers=("several environments",),
    scenario="several environments",
)(correct_rows("several environments"))


@replay_rule(
    "HB505",
    "newest-episode-missing",
    meaning="The newest complete episode is missing in most batches of a full buffer.",
    fix="evict the oldest episode first",
    wrong="if len(self) >= buffer_size: return  # new transitions are not stored",
    right="while len(self) > buffer_size: self.episodes.pop(0)",
    source="Lin 1992; DQN: the buffer holds the most recent transitions",
)
def newest_episode_missing(results: ScenarioResults) -> Iterator[Violation]:
    """At least half of the batches of 96 rows from 40 transitions contain the newest episode."""
    result = results.of("full buffer")
    if result is None:
        return
    rows = result.rows
    found = [(rows.episode[rows.batch == i] == newest).any() for i, newest in enumerate(result.newest)]
    if sum(found) < 0.5 * len(found):
        yield Violation(
            f"in {sum(found)} of {len(found)} batches", "the newest episode in most batches of 96 rows"
        )


@replay_rule(
    "HB506",
    "capacity-exceeded",
    "warning",
    meaning="More transitions are stored than buffer_size plus the steps of one episode.",
    fix="evict the oldest episodes until buffer_size transitions remain",
    wrong="self.episodes.append(episode)",
    right="self.episodes.append(episode); self.evict()",
    source="ReplayAdapter, argument buffer_size",
)
def capacity_exceeded(results: ScenarioResults) -> Iterator[Violation]:
    """A batch has at most buffer_size + HORIZON different transitions."""
    result = results.of("full buffer")
    if result is None:
        return
    rows = result.rows
    keys = rows.episode * 64 + rows.step
    most = max(len(np.unique(keys[rows.batch == i])) for i in range(len(result.newest)))
    most_allowed = result.capacity + HORIZON  # an episode may lose its relabeled copies one by one
    if most > most_allowed:
        yield Violation(f"{most} different transitions in one batch", f"at most {most_allowed}")


@replay_rule(
    "HB508",
    "one-step-episode",
    meaning="Episodes of one step are not sampled, or not relabeled.",
    fix="store episodes of one step, and relabel the step with the achieved goal of its next state",
    wrong="if T > 1: self.store(episode)",
    right="self.store(episode)",
    source="hill-a/stable-baselines issue 578",
    implies=("HB205",),
)
def one_step_episode(results: ScenarioResults) -> Iterator[Violation]:
    """Episodes of one step are sampled and relabeled."""
    rows = results.of("different lengths")
    if rows is None:
        return
    short = rows.length == 1
    count, relabeled = int(short.sum()), int((short & rows.relabeled).sum())
    if count < 10 or relabeled < 0.25 * count:
        yield Violation(
            f"{count} rows of one-step episodes, {relabeled} relabeled",
            "at least 10 rows of one-step episodes, a quarter of them relabeled",
        )


@replay_rule(
    "HB514",
    "arguments-changed",
    meaning="add changes the observations or the action that the caller passes.",
    fix="copy arguments before changing their shape or dtype",
    wrong='obs["desired_goal"] = obs["desired_goal"].reshape(1, -1)',
    right='goal = np.asarray(obs["desired_goal"]).reshape(1, -1)',
    source="stable-baselines3 DictReplayBuffer.add reshapes Discrete entries of the caller's dict",
)
def arguments_changed(results: ScenarioResults) -> Iterator[Violation]:
    """Adding a transition does not change the arguments."""
    result = results.of("memory")
    if result is not None and result.arguments_changed:
        yield Violation(", ".join(result.arguments_changed), "unchanged arguments")


@replay_rule(
    "HB515",
    "arguments-aliased",
    meaning="Stored transitions change if the caller changes the arrays after adding them.",
    fix="copy the arrays before storing them",
    wrong="self.open.append(obs)",
    right="self.open.append(copy.deepcopy(obs))",
    source="environments that reuse one array for all observations",
    implies=("HB517",),
    scenario="memory",
)
def arguments_aliased(results: ScenarioResults) -> Iterator[Violation]:
    """Stored transitions do not change if the caller changes the arrays that were added."""
    yield from failures_of(results, "memory")
    result = results.of("memory")
    if result is not None:
        rows = result.stored_changed
        yield from first_wrong_row(rows, ~rows.is_added, "the transition as it was added")


@replay_rule(
    "HB516",
    "batch-overwritten",
    meaning="A batch changes when the next batch is sampled.",
    fix="return new arrays",
    wrong='np.take(self.rewards, i, out=self.out); return {"reward": self.out, ...}',
    right='return {"reward": self.rewards[i], ...}',
    source="cpprb 11.0.0: index and weights of a batch are views of memory that the next batch overwrites",
    implies=("HB517",),
)
def batch_overwritten(results: ScenarioResults) -> Iterator[Violation]:
    """A batch owns its memory."""
    names = ("memory", "priorities") if "priorities" in results.adapter.offers else ("memory",)
    for result in map(results.of, names):
        if result is not None and result.batch_changed:
            yield Violation(", ".join(result.batch_changed), "a batch that does not change")


@replay_rule(
    "HB517",
    "storage-aliased",
    meaning="Changing a batch changes the stored transitions.",
    fix="return copies of the stored rows",
    wrong="return self.storage[start:stop]",
    right="return self.storage[start:stop].copy()",
    source=PAPER,
)
def storage_aliased(results: ScenarioResults) -> Iterator[Violation]:
    """Changing a batch does not change the buffer."""
    result = results.of("memory")
    if result is not None:
        yield from first_wrong_row_by_aspect(results, result.storage_changed)
