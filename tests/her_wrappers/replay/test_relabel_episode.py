"""relabel_episode on episodes whose values identify episode and step."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from her_wrappers import Episode, Geometric, Mixture, relabel_episode
from tests.support.counting import compute_reward, compute_terminated, counting_buffer, counting_episode

pytestmark = pytest.mark.arrays_only("relabel_episode needs no buffer")

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


def test_all_goals_of_the_set_are_sampled():
    batch = relabeled(counting_episode(0, 4), Geometric(0.5), n_sampled_goal=200)
    assert {(int(t), int(s)) for t, s in zip(batch.index, batch.goal_index, strict=True)} == {
        (t, s - 1) for t in range(4) for s in range(t + 1, 5)
    }


@pytest.mark.parametrize("crashed", [False, True])
def test_copies_terminate_by_their_goal_or_as_the_crash_that_they_copy(crashed):
    episode = counting_episode(0, 4, terminated=crashed, truncated=not crashed)
    batch = relabeled(episode, n_sampled_goal=20, termination=compute_terminated)
    reached = batch.goal_index == batch.index
    np.testing.assert_array_equal(batch.terminations, reached | ((batch.index == 3) & crashed))
    np.testing.assert_array_equal(batch.truncations, (batch.index == 3) & (not crashed))
    np.testing.assert_array_equal(batch.discounts, np.where(batch.terminations, 0, np.float32(0.99)))
    kept = relabeled(episode, n_sampled_goal=20, gamma=0.5)
    np.testing.assert_array_equal(kept.discounts, np.where(kept.terminations, 0, np.float32(0.5)))
    assert kept.discounts.dtype == batch.discounts.dtype == np.float32
    np.testing.assert_array_equal(kept.terminations, (kept.index == 3) & crashed)


TERMINATIONS = {"function": compute_terminated, "success": "success", "keep": "keep", "never": "never"}


@pytest.mark.parametrize("termination", TERMINATIONS)
@pytest.mark.parametrize("end", ["crash", "goal", "moved goal", "limit"])
def test_copies_are_what_the_buffer_samples(termination, end):
    """Relabeled copies have the same rewards and terminations as sampled rows with the same step and goal."""
    episode = counting_episode(7, 5, terminated=end != "limit")
    if "goal" in end:
        episode.observations["desired_goal"][-1 if end == "moved goal" else 0 :] = [7, 5]
        episode.rewards[-1] = 0
    rule = TERMINATIONS[termination]
    buffer = counting_buffer(
        her_ratio=1.0, goal_selection_strategy="episode", termination=rule, compute_terminated=None
    )
    buffer.add_episode(episode)
    expected = facts(buffer.sample(1000))
    assert facts(relabeled(episode, "episode", 60, termination=rule)) == expected
    assert len(expected) == 5 * 5


def facts(batch):
    """Return the reward and termination of each step under each goal."""
    ends = zip(batch.rewards, batch.terminations, batch.truncations, batch.relabeled, strict=True)
    keys = zip(batch.index.tolist(), batch.goal_index.tolist(), batch.strategy.tolist(), strict=True)
    return {(key, tuple(end)) for key, end in zip(keys, ends, strict=True)}


def test_an_episode_that_ended_at_its_goal_gives_the_warning_of_the_buffer():
    episode = counting_episode(0, 3, terminated=True)
    episode.observations["desired_goal"][:] = [0, 3]
    with pytest.warns(UserWarning, match='an episode terminated at its goal.*pass termination="success"'):
        relabeled(episode)
    relabeled(episode, termination="keep")
    relabeled(counting_episode(0, 3, terminated=True))


MIXTURE = {"final": 0.5, "future": 0.3, lambda t, length, rng: np.ones_like(t): 0.2}


def test_each_component_of_a_mixture_has_its_share_at_every_step():
    batch = relabeled(counting_episode(0, 4), Mixture(MIXTURE), n_sampled_goal=3000)
    for t in range(4):
        counts = [((batch.strategy == name) & (batch.index == t)).sum() for name in ("final", "future")]
        counts.append(3000 - sum(counts))
        assert chisquare(counts, [1500, 900, 600]).pvalue > 1e-4
    states = batch.goal_index + 1
    assert set(states[batch.strategy == "final"]) == {4}
    assert (states > batch.index)[batch.strategy == "future"].all()
    assert set(states[batch.strategy == "<lambda>"]) == {1}


def test_goals_are_sampled_with_their_probabilities():
    batch = relabeled(counting_episode(0, 4), Geometric(0.5), n_sampled_goal=7000)
    ahead = (batch.goal_index - batch.index)[batch.index == 1]
    assert chisquare(np.bincount(ahead), [4000, 2000, 1000]).pvalue > 1e-4


DESIRED_GOALS = np.array([[8.0, 1.0], [9.0, 2.0], [0.0, 2.0]])


def test_desired_goals_are_sampled_from_the_given_ones():
    batch = relabeled(
        counting_episode(0, 4),
        "desired",
        n_sampled_goal=3000,
        desired_goals=DESIRED_GOALS,
        termination="never",
    )
    assert set(batch.strategy) == {"desired"}
    rows = batch.goal_index - 4
    for observations in (batch.observations, batch.next_observations):
        np.testing.assert_array_equal(observations["desired_goal"], DESIRED_GOALS[rows])
    np.testing.assert_array_equal(batch.rewards == 0, (rows == 2) & (batch.index == 1))
    for t in range(4):
        assert chisquare(np.bincount(rows[batch.index == t])).pvalue > 1e-4


def test_a_mixture_combines_achieved_and_desired_goals():
    mixture = Mixture({"desired": 0.25, "final": 0.75})
    batch = relabeled(counting_episode(0, 4), mixture, 1000, desired_goals=DESIRED_GOALS)
    desired = batch.strategy == "desired"
    assert chisquare([desired.sum(), (~desired).sum()], [1000, 3000]).pvalue > 1e-4
    assert (batch.goal_index[~desired] == 3).all()
    assert (batch.observations["desired_goal"][~desired] == [0, 4]).all()
    np.testing.assert_array_equal(
        batch.observations["desired_goal"][desired], DESIRED_GOALS[batch.goal_index[desired] - 4]
    )


def test_given_desired_goals_do_not_change_other_strategies():
    without, given = (
        relabeled(counting_episode(0, 9), **options) for options in ({}, {"desired_goals": DESIRED_GOALS})
    )
    np.testing.assert_array_equal(without.goal_index, given.goal_index)


def nested_episode():
    grown = np.arange(4)
    goals = {"place": (grown / 4).astype(np.float32), "open": grown % 2}
    observations = {"observation": grown, "achieved_goal": goals, "desired_goal": goals}
    return Episode(observations, grown[:3], np.zeros(3), terminated=False, truncated=True)


def relabeled_nested(desired_goals):
    reward = lambda achieved, desired, infos: achieved["place"] - desired["place"]  # noqa: E731
    rng = np.random.default_rng(0)
    return relabel_episode(nested_episode(), "desired", 50, reward, rng, desired_goals=desired_goals)


def test_desired_goals_of_several_parts_keep_their_dtypes():
    """The order of the keys and the dtypes of the given goals have no effect."""
    batch = relabeled_nested({"open": [5, 6, 7], "place": np.array([0.5, 0.625, 0.75])})
    goals, rows = batch.observations["desired_goal"], batch.goal_index - 3
    assert {key: goal.dtype for key, goal in goals.items()} == {"place": np.float32, "open": np.int64}
    np.testing.assert_array_equal(goals["open"], rows + 5)
    np.testing.assert_array_equal(goals["place"], 0.5 + rows / 8)


@pytest.mark.parametrize(
    ("desired_goals", "message"),
    [
        (np.zeros((2, 2)), "desired_goals must consist of place, open, got an array"),
        ({"place": np.zeros(2)}, "desired_goals must consist of place, open, got place"),
        (
            {"place": np.zeros(2), "open": np.zeros((2, 1))},
            "desired_goals/open must have shape (2,), got (2, 1)",
        ),
        ({"place": 0.5, "open": np.zeros(2)}, "desired_goals/place must have shape (1,), got ()"),
        ({"place": "near", "open": np.zeros(2)}, "desired_goals/place must have shape (1,), got ()"),
        ({"place": ["near"], "open": [1]}, "desired_goals/place must hold numbers of dtype float32, got <U4"),
        (
            {"place": [0.1], "open": [1]},
            "desired_goals/place must have dtype float32, got float64 with values",
        ),
        (
            {"place": np.zeros(2), "open": np.zeros(3)},
            "desired_goals must have one number of rows, at least 1, got [2, 3]",
        ),
        (
            {"place": np.zeros(0), "open": np.zeros(0)},
            "desired_goals must have one number of rows, at least 1, got [0]",
        ),
    ],
)
def test_desired_goals_of_another_form_are_an_error(desired_goals, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        relabeled_nested(desired_goals)


def test_desired_goals_may_be_tuples():
    goals = (np.arange(4.0), np.arange(4))
    observations = {"observation": goals[0], "achieved_goal": goals, "desired_goal": goals}
    episode = Episode(observations, np.zeros(3), np.zeros(3), terminated=False, truncated=True)

    def copies(desired_goals):
        reward = lambda achieved, desired, infos: achieved[0] - desired[0]  # noqa: E731
        rng = np.random.default_rng(0)
        return relabel_episode(episode, "desired", 9, reward, rng, desired_goals=desired_goals)

    batch = copies((np.array([5.5, 6.5]), np.array([5, 6])))
    numbers, others = batch.observations["desired_goal"]
    assert set(numbers) == {5.5, 6.5}
    np.testing.assert_array_equal(others, numbers - 0.5)
    with pytest.raises(ValueError, match="desired_goals must consist of a tuple of 2, got a tuple of 3"):
        copies(goals + goals[:1])


def test_weights_of_copies_are_ones():
    weights = relabeled(counting_episode(0, 3)).weights
    assert weights.dtype == np.float32
    assert weights.tolist() == [1.0] * 12


def test_equal_generators_give_equal_goals():
    first, second, third = (relabeled(counting_episode(0, 9), seed=seed).goal_index for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != third).any()


def test_goals_and_actions_of_any_structure_keep_their_dtypes():
    grown = np.arange(4)
    goals = {"place": grown[:, None] / 3, "picture": np.tile(grown[:, None, None], (2, 2)).astype(np.uint8)}
    episode = Episode(
        {"observation": grown.astype(np.int16), "achieved_goal": goals, "desired_goal": goals},
        (np.float16([0, 1, 2]), np.int8([3, 4, 5])),
        np.zeros(3),
        terminated=False,
        truncated=True,
    )
    batch = relabel_episode(
        episode, "final", 2, lambda a, d, infos: a["place"][:, 0] - d["place"][:, 0], np.random.default_rng(0)
    )
    for observations in (batch.observations, batch.next_observations):
        assert (observations["desired_goal"]["place"] == 1.0).all()
        assert (observations["desired_goal"]["picture"] == 3).all()
        assert observations["desired_goal"]["place"].dtype == np.float64
        assert observations["desired_goal"]["picture"].dtype == np.uint8
        assert observations["observation"].dtype == np.int16
    assert [part.dtype for part in batch.actions] == [np.float16, np.int8]
    assert batch.actions[1].tolist() == [3, 3, 4, 4, 5, 5]
    np.testing.assert_allclose(batch.rewards, [-2 / 3, -2 / 3, -1 / 3, -1 / 3, 0, 0], rtol=1e-6)


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
        (
            {"strategy": "random"},
            "strategy must select states of the same episode, got 'random'; use another strategy",
        ),
        (
            {"strategy": "desired"},
            "strategy must select states of the same episode, got 'desired'; pass desired_goals=",
        ),
        (
            {"strategy": Mixture({"final": 1 - 1e-6, "random": 1e-6}), "desired_goals": np.zeros((3, 2))},
            "strategy must select states of the same episode, got 'random'",
        ),
        (
            {"strategy": Mixture({"final": 0.5, "original": 0.5})},
            "the relabeled share must be given once, got n_sampled_goal and Mixture with a share of",
        ),
        ({"strategy": lambda t, length, rng: t * 0}, "must return states in 1..length, got 0 at step 0"),
        ({"termination": "recompute"}, 'termination="recompute" needs compute_terminated'),
        ({"termination": "succes"}, "unknown termination 'succes'; choose from"),
        ({"strategy": "futur"}, "unknown goal_selection_strategy 'futur'; choose from"),
        ({"n_sampled_goal": 0}, "n_sampled_goal must be a whole number >= 1, got 0"),
        ({"gamma": 1.5}, "gamma must lie in (0, 1], got 1.5"),
        (
            {"episode": PLAIN},
            "an episode to relabel must have the observations "
            "['achieved_goal', 'desired_goal', 'observation'], got ndarray",
        ),
        (
            {"episode": replace(PLAIN, observations={"observation": PLAIN.observations})},
            "'observation'], got ['observation']",
        ),
        (
            {"termination": lambda a, d, i: False},
            "compute_terminated must return shape (12,) for 12 goals, got ();",
        ),
    ],
)
def test_a_bad_argument_is_an_error_at_once(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        relabeled(**{"episode": counting_episode(0, 3)} | options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episode": {}}, "relabel_episode takes an Episode, got dict"),
        (
            {"compute_reward": None},
            "compute_reward must be a function of (achieved_goal, desired_goal, info)",
        ),
        ({"rng": 0}, "rng must be a numpy.random.Generator, got 0; use np.random.default_rng(seed)"),
        ({"strategy": 3}, "goal_selection_strategy must be a name, a function or a Mixture, got 3"),
    ],
)
def test_an_argument_of_another_type_is_an_error_at_once(arguments, message):
    right = {
        "episode": counting_episode(0, 3),
        "strategy": "future",
        "n_sampled_goal": 4,
        "compute_reward": compute_reward,
        "rng": np.random.default_rng(0),
    }
    with pytest.raises(TypeError, match=re.escape(message)):
        relabel_episode(**right | arguments)


@pytest.mark.parametrize("name", ["compute_reward", "compute_terminated"])
def test_an_exception_in_a_function_has_a_note_with_its_name(name):
    def writing(achieved, desired, infos):
        desired[:] = 0

    functions = {"compute_reward": compute_reward, "compute_terminated": compute_terminated} | {name: writing}
    reward, termination = functions.values()
    with pytest.raises(ValueError, match="read-only") as caught:
        relabel_episode(
            counting_episode(0, 3), "future", 4, reward, np.random.default_rng(0), termination=termination
        )
    assert caught.value.__notes__ == [
        f"{name} raised this when called for a batch of steps; the stored transitions are unchanged"
    ]
