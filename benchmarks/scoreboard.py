"""Check our replay buffer and the buffers of other libraries with `check_replay`: ``make scoreboard``.

Reports are stored in ``benchmarks/scoreboard_reports``; ``docs/scoreboard.md`` is rendered from them.
``python -m benchmarks.scoreboard sb3:StableBaselines3`` checks one buffer; ``--render`` checks none, and only
writes the page.
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.result_page import markdown_table
from her_wrappers.conformance import REPLAY_RULES, ReplayAdapter, check_replay

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "benchmarks" / "scoreboard_reports"
PAGE = ROOT / "docs" / "scoreboard.md"

ADAPTERS = (
    "ours:Ours",
    "sb3:OursForStableBaselines3",
    "rllib:OursForRLlib",
    "torchrl:OursForTorchRL",
    "sb3:StableBaselines3",
    "cpprb:Cpprb",
    "tianshou:Tianshou",
    "torchrl:TorchRL",
    "torchrl:TorchRLNextGoals",
)
ELSEWHERE = {"rllib:OursForRLlib"}
"""Adapters that need a separate virtual environment; they run only if the command names them."""

SB3, CPPRB, TIANSHOU, TORCHRL = (
    f"benchmarks/peers/test_{name}.py::" for name in ("sb3", "cpprb", "tianshou", "torchrl")
)
REPRODUCTIONS = {
    "sb3:StableBaselines3": {
        "HB202": SB3 + "test_of_one_row_none_is_relabeled",
        "HB401": SB3 + "test_a_relabeled_success_does_not_terminate",
        "HB722": SB3 + "test_an_episode_as_long_as_the_buffer_is_never_sampled",
        "HB603": SB3 + "test_randomness_is_numpys_global_generator",
    },
    "cpprb:Cpprb": {
        "HB193": CPPRB + "test_goals_of_random_are_mostly_of_old_episodes",
        "HB608": CPPRB + "test_the_next_batch_overwrites_the_index_of_the_last",
        "HB603": CPPRB + "test_transitions_are_drawn_by_numpys_global_generator",
    },
    "tianshou:Tianshou": {
        "HB190": TIANSHOU + "test_all_rows_of_an_episode_get_one_goal",
        "HB201": TIANSHOU + "test_the_share_is_1_minus_1_over_k",
        "HB206": TIANSHOU + "test_all_rows_of_an_episode_get_one_goal",
        "HB401": TIANSHOU + "test_a_relabeled_success_does_not_terminate",
        "HB603": TIANSHOU + "test_rows_are_drawn_by_a_generator_of_its_own_and_goals_by_the_global_one",
    },
    "torchrl:TorchRL": {
        "HB101": TORCHRL + "test_by_default_future_goals_include_the_state_before_the_step",
        "HB192": TORCHRL + "test_by_default_the_last_state_is_never_a_goal",
    },
    "torchrl:TorchRLNextGoals": {
        "HB120": TORCHRL + "test_an_episode_across_the_end_of_the_ring_gets_goals_of_another",
    },
}
"""For each rule that another library breaks, a test that shows the failure without our code."""

BOTH = {
    "HB202": TORCHRL + "test_of_one_row_none_is_relabeled",
    "HB401": TORCHRL + "test_a_relabeled_success_does_not_terminate",
    "HB603": TORCHRL + "test_randomness_is_torchs_global_generator",
}
REPRODUCTIONS["torchrl:TorchRL"] |= BOTH
REPRODUCTIONS["torchrl:TorchRLNextGoals"] |= BOTH

FAULTS = {
    "HB101": "With the default options, a goal can be the state before the action of the step.",
    "HB120": "In a full buffer, an episode across the end of the storage gets goals of another episode.",
    "HB190": "In a batch, all rows of an episode get the same goal, so goals are not uniform.",
    "HB192": "With `episode`, the last state of an episode is never a goal.",
    "HB193": "With `random`, goals are sampled when an episode ends, so most are from old episodes.",
    "HB201": "The share of relabeled rows is 1 - 1/k instead of k / (k + 1), where k is `n_sampled_goal`.",
    "HB202": "A batch of one row is never relabeled, since the number of relabeled rows is rounded down.",
    "HB206": "In a batch, the rows of an episode are too often all relabeled or all original.",
    "HB401": "A relabeled row that reaches its goal does not terminate, although the task ends there.",
    "HB603": "Random numbers come from the global generator of NumPy or torch, which other code also uses.",
    "HB608": "Later calls of `add` and `sample` change the entries `index` and `weight` of a batch.",
    "HB722": "Sampling raises an error if the only stored episode is as long as the buffer.",
}
"""What the buffers of other libraries do instead of following a rule, by code of the rule."""

HEAD = """# Scoreboard: which replay buffers relabel correctly

