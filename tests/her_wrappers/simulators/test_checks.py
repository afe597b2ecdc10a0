"""The checks of last observations: each fault is an error, and correct simulators are silent."""

import warnings

import numpy as np
import pytest
import torch

from her_wrappers.simulators import GoalSimulator, checks
from tests.support import simulators
from tests.support.simulators import READ, Generic, compute_reward, numbered, wrapped

WORDS = {
    "after the reset": "after the reset",
    "before the step": "before the last step",
    "zeros": "zeros",
    "nan": "NaN",
    "absent": "no last observation",
    "unmarked": "time_outs",
}

MAKERS = {
    "Generic": lambda fault: wrapped(Generic(fault)),
    "IsaacLab": lambda fault: GoalSimulator.isaaclab(
        simulators.IsaacLab(fault), **READ | {"last_observation": "final_obs"}
    ),
    "ManiSkill": lambda fault: GoalSimulator.maniskill(simulators.ManiSkill(fault), **READ),
    "Genesis": lambda fault: GoalSimulator.genesis(simulators.Genesis(fault), **READ),
}


def run(env, steps=40, num_envs=4):
    env.reset()
    for _ in range(steps):
        env.step(torch.zeros(num_envs, 2))
    env.check()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *(("Generic", fault) for fault in simulators.FAULTS[:4]),
        ("ManiSkill", "nan"),
        *((name, "absent") for name in ("IsaacLab", "ManiSkill", "Genesis")),
        ("Genesis", "unmarked"),
    ],
)
def test_a_fault_is_an_error_that_names_simulator_and_setting(name, fault):
    env = MAKERS[name](fault)
    with pytest.raises(ValueError, match=WORDS[fault]) as caught:
        run(env)
    assert str(caught.value).startswith(f"{name}: ")
    assert str(env._checks._setting) in str(caught.value) or fault == "unmarked"


def test_the_checks_can_be_skipped():
    env = wrapped(Generic("zeros"), checks=False)
    run(env)


def test_a_simulator_that_resets_itself_cannot_return_last_observations():
    sim = simulators.Mjlab(auto_reset=True)
    env = wrapped(sim, last_observation="returned", observation="actor")
    with pytest.raises(ValueError, match="achieved goals jump"):
        run(env)


def test_a_goal_function_that_reads_the_simulator_has_the_goals_of_the_next_episode():
    sim = Generic()
    reads = {"desired_goal": lambda obs: sim.observe()["goals"]["desired"]}
    with pytest.raises(ValueError, match=r"desired_goal .* must read its argument"):
        run(wrapped(sim, **reads))


def test_later_episodes_are_checked_too(monkeypatch):
    monkeypatch.setattr(checks, "ENOUGH_ENDS", 12)
    sim = Generic()
    env = wrapped(sim)
    run(env, 16)
    assert not env._checks.is_active
    sim.fault = "after the reset"
    with pytest.raises(ValueError, match="after the reset"):
        run(env, 200)


def one(lane, *columns):
    """An (N, k) array of columns, each a number or (N,)."""
    return np.stack([np.broadcast_to(column, len(lane)) for column in columns], 1)


def wall(lane, episode, step):
    """A walk on a line that begins at 0, 1 or 2 and ends at a wall at 3, where it stays."""
    place = np.minimum((lane + episode) % 3 + step, 3)
    return one(lane, place), one(lane, place), one(lane, 3)


def continuing(lane, episode, step):
    """The next episode begins where this one ended, with another goal; each has 4 steps."""
    place = 4 * episode + step
    return one(lane, place, lane), one(lane, place), one(lane, 100 * episode + lane)


def relative(lane, episode, step):
    """The observation is the distance to the goal, which is 0 at each end."""
    place = simulators.length_of(lane, episode) - step
    return one(lane, place), one(lane, place), one(lane, 0)


def crash(lane, episode, step):
    """Each episode ends with a large jump of the object, in an environment with fixed starts and goals."""
    place = np.where(step >= 4, 50 + lane + episode, step)
    return one(lane, place), one(lane, place), one(lane, 9)


