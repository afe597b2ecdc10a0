"""relabel_episode on episodes whose values identify episode and step."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers import Episode, Geometric, Mixture, relabel_episode
from tests.support.chi_square import assert_proportional
from tests.support.counting import ACTIONS, COUNTS, World, compute_reward, counting_episode
from tests.support.expected_buffer import STATES, ExpectedBuffer, halfway


def relabeled(episode, strategy="future", n_sampled_goal=4, reward=compute_reward, seed=0, **options):
    return relabel_episode(episode, strategy, n_sampled_goal, reward, np.random.default_rng(seed), **options)


TERMINATIONS = "success", "keep", "never", None


@pytest.mark.parametrize("termination", TERMINATIONS)
@pytest.mark.parametrize("strategy", [*(name for name in STATES if name != "halfway"), halfway])
@given(sizes=st.tuples(st.integers(1, 9), st.integers(1, 6)), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=4)
def test_every_copy_is_explained_by_the_oracle(strategy, termination, sizes, seed):
    """Copies have the rewards and flags that sampled rows with the same step and goal have."""
    (length, copies), number = sizes, seed % 30
    world = World(COUNTS, COUNTS, ACTIONS, None if termination == "success" else "infos")
    every_row = Mixture({strategy: 1, "original": 0})
    asked = {"goal_selection_strategy": every_row, "termination": termination, "gamma": 0.5}
    oracle = ExpectedBuffer(world, buffer_size=9, **asked)
    oracle.add_episode(episode := world.episode(number, length))
    options = {"termination": termination or world.terminated, "gamma": 0.5, "seed": seed}
    batch = relabeled(episode, strategy, copies, world.reward, **options)
    assert batch.index.tolist() == [t for t in range(length) for _ in range(copies)]
    oracle.check_batch(batch, length * copies)  # also that no two arrays share memory


def test_an_episode_that_ended_at_its_goal_gives_the_warning_of_the_buffer():
    episode = counting_episode(0, 3, terminated=True)
    episode.observations["desired_goal"][:] = [0, 3]
    with pytest.warns(UserWarning, match='an episode terminated at its goal.*pass termination="success"'):
        relabeled(episode)
    relabeled(episode, termination="keep")
    relabeled(counting_episode(0, 3, terminated=True))


DESIRED_GOALS = np.array([[8.0, 1.0], [9.0, 2.0], [0.0, 2.0]])


def test_each_component_of_a_mixture_has_its_share_and_distribution_at_every_step():
    mixture = Mixture({"desired": 0.2, Geometric(0.5): 0.5, "final": 0.3})
    batch = relabeled(counting_episode(0, 4), mixture, 3000, desired_goals=DESIRED_GOALS, termination="never")
    columns = batch.index, batch.strategy, batch.goal_index
    counts = Counter(zip(*(column.tolist() for column in columns), strict=True))
    odds = {(t, "desired", 4 + i): 0.2 / 3 for t in range(4) for i in range(3)}
    odds |= {(t, "final", 3): 0.3 for t in range(4)}
    for t in range(4):
        ahead = {goal: 0.5 ** (goal - t) for goal in range(t, 4)}
        name, total = repr(Geometric(0.5)), sum(ahead.values())
        odds |= {(t, name, goal): 0.5 * odd / total for goal, odd in ahead.items()}
    assert counts.keys() == odds.keys()
    assert_proportional(counts, odds)
    desired = batch.strategy == "desired"
    for observations in (batch.observations, batch.next_observations):
        given_goals = DESIRED_GOALS[batch.goal_index[desired] - 4]
        np.testing.assert_array_equal(observations["desired_goal"][desired], given_goals)
    achieved = (batch.goal_index == 6) & (batch.index == 1) & desired
    np.testing.assert_array_equal((batch.rewards == 0)[desired], achieved[desired])


def test_given_desired_goals_do_not_change_other_strategies_and_equal_generators_give_equal_goals():
    episode = counting_episode(0, 9)
    goals = [relabeled(episode, **options).goal_index for options in ({}, {"desired_goals": DESIRED_GOALS})]
    np.testing.assert_array_equal(*goals)
    assert (relabeled(episode, seed=1).goal_index != goals[0]).any()


GROWN = np.arange(4)
NESTED = {"place": (GROWN / 4).astype(np.float32), "open": GROWN % 2}


def relabeled_nested(desired_goals=None, strategy="desired", goals=NESTED):
    observations = {"observation": GROWN.astype(np.int16), "achieved_goal": goals, "desired_goal": goals}
    actions = (np.float16([0, 1, 2]), np.int8([3, 4, 5]))
    infos = {"cost": np.array([1.0, 2.0, 3.0])}
    episode = Episode(observations, actions, np.zeros(3), terminated=False, truncated=True, infos=infos)
    reward = lambda achieved, desired, infos: np.array([info["cost"] for info in infos])  # noqa: E731
    return relabeled(episode, strategy, 50, reward, desired_goals=desired_goals)


def test_nested_goals_and_actions_keep_their_dtypes_and_rewards_get_infos():
    """The order of the keys and the dtypes of the given goals have no effect."""
    batch = relabeled_nested({"open": [5, 6, 7], "place": np.array([0.5, 0.625, 0.75])})
    goals, rows = batch.observations["desired_goal"], batch.goal_index - 3
    assert {key: goal.dtype for key, goal in goals.items()} == {"place": np.float32, "open": np.int64}
    np.testing.assert_array_equal(goals["open"], rows + 5)
    np.testing.assert_array_equal(goals["place"], 0.5 + rows / 8)
    assert batch.observations["observation"].dtype == np.int16
    assert [part.dtype for part in batch.actions] == [np.float16, np.int8]
    np.testing.assert_array_equal(batch.actions[1], 3 + batch.index)
    np.testing.assert_array_equal(batch.rewards, 1 + batch.index)
    final = relabeled_nested(strategy="final")
    assert (final.next_observations["desired_goal"]["place"] == 0.75).all()


BAD_GOALS = [
    (np.zeros((2, 2)), "desired_goals/.* is missing"),
    ({"place": np.zeros(0), "open": np.zeros(0)}, "at least one row"),
    ({"place": np.zeros(2), "open": np.zeros((2, 1))}, "desired_goals/open .*shape"),
    ({"place": np.zeros(2), "open": np.zeros(3)}, "desired_goals/.* must have shape"),
]


@pytest.mark.parametrize(("desired_goals", "words"), BAD_GOALS)
def test_desired_goals_of_another_form_are_an_error(desired_goals, words):
    with pytest.raises(ValueError, match=words):
        relabeled_nested(desired_goals)


PLAIN = Episode(np.zeros(3), np.zeros(2), np.zeros(2), terminated=False, truncated=True)
RARELY = Mixture({"final": 1 - 1e-6, "random": 1e-6})
BAD_ARGUMENTS = [
    ({"strategy": "random"}, ValueError, "'random' takes goals from other episodes.*use another"),
    ({"strategy": "desired"}, ValueError, "pass desired_goals="),
    ({"strategy": RARELY, "desired_goals": np.zeros((3, 2))}, ValueError, "'random'"),
    ({"strategy": Mixture({"final": 0.5, "original": 0.5})}, ValueError, "share of relabeled rows"),
    ({"strategy": lambda t, length, rng: t * 0}, ValueError, "got 0 for step 0"),
    ({"termination": "recompute"}, ValueError, "needs compute_terminated"),
    ({"termination": lambda a, d, i: False}, ValueError, "termination must return bools of shape"),
    ({"n_sampled_goal": 0}, ValueError, "n_sampled_goal"),
    ({"episode": PLAIN}, ValueError, "ndarray"),
    ({"episode": replace(PLAIN, observations={"observation": np.zeros(3)})}, ValueError, "'observation'"),
    ({"episode": {}}, TypeError, "dict"),
]


@pytest.mark.parametrize(("options", "error", "word"), BAD_ARGUMENTS)
def test_a_bad_argument_is_an_error(options, error, word):
    with pytest.raises(error, match=word):
        relabeled(**{"episode": counting_episode(0, 3)} | options)
    with pytest.raises(TypeError, match="default_rng"):
        relabel_episode(counting_episode(0, 3), "future", 4, compute_reward, 0)
