"""Rules GE3xx: returned data and the goal of an episode stay unchanged, and goals fit the observation."""

from __future__ import annotations

import contextlib
import copy
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, islice, product
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.comparing import (
    arrays_in,
    close,
    differences,
    first_difference,
    identical,
    owns_resources,
    share_memory,
    show,
)
from her_wrappers.checker.goal_calls import distance, flat, stack
from her_wrappers.checker.lab import MAX_STATES, Lab, compare_reset, memoized, rule
from her_wrappers.checker.records import STATE, ResetRecord, StepRecord, spread
from her_wrappers.checker.replicas import CheckedEnv
from her_wrappers.checker.rollout import call_reset, call_step, random_policy, walk
from her_wrappers.data.trees import copy_tree
from her_wrappers.goals.in_observation import (
    find_goal_in_observation,
    find_hidden_goal,
    fit_columns,
    fit_function,
)
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.rules import Violation

JUMP = 2  # first steps are not judged if they change a value this many times more than all later steps
MAX_RECORDS = 30  # resets and steps whose memory is compared, since sharing shows in the first steps
MAX_SIZE = 64  # most values of an observation, and of the goal that is predicted from it
MIN_LOST, MAX_LOST = 3, 10  # least episodes with jumps to a placeholder, and most steps in a jump
# Smallest error of a stale goal, as a share of the spread of goals. Goals that are not stale can have small
# errors, since MuJoCo's positions are one substep older than the joints.
STALE = 0.05
SAME = 1 - 1e-9  # a goal and a value with a larger correlation are the same, perhaps in other units
MIN_FIRST_STEPS, OFTEN = 5, 0.9  # first steps, and the share of later ones, that show a late picture
MAX_FITTED = 400  # steps that are compared to find late goals; half of them fit functions
# Goals are late if a function of the observation of the same state has a larger error (median square) than
# `EXACT` times the mean squared move of the goal, and one of the state before has less than `LATE` of it.
EXACT, LATE = 0.01, 0.1
HELD, MIN_HELD = 0.05, 10  # least share and number of steps with a held goal, though it should move
MIN_RESETS = 20  # needed to search hidden goals; with fewer, the environment is reset again


@rule(
    "GE301",
    fix="return copies of arrays that the environment changes later",
    repair="CopyObservation",
    passive=True,
    wrong='return {"achieved_goal": self._position, ...}  # and self._position += action in step()',
    right='return {"achieved_goal": self._position.copy(), ...}',
)
def data_changes_later(lab: Lab) -> Iterator[Violation]:
    """An observation, info, reward or flag changes after it was returned, since its object is reused."""
    for record in lab.rollout.records:
        for name, live in record.live.items():
            for key, before, after in differences(getattr(record, name), live, identical):
                message = f"{show(before)} was returned, and the object later changed to {show(after)}"
                yield Violation(message, record.place, f"{name} {key}".strip())


@rule(
    "GE302",
    severity="warning",
    fix="return and store copies",
    repair="CopyObservation",
    passive=True,
    wrong='return {"observation": state, "achieved_goal": state[:2], ...}',
    right='return {"observation": state, "achieved_goal": state[:2].copy(), ...}',
)
def shared_memory(lab: Lab) -> Iterator[Violation]:
    """Writing to one array changes another, or step() changes the action.

    Observations share memory with the environment, another key, an earlier observation or the action.
    """
    records = lab.rollout.steps or lab.rollout.resets
    for key, array in arrays_in(records[-1].live["observation"]) if records else ():
        owner = next((name for name, attribute in lab.state if share_memory(array, attribute)), None)
        if owner is not None:
            yield _shares(key, f"the environment's {owner}")
    ordered = sorted(lab.rollout.records, key=lambda record: (record.episode, getattr(record, "t", -1)))
    earlier: list[tuple[str, np.ndarray]] = []
    for record in ordered[:MAX_RECORDS]:
        arrays = arrays_in(record.live["observation"])
        for (other_key, other), (key, array) in combinations(arrays, 2):
            if share_memory(array, other):
                yield _shares(key, other_key, record.place)
        for (key, array), (other_key, other) in product(arrays, earlier):
            if key == other_key and share_memory(array, other):
                yield _shares(key, "the previous observation", record.place)
        earlier = arrays
    for step in lab.steps[:MAX_RECORDS]:
        if not identical(step.action, step.live_action):
            message = f"step() changed the action {show(step.action)} to {show(step.live_action)}"
            yield Violation(message, step.place, "action")
        for key, array in arrays_in({name: step.live[name] for name in STATE}):
            if isinstance(step.live_action, np.ndarray) and share_memory(array, step.live_action):
                yield _shares(key, "the action", step.place)


