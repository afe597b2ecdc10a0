"""New goals: their dtypes and bits, and users' strategies. See also test_distributions."""

import numpy as np

from her_wrappers import Geometric, Mixture
from tests.support.buffers import make_buffer
from tests.support.counting import counting_episode


def test_functions_get_goals_of_their_dtype_to_the_last_bit(device):
    """Fetch's goals are float64; a cast to float32 flips rewards at the threshold."""
    dtypes = set()

    def threshold_reward(achieved, desired, info):
        dtypes.update(str(goal.dtype).removeprefix("torch.") for goal in (achieved, desired))
        return -1.0 * (abs(achieved - desired) > 1e-12).any(-1)

    buffer = make_buffer(device, compute_reward=threshold_reward)
    episode = counting_episode(0, 3)
    episode.observations["achieved_goal"][:] = 1 + 1e-10 * np.arange(4)[:, None]
    buffer.add_episode(episode)
    batch = buffer.sample(1000).to_numpy()
    assert dtypes == {"float64"}
    own = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.rewards == 0, own)


def test_a_negative_zero_in_an_observation_is_not_the_zero_of_the_goal(device):
    """Otherwise equal numbers of other bits would be stored once for both."""
    buffer, episode = make_buffer(device, n_sampled_goal=0), counting_episode(0, 3)
    episode.observations["observation"][:] = -0.0
    episode.observations["achieved_goal"][:] = 0.0
    buffer.add_episode(episode)
    batch = buffer.sample(20).to_numpy()
    assert np.signbit(batch.observations["observation"]).all()
    assert not np.signbit(batch.observations["achieved_goal"]).any()


def test_shares_and_gammas_of_float32_are_converted_to_float64():
    """Files store float64, so shorter floats would give other batches after loading."""
    given = {"future": np.float32(0.5), "final": np.float32(0.5)}
    mixture = Mixture(given)
    given["future"] = 7
    assert mixture.shares == {"future": 0.5, "final": 0.5}
    numbers = [*mixture.shares.values(), Geometric(np.float32(0.999)).gamma]
    assert {type(number) for number in numbers} == {float}
