"""diagnose: reads episodes and the history of a training, applies the rules, and returns a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.arguments import require_count, require_gamma
from her_wrappers.checker.judge import ORDER, apply, unmet_needs, without_implied
from her_wrappers.checker.registry import Rule, selected
from her_wrappers.checker.report import Finding, Report
from her_wrappers.diagnosis import rules as _register_rules  # noqa: F401 - importing it registers the rules
from her_wrappers.diagnosis.registry import DIAGNOSIS_RULES, Case
from her_wrappers.diagnosis.targets import open_target, options_of_config, with_given

if TYPE_CHECKING:
    from her_wrappers.replay.buffer import HindsightReplayBuffer

FAMILIES = "532416"
"""First digits of the rule codes, in the order in which a report lists them: possible causes before effects.

Faults of the data (GD5xx) can cause all others. The metrics of learning (GD6xx) have no effect on others.
"""


def diagnose(
    target: Any,
    *,
    gamma: float | None = None,
    clip_targets: bool | None = None,
    time_limit: int | None = None,
    history: Sequence[Mapping[str, float]] = (),
    max_steps: int = 3000,
    seed: int = 0,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
) -> Report:
    """Find out why a training does not learn.

    Args:
        target: The path of an `EpisodeArchive`, of a folder of `her train`, or of a saved buffer; an
            `EpisodeArchive`; a `HindsightReplayBuffer`; `Episodes`, or an iterable of `Episode`; or an
            environment, its id, or a function that returns one. An environment is run for ``max_steps`` steps
            with the policies of the checker; an environment passed in is not closed.
        gamma: Discount per step; by default that of the run folder, unknown for other targets.
        clip_targets: Whether targets are clipped to returns of rewards in [-1, 0]; by default as in the run
            folder, unknown for other targets.
        time_limit: Largest number of steps of an episode; by default that of the run folder or of the
            environment's spec, else an estimate from the truncated episodes.
        history: A row for each evaluation, such as ``train(...).history``, with ``success_rate`` and, where
            measured, ``q_mean``, ``critic_loss`` or ``loss``, ``temperature``, ``env_steps``, ``updates`` and
            ``collected_success``; by default that of the run folder.
        max_steps: Number of steps for which an environment is run; other targets ignore it.
        seed: Seed of the run of an environment; other targets ignore it.
        select: Rule codes or prefixes of codes to report, such as ``"GD1"``; empty for all.
        ignore: Rule codes or prefixes of codes that are not reported.

    Returns:
        The report. Errors come first; within a severity, possible causes come before their effects.

    Raises:
        BrokenModuleError: The module of an environment, or the making of the environment, raised an error.
        OSError: A file does not exist, or cannot be read.
        TypeError: ``target`` has another type, or is a vector environment.
        ValueError: A rule code is unknown, ``gamma`` is outside [0, 1], another number is out of range, a
            file is damaged, the target lacks episodes or goals, or an environment cannot be used.

    Example:
        >>> import her_envs
        >>> diagnose("her_envs/PointReach-v0", max_steps=1000).codes
        []
    """
    rules = selected(select, ignore, DIAGNOSIS_RULES)
    if gamma is not None:
        require_gamma(gamma)
    if time_limit is not None:
        require_count("time_limit", time_limit, at_least=1)
    max_steps = require_count("max_steps", max_steps, at_least=1)
    name, case = open_target(target, max_steps=max_steps, seed=require_count("seed", seed, at_least=0))
    case = with_given(case, gamma=gamma, clip_targets=clip_targets, time_limit=time_limit)
    if history:
        case = replace(case, history=history)
    return judge_case(name, case, rules, seed=seed)


def diagnose_training(
    buffer: HindsightReplayBuffer, config: Mapping[str, Any], history: Sequence[Mapping[str, float]]
) -> Report:
    """Diagnose a running training of `her train`; neither the buffer nor its random sequence changes.

    Args:
        buffer: Replay buffer with at least one complete episode.
        config: Options of the training, as in ``config.json``.
        history: A row for each evaluation.

    Raises:
        ValueError: The buffer has no complete episode.
    """
    name, case = open_target(buffer, max_steps=1, seed=0)
    case = replace(case, options=options_of_config(config), history=history)
    return judge_case(name, case, list(DIAGNOSIS_RULES.values()), seed=None)


def judge_case(name: str, case: Case, rules: Sequence[Rule], *, seed: int | None) -> Report:
    """Return the report on a case.

    Args:
        name: Name of the target.
        case: The facts and options of the target.
        rules: Rules to report. All rules are applied, since findings of other rules can imply, and thus
            remove, findings of these rules.
        seed: Seed of the run of an environment, which the report shows; not used for other targets.
    """
    with np.errstate(all="ignore"):
        findings = without_implied(apply(DIAGNOSIS_RULES.values(), case), DIAGNOSIS_RULES)
    codes = {rule.code for rule in rules}
    facts = case.episodes
    return Report(
        name,
        seed if case.is_environment else None,
        0 if facts is None else len(facts.rewards),
        0 if facts is None else len(facts),
        0 if facts is None or facts.success is None else int(facts.success.sum()),
        tuple(causes_first(finding for finding in findings if finding.code in codes)),
        tuple(unmet_needs(case, rules)),
    )


def causes_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by severity, then by `FAMILIES`, code and subject."""
    return sorted(
        findings,
        key=lambda each: (ORDER[each.severity], FAMILIES.index(each.code[2]), each.code, each.subject),
    )