def _shares(name: str, other: str, place: str = "") -> Violation:
    return Violation(f"{name} shares memory with {other}", place, name.split("/", maxsplit=1)[0])


@rule(
    "GE303",
    fix="draw goals in reset() only; if goals are meant to move, ignore this rule and use a buffer that "
    "stores the goal of each step, such as HindsightReplayBuffer",
    needs=("goals",),
    passive=True,
    wrong="self.goal = self._draw_goal()  # in step(), after a success",
    right="terminated = reached  # reset() draws the next goal",
)
def goal_changes_in_episode(lab: Lab) -> Iterator[Violation]:
    """desired_goal changes between two resets, so that one episode has several goals."""

    def equal(a: np.ndarray, b: np.ndarray) -> bool:  # the same goal in another dtype may be rounded
        return identical(a, b) if a.dtype == b.dtype else close(a, b)

    changed = [
        (step, f"from {show(step.before['desired_goal'])} to {show(step.observation['desired_goal'])}")
        for step in lab.steps
        if any(differences(step.before["desired_goal"], step.observation["desired_goal"], equal))
    ]
    cause = ""
    if all(step.terminated or step.truncated for step, _ in changed):
        cause = ", only in the last steps of episodes, so they return observations of the next episodes"
        if lab.vector_run:
            cause = f'{cause}: infos["final_obs"] is wrong, or the declared autoreset mode is'
    for step, values in changed:
        yield Violation(f"step() changed desired_goal {values}{cause}", step.place)


@rule(
    "GE304",
    fix="leave the goal out of the observation: agents get desired_goal, and can compute differences from it",
    needs=("steps", "goals"),
    inconclusive_without=("replica",),
    wrong='return {"observation": np.concatenate([position, self.goal - position]), ...}',
    right='return {"observation": position, ...}',
)
def goal_in_observation(lab: Lab) -> Iterator[Violation]:
    """The observation depends on the desired goal, so that it contradicts a relabeled goal.

    It contains the goal, or a value that depends on the goal, such as the last reward or the return so far.
    """
    if found := _search(lab, find_goal_in_observation):
        yield Violation(found)
    elif effect := _effects_of_goal(lab).get("observation"):
        yield effect


def _search(lab: Lab, find: Callable[..., str | None], further: Sequence[Any] = ()) -> str | None:
    """Return ``find(observations, episodes)`` for recorded states and the observations of further resets."""
    chosen: list[ResetRecord | StepRecord] = list(spread(lab.rollout.resets, MAX_STATES))
    chosen += spread(lab.steps, MAX_STATES)
    episodes = [record.episode for record in chosen]
    episodes += range(max(episodes) + 1, max(episodes) + 1 + len(further))
    try:
        return find(stack([*(record.observation for record in chosen), *further]), np.array(episodes))
    except (IndexError, TypeError, ValueError):
        return None  # GE005 reports observations that are not arrays of one shape


