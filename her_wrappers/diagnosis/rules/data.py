"""Rules GD3xx and GD5xx: the recorded rewards or other data are not suitable for learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.checker.rules.episodes import find_placeholder
from her_wrappers.checker.rules.rewards import PERIODS, quaternions
from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.diagnosis.action_effects import best_lag, changed_effect, is_predicted, lag_text, other_lag
from her_wrappers.diagnosis.columns import MAX_GOAL_SIZE, finite, flat, projected, split_goals
from her_wrappers.diagnosis.facts import FEW_EPISODES, Facts, rule
from her_wrappers.goals.in_observation import find_goal_in_observation, find_hidden_goal
from her_wrappers.recording.episodes import Episodes
from her_wrappers.rules import Violation


@rule(
    "GD302",
    fix="use rewards of -1 and 0; or do not clip targets (--no-clip-targets)",
    threshold="any reward outside [-1, 0]: the value of a success would be clipped away",
    source="clipping of targets: arXiv 1802.09464, appendix A",
    needs=("episode", "clip_targets"),
)
def rewards_outside_clip(facts: Facts) -> Iterator[Violation]:
    """Targets are clipped to the returns of rewards in [-1, 0], but rewards lie outside."""
    low, high = float(facts.rewards.min()), float(facts.rewards.max())
    if low < -1 or high > 0:
        yield Violation(f"rewards range from {low:.4g} to {high:.4g}, but targets are clipped for [-1, 0]")


@rule(
    "GD303",
    fix="record or train with one reward_type, or compute the rewards again; do not mix both in a buffer",
    threshold="at least 5 % of the episodes of each kind: -0.1 and -1 contradict each other in one critic; "
    "for sparse rewards of two kinds, at most 5 % of the episodes have both",
    needs=("episodes",),
)
def dense_and_sparse_mixed(facts: Facts) -> Iterator[Violation]:
    """Some episodes have dense rewards and some sparse ones, or sparse rewards of another kind."""
    rounded = np.round(facts.rewards, 6)
    is_sparse = np.logical_and.reduceat(np.isin(rounded, (-1, 0, 1)), facts.offsets[:-1])
    found = float(is_sparse.mean())
    if 0.05 <= found <= 0.95 and facts.num_rewards > 5:  # not a penalty for failures
        yield Violation(
            f"{found:.1%} of {len(facts)} episodes have only rewards of -1, 0 or 1, the others do not"
        )
    for kind, steps in (("missed", facts.flags == 0), ("reached", facts.flags > 0)):
        low, high = (
            function.reduceat(np.where(steps, rounded, other), facts.offsets[:-1])
            for function, other in ((np.minimum, np.inf), (np.maximum, -np.inf))
        )
        values, counts = np.unique(low[low == high], return_counts=True)
        if len(values) == 2 and counts.min() >= max(3, 0.05 * len(facts)) and (low < high).mean() <= 0.05:
            few, most = values[counts.argsort()]
            far, near = (facts.distances[steps & (rounded == each)] for each in values)
            if max(near.min(), far.min()) < min(near.max(), far.max()):  # else they depend on the distance
                text = f"the reward {few:g} in {counts.min()} episodes, and {most:g} in {counts.max()}"
                yield Violation(f"{kind} goals have {text}")


@rule(
    "GD304",
    fix="change the sign: minus the distance, or -1 for a missed and 0 for a reached goal",
    threshold="successes have a lower mean reward than other steps, and rewards rise with the distance; "
    "rewards and distances correlate above 0.5; or the higher of two rewards is given only farther away",
    needs=("episode",),
)
def reward_prefers_misses(facts: Facts) -> Iterator[Violation]:
    """Rewards are higher where goals are missed or far away: the sign of the reward is wrong."""
    if facts.has_flags and 0 < facts.flags.sum() < len(facts.flags):
        reached = float(facts.rewards[facts.flags > 0].mean())
        missed = float(facts.rewards[facts.flags == 0].mean())
        if reached < missed and np.corrcoef(facts.rewards, facts.distances)[0, 1] > 0:  # not a wrong flag
            yield Violation(
                f"the mean reward is {reached:.3g} in steps with a success, and {missed:.3g} in other steps"
            )
            return
    if facts.num_rewards == 2 and not facts.has_flags:
        is_high = facts.rewards == facts.rewards.max()
        near, far = float(facts.distances[~is_high].max()), float(facts.distances[is_high].min())
        if near <= far:
            yield Violation(
                f"the reward is {facts.rewards.max():g} at distances of at least {far:.3g} to the goal, and "
                f"{facts.rewards.min():g} at smaller ones"
            )
    if facts.num_rewards > 2 and np.ptp(facts.distances) > 0:
        correlation = float(np.corrcoef(facts.rewards, facts.distances)[0, 1])
        if correlation > 0.5:
            yield Violation(f"rewards and distances to the goal have a correlation of {correlation:.2f}")


@rule(
    "GD501",
    fix="compute the observation from the state after the step, and return a new array",
    threshold="all arrays of the observation (an error), or one of several (a warning), keep one value in "
    "all states",
    source="RHER (arXiv 2208.00843): goals without the position of the agent",
    needs=("episodes",),
)
def observation_constant(facts: Facts) -> Iterator[Violation]:
    """The observation never changes, although the achieved goal does."""
    arrays = {name: values for name, values in facts.observation_ranges.items() if values.size}
    constant = [name for name, values in arrays.items() if not np.ptp(values, axis=0).any()]
    states = len(facts.rewards) + len(facts)
    for name in constant if facts.moves.any() else ():
        yield Violation(
            f"its values are the same in all {states} states, while the achieved goal moves",
            subject=name,
            severity="error" if len(constant) == len(arrays) else "warning",
        )


@rule(
    "GD502",
    fix="find the step that divides by zero or diverges; one such batch makes all weights NaN",
    threshold="a single value",
    needs=("episode",),
)
def not_finite(facts: Facts) -> Iterator[Violation]:
    """Observations, goals, actions or rewards are NaN or infinite."""
    for column, name in enumerate(("observation", "goals", "action", "reward")):
        rows = np.flatnonzero(facts.not_finite[:, column])
        if rows.size:
            episode = int(np.searchsorted(facts.offsets, rows[0], side="right")) - 1
            yield Violation(
                f"{rows.size} of {len(facts.rewards)} steps have NaN or infinity",
                place=f"episode {episode}, step {rows[0] - facts.offsets[episode]}",
                subject=name,
            )


@rule(
    "GD503",
    severity="warning",
    meaning="Components of the observation are larger than the others by orders of magnitude, goals are too "
    "large for the resolution of float32, or episodes have different units.",
    fix="scale the observation in the environment, or normalize the inputs, as the agents of `her train` do; "
    "record all episodes in one unit",
    threshold="a magnitude of 10,000, which hides all other inputs in the first layer of a network; a "
    "resolution of float32 above a fifth of the median motion of a step; or two narrow groups of episodes, "
    "each with at least a tenth of them, in which the mean motions differ by a power of ten from 100 on",
    source="openai/baselines her/normalizer.py; HighwayEnv #473",
    needs=("episode",),
)
def observation_scale(facts: Facts) -> Iterator[Violation]:
    largest, moves = abs(facts.ranges["achieved_goal"]).max(), facts.speeds[facts.speeds > 0]
    resolution = float(np.spacing(np.float32(largest)))
    is_single = (facts.starts == facts.starts.astype(np.float32)).all() and not facts.is_projected
    if is_single and facts.has_fractions and moves.size and resolution > 0.2 * np.median(moves):
        yield Violation(
            f"values up to {largest:.3g} have a resolution of {resolution:.2g} in float32, and a step moves "
            f"them by {np.median(moves):.2g} (median)",
            subject="achieved_goal",
        )
    yield from _other_units(facts.sample)
    if facts.normalizes:
        return
    for name, values in facts.observation_ranges.items():
        magnitude = np.abs(values).max(axis=0)
        if magnitude.max(initial=0) >= 1e4:
            largest = int(magnitude.argmax())
            yield Violation(
                f"component {largest} has a magnitude of {magnitude[largest]:.3g}, and the median of all "
                f"components is {np.median(magnitude):.3g}",
                subject=name,
            )


def _other_units(block: Any) -> Iterator[Violation]:
    """Yield a violation for each array that moves 100, 1,000, ... times as far in a part of the episodes."""
    before, (achieved, _, others) = block.state_of_step, split_goals(block.observations)
    for name, leaf in {"achieved_goal": achieved, **others}.items():
        if leaf.dtype.kind not in NUMBERS or leaf[0].size > MAX_GOAL_SIZE:
            continue
        rows, parts = finite(flat(leaf).astype(np.float64)), list[int]()
        moves = np.add.reduceat(abs(rows[before + 1] - rows[before]), block.ends[:-1])
        for i, mean in enumerate((moves / block.lengths[:, None]).T):
            values = np.log10(np.sort(mean[mean > 0]))
            least = max(5, len(values) // 10)
            gaps = np.diff(values)[least - 1 : len(values) - least]
            if gaps.max(initial=0) < 1:
                continue
            low, high = np.split(values, [least + int(gaps.argmax())])
            power = float(np.median(high) - np.median(low))
            if power > 1.9 and abs(power - round(power)) < 0.1 and max(low.std(), high.std()) < 0.3:
                parts, share, factor = [*parts, i], len(high) / len(values), 10 ** round(power)
        if parts:
            message = f"components {parts} move {factor:,} times as far in {share:.1%} of the episodes"
            yield Violation(f"{message}, as if in another unit", subject=name.removeprefix("/"))


@rule(
    "GD504",
    fix="give each environment, worker and restart its own seed, for the first reset only; add each episode "
    "once",
    threshold="5 % of the episodes of at least 5 steps equal an earlier one in their first observation and "
    "all actions; or (a warning) at most half of at least 20 starts with goals differ, though both vary",
    needs=("episodes",),
)
def episodes_repeated(facts: Facts) -> Iterator[Violation]:
    """Episodes, or their starts with their goals, are recorded several times."""
    hashes, different = facts.episode_hashes[facts.lengths >= 5], len(np.unique(facts.start_hashes))
    repeated = len(hashes) - len(np.unique(hashes))
    is_varied = all(np.ptp(each, axis=0).any() for each in (facts.starts, facts.desired))
    if hashes.size and repeated >= 0.05 * len(hashes) and not facts.is_environment:  # which repeats actions
        yield Violation(f"{repeated} of {len(hashes)} episodes equal an earlier episode")
    elif len(facts) >= 20 and facts.has_fractions and is_varied and different <= len(facts) / 2:
        message = f"{len(facts)} episodes have only {different} different starts and goals"
        yield Violation(message, subject="start", severity="warning")


@rule(
    "GD506",
    fix="leave the desired goal and values computed from it out of 'observation'; agents get 'desired_goal'",
    threshold="components of the observation that determine the desired goal, or the distance to it, in all "
    "states of the first episodes",
    needs=("episode",),
)
def goal_in_observation(facts: Facts) -> Iterator[Violation]:
    """The observation depends on the desired goal, so relabeled transitions contradict their goals."""
    sample: Any = facts.sample
    episode_of_state = np.arange(len(sample)).repeat(sample.lengths + 1)
    if found := find_goal_in_observation(sample.observations, episode_of_state):
        yield Violation(f"in the first episodes, {found}")


@rule(
    "GD507",
    fix="record flag, reward and both goals of the state after the step, in one unit and without rounding",
    threshold="distances of the step before or after, an offset, or a linear function of achieved goals "
    "explains successes or rewards with under a quarter of the errors of the distance (at least 5); goals "
    "are reached, but no flag is set, or all rewards are equal; a quarter of the successful episodes have "
    "flags in all steps, but begin farther from the goal than any ends; half of the other episodes get "
    "within 0.1 % of the median distance of a success; 30 % of the failed steps are nearer than the median "
    "success; both goals are always equal; a quarter of the successes have the lower of two rewards, and "
    "vice versa; or (a warning) flags and rewards have different radii, or goals are rounded",
    needs=("episodes",),
)
def success_unlike_distance(facts: Facts) -> Iterator[Violation]:
    """Success flags or rewards contradict the distances between achieved and desired goals."""
    success, last = facts.success, facts.offsets[1:] - 1
    sample: Any = facts.sample
    if facts.moves.any() and np.array_equal(*split_goals(sample.observations)[:2]):
        message = "equals achieved_goal in all states, as if both were one array"
        yield Violation(message, subject="desired_goal")
        return
    radius = facts.distances[last[facts.flags[last] > 0]].max(initial=0)
    is_whole = np.logical_and.reduceat(facts.flags > 0, facts.offsets[:-1])
    is_whole &= facts.distances[facts.offsets[:-1]] > radius
    if is_whole.sum() >= max(3, 0.25 * facts.is_success_episode.sum()):
        message = f"{is_whole.sum()} episodes have it in all steps, though only their ends are near goals"
        yield Violation(message, subject="is_success")
        return
    contradictions = list(_flags_unlike_rewards(facts))
    yield from contradictions
    if success.any() and not success.all():
        if facts.num_rewards == 1:
            yield Violation(f"all rewards are {facts.rewards[0]:g}, also those at goals", subject="reward")
        yield from () if contradictions else _unlike_distance(facts)
    elif not facts.missing("success") and not success.any():
        pair = facts.sparse_pair if facts.num_rewards == 2 else None
        rewarded = 0 if pair is None else int((facts.rewards == pair[1]).sum())
        arrived = (facts.distances[last] <= 0.01 * np.median(facts.start_distances)).mean()
        if rewarded or arrived >= 0.1:
            found = f"{rewarded} have the reward of a success, and {arrived:.1%} of the episodes end at goals"
            yield Violation(f"no step is a success, but {found}", subject="is_success")
    inner = np.setdiff1d(np.arange(len(success)), last)  # after the last step, another episode begins
    before = np.roll(facts.distances, 1)
    before[facts.offsets[:-1]] = facts.start_distances
    for name, values in {"is_success": facts.flags, "reward": facts.rewards}.items():
        errors = _mismatch(facts.distances[inner], values[inner])
        for place, distances in {"before": before, "after": np.roll(facts.distances, -1)}.items():
            if errors > 5 / len(success) and _mismatch(distances[inner], values[inner]) < errors / 4:
                yield Violation(f"the values belong to the state one step {place} their own", subject=name)


def _mismatch(distances: np.ndarray, values: np.ndarray) -> float:
    """Return how badly distances explain values, from 0 to 1.

    For two different values, this is the share of steps on the wrong side of the best radius around the goal;
    for more, 1 minus the absolute correlation of the ranks of distances and values.
    """
    scaled = [each / max(float(abs(each).max(initial=0)), 1e-9) for each in (distances, values)]
    near, rank = (np.unique(each.round(5), return_inverse=True)[1] for each in scaled)
    if rank.max(initial=0) > 1:
        return float(1 - abs(np.corrcoef(near, rank)[0, 1]))
    steps, hits = np.bincount(near).cumsum(), np.bincount(near, rank).cumsum()
    return float((steps - 2 * hits).min(initial=0) + rank.sum()) / max(len(rank), 1)


def _flags_unlike_rewards(facts: Facts) -> Iterator[Violation]:
    """Yield a violation if flags and two different rewards contradict each other, also in whole episodes."""
    flagged, rewarded = facts.flags > 0, facts.rewards == facts.rewards.max()
    if not facts.has_flags or facts.num_rewards != 2 or not flagged.any():
        return
    low, missing = flagged & ~rewarded, rewarded & ~flagged
    errors = [_mismatch(facts.distances, each) for each in (flagged, rewarded)]
    if max(errors) * len(low) < 5 and 4 * (low | missing).sum() >= (flagged | rewarded).sum():
        radii = [float(facts.distances[each].max()) for each in (flagged, rewarded)]
        message = f"flags have the success radius {radii[0]:.3g}, and rewards {radii[1]:.3g}"
        yield Violation(message, severity="warning")
    of_episode = [np.logical_or.reduceat(each, facts.offsets[:-1]) for each in (flagged, rewarded)]
    is_wrong = of_episode[0] & ~of_episode[1]  # not only a flag that stays, or that is set at the end only
    shares = (low.sum() / flagged.sum(), missing.sum() / rewarded.sum())
    if min(shares) < 0.25 or is_wrong.sum() < max(3, 0.1 * of_episode[0].sum()):
        return
    yield Violation(
        f"{low.sum()} of {flagged.sum()} successful steps have the lower reward, and {missing.sum()} of "
        f"{rewarded.sum()} steps with the higher reward are no success",
        subject="is_success" if errors[0] > errors[1] else "reward",
    )


def _other_frame(achieved: np.ndarray, desired: np.ndarray, reached: np.ndarray, last: np.ndarray) -> str:
    """Return how desired goals follow from achieved goals in successes, if they should be equal but are not.

    The arrays have one row per step; ``last`` are the last successes of episodes. The function is fitted to
    these, and must explain all successes far better than the plain distance. Otherwise the result is "".
    """
    count = achieved.shape[1]
    if len(last) < max(FEW_EPISODES, 3 * (count + 1)):
        return ""
    offset = np.median(achieved[last] - desired[last], axis=0)
    sources = np.column_stack([achieved, np.ones(len(achieved))])
    matrix = np.linalg.lstsq(sources[last], desired[last], rcond=1e-6)[0]
    linear = f"{matrix[:-1].T.round(2).tolist()} @ achieved_goal + {matrix[-1].round(2).tolist()}"
    linear = linear if count <= 3 else "a linear function of achieved_goal"
    for fitted, text in (
        (achieved - offset, f"achieved_goal - desired_goal is about {offset.round(3).tolist()}"),
        (sources @ matrix, f"desired_goal is about {linear}"),
    ):
        scale, spread = (fitted - desired)[last].std(axis=0), desired[last].std(axis=0)
        clear = scale < 0.3 * spread  # the reward may ignore the others
        scale += 1e-6 * spread
        parts = (fitted - desired) / scale, (fitted - achieved)[last] / scale
        scaled, shift = (np.linalg.norm(each[:, clear], axis=1) for each in parts)
        errors = _mismatch(np.linalg.norm((achieved - desired)[:, clear], axis=1), reached)
        is_better = errors * len(reached) >= 5 and _mismatch(scaled, reached) < errors / 4
        if is_better and shift.mean() > 3:
            return f"in successful steps, {text}, as if the goals had different frames or units"
    return ""


def _unlike_distance(facts: Facts) -> Iterator[Violation]:
    """Yield violations if successful steps are not nearer to goals than others, or if goals are rounded."""
    sample: Any = facts.sample
    before, goals = sample.state_of_step, split_goals(sample.observations)[:2]
    achieved, desired = (projected(finite(each)) for each in goals)
    reached, distances = facts.success[: len(before)], facts.distances[: len(before)]
    columns = (distances, *abs(achieved[before + 1] - desired[before]).T)
    last = np.maximum.reduceat(np.where(reached, np.arange(len(reached)), -1), sample.ends[:-1])
    last = last[last >= 0]  # success of each episode
    is_known = len(last) >= FEW_EPISODES and not reached.all()
    if found := _other_frame(achieved[before + 1], desired[before], reached, last):
        yield Violation(found)
        return
    failed = np.minimum.reduceat(facts.distances, facts.offsets[:-1])[~facts.is_success_episode]
    is_exact = failed <= 1e-3 * np.median(facts.distances[facts.success])
    if is_exact.sum() >= max(3, len(failed) / 2):
        message = f"{is_exact.sum()} of {len(failed)} episodes without success achieve it exactly, as if an "
        yield Violation(f"{message}achieved goal had replaced it", subject="desired_goal")
        return
    if is_known and max((each[~reached] > np.median(each[reached])).mean() for each in columns) < 0.7:
        near, far = np.median(distances[reached]), np.median(distances[~reached])
        yield Violation(f"successes are {near:.3g} away from goals, and other steps {far:.3g} (medians)")
    overlap = float(facts.distances[facts.success].max()) - facts.nearest_miss
    if _mismatch(facts.distances, facts.success) * len(facts.success) < 5:
        return
    for name, values in zip(("achieved_goal", "desired_goal"), goals, strict=True):
        rest = [abs(values - values.round(digits)).max() / abs(values).max() for digits in range(4)]
        unit = 10.0 ** -int(np.argmax(np.array(rest) < 1e-6))  # 1 for integers, and if no unit fits
        if unit < 1 and overlap <= 2 * unit * values.shape[1] ** 0.5:
            found = f"all values are multiples of {unit:g}, as if they were rounded after the recording"
            yield Violation(found, subject=name, severity="warning")


@rule(
    "GD508",
    meaning="Episodes contain states or goals of other episodes (a wrong last state, several episodes in "
    "one, the goal of the previous episode in the first rows), or a placeholder for unknown goals.",
    fix="record the last observation before the reset (info['final_obs'] of vector environments), end an "
    "episode at each reset or lost goal, and keep the rows of parallel environments apart",
    threshold="in half of the episodes, the achieved goal jumps by a tenth of the median distance at the "
    "start, and by 3 times the motion of adjacent and most other steps, but does not wrap around like an "
    "angle; in 3 episodes, it jumps to one value and back, as in GE309; the desired goal changes in 90 % of "
    "the steps, but not within a number of steps; or 70 % of the episodes begin with the last goal of the "
    "previous episode, but not with its last state, and end with another goal",
    needs=("episodes", "components"),
)
def states_jump(facts: Facts) -> Iterator[Violation]:
    sample: Any = facts.sample
    achieved, desired = split_goals(sample.observations)[:2]
    before, speeds, last = sample.state_of_step, facts.speeds[: sample.num_steps], sample.ends[1:] - 1
    after = np.roll(speeds, -1)
    after[last] = 0
    moved = speeds[speeds > 0] if speeds.any() else np.zeros(1)
    usual = float(max(np.quantile(speeds, 0.9), np.median(moved)))
    others = 3 * np.maximum(np.maximum(np.roll(speeds, 1), after), usual)
    is_jump = speeds > np.maximum(others, 0.1 * np.median(facts.start_distances))
    is_jump[sample.ends[:-1]] = False  # an object can fall into its place in the first step
    is_jump[is_jump] = ~_are_wraps(achieved, before[is_jump])
    share = np.logical_or.reduceat(is_jump, sample.ends[:-1]).mean()
    states = before[is_jump]
    has_new_goal = (desired[states] != desired[states + 1]).any(axis=1)  # cells may be linked by portals
    if share >= 0.5 and (facts.has_fractions or has_new_goal.mean() >= 0.9):
        at_end, inside = is_jump[last].sum(), is_jump.sum() - is_jump[last].sum()
        yield Violation(
            f"in {share:.1%} of the episodes, the achieved goal jumps ({at_end} times in the last step, "
            f"{inside} times before), by {np.median(speeds[is_jump]):.2g} (median) instead of {usual:.2g}"
        )
    episode = np.arange(len(sample)).repeat(sample.lengths + 1)

    def changes(rows: np.ndarray, lag: int) -> np.ndarray:
        moves = abs(rows[lag:] - rows[:-lag]).max(axis=1)
        return np.asarray(moves[episode[lag:] == episode[:-lag]])

    shares = [(changes(desired, i) > 0).mean() for i in range(1, min(17, sample.lengths.max() + 1))]
    lag = int(np.argmin(shares)) + 1
    is_near = np.median(changes(achieved, lag)) < np.median(changes(achieved, 1)) / 2
    if shares[0] >= 0.9 and shares[lag - 1] <= 0.1 and is_near:
        message = f"changes in {shares[0]:.1%} of the steps, but in {shares[lag - 1]:.1%} within {lag} steps"
        yield Violation(f"{message}, as if rows of {lag} episodes alternate", subject="desired_goal")
    first, final = before[sample.ends[:-1]], before[sample.ends[1:] - 1] + 1
    is_old = (desired[first[1:]] == desired[final[:-1]]).all(axis=1)
    is_old &= (desired[first[1:]] != desired[final[1:]]).any(axis=1)
    is_old &= (achieved[first[1:]] != achieved[final[:-1]]).any(axis=1)  # no part of a longer episode
    if is_old.mean() >= 0.7:
        yield Violation(
            f"{is_old.mean():.1%} of the episodes begin with the last goal of the previous episode, and get "
            "their own goal later",
            subject="desired_goal",
        )
    if found := find_placeholder(achieved[before], achieved[before + 1], episode[before], speeds):
        yield Violation(found[0], f"episode {episode[before[found[1]]]}")


def _are_wraps(goals: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return whether, after each of the states, only angles wrap around or quaternions change their sign."""
    moves, extents = abs(goals[states + 1] - goals[states]), np.ptp(goals, axis=0)
    for parts in quaternions(goals):
        moves[(goals[states, parts] * goals[states + 1, parts]).sum(axis=1) < -0.75, parts] = 0
    is_angle = [any(0.9 * period < extent < 1.001 * period for period in PERIODS) for extent in extents]
    moves[(moves > 0.75 * extents) & is_angle] = 0
    return np.asarray((moves <= 0.25 * extents).all(axis=1))


