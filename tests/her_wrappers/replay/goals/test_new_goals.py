"""Goals of a batch: recorded goals, goals of the strategies, and users' strategies."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from her_wrappers import Mixture
from tests.support.buffers import filled
from tests.support.counting import counting_buffer, counting_episode


def test_original_transitions_keep_their_goals_where_the_goal_changes_inside_an_episode():
    buffer = counting_buffer(n_sampled_goal=1)
    for number in range(200):  # enough goals to make their ring grow
        episode = counting_episode(number, 6)
        episode.observations["desired_goal"][:] = [[number, -1 - t // 2] for t in range(7)]
        buffer.add_episode(episode)
    batch = buffer.sample(2000)
    original = ~batch.relabeled
    assert original.any()
    steps = batch.observations["observation"][original, 1]
    np.testing.assert_array_equal(batch.observations["desired_goal"][original, 1], -1 - steps // 2)
    np.testing.assert_array_equal(batch.next_observations["desired_goal"][original, 1], -1 - (steps + 1) // 2)
    relabeled = batch.relabeled
    np.testing.assert_array_equal(
        batch.observations["desired_goal"][relabeled], batch.next_observations["desired_goal"][relabeled]
    )


def test_goals_keep_their_dtype_to_the_last_bit():
    """Fetch's goals are float64; a cast to float32 flips rewards at the threshold."""
    dtypes = []

    def threshold_reward(achieved, desired, info):
        dtypes.extend(str(goal.dtype).removeprefix("torch.") for goal in (achieved, desired))
        return -1.0 * (abs(achieved - desired) > 1e-12).any(-1)

    buffer = counting_buffer(compute_reward=threshold_reward)
    episode = counting_episode(0, 3)
    episode.observations["achieved_goal"][:] = 1 + 1e-10 * np.arange(4)[:, None]
    buffer.add_episode(episode)
    batch = buffer.sample(1000)
    assert set(dtypes) == {"float64"}
    own = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.rewards == 0, own)


def test_a_function_is_a_strategy_of_the_users_own():
    next_state = counting_buffer(goal_selection_strategy=lambda t, length, rng: t + 1)
    next_state.add_episode(counting_episode(0, 9))
    batch = next_state.sample(100)
    np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)


def test_a_strategy_that_fails_leaves_the_buffer_usable():
    functions = [lambda t: t - t, lambda t: t + 1]  # a state before the step is invalid
    buffer = filled(goal_selection_strategy=lambda t, length, rng: functions[0](t))
    with pytest.raises(ValueError, match=r"must return states in 1\.\.length, got 0"):
        buffer.sample(32)
    del functions[0]
    batch = buffer.sample(32)
    np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)


def test_a_strategy_may_return_integers_of_any_kind():
    for kind in (np.uint8, np.int32, np.uint64):
        buffer = filled(goal_selection_strategy=lambda t, length, rng, kind=kind: (t + 1).astype(kind))
        batch = buffer.sample(32)
        np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)
        np.testing.assert_array_equal(batch.goal_index[batch.relabeled], batch.index[batch.relabeled])


class Moody:
    """A strategy that raises an error while a flag is set."""

    def __init__(self):
        self.fails = False

    def __call__(self, t, length, rng):
        if self.fails:
            raise RuntimeError("not today")
        return length


@pytest.mark.parametrize("samples_before", [0, 1, 3])
def test_no_evicted_step_is_sampled_after_a_strategy_raised(samples_before):
    strategy = Moody()
    buffer = counting_buffer(buffer_size=5, goal_selection_strategy=strategy)
    buffer.add_episode(counting_episode(0, 5))
    for _ in range(samples_before):
        buffer.sample(8)
    buffer.add_episode(counting_episode(1, 5))
    strategy.fails = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not today"):
            buffer.sample(8)
    strategy.fails = False
    batch = buffer.sample(8)
    assert (batch.index >= 5).all()
    assert (batch.observations["observation"][:, 0] == 1).all()


def test_a_strategy_cannot_write_to_the_steps_it_is_given():
    def shift(t, length, rng):
        t += 1
        return t

    buffer = filled(goal_selection_strategy=shift)
    with pytest.raises(ValueError, match="read-only"):
        buffer.sample(64)


def test_a_strategy_is_never_called_with_empty_arrays():
    def loop(t, length, rng):
        return np.array([rng.integers(a + 1, b + 1) for a, b in zip(t, length, strict=True)])

    buffer = filled(goal_selection_strategy=Mixture({loop: 0.01, "final": 0.01, "original": 0.98}))
    for _ in range(50):
        assert len(buffer.sample(3)) == 3


def test_a_buffer_with_a_strategy_of_the_users_own_can_be_pickled():
    buffer = filled(goal_selection_strategy=Moody())
    twin = pickle.loads(pickle.dumps(buffer))
    np.testing.assert_array_equal(twin.sample(50).goal_index, buffer.sample(50).goal_index)