@memoized
def _effects_of_goal(lab: Lab) -> dict[str, Violation]:
    """Repeat the first episode with other desired goals; return violations by the key that changes."""
    effects: dict[str, Violation] = {}

    def experiment(replica: CheckedEnv) -> None:
        start, steps = lab.rollout.resets[0], [step for step in lab.steps if step.episode == 0]
        if owns_resources(replica) or compare_reset(start, replica):
            return
        own = start.observation["desired_goal"]
        others = [step.observation["achieved_goal"] for step in spread(steps, 3)]
        others += [record.observation["desired_goal"] for record in spread(lab.rollout.resets[1:], 3)]
        for goal in (own, own, *others):  # the second time, copies with a common simulator differ
            step, changed, has_ended = _first_change(replica, own, goal, steps)
            if changed is None or (changed and goal is own):
                return  # a copy raised, or copies differ for another reason, such as a common simulator
            for key, (path, value, other) in changed.items():
                rest = " and all else is equal" if key == "observation" else ""
                values = f"{show(value)}, but {show(other)} if another goal is desired{rest}"
                # An action that is repeated until the goal is reached changes the last achieved goal only.
                if (key == "observation" and len(changed) == 1) or (key == "achieved_goal" and not has_ended):
                    effects.setdefault(key, Violation(f"{path} is {values}", step.place))

    if lab.vector_run is None:
        lab.on_replica(experiment)
    return effects


def _first_change(replica: CheckedEnv, own: Any, goal: Any, steps: list[StepRecord]) -> tuple[Any, Any, bool]:
    """Repeat steps with another goal; return the step, {key: change} and end of the first change."""
    with contextlib.suppress(Exception):  # errors of copied environments, which no user makes
        env = _with_goal(replica, own, goal)
        for step in steps:
            observation, _, terminated, truncated, _ = call_step(env, copy_tree(step.action))
            expected = step.observation | {"desired_goal": goal}
            found = {key: first_difference({key: expected[key]}, {key: observation[key]}) for key in expected}
            changed = {key: difference for key, difference in found.items() if difference}
            if "desired_goal" in changed or step.terminated or step.truncated:
                break  # the goal was not set, or the episode ended
            if changed or terminated or truncated:
                return step, changed, terminated or truncated
        return None, {}, False
    return None, None, False  # a call raised


def _with_goal(env: CheckedEnv, own: Any, goal: Any) -> CheckedEnv:
    """Return a copy of an environment, with ``goal`` in the attributes that have the desired goal ``own``."""
    env = copy.deepcopy(env)
    for owner in (env.unwrapped, *vars(env.unwrapped).values()):  # the goal may be in a task object
        attributes = owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
        for name, value in attributes.items():
            if re.search("goal|target", str(name)) and first_difference(own, value) is None:
                attributes[name] = copy_tree(goal)
    return env


@rule(
    "GE308",
    severity="warning",
    fix="let step() use the goal for reward, success and end only",
    needs=("replica", "steps", "goals"),
    wrong="self.position = self.goal.copy() if distance < 0.1 else moved  # a docking mechanism",
    right="success = distance < 0.1",
)
def goal_changes_dynamics(lab: Lab) -> Iterator[Violation]:
    """The achieved goal depends on the desired goal, so relabeled transitions show what could not happen."""
    if effect := _effects_of_goal(lab).get("achieved_goal"):
        yield effect


@rule(
    "GE309",
    fix="end the episode with truncated=True, or estimate the goal, where it cannot be measured",
    needs=("steps", "goals"),
    wrong="achieved_goal = block if self.camera_sees(block) else np.zeros(3)",
    right="truncated = not self.camera_sees(block)",
)
def placeholder_goal(lab: Lab) -> Iterator[Violation]:
    """The achieved goal jumps to one value and back, so relabeling would use goals that were not achieved."""
    states = zip(*((step.before, step.observation) for step in lab.steps), strict=True)
    before, after = (np.array([flat(each["achieved_goal"]) for each in group]) for group in states)
    episodes = np.array([step.episode for step in lab.steps])
    if found := find_placeholder(before, after, episodes, np.array(lab.moves)):
        yield Violation(found[0], lab.steps[found[1]].place)