@rule(
    "GD509",
    severity="warning",
    fix="record each action with the state from which it was computed, and check how step() transforms it; "
    "if a delay or another effect is meant, the observation must show it; use one unit and order of actions",
    threshold="actions up to 3 steps before or after explain 80 % of the variance of a change of the state, "
    "and leave at most half of the variance that the actions of the same step leave; the number of these "
    "steps differs in 10 % of the episodes; or the effects of a component form two narrow groups of "
    "episodes, with medians that differ by a factor of 2 or in sign, and the state does not show which",
    needs=("episodes",),
)
def actions_unlike_motion(facts: Facts) -> Iterator[Violation]:
    """The state follows actions of other steps, or the effect of actions differs between episodes."""
    sample: Any = facts.sample
    shares = facts.effects[1] if facts.effects else {}
    if best := best_lag(shares, 0):
        yield Violation(
            f"actions {lag_text(best)} explain {shares[best]:.1%} of a change of the state, and the actions "
            f"of the same step {shares[0]:.1%}"
        )
    elif shares and max(shares.values()) < 0.95 and (text := other_lag(sample)):
        yield Violation(text)
    elif found := changed_effect(sample):
        yield Violation(found[1], subject=f"action[{found[0]}]")


@rule(
    "GD510",
    severity="warning",
    fix="put what determines the achieved goal, such as the position of the object, into 'observation'",
    threshold="predictions from the observation explain less than 25 % of the variance of the goal in other "
    "episodes, and states with nearly equal observations have different goals, or only the goal never moves",
    needs=("episodes", "unsolved"),
)
def achieved_goal_hidden(facts: Facts) -> Iterator[Violation]:
    """The observation does not show an achieved goal, such as an object, so agents do not see it."""
    sample: Any = facts.sample
    episode_of_state = np.arange(len(sample)).repeat(sample.lengths + 1)
    if found := find_hidden_goal(sample.observations, episode_of_state):
        yield Violation(f"in the first episodes, {found} cannot be predicted from the observation")


