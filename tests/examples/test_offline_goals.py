"""The example of offline learning: its goals, and a short run."""

import numpy as np
import pytest

from examples.offline_goals import ENV_ID, GAMMA, VALUE_GOALS, fill, gym, main, record_episodes, train
from her_agents.training.evaluation import evaluate


@pytest.fixture(name="play", scope="module")
def record_some_play(tmp_path_factory):
    return record_episodes(tmp_path_factory.mktemp("archives") / "play", 30, seed=0)


def test_value_goals_have_their_shares_and_next_states_are_successes(play):
    batch = fill(play, 0, VALUE_GOALS).sample(20_000)
    names, counts = np.unique(batch.strategy, return_counts=True)
    shares = dict(zip(names.tolist(), counts / 20_000, strict=True))
    assert shares == pytest.approx(
        {"next_state": 0.2, f"Geometric(gamma={GAMMA})": 0.5, "random": 0.3}, abs=1e-3
    )
    at_once = batch.strategy == "next_state"
    assert (batch.rewards[at_once] == 0).all()
    assert batch.terminations[at_once].all()
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 0)
    assert (batch.goal_index >= batch.index)[batch.strategy != "random"].all()


def test_equal_seeds_record_equal_episodes_that_explore_the_maze(tmp_path, play):
    again = record_episodes(tmp_path / "again", 30, seed=0)
    other = record_episodes(tmp_path / "other", 30, seed=1)
    actions = [np.concatenate([episode.actions for episode in each]) for each in (play, again, other)]
    np.testing.assert_array_equal(actions[0], actions[1])
    assert (actions[0] != actions[2]).any()
    distances = [np.ptp(episode.observations["observation"], axis=0).max() for episode in play]
    assert np.mean(distances) > 1.5


def test_prints_a_table_of_success_rates(tmp_path, capsys):
    main(quick=True, archive=tmp_path / "play")
    output = capsys.readouterr().out
    for text in ("relabeled goals", "recorded goals", "random actions", "280 recorded steps"):
        assert text in output
    assert (tmp_path / "play").is_dir()


@pytest.mark.campaign
def test_learns_with_relabeled_goals_and_not_without(tmp_path):
    play = record_episodes(tmp_path / "play", 200, seed=0)
    rates = {
        relabel: evaluate(gym.make(ENV_ID), train(play, 1000, 0, relabel=relabel).act, 100, 7).success_rate
        for relabel in (True, False)
    }
    assert rates[True] > 0.5
    assert rates[False] < 0.3