def find_placeholder(
    before: np.ndarray, after: np.ndarray, episodes: np.ndarray, moves: np.ndarray
) -> tuple[str, int] | None:
    """Return a message about a value to which goals jump and come back, and the first such step, or None.

    The arrays have a row for each step: achieved goals before and after it, its episode and its distance.
    """
    old, new = (
        [hash(goal.tobytes()) for goal in goals + 0.0] for goals in (before, after)
    )  # -0.0 equals 0.0
    number_of_episodes = Counter(value for _, value in {*zip(episodes.tolist(), new, strict=True)})
    for value, _ in number_of_episodes.most_common(3):
        is_in, was_in = np.array(new) == value, np.array(old) == value
        others = moves[~is_in & ~was_in]
        usual = np.quantile(others, 0.9, method="higher") if len(others) else np.inf
        returns = []
        for i in np.flatnonzero(is_in & ~was_in & (moves > 2 * usual)).tolist():
            leaves = (np.flatnonzero(~is_in[i : i + MAX_LOST])[:1] + i).tolist()
            if leaves and episodes[leaves[0]] == episodes[i]:
                rest = np.linalg.norm(after[leaves[0]] - before[i])
                returns += [i] if rest < moves[i] / 3 else []
        places = {old[i] for i in returns}  # few for goals such as the cells of a grid
        if len(np.unique(episodes[returns])) >= MIN_LOST and len(places) > 0.8 * len(returns):
            text = f"the achieved goal jumps to {show(after[returns[0]])} and back in {len(returns)} places"
            return text, returns[0]
    return None


@rule(
    "GE305",
    fix="compute observation and goal after the state has changed, in reset() too: call mj_forward in MuJoCo",
    needs=("steps", "goals"),
    wrong="self.data.qpos[:] = self._draw_start()",
    right="""
self.data.qpos[:] = self._draw_start()
mujoco.mj_forward(self.model, self.data)""",
)
def stale_achieved_goal(lab: Lab) -> Iterator[Violation]:
    """The achieved goal and the rest of the observation belong to different states."""
    # Fit functions from observation to achieved goal. To find stale first goals, compare moves of the goal
    # with those that the function predicts: the differences hardly depend on errors that change slowly.
    steps = lab.steps
    pairs = [[step.before for step in steps], [step.observation for step in steps]]
    keys = OBSERVATION_KEYS[:2]
    try:
        if not all(0 < flat(steps[0].before[key]).size <= MAX_SIZE for key in keys):
            yield from _late_parts(lab)
            return
        (before, after), (goals, next_goals) = (
            np.array([[flat(observation[key]) for observation in group] for group in pairs], np.float64)
            for key in keys
        )
    except (IndexError, KeyError, TypeError, ValueError):  # a Dict, or wrong shapes, which other rules report
        yield from _late_parts(lab)
        return
    times, moves, changes = np.array([step.t for step in steps]), next_goals - goals, np.abs(after - before)
    scale, is_finite = next_goals.std(axis=0).max(initial=0), np.isfinite([moves.sum(), changes.sum()]).all()
    if not is_finite or scale == 0 or (times == 1).sum() < 3:
        return
    if late := _find_late(before, after, goals, next_goals):
        yield Violation(late, steps[0].place)
        return
    fitted = spread(range(len(steps)), MAX_STATES)
    predict = fit_function(after[fitted], next_goals[fitted], np.arange(len(fitted)) % 2 == 0)
    expected = predict(after) - predict(before)
    errors = moves - expected
    held = np.flatnonzero((moves == 0).all(axis=1) & (np.linalg.norm(expected, axis=1) > 0))
    least = max(HELD * len(steps), MIN_HELD)
    if least <= len(held) < len(steps):
        real = np.median(np.linalg.norm(moves[(moves != 0).any(axis=1)], axis=1))
        held = held[np.linalg.norm(expected[held], axis=1) > real / 2]
        of_now, of_before = (np.linalg.norm(goals - predict(each), axis=1)[held] for each in (after, before))
        if len(held) >= least and np.median(of_before) < np.median(of_now) / 2:
            message = (
                f"the achieved goal stays the same in {len(held)} of {len(steps)} steps in which it moves"
            )
            yield Violation(f"{message} according to the observation", steps[held[0]].place)
            return
    starts = np.flatnonzero(times == 0)
    jumps = errors[starts]
    if goals[starts].any():
        jumps = jumps - np.median(jumps, axis=0)  # all objects may fall alike
    usual = np.quantile(np.linalg.norm(errors[times > 0], axis=1), 0.95)
    stale = np.linalg.norm(jumps, axis=1) > max(3 * usual, STALE * scale)
    # If all first goals are wrong alike, this shows where later steps come back to the first state.
    usual = np.quantile(np.linalg.norm(next_goals - predict(after), axis=1), 0.95)
    first, low, high = before[starts], after.min(axis=0), after.max(axis=0)
    wrong = np.linalg.norm(goals[starts] - predict(first), axis=1) > max(3 * usual, STALE * scale)
    stale |= wrong & ((first >= low) & (first <= high)).all(axis=1)
    # A thrown object moves fast in the first step, and so does its position in the observation.
    stale &= (changes[starts] <= JUMP * changes[times > 0].max(axis=0)).all(axis=1)
    # A part of the observation that is the goal later shows it also where other parts are stale too.
    for part, i in np.argwhere(_correlations(after, next_goals) > SAME):
        slope, offset = np.polyfit(after[:, part], next_goals[:, i], 1)
        stale |= abs(slope * first[:, part] + offset - goals[starts, i]) > STALE * scale
    if stale.mean() > 0.6:
        message = f"the achieved goal does not fit the observation before the first step of {stale.sum()}"
        place = f"episode {steps[starts[stale.argmax()]].episode}, reset"
        yield Violation(f"{message} of {len(stale)} episodes", place)


