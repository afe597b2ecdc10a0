"""``her check`` and ``her rules``: output and exit codes."""

import json
import re

import pytest

from her_wrappers.checker import GOAL_ENV_RULES
from her_wrappers.conformance import REPLAY_RULES
from her_wrappers.diagnosis import DIAGNOSIS_RULES
from tests.support.commands import her
from tests.support.pages import ROOT

BROKEN = "tests.support.specimens."
SCALED = f"{BROKEN}broken_rewards:RewardScaled"
NO_FLAG = f"{BROKEN}broken_success:NoFlag"


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["her_envs/BitFlipping-v0", "-o", "n_bits=3"], 0),
        (["her_envs:her_envs/PointReach-v0"], 0),
        ([SCALED], 1),
        ([NO_FLAG], 0),
        ([NO_FLAG, "--strict"], 1),
        ([NO_FLAG, "--strict", "--ignore", "GE201"], 0),
        ([SCALED, "--select", "ge2,ge3"], 0),
    ],
)
def test_exit_codes_depend_on_findings_and_strictness(arguments, exit_code):
    result = her("check", *arguments, "--max-steps", "100")
    assert result.exit_code == exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([SCALED, "-o", "size"], "-o must be NAME=VALUE, such as n_bits=5, got 'size'"),
        ([SCALED, "-o", "size=3"], "unexpected keyword argument 'size'"),
        ([SCALED, "--select", "GE777"], "unknown rule code 'GE777'"),
        (["json:dumps", "-o", "obj=1"], "json:dumps must return a gymnasium Env or VectorEnv"),
        ([SCALED, "--format", "xml"], "'xml' for argument '--format'"),
        ([SCALED, "--max-steps", "0"], "--max-steps: expected an integer of at least 1, got 0"),
        ([SCALED, "--max-seconds", "nan"], "max_seconds"),
        ([], "ENV"),
    ],
)
def test_wrong_usage_ends_with_two_and_the_name_of_the_option(arguments, message):
    result = her("check", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_json_is_the_report():
    report = json.loads(her("check", NO_FLAG, "--max-steps", "100", "--format", "json", "--seed", "4").stdout)
    assert [finding["code"] for finding in report["findings"]] == ["GE201"]
    assert (report["seed"], report["steps"]) == (4, 100)


def test_the_findings_before_an_error_of_the_policy_are_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acts.py").write_text(
        "calls = iter(range(50))\n"
        "def act(observation):\n    next(calls)\n    return observation['observation']"
    )
    result = her("check", NO_FLAG, "--policy", "acts.py:act", "--max-steps", "100", "--format", "json")
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    assert (report["steps"], "GE201" in {each["code"] for each in report["findings"]}) == (50, True)
    assert "StopIteration" in result.stderr


def annotation(*arguments):
    """Return file, line and message of the first annotation; None without a file."""
    output = her("check", *arguments, "--max-steps", "100", "--format", "github").stdout
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


def test_the_time_of_a_check_can_be_limited():
    output = her("check", "her_envs/PointReach-v0", "--max-seconds", "0.05", "--max-steps", "1000000").output
    assert "steps: max_seconds has passed" in output


def test_rules_lists_the_rules_of_all_suites():
    output = her("rules").output
    assert all(code in output for code in {**GOAL_ENV_RULES, **REPLAY_RULES, **DIAGNOSIS_RULES})


@pytest.mark.parametrize(
    ("code", "suite"), [("ge302", GOAL_ENV_RULES), ("HB101", REPLAY_RULES), ("GD102", DIAGNOSIS_RULES)]
)
def test_a_rule_is_explained(code, suite):
    rule, output = suite[code.upper()], "".join(her("rules", code, columns=80).output.split())
    for text in (rule.name, rule.meaning, rule.fix, rule.wrong, rule.right):
        assert "".join(text.split()) in output


def test_an_unknown_code_is_wrong_usage():
    result = her("rules", "GE107")
    assert result.exit_code == 2
    assert "unknown rule code 'GE107'; did you mean" in result.stderr