@rule(
    "GD511",
    severity="warning",
    fix="record one step for each new measurement, estimate the state between measurements, and store all "
    "measurements of one time in one row",
    threshold="the numbers of steps between changes of the achieved goal are multiples of one number above "
    "1, for at least 30 pairs of changes in 10 episodes; or changes of the observation up to 3 steps before "
    "or after explain the goal better, by the criterion of GD509",
    needs=("episodes",),
)
def states_held(facts: Facts) -> Iterator[Violation]:
    """The achieved goal is late, or changes only in every second or third step, as with a slow camera."""
    shares = facts.effects[2] if facts.effects else {}
    if lag := best_lag(shares, 0):
        yield Violation(
            f"changes of the observation {lag_text(lag)} explain {shares[lag]:.1%} of a change of the goal, "
            f"and those of the same step {shares[0]:.1%}"
        )
        return
    moved = np.flatnonzero(facts.speeds)
    episodes = np.searchsorted(facts.offsets, moved, side="right")
    gaps, same = np.diff(moved), np.diff(episodes) == 0
    period = np.gcd.reduce(gaps[same])
    if period > 1 and same.sum() >= 30 and len(np.unique(episodes[1:][same])) >= FEW_EPISODES:
        sample: Any = facts.sample
        is_held = _is_unchanged(sample)[facts.speeds[: sample.num_steps] == 0].mean() > 0.9
        cause = f"state changes only every {period} steps, as if it was recorded {period} times"
        slow = f"achieved goal changes only every {period} steps, but the observation in most steps"
        yield Violation(f"the {cause if is_held else slow}")


