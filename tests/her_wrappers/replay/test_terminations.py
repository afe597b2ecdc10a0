"""Terminations of relabeled steps; see also the oracle, which random programs use in every mode."""

import numpy as np
import pytest

from tests.support.buffers import make_buffer
from tests.support.counting import compute_terminated, counting_buffer, counting_episode

SOLVED = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
SOLVED.observations["desired_goal"][:] = [1, 3]
CRASHED = counting_episode(0, 3, terminated=True)


@pytest.mark.parametrize("values", [(10.0, 0.0), (0.2, 0.1)])
def test_success_finds_the_reward_of_an_achieved_goal_on_any_scale(device, values):
    """0.1 as float64 differs from 0.1 as float32."""
    high, low = values

    def bonus(achieved, desired, info):
        return low + (high - low) * (1.0 * (achieved == desired).all(-1))

    buffer = make_buffer(device, compute_reward=bonus, compute_terminated=None, termination="success")
    for number in range(2):
        buffer.add_episode(counting_episode(number, 4, rewards=np.full(4, low)))
        batch = buffer.sample(200).to_numpy()
        np.testing.assert_array_equal(batch.terminations, batch.rewards > (high + low) / 2)
        assert batch.terminations.any()


def test_success_with_a_reward_fn():
    def reward(batch):
        reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
        return reached - 1.0

    options = {"compute_reward": None, "compute_terminated": None, "reward_fn": reward}
    buffer = counting_buffer(termination="success", **options)
    buffer.add_episodes([CRASHED, SOLVED])
    batch = buffer.sample(300)
    rows = batch.relabeled
    crash = (batch.index == 2)[rows]
    np.testing.assert_array_equal(batch.terminations[rows], (batch.rewards[rows] == 0) | crash)


def three_values(achieved, desired, info):
    reached = (achieved == desired).all(-1)
    return np.where(reached, 0.0, np.where(achieved[:, 0] == desired[:, 0], -1.0, -5.0))


def test_success_raises_for_rewards_of_more_than_two_values():
    options = {"termination": "success", "goal_selection_strategy": "random"}
    buffer = counting_buffer(compute_reward=three_values, **options)
    buffer.add_episodes([counting_episode(number, 3) for number in range(2)])
    with pytest.raises(ValueError, match=r"two values.*got the values -5, -1, 0"):
        buffer.sample(100)
    dense = lambda achieved, desired, info: -abs(achieved - desired).sum(-1)  # noqa: E731
    buffer = counting_buffer(compute_reward=dense, termination="success")
    rewards = np.array([-2.0, -3, -4, -5])
    with pytest.raises(ValueError, match=r"two values.*use a sparse reward"):
        buffer.add_episode(counting_episode(0, 4, rewards=rewards))
    assert len(buffer) == 0


def test_without_compute_terminated_a_goal_that_ends_episodes_gives_one_warning(device):
    buffer = make_buffer(device, compute_terminated=None)
    buffer.add_episode(CRASHED)  # a crash gives no warning
    with pytest.warns(UserWarning, match='pass termination="success"'):
        buffer.add_episode(SOLVED)
    buffer.add_episode(SOLVED)
    for termination in ("keep", "never", "success"):
        buffer = make_buffer(device, compute_terminated=None, termination=termination)
        buffer.add_episodes([CRASHED, SOLVED])


def test_a_scalar_compute_terminated_is_called_row_by_row_with_one_warning():
    def scalar(achieved, desired, info):
        return bool((achieved == desired).all() and info["cost"] > 1)

    buffer = counting_buffer(compute_terminated=scalar, info_keys=["cost"])
    with pytest.warns(UserWarning, match="called once for each row, 5 times"):
        buffer.add_episode(counting_episode(0, 5, infos={"cost": np.arange(5.0)}))
    batch = buffer.sample(100)
    np.testing.assert_array_equal(batch.terminations, (batch.rewards == 0) & (batch.index > 1))
    buffer.sample(100)


def test_zeros_and_ones_are_bools():
    buffer = counting_buffer(compute_terminated=lambda a, d, i: compute_terminated(a, d, i).astype(float))
    buffer.add_episode(counting_episode(0, 3))
    batch = buffer.sample(200)
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 0)
