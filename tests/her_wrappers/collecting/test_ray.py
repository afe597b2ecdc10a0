"""The Ray backend: the same episodes as in one process, on a cluster that loses workers and nodes."""

import socket
import time

import pytest

from her_wrappers.collecting import Collector
from tests.support.collecting import (
    Noisy,
    Slow,
    Walk,
    assert_same_rounds,
    collect,
    collect_with_updates,
    still,
)
from tests.support.ray_cluster import connect, three_nodes

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

SETTINGS = {"num_envs": 3, "seed": 7, "info_keys": ["place"]}


def test_killed_actors_and_a_lost_node_change_no_episode(monkeypatch):
    """One test, since starting three nodes takes seconds."""
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
                    ray.kill(collector._backend._actors[number % 3])

            rounds = collect_with_updates(collector, 3, disturb=disturb)
        assert ray.is_initialized(), "a Ray that the program initialized is not shut down"
    assert_same_rounds(rounds, collect("local", 3, num_workers=3))
    rounds[0].observations[:] = 0  # raises if the array is read-only


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("is_argument", [True, False])
def test_an_address_that_nobody_answers_is_an_error_within_seconds(is_argument, monkeypatch):
    """The address is an argument, or Ray's environment variable."""
    ray.shutdown()
    address = f"127.0.0.1:{unused_port()}"
    if not is_argument:
        monkeypatch.setenv("RAY_ADDRESS", address)
    started = time.monotonic()
    with pytest.raises(ConnectionError, match=f"no Ray cluster answers at '{address}'"):
        Collector(Walk, still, backend="ray", address=address if is_argument else None)
    assert time.monotonic() - started < 60, "Ray itself waits longer"


def test_another_ray_on_this_machine_is_not_used_without_an_address(monkeypatch):
    ray.shutdown()
    other = f"127.0.0.1:{unused_port()}"  # as if `ray start --head` had written this address
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda *_: other)
    assert_same_rounds(collect("ray", 1), collect("local", 1))
    assert not ray.is_initialized(), "the collector shuts down the Ray that it started"
