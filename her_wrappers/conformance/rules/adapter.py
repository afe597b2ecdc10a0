"""HB001 to HB005: the adapter works, and returns the transitions that were added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from her_wrappers.conformance.registry import REPORTED_SCENARIOS, replay_rule
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.scenarios import EQUAL_EPISODES
from her_wrappers.rules import Violation

INTERFACE = "the interface ReplayAdapter of her_wrappers.conformance"


def _failure_rule(code: str, name: str, source: str = INTERFACE, **texts: Any) -> None:
    """Add the rule that no scenario fails with ``code``."""

    def check(results: ScenarioResults) -> Iterator[Violation]:
        results.of(EQUAL_EPISODES)  # runs the scenario, which may fail
        for scenario, failure in results.failures.items():
            if failure.code == code and not (code == "HB001" and scenario in REPORTED_SCENARIOS):
                yield Violation(str(failure), subject=f"scenario {scenario!r}")

    replay_rule(code, name, scenario=None, source=source, **texts)(check)


_failure_rule(
    "HB001",
    "adapter-raises",
    meaning="The buffer or its adapter raises an exception.",
    fix="call her_wrappers.conformance.scenarios.run_scenario(NAME, Adapter), and read the traceback",
    wrong="def sample(self, n): raise NotImplementedError",
    right="def sample(self, n): return self.buffer.sample(n)",
)
_failure_rule(
    "HB002",
    "batch-keys",
    meaning="A batch is not a dict, or does not contain a required key.",
    fix="return all keys that ReplayAdapter.sample lists",
    wrong="return batch.obs, batch.act, batch.rew",
    right='return {"observation": batch.obs, "action": batch.act, ...}',
)
_failure_rule(
    "HB003",
    "batch-shape",
    meaning="A value of a batch has the wrong shape, or is not an array of numbers.",
    fix="return (B, ...) NumPy arrays, with rewards and flags of shape (B,)",
    wrong='return {"reward": batch.rewards, ...}  # (B, 1)',
    right='return {"reward": batch.rewards[:, 0], ...}',
)
_failure_rule(
    "HB004",
    "not-completed",
    meaning="A scenario did not end within the time limit.",
    fix="look for an infinite loop, such as a search for a row that can be relabeled",
    wrong="while not relabeled: row = sample_row()",
    right="row = sample_row()",
)
_failure_rule(
    "HB005",
    "transition-mixed",
    meaning="A row is not one of the transitions that were added; its values belong to different steps.",
    fix="read observation, action and next observation with the same index",
    wrong='return {"observation": obs[i], "action": actions[i], "next_observation": obs[j], ...}',
    right='return {"observation": obs[i], "action": actions[i], "next_observation": obs[i + 1], ...}',
    source="Gymnasium, Env.step: one call returns the values of one transition",
)
