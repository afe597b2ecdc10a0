"""GoalEnvChecker does not report changes that the receiver makes to returned values."""

from __future__ import annotations

import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import SyncVectorEnv

from her_wrappers import EpisodeRecorder, GoalEnvChecker
from her_wrappers.adapters import CopyObservation
from her_wrappers.checker.passive import HELD, STRIDE, WATCHED_CLOSELY
from tests.support.specimens.broken_episodes import ReusesArrays, ReusesDict, ReusesInfo
from tests.support.specimens.reach import Reach


def use(env, steps, on_return):
    """Step an environment with random actions; ``on_return`` may change observations and infos."""
    env.action_space.seed(0)
    on_return(*env.reset(seed=0))
    for t in range(steps):
        observation, _, terminated, truncated, info = env.step(env.action_space.sample())
        on_return(observation, info)
        if terminated or truncated or t % 50 == 49:
            on_return(*env.reset())


def annotates_info(observation, info):
    info["seen"] = True


def empties_info(observation, info):
    info.clear()


def relabels(observation, info):
    observation["desired_goal"][:] = observation["achieved_goal"]


def pops_a_key(observation, info):
    observation.pop("observation")


@pytest.mark.parametrize("change", [annotates_info, empties_info, relabels, pops_a_key])
@pytest.mark.parametrize(
    "steps", [60, WATCHED_CLOSELY + 2 * STRIDE * HELD], ids=["first steps", "later steps"]
)
def test_changes_by_the_receiver_are_not_findings(change, steps):
    env = GoalEnvChecker(Reach())
    use(env, steps, change)
    assert env.report().findings == ()


@pytest.mark.parametrize("specimen", [ReusesDict, ReusesInfo, ReusesArrays])
def test_changes_by_the_environment_are_found_if_the_receiver_changes_other_values(specimen):
    env = GoalEnvChecker(specimen())
    with warnings.catch_warnings(action="ignore"):
        use(env, 60, annotates_info)
    errors = env.report().of_severity("error")
    assert {finding.code for finding in errors} == {"GE301"}
    assert "seen" not in {finding.subject.split()[-1] for finding in errors}


WRAPPERS = {
    "RecordEpisodeStatistics": wrappers.RecordEpisodeStatistics,
    "TimeLimit": partial(wrappers.TimeLimit, max_episode_steps=15),
    "PassiveEnvChecker": wrappers.PassiveEnvChecker,
    "Autoreset": wrappers.Autoreset,
    "RescaleAction": partial(wrappers.RescaleAction, min_action=np.float32(0), max_action=np.float32(1)),
    "StickyAction": partial(wrappers.StickyAction, repeat_action_probability=0.3),
    "CopyObservation": CopyObservation,
    "EpisodeRecorder": EpisodeRecorder,
    "GoalEnvChecker": GoalEnvChecker,
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("order", ["wrapper inside", "wrapper outside"])
def test_wrappers_inside_and_outside_the_checker_give_no_finding(wrapper, order):
    checker = GoalEnvChecker(wrapper(Reach()) if order == "wrapper inside" else Reach())
    env = checker if order == "wrapper inside" else wrapper(checker)
    resets = not isinstance(env, wrappers.Autoreset) and not isinstance(checker.env, wrappers.Autoreset)
    with warnings.catch_warnings(action="error"):
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(200):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if resets and (terminated or truncated):
                env.reset()
    assert checker.report().findings == ()


def test_a_vector_environment_is_rejected_with_the_call_that_works():
    with pytest.raises(TypeError, match="env must be a single environment, got SyncVectorEnv; call check_"):
        GoalEnvChecker(SyncVectorEnv([Reach]))


@pytest.mark.parametrize("monitor", ["inside", "outside"])
def test_a_run_of_stable_baselines3_gives_no_finding(monitor):
    sb3 = pytest.importorskip("stable_baselines3")
    env = gym.make("her_envs/PointReach-v0", max_steps=20)
    checker = GoalEnvChecker(sb3.common.monitor.Monitor(env) if monitor == "inside" else env)
    sb3.SAC(
        "MultiInputPolicy",
        checker if monitor == "inside" else sb3.common.monitor.Monitor(checker),
        replay_buffer_class=sb3.HerReplayBuffer,
        learning_starts=50,
        train_freq=8,
        batch_size=16,
        policy_kwargs={"net_arch": [16]},
        seed=0,
        device="cpu",
    ).learn(300)
    assert checker.report().steps >= 300
    assert checker.report().findings == ()
