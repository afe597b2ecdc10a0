"""Statistical rules: how often transitions are sampled and relabeled, and how often each state is a goal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import ENOUGH, Rows, Values
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS, Result, Round
from her_wrappers.conformance.uniformity import LIMIT, dependence, share_z
from her_wrappers.rules import Violation

PRIORITIZED_REPLAY = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"

UNIFORM = tuple(name for name, each in SCENARIOS.items() if each.number < 60)
SMALL, PRIORITIES = "small batches", "set priorities"
RELABELED = tuple(name for name in (*UNIFORM, PRIORITIES) if name != SMALL)
OTHERS = (EQUAL_EPISODES, "ends of episodes", "used buffer")


def _sound(result: Result, *aspects: str) -> list[Rows]:
    """Return the `Rows` without wrong rows, since other rules report these."""
    return [rows for rows in result.rows if rows.is_sound(*aspects)]


def _episodes(rows: Rows) -> Values:
    """Return (B,) numbers that are equal for rows of the same episode in the same batch."""
    return rows.batch * len(rows.episodes) + rows.episode


def _wrong_share(rows: Rows) -> Iterator[Violation]:
    """Yield a violation if the share of relabeled rows is not k / (k + 1)."""
    relabeled, share = rows.is_relabeled, rows.k / (rows.k + 1)
    if share_z(relabeled, share, rows.batch, _episodes(rows)) > LIMIT:
        text = f"{relabeled.mean():.3f} of {len(rows)} rows are relabeled with n_sampled_goal={rows.k}"
        yield Violation(f"{text} instead of {share:.3f}")


@replay_rule(
    "HB201",
    RELABELED,
    fix="relabel each row with probability k / (k + 1)",
    source=f"{PAPER}, section 4.5: k is the ratio of HER data to data of normal experience replay",
)
def relabeled_share(result: Result) -> Iterator[Violation]:
    """The share of relabeled rows is not k / (k + 1), where k is n_sampled_goal."""
    for rows in _sound(result):
        if len(rows) > rows.batch[-1] + 1:  # else batches of one row, see HB202
            yield from _wrong_share(rows)


@replay_rule(
    "HB202",
    (SMALL,),
    severity="warning",
    fix="decide randomly for each row, instead of rounding the number of relabeled rows",
    source="stable-baselines3 2.9.2, torchrl 0.14.1: a batch of one row is never relabeled",
)
def share_of_small_batches(result: Result) -> Iterator[Violation]:
    """In batches of 1 or 2 rows, the share of relabeled rows is not k / (k + 1), k = n_sampled_goal."""
    for rows in _sound(result):
        yield from _wrong_share(rows)


@replay_rule(
    "HB204",
    RELABELED,
    fix="decide independently of step, episode and priority whether a row is relabeled",
    source="hill-a/stable-baselines issue 578",
)
def share_depends_on_step(result: Result) -> Iterator[Violation]:
    """Steps of some kind, such as those of a priority, are relabeled more often."""
    for rows in _sound(result):
        original = ~rows.is_relabeled
        of_all = np.bincount(rows.here, minlength=len(rows.must_be_sampled))
        texts = rows.uneven(rows.here[original], of_all, rows.batch[original], _episodes(rows)[original])
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


# --- goals of relabeled rows ----------------------------------------------------------------------


def _judged(result: Result, strategy: str) -> list[Rows]:
    return [rows for rows in _sound(result, "goal") if rows.strategy == strategy]


def _not_uniform(rows: Rows, first: Values) -> Iterator[Violation]:
    """Yield a violation unless goals are uniform over all states of the episode after state ``first``."""
    for least in (2, 256):  # all rows, and those with more states than a byte can count
        judged = rows.has_own_goal & (rows.goal_step > first) & (rows.length - first >= least)
        count, place = (rows.length - first)[judged], (rows.goal_step - first - 1)[judged]
        # A state belongs to the part in which its middle lies; parts of short episodes are single states.
        borders = np.ceil(np.multiply.outer(np.arange(9), count / 8) - 0.5)
        groups = [(f"part {i + 1} of 8 of", *each) for i, each in enumerate(pairwise(borders))]
        groups += [("the first of", 0 * count, 0 * count + 1), ("the last of", count - 1, count)]
        for name, low, high in groups:
            chosen, probability = (place >= low) & (place < high), (high - low) / count
            is_absent = not chosen.any() and probability.sum() >= ENOUGH
            if is_absent or share_z(chosen, probability, rows.batch[judged], rows.here[judged]) > LIMIT:
                text = f"{chosen.mean():.3f} of {len(chosen)} goals are {name} the states"
                yield Violation(f"{text} that can be chosen, instead of {probability.mean():.3f}")
                return


@replay_rule(
    "HB190",
    ("strategy future", *OTHERS),
    offers=("future",),
    fix="for step t of an episode of T steps, sample the integer s from t + 1 to T, both included",
    source=f"{PAPER}, section 4.5: 'k random states'; hill-a/stable-baselines issue 666",
)
def future_not_uniform(result: Result) -> Iterator[Violation]:
    """Goals of the strategy future are not uniform over the states after the step."""
    for rows in _judged(result, "future"):
        yield from _not_uniform(rows, rows.step)


@replay_rule(
    "HB192",
    ("strategy episode", *OTHERS),
    offers=("episode",),
    fix="for each step of an episode of T steps, sample the goal's state s from 1 to T, both included",
    source=f"{PAPER}, section 4.5: 'k random states coming from the same episode'",
)
def episode_not_uniform(result: Result) -> Iterator[Violation]:
    """Goals of the strategy episode are not uniform over the states of the episode."""
    for rows in _judged(result, "episode"):
        yield from _not_uniform(rows, np.zeros(len(rows), int))


@replay_rule(
    "HB193",
    ("strategy random", *OTHERS),
    offers=("random",),
    severity="warning",
    fix="sample any stored transition, and use its achieved goal",
    source=f"{PAPER}, section 4.5: 'k random states encountered so far in the whole training procedure'",
)
def random_not_uniform(result: Result) -> Iterator[Violation]:
    """Goals of the strategy random are not uniform over the stored episodes and their states."""
    for rows in _judged(result, "random"):
        # The first and the last states are goals in only some buffers.
        inside = (rows.features["step"] > 0) & (rows.features["steps to the end"] > 0)
        chosen = rows.is_relabeled & (rows.goal_state >= 0) & inside[rows.goal_state]
        goals, stored = rows.goal_state[chosen], inside
        # If many goals are of evicted episodes, goals of all episodes so far are right too.
        if rows.may_be_sampled[goals].sum() > 0.95 * len(goals):
            stored = inside & rows.must_be_sampled
        judged = stored[goals]
        clusters = rows.batch[chosen][judged], rows.here[chosen][judged]
        texts = list(rows.uneven(goals[judged], stored, *clusters))
        own = (rows.goal_episode == rows.episode)[chosen]
        expected = (rows.length[chosen] - 1) / stored.sum()
        if own.sum() > expected.sum() and share_z(own, expected, rows.batch[chosen]) > LIMIT:
            texts.append(f"{own.mean():.3f} of {len(own)} are of the row's own episode")
        for text in texts[:1]:
            yield Violation(f"goals are not uniform over the stored states: {text}")


@replay_rule(
    "HB194",
    ("strategy geometric", *OTHERS),
    offers=("geometric",),
    fix="sample the distance to the goal from a geometric distribution that is cut off at the last state",
    source="Eysenbach et al. 2022, arXiv 2206.07568: goals are discounted future states",
)
def geometric_prefers_far_states(result: Result) -> Iterator[Violation]:
    """Goals of the strategy geometric are more often far from the step than near to it."""
    for rows in _judged(result, "geometric"):
        last = rows.has_own_goal & (rows.step == rows.length - 2)
        if last.sum() > 40 and not (rows.goal_step == rows.length)[last].any():
            yield Violation(f"the last state was never chosen as a goal: 0 of {last.sum()} rows")
        # Without the last state, which may get the rest of the distribution, and the state in the middle.
        excess = 2 * (rows.goal_step - rows.step) - (rows.length - rows.step)
        judged = rows.has_own_goal & (rows.goal_step < rows.length) & (excess != 0)
        far = (excess > 0)[judged]
        if far.sum() > len(far) / 2 and share_z(far, 0.5, rows.batch[judged], rows.here[judged]) > LIMIT:
            share = f"{far.mean():.0%} of the goals"
            yield Violation(f"{share} are in the second half of the states after the step")


# --- priorities -----------------------------------------------------------------------------------


def _counts(part: Round) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the (S,) numbers of rows of each step, and (S,) masks of the stored steps of each kind."""
    features, must = part.rows.features, part.rows.must_be_sampled
    is_old, is_high = features["episode"] < part.num_old, features["step"] == part.marked
    counts = np.bincount(part.rows.here[part.rows.here >= 0], minlength=len(must))
    kinds = {"new": must & ~is_old, "priority 20": must & is_old & is_high}
    return counts, kinds | {"priority 1": must & is_old & ~is_high}