def _is_unchanged(block: Episodes) -> np.ndarray:
    """Return (T,) bool, whether the observation with its goals is the same before and after each step."""
    before = block.state_of_step
    pairs = [(leaf[before], leaf[before + 1]) for leaf in leaf_arrays(block.observations)]
    is_same = [(old == new).reshape(len(old), -1).all(axis=1) for old, new in pairs]
    return np.asarray(np.logical_and.reduce(is_same))


@rule(
    "GD512",
    fix="store whole episodes, no rows that only fill an array, and none after a stop of the robot",
    threshold="half of the episodes begin with the last state and the goal of one of the 16 before, though "
    "goals vary; a quarter of the episodes end with 3 or more equal states and actions, in different "
    "numbers, but with other rewards or flags than the step that led to the state; or (a warning) 5 % end "
    "with 5 or more equal states, but new and large actions, in different places inside the range of "
    "achieved goals",
    needs=("episodes",),
)
def episode_bounds_wrong(facts: Facts) -> Iterator[Violation]:
    """Episodes are parts of a longer one, or have rows after their end or after a stop of the robot."""
    starts, ends = facts.start_hashes, facts.end_hashes
    moved = starts != ends
    lags = range(1, min(17, len(facts)))  # parallel environments end their episodes in turn
    parts = max(int((moved[:-lag] & (ends[:-lag] == starts[lag:])).sum()) for lag in lags)
    if parts >= len(facts) / 2 and np.ptp(facts.desired, axis=0).any():
        yield Violation(f"{parts} of {len(facts)} episodes begin with last state and goal of an earlier one")
    sample: Any = facts.sample
    begins, last, flags = sample.ends[:-1], sample.ends[1:] - 1, facts.flags
    unmoved, is_new = _is_unchanged(sample), np.zeros(sample.num_steps, np.bool_)
    idle = unmoved.copy()
    for leaf in leaf_arrays(sample.actions):
        rows = flat(leaf)
        idle &= (rows == rows[last].repeat(sample.lengths, axis=0)).all(axis=1)
        if leaf.dtype.kind in NUMBERS:
            sizes = abs(rows).max(axis=1, initial=0)
            is_new[1:] |= (rows[1:] != rows[:-1]).any(axis=1) & (sizes > 0.3 * np.median(sizes))[1:]

    def tails(is_tail: np.ndarray) -> np.ndarray:
        """Return how many steps at the end of each episode are in a tail; 0 if all are."""
        rest = np.maximum.reduceat(np.where(is_tail, -1, np.arange(len(is_tail))), begins)
        return np.where(rest < 0, 0, last - rest)

    padded, still = tails(idle), tails(unmoved)
    entry = last - padded  # the step that leads to the state
    jump = abs(facts.rewards[entry] - facts.rewards[last]) > 0.1 * np.ptp(facts.rewards)
    is_padded = (padded >= 3) & (jump | (flags[entry] != flags[last]))
    is_padded &= sample.lengths == facts.lengths.max()
    if is_padded.sum() >= len(sample) / 4 and np.ptp(padded[is_padded]):
        yield Violation(
            f"{is_padded.sum()} of {len(sample)} episodes end with rows that repeat state and action "
            f"({np.median(padded[is_padded]):.0f} rows, median), with other rewards or flags than before"
        )
    counts = np.concatenate([[0], np.cumsum(unmoved & is_new)])
    strange = counts[last + 1] - counts[last + 1 - still]  # steps with new actions in each tail
    is_frozen, reached = (still >= 5) & (strange > still / 2), facts.success[last]
    if 2 * is_frozen[reached].sum() > reached.sum():
        is_frozen &= ~reached  # a robot can be locked at its goal
    others = counts[last + 1] - counts[begins] - strange > 0.05 * (sample.lengths - still)
    least, count = max(3, 0.05 * len(sample)), int(is_frozen.sum())
    if least <= count <= len(sample) / 2 and others.sum() <= 2 * least and facts.has_fractions:
        goals = split_goals(sample.observations)[0]
        some = np.linspace(0, len(goals) - 1, count).astype(np.intp)
        found = goals[np.append(sample.state_of_step[last[is_frozen]], some)]
        spreads = [np.linalg.norm(each.std(axis=0)) for each in (found[:count], goals)]
        if spreads[0] > 0.6 * spreads[1] and not is_predicted(found, count):  # not stuck in some places
            steps = f"{np.median(still[is_frozen]):.0f} steps (median)"
            message = f"in {count} of {len(sample)} episodes, new actions change nothing in the last {steps}"
            yield Violation(f"{message}, as if the robot had stopped", severity="warning")
