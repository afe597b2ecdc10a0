"""Rules HB201 to HB206: how often transitions are sampled and relabeled. HB390: calls of compute_reward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import Rows, Values
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS, SHARE, Result
from her_wrappers.conformance.uniformity import LIMIT, dependence, share_z
from her_wrappers.rules import Violation

UNIFORM = tuple(name for name, each in SCENARIOS.items() if each.number < 60)
SMALL, DEMONSTRATIONS = "small batches", "kept demonstrations"
RELABELED = tuple(name for name in (*UNIFORM, "set priorities", DEMONSTRATIONS) if name != SMALL)


def _sound(result: Result, *aspects: str) -> list[Rows]:
    return [rows for rows in result.rows if rows.is_sound(*aspects)]


def _episodes(rows: Rows) -> Values:
    """Return (B,) numbers that are equal for rows of the same episode in the same batch."""
    return rows.batch * len(rows.episodes) + rows.episode


def _wrong_share(rows: Rows, chosen: Values, share: float, text: str) -> Iterator[Violation]:
    """Yield a violation if the share of the rows in the mask ``chosen`` is not ``share``."""
    if share_z(chosen, share, rows.batch, _episodes(rows)) > LIMIT:
        yield Violation(f"{chosen.mean():.3f} of {len(rows)} rows are {text} instead of {share:.3f}")


def _wrong_relabeled_share(result: Result, *, small: bool) -> Iterator[Violation]:
    for rows in _sound(result):
        if (len(rows) <= 2 * (rows.batch[-1] + 1)) != small:
            continue
        text = f"relabeled with n_sampled_goal={rows.k}"
        yield from _wrong_share(rows, rows.is_relabeled, rows.k / (rows.k + 1), text)


@replay_rule(
    "HB201",
    RELABELED,
    fix="relabel each row with probability k / (k + 1)",
    source=f"{PAPER}, section 4.5: k is the ratio of HER data to data of normal experience replay",
    implies=("HB202",),
)
def relabeled_share(result: Result) -> Iterator[Violation]:
    """The share of relabeled rows is not k / (k + 1), where k is n_sampled_goal."""
    yield from _wrong_relabeled_share(result, small=False)


@replay_rule(
    "HB202",
    (SMALL,),
    severity="warning",
    fix="decide randomly for each row, instead of rounding the number of relabeled rows",
    source="stable-baselines3 2.9.2, torchrl 0.14.1: a batch of one row is never relabeled",
)
def share_of_small_batches(result: Result) -> Iterator[Violation]:
    """In batches of 1 or 2 rows, the share of relabeled rows is not k / (k + 1), k = n_sampled_goal."""
    yield from _wrong_relabeled_share(result, small=True)


@replay_rule(
    "HB204",
    RELABELED,
    fix="decide independently of step, episode and priority whether a row is relabeled",
    source="hill-a/stable-baselines issue 578",
    implies=("HB201", "HB202"),
)
def share_depends_on_step(result: Result) -> Iterator[Violation]:
    """Steps of some kind, such as those of a priority or of demonstrations, are relabeled more often."""
    for rows in _sound(result):
        original = ~rows.is_relabeled
        of_all = np.bincount(rows.here, minlength=len(rows.must_be_sampled))
        texts = rows.uneven(rows.here[original], of_all, _episodes(rows)[original])
        yield from (Violation(f"original rows are not distributed like all rows: {text}") for text in texts)


@replay_rule(
    "HB205",
    UNIFORM,
    fix="sample transitions, not episodes",
    source="Mnih et al. 2015, DQN: uniform samples of stored transitions",
)
def transitions_not_uniform(result: Result) -> Iterator[Violation]:
    """Transitions are not sampled uniformly, for example those of short episodes more often."""
    for rows in _sound(result):
        judged = rows.must_be_sampled[rows.here]
        texts = rows.uneven(rows.here[judged], rows.must_be_sampled, rows.batch[judged])
        yield from map(Violation, texts)


@replay_rule(
    "HB206",
    (EQUAL_EPISODES, *(f"strategy {name}" for name in STRATEGIES)),
    severity="warning",
    fix="choose the transition, relabeling and goal of each row independently of the other rows",
    source="Mnih et al. 2015, DQN: random samples break the correlations of successive steps",
)
def rows_depend(result: Result) -> Iterator[Violation]:
    """Rows depend on each other in their episodes, their goals, or their relabeling."""
    for rows in _sound(result):
        episodes = _episodes(rows)
        if dependence(rows.episode % 2, rows.batch)[0] > LIMIT:
            yield Violation("batches have too many rows of the same episodes")
        # In episodes of one length, the place of a goal depends only on the step, if goals are independent.
        same = rows.length == np.bincount(rows.length).argmax()
        if dependence(rows.is_relabeled[same], episodes[same])[0] > LIMIT:
            yield Violation("in a batch, the rows of an episode are too often all relabeled or all original")
        chosen = same & rows.has_own_goal & ~rows.wrong["desired_goal"]
        step, goal = rows.step[chosen], rows.goal_step[chosen]
        place = (goal - step) / (rows.length[chosen] - step)
        place -= (np.bincount(step, place) / np.maximum(np.bincount(step), 1))[step]
        if max(dependence(place, each[chosen])[0] for each in (episodes, rows.batch)) > LIMIT:
            yield Violation("the goal of a row depends on the goals of other rows in the same batch")
        z, correlation = dependence(place, rows.here[chosen])
        if z > LIMIT and correlation > 0.6:  # stored copies of relabeled transitions are correlated too
            yield Violation("all relabeled rows of a step have the same goal", severity="error")


@replay_rule(
    "HB390",
    (EQUAL_EPISODES,),
    severity="info",
    fix="call compute_reward once for all relabeled rows",
    source="Gymnasium-Robotics: compute_reward takes batches of goals",
)
def reward_row_by_row(result: Result) -> Iterator[Violation]:
    """compute_reward is called for single rows or a few rows, which is correct but slow."""
    (rows,) = result.rows
    if rows.env.reward_calls > len(rows) / 4:
        yield Violation(f"compute_reward was called {rows.env.reward_calls} times for {len(rows)} rows")


@replay_rule(
    "HB901",
    (DEMONSTRATIONS,),
    fix="take the given share of each batch from the demonstrations, also in batches of one row",
    source="Ball et al. 2023, RLPD, section 4.1, arXiv 2302.02948: a fixed share of each batch",
)
def demonstration_share(result: Result) -> Iterator[Violation]:
    """The share of demonstrations in a batch differs from the given share."""
    for rows in result.rows if len(_sound(result)) == len(result.rows) else ():
        chosen = rows.features["demonstration"][rows.here]
        yield from _wrong_share(rows, chosen, SHARE, "demonstrations")
