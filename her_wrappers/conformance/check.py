"""check_replay: run scenarios with a replay buffer, apply the rules, return a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter, require_adapter
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.rows import kind_of_end
from her_wrappers.conformance.rules import REPLAY_RULES
from her_wrappers.rules import Report, unmet_needs
from her_wrappers.support.arguments import require_count


def check_replay(
    adapter: type[ReplayAdapter],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    seed: int = 0,
    max_seconds: float = 60.0,
) -> Report:
    """Check a HER replay buffer.

    Each scenario adds episodes to new buffers and samples batches. Each goal contains the number of its
    episode and the number of its step, so each sampled row (one transition of a batch) can be compared with
    the transition that was added.
    Statistical tests report only deviations of more than six standard deviations. The findings depend only on
    ``seed`` if the buffer takes all random numbers from generators that it seeds with its argument ``seed``,
    and if no scenario exceeds its time limit.

    Args:
        adapter: A subclass of `ReplayAdapter`.
        select: Rule codes or prefixes of codes to report, such as ``"HB1"``; empty for all.
        ignore: Rule codes or prefixes of codes that are not reported.
        seed: Seed of buffers and episodes.
        max_seconds: Time limit of a scenario in seconds. HB004 reports a scenario that exceeds the limit, and
            no further scenario is run.

    Returns:
        The report, which counts the episodes of all scenarios; call ``report.raise_if_errors()`` in a test.

    Raises:
        TypeError: ``adapter`` is not a subclass of `ReplayAdapter`, does not define all abstract methods, or
            has a ``name`` that is not a str or ``offers`` that are not a set.
        ValueError: The adapter offers an unknown feature or no strategy, or has an unknown ``termination`` or
            ``evicts``; a rule code is unknown; or ``seed`` is not an integer >= 0.
    """
    rules = REPLAY_RULES.select(select, ignore)
    seed = require_count("seed", seed, at_least=0)
    # In this suite, inconclusive_without lists the scenarios of a rule.
    needed = {name for rule in rules for name in rule.inconclusive_without}
    results = ScenarioResults(require_adapter(adapter), seed, max_seconds, needed)
    findings = REPLAY_RULES.judge(results, rules)
    gaps = unmet_needs(results, rules)
    episodes = [episode for env in results.envs for episode in env.episodes]
    return Report(
        target=adapter.name,
        seed=seed,
        steps=sum(map(len, episodes)),
        episodes=len(episodes),
        successes=sum(kind_of_end(episode).startswith("success") for episode in episodes),
        findings=tuple(findings),
        not_exercised=tuple(gap for gap in gaps if gap.reason not in OFFERS.values()),
        not_offered=tuple(gap for gap in gaps if gap.reason in OFFERS.values()),
    )


def parametrize_with_rules(adapter: type[ReplayAdapter], *, seed: int = 0) -> Any:
    """Return a pytest decorator that makes one test case per rule.

    The decorated function gets the argument ``finding``: the text of the rule's finding, or None if there is
    no finding of severity error or warning. Rules that need a feature that the adapter does not offer are
    skipped. A scenario that raises an error is a finding of one rule, such as HB001; other rules that need
    this scenario are then not tested, and their ``finding`` is None.

    Args:
        adapter: A subclass of `ReplayAdapter`.
        seed: Seed of the check.

    Raises:
        TypeError: As in `check_replay`.
        ValueError: As in `check_replay`.

    Example:
        >>> from her_wrappers.conformance.adapters.ours import Ours
        >>> @parametrize_with_rules(Ours)  # doctest: +SKIP
        ... def test_my_buffer(finding):
        ...     assert finding is None
    """
    import pytest  # noqa: PLC0415 - only tests need it

    report = check_replay(adapter, seed=seed)
    skipped = {code for gap in report.not_offered for code in gap.codes}
    worst_last = reversed(report.of_severity("error", "warning"))
    texts = {finding.code: str(finding) for finding in worst_last}
    return pytest.mark.parametrize(
        "finding",
        [
            pytest.param(
                texts.get(code),
                id=f"{code}-{rule.name}",
                marks=[pytest.mark.skip(reason="not offered")] if code in skipped else [],
            )
            for code, rule in REPLAY_RULES.items()
        ],
    )
