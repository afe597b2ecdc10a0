"""Experiments after the run of an environment: calls of its goal functions, and replays on replicas.

The goal functions are ``compute_reward`` and ``compute_terminated``. Replicas are other environments of the
same kind. The order of the experiments is fixed:

1. Relabeled pairs are made: achieved goals of steps, each with several desired goals. A batch of two pairs is
   passed to the goal functions with each form of the info argument, such as a list of dicts or an empty dict.
2. The beginning of the run is replayed on replicas several times: while another replica takes steps, to find
   shared state such as class attributes; with calls of the goal functions between the steps, to find side
   effects; and on a used replica, to find state that survives a reset. Further experiments with replicas
   repeat resets with options, and search for goal functions that depend on the state of the environment and
   for calls that seed a global random generator.
3. The goal functions of the environment under test are called for all steps, pairs, and batches of pairs.
4. The environment takes further steps, the pairs are passed to the goal functions again, and the first reset
   is repeated.
"""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.comparing import arrays_in, first_difference, share_memory
from her_wrappers.checker.evidence import Evidence, VectorRun
from her_wrappers.checker.global_generators import seeded_generators
from her_wrappers.checker.goal_calls import INFO_FORMS, CallResult, Probe, leaves, relabeled_pairs
from her_wrappers.checker.records import (
    OUTCOME,
    Divergence,
    FailedCall,
    ResetRecord,
    Rollout,
    StepRecord,
    split_batches,
)
from her_wrappers.checker.replicas import CheckedEnv, Replicas
from her_wrappers.checker.rollout import Budget, Policy, autoreset_mode, call_reset, call_step, random_policy
from her_wrappers.data.trees import Tree, copy_tree, map_tree
from her_wrappers.goals.interface import find_function

REPLAY_DIVISOR = 20
"""Each replay repeats the first twentieth of the steps of the rollout."""

MIN_CLOCK_STEPS = 40
"""Smallest number of steps in `_find_state_changes`, which is enough for short episodes to end."""

MAX_EPISODE_STEPS = 60
"""Largest number of steps of an episode that is searched for calls that seed a global generator."""

STEPS_BEFORE_REPEATING = 3
"""Number of steps after the run before goal functions are called again with the same arguments."""

REPETITIONS = 4
"""Number of immediate repetitions of a call; noise changes only half of the results near a threshold."""

BATCH_SIZES = (2, 3, 7)
"""Sizes of the batches of relabeled pairs, in addition to the batch of all pairs."""

LARGE_SIZES = (64, 205, 256, 1024, 2048)
"""Common batch sizes; 205 is the number of relabeled rows in a batch of 256 if n_sampled_goal is 4."""

MAX_BATCH_BYTES = 2**24
"""Largest size in bytes of the achieved goals of a batch; larger batches, as of images, are skipped."""

GOAL_FUNCTIONS = ("compute_reward", "compute_terminated")

REPEATED_CALLS, REPEATED_SIZE = 4, 3
"""Number and size of the batches that are computed in succession, to detect a shared output array."""


def run_experiments(env: CheckedEnv, run: Rollout, replicas: Replicas | None, budget: Budget) -> Evidence:
    """Do the experiments after a run, and return the evidence.

    For a vector environment, the records of ``run`` contain batches. If ``replicas`` is None, the experiments
    with replicas are left out.
    """
    evidence = Evidence(env.observation_space, run, seed=budget.seed, state=arrays_in(env.unwrapped))
    try:
        evidence.reward, evidence.terminated = (probe(env, name) for name in GOAL_FUNCTIONS)
        evidence.reward_type = find_function(env, "reward_type") if isinstance(env, gym.Env) else None
    except ValueError as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        run.failure = FailedCall("", "get_wrapper_attr()", cause)
    reward = evidence.reward
    if isinstance(env, gym.vector.VectorEnv):
        mode = autoreset_mode(env, run)
        owner = getattr(reward and reward.function, "__self__", None)
        is_copy = isinstance(owner, gym.Env) and not hasattr(env.unwrapped, "envs")
        evidence.vector = VectorRun(run, env, mode, is_copy)
        evidence.observation_space = env.single_observation_space
        evidence.rollout = split_batches(run, mode, env.num_envs)
    if reward is not None and evidence.has_goals and evidence.steps:
        evidence.pairs = relabeled_pairs(evidence.steps, reward, np.random.default_rng(budget.seed))
        for function in evidence.functions:
            function.info_form_results = {
                form: function(*evidence.batch([0, 1], form)) for form in INFO_FORMS
            }
    if replicas is not None:
        _replay_on_replicas(evidence, run, replicas, budget.reset_options)
    for function in evidence.functions if evidence.has_goals else ():
        _call_goal_function(function, evidence)
    if evidence.rollout.failure is None and run.steps:
        _repeat_calls(env, evidence, run.resets[0])
    return evidence


