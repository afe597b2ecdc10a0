"""Trainings with workers: the weights depend on the number of workers, not on backend, timing or kills."""

from __future__ import annotations

import os
import signal
import threading

import gymnasium as gym
import numpy as np
import pytest
import torch

from her_agents.collected import CollectedTraining, ExploringPolicy
from her_agents.loop import train
from her_wrappers.collecting import Collector, CollectorError
from tests.support.ray_cluster import one_node
from tests.support.trainings import same, tiny, without_time


def trained(backend, task="dqn", **options):
    return train(tiny(task, **options), on_epoch=None, backend=backend)


def assert_same_results(one, other):
    assert same(one.agent.state_dict(), other.agent.state_dict())
    assert without_time(one.history) == without_time(other.history)


def test_processes_train_to_the_weights_of_one_process():
    assert_same_results(trained("process", workers=2), trained("local", workers=2))


def test_ray_trains_to_the_weights_of_one_process():
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with one_node():
        assert_same_results(trained("ray", workers=2), trained("local", workers=2))


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "tqc"])
def test_all_agents_can_be_sent_to_workers(algo):
    assert len(trained("local", algo, workers=1, steps=400).history) == 2


def test_workers_act_by_what_the_agent_has_learned(monkeypatch):
    """The workers load the states that the training gives to the collector, in the same order."""
    given, used = [], []
    update, load = Collector.update, ExploringPolicy.load_state_dict

    def note_given(self, state):
        given.append(state["network"]["layers.0.weight"].clone())
        update(self, state)

    def note_used(self, state):
        load(self, state)
        used.append(self._agent.policy_state()["network"]["layers.0.weight"].clone())

    monkeypatch.setattr(Collector, "update", note_given)
    monkeypatch.setattr(ExploringPolicy, "load_state_dict", note_used)
    trained("local", workers=1)
    assert len(used) > 5
    assert all(map(torch.equal, given, used))
    assert not torch.equal(used[0], used[-1])


def test_a_resumed_training_is_the_uninterrupted_one_to_the_last_bit(tmp_path):
    whole = trained("local", workers=2)
    first = {"folder": tmp_path, "on_epoch": None, "stop": lambda history: True}
    assert len(train(tiny(workers=2), backend="local", **first).history) == 1
    resumed = train(tiny(workers=2), folder=tmp_path, resume=True, on_epoch=None)
    assert same(resumed.agent.state_dict(), whole.agent.state_dict())
    assert without_time(resumed.history) == without_time(whole.history)


class RemembersEpisodes(gym.Wrapper):
    """An environment whose first observation depends on the number of earlier episodes."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.episodes += 1
        return {**observation, "observation": observation["observation"] + self.episodes / 100}, info


def make_env_that_remembers():
    return RemembersEpisodes(gym.make("her_envs:her_envs/PointReach-v0", max_steps=9))


def test_environments_that_remember_earlier_episodes_need_fresh_environments():
    options = {"env": f"{__name__}:{make_env_that_remembers.__name__}", "env_kwargs": {}, "workers": 1}
    with pytest.raises(CollectorError, match=r"pass fresh_envs=True .*\(her train --fresh-envs\)"):
        trained("local", "ddpg", **options)
    assert len(trained("local", "ddpg", **options, fresh_envs=True).history) == 3


def test_the_number_of_workers_cannot_change(tmp_path):
    train(tiny(workers=2, steps=200), folder=tmp_path, on_epoch=None, backend="local")
    for workers in (1, 0):
        with pytest.raises(ValueError, match=f"is of a training with workers 2, got {workers}; only steps"):
            train(tiny(workers=workers), folder=tmp_path, resume=True, on_epoch=None)


def kill_workers(training, rng):
    """Kill the process of a random worker; return whether it was running."""
    pids = list(training._collector._backend.pids.values())
    try:
        os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
    except (ProcessLookupError, ValueError):  # it is being replaced, or not started yet
        return False
    return True


def test_killed_workers_change_no_weight():
    rng, kills = np.random.default_rng(0), []

    def kill_two(training):
        if len(kills) < 2 and training.counts.env_steps > 200:
            kills.append(kill_workers(training, rng))

    disturbed = train(tiny(workers=2), on_epoch=None, on_step=kill_two)
    assert kills == [True, True]
    assert_same_results(disturbed, trained("local", workers=2))


class Killer(threading.Thread):
    """Kills random workers of `training` at random moments, until it is ended."""

    def __init__(self):
        super().__init__()
        self.training, self.kills = None, 0
        self._ended, self._rng = threading.Event(), np.random.default_rng(0)

    def run(self):
        """Kill at most ten workers without progress of the training, which gives up after twenty."""
        since, before = None, 0
        while not self._ended.wait(self._rng.uniform(0, 3)):
            if self.training is not None:
                progress = self.training, self.training.counts.env_steps
                since, before = (since, before) if since == progress else (progress, self.kills)
                if self.kills - before < 10:
                    self.kills += kill_workers(self.training, self._rng)

    def end(self):
        """End the thread."""
        self._ended.set()
        self.join()


@pytest.mark.campaign
def test_two_hundred_kills_at_random_moments_change_no_weight(monkeypatch):
    """Workers are killed while they start, step environments, send episodes, or wait."""
    killer, begin = Killer(), CollectedTraining.__init__

    def remember(self, *arguments, **options):
        begin(self, *arguments, **options)
        killer.training = self

    monkeypatch.setattr(CollectedTraining, "__init__", remember)
    options = {
        "workers": 2,
        "num_envs": 8,
        "steps": 6_000,
        "steps_per_epoch": 1_000,
        "updates_per_step": 0.25,
    }
    expected = train(tiny(**options), on_epoch=None, backend="local")
    killer.training = None
    killer.start()
    try:
        while killer.kills < 200:
            assert_same_results(train(tiny(**options), on_epoch=None), expected)
    finally:
        killer.end()
