"""Bad input is an error that names the argument, and nothing is stored, evicted or changed.

Each row of a table has a call or value, the exception, and a word of the message.
"""

import copy
import functools
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import (
    Demonstrations,
    EpisodeRecorder,
    Episodes,
    Geometric,
    HindsightReplayBuffer,
    Mixture,
    Priority,
)
from tests.support.buffers import filled, make_buffer, transitions
from tests.support.counting import SPACE, compute_reward, counting_buffer, counting_episode
from tests.support.equality import assert_same_batches, assert_same_episodes

# --- arguments ------------------------------------------------------------------------------------


class Rewarding:
    def compute_reward(self, achieved, desired, info):
        return compute_reward(achieved, desired, info)


def forwarded(*arguments, **options):
    return compute_reward(*arguments, **options)


def make_goal_env():
    raise AssertionError("the caller did not call it")


ARGUMENTS = [
    ({"buffer_size": 1e6}, ValueError, "buffer_size"),
    ({"n_sampled_goal": -1}, ValueError, "n_sampled_goal"),
    ({"her_ratio": 0.5}, TypeError, "her_ratio"),
    ({"n_sampled_goal": 4, "goal_selection_strategy": Mixture({"original": 1})}, ValueError, "once"),
    ({"goal_selection_strategy": "futur"}, ValueError, "'futur'; choose from 'future'"),
    ({"goal_selection_strategy": ["future"]}, TypeError, "goal_selection_strategy"),
    ({"termination": "always"}, ValueError, "termination"),
    ({"termination": "recompute", "compute_terminated": None}, ValueError, "needs compute_terminated"),
    ({"n_steps": 0}, ValueError, "n_steps"),
    ({"gamma": float("nan")}, ValueError, "gamma"),
    ({"seed": -1}, ValueError, "seed"),
    ({"compute_reward": None}, ValueError, "needs compute_reward"),
    ({"compute_reward": 5}, TypeError, "compute_reward"),
    ({"compute_reward": Rewarding.compute_reward}, TypeError, r"env\.unwrapped\.compute_reward"),
    ({"compute_reward": lambda achieved, desired: 0}, TypeError, r"compute_reward must be .* info\)"),
    ({"compute_reward": None, "reward_fn": compute_reward}, TypeError, "reward_fn .* as compute_reward="),
    ({"reward_fn": lambda batch: np.zeros(len(batch))}, ValueError, "compute_reward and reward_fn"),
    ({"info_keys": "cost"}, TypeError, "info_keys"),
    ({"prioritized": Priority}, TypeError, "prioritized"),
    ({"device": "gpu"}, ValueError, "device must be a device of this machine"),
    ({"demonstrations": [1]}, TypeError, "Demonstrations"),
    ({"buffersize": 5}, TypeError, "buffersize"),
]


@pytest.mark.parametrize(("options", "error", "word"), ARGUMENTS)
def test_a_bad_argument_of_the_buffer(options, error, word):
    with pytest.raises(error, match=word):
        counting_buffer(**options)


OBJECTS = [
    (lambda: Mixture({"future": 0.5}), ValueError, "sum to 1"),
    (lambda: Mixture({"future": 1.5, "final": -0.5}), ValueError, "share of 'future'.*1.5"),
    (lambda: Mixture([("future", 1.0)]), TypeError, "dict"),
    (lambda: Geometric(1.0), ValueError, "gamma"),
    (lambda: Priority(alpha=-0.1), ValueError, "alpha"),
    (lambda: Priority(beta=True), ValueError, "beta"),
    (lambda: Priority(eps=0), ValueError, "eps"),
    (lambda: Demonstrations("runs/x"), TypeError, r"EpisodeArchive\('runs/x'\)"),
    (lambda: HindsightReplayBuffer(SPACE, spaces.Text(5), n_sampled_goal=0), TypeError, "Text"),
    (lambda: HindsightReplayBuffer.for_env(gym.make("CartPole-v1")), ValueError, "achieved_goal"),
    (lambda: HindsightReplayBuffer.for_env("her_envs/PointReach-v0"), TypeError, "str"),
    (lambda: HindsightReplayBuffer.for_env(make_goal_env), TypeError, r"pass make_goal_env\(\)"),
    (lambda: HindsightReplayBuffer.for_env(gym.Wrapper), TypeError, r"pass Wrapper\(\)"),
    (lambda: EpisodeRecorder(make_goal_env, [].append), TypeError, r"pass make_goal_env\(\)"),
]


@pytest.mark.parametrize(("call", "error", "word"), OBJECTS)
def test_a_bad_argument_of_another_object(call, error, word):
    with pytest.raises(error, match=word):
        call()