def probe(env: CheckedEnv, name: str) -> Probe | None:
    """Return a `Probe` that calls the goal function ``name`` of ``env``; None if ``env`` does not have it."""
    function = find_function(env, name)
    return Probe(function, name) if callable(function) else None


def _replay_on_replicas(
    evidence: Evidence, run: Rollout, replicas: Replicas, reset_options: Sequence[dict[str, Any]]
) -> None:
    """Repeat the beginning of the run on replicas; if the first replay differs, do no further replays."""
    steps = len(run.steps) // REPLAY_DIVISOR
    try:
        replica, concurrent = replicas.make(), replicas.make()
        if replica is None or not steps:
            too_short = "the run was too short to be repeated on a second environment"
            evidence.no_replica = replicas.absence if replica is None else too_short
            return
        act = random_policy(concurrent.action_space, evidence.seed + 1)
        concurrent.reset(seed=evidence.seed + 1)
        evidence.divergence = _replay(run, replica, steps, lambda step: _step_or_reset(concurrent, act))
        if evidence.divergence and replicas.are_copies and not _replay(run, replicas.make(), steps):
            # Copies that share a simulator, such as a PyBullet client, are used one after another only.
            evidence.divergence = None
        evidence.no_replica = ""
        if evidence.divergence is None:
            for function in evidence.functions:
                called = replicas.make()
                call = partial(_call_with_pairs, evidence, probe(called, function.name))
                function.side_effect = _replay(run, called, steps, call)
            evidence.rerun_divergence = _replay(run, replica, steps)
            evidence.options_divergence = _reset_twice_with_options(concurrent, evidence.seed, reset_options)
        if evidence.pairs:
            _find_state_changes(evidence, concurrent, max(steps, MIN_CLOCK_STEPS))
        evidence.global_seeding = _find_global_seeding(evidence, concurrent, replicas)
        evidence.none_for_unknown_type = _is_none_for_unknown_type(evidence, replicas.make())
    except Exception as error:
        if replicas.are_copies:  # users do not copy environments, so a copy may fail
            evidence.no_replica = replicas.absence
        else:
            evidence.no_replica = "the second environment raised an exception"
            place = "on a second environment (pass replicas=False to make none)"
            failure = FailedCall(place, "reset() or step()", error)
            evidence.rollout.failure = evidence.rollout.failure or failure


def _replay(
    run: Rollout,
    replica: CheckedEnv,
    steps: int,
    before_step: Callable[[StepRecord], Any] = lambda step: None,
) -> Divergence | None:
    """Repeat the first ``steps`` steps of a run, and return the first difference, or None.

    Observations, rewards, terminations and truncations are compared; infos are not.
    """
    resets = iter(run.resets)
    episode = -1
    for step in run.steps[:steps]:
        while episode < step.episode:  # two resets may follow each other without a step between them
            record = next(resets)
            episode = record.episode
            found = _compare_reset(record, replica)
            if found:
                return found
        before_step(step)
        observation, *repeated, _ = call_step(replica, copy_tree(step.action))
        outcome = {name: getattr(step, name) for name in OUTCOME}
        found = _divergence(step.place, step.observation, observation)
        found = found or _divergence(step.place, outcome, dict(zip(OUTCOME, repeated, strict=True)))
        if found:
            return found
    return None


def _compare_reset(record: ResetRecord, env: CheckedEnv) -> Divergence | None:
    observation, _ = call_reset(env, record.seed, record.options)
    return _divergence(record.place, record.observation, observation, at_reset=True)


def _divergence(place: str, original: Any, repeated: Any, *, at_reset: bool = False) -> Divergence | None:
    found = first_difference(original, copy_tree(repeated))
    return Divergence(place, at_reset, *found) if found else None


def _step_or_reset(env: CheckedEnv, policy: Policy) -> None:
    _, _, terminated, truncated, _ = call_step(env, policy(None))
    if np.any(terminated) or np.any(truncated):
        env.reset()


