"""The Ray backend: the same episodes as in one process, on a cluster that loses workers and nodes."""

import socket

import pytest

from her_wrappers.collecting import Collector
from her_wrappers.collecting.ray_backend import init_ray
from tests.support.collecting import Noisy, Slow, Walk, assert_same_rounds, collect, collect_with_updates
from tests.support.ray_cluster import connect, three_nodes

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

SETTINGS = {"num_envs": 3, "seed": 7, "info_keys": ["place"]}


@pytest.fixture(autouse=True)
def disconnected():
    ray.shutdown()


def kill_actor(collector, number):
    actors = collector._backend._actors
    ray.kill(actors[number % len(actors)])


@pytest.fixture
def unused_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_ray_that_the_collector_starts_returns_the_episodes_of_one_process(unused_address, monkeypatch):
    """Another Ray on this machine, to which `ray start --head` has written an address, is not used."""
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda *_: unused_address)
    with Collector(Slow, Noisy(), backend="ray", **SETTINGS) as collector:
        rounds = collect_with_updates(collector, 2, disturb=lambda number: kill_actor(collector, number))
    assert not ray.is_initialized(), "the collector shuts down the Ray that it started"
    assert_same_rounds(rounds, collect("local", 2, num_workers=1))
    rounds[0].observations[:] = 0  # raises if the array is read-only


@pytest.mark.campaign
def test_killed_actors_and_a_lost_node_change_no_episode(monkeypatch):
    with three_nodes() as cluster:
        ray.shutdown()
        with monkeypatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            with Collector(Walk, Noisy(), backend="ray", **SETTINGS) as collector:
                next(collector.rounds())
                assert len(ray.nodes()) == 3, "the environment variable of Ray is an address"
        connect(cluster)
        with Collector(Slow, Noisy(), backend="ray", num_workers=3, **SETTINGS) as collector:

            def disturb(number):
                if number == 1:
                    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
                else:
                    kill_actor(collector, number)

            rounds = collect_with_updates(collector, 3, disturb=disturb)
        assert ray.is_initialized(), "a Ray that the program initialized is not shut down"
    assert_same_rounds(rounds, collect("local", 3, num_workers=3))


def test_a_ray_that_the_program_has_initialized_is_used(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    assert init_ray("auto", 1) == (ray, False)


def test_a_cluster_that_answers_is_used_or_its_error_is_named(monkeypatch):
    used = []
    monkeypatch.setattr(ray, "init", lambda **options: used.append(options["address"]))
    assert init_ray("auto", 1) == (ray, True)
    assert used == ["auto"]
    monkeypatch.setattr(ray, "init", lambda **options: 1 / 0)
    with pytest.raises(ConnectionError, match=r"cannot connect to a Ray cluster .*zero"):
        init_ray("auto", 1)
