"""choose_action, and the functions and commands that call policies by it: errors name the policy."""

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers.collecting import Collector
from her_wrappers.collecting.collector import CollectorError
from her_wrappers.support.policies import PolicyError, choose_action
from tests.support.commands import her
from tests.support.other_envs import Silent

PLANE = spaces.Box(-1, 1, (2,), np.float32)
ENV = "tests.support.other_envs:Silent"
POLICIES = """
import numpy as np

def pair(observation):
    return np.zeros(2), None

def broken(observation):
    return observation["camera"]
"""


def pair(observation):
    return np.zeros(np.shape(observation["observation"])), None


@pytest.mark.parametrize("action", [None, (np.zeros(2), None), (1, None), (np.zeros(2), np.zeros(2))])
def test_other_values_are_not_actions(action):
    with pytest.raises(PolicyError, match=r"Box\(-1.0, 1.0, \(2,\), float32\)"):
        choose_action(lambda observation: action, {}, PLANE)


def test_a_collector_names_the_policy():
    with (
        Collector(Silent, pair, num_workers=1, num_envs=2, backend="local", seed=0) as collector,
        pytest.raises(CollectorError, match="the policy must return an action"),
    ):
        next(iter(collector.rounds()))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("check", [ENV, "--max-steps", 20, "--policy"]),
        ("record", [ENV, "--out", "runs", "--episodes", 1, "--policy"]),
        ("evaluate", ["--env", ENV, "--episodes", 1]),
    ],
)
def test_commands_name_the_policy(command, options, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    for name, text in (("pair", "tuple of 2 values"), ("broken", "mine.py, line 8")):
        result = her(command, *options, f"mine.py:{name}")
        assert result.exit_code in {2, 3}, result.output
        assert "policy" in result.stderr
        assert text in result.stderr
        assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("action", "space", "got"),
    [
        (np.zeros(8), spaces.Discrete(8), r"Discrete\(8\), got an array of shape \(8,\)"),
        (0.5, PLANE, r"got an array of shape \(\)"),
        ("left", spaces.Discrete(2), "got str"),
        (np.array([0.0, np.nan]), PLANE, "got NaN"),
    ],
)
def test_wrong_shapes_and_nan_are_faults_of_the_policy(action, space, got):
    with pytest.raises(PolicyError, match=got):
        choose_action(lambda observation: action, {"observation": np.zeros(2)}, space)


def test_actions_are_returned_as_they_are_also_of_other_shapes_and_nan_for_nan():
    one, nan = spaces.Box(-1, 1, (1,), np.float32), np.full(2, np.nan)
    of_parts = spaces.Tuple([spaces.Discrete(3), PLANE])
    given = [((0.5, 1), PLANE), (np.zeros((1, 2)), PLANE), (0.5, one), ((1, np.zeros(2)), of_parts)]
    for action, space in (*given, (np.array([1]), spaces.Discrete(2))):
        assert choose_action(lambda observation: action, {}, space) is action  # noqa: B023
    assert choose_action(lambda observation: observation["x"], {"x": nan}, PLANE) is nan
