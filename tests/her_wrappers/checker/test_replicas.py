"""Replicas are made by a factory, a spec or a copy, and comparisons with them find differences."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import check_goal_env
from her_wrappers.checker.replicas import Replicas
from tests.support.checker import Uncopyable, gaps
from tests.support.specimens.broken_seeds import UnseededDynamics, VelocityStays
from tests.support.specimens.neighbors import RemoteReach
from tests.support.specimens.reach import Reach


class Client:
    copies = 0

    def __deepcopy__(self, memo):
        Client.copies += 1
        return self

    def __del__(self):
        pass


class Connected(Reach):
    """An environment whose client counts its copies; a copy would disconnect a client of PyBullet."""

    def __init__(self):
        super().__init__()
        self.client = Client()


def test_a_replica_opens_no_window():
    with Replicas(gym.make("her_envs/PointReach-v0", render_mode="human"), None) as replicas:
        assert replicas.make().render_mode is None


@pytest.mark.parametrize(
    ("make", "possible"),
    [
        (Reach, True),
        (partial(gym.make, "her_envs/PointReach-v0"), True),
        (partial(gym.make_vec, "her_envs/PointReach-v0", num_envs=2, vectorization_mode="async"), True),
        (Uncopyable, False),
        (Connected, False),
    ],
    ids=["copy", "spec", "vector spec", "uncopyable", "connected"],
)
def test_replicas_are_made_from_the_spec_or_by_a_copy_and_their_absence_is_reported(make, possible):
    report = check_goal_env(make(), max_steps=40, select="GE402")
    assert ("no second environment of this kind could be made" not in gaps(report)) == possible
    assert Client.copies == 0


class OnlyOne(Reach):
    """An environment that the next instance disconnects, like a robot on a serial port."""

    owner, resets = None, 0

    def __init__(self):
        super().__init__()
        OnlyOne.owner = self

    def reset(self, **options):
        self.resets += 1
        return super().reset(**options)

    def step(self, action):
        if OnlyOne.owner is not self:
            raise RuntimeError("disconnected")
        return super().step(action)


def test_the_first_instance_finishes_its_run_before_a_second_one_is_made():
    report = check_goal_env(OnlyOne, max_steps=60)
    assert report.steps == 60
    [found] = report.of_severity("error")
    assert found.place == "on a second environment (pass replicas=False to make none)"


@pytest.mark.parametrize("is_instance", [True, False])
def test_without_replicas_one_instance_is_made_and_the_report_lists_what_needs_another(is_instance):
    report = check_goal_env(OnlyOne() if is_instance else OnlyOne, max_steps=60, replicas=False)
    assert not report.findings
    assert OnlyOne.owner.resets < report.episodes + 10, "a robot is not reset to search for hidden goals"
    codes = gaps(report)["no second environment was made"]
    assert {"GE112", "GE401", "GE402", "GE403", "GE404"} <= set(codes)


class Closable(Reach):
    """An environment whose copies have the same connection."""

    is_open = True

    def close(self):
        Closable.is_open = False


def test_a_copy_does_not_close_the_connection_of_the_original():
    assert not check_goal_env(Closable(), max_steps=60).findings
    assert Closable.is_open


class RemoteAndUnseeded(UnseededDynamics, RemoteReach):
    """All copies move one point, and the seed does not determine its moves."""


class RemoteAndFast(VelocityStays, RemoteReach):
    """All copies move one point, and the velocity of a copy survives its resets."""


@pytest.mark.parametrize(
    ("make", "codes"), [(RemoteReach, []), (RemoteAndUnseeded, ["GE401"]), (RemoteAndFast, ["GE402"])]
)
def test_copies_that_share_the_state_of_the_original_give_only_true_findings(make, codes):
    env = make()
    env.reset(seed=0)
    with Replicas(env, None) as replicas:
        before = env.position
        replicas.make().step(np.ones(2, np.float32))
        assert not np.array_equal(env.position, before), "a step of the copy moves the original"
    assert check_goal_env(env, max_steps=100).codes == codes


def test_a_factory_that_returns_the_same_environment_gives_no_replicas():
    env = Reach()
    assert not check_goal_env(lambda: env, max_steps=60).findings


def test_a_factory_may_define_its_class_in_each_call():
    def make():
        class Local(UnseededDynamics):
            pass

        return Local()

    assert "GE401" in check_goal_env(make, max_steps=100).codes
