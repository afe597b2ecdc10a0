"""Fixes name options of `her train` that it accepts; unusual options of a run are findings."""

import re

import pytest

from her_agents.recipes import read_recipe, recipe_names
from her_agents.training.config import make_config, with_defaults
from her_wrappers.commands import terminal
from her_wrappers.commands.train import TrainOptions, _given_options, train
from her_wrappers.diagnosis import DIAGNOSIS_RULES, diagnose
from her_wrappers.diagnosis.facts import Facts

COMMAND = re.compile(r" \((?:([a-z0-9, ]+): )?(--[^()]+)\)")
"""Matches options in a fix, such as " (--prioritized)" or, for two algorithms, " (sac, tqc: --agent a=1)"."""

COMMANDS = sorted(
    {found.groups() for rule in DIAGNOSIS_RULES.values() for found in COMMAND.finditer(rule.fix)}, key=str
)


@pytest.mark.parametrize(("algos", "command"), COMMANDS)
def test_her_train_accepts_the_options_in_a_fix(algos, command):
    words = ["her_envs/PointReach-v0", *command.split()]
    given = _given_options(terminal.parse(train, words, TrainOptions).config, words, {})
    for algo in (algos or "sac").split(", "):
        make_config(given, {"algo": algo, "agent": given.get("agent", {})})


def test_all_options_in_fixes_are_in_parentheses():
    assert not [code for code, rule in DIAGNOSIS_RULES.items() if "--" in COMMAND.sub("", rule.fix)]


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
