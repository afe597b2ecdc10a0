"""``her check``, ``her check-replay`` and ``her rules``: output and exit codes."""

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


@pytest.mark.parametrize("code", ["ge302", "HB101", "GD102"])
def test_a_rule_is_explained(code):
    rule = {**GOAL_ENV_RULES, **REPLAY_RULES, **DIAGNOSIS_RULES}[code.upper()]
    output = "".join(her("rules", code, columns=80).output.split())
    for text in (rule.name, rule.meaning, rule.fix, rule.wrong, rule.right):
        assert "".join(text.split()) in output