def _call_with_pairs(evidence: Evidence, function: Probe | None, step: StepRecord) -> None:
    """Call ``function``, if any, with one pair of goals, chosen by ``step.t``, and with a batch of pairs."""
    if evidence.pairs and function is not None:
        function.of_pairs([evidence.pairs[step.t % len(evidence.pairs)]])
        function(*evidence.batch([0, 1, 2], evidence.info_form or "an empty dict"))


def _reset_twice_with_options(
    env: CheckedEnv, seed: int, reset_options: Sequence[dict[str, Any]]
) -> Divergence | None:
    """Return the first difference between two resets with the same seed and options, or None.

    Options that raise are skipped. The options of the user are tried before an empty dict and an unknown
    option.
    """
    action = random_policy(env.action_space, seed)(None)
    for options in [None, *reset_options, {}, {"no such option": 0}]:
        try:
            first = copy_tree(call_reset(env, seed, options)[0])
            env.step(copy_tree(action))
            second = call_reset(env, seed, options)[0]
        except Exception:  # an environment may reject options that it does not know
            continue
        found = _divergence(f"reset with options={options!r}", first, second, at_reset=True)
        if found:
            return None if options is None else found  # a difference without options is a case of GE401
    return None


def _find_state_changes(evidence: Evidence, env: CheckedEnv, steps: int) -> None:
    """Find results of goal functions that change with the state of the environment; ``env`` is a replica.

    The goal functions of ``env`` are called during episodes, and again with the same arguments after a reset.
    Results that differ are stored in `Probe.changes`.
    """
    functions = [
        (function, of_replica)
        for function in evidence.functions
        if (of_replica := probe(env, function.name)) is not None
    ]
    calls: list[tuple[Probe, Probe, str, tuple[Any, ...], CallResult]] = []

    def call(place: str, observation: Any, info: Any, t: int) -> None:
        pair = evidence.pairs[t % len(evidence.pairs)]
        arguments = [(pair.achieved, pair.desired, pair.info)]
        if not isinstance(env, gym.vector.VectorEnv):
            achieved, desired = observation["achieved_goal"], observation["desired_goal"]
            arguments += [copy_tree((achieved, desired, info)), copy_tree((desired, desired, info))]
        for (function, of_replica), args in itertools.product(functions, arguments):
            calls.append((function, of_replica, place, args, of_replica(*args)))

    policy = random_policy(env.action_space, evidence.seed)
    observation, info = call_reset(env, evidence.seed)
    t = 0
    for _ in range(steps):
        call(f"step {t} of an episode", observation, info, t)
        observation, _, terminated, truncated, info = call_step(env, policy(None))
        t += 1
        if np.any(terminated) or np.any(truncated):
            call(f"the end of an episode after {t} steps", observation, info, t)
            (observation, info), t = call_reset(env), 0
    env.reset(seed=evidence.seed + 1)
    for function, of_replica, place, args, first in calls:
        later = of_replica(*args)
        if not first.agrees_with(later):
            function.changes.append((place, first, later))


def _find_global_seeding(evidence: Evidence, env: CheckedEnv, replicas: Replicas) -> list[tuple[str, str]]:
    """Return the calls that seed a global generator, each with the name of the generator."""

    def run_episode() -> None:
        policy = random_policy(env.action_space, evidence.seed)
        for _ in range(MAX_EPISODE_STEPS):
            _, _, terminated, truncated, _ = call_step(env, policy(None))
            if np.any(terminated) or np.any(truncated):
                return

    calls: dict[str, Callable[[], Any]] = {
        "the constructor": replicas.make,
        "reset()": lambda: env.reset(seed=evidence.seed),
        "step()": run_episode,
    }
    for function in evidence.functions if evidence.pairs else ():
        call = partial(_call_with_pairs, evidence, probe(env, function.name), evidence.steps[0])
        calls[f"{function.name}()"] = call
    return [
        (name, generator)
        for name, call in calls.items()
        for generator in seeded_generators(call, before=lambda: env.reset(seed=evidence.seed))
    ]


def _is_none_for_unknown_type(evidence: Evidence, replica: CheckedEnv) -> bool:
    """Whether the replica's ``compute_reward`` returns None if ``reward_type`` is set to an unknown name."""
    if not hasattr(replica.unwrapped, "reward_type") or not evidence.pairs:
        return False
    try:
        replica.unwrapped.reward_type = "unknown"
        pair = evidence.pairs[0]
        function = replica.get_wrapper_attr("compute_reward")
        return function(*copy_tree((pair.achieved, pair.desired, pair.info))) is None
    except Exception:
        return False  # an exception is the right reaction


