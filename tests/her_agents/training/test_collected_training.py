"""Runs with workers: the weights depend on the number of workers, not on backend, timing or kills."""

import os
import signal

import gymnasium as gym
import pytest
import torch

from her_agents.training.loop import train
from her_agents.training.sources import ExploringPolicy
from her_wrappers.collecting import Collector, CollectorError
from tests.support.short_runs import assert_same_results, tiny


def trained(backend, task="dqn", **options):
    return train(tiny(task, **options), on_epoch=None, backend=backend)


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
    with pytest.raises(CollectorError, match=r"pass fresh_envs=True \(`her train --fresh-envs`\)"):
        trained("local", "ddpg", **options)
    assert len(trained("local", "ddpg", **options, fresh_envs=True, steps=100).history) == 1


def test_processes_train_to_the_weights_of_one_process_also_if_one_is_killed():
    kills = []

    def kill_one(training):
        if not kills and training.counts.env_steps > 100:
            kills.append(next(iter(training.source._collector._backend._processes.values())).pid)
            os.kill(kills[0], signal.SIGKILL)

    disturbed = train(tiny(workers=1), on_epoch=None, on_step=kill_one)
    assert kills
    assert_same_results(disturbed, trained("local", workers=1))
