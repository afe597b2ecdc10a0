"""The Ray backend: the same episodes as in one process, on a cluster that loses workers and nodes."""

from __future__ import annotations

import os
import signal
import socket
import time

import numpy as np
import pytest

from her_agents.loop import train
from her_wrappers.collecting import Collector
from tests.support.collecting import (
    Noisy,
    Slow,
    Walk,
    assert_same_rounds,
    collect,
    collect_with_updates,
    gain_of,
    still,
)
from tests.support.ray_cluster import LOOPBACK, one_node, three_nodes
from tests.support.trainings import same, tiny

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

LONGER = {"num_envs": 8, "steps": 6_000, "steps_per_epoch": 1_000}

SETTINGS = {"num_envs": 3, "seed": 7, "info_keys": ["place"]}


@pytest.fixture(scope="module")
def one_ray():
    with one_node():
        yield


@pytest.mark.usefixtures("one_ray")
class TestOneMachine:
    """Tests that share one Ray instance, since starting Ray takes seconds."""

    @pytest.mark.parametrize("num_workers", [1, 2, 4])
    def test_ray_returns_the_episodes_of_one_process_bit_for_bit(self, num_workers):
        assert_same_rounds(collect("ray", num_workers=num_workers), collect("local", num_workers=num_workers))
        assert ray.is_initialized(), "a Ray that the program initialized is not shut down"

    def test_killed_actors_change_no_episode(self):
        rng = np.random.default_rng(0)
        with Collector(Slow, Noisy(), backend="ray", num_workers=2, **SETTINGS) as collector:

            def kill(number):
                actors = list(collector._backend._actors.values())
                ray.kill(actors[rng.integers(len(actors))])

            rounds = collect_with_updates(collector, 5, disturb=kill)
        assert_same_rounds(rounds, collect("local", 5))

    def test_episodes_own_their_memory(self):
        with Collector(Walk, Noisy(), backend="ray", **SETTINGS) as collector:
            episodes = next(collector.rounds()).episodes
        episodes.observations[:] = 0  # raises if the array is read-only


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_an_address_that_nobody_answers_is_an_error_within_seconds():
    ray.shutdown()
    address = f"127.0.0.1:{unused_port()}"
    started = time.monotonic()
    with pytest.raises(
        ConnectionError, match=f"no Ray cluster answers at '{address}' .*; start one with: ray"
    ):
        Collector(Walk, still, backend="ray", address=address)
    assert time.monotonic() - started < 60, "Ray itself waits longer"


def test_another_ray_on_this_machine_is_not_used_without_an_address(monkeypatch):
    ray.shutdown()
    other = f"127.0.0.1:{unused_port()}"  # as if `ray start --head` had written this address
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda *_: other)
    assert_same_rounds(collect("ray", 2), collect("local", 2))
    assert not ray.is_initialized(), "the collector shuts down the Ray that it started"


@pytest.fixture
def cluster():
    with three_nodes() as nodes:
        yield nodes


def test_a_lost_node_changes_no_episode(cluster):
    settings = {**SETTINGS, "num_workers": 3}
    with Collector(Slow, Noisy(), backend="ray", **settings) as collector:
        collected = []
        for each in collector.rounds(2):
            collected.append(each.episodes)
            collector.update(gain_of(each.episodes))
            if each.number == 1:
                cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            if each.number == 4:
                break
    assert_same_rounds(collected, collect("local", 5, num_workers=3))


def test_the_environment_variable_of_ray_is_an_address(cluster, monkeypatch):
    ray.shutdown()
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with Collector(Walk, Noisy(), backend="ray", **SETTINGS) as collector:
        next(collector.rounds())
        assert len(ray.nodes()) == 3


class Actors:
    """Process ids of the actors of a training, which are known when an actor has executed its first tasks."""

    def __init__(self):
        self._pids = {}

    def kill_one(self, training, rng):
        """Send SIGKILL to the process of a random actor; return whether one was running."""
        actors = training._collector._backend._actors.values()
        for actor in actors:
            if actor not in self._pids:
                self._pids[actor] = actor.__ray_call__.remote(lambda _: os.getpid())
        ready, _ = ray.wait([self._pids[actor] for actor in actors], num_returns=len(actors), timeout=0)
        try:
            os.kill(ray.get(ready[rng.integers(len(ready))]), signal.SIGKILL)
        except (ProcessLookupError, ValueError, ray.exceptions.RayError):  # lost, or not started yet
            return False
        return True


@pytest.mark.campaign
def test_five_lost_nodes_and_twenty_killed_actors_change_no_weight():
    """A DQN is trained; a new node replaces each lost one."""
    expected = train(tiny(workers=3, **LONGER), on_epoch=None, backend="local")
    rng, actors, faults = np.random.default_rng(0), Actors(), {"nodes": 0, "actors": 0}
    with three_nodes() as nodes:

        def disturb(training):
            if rng.random() < 0.3:
                faults["actors"] += actors.kill_one(training, rng)
            if rng.random() < 0.1:
                nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)
                nodes.add_node(num_cpus=2, node_ip_address=LOOPBACK)
                faults["nodes"] += 1

        while faults["nodes"] < 5 or faults["actors"] < 20:
            result = train(tiny(workers=3, **LONGER), on_epoch=None, on_step=disturb, backend="ray")
            assert same(result.agent.state_dict(), expected.agent.state_dict())