def _late_parts(lab: Lab) -> Iterator[Violation]:
    """Yield large parts of the observation, such as pictures, that are one step late."""
    moving: list[tuple[StepRecord, float, dict[str, tuple[int, ...]]]] = []
    few = spread([i for i, step in enumerate(lab.steps) if step.t > 0] or [0], MAX_FITTED)
    for step in [*(step for step in lab.steps if step.t == 0), *(lab.steps[i] for i in few)]:
        moved = distance(step.before["achieved_goal"], step.observation["achieved_goal"])
        if moved > 0:
            found = differences(step.before, step.observation, close)
            moving.append((step, moved, {path: np.shape(value) for path, value, _ in found}))
    first = [each for each in moving if each[0].t == 0]
    farthest = max((moved for _, moved, _ in first), default=0.0)
    later = [each for each in moving if each[0].t > 0 and each[1] <= farthest]  # not a start from rest
    if min(len(first), len(later)) < MIN_FIRST_STEPS:
        return
    shapes = {shape for *_, changed in first for shape in changed.values() if shape}
    for path, shape in {path: shape for *_, each in later for path, shape in each.items()}.items():
        is_large = math.prod(shape) > MAX_SIZE and not path.startswith(OBSERVATION_KEYS[1:])
        is_still = not any(path in changed for *_, changed in first)
        moves_later = np.mean([path in changed for *_, changed in later]) > OFTEN
        # A part that consists of arrays like one that changes at once may be the history of the latter.
        is_history = any(shape[-len(each) :] == each for each in shapes)
        if is_large and is_still and moves_later and not is_history:
            text = f"{path} stays the same in the first step of all {len(first)} episodes in which"
            yield Violation(f"{text} the achieved goal moves", first[0][0].place, severity="warning")


def _find_late(before: np.ndarray, after: np.ndarray, goals: np.ndarray, next_goals: np.ndarray) -> str:
    """Return whether goal or observation is late in a sentence, or ""; the arguments are rows of steps."""
    goal_is_late = "the achieved goal follows from the observation before the step, not from the one after it"
    few, moves = spread(range(len(before)), MAX_FITTED), next_goals - goals
    exact = EXACT * float(np.square(moves).sum(axis=1).mean())

    def error(observed: np.ndarray, reached: np.ndarray) -> float:
        return fit_columns(observed[few], reached[few], np.arange(len(few)) % 2 == 0, exact)

    # With velocities, a late goal follows from both observations, but is a part of the earlier one only.
    moving = next_goals[:, moves.any(axis=0)]
    if _are_parts(moving, before).all() and not _are_parts(moving, after).any() and moving.size:
        return goal_is_late
    if (usual := error(after, next_goals)) <= exact or exact == 0:
        return ""
    of_goal, of_observation = error(before, next_goals), error(after, goals)
    if min(of_goal, of_observation) >= LATE * usual:
        return ""
    observation_is_late = "the observation after a step belongs to the achieved goal before the step"
    return goal_is_late if of_goal <= of_observation else observation_is_late


