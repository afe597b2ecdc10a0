"""Terminations of relabeled steps, in every mode."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from tests.support.counting import counting_buffer, counting_episode


def crashed_and_solved(**options):
    """Return a batch of a crash (episode 0) and a success (episode 1); its episodes, ends and successes."""
    buffer = counting_buffer(goal_selection_strategy="episode", **options)
    solved = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    solved.observations["desired_goal"][:] = [1, 3]
    buffer.add_episode(counting_episode(0, 3, terminated=True))
    buffer.add_episode(solved)
    batch = buffer.sample(3000)
    number, t = batch.observations["observation"].T
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    return batch, number, t == 2, reached


def only_step_two(achieved, desired, info):
    return achieved[:, 1] == 2


@pytest.mark.parametrize(
    ("termination", "expected"),
    [
        (None, lambda number, last, reached: reached | (last & (number == 0))),
        ("recompute", lambda number, last, reached: reached | (last & (number == 0))),
        ("success", lambda number, last, reached: reached | (last & (number == 0))),
        ("keep", lambda number, last, reached: last),
        ("never", lambda number, last, reached: np.zeros_like(last)),
    ],
)
def test_relabeled_terminations_follow_their_mode_and_a_crash_stays_a_crash(termination, expected):
    batch, number, last, reached = crashed_and_solved(termination=termination)
    rows = batch.relabeled
    np.testing.assert_array_equal(batch.terminations[rows], expected(number, last, reached)[rows])
    np.testing.assert_array_equal(batch.terminations[~rows], last[~rows])
    assert (reached & rows & ~last).any()


def test_a_function_as_termination_replaces_compute_terminated():
    batch, _, last, _ = crashed_and_solved(termination=only_step_two)
    second = batch.observations["observation"][:, 1] == 1
    np.testing.assert_array_equal(batch.terminations[batch.relabeled], (second | last)[batch.relabeled])


def test_success_finds_the_reward_of_an_achieved_goal_on_any_scale():
    def bonus(achieved, desired, info):
        return 10.0 * (achieved == desired).all(-1)

    buffer = counting_buffer(compute_reward=bonus, compute_terminated=None, termination="success")
    buffer.add_episode(counting_episode(0, 4, rewards=np.zeros(4)))
    batch = buffer.sample(500)
    np.testing.assert_array_equal(batch.terminations[batch.relabeled], batch.rewards[batch.relabeled] == 10)
    assert batch.terminations.any()


def test_success_uses_compute_reward_if_recorded_rewards_differ():
    buffer = counting_buffer(termination="success")
    with pytest.warns(UserWarning, match="has the reward -2"):
        buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, -2.0)))
    buffer.add_episode(counting_episode(1, 3))
    assert buffer.num_episodes == 2


def test_success_raises_at_the_first_reward_of_a_third_value():
    def three(achieved, desired, info):
        return np.where(
            (achieved == desired).all(-1), 0.0, np.where(achieved[:, 0] == desired[:, 0], -1.0, -5.0)
        )

    buffer = counting_buffer(
        compute_reward=three, termination="success", goal_selection_strategy="random", her_ratio=1
    )
    for number in range(2):
        buffer.add_episode(counting_episode(number, 3))
    with pytest.raises(ValueError, match=r"needs rewards of two values.*got -5, -1, 0"):
        buffer.sample(100)


def test_success_raises_for_rewards_of_many_values_and_stores_nothing():
    def dense(achieved, desired, info):
        return -abs(achieved - desired).sum(-1)

    buffer = counting_buffer(compute_reward=dense, termination="success")
    episode = counting_episode(0, 4)
    paid = dense(episode.observations["achieved_goal"][1:], episode.observations["desired_goal"][1:], None)
    message = r'termination="success" needs rewards of two values.*got -5, -4, -3, -2, 0; use a sparse reward'
    with pytest.raises(ValueError, match=message):
        buffer.add_episode(counting_episode(0, 4, rewards=paid))
    assert len(buffer) == 0


def test_without_compute_terminated_a_goal_that_ends_episodes_gives_one_warning():
    buffer = counting_buffer(compute_terminated=None)
    buffer.add_episode(counting_episode(0, 3, terminated=True))  # a crash gives no warning
    solved = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    solved.observations["desired_goal"][:] = [1, 3]
    with pytest.warns(UserWarning, match='pass termination="success"'):
        buffer.add_episode(solved)
    buffer.add_episode(solved)
    batch = buffer.sample(300)
    np.testing.assert_array_equal(batch.terminations, batch.observations["observation"][:, 1] == 2)


@pytest.mark.parametrize("termination", ["keep", "never", "success"])
def test_an_explicit_mode_gives_no_warning(termination):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crashed_and_solved(compute_terminated=None, termination=termination)


def test_a_scalar_compute_terminated_warns_of_its_cost_at_the_first_batch():
    env = gym.make("her_envs/PointReach-v0")
    env.unwrapped.compute_terminated = lambda achieved, desired, info: bool(
        np.linalg.norm(achieved - desired) < 0.1
    )
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    for _ in range(50):
        recorder.step([0.1, 0.1])
    with pytest.warns(UserWarning, match="80 times for this batch"):
        buffer.sample(100)


def test_a_scalar_compute_terminated_is_called_row_by_row_with_a_warning_of_the_cost():
    def scalar(achieved, desired, info):
        return bool((achieved == desired).all())

    buffer = counting_buffer(compute_terminated=scalar)
    buffer.add_episode(counting_episode(0, 5))
    with pytest.warns(UserWarning, match=r"called once for each row, \d+ times for this batch"):
        batch = buffer.sample(100)
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.terminations, reached)
    buffer.sample(100)


@pytest.mark.parametrize("ends", [-1.0, 0.3, np.nan, "False", None])
def test_terminations_that_are_not_bools_are_an_error(ends):
    buffer = counting_buffer(compute_terminated=lambda a, d, i: np.full(len(a), ends))
    buffer.add_episode(counting_episode(0, 3))
    with pytest.raises(ValueError, match=r"compute_terminated must return bools, got .* such as"):
        buffer.sample(50)


def test_zeros_and_ones_are_bools():
    buffer = counting_buffer(compute_terminated=lambda a, d, i: (a == d).all(-1).astype(float))
    buffer.add_episode(counting_episode(0, 3))
    batch = buffer.sample(200)
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 0)