def test_bound_and_wrapped_reward_functions_have_the_right_parameters():
    counting_buffer(compute_reward=Rewarding().compute_reward)
    counting_buffer(compute_reward=functools.wraps(lambda achieved, desired: 0)(forwarded))


CALLS = [
    (lambda buffer: buffer.sample(0), ValueError, "batch_size"),
    (lambda buffer: buffer.sample(2.0), ValueError, "batch_size"),
    (lambda buffer: buffer.sample(True), ValueError, "batch_size"),
    (lambda buffer: buffer.sample(8, beta=1.1), ValueError, "beta"),
    (lambda buffer: buffer.add_episode({"observations": []}), TypeError, "dict"),
    (lambda buffer: buffer.add_episodes(counting_episode(0, 2)), TypeError, "one Episode; use add_episode"),
    (lambda buffer: buffer.add_episodes(5), TypeError, "int"),
    (lambda buffer: buffer.add_episodes([counting_episode(0, 3), {}]), TypeError, r"episodes\[1\].* dict"),
    (lambda buffer: buffer.extend(counting_episode(0, 2)), TypeError, "one Episode; use add_episode"),
    (lambda buffer: buffer.extend(Path("reach")), TypeError, r"EpisodeArchive\('reach'\)"),
    (lambda buffer: buffer.update_priorities([0, 1], [1, -0.5]), ValueError, "-0.5 at row 1"),
    (lambda buffer: buffer.update_priorities([0, 1], [np.nan, 1]), ValueError, "nan at row 0"),
    (lambda buffer: buffer.update_priorities([0, 1], [1, 1e39]), ValueError, "at row 1"),
    (lambda buffer: buffer.update_priorities([0, 1], [[1], [1, 2]]), ValueError, "priorities"),
    (lambda buffer: buffer.update_priorities([0, 1], [1]), ValueError, "same shape as the argument index"),
    (lambda buffer: buffer.update_priorities([0, 24], [1, 1]), ValueError, "24 at row 1"),
    (lambda buffer: buffer.update_priorities(np.array([2**63], np.uint64), [1]), ValueError, "at row 0"),
    (lambda buffer: buffer.update_priorities([0.0, 1], [1, 1]), ValueError, "index"),
    (lambda buffer: buffer.update_priorities(None, None), ValueError, "index"),
]


@pytest.mark.parametrize(("call", "error", "word"), CALLS)
def test_a_bad_call_changes_nothing(call, error, word):
    buffer = make_buffer(None, buffer_size=100, prioritized=Priority())
    buffer.add_episodes([counting_episode(number, 12) for number in range(2)])
    buffer.update_priorities([1, 20], [9, 0.1])
    assert_rejected(buffer, lambda: call(buffer), error, word)


def assert_rejected(buffer, call, error, word):
    """Assert that a call raises, stores and evicts nothing, and does not change the following batches."""
    buffer.sample(20)
    twin = copy.deepcopy(buffer)
    with pytest.raises(error, match=word) as caught:
        call()
    assert len(str(caught.value)) < 400, "a sentence, no arrays"
    assert_same_episodes(buffer.episodes(), twin.episodes())
    assert_same_batches(buffer, twin, [20] * 2)
    for each in (buffer, twin):
        each.add_episode(counting_episode(9, 20))
    assert_same_batches(buffer, twin, [20] * 2)


def test_priorities_of_a_buffer_without_priorities():
    buffer = filled()
    assert_rejected(buffer, lambda: buffer.sample(8, beta=0.5), ValueError, "prioritized=Priority")
    assert_rejected(buffer, lambda: buffer.update_priorities([0], [1]), ValueError, "prioritized=Priority")


# --- episodes -------------------------------------------------------------------------------------


def with_value(value):
    return np.where(np.arange(8).reshape(4, 2) == 7, value, 0.5)


def with_leaves(**leaves):
    return counting_episode(5, 3, observations=counting_episode(5, 3).observations | leaves)


