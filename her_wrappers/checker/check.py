"""check_goal_env: run an environment, do experiments with it and with others of its kind, apply the rules."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.checker.comparing import show
from her_wrappers.checker.lab import Lab
from her_wrappers.checker.records import FailedCall, Rollout
from her_wrappers.checker.replicas import CheckedEnv, Factory, Replicas, close_safely, layers
from her_wrappers.checker.rollout import Budget, Policy, roll_out
from her_wrappers.checker.rules import GOAL_ENV_RULES
from her_wrappers.goals.interface import env_name, require_distinct
from her_wrappers.rules import Finding, NotExercised, Report, unmet_needs
from her_wrappers.support.arguments import require_count
from her_wrappers.support.error_texts import describe

ResetOptions: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]

LAYER_FAMILIES = ("GE0", "GE1")  # prefixes of rules whose findings are attributed to wrappers
LAYER_STEPS = 300  # most steps in the check of one layer (the environment or one of its wrappers)
MIN_SHARE = 0.05  # short checks of layers may miss findings in a smaller share of steps or resets


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
    replicas: bool = True,
    on_step: Callable[[], None] = lambda: None,
) -> Report:
    """Check whether an environment is correct for hindsight relabeling.

    The check runs the environment with random actions, with actions repeated for several steps, and with
    actions that steer to the goal by a linear model, which is fitted to the recorded steps. In vector
    environments, random actions replace the steering. Then the check calls the goal functions with relabeled
    goals, and compares the environment with replicas, which are further environments of the same kind. The
    report depends on ``seed`` and ``max_steps``, not on the speed of the machine, unless ``max_seconds``
    stops the run. If an environment is passed instead of a function, it is not closed.

    Args:
        env_or_factory: A single or vectorized goal environment, with any wrappers, or a function without
            arguments that returns one. The function makes the replicas too. Replicas of a given environment
            are made from its spec or, without a usable spec, by deep copies.
        max_steps: Number of steps of the run, summed over the environments of a vector environment. Replicas
            take further steps: up to 40 % of this number plus about 250 calls of ``step``, and up to 300
            steps per wrapper to find the wrapper that causes a finding. After a run of less than 20 episodes,
            the environment itself is reset up to 20 times, unless ``replicas`` is False.
        max_seconds: Time in seconds after which the run stops early, and the report says so; None for no
            limit. The experiments after the run, with the goal functions and replicas, have no time limit.
        policy: Function ``observation -> action`` that chooses all actions; pass it if random actions do not
            reach the goals, or are not valid. None for the actions described above, which respect a mask
            ``action_mask`` in the observation or the info, or the result of ``env.action_masks()``.
        reset_options: Options of ``reset`` for every second episode: a dict, or a list of dicts that are used
            in turn.
        select: Rule codes or prefixes of codes to report, such as ``"GE1"``; empty for all. Experiments that
            no selected rule needs are skipped. A finding that follows from a finding of another rule is left
            out, even if the other rule is not selected.
        ignore: Rule codes or prefixes of codes that are not reported.
        seed: Seed of the first reset and of all random choices of the check.
        replicas: Whether replicas are made. Pass False if only one environment may exist, such as for a
            robot; the report then lists the rules that need a replica in ``not_exercised``.
        on_step: Function without arguments that is called after each step of the run, such as the update of
            a progress bar.

    Returns:
        The report. In a test suite, call ``report.raise_if_errors()``.

    Raises:
        TypeError: ``env_or_factory`` is neither an environment nor a function that returns one, ``policy`` is
            not callable, or ``reset_options`` is neither a dict nor a list of dicts.
        ValueError: ``env_or_factory`` raised, a vector environment contains an environment object twice,
            ``policy`` raised an exception or returned a value that is not an action (then the attribute
            ``report`` of the error has the findings before it), a rule code is unknown, ``max_steps`` is not
            an integer >= 1, ``max_seconds`` is not a positive number, or ``seed`` is not an integer >= 0.

    Example:
        >>> import gymnasium as gym, her_envs
        >>> check_goal_env(gym.make("her_envs/PointReach-v0"), max_steps=500).findings
        ()
    """
    rules = GOAL_ENV_RULES.select(select, ignore)
    max_steps = require_count("max_steps", max_steps, at_least=1)
    seed = require_count("seed", seed, at_least=0)
    budget = Budget(max_steps, max_seconds, policy, _as_list(reset_options), seed, on_step)
    env, factory = open_env(env_or_factory)
    try:
        if isinstance(env, gym.vector.VectorEnv):
            require_distinct(env)
        with ignore_warnings(), Replicas(env, factory) if replicas else contextlib.nullcontext() as others:
            failure = _unreadable_space(env)
            if failure is None:
                lab = Lab.of(env, roll_out(env, budget), others, budget)
                findings = attribute_to_wrappers(GOAL_ENV_RULES.judge(lab, rules), lab)
            else:
                lab = Lab(spaces.Dict(), Rollout(failure=failure))
                findings = GOAL_ENV_RULES.judge(lab, [GOAL_ENV_RULES["GE000"]])
            gaps = unmet_needs(lab, rules)
            if lab.rollout.cut_off:
                reason = f"the run stopped early, after {len(lab.steps)} steps: {lab.rollout.cut_off}"
                gaps = [NotExercised(reason), *gaps]
            report = Report(
                target=env_name(env),
                seed=seed,
                steps=len(lab.steps),
                episodes=len(lab.rollout.resets),
                successes=len(lab.successes),
                findings=tuple(findings),
                not_exercised=tuple(gaps),
            )
            if lab.rollout.policy_error is not None:
                lab.rollout.policy_error.report = report
                raise lab.rollout.policy_error
            return report
    finally:
        if factory is not None:
            close_safely(env)


def _unreadable_space(env: CheckedEnv) -> FailedCall | None:
    """Return why the observation or action space cannot be read or is not a space; None if both are valid."""
    for name in ("observation_space", "action_space"):
        try:
            space = getattr(env, name)
        except Exception as error:
            return FailedCall("", name, error)
        if not isinstance(space, spaces.Space):
            cause = TypeError(f"{show(space)} is not an instance of gymnasium.Space")
            return FailedCall("", f"the check of {name}", cause)
    return None


@contextlib.contextmanager
def ignore_warnings() -> Iterator[None]:
    """Ignore warnings in the ``with`` block, since a filter that raises them would change the findings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def open_env(env_or_factory: Any) -> tuple[CheckedEnv, Factory | None]:
    """Return (environment, factory), or raise TypeError; the factory is None if an environment is given."""
    if isinstance(env_or_factory, gym.Env | gym.vector.VectorEnv):
        return env_or_factory, None
    if not callable(env_or_factory):
        raise TypeError(
            "env_or_factory must be a gymnasium Env or VectorEnv, or a function that returns one, "
            f"got {type(env_or_factory).__name__}; for an id, pass gymnasium.make(id)"
        )
    try:
        env = env_or_factory()
    except Exception as error:
        raise ValueError(f"the factory function raised {describe(error)}") from error
    if not isinstance(env, gym.Env | gym.vector.VectorEnv):
        raise TypeError(f"the factory function must return an Env or VectorEnv, got {type(env).__name__}")
    return env, env_or_factory