def _call_goal_function(function: Probe, evidence: Evidence) -> None:
    """Call a goal function for all steps, for each relabeled pair, and for batches of pairs."""
    function.step_results = [function.at(step) for step in evidence.steps]
    function.pair_results = function.of_pairs(evidence.pairs)
    form, count = function.info_form, len(evidence.pairs)
    if form is None:
        return
    ends = np.cumsum([0, *BATCH_SIZES])
    small = [list(range(start, end)) for start, end in itertools.pairwise(ends) if end <= count]
    function.batch_results = [
        (rows, function(*evidence.batch(rows, form))) for rows in [*small, list(range(count))]
    ]
    result = function.batch_results[-1][1]
    if result.shape == (count,):
        achieved, desired, infos = evidence.batch(range(count), form)
        views = _read_only_view(achieved), _read_only_view(desired)
        function.on_views = result, function.with_own(*views, infos)
        function.reuses_output = _reuses_output(function, evidence)
    rng = np.random.default_rng(evidence.seed)
    goal_bytes = sum(leaf.nbytes for leaf in leaves(evidence.pairs[0].achieved))
    # A vector environment's own function may mistake a batch of num_envs rows for its environments.
    sizes = [*LARGE_SIZES, *([evidence.vector.env.num_envs] if evidence.vector else [])]
    chosen = [
        rng.integers(count, size=size).tolist() for size in sizes if size * goal_bytes <= MAX_BATCH_BYTES
    ]
    function.large_batches = [(rows, function.with_own(*evidence.batch(rows, form))) for rows in chosen]


def _reuses_output(function: Probe, evidence: Evidence) -> bool:
    """Whether the arrays that two calls of the function return share memory."""
    calls = np.arange(REPEATED_CALLS * REPEATED_SIZE).reshape(REPEATED_CALLS, -1) % len(evidence.pairs)
    try:
        outputs = [
            function.function(*copy_tree(evidence.batch(rows.tolist(), function.info_form))) for rows in calls
        ]
    except Exception:
        return False
    arrays = [output for output in outputs if isinstance(output, np.ndarray)]
    return any(share_memory(first, later) for first, later in itertools.combinations(arrays, 2))


def _read_only_view(goals: Tree) -> Any:
    """Copy goals into arrays that are read-only and not contiguous."""

    def view(leaf: np.ndarray) -> np.ndarray:
        fields = [("before", leaf.dtype), ("goal", leaf.dtype, leaf.shape[1:]), ("after", leaf.dtype)]
        records = np.zeros(len(leaf), np.dtype(fields))
        records["goal"] = leaf
        records.flags.writeable = False
        goal: np.ndarray = records["goal"]
        return goal

    return map_tree(view, goals)


def _repeat_calls(env: CheckedEnv, evidence: Evidence, first: ResetRecord) -> None:
    """Repeat calls of goal functions, immediately and after further steps; then repeat the first reset."""
    try:
        for function in evidence.functions:
            function.repeated_results = [function.of_pairs(evidence.pairs) for _ in range(REPETITIONS)]
        env.reset()
        generators = _generators(env)
        env.reset()
        evidence.new_generators = [
            name
            for name, new in _generators(env).items()
            if new is not (old := generators.get(name, new)) and pickle.dumps(new) == pickle.dumps(old)
        ]
        policy = random_policy(env.action_space, evidence.seed)
        for _ in range(STEPS_BEFORE_REPEATING):
            _step_or_reset(env, policy)
        for function in evidence.functions:
            later = zip(function.pair_results, function.of_pairs(evidence.pairs), strict=True)
            changes = [pair for pair in later if not pair[0].agrees_with(pair[1])]
            function.changes += [("the end of the run", *pair) for pair in changes]
            function.is_called_later = bool(evidence.pairs)
        evidence.reset_divergence = _compare_reset(first, env)
        evidence.other_start = copy_tree(call_reset(env, evidence.seed + 1)[0])
    except Exception as error:
        evidence.rollout.failure = FailedCall("after the run", "reset() or step()", error)


def _generators(env: CheckedEnv) -> dict[str, Any]:
    """Return the random generators that are attributes of the innermost environment, by attribute name."""
    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    attributes = getattr(env.unwrapped, "__dict__", {})
    return {name: value for name, value in attributes.items() if isinstance(value, kinds)}