INFINITE = {"achieved_goal": with_value(np.inf), "desired_goal": with_value(-np.inf)}
EPISODES = [
    (with_leaves(achieved_goal={}), "observations/achieved_goal"),
    (counting_episode(5, 3, observations=np.zeros((4, 2))), "is missing"),
    (with_leaves(observation=np.zeros((4, 3))), "observations/observation .*shape"),
    (with_leaves(achieved_goal=np.full((4, 2), "a")), "observations/achieved_goal .*<U1"),
    (counting_episode(5, 3, actions={"turn": np.zeros((3, 1))}), "actions .*shape"),
    (counting_episode(5, 3, rewards=np.array([-1, np.nan, -1])), "nan at step 1"),
    (counting_episode(5, 3, rewards=np.array([0, 2.0**128 - 2.0**103, 0])), "at step 1"),
    (counting_episode(5, 3, rewards=np.array([0, np.longdouble("1e4000"), 0])), "at step 1"),
    (with_leaves(observation=with_value(np.nan)), r"observations/observation .*nan\] at step 3"),
    (with_leaves(achieved_goal=with_value(np.nan)), r"observations/achieved_goal .*nan\] at step 3"),
    (with_leaves(desired_goal=with_value(-np.inf)), r"observations/desired_goal .*inf\] at step 3"),
    (with_leaves(**INFINITE), r"observations/achieved_goal .*inf\] at step 3"),
    (
        with_leaves(achieved_goal=np.zeros((4, 2)), desired_goal=with_value(np.inf)),
        r"observations/desired_goal .*inf\] at step 3",
    ),
    (counting_episode(5, 3, actions=np.array([[0.0], [np.nan], [1.0]])), r"actions .*nan\] at step 1"),
    (counting_episode(5, 31), "got 31 steps; increase buffer_size="),
]


@pytest.mark.parametrize(("bad", "words"), EPISODES)
def test_a_bad_episode_stores_and_evicts_nothing(device, bad, words):
    buffer = filled(device, buffer_size=30)
    assert_rejected(buffer, lambda: buffer.add_episode(bad), ValueError, words)
    many = [counting_episode(0, 2), bad, counting_episode(1, 2), bad]
    assert_rejected(buffer, lambda: buffer.add_episodes(many), ValueError, rf"^episodes\[1\]: .*{words}")


def test_the_error_for_columnar_episodes_names_the_bad_one():
    good = Episodes.of([counting_episode(number, 3) for number in range(4)])
    rewards = np.where(np.arange(12) == 7, np.inf, -1.0)
    parts = good.observations, good.actions, rewards, good.lengths, good.terminated, good.truncated
    buffer = filled(buffer_size=30)
    call = lambda: buffer.add_episodes(Episodes(*parts))  # noqa: E731
    assert_rejected(buffer, call, ValueError, r"^episodes\[2\]: .* inf at step 1")


def test_infinite_observations_and_actions_and_huge_numbers_are_stored():
    """They are legal values of an unbounded Box; only goals, which are compared, must be finite."""
    buffer = counting_buffer()
    episode = with_leaves(observation=with_value(np.inf), achieved_goal=with_value(1e300))
    episode.actions[1] = -np.inf
    buffer.add_episode(episode)
    assert_same_episodes(buffer.episodes(), [episode])


INFOS = [
    ({}, r"no info 'cost'.*info_keys=\['cost'\]"),
    ({"cost": np.array(["a", "b", "c"])}, r"infos\['cost'\] .*<U1"),
    ({"cost": np.zeros((3, 2))}, r"infos\['cost'\] .*shape"),
    ({"cost": np.full(3, 2**53 + 1)}, "infos/cost .*int64"),  # float64 does not hold this integer
]


@pytest.mark.parametrize(("infos", "words"), INFOS)
def test_bad_infos_store_nothing(infos, words):
    buffer = counting_buffer(info_keys=["cost"])
    good, bad = (counting_episode(0, 3, infos=each) for each in ({"cost": np.full(3, 0.5)}, infos))
    buffer.add_episode(good)
    for call in (lambda: buffer.add_episode(bad), lambda: buffer.add_episodes([bad, bad])):
        with pytest.raises(ValueError, match=words):
            call()
        assert len(buffer) == 3


CHOICES = [
    (spaces.Discrete(5), [9, -1, 5]),
    (spaces.Discrete(3, start=-1), [2, -2]),
    (spaces.MultiDiscrete([2, 3]), [[2, 0], [0, -1]]),
    (spaces.MultiDiscrete(np.array([2, 3]), dtype=np.uint8), [[0, 3]]),
]


@pytest.mark.parametrize(("space", "actions"), CHOICES)
def test_actions_that_a_discrete_space_lacks_are_errors(space, actions):
    buffer, episode = HindsightReplayBuffer(SPACE, space, n_sampled_goal=0), counting_episode(0, 4)
    rows = np.array([space.sample() for _ in range(4)], space.dtype)
    buffer.add_episode(replace(episode, actions=rows))
    for wrong in actions:
        rows[2] = wrong
        with pytest.raises(ValueError, match=r"actions must be from .* at step 2"):
            buffer.add_episode(replace(episode, actions=rows))
    assert len(buffer) == 4