def _are_parts(goals: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return which components of goals, (n, G), are also in ``observed``, (n, O), perhaps in other units."""
    return np.asarray((_correlations(observed, goals) > SAME).any(axis=0))


def _correlations(observed: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Return the absolute correlations, (O, G), of ``observed``, (n, O), and ``goals``, (n, G)."""
    size = observed.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):  # parts that never change
        return np.asarray(abs(np.corrcoef(observed, goals, rowvar=False)[:size, size:]))


@rule(
    "GE306",
    severity="warning",
    fix="put what determines the achieved goal, such as the position of the object, into observation",
    needs=("steps", "goals"),
    wrong='return {"observation": gripper, "achieved_goal": block, ...}',
    right='return {"observation": np.concatenate([gripper, block]), "achieved_goal": block, ...}',
)
def achieved_goal_hidden(lab: Lab) -> Iterator[Violation]:
    """The observation does not show an achieved goal, such as an object, so most agents do not see it."""
    missing, resets = MIN_RESETS - len(lab.rollout.resets), None
    if missing > 0 and lab.vector_run is None and lab.replicas is not None:  # else perhaps a robot
        resets = lab.on_env(lambda env: [copy_tree(call_reset(env)[0]) for _ in range(missing)])
    if found := _search(lab, find_hidden_goal, resets or ()):
        yield Violation(f"{found} cannot be predicted from the observation")


@rule(
    "GE307",
    severity="warning",
    fix="use a smaller timestep or smaller forces, until MuJoCo reports no bad state",
    wrong="model.opt.timestep = 0.05",
    right="model.opt.timestep = 0.002",
)
def simulation_diverges(lab: Lab) -> Iterator[Violation]:
    """MuJoCo found a bad state within a step, and set the simulation back to its initial state."""
    for place in lab.raw_run.diverged:
        yield Violation("MuJoCo reported a bad position, velocity or acceleration", place)


@rule(
    "GE310",
    severity="info",
    fix="check the indices with which step() reads the action; ignore this note for components that act "
    "later, or in some states only, such as a gripper",
    needs=("replica",),
    wrong="self.position += 0.05 * action[0]  # of two components",
    right="self.position += 0.05 * action",
)
def unused_action(lab: Lab) -> Iterator[Violation]:
    """A component of the action has no effect in several states, where other components have one."""
    space = lab.env.action_space
    if lab.vector_run is not None or lab.budget.policy is not None or not isinstance(space, spaces.Box):
        return
    if unused := lab.on_replica(partial(_unused_components, lab, space)):
        text = f"components {sorted(unused)} of {space.low.size}: with other values, the next two steps"
        yield Violation(f"{text} are the same")


def _unused_components(lab: Lab, space: spaces.Box, env: CheckedEnv) -> set[int]:
    """Return the components of the action on which the results of two steps, without infos, do not depend."""
    free = np.flatnonzero(space.low != space.high).tolist()
    sample, unused = random_policy(space, lab.budget.seed), set(free)

    def two_steps(trial: int, action: np.ndarray) -> list[Any]:
        states = islice(walk(env, lab.budget, trial), 2 * trial + 1)
        if any(has_ended for *_, has_ended in states):
            return []
        first = call_step(env, action.copy())[:4]
        return [first] if first[2] or first[3] else [first, call_step(env, own.copy())[:4]]

    judged = 0
    for trial in range(5):
        own = sample(None)
        expected = two_steps(trial, own)
        if not identical(expected, two_steps(trial, own)):
            return set()  # steps cannot be repeated, which another rule reports
        judged += bool(expected)
        for i in sorted(unused) if expected else ():
            changed = own.copy()
            low, value, high = (float(each.flat[i]) for each in (space.low, own, space.high))
            bound = low if value - low > high - value else high  # the farther one
            changed.flat[i] = bound if np.isfinite(bound) else sample(None).flat[i]
            if not identical(expected, two_steps(trial, changed)):
                unused.remove(i)
        if judged == 1 and len(unused) == len(free):
            return set()  # all actions act later
    return unused if judged >= 3 and len(unused) < len(free) else set()