This page shows for our replay buffer and for those of other libraries which rules of
[`check_replay`](check_your_buffer.md) they break. The rules are ours, and our buffer was developed with
them. `make scoreboard` repeats the checks and writes this page. The table omits rules that every buffer
follows. "Goals after the step" means TorchRL's option `achieved_goal_key=("next", "achieved_goal")`.

- `error`, `warning`: the buffer breaks the rule, see [failures](#failures).
- `-`: the documentation of the library does not offer the feature that the rule checks.
  `benchmarks/scoreboard_claims.py` lists the features of each library, with quotations.

"""

FAILURES = """
## Failures

A test in `benchmarks/peers` reproduces each failure in a few lines, without our code.

"""


def path_of(adapter: str) -> Path:
    """Return the file of an adapter's report."""
    return REPORTS / f"{adapter.replace(':', '_').lower()}.json"


def find_adapter(adapter: str) -> type[ReplayAdapter]:
    """Return the class of an adapter; a class in her_wrappers has a name that begins with Ours."""
    module, _, name = adapter.partition(":")
    package = "her_wrappers.conformance" if name.startswith("Ours") else "benchmarks"
    found: type[ReplayAdapter] = getattr(import_module(f"{package}.adapters.{module}"), name)
    return found


def run(adapter: str) -> None:
    """Check an adapter and store the report."""
    report = check_replay(find_adapter(adapter), max_seconds=600)
    stored = json.loads(report.json()) | {"rules": list(REPLAY_RULES)}
    path_of(adapter).write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(report.summary())


def read_reports() -> dict[str, dict[str, Any]]:
    """Return the stored reports by adapter."""
    return {each: json.loads(path_of(each).read_text(encoding="utf-8")) for each in ADAPTERS}


def verdict(report: dict[str, Any], code: str) -> str:
    """Return the text of the table cell for a rule and the buffer of a report."""
    if code not in report["rules"]:
        return "not run"
    for finding in report["findings"]:
        if finding["code"] == code:
            return str(finding["severity"])
    gaps = [*report["not_offered"], *report["not_exercised"]]
    if any(code in gap["codes"] for gap in gaps):
        return "-"
    return "ok"


def render(reports: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    same = [report["target"] for report in list(reports.values())[1:] if not report["findings"]]
    shown = [report for report in reports.values() if report["target"] not in same]
    names = [report["target"] for report in shown]
    rows = []
    counts = {
        severity: [sum(f["severity"] == severity for f in report["findings"]) for report in shown]
        for severity in ("error", "warning")
    }
    for severity, numbers in counts.items():
        rows.append([f"{severity}s", *numbers])
    for code in sorted(REPLAY_RULES):
        cells = [verdict(report, code) for report in shown]
        if not {"ok", "-"}.issuperset(cells):
            rows.append([code, *cells])
    clean = f"\nLike her-toolkit in the table, these break no rule: {'; '.join(same)}.\n" if same else ""
    text = HEAD + markdown_table(["rule", *names], rows) + "\n" + clean + FAILURES
    for code in sorted({finding["code"] for report in shown for finding in report["findings"]}):
        tests = {tests[code].rpartition("/")[2]: None for tests in REPRODUCTIONS.values() if code in tests}
        shown_tests = ", ".join(f"`{test}`" for test in tests) or "not reproduced yet"
        text += f"- {code}: {FAULTS.get(code, REPLAY_RULES[code].meaning)} {shown_tests}\n"
    return text


def main() -> None:
    """Run the adapters and write the page."""
    parser = argparse.ArgumentParser(description="Scoreboard of replay buffers.")
    parser.add_argument("adapters", nargs="*", help="adapters to run; by default all for this environment")
    parser.add_argument("--render", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    default = [adapter for adapter in ADAPTERS if adapter not in ELSEWHERE]
    for adapter in () if arguments.render else arguments.adapters or default:
        run(adapter)
    PAGE.write_text(render(read_reports()), encoding="utf-8")


if __name__ == "__main__":
    main()
