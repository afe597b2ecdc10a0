"""Rewards: recorded ones are compared; new ones use goals, infos, states and actions."""

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, Mixture, Priority
from tests.support.buffers import make_buffer
from tests.support.counting import ACTIONS, SPACE, compute_reward, counting_buffer, counting_episode

UNLIKE = counting_episode(0, 3, rewards=np.array([-1.0, -1.5, -1.0]))
"""An episode whose second reward is not that of compute_reward."""


def sparse_of_batch(batch):
    return compute_reward(batch.next_observations["achieved_goal"], batch.observations["desired_goal"], {})


FUNCTIONS = {"compute_reward": compute_reward, "reward_fn": sparse_of_batch}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_recorded_rewards_that_differ_give_one_warning(device, name):
    buffer = make_buffer(device, **{"compute_reward": None, name: FUNCTIONS[name]})
    with pytest.warns(UserWarning, match=f"step 1 of an episode has the reward -1.5, but {name} returns -1"):
        buffer.add_episode(UNLIKE)
    buffer.add_episodes([UNLIKE, UNLIKE])
    assert buffer.num_episodes == 3


@pytest.mark.parametrize("options", [{"n_sampled_goal": 0}, {}])
def test_no_warning_comes_for_rounding_nor_without_relabeling_nor_after_the_first_episodes(options):
    buffer = counting_buffer(**options)
    rewards = UNLIKE.rewards if options else np.array([-1.0, -1.00001, -1.0])
    buffer.add_episode(counting_episode(0, 3, rewards=rewards))
    for number in range(12):
        buffer.add_episode(counting_episode(number, 3))
    buffer.add_episode(UNLIKE)


@pytest.mark.parametrize("termination", ["success", None])
def test_a_function_may_return_the_same_array_at_every_call(termination):
    output = np.zeros(1000, np.float32)

    def reusing(achieved, desired, info):
        output[: len(achieved)] = compute_reward(achieved, desired, info)
        return output[: len(achieved)]

    batches = []
    for function in (compute_reward, reusing):
        options = {"compute_reward": function, "compute_terminated": None}
        buffer = counting_buffer(termination=termination, **options)
        buffer.add_episode(counting_episode(0, 5, terminated=True))  # a warning would be an error here
        batches.append(buffer.sample(200))
    np.testing.assert_array_equal(batches[0].rewards, batches[1].rewards)
    np.testing.assert_array_equal(batches[0].terminations, batches[1].terminations)


# --- reward_fn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 3])
def test_reward_fn_gets_the_single_steps_of_the_relabeled_rows(device, n_steps):
    calls = []

    def reward(batch):
        calls.append(batch.map(lambda leaf: leaf + 0 if leaf.dtype != bool else leaf))
        return sparse_of_batch(batch)

    options = {"reward_fn": reward, "compute_reward": None, "gamma": 0.9, "termination": "keep"}
    buffer = make_buffer(device, n_steps=n_steps, prioritized=Priority(), **options)
    buffer.add_episode(counting_episode(1, 20, terminated=True))
    buffer.update_priorities(range(20), range(20))
    assert calls, "recorded rewards are compared"
    batch = buffer.sample(60).to_numpy()
    given, rows = calls[-1].to_numpy(), batch.relabeled
    assert given.relabeled.all()
    first, t = np.repeat(batch.index[rows], n_steps), np.tile(np.arange(n_steps), rows.sum())
    steps = np.minimum(first + t, 19)  # behind the end of an episode its last step is repeated
    np.testing.assert_array_equal(given.index, steps)
    for seen, shift in ((given.observations, 0), (given.next_observations, 1)):
        np.testing.assert_array_equal(seen["observation"][:, 1], steps + shift)
        np.testing.assert_array_equal(seen["achieved_goal"][:, 1], steps + shift)
        goals = batch.observations["desired_goal"][rows].repeat(n_steps, axis=0)
        np.testing.assert_array_equal(seen["desired_goal"], goals)
    np.testing.assert_array_equal(given.actions[:, 0], 1 + steps / 1000)
    assert (given.rewards.tolist(), given.terminations.tolist()) == ([-1] * len(t), (steps == 19).tolist())
    np.testing.assert_array_equal(given.discounts, np.float32(0.9))
    np.testing.assert_array_equal(given.weights, batch.weights[rows].repeat(n_steps))
    with pytest.raises(ValueError, match="exist only in batches that sample"):
        given.goal_index  # noqa: B018


class Silent(gym.Env):
    """A goal environment without goal functions."""

    observation_space, action_space = SPACE, ACTIONS


@pytest.mark.parametrize("given", [None, lambda achieved, desired, info: np.ones(len(achieved), bool)])
def test_for_env_takes_the_reward_fn_instead_of_the_environments_function(given):
    """Terminations are those of the environment or of the function that is given."""
    env = gym.make("her_envs/PointReach-v0")
    options = {"reward_fn": lambda batch: -np.abs(batch.actions).sum(-1), "compute_terminated": given}
    buffer = HindsightReplayBuffer.for_env(env, seed=0, **options)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    for _ in range(49):
        recorder.step(np.array([0.25, -0.5]))
    with pytest.warns(UserWarning, match="step 0 of an episode") as warned:
        recorder.step(np.array([0.25, -0.5]))
    assert ["compute_terminated" in str(each.message) for each in warned] == [False, True][: 1 + bool(given)]
    batch = buffer.sample(50)
    goals = batch.next_observations["achieved_goal"], batch.observations["desired_goal"], {}
    rows, expected = batch.relabeled, (given or env.unwrapped.compute_terminated)(*goals)
    assert set(batch.rewards[rows]) == {-0.75}
    np.testing.assert_array_equal(batch.terminations[rows], expected[rows])


@pytest.mark.parametrize("strategy", [Mixture({"original": 1}), "future"])
def test_an_environment_needs_no_function_where_nothing_is_relabeled(strategy):
    share = {"n_sampled_goal": 0} if strategy == "future" else {}
    buffer = HindsightReplayBuffer.for_env(Silent(), goal_selection_strategy=strategy, **share)
    buffer.add_episode(counting_episode(0, 3))
    assert not buffer.sample(20).relabeled.any()


# --- infos ----------------------------------------------------------------------------------------


def test_infos_without_keys_are_empty_dicts():
    calls = []

    def reward(achieved, desired, infos):
        calls.append((len(achieved), infos))
        return compute_reward(achieved, desired, infos)

    buffer = counting_buffer(compute_reward=reward)
    buffer.add_episode(counting_episode(0, 4, infos={"cost": np.zeros(4)}))
    buffer.sample(8)
    assert len(calls) >= 2
    assert all(list(infos) == [{}] * count for count, infos in calls)


# --- goals ----------------------------------------------------------------------------------------


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
