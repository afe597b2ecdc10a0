"""The checker reports what recorders and buffers reject, and names the key."""

import string

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder, check_goal_env
from her_wrappers.checker.rules.spaces import _outside
from her_wrappers.data.trees import copy_tree
from tests.support.specimens.broken_spaces import FurtherKey
from tests.support.specimens.broken_vectors import ListOfObservations
from tests.support.specimens.reach import Reach
from tests.support.specimens.unusual_goals import SQUARE, GoalsInPairs


def found(env, *codes, **options):
    """Return code, subject and severity of each finding, except notes."""
    report = check_goal_env(env, max_steps=30, select=codes, **{"replicas": False} | options)
    return {(each.code, each.subject, each.severity) for each in report.of_severity("error", "warning")}


class PartMissing(FurtherKey):
    more = spaces.Dict(near=SQUARE, far=spaces.Tuple([SQUARE, spaces.Dict(left=SQUARE)]))

    def value(self):
        return {"near": self.position.copy(), "far": (self.position.copy(), {})}


def test_a_key_that_is_missing_in_an_observation_is_named():
    assert found(PartMissing, "GE0") == {("GE005", "more/far/1/left", "error")}
    with pytest.raises(ValueError, match="observation/more/far/1/left is missing"):
        record(EpisodeRecorder(PartMissing(), print))


def record(env):
    env.reset(seed=0)
    for _ in range(5):
        env.step(env.action_space.sample())


@pytest.mark.parametrize(
    ("space", "value", "message", "repair"),
    [
        (SQUARE, [0.0, 0.0], "of type list is not a float32 array", None),
        (SQUARE, np.zeros(3, np.float32), "shape (3,) is not the shape (2,)", ""),
        (SQUARE, np.zeros(2), "dtype float64 does not fit the dtype float32", None),
        (SQUARE, np.float32([0, 2]), "element [1] is 2.0, outside of the bounds [-1.0, 1.0]", ""),
        (spaces.MultiBinary(2), np.array([2, 0], np.int8), "is not an element of MultiBinary", ""),
        (spaces.Discrete(3), 5, "5 of type int is not an element of Discrete(3)", ""),
        (spaces.Dict(hand=SQUARE), [1, 2], "the value is [1, 2] instead of a dict", ""),
    ],
)
def test_a_value_outside_its_space_is_reported_with_its_path(space, value, message, repair):
    [(path, violation)] = _outside(spaces.Dict(goal=space), {"goal": value}, ())
    assert path == ("goal",)
    assert message in violation.message
    assert violation.repair == repair
    assert not list(_outside(space, space.sample(), ()))


VARIABLE = {
    "sequence": (spaces.Sequence(SQUARE, stack=True), np.zeros((3, 2), np.float32)),
    "graph": (spaces.Graph(SQUARE, None), spaces.GraphInstance(np.zeros((2, 2), np.float32), None, None)),
    "one of": (spaces.OneOf([SQUARE, spaces.Discrete(3)]), (1, np.int64(2))),
    "text": (spaces.Text(9, charset=string.printable), "go \n now"),
    "inside": (spaces.Dict(a=SQUARE, b=spaces.Text(5)), {"a": np.zeros(2, np.float32), "b": "go"}),
}


@pytest.mark.parametrize(("space", "value"), VARIABLE.values(), ids=VARIABLE)
def test_a_space_without_a_fixed_shape_is_named_as_by_recorders(space, value):
    class Varies(FurtherKey):
        more = space

        def value(self):
            return copy_tree(value)

    assert found(Varies, "GE0") == {("GE009", "more", "error")}
    assert found(lambda: SyncVectorEnv([Varies] * 2), "GE0", "GE6") == {("GE009", "more", "error")}
    for make in (lambda: EpisodeRecorder(Varies(), print), lambda: HindsightReplayBuffer.for_env(Varies())):
        with pytest.raises(TypeError, match=r"the space of 'more.*fixed shape") as raised:
            make()
        assert len(str(raised.value)) < 300


@pytest.mark.parametrize("space", [spaces.Sequence(SQUARE), spaces.Text(5)])
def test_an_action_space_without_a_fixed_shape_is_reported(space):
    env = Reach()
    env.action_space = space
    env.step = lambda action: Reach.step(env, np.zeros(2))
    assert ("GE009", "action_space", "error") in found(env, "GE009")


@pytest.mark.parametrize("space", [None, 4, spaces.Box])
def test_an_attribute_that_is_not_a_space_is_reported(space):
    for name in ("action_space", "observation_space"):
        env = Reach()
        setattr(env, name, space)
        report = check_goal_env(env)
        assert [finding.code for finding in report.findings] == ["GE000"]
        assert name in report.findings[0].message
    vector_env = SyncVectorEnv([Reach] * 2)
    vector_env.single_action_space = space
    assert ("GE009", "action_space", "error") in found(vector_env, "GE0")
    with pytest.raises(TypeError, match="fixed shape"):
        VectorEpisodeRecorder(vector_env, print)


def test_an_infinite_part_of_a_goal_is_reported_but_not_of_an_observation():
    line = spaces.Box(-np.inf, np.inf, (1,), np.float64)

    class Infinite(GoalsInPairs):
        def make_space(self):
            pair = spaces.Tuple([line, line])
            return spaces.Dict(observation=line, achieved_goal=pair, desired_goal=pair)

        def observe(self):
            goals = {"achieved_goal": (np.zeros(1), np.full(1, np.inf)), "desired_goal": (np.ones(1),) * 2}
            return {"observation": np.full(1, np.inf), **goals}

    assert found(Infinite, "GE005") == {("GE005", "achieved_goal/1", "error")}


@pytest.mark.parametrize("kind", [tuple, list])
def test_observations_in_a_list_of_dicts_are_rejected_by_checker_recorder_and_buffer(kind):
    env = type("Split", (ListOfObservations,), {"kind": staticmethod(kind)})()
    assert found(env) == {("GE603", "observation", "error")}
    buffer = HindsightReplayBuffer.for_env(env)
    with pytest.raises(ValueError, match="of dicts instead of a dict of arrays"):
        record(VectorEpisodeRecorder(env, buffer))
    observations, _ = env.reset(seed=0)
    actions = env.action_space.sample()
    next_observations, rewards, *ends = env.step(actions)
    with pytest.raises(ValueError, match="row for each copy"):
        buffer.add(observations, actions, rewards, next_observations, *ends)


@pytest.mark.parametrize("value", [[{"is_success": False}], None, "info"])
def test_an_info_of_a_reset_that_is_not_a_dict_is_reported(value):
    class OddInfo(Reach):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], value

    assert found(OddInfo, "GE501") == {("GE501", "", "warning")}
