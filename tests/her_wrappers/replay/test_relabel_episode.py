"""relabel_episode on episodes whose every value tells where it is from."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers import Episode, Geometric, relabel_episode
from tests.counting import compute_reward, compute_terminated, counting_episode

pytestmark = pytest.mark.arrays_only("no buffer is in it")

SETS = {
    "future": lambda t, length: range(t + 1, length + 1),
    "final": lambda t, length: [length],
    "episode": lambda t, length: range(1, length + 1),
    "geometric": lambda t, length: range(t + 1, length + 1),
}


def relabeled(episode, strategy="future", n_sampled_goal=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    return relabel_episode(episode, strategy, n_sampled_goal, compute_reward, rng, **options)


@pytest.mark.parametrize("strategy", SETS)
@given(length=st.integers(1, 9), copies=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_every_copy_is_a_step_with_a_goal_of_its_set(strategy, length, copies, seed):
    batch = relabeled(counting_episode(3, length), strategy, copies, seed)
    assert batch.index.tolist() == [t for t in range(length) for _ in range(copies)]
    assert batch.relabeled.all()
    assert set(batch.strategy) == {strategy}
    assert not batch.episode.any()
    for i, t in enumerate(batch.index):
        state = batch.goal_index[i] + 1
        assert state in SETS[strategy](t, length)
        for observations, at in ((batch.observations, t), (batch.next_observations, t + 1)):
            assert observations["observation"][i].tolist() == [3, at]
            assert observations["achieved_goal"][i].tolist() == [3, at]
            assert observations["desired_goal"][i].tolist() == [3, state]
        assert batch.rewards[i] == (0 if state == t + 1 else -1)
        assert batch.actions[i].tolist() == [3 + t / 1000]


def test_all_goals_of_the_set_come_up():
    batch = relabeled(counting_episode(0, 4), Geometric(0.5), n_sampled_goal=200)
    assert {(int(t), int(s)) for t, s in zip(batch.index, batch.goal_index, strict=True)} == {
        (t, s - 1) for t in range(4) for s in range(t + 1, 5)
    }


@pytest.mark.parametrize("crashed", [False, True])
def test_copies_terminate_by_their_goals_or_by_another_reason(crashed):
    episode = counting_episode(0, 4, terminated=crashed, truncated=not crashed)
    batch = relabeled(episode, n_sampled_goal=20, compute_terminated=compute_terminated)
    reached = batch.goal_index == batch.index
    np.testing.assert_array_equal(batch.terminations, reached | ((batch.index == 3) & crashed))
    np.testing.assert_array_equal(batch.truncations, (batch.index == 3) & (not crashed))
    np.testing.assert_array_equal(batch.discounts, np.where(batch.terminations, 0, np.float32(0.99)))
    kept = relabeled(episode, n_sampled_goal=20, gamma=0.5)
    np.testing.assert_array_equal(kept.discounts, np.where(kept.terminations, 0, np.float32(0.5)))
    assert kept.discounts.dtype == batch.discounts.dtype == np.float32
    np.testing.assert_array_equal(kept.terminations, (kept.index == 3) & crashed)


def test_rewards_may_read_the_infos_of_their_steps():
    episode = counting_episode(0, 3, infos={"cost": np.array([1.0, 2.0, 3.0])})
    batch = relabel_episode(
        episode,
        "final",
        2,
        lambda a, d, infos: np.array([info["cost"] for info in infos]),
        np.random.default_rng(0),
    )
    assert batch.rewards.tolist() == [1, 1, 2, 2, 3, 3]


def test_a_batch_has_memory_of_its_own():
    episode = counting_episode(0, 3)
    batch = relabeled(episode, "final", 1)
    batch.observations["desired_goal"][:] = 77
    assert (batch.next_observations["desired_goal"] != 77).all()
    assert (episode.observations["achieved_goal"] != 77).all()


PLAIN = Episode(np.zeros(3), np.zeros(2), np.zeros(2), terminated=False, truncated=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "random"}, "strategy must choose within the episode, got 'random', which needs others"),
        ({"strategy": "futur"}, "unknown goal_selection_strategy 'futur'; choose from"),
        ({"n_sampled_goal": 0}, "n_sampled_goal must be a whole number >= 1, got 0"),
        ({"gamma": 1.5}, "gamma must lie in (0, 1], got 1.5"),
        (
            {"episode": PLAIN},
            "an episode to relabel must have the observations ['achieved_goal', 'desired_goal'",
        ),
        (
            {"compute_terminated": lambda a, d, i: False},
            "compute_terminated must return shape (1,) for as many goals, got ();",
        ),
    ],
)
def test_a_bad_argument_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        relabeled(**{"episode": counting_episode(0, 3)} | options)
