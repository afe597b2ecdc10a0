"""A check ends with a report for all values that an environment can return."""

import threading
import warnings

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import GoalEnvChecker, check_goal_env
from tests.support.specimens.reach import Reach

RAGGED = [[1], [1, 2]]
BOXED = np.array([None, None], dtype=object)
BOXED[:] = [[1], [np.zeros(2)]]
ODD = {
    "none": None,
    "word": "x",
    "short": np.zeros(1),
    "complex": np.array([1j, 2, 3]),
    "ragged": RAGGED,
    "boxed": BOXED,
    "dict": {"a": np.zeros(2)},
}
STEPS = 12


class Replaces:
    """Replaces a part of the returned values from the fourth step on."""

    part, value, count = ("info", "none"), None, 0

    def step(self, action):
        names = ("observation", "reward", "terminated", "truncated", "info")
        returned = tree = dict(zip(names, super().step(action), strict=True))
        self.count += 1
        if self.count > 3:
            for key in self.part[:-1]:
                tree[key] = tree = dict(tree[key])
            tree[self.part[-1]] = self.value
        return tuple(returned.values())


def replaces(part, value):
    return type("Single", (Replaces, Reach), {"part": part, "value": value})()


def vector_replaces(part, value, mode):
    kind = type("Vector", (Replaces, SyncVectorEnv), {"part": part, "value": value})
    return kind([Reach] * 3, autoreset_mode=mode)


PATHS = "observation", "observation/achieved_goal", "reward", "info", "info/is_success"
PARTS = [tuple(path.split("/")) for path in PATHS]


@pytest.mark.parametrize("part", PARTS, ids="/".join)
def test_no_value_stops_a_check(part):
    for value in ODD.values():
        assert check_goal_env(replaces(part, value), max_steps=STEPS).steps > 0
        env = GoalEnvChecker(replaces(part, value))
        with warnings.catch_warnings(action="ignore"):
            env.reset(seed=0)
            for _ in range(6):
                env.step(np.zeros(2, np.float32))
        assert env.report().steps == 6


@pytest.mark.parametrize("part", [*PARTS, ("terminated",), ("info", "final_obs")], ids="/".join)
def test_no_value_stops_a_check_of_a_vector_environment(part):
    for value in (ODD["none"], ODD["short"], ODD["ragged"]):
        report = check_goal_env(vector_replaces(part, value, AutoresetMode.SAME_STEP), max_steps=30)
        assert "GE603" in report.codes or part not in {("terminated",), ("reward",)}


@pytest.mark.parametrize("value", [np.zeros(2, bool), RAGGED, []])
def test_a_terminated_flag_that_is_not_a_single_bool_is_reported(value):
    report = check_goal_env(replaces(("terminated",), value), max_steps=STEPS)
    (finding,) = report.of_severity("error")
    assert (finding.code, finding.place) == ("GE000", "episode 0, step 3")


@pytest.mark.parametrize("value", [object(), threading.Lock(), BOXED, [object()]])
def test_infos_that_are_objects_give_no_false_finding(value):
    """Some objects do not equal their copies, and some cannot be copied."""
    report = check_goal_env(replaces(("info", "handle"), value), max_steps=STEPS)
    assert not {"GE000", "GE109", "GE301"} & set(report.codes)


@pytest.mark.parametrize("value", [7, np.float32(2), {"loss": 0.5}, object()])
def test_infos_of_a_whole_vector_environment_give_no_finding(value):
    """The infos have one value for all environments together, such as a log or a number of steps."""
    report = check_goal_env(vector_replaces(("info", "log"), value, AutoresetMode.NEXT_STEP), max_steps=30)
    assert not report.of_severity("error", "warning"), report.text()
