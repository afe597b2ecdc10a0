"""RuleSet and Report: rules are selected, applied and ordered; reports are text, JSON or annotations."""

import json

import pytest

from her_wrappers.rules import (
    Finding,
    NotExercised,
    Report,
    ReportError,
    RuleSet,
    Violation,
    apply_rules,
    unmet_needs,
)


def finding(code="GE101", severity="error", **changes):
    defaults = {"name": "x", "subject": "", "place": "", "message": "m", "fix": "f", "repair": ""}
    return Finding(code, severity=severity, **{"caused_by": "", "count": 1, **defaults, **changes})


FINDING = finding(
    name="reward-mismatch",
    place="episode 0, step 3",
    message="step() returned -1.0,\n100%: a lot",
    fix="compute it once",
    repair="CopyObservation",
    caused_by="TransformReward (layer 1 from the outside)",
    count=7,
)
GAP = NotExercised("no episode ended in 30 steps", ("GE205",))
REPORT = Report("Reach", 0, 30, 2, 1, (FINDING,), (GAP,), (NotExercised("no priorities", ("HB501",)),))


def test_the_text_has_place_count_message_cause_fix_and_gaps():
    assert str(REPORT).split("\n") == [
        "Reach: 1 error, 0 warnings in 30 steps of 2 episodes with 1 successful step (seed 0)",
        "error GE101 reward-mismatch: episode 0, step 3 (7 times): step() returned -1.0,",
        "100%: a lot; caused by TransformReward (layer 1 from the outside).",
        "    fix: compute it once; or wrap the environment in her_wrappers.repairs.CopyObservation",
        "not exercised: no episode ended in 30 steps (inconclusive: GE205)",
        "not offered: no priorities (HB501)",
    ]


def test_json_contains_all_attributes():
    read = json.loads(REPORT.json())
    assert read["findings"][0]["count"] == 7
    assert read["not_exercised"] == [{"reason": "no episode ended in 30 steps", "codes": ["GE205"]}]
    assert (read["target"], read["steps"], read["seed"]) == ("Reach", 30, 0)


def test_github_gets_one_escaped_command_per_finding():
    (command,) = REPORT.github(("a, b.py", 3)).split("\n")
    assert command.startswith("::error file=a%2C b.py,line=3,title=GE101 reward-mismatch::Reach: episode 0, ")
    assert "-1.0,%0A100%25: a lot" in command


def test_a_report_raises_for_errors_and_with_strict_for_warnings():
    with pytest.raises(ReportError, match="step\\(\\) returned"):
        REPORT.raise_if_errors()
    warns = Report("Reach", None, 30, 2, 1, (finding(severity="warning"),))
    warns.raise_if_errors()
    with pytest.raises(ReportError):
        warns.raise_if_errors(strict=True)


class Evidence:
    def __init__(self, violations, missing=""):
        self.violations, self.reason, self.applied = violations, missing, []

    def missing(self, need):
        return self.reason


def make_rules(families="0123456789", chains=(), last=""):
    """Return rules that yield the violations of the evidence with their code."""
    rules = RuleSet(families, chains)
    for code in ("GE101", "GE102", "GE201", "GE301"):

        def check(evidence, code=code):
            evidence.applied.append(code)
            yield from evidence.violations.get(code, [])

        options = {"needs": ("goals",) if code == "GE301" else (), "is_last": code == last}
        rules.rule(code, code.lower(), meaning="m", fix="f", **options)(check)
    return rules


def test_violations_of_one_subject_are_one_finding_with_the_most_severe_first():
    violations = [Violation("a", severity="warning"), Violation("b", "step 2"), Violation("c", subject="key")]
    one, other = apply_rules([make_rules()["GE101"]], Evidence({"GE101": violations}))
    assert (one.message, one.place, one.severity, one.count) == ("b", "step 2", "error", 2)
    assert (other.message, other.subject, other.count) == ("c", "key", 1)


CHAINS = (("GE101", "GE102"), ("GE102", "GE2 GE301"))


def test_a_finding_hides_later_families_also_through_other_chains_and_if_it_is_not_selected():
    rules = make_rules(chains=CHAINS)
    evidence = Evidence({"GE101": [Violation("cause")], "GE201": [Violation("effect")]})
    assert [each.code for each in rules.judge(evidence, rules.values())] == ["GE101"]
    assert rules.judge(evidence, rules.select("GE2")) == []


def test_a_rule_that_is_not_selected_is_applied_only_if_it_can_hide_a_finding():
    rules = make_rules(chains=CHAINS)
    for violations, applied in (({}, ["GE201"]), ({"GE201": [Violation("x")]}, ["GE201", "GE101", "GE102"])):
        evidence = Evidence(violations)
        rules.judge(evidence, rules.select("GE2"))
        assert evidence.applied == applied


def test_a_rule_can_be_applied_after_all_others():
    rules, evidence = make_rules(last="GE101"), Evidence({})
    rules.judge(evidence, rules.values())
    assert evidence.applied == ["GE102", "GE201", "GE301", "GE101"]


def test_a_warning_that_hides_an_error_becomes_an_error():
    rules = make_rules(chains=CHAINS)
    warning = {"GE101": [Violation("cause", severity="warning")]}
    (alone,) = rules.judge(Evidence(warning), rules.values())
    (found,) = rules.judge(Evidence(warning | {"GE201": [Violation("effect")]}), rules.values())
    assert (alone.severity, found.code, found.severity) == ("warning", "GE101", "error")


def test_rules_without_their_needs_are_not_applied_but_listed():
    rules = make_rules()
    evidence = Evidence({"GE301": [Violation("x")]}, missing="no goals")
    assert rules.judge(evidence, rules.values()) == []
    assert unmet_needs(evidence, rules.values()) == [NotExercised("no goals", ("GE301",))]


def test_findings_are_ordered_by_severity_family_code_and_subject():
    found = [finding("GE101", subject="b"), finding("GE101", subject="a"), finding("GE102", "info")]
    ordered = make_rules("213456789").in_order([*found, finding("GE201")])
    assert [(each.code, each.subject) for each in ordered] == [
        ("GE201", ""), ("GE101", "a"), ("GE101", "b"), ("GE102", ""),
    ]  # fmt: skip


def test_rules_are_selected_by_prefix_and_unknown_codes_have_a_suggestion():
    rules = make_rules()
    assert [rule.code for rule in rules.select(["GE1", "GE2"], "GE102")] == ["GE101", "GE201"]
    with pytest.raises(ValueError, match="unknown rule code 'GE103'; did you mean GE1"):
        rules.select(ignore=["GE103"])
