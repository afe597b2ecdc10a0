"""The example with cpprb: it learns with cpprb, and names the missing package without it."""

import sys
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest

from examples.relabel_for_cpprb import ENV_ID, main, make_replay, store, store_copies, train
from her_agents.training.evaluation import evaluate
from her_wrappers import EpisodeRecorder, GoalInterface

needs_cpprb = pytest.mark.skipif(find_spec("cpprb") is None, reason="cpprb is not installed")


def test_without_cpprb_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cpprb", None)
    with pytest.raises(ImportError, match=r"examples.relabel_for_cpprb needs cpprb; run: pip install cpprb"):
        main(episodes=1)


@needs_cpprb
@pytest.mark.filterwarnings("ignore")
def test_buffer_contains_the_episode_and_its_copies():
    env = gym.make(ENV_ID, n_bits=4)
    episodes = []
    recorder = EpisodeRecorder(env, episodes.append)
    recorder.reset(seed=0)
    while not episodes:
        recorder.step(0)
    replay = make_replay(4)
    store(replay, episodes[0])
    store_copies(replay, episodes[0], GoalInterface.of(env), np.random.default_rng(0))
    rows = replay.get_all_transitions()
    assert len(rows["rew"]) == len(episodes[0]) * 5
    reached = (rows["next_obs"] == rows["goal"]).all(axis=1)
    assert (rows["rew"][:, 0] == reached - 1.0).all()
    assert (rows["done"][:, 0] == reached).all()
    assert reached.any()


@needs_cpprb
@pytest.mark.filterwarnings("ignore")
def test_learns_with_the_copies_and_not_without():
    env = gym.make(ENV_ID, n_bits=8)
    rates = {her: evaluate(env, train(8, 500, 0, her=her).act, 100, 7).success_rate for her in (True, False)}
    assert rates[True] > 0.8
    assert rates[False] < 0.2


@needs_cpprb
@pytest.mark.filterwarnings("ignore")
def test_prints_success_rates(capsys):
    main(bits=3, episodes=5)
    output = capsys.readouterr().out
    for text in ("with HER", "without HER"):
        assert text in output
    assert output.count("success rate of the greedy policy") == 2