def _as_list(options: ResetOptions | None) -> list[dict[str, Any]]:
    """Return reset options as a list, or raise TypeError if they are neither a dict nor a list of dicts."""
    choices: Any = options if isinstance(options, list | tuple) else [] if options is None else [options]
    for choice in choices:
        if not isinstance(choice, Mapping):
            raise TypeError(f"reset_options must be a dict or a list of dicts, but {choice!r} is not a dict")
    return [dict(choice) for choice in choices]


def attribute_to_wrappers(findings: Sequence[Finding], lab: Lab) -> list[Finding]:
    """Return the findings, with ``caused_by`` where a wrapper causes them.

    Each layer is checked. A wrapper causes a finding that exactly this layer and those outside of it have.
    """
    stack = enumerate(layers(lab.env), start=1)
    names = [f"{type(layer).__name__} (layer {i} from the outside)" for i, layer in stack]
    sizes = {"step": len(lab.steps), "reset": len(lab.rollout.resets)}  # by a word in the place of findings
    candidates = [
        finding
        for finding in findings
        if finding.code.startswith(LAYER_FAMILIES)
        and finding.severity != "info"
        and all(finding.count >= MIN_SHARE * size for name, size in sizes.items() if name in finding.place)
    ]
    if len(names) == 1 or not candidates or not lab.replicas or not lab.replicas.can_be_made:
        return list(findings)
    steps = min(lab.budget.max_steps, LAYER_STEPS)
    budget = replace(lab.budget, max_steps=steps, max_seconds=None, on_step=lambda: None)
    rules = GOAL_ENV_RULES.select(sorted({finding.code for finding in candidates}))
    found: list[set[tuple[str, str]]] = []
    for depth in range(len(names)):
        layer = layers(lab.replicas.make())[depth]
        layer_lab = Lab.of(layer, roll_out(layer, budget), None, budget)
        if layer_lab.rollout.policy_error:  # observations of a layer may differ from those of the outermost
            return list(findings)
        found.append({(each.code, each.subject) for each in GOAL_ENV_RULES.judge(layer_lab, rules)})

    def cause(finding: Finding) -> str:
        has_finding = [(finding.code, finding.subject) in layer for layer in found]
        depth = sum(has_finding)  # number of layers with the finding, which must be the outermost ones
        return names[depth - 1] if 0 < depth < len(names) and all(has_finding[:depth]) else ""

    return [replace(each, caused_by=cause(each)) if each in candidates else each for each in findings]
