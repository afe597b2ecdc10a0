"""Fixes name options of `her train` that it accepts, and that a run does not have already."""

import pytest

from her_agents.recipes import read_recipe, recipe_names
from her_agents.training.config import make_config, with_defaults
from her_wrappers.commands import terminal
from her_wrappers.commands.train import TrainOptions, _given_options, train
from her_wrappers.diagnosis import DIAGNOSIS_RULES, diagnose
from her_wrappers.diagnosis.diagnose import COMMAND, applicable
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.recording.episodes import Episodes
from tests.support.diagnosis import EPISODES

COMMANDS = sorted(
    {found.groups() for rule in DIAGNOSIS_RULES.values() for found in COMMAND.finditer(rule.fix)}, key=str
)


@pytest.mark.parametrize(("algos", "command"), COMMANDS)
def test_her_train_accepts_the_options_in_a_fix(algos, command):
    words = ["her_envs/PointReach-v0", *command.split()]
    given = _given_options(terminal.parse(train, words, TrainOptions).saved, words, {})
    for algo in (algos or "sac").split(", "):
        make_config(given, {"algo": algo, "agent": given.get("agent", {})})


def test_all_options_in_fixes_are_in_parentheses():
    assert not [code for code, rule in DIAGNOSIS_RULES.items() if "--" in COMMAND.sub("", rule.fix)]


CONSTANT = {"temperature": 0.05, "learn_temperature": False}
MIXED = {"future": 0.75, "random": 0.25}


@pytest.mark.parametrize(
    ("code", "config", "option", "is_named"),
    [
        ("GD102", {"algo": "sac"}, "--prioritized", True),
        ("GD102", {"algo": "td3", "agent": {"epsilon": 0.7}}, "epsilon", False),
        ("GD102", {"algo": "tqc", "agent": {"temperature": 0.05}}, "learn_temperature=false", True),
        ("GD102", {"algo": "tqc", "agent": CONSTANT}, "--agent", False),
        ("GD601", {"algo": "sac", "agent": {"learning_rate": 1e-4}}, "learning_rate", False),
        ("GD601", {"algo": "sac", "agent": {"learning_rate": 5e-4}}, "learning_rate", True),
        ("GD204", {"algo": "sac", "goal_selection_strategy": MIXED}, "--goal", False),
        ("GD602", {"algo": "sac", "clip_targets": False}, "--clip-targets", True),
        ("GD603", {"algo": "sac", "agent": CONSTANT}, "docs/tuning.md", True),  # nothing else is left
        ("GD606", {"algo": "sac", "updates_per_step": 1}, "--updates-per-step", False),
    ],
)
def test_options_that_a_run_has_are_left_out_of_a_fix(code, config, option, is_named):
    assert (option in applicable(DIAGNOSIS_RULES[code].fix, with_defaults(config))) == is_named


def test_a_report_has_only_advice_that_its_run_does_not_follow():
    for options, is_named in (({}, True), (with_defaults({"algo": "sac", "prioritized": True}), False)):
        [finding] = diagnose(Facts.of("run", [Episodes.of(EPISODES["GD102"]())], options=options)).findings
        assert ("--prioritized" in finding.fix) == is_named


def unusual_options(**config):
    facts = Facts.of("run", [], options=with_defaults(config), relabeled_share=0.8)
    return [(each.subject, each.severity) for each in diagnose(facts, select="GD609").findings]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"agent": {"tau": 1e-6}}, [("agent.tau", "error")]),
        ({"agent": {"tau": 0.005, "target_entropy": None}}, []),
        ({"agent": {"hidden": [256, 1]}}, [("agent.hidden", "error")]),
        ({"algo": "dqn", "agent": {"hidden": [8]}}, [("agent.hidden", "warning")]),
        ({"algo": "ddpg", "agent": {"action_l2": 0}}, []),
        ({"algo": "mine.py:Agent", "agent": {"learning_rate": 0.5}}, []),
        ({"buffer_size": 60, "steps": 100_000}, [("buffer_size", "error")]),
        ({"buffer_size": 300, "steps": 300}, []),
        ({"n_steps": 1000}, [("n_steps", "error")]),
    ],
)
def test_an_option_is_judged_by_its_usual_range(config, expected):
    assert unusual_options(**{"algo": "sac"} | config) == expected


@pytest.mark.parametrize("name", recipe_names())
def test_all_options_of_a_recipe_are_usual(name):
    assert not unusual_options(**read_recipe(name).options)
