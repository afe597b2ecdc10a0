"""check_goal_env: collects evidence, applies the rules, and returns a report."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np

from her_wrappers.arguments import require_count, require_function
from her_wrappers.checker.attribution import attribute_to_wrappers
from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.exceptions import describe
from her_wrappers.checker.judge import judge, not_exercised
from her_wrappers.checker.registry import Rule, selected
from her_wrappers.checker.replicas import AnyEnv, EnvReplicator, Factory, close_safely
from her_wrappers.checker.report import Report
from her_wrappers.goal_interface import env_name

if TYPE_CHECKING:
    from her_wrappers.checker.rollout import Policy

ResetOptions: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def check_goal_env(
    env_or_factory: Any,
    *,
    max_steps: int = 3000,
    max_seconds: float | None = None,
    policy: Policy | None = None,
    reset_options: ResetOptions | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    seed: int = 0,
) -> Report:
    """Check whether an environment is correct for hindsight relabeling.

    The check runs the environment with random actions, with actions repeated for several steps, and with
    actions that steer to the goal by a linear model of the recorded steps. Then it calls the goal functions
    with relabeled goals, and compares the environment with replicas, which are further environments of the
    same kind. Vector environments are not steered; random actions take the place of steering. The report
    depends on ``seed`` and ``max_steps``, not on the speed of the machine, unless ``max_seconds`` stops the
    run. An environment passed in is not closed.

    Args:
        env_or_factory: A single or vectorized goal environment, with any wrappers, or a function without
            arguments that returns one. Replicas are made by the function, else from the environment's spec,
            else by a deep copy.
        max_steps: Number of steps of the run, summed over the environments of a vector environment. Replicas
            take up to 25 % more steps plus about 200 calls of ``step``, and up to 300 steps per layer to
            attribute findings to wrappers.
        max_seconds: Time in seconds after which the run stops early, as the report then says; None for no
            limit. The experiments after the run, with the goal functions and replicas, have no time limit.
        policy: Function ``observation -> action`` that chooses the actions of two thirds of the steps, for
            goals that random actions do not reach; None for the actions described above.
        reset_options: Options dict of ``reset`` for every second episode, or a list of dicts that are used in
            turn.
        select: Rule codes or prefixes of codes to report, such as ``"GE1"``; empty for all. Other rules are
            applied only if they imply a selected one.
        ignore: Rule codes or prefixes of codes that are not reported.
        seed: Seed of the first reset and of all random choices of the check.

    Returns:
        The report. In a test suite, call ``report.raise_if_errors()``.

    Raises:
        TypeError: ``env_or_factory`` is neither an environment nor a function that returns one, ``policy`` is
            not callable, or ``reset_options`` is neither a dict nor a list of dicts.
        ValueError: The factory raised, a rule code is unknown, ``max_steps`` is not an integer >= 1,
            ``max_seconds`` is not a positive number, or ``seed`` is not an integer >= 0.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> check_goal_env(gym.make("her_envs/PointReach-v0"), max_steps=500).findings
        ()
    """
    rules = selected(select, ignore)
    max_steps = require_count("max_steps", max_steps, at_least=1)
    seed = require_count("seed", seed, at_least=0)
    if policy is not None:
        require_function("policy", policy, "an observation")
    budget = Budget(max_steps, max_seconds, policy, _as_list(reset_options), seed)
    return run_check(*open_env(env_or_factory), budget, rules)


def run_check(env: AnyEnv, factory: Factory | None, budget: Budget, rules: Sequence[Rule]) -> Report:
    """Check an environment with the given rules.

    Args:
        env: A single or vectorized goal environment.
        factory: Function that made ``env``; None if the user passed the environment, which then stays open.
        budget: Steps, time, policy and seed of the run.
        rules: Rules to report.
    """
    with ignore_warnings():
        replicator = EnvReplicator.of(env, factory)
        try:
            return _report(env, replicator, budget, rules)
        finally:
            replicator.close()
            if factory is not None:
                close_safely(env)


def _report(env: Any, replicator: EnvReplicator, budget: Budget, rules: Sequence[Rule]) -> Report:
    evidence = collect(env, replicator, budget)
    findings = judge(evidence, rules)
    return Report(
        env_name(env),
        budget.seed,
        len(evidence.steps),
        len(evidence.rollout.resets),
        sum(evidence.reached),
        tuple(attribute_to_wrappers(findings, evidence, replicator, budget)),
        tuple(not_exercised(evidence, rules)),
    )


@contextlib.contextmanager
def ignore_warnings() -> Iterator[None]:
    """Ignore warnings of environments: a filter that turns them into errors would change the findings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def open_env(env_or_factory: Any) -> tuple[AnyEnv, Factory | None]:
    """Return the environment, and the factory if ``env_or_factory`` is a function, else None.

    Args:
        env_or_factory: A single or vector environment, or a function without arguments that returns one.

    Raises:
        TypeError: ``env_or_factory`` is neither an environment nor a function that returns one.
        ValueError: The factory raised.
    """
    if isinstance(env_or_factory, gym.Env | gym.vector.VectorEnv):
        return env_or_factory, None
    if not callable(env_or_factory):
        raise TypeError(
            "expected a gymnasium Env or VectorEnv, or a function that returns one, "
            f"got {type(env_or_factory).__name__}; pass gymnasium.make(id) for an id"
        )
    try:
        env = env_or_factory()
    except Exception as error:
        raise ValueError(f"the factory raised {describe(error)}") from error
    if not isinstance(env, gym.Env | gym.vector.VectorEnv):
        raise TypeError(f"the factory must return a gymnasium Env or VectorEnv, got {type(env).__name__}")
    return env, env_or_factory


def _as_list(options: ResetOptions | None) -> list[dict[str, Any]]:
    """Return reset options as a list, or raise TypeError if they are neither a dict nor a list of dicts."""
    is_single = isinstance(options, Mapping) or not isinstance(options or (), Iterable)
    choices: list[Any] = [options] if is_single else list(options or ())
    for choice in choices:
        if not isinstance(choice, Mapping):
            raise TypeError(f"reset_options must be a dict or a list of dicts, got {choice!r}")
    return [dict(choice) for choice in choices]
