"""diagnose: reads episodes and the history of a run, applies the rules, and returns a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from her_wrappers.diagnosis.facts import Facts
from her_wrappers.diagnosis.rules import DIAGNOSIS_RULES
from her_wrappers.diagnosis.targets import read_target
from her_wrappers.rules import NotExercised, Report, unmet_needs
from her_wrappers.support.arguments import require_count, require_gamma

COMMAND = re.compile(r" \((?:([a-z0-9, ]+): )?(--[^()]+)\)")
"""Matches options in a fix, such as " (--prioritized)" or, for two algorithms, " (sac, tqc: --agent a=1)"."""


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
    """Find out why an agent does not learn.

    Args:
        target: The path of an `EpisodeArchive`, of a run folder of `her train`, of a saved buffer, or of a
            LeRobot dataset; the id of a local Minari dataset; an `EpisodeArchive`; a `HindsightReplayBuffer`;
            `Episodes`, or an iterable of `Episode`; or an environment, its id, or a function that returns an
            environment. An environment is run for ``max_steps`` steps with random and other simple policies;
            an environment object is not closed.
        gamma: Discount per step; by default read from the run folder, and unknown for other targets.
        clip_targets: Whether the agent clips the targets of its critic to [-1 / (1 - gamma), 0], the range of
            returns for rewards in [-1, 0]; the default is as for ``gamma``.
        time_limit: Largest number of steps of an episode; by default that of the run folder or of the
            environment's spec, else estimated from the truncated episodes.
        history: A dict for each evaluation, as in ``train(...).history``, with ``success_rate`` and, where
            measured, ``q_mean``, ``critic_loss`` or ``loss``, ``temperature``, ``env_steps``, ``updates`` and
            ``collected_success``; by default read from the run folder.
        max_steps: Number of steps for which an environment is run; ignored for other targets.
        seed: Seed with which an environment is run; ignored for other targets.
        select: Rule codes or prefixes of codes to report, such as ``"GD1"``; empty for all.
        ignore: Rule codes or prefixes of codes that are not reported.

    Returns:
        The report. Errors come first; within a severity, possible causes come before their effects.

    Raises:
        BrokenModuleError: The module or the constructor of an environment raised an error.
        OSError: A file does not exist, or cannot be read.
        TypeError: ``target`` has another type, or is a vector environment.
        ValueError: A rule code is unknown, a number is out of range, a file is damaged or of another version,
            the target lacks episodes or goals, or an environment cannot be used.

    Example:
        >>> import her_envs
        >>> diagnose("her_envs/PointReach-v0", max_steps=1000).codes
        []
    """
    rules = DIAGNOSIS_RULES.select(select, ignore)
    if gamma is not None:
        require_gamma(gamma)
    if time_limit is not None:
        require_count("time_limit", time_limit, at_least=1)
    max_steps = require_count("max_steps", max_steps, at_least=1)
    seed = require_count("seed", seed, at_least=0)
    facts = target if isinstance(target, Facts) else read_target(target, max_steps=max_steps, seed=seed)
    facts = facts.with_options(
        gamma=gamma, clip_targets=clip_targets, time_limit=time_limit, history=history or None
    )
    with np.errstate(all="ignore"):
        found = DIAGNOSIS_RULES.judge(facts, rules)
    findings = [replace(each, fix=applicable(each.fix, facts.options)) for each in found]
    gaps = unmet_needs(facts, rules)
    if not facts.is_environment and not facts.is_solved:
        gaps.append(NotExercised("the environment itself, which `her check` checks"))
    return Report(
        target=facts.name,
        seed=seed if facts.is_environment else None,
        steps=len(facts.rewards),
        episodes=len(facts),
        successes=None if facts.missing("success") else int(facts.success.sum()),
        findings=tuple(findings),
        not_exercised=tuple(gaps),
        outcome=facts.outcome,
    )


def applicable(fix: str, options: Mapping[str, Any]) -> str:
    """Return a fix without the options of `her train` that the run already has or that its algorithm lacks.

    A part of the fix, up to "; ", is left out if it has options and none of them is left.
    """
    parts = []
    for part in fix.split("; "):
        text = part
        for found in COMMAND.finditer(part) if options else ():
            algos, command = found.groups()
            is_useful = algos is None or options["algo"][0] in algos.split(", ")
            given = command.removeprefix("--").split(" --")
            is_useful &= not all(_is_set(each, options, is_lower="lower" in part) for each in given)
            text = text.replace(found[0], f" ({command})" if is_useful else "")
        if text == part or "(--" in text:
            parts.append(text)
    return "; ".join(parts) or "the run has the options that usually help; docs/tuning.md lists others"


def _is_set(option: str, options: Mapping[str, Any], *, is_lower: bool) -> bool:
    """Return whether a run has an option, such as "agent noise=0.3", or at least (at most) its number."""
    name, _, value = option.replace("agent ", "agent.").replace("=", " ").partition(" ")
    found = options.get(name.removeprefix("no-").replace("-", "_"), (None,))[0]
    if value[:1].isdigit() and isinstance(found, int | float):
        return bool(found <= float(value) if is_lower else found >= float(value))
    if isinstance(found, dict):
        found = " ".join(f"{strategy} {share}" for strategy, share in found.items())
    return str(found).lower() == (value or str(not name.startswith("no-")).lower())