# --- transitions ----------------------------------------------------------------------------------

TRANSITIONS = [
    (0, {}, ValueError),
    (0, {"observation": "garbage"}, ValueError),
    (1, [[1.0], [1.0, 2.0]], ValueError),
    (2, 1j, ValueError),
    (2, np.nan, ValueError),
    (3, None, ValueError),
    (4, np.array([True, False]), TypeError),
    (5, "no", TypeError),
]


@pytest.mark.parametrize(("position", "value", "error"), TRANSITIONS)
def test_after_a_bad_transition_the_episode_continues(position, value, error):
    buffer, episode = counting_buffer(), counting_episode(0, 3)
    for transition in transitions(episode):
        with pytest.raises(error, match=r".{20}"):
            buffer.add(*transition[:position], value, *transition[position + 1 :])
        buffer.add(*transition)
    assert_same_episodes(buffer.episodes(), [episode])


# --- results of functions -------------------------------------------------------------------------


def raising(*_):
    raise ZeroDivisionError("a wheel came off")


RESULTS = [
    (raising, ZeroDivisionError, "a wheel came off"),
    (lambda a: -1.0, ValueError, "shape"),
    (lambda a: np.full(len(a), "no"), ValueError, "<U2"),
    (lambda a: None, ValueError, "got None; add a return"),
    (lambda a: np.full(len(a), np.nan), ValueError, "nan at row 0"),
    (lambda a: np.full(len(a), 1e39), ValueError, "finite"),
]


@pytest.mark.parametrize(("function", "error", "word"), RESULTS)
@pytest.mark.parametrize("name", ["compute_reward", "reward_fn"])
def test_wrong_rewards_are_an_error_in_add_and_sample(name, function, error, word):
    broken = False

    def goal_reward(achieved, desired, info):
        return function(achieved) if broken else compute_reward(achieved, desired, info)

    def batch_reward(batch):
        return goal_reward(batch.next_observations["achieved_goal"], batch.observations["desired_goal"], {})

    functions = {"compute_reward": None, name: goal_reward if name == "compute_reward" else batch_reward}
    buffer = filled(buffer_size=30, **functions)
    broken = True
    for call in (lambda: buffer.sample(16), lambda: buffer.add_episode(counting_episode(8, 29))):
        with pytest.raises(error, match=word) as caught:
            call()
        assert name in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    broken = False
    assert len(buffer) == 12
    assert len(buffer.sample(16)) == 16
    buffer.add_episode(counting_episode(8, 29))
    assert len(buffer) == 29


@pytest.mark.parametrize("ends", [0.3, np.nan, "False"])
def test_terminations_that_are_not_bools_are_an_error(ends):
    buffer = counting_buffer(compute_terminated=lambda a, d, i: np.full(len(a), ends))
    with pytest.raises(ValueError, match="compute_terminated must return bools"):
        buffer.add_episode(counting_episode(0, 3))
    assert not len(buffer)


def write(tree):
    tree[...] = 0


WRITERS = [
    {"compute_reward": lambda a, d, i: write(a)},
    {"compute_terminated": lambda a, d, i: write(a) if len(a) > 3 else a[:, 0] > 9},
    {"compute_reward": None, "reward_fn": lambda batch: write(batch.next_observations["achieved_goal"])},
    {"goal_selection_strategy": lambda t, length, rng: write(t)},
]


@pytest.mark.parametrize("functions", WRITERS)
def test_functions_cannot_write_to_their_arguments(functions):
    buffer, episode = counting_buffer(**functions), counting_episode(0, 9)
    with pytest.raises(ValueError, match="read-only"):
        (buffer.add_episode(episode), buffer.sample(50))


STRATEGIES = [
    (lambda t, length, rng: None, "got None; add a return statement"),
    (lambda t, length, rng: t, "got 0"),
    (lambda t, length, rng: length + 1, "from 1 to the length"),
    (lambda t, length, rng: t + 1.0, "float64"),
    (lambda t, length, rng: t[:1] + 1, "shape"),
]


@pytest.mark.parametrize(("strategy", "words"), STRATEGIES)
def test_wrong_states_of_a_strategy_are_an_error(strategy, words):
    right = []

    def select(t, length, rng):
        return (t + 1).astype(np.uint8) if right else strategy(t, length, rng)

    buffer = filled(goal_selection_strategy=select)
    with pytest.raises(ValueError, match=words):
        buffer.sample(32)
    right.append(True)
    batch = buffer.sample(32)
    np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)