CORRECT = {
    "constant": {"state": lambda lane, episode, step: [one(lane, 1)] * 3},
    "constant zeros": {"state": lambda lane, episode, step: [one(lane, 0)] * 3},
    "one step": {"length": lambda lane, episode: 1},
    "tiny motions": {
        "state": lambda lane, episode, step: (
            [one(lane, 1 + 3e-8 * step)] * 2 + [one(lane, 9 * episode + lane)]
        )
    },
    "wall": {"state": wall},
    "continuing": {"state": continuing, "length": lambda lane, episode: 4},
    "relative": {"state": relative},
    "crash": {"state": crash, "length": lambda lane, episode: 4},
    "goals that change": {
        "state": lambda lane, episode, step: (
            *numbered(lane, episode, step)[:2],
            one(lane, 7 * episode + step),
        )
    },
    "a single environment": {"num_envs": 1},
}


RETURNED = ("constant", "one step", "continuing", "crash", "goals that change")
"""Names in `CORRECT` that are also run with ``last_observation="returned"``."""


@pytest.mark.parametrize(
    ("interface", "name"),
    [*((Generic, name) for name in CORRECT), *((simulators.Mjlab, name) for name in RETURNED)],
)
def test_correct_simulators_are_silent(interface, name):
    sim = interface(**CORRECT[name])
    last, key = ("final_obs", "policy") if interface is Generic else ("returned", "actor")
    env = wrapped(sim, last_observation=last, observation=key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(env, 50, sim.num_envs)
    assert env.notes == []


@pytest.mark.parametrize("factor", [1, 0])
def test_environments_with_one_seed_are_a_warning_unless_all_episodes_begin_in_one_state(factor):
    sim = Generic(state=lambda lane, episode, step: numbered(0 * lane, factor * episode, step))
    sim.length = lambda lane, episode: 3
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run(wrapped(sim))
    assert ["seed" in str(each.message) for each in found] == [True] * factor


def distance(achieved_goal, desired_goal, info):
    return -(achieved_goal - desired_goal).norm(dim=-1)


class Rewarded(Generic):
    """A simulator whose reward is a function of achieved goals before and after, and the desired goal."""

    def __init__(self, reward):
        super().__init__()
        self.reward = reward

    def step(self, action):
        before = self.observe()["goals"]["achieved"]
        observation, _, *flags, infos = super().step(action)
        goals = infos["final_obs"]["goals"]
        return observation, self.reward(before, goals["achieved"], goals["desired"]), *flags, infos


def rewarded(reward, function):
    """A simulator with its own reward, which should be ``function`` of its goals."""
    return wrapped(Rewarded(reward), compute_reward=function, reward="simulator")


@pytest.mark.parametrize("function", [distance, compute_reward])
def test_a_reward_for_another_goal_is_an_error(function):
    env = rewarded(lambda before, after, goal: function(after, goal - torch.tensor([2.0, 0]), {}), function)
    with pytest.raises(ValueError, match="compute_reward"):
        run(env)


@pytest.mark.parametrize("lag", [0.0, 0.25])
def test_a_reward_that_lags_by_a_substep_is_a_note(lag):
    env = rewarded(lambda before, after, goal: distance(after + lag * (before - after), goal, {}), distance)
    run(env)
    assert len(env.notes) == (lag > 0)


def test_a_constant_length_without_time_outs_is_a_note():
    sim = simulators.Genesis("unmarked", length=lambda lane, episode: 5)
    sim.max_episode_length = None
    env = GoalSimulator.genesis(sim, **READ)
    run(env)
    assert "length" in env.notes[0]


def test_a_few_last_observations_with_nan_are_a_note():
    class Exploding(Generic):
        def finish(self, ended):
            final = super().finish(ended)
            final["policy"][0] = torch.nan
            return final

    env = wrapped(Exploding())
    run(env)
    assert "NaN" in env.notes[0]


class Undivided(Generic):
    """Terminates at the time limit too, or, if ``is_right``, truncates there; other episodes terminate."""

    is_right = False

    def step(self, action):
        observation, reward, terminated, truncated, infos = super().step(action)
        if not self.is_right:
            terminated, truncated = terminated | truncated, truncated & False
        return observation, reward, terminated, truncated, infos


def test_time_outs_among_the_terminations_are_an_error():
    def env(length):
        return wrapped(Undivided(length=length))

    with pytest.raises(ValueError, match="`terminated` contains truncations, after 6 steps"):
        run(env(lambda lane, episode: 99 + 0 * lane))
    run(env(lambda lane, episode: 3 + lane))  # few episodes terminate in the last step by themselves