@replay_rule(
    "HB803",
    (PRIORITIES,),
    fix="return the index that update_priorities expects",
    source=PRIORITIZED_REPLAY,
)
def index_ambiguous(result: Result) -> Iterator[Violation]:
    """The index does not identify a transition, so priorities are set for other transitions."""
    for part in result.facts:
        pairs = {*zip(part.rows.columns["index"].tolist(), part.rows.here.tolist(), strict=True)}
        most = np.unique([index for index, _ in pairs], return_counts=True)[1].max()
        if most > 1:
            yield Violation(f"rows of {most} different transitions have the same index", part.situation)


@replay_rule(
    "HB801",
    (PRIORITIES,),
    fix="sample transitions in proportion to their priorities, also after loading and evicting episodes",
    source=PRIORITIZED_REPLAY,
)
def priorities_ignored(result: Result) -> Iterator[Violation]:
    """Transitions with a high priority are not sampled more often."""
    for part in result.facts:
        counts, kinds = _counts(part)
        is_early = part.rows.features["episode"] < len(part.rows.episodes) / 2
        for half in (is_early, ~is_early):
            high, low = (counts[kinds[kind] & half].sum() for kind in ("priority 20", "priority 1"))
            if high < 0.35 * (high + low):
                share = f"only {high / (high + low):.0%} of the rows have priority 20"
                text = f"one transition in 4 has priority 20, the others have priority 1, but {share}"
                yield Violation(text, part.situation)


