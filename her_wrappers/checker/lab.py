"""The lab: the calls and experiments that rules ask for after the run of an environment."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from typing import Any, TypeVar, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_wrappers.checker.comparing import arrays_in, close, first_difference
from her_wrappers.checker.goal_calls import (
    INFO_FORMS,
    CallResult,
    Pair,
    between,
    call_function,
    depends_on_goal,
    distance,
    info_argument,
    leaves,
    relabeled_pairs,
    reward_number,
    stack,
)
from her_wrappers.checker.records import (
    OUTCOME,
    Divergence,
    FailedCall,
    ResetRecord,
    Rollout,
    StepRecord,
    goals_of,
    split_batches,
    spread,
)
from her_wrappers.checker.replicas import CheckedEnv, Replicas
from her_wrappers.checker.rollout import Budget, autoreset_mode, call_reset, call_step, walk
from her_wrappers.data.trees import NUMBERS, copy_tree, map_tree, take_rows
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.interface import OBSERVATION_KEYS, find_function
from her_wrappers.goals.success_flag import FLAG_NAMES, flag_of
from her_wrappers.rules import RuleSet
from her_wrappers.support.policies import PolicyError

REWARD, TERMINATED = GOAL_FUNCTIONS = ("compute_reward", "compute_terminated")
GOAL_ENV_RULES = RuleSet(
    chains=(
        # goals of a wrong shape; functions that are not pure, then rewards that are wrong for all goals
        ("GE009", "GE603"),
        ("GE109 GE111 GE112", "GE113"),
        ("GE004 GE008", "GE104 GE105 GE113 GE114 GE206"),
        ("GE109", "GE111", "GE112 GE114", "GE110", "GE118", "GE101 GE106 GE115 GE116"),
        # rewards and terminations of steps
        ("GE303", "GE101", "GE103 GE202 GE205 GE207"),
        ("GE115", "GE202 GE204 GE205 GE207"),
        ("GE111", "GE110", "GE205 GE206 GE208"),
        ("GE005", "GE103"),
        # batches
        ("GE000", "GE104 GE113"),
        ("GE104 GE105", "GE106 GE108"),
        ("GE606", "GE303"),
        ("GE106", "GE121"),
        # memory, and seeds
        ("GE109", "GE122 GE301"),
        ("GE301", "GE302"),
        ("GE305 GE309", "GE306"),
        ("GE112", "GE401", "GE402 GE403 GE404"),
    )
)
rule = GOAL_ENV_RULES.rule  # importing `her_wrappers.checker.rules` adds the rules
REPLAY_DIVISOR = 20  # a replay repeats the beginning of the run on a replica: this part of all steps
MIN_CLOCK_STEPS = 40  # least steps of a replica at which goal functions are called, to repeat the calls later
STEPS_BEFORE_REPEATING = 3  # steps after the run, before goal functions are called again
SMALL_BATCHES = (range(2), range(2, 5), range(5, 12))  # indices of relabeled pairs
# Common batch sizes; 205 is the number of relabeled rows in a batch of 256 if n_sampled_goal is 4.
LARGE_SIZES = (64, 205, 256, 1024, 2048)
MAX_BATCH_BYTES = 2**24  # of the achieved goals of a batch; larger batches, as of images, are skipped
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
MAX_STATES = 1000  # largest number of steps that are searched for goals, and to which a function is fitted

Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])


def memoized(function: Method) -> Method:
    """Decorate a function of a lab and of hashable arguments: each lab stores its results."""

    @wraps(function)
    def remember(lab: Lab, *args: Any) -> Any:
        key = (function, *args)
        if key not in lab.memory:
            lab.memory[key] = function(lab, *args)
        return lab.memory[key]

    return cast("Method", remember)


@dataclass(eq=False)
class Lab:
    """The recorded run of an environment, and the calls and experiments that rules ask for.

    The argument ``name`` of a method is the name of a goal function: ``lab.step_results("compute_reward")``.
    """

    observation_space: spaces.Space[Any]  # observation space of one environment
    rollout: Rollout  # recorded resets and steps; batches are split into episodes of single environments
    functions: Mapping[str, GoalFunction] = field(default_factory=dict)  # goal functions that exist, by name
    # arrays in attributes of the environment at the end of the run, with their names
    state: Sequence[tuple[str, np.ndarray]] = ()
    env: CheckedEnv = None  # the environment; with None, no relabeled goals and no experiments
    replicas: Replicas | None = None  # maker of replicas, or None
    budget: Budget = field(default_factory=lambda: Budget(1))  # policy, seed and reset options of the user
    vector_run: Rollout | None = None  # calls of a vector environment, not split; None for a single one
    mode: AutoresetMode | None = None  # autoreset mode, declared or else suggested by infos
    memory: dict[tuple[Any, ...], Any] = field(default_factory=dict)  # results of `memoized` functions

    def __post_init__(self) -> None:
        self.first_failure = self.rollout.failure  # in the run or an experiment, also with replicas; or None
        self._has_replica_failed = False

    @classmethod
    def of(cls, env: CheckedEnv, run: Rollout, replicas: Replicas | None, budget: Budget) -> Lab:
        """Return the lab of an environment after its run; if ``replicas`` is None, it makes no replicas."""
        functions = {}
        try:
            functions = {name: find_function(env, name) for name in GOAL_FUNCTIONS}
        except ValueError as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            run.failure = FailedCall("", "get_wrapper_attr()", cause)
        functions = {name: function for name, function in functions.items() if callable(function)}
        lab = cls(env.observation_space, run, functions, arrays_in(env.unwrapped), env, replicas, budget)
        if isinstance(env, gym.vector.VectorEnv):
            lab.vector_run, lab.mode = run, autoreset_mode(env, run)
            lab.observation_space = env.single_observation_space
            lab.rollout = split_batches(run, lab.mode, env.num_envs)
        return lab

    # The run

    @property
    def steps(self) -> list[StepRecord]:
        """The steps of the rollout."""
        return self.rollout.steps

    @property
    def raw_run(self) -> Rollout:
        """The recorded calls as they were made; for a vector environment, these are batches."""
        return self.vector_run or self.rollout

    @property
    def num_envs(self) -> int:
        """Number of environments of a vector environment; 1 for a single environment."""
        return self.env.num_envs if self.env is not None and self.vector_run else 1

    @cached_property
    def has_goals(self) -> bool:
        """Whether the space and all observations have the goal keys, and goals are numbers of one shape."""
        space = self.observation_space
        observations = [record.observation for record in self.rollout.records]
        shapes = [_goal_shapes(each) for each in [*observations, *(step.before for step in self.steps[:1])]]
        has_keys = isinstance(space, spaces.Dict) and set(OBSERVATION_KEYS) <= space.spaces.keys()
        return has_keys and all(found is not None and found == shapes[0] for found in shapes)

    def missing(self, need: str) -> str:
        """Return why ``need``, a key of `NEEDS`, is not met; an empty text if it is met."""
        is_met, reason = NEEDS[need]
        return "" if is_met(self) else reason.format(steps=len(self.steps), lab=self)

    # Calls of goal functions

    def call(self, name: str, achieved: Any, desired: Any, info: Any, *, copies: bool = True) -> CallResult:
        """Call a goal function of the environment; see `call_function`."""
        return call_function(self.functions[name], achieved, desired, info, copies=copies)

    def call_at(self, name: str, record: ResetRecord | StepRecord) -> CallResult:
        """Call a goal function with the goals and the info of a recorded step or reset."""
        return self.call(name, *goals_of(record), record.info)

    @memoized
    def step_results(self, name: str) -> list[CallResult]:
        """Call the goal function ``name`` for each step; return [] if it is missing or goals are invalid."""
        is_possible = name in self.functions and self.has_goals
        return [self.call_at(name, step) for step in self.steps] if is_possible else []

    @cached_property
    def pairs(self) -> list[Pair]:
        """The result of `relabeled_pairs`; empty without an environment, or if `REWARD_NEEDS` are not met."""
        if self.env is None or any(map(self.missing, REWARD_NEEDS)):
            return []
        rng = np.random.default_rng(self.budget.seed)
        return relabeled_pairs(self.steps, partial(self.call, REWARD), rng)

    @memoized
    def pair_results(self, name: str) -> list[CallResult]:
        """Call the goal function ``name`` once for each relabeled pair; return [] if it is missing."""
        return self.call_pairs(name) if name in self.functions else []

    def call_pairs(self, name: str) -> list[CallResult]:
        """Call a goal function once for each relabeled pair; unlike `pair_results`, store no results."""
        return [self.call(name, pair.achieved, pair.desired, pair.info) for pair in self.pairs]

    def batch(self, rows: Sequence[int], form: str | None = None) -> tuple[Any, Any, Any]:
        """Return the goals of relabeled pairs, and their infos in ``form``, by default the first form."""
        chosen = np.array(rows, np.intp)
        achieved, desired = (take_rows(goals, chosen) for goals in self._stacked_goals)
        return achieved, desired, info_argument([self.pairs[i] for i in rows], form or INFO_FORMS[0])

    @cached_property
    def _stacked_goals(self) -> tuple[Any, Any]:
        return stack([pair.achieved for pair in self.pairs]), stack([pair.desired for pair in self.pairs])

    @memoized
    def form_results(self, name: str) -> dict[str, CallResult]:
        """Return, for each form of the infos, the result for a batch of two pairs; empty without pairs."""
        forms = INFO_FORMS if self.pairs and name in self.functions else ()
        return {form: self.call(name, *self.batch([0, -1], form)) for form in forms}

    def info_form(self, name: str) -> str | None:
        """Return the first of `INFO_FORMS` with which the function accepts a batch, or None."""
        return next((form for form, result in self.form_results(name).items() if not result.error), None)

    def needs_info(self, name: str) -> bool:
        """Whether a call for a batch, with any form of the infos, raised KeyError for a key of the infos."""
        return any(isinstance(result.error, KeyError) for result in self.form_results(name).values())

    @memoized
    def batch_results(self, name: str) -> list[tuple[list[int], CallResult]]:
        """Return (indices of pairs, result) for small batches, the batch of all pairs, and large batches."""
        form, count, rng = self.info_form(name), len(self.pairs), np.random.default_rng(self.budget.seed)
        if form is None:
            return []
        batches = [list(rows) for rows in (*SMALL_BATCHES, range(count)) if rows.stop <= count]
        results = [(rows, self.call(name, *self.batch(rows, form))) for rows in batches]
        goal_bytes = sum(leaf.nbytes for leaf in leaves(self.pairs[0].achieved))
        # A vector environment's own function may mistake a batch of num_envs rows for its environments.
        sizes = [*LARGE_SIZES, *([self.num_envs] if self.vector_run else [])]
        chosen = [size for size in sizes if size * goal_bytes <= MAX_BATCH_BYTES]
        batches = [rng.integers(count, size=size).tolist() for size in chosen]
        return results + [(rows, self.call(name, *self.batch(rows, form), copies=False)) for rows in batches]

    def is_rowwise(self, name: str) -> bool:
        """Whether the function returns one value for each row of each batch."""
        results = self.batch_results(name)
        return bool(results) and all(result.shape == (len(rows),) for rows, result in results)

    def info_of_recorded_goal(self, name: str) -> str:
        """Return the key of an info that ``name`` reads and that differs for other recorded goals, or ''."""
        steps = spread(self.steps, MAX_STATES)
        infos = [step.info for step in steps]
        if not self.pairs or name not in self.functions or not all(isinstance(info, dict) for info in infos):
            return ""
        pairs = [*self.pairs[:4], *(Pair(*goals_of(step), step.info) for step in self.successes[:4])]

        def is_read(key: str, value: Any) -> bool:
            infos = [(p, info) for p in pairs for info in (p.info, {**p.info, key: value})]
            results = [self.call(name, p.achieved, p.desired, info) for p, info in infos]
            return not all(map(CallResult.agrees_with, results[::2], results[1::2]))

        for key in infos[0]:
            values = np.array([reward_number(info.get(key)) for info in infos])
            ends = values.argmin(), values.argmax()
            if not np.isfinite(values).all() or not any(is_read(key, infos[i][key]) for i in ends):
                continue
            if key in FLAG_NAMES or depends_on_goal(steps, values):
                return str(key)
        return ""

    # Rewards and successes

    @cached_property
    def reward_values(self) -> list[float]:
        """Up to three different finite results of ``compute_reward``, for steps and for relabeled pairs."""
        return distinct(each.number for each in (*self.step_results(REWARD), *self.pair_results(REWARD)))

    @property
    def is_sparse(self) -> bool:
        """Whether ``compute_reward`` returned exactly two different values."""
        return len(self.reward_values) == 2

    @cached_property
    def success_reward(self) -> float | None:
        """Reward of a reached goal: the largest reward of a pair of equal goals; None if it is unknown."""
        results = zip(self.pair_results(REWARD), self.pairs, strict=False)
        numbers = (result.number for result, pair in results if pair.is_self)
        return max((number for number in numbers if number is not None), default=None)

    @cached_property
    def is_always_reached(self) -> bool:
        """Whether all relabeled goals have the same reward, and a goal far away has a smaller reward."""
        values = distinct(result.number for result in self.pair_results(REWARD))
        far = [
            self.call(REWARD, pair.achieved, between(pair.achieved, pair.desired, 1e4), pair.info).number
            for pair in self.pairs[1:4]
        ]
        return len(values) == 1 and any(number is not None and number < values[0] for number in far)

    def is_rewarded_as_success(self, record: ResetRecord) -> bool:
        """Whether ``compute_reward`` returns the reward of success for the goals and the info of a reset."""
        best = self.success_reward  # None without compute_reward
        number = None if best is None else self.call_at(REWARD, record).number
        return number is not None and close(number, best)

    @cached_property
    def reached(self) -> list[bool]:
        """Whether each step reached its goal, judged by sparse rewards or, for other rewards, by the flag."""
        results = self.step_results(REWARD)
        if results and self.is_sparse and self.success_reward is not None:
            numbers = (result.number for result in results)
            return [number is not None and close(number, self.success_reward) for number in numbers]
        return [flag_of(step.info) is True for step in self.steps]

    @property
    def successes(self) -> list[StepRecord]:
        """The steps that reached their goal."""
        return [step for step, reached in zip(self.steps, self.reached, strict=True) if reached]

    @cached_property
    def moves(self) -> list[float]:
        """Distance from the achieved goal before each step to that after it."""
        goals = ((step.before["achieved_goal"], step.observation["achieved_goal"]) for step in self.steps)
        return [distance(*pair) for pair in goals]

    @cached_property
    def distances(self) -> list[float]:
        """Distance from the achieved goal after each step to the desired goal."""
        return [distance(*goals_of(step)) for step in self.steps]

    # Experiments with the environment itself: they come after the calls that further steps could affect, and
    # each experiment with replicas makes new ones, so that findings do not depend on the order of the rules.

    def on_env(self, experiment: Callable[[CheckedEnv], Result]) -> Result | None:
        """Take further resets and steps, and return ``experiment(env)``; None if impossible or it raised."""
        for name in self.functions:
            self.step_results(name)
            self.pair_results(name)
        if self.env is None or self.rollout.failure is not None or not self.raw_run.steps:
            return None
        try:
            self.take_further_steps()
            return experiment(self.env)
        except PolicyError as error:
            self.rollout.policy_error = self.rollout.policy_error or error
        except Exception as error:
            self.rollout.failure = FailedCall("after the run", "reset() or step()", error)
            self.first_failure = self.first_failure or self.rollout.failure
        return None

    @memoized
    def take_further_steps(self) -> list[str]:
        """Reset and step, once; return the names of generators that a reset replaces by equal ones."""

        def generators() -> dict[str, Any]:
            attributes = getattr(self.env.unwrapped, "__dict__", {})
            return {name: value for name, value in attributes.items() if isinstance(value, GENERATORS)}

        self.env.reset()
        old = generators()
        steps = walk(self.env, self.budget, seeds_reset=False)
        next(steps)
        replaced = [
            name
            for name, new in generators().items()
            if new is not old.get(name, new) and pickle.dumps(new) == pickle.dumps(old[name])
        ]
        for _ in range(STEPS_BEFORE_REPEATING):
            next(steps)
        return replaced

    @memoized
    def later_results(self, name: str) -> list[CallResult]:
        """Call a goal function for the relabeled pairs again after further steps; return [] if impossible."""
        return self.on_env(lambda env: self.call_pairs(name) if name in self.functions else []) or []

    @memoized
    def reset_with_other_seed(self) -> Any:
        """Return the observation after a reset with another seed than the first reset; None if it failed."""
        return self.on_env(lambda env: copy_tree(call_reset(env, self.budget.seed + 1)[0]))

    # Experiments with replicas

    @property
    def no_replica(self) -> str:
        """Reason why experiments with replicas are not possible; empty if they are."""
        if self.replicas is None:
            return "no second environment was made"
        is_copy = self.replicas.are_copies
        # Users do not copy environments, so a copy may fail.
        if not self.replicas.can_be_made or (self._has_replica_failed and is_copy):
            return "no second environment of this kind could be made"
        if not self.replay_length:
            return "the run was too short to be repeated on a second environment"
        return "the second environment raised an exception" if self._has_replica_failed else ""

    @property
    def replay_length(self) -> int:
        """Number of steps in a replay."""
        return len(self.raw_run.steps) // REPLAY_DIVISOR

    def replica(self) -> CheckedEnv:
        """Return one more replica; call this only inside an experiment of `on_replica`."""
        return self.replicas.make() if self.replicas else None

    def on_replica(self, experiment: Callable[[CheckedEnv], Result]) -> Result | None:
        """Return the result of an experiment with a new replica, or None if it is not possible or raised."""
        if self.no_replica or self.replicas is None:
            return None
        try:
            return experiment(self.replica())
        except PolicyError as error:
            self.rollout.policy_error = self.rollout.policy_error or error
        except Exception as error:
            self._has_replica_failed = True
            if not self.replicas.are_copies:
                place = "on a second environment (pass replicas=False to make none)"
                self.first_failure = self.first_failure or FailedCall(place, "reset() or step()", error)
        return None

    def replay(
        self, replica: CheckedEnv, before_step: Callable[[StepRecord], Any] = lambda step: None
    ) -> Divergence | None:
        """Repeat the beginning of the run on a replica; return the first difference, but not in infos."""
        resets, episode = iter(self.raw_run.resets), -1
        for step in self.raw_run.steps[: self.replay_length]:
            while episode < step.episode:  # two resets may follow each other without a step between them
                record = next(resets)
                episode = record.episode
                if found := compare_reset(record, replica):
                    return found
            before_step(step)
            observation, *repeated, _ = call_step(replica, copy_tree(step.action))
            outcome = {name: getattr(step, name) for name in OUTCOME}
            found = divergence(step.place, step.observation, observation)
            if found := found or divergence(step.place, outcome, dict(zip(OUTCOME, repeated, strict=True))):
                return found
        return None

    @memoized
    def find_divergence(self) -> Divergence | None:
        """Replay the run on a replica, and return the first difference, or None if both are equal."""

        def experiment(replica: CheckedEnv) -> Divergence | None:
            # A second replica takes steps too, in case environments share state, such as class attributes.
            steps = walk(self.replica(), self.budget, 1)
            next(steps)
            found = self.replay(replica, lambda step: next(steps))
            if found and self.replicas and self.replicas.are_copies and not self.replay(self.replica()):
                # Copies that share a simulator, such as a PyBullet client, are used one after another only.
                return None
            return found

        return self.on_replica(experiment)

    def call_on(self, replica: CheckedEnv, name: str, t: int) -> None:
        """Call a goal function of a replica with one relabeled pair, chosen by ``t``, then with a batch."""
        function = find_function(replica, name)
        if self.pairs and callable(function):
            pair = self.pairs[t % len(self.pairs)]
            call_function(function, pair.achieved, pair.desired, pair.info)
            call_function(function, *self.batch([0, 1, 2], self.info_form(REWARD) or "an empty dict"))

    def changed_result(self, name: str) -> str:
        """Return a sentence about a result that differs for the same arguments after a reset, or ''."""
        if self.pairs and name in self.functions:
            calls = self.on_replica(partial(self._call_during_episodes, name)) or []
            later = zip(self.pair_results(name), self.later_results(name), strict=False)
            calls += [("the end of the run", *results) for results in later]
            for place, first, again in calls:
                if not first.agrees_with(again):
                    repeated = f"{again.outcome} for the same arguments after a reset"
                    return f"{name} {first.outcome} at {place}, but {repeated}"
        return ""

    def _call_during_episodes(
        self, name: str, replica: CheckedEnv
    ) -> list[tuple[str, CallResult, CallResult]]:
        """Call a goal function at each step and again after a reset; return (place, result, later result)."""
        function = find_function(replica, name)
        if not callable(function):
            return []
        calls = []
        count = max(self.replay_length, MIN_CLOCK_STEPS)
        for t, observation, info, has_ended in itertools.islice(walk(replica, self.budget), count):
            place = f"the end of an episode after {t} steps" if has_ended else f"step {t} of an episode"
            pair = self.pairs[t % len(self.pairs)]
            arguments = [(pair.achieved, pair.desired, pair.info)]
            if self.vector_run is None:
                achieved, desired = observation["achieved_goal"], observation["desired_goal"]
                arguments += [copy_tree((achieved, desired, info)), copy_tree((desired, desired, info))]
            calls += [(place, each, call_function(function, *each)) for each in arguments]
        replica.reset(seed=self.budget.seed + 1)
        return [(place, first, call_function(function, *each)) for place, each, first in calls]


def compare_reset(record: ResetRecord, env: CheckedEnv) -> Divergence | None:
    """Repeat a recorded reset in ``env``, and return the first difference of the observations, or None."""
    observation, _ = call_reset(env, record.seed, record.options)
    return divergence(record.place, record.observation, observation, at_reset=True)


def divergence(place: str, original: Any, repeated: Any, *, at_reset: bool = False) -> Divergence | None:
    """Return the first difference between two values, or None."""
    found = first_difference(original, copy_tree(repeated))
    return Divergence(place, at_reset, *found) if found else None


def distinct(numbers: Iterable[float | None]) -> list[float]:
    """Return the first finite numbers, at most three, that differ from each other by more than rounding."""
    values: list[float] = []
    for number in numbers:
        if len(values) == 3 or number is None or not np.isfinite(number):
            continue
        if not any(close(number, each) for each in values):
            values.append(number)
    return values


def _goal_shapes(observation: Any) -> Any:
    """Return the shape of both goals; None if the shapes differ, or a goal is missing or not numeric."""
    if not isinstance(observation, dict) or not set(OBSERVATION_KEYS) <= observation.keys():
        return None
    goals = [observation[key] for key in OBSERVATION_KEYS[1:]]
    try:
        achieved, desired = (map_tree(np.shape, goal) for goal in goals)
    except ValueError:  # lists of unequal length are not arrays
        return None
    has_numbers = all(leaf.dtype.kind in NUMBERS for goal in goals for leaf in leaves(goal))
    return achieved if achieved == desired and has_numbers else None


NEEDS: dict[str, tuple[Callable[[Lab], bool], str]] = {
    "goals": (lambda lab: lab.has_goals, "observations lack numeric goals, or their goals differ in shape"),
    "reward": (lambda lab: REWARD in lab.functions, "there is no compute_reward"),
    "steps": (lambda lab: len(lab.steps) > 0, "no step was taken"),
    "batches": (lambda lab: lab.info_form(REWARD) is not None, "compute_reward does not accept batches"),
    "later": (lambda lab: bool(lab.later_results(REWARD)), "compute_reward could not be called again"),
    "success": (lambda lab: any(lab.reached), "no success was seen in {steps} steps"),
    "sparse": (lambda lab: lab.is_sparse, "rewards do not take exactly two values"),
    "replica": (lambda lab: not lab.no_replica, "{lab.no_replica}"),
    "ended": (lambda lab: lab.rollout.ended_episodes > 0, "no episode ended in {steps} steps"),
}
"""Needs of rules, by name: a function that tests the lab, perhaps by an experiment; the reason if unmet."""

REWARD_NEEDS = ("goals", "reward", "steps")  # needs (keys of `NEEDS`) of the rules that judge rewards
BATCH_NEEDS = (*REWARD_NEEDS, "batches")  # needs (keys of `NEEDS`) of the rules that judge rewards of batches
