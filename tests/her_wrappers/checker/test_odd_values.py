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
    "column": np.zeros((3, 1)),
    "complex": np.array([1j, 2, 3]),
    "ragged": RAGGED,
    "boxed": BOXED,
    "dict": {"a": np.zeros(2)},
    "object": object(),
}

STEPS = 30


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


PARTS = [
    ("observation",),
    ("observation", "observation"),
    ("observation", "achieved_goal"),
    ("reward",),
    ("terminated",),
    ("info",),
    ("info", "is_success"),
]


@pytest.mark.parametrize("part", PARTS, ids="/".join)
@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_no_value_stops_a_check(part, value):
    assert check_goal_env(replaces(part, value), max_steps=STEPS).steps > 0
    if part != ("terminated",):
        env = GoalEnvChecker(replaces(part, value))
        with warnings.catch_warnings(action="ignore"):
            env.reset(seed=0)
            for _ in range(8):
                env.step(np.zeros(2, np.float32))
        assert env.report().steps == 8


@pytest.mark.parametrize("part", [*PARTS, ("info", "final_obs"), ("info", "_is_success")], ids="/".join)
@pytest.mark.parametrize("value", [ODD[name] for name in ("none", "short", "ragged", "object")])
def test_no_value_stops_a_check_of_a_vector_environment(part, value):
    report = check_goal_env(vector_replaces(part, value, AutoresetMode.SAME_STEP), max_steps=STEPS)
    if part in {("terminated",), ("reward",)} and np.shape(BOXED if value is RAGGED else value) != (3,):
        assert "GE603" in report.codes


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


def test_a_change_in_an_info_array_of_objects_is_found():
    class Appends(Reach):
        history = np.array([None], dtype=object)

        def inform(self, observation):
            self.history[0] = [*(self.history[0] or ()), self.elapsed]
            return {**super().inform(observation), "history": self.history}

    assert "GE301" in check_goal_env(Appends, max_steps=STEPS).codes


@pytest.mark.parametrize("value", [7, np.float32(2), {"loss": 0.5}, object()])
def test_infos_of_a_whole_vector_environment_give_no_finding(value):
    """The infos have one value for all environments together, such as a log or a number of steps."""
    report = check_goal_env(vector_replaces(("info", "log"), value, AutoresetMode.NEXT_STEP), max_steps=STEPS)
    assert not report.of_severity("error", "warning"), report.text()