@replay_rule(
    "HB804",
    (PRIORITIES,),
    fix="return weights proportional to (sampling probability)^-beta, or no weights",
    source=PRIORITIZED_REPLAY,
)
def importance_weights(result: Result) -> Iterator[Violation]:
    """The importance weights do not correct for how often rows are sampled."""
    for part in result.facts:
        weight = part.rows.columns.get("weight", np.empty(0)).astype(float)
        if not (np.isfinite(weight) & (weight > 0)).all():
            yield Violation("a weight is not a positive number", part.situation)
        elif len(weight):
            counts, kinds = _counts(part)
            low, high = kinds["priority 1"], kinds["priority 20"]
            ratio = weight[low[part.rows.here]].mean() / weight[high[part.rows.here]].mean()
            of_rows = counts[high].mean() / counts[low].mean()
            if not 1.1 < ratio < 2 * of_rows:
                text = f"rows with priority 1 have {ratio:.3g} times the weight of rows with priority 20"
                yield Violation(f"{text}, which are sampled {of_rows:.3g} times as often", part.situation)


@replay_rule(
    "HB805",
    (PRIORITIES,),
    fix="give new transitions one priority, and sample all of them",
    source=PRIORITIZED_REPLAY,
)
def priority_not_uniform(result: Result) -> Iterator[Violation]:
    """New transitions are hardly sampled, or transitions with one priority are not sampled equally often."""
    for part in result.facts:
        (counts, kinds), here = _counts(part), part.rows.here
        new, low = kinds["new"], counts[kinds["priority 1"]].mean()
        if new.any() and counts[new].mean() < 0.5 * low:
            found = f"a new transition has {counts[new].mean():.2g} rows on average"
            yield Violation(f"{found}, and an old one of priority 1 has {low:.2g}", part.situation)
            continue
        for kind in ("new", "priority 20"):
            chosen = kinds[kind][here]
            for text in part.rows.uneven(here[chosen], kinds[kind], part.rows.batch[chosen]):
                yield Violation(f"among transitions that are {kind}, {text}", part.situation)
