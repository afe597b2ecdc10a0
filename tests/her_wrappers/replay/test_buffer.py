"""The buffer as a whole: batches, seeds, copies, statistics, episodes, environments."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, Mixture, Priority
from tests.support.buffers import filled, make_buffer
from tests.support.counting import counting_buffer, counting_episode, leaves_of
from tests.support.equality import assert_same_batches, assert_same_episodes


def test_a_batch_becomes_torch_tensors_of_the_same_values_and_memory():
    batch = filled().sample(32)
    tensors, arrays = [], []
    batch.to_torch().map(tensors.append)
    batch.map(arrays.append)
    for array, tensor in zip(arrays, tensors, strict=True):
        assert isinstance(tensor, torch.Tensor)
        assert tensor.data_ptr() == array.ctypes.data
        np.testing.assert_array_equal(array, tensor.numpy())
    torch.nn.Linear(2, 3, dtype=torch.float64)(batch.to_torch().observations["observation"])


def test_priorities_are_updated_with_torch_tensors_and_with_lists():
    given = [
        ([0, 2], [0.5, 4]),
        (np.array([0, 2], np.uint8), np.array([0.5, 4], np.float16)),
        (torch.tensor([0, 2]), torch.tensor([0.5, 4.0], requires_grad=True)),
    ]
    buffers = [filled(prioritized=Priority(alpha=1)) for _ in given]
    for buffer, (index, priorities) in zip(buffers, given, strict=True):
        assert buffer.update_priorities(index, priorities) == 0
    for other in buffers[1:]:
        assert_same_batches(copy.deepcopy(buffers[0]), other, [500])


def test_statistics_describe_and_change_nothing(device):
    buffer, twin = (make_buffer(device) for _ in "ab")
    for each in (buffer, twin):
        each.add_episodes([counting_episode(number, length) for number, length in enumerate((4, 1, 7))])
    stats = buffer.statistics(20_000)
    assert (stats.num_transitions, stats.num_episodes, stats.mean_length) == (12, 3, 4)
    assert stats.nbytes == buffer.nbytes
    assert stats.relabeled_share == pytest.approx(0.8, abs=1e-3)
    assert stats.original_reward == -1
    assert stats.terminated_share == pytest.approx(1 + stats.relabeled_reward, abs=1e-6)
    assert stats.trivial_share == 0
    steps_left = [left for length in (4, 1, 7) for left in range(length)]
    assert stats.mean_ahead == pytest.approx(np.mean(steps_left) / 2, abs=0.05)
    assert_same_batches(buffer, twin)


def test_statistics_of_empty_sets_of_rows_are_nan_and_goals_of_desired_have_no_distance():
    assert np.isnan(filled(n_sampled_goal=0).statistics().relabeled_reward)
    assert np.isnan(filled(goal_selection_strategy="desired").statistics().mean_ahead)
    buffer = counting_buffer(goal_selection_strategy=Mixture({"desired": 0.5, "final": 0.5}))
    buffer.add_episodes([counting_episode(number, 1) for number in range(50)])
    assert buffer.statistics().mean_ahead == 0


@pytest.mark.parametrize("name", ["compute_reward", "reward_fn"])
@pytest.mark.parametrize(("radius", "share"), [(2.5, 1), (0.5, 0)])
@pytest.mark.filterwarnings("ignore")  # recorded rewards are for another radius
def test_goals_are_trivial_if_they_have_the_reward_of_an_achieved_goal_before_the_step(name, radius, share):
    def near(achieved, desired, info):
        return -1.0 * (abs(achieved - desired).max(-1) > radius)

    def of_batch(batch):
        return near(batch.next_observations["achieved_goal"], batch.observations["desired_goal"], None)

    options = {"compute_reward": None, name: near if name == "compute_reward" else of_batch}
    buffer = counting_buffer(**options, goal_selection_strategy="final", termination="keep")
    buffer.add_episode(counting_episode(0, 2))
    assert buffer.statistics().trivial_share == share


def test_episodes_iterates_over_copies_of_the_episodes_of_its_beginning(device):
    buffer = make_buffer(device, buffer_size=20)
    added = [counting_episode(number, 5, terminated=number % 2 == 0) for number in range(4)]
    buffer.add_episodes(added)
    for _ in range(2):
        found = list(buffer.episodes())
        assert_same_episodes(found, added)
        for episode in found:
            for array in leaves_of((episode.observations, episode.actions, episode.rewards)):
                array[...] = 99
    iterator = buffer.episodes()
    first = next(iterator)
    buffer.add_episodes([counting_episode(number, 5) for number in (4, 5)])
    numbers = [int(episode.actions[0, 0]) for episode in (first, *iterator)]
    assert set(numbers) - {1} == {0, 2, 3}, "neither later episodes, nor episodes twice"
    iterator = buffer.episodes()
    next(iterator)
    buffer.clear()
    buffer.add_episode(counting_episode(9, 20))
    assert all(episode.actions[0, 0] != 9 for episode in iterator)


def test_the_infos_of_a_batch_are_those_that_were_recorded():
    env = InfoWalk()
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=8, info_keys=["number", "pair"])
    recorder = EpisodeRecorder(env, buffer.add_episode)
    for _ in range(3):  # the oldest episode is evicted
        recorder.reset(seed=0)
        for _ in range(4):
            recorder.step(0)
    index = buffer.sample(64).index
    infos = buffer.infos(index)
    assert infos.keys() == {"number", "pair"}
    np.testing.assert_array_equal(infos["number"], index)
    np.testing.assert_array_equal(infos["pair"], np.stack([index, -index], axis=1))
    for wrong in (3, 12, -1):
        with pytest.raises(ValueError, match=f"4 to 11, got {wrong}"):
            buffer.infos(np.array([5, wrong]))


class InfoWalk(gym.Wrapper):
    """Counts all steps in the infos."""

    def __init__(self):
        super().__init__(gym.make("her_envs/BitFlipping-v0", n_bits=4, max_steps=4))
        self.number = -1

    def step(self, action):
        observation, reward, *_, info = self.env.step(action)
        self.number += 1
        own = {"number": self.number, "pair": [self.number, -self.number]}
        return observation, reward, False, self.number % 4 == 3, info | own
