"""``her check``, ``her rules`` and ``her explain``: output and exit codes."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from her_wrappers.checker import GOAL_ENV_RULES
from her_wrappers.cli import app
from tests.support.pages import ROOT

BROKEN = "tests.support.specimens."
SCALED = f"{BROKEN}broken_rewards:RewardScaled"
NO_FLAG = f"{BROKEN}broken_episodes:NoFlag"
RENAMED = f"{BROKEN}broken_rewards:RewardNamesDiffer"


def her(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["her_envs/BitFlipping-v0", "-o", "n_bits=3"], 0),
        (["her_envs/BitFlipping-v0", "--kwargs", '{"n_bits": 3}'], 0),
        (["her_envs:her_envs/PointReach-v0"], 0),
        ([SCALED], 1),
        ([NO_FLAG], 0),
        ([NO_FLAG, "--strict"], 1),
        ([NO_FLAG, "--strict", "--ignore", "GE201"], 0),
        ([RENAMED, "--strict"], 1),
        ([SCALED, "--select", "ge2,ge3"], 0),
    ],
)
def test_exit_codes_depend_on_findings_and_strictness(arguments, exit_code):
    result = her("check", *arguments, "--steps", "100")
    assert result.exit_code == exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["no-such-env-v0"],
            "cannot make no-such-env-v0: Environment `no-such-env` doesn't exist; `her envs`",
        ),
        (
            ["no_such_module:Env-v0"],
            "cannot import 'no_such_module' for no_such_module:Env-v0: No module",
        ),
        (["her_envs/PointReach-v0", "-o", "stepsize=1"], "unexpected keyword argument 'stepsize'"),
        ([SCALED, "-o", "size"], "expected name=value, or a JSON object, got 'size'"),
        ([SCALED, "--kwargs", '{"size": 3'], "expected a JSON object, got"),
        ([SCALED, "-o", "size=3"], "unexpected keyword argument 'size'"),
        ([SCALED, "--select", "GE777"], "unknown rule code 'GE777'"),
        (["json:dumps", "-o", "obj=1"], "json:dumps must return a gymnasium Env or VectorEnv"),
        ([SCALED, "--format", "xml"], "Invalid value for '--format'"),
        ([SCALED, "--steps", "0"], "Invalid value for '--steps'"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage_ends_with_two_and_one_sentence(arguments, message):
    result = her("check", *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_text_shows_first_occurrence_count_message_and_fix():
    output = her("check", SCALED, "--steps", "100").output
    assert "\nerror GE101 reward-mismatch" in output
    assert "where  episode 0, step 0 (100 times)" in output
    assert "found  step() returned reward -" in output
    assert "all differ by the constant factor 10.0" in output
    assert "fix    in step(), call compute_reward with the new" in output


def test_text_ends_with_what_was_not_exercised():
    output = her("check", SCALED, "--steps", "1").output
    assert "\nnot exercised: rewards do not take exactly two values (inconclusive: GE202)" in output


def test_json_is_the_report():
    report = json.loads(her("check", NO_FLAG, "--steps", "100", "--format", "json", "--seed", "4").stdout)
    assert [finding["code"] for finding in report["findings"]] == ["GE201"]
    assert (report["seed"], report["steps"]) == (4, 100)


def annotation(*arguments):
    """Return file, line and message of the first annotation; None without a file."""
    output = her("check", *arguments, "--steps", "100", "--format", "github").stdout
    found = re.match(r"::error file=(.*?),line=(\d+),title=(.*)", output)
    return found and (found[1], int(found[2]), found[3])


def test_github_gets_annotations_of_the_class(monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(ROOT))
    monkeypatch.chdir(ROOT / "docs")
    monkeypatch.syspath_prepend(ROOT)
    file, line, message = annotation(SCALED)
    assert message.startswith("GE101 reward-mismatch::RewardScaled: ")
    assert (ROOT / file).read_text().split("\n")[line - 1].startswith("class RewardScaled(")


def test_github_gets_annotations_of_the_outermost_class_of_the_repository(monkeypatch, tmp_path):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("""import gymnasium as gym
import her_envs

class Bonus(gym.RewardWrapper):
    def reward(self, reward):
        return reward + 1

def make_env():
    return Bonus(gym.make("her_envs/PointReach-v0"))
""")
    assert annotation("mine.py:make_env")[:2] == ("mine.py", 4)
    monkeypatch.syspath_prepend(ROOT)
    assert annotation(SCALED) is None, "its class is elsewhere"


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf"])
def test_a_time_limit_that_is_not_positive_is_wrong_usage(limit):
    result = her("check", "her_envs/PointReach-v0", "--max-seconds", limit)
    assert result.exit_code == 2
    assert "max_seconds must be a positive number of seconds or None" in result.output


def test_the_time_of_a_check_can_be_limited():
    output = her("check", "her_envs/PointReach-v0", "--max-seconds", "0.05", "--steps", "1000000").output
    assert "steps: max_seconds has passed" in output


def test_rules_lists_every_rule():
    output = her("rules").output
    assert all(code in output for code in GOAL_ENV_RULES)


@pytest.mark.parametrize("code", GOAL_ENV_RULES)
def test_explain_shows_a_wrong_and_a_right_example(code):
    output = her("explain", code.lower()).output
    rule = GOAL_ENV_RULES[code]
    assert rule.name in output
    for example in (rule.wrong, rule.right):
        assert example.strip().split("\n")[0][:40] in output


def test_explain_shows_all_of_an_example_on_a_narrow_terminal():
    output = CliRunner().invoke(app, ["explain", "GE302"], env={"COLUMNS": "80"}).output
    for example in (GOAL_ENV_RULES["GE302"].wrong, GOAL_ENV_RULES["GE302"].right):
        assert example.replace(" ", "").replace("\n", "") in output.replace(" ", "").replace("\n", "")


def test_explaining_an_unknown_code_is_wrong_usage():
    result = her("explain", "GE107")
    assert result.exit_code == 2
    assert "unknown rule code 'GE107'; did you mean" in result.output
