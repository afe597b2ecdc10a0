"""Mistakes of a collector's users: each raises an error of one clear sentence."""

import sys
import threading

import numpy as np
import pytest

from her_wrappers.collecting import Collector, CollectorError
from tests.support.collecting import Noisy, Walk, disabled_walks, still

SHARED = Walk()

MISTAKES = [
    ({"num_workers": 0}, ValueError, "num_workers must be an integer >= 1, got 0"),
    ({"backend": "mpi"}, ValueError, "backend must be one of .*, got 'mpi'"),
    ({"address": "auto"}, ValueError, "address='auto' needs backend='ray'"),
    ({"info_keys": "place"}, TypeError, "info_keys must be a list of strings"),
    ({"fresh_envs": 1}, TypeError, "fresh_envs must be True or False, got 1"),
    ({"policy": threading.Lock().acquire}, TypeError, "policy must be picklable"),
    ({"make_env": Walk()}, TypeError, "make_env must be a function of no arguments"),
]


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES)
def test_wrong_arguments_are_an_error_at_once(options, error, message):
    arguments = {"make_env": Walk, "policy": still} | options
    with pytest.raises(error, match=message):
        Collector(**arguments)


def raising():
    raise OSError("no license for the simulator")


LATE = [
    ({"make_env": raising}, "worker 0 failed 3 times in round 0.*OSError: no license for the simulator"),
    ({"make_env": list}, "make_env must return a gymnasium.Env or a VectorEnv, got list"),
    ({"make_env": disabled_walks, "num_envs": 3}, r"num_envs must be 2 \(.*\) or None, got 3"),
    ({"make_env": lambda: SHARED, "num_envs": 2}, "environments 0 and 1 .* the same Walk"),
    ({"info_keys": ["cost"]}, "worker 0 failed 3 times in round 0.*'cost'"),
    (
        {"policy": lambda observations: np.zeros((1, 2))},
        r"the policy must return an action of .*, got an array of shape \(1, 2\)",
    ),
]


@pytest.mark.parametrize(("options", "message"), LATE)
def test_what_only_workers_can_find_is_an_error_of_the_first_round(options, message):
    arguments = {"make_env": Walk, "policy": still} | options
    with Collector(**arguments) as collector, pytest.raises(CollectorError, match=message):
        next(collector.rounds())


def test_wrong_arguments_of_methods_are_errors():
    with Collector(Walk, still) as collector:
        with pytest.raises(TypeError, match=r"policy with the method load_state_dict\(state\)"):
            collector.update({})
        for episodes in (0, 1.5):
            with pytest.raises(ValueError, match="episodes_per_env must be a"):
                next(collector.rounds(episodes))
    with Collector(Walk, Noisy()) as collector, pytest.raises(TypeError, match="state must be picklable"):
        collector.update(threading.Lock())


def test_without_ray_its_backend_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install \"her-toolkit\[ray\]\""):
        Collector(Walk, still, backend="ray")
