"""The buffer for RLlib: chunks of episodes, columns of the learners, state, and errors."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.minibatch_utils import ShardEpisodesIterator
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer

import her_envs  # noqa: F401 - registers environments
from her_wrappers import Demonstrations, NotFiniteError, Priority
from her_wrappers.conformance import parametrize_with_rules
from her_wrappers.conformance.adapters.rllib import OursForRLlib
from her_wrappers.integrations.rllib import GoalsToInputs
from her_wrappers.integrations.rllib_buffer import HerEpisodeReplayBuffer, NetworkInputs

pytestmark = pytest.mark.filterwarnings("ignore")


@parametrize_with_rules(OursForRLlib)
def test_the_buffer_passes_the_conformance_suite(finding):
    assert finding is None, finding


@pytest.fixture
def env():
    with gym.make("her_envs/Counting-v0", length=6, terminate_on_success=False) as made:
        yield made


def play(env, *, fragment=100, seed=0, numpy=True):
    """Yield chunks of one episode as an env runner does, each of ``fragment`` steps."""
    episode = SingleAgentEpisode()
    observation, info = env.reset(seed=seed)
    episode.add_env_reset(observation, info)
    for t in itertools.count():
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        episode.add_env_step(
            observation, env.action_space.sample(), reward, info, terminated=terminated, truncated=truncated
        )
        if episode.is_done:
            yield episode.to_numpy() if numpy else episode
            return
        if (t + 1) % fragment == 0:
            following = episode.cut(len_lookback_buffer=1)
            yield episode.to_numpy()
            episode = following


def filled(env, **options):
    """Return a buffer with one episode of 6 steps."""
    buffer = HerEpisodeReplayBuffer(env, seed=0, **options)
    buffer.add(list(play(env)))
    return buffer


def test_chunks_of_an_episode_are_stored_as_one_episode(env):
    buffer = HerEpisodeReplayBuffer(env, seed=0)
    for chunk in play(env, fragment=4):
        assert len(buffer) == 0
        buffer.add([chunk])
    [episode] = buffer.her_buffer.episodes()
    assert len(episode) == len(buffer) == 6
    assert episode.truncated
    np.testing.assert_array_equal(episode.observations["achieved_goal"][:, -1], range(7))


def test_chunks_that_are_lists_are_stored_too(env):
    buffer = HerEpisodeReplayBuffer(env, seed=0)
    buffer.add(chunk := next(play(env, numpy=False)))
    assert (len(buffer), type(chunk.get_observations())) == (6, list)


def test_an_episode_that_never_continues_is_stored_as_truncated_once_another_takes_its_place(env):
    buffer = HerEpisodeReplayBuffer(env, num_envs=1, seed=0)
    for seed in (0, 1):
        assert len(buffer) == 0
        buffer.add(next(play(env, fragment=4, seed=seed)))
    [episode] = buffer.her_buffer.episodes()
    assert (len(episode), episode.truncated) == (4, True)


@pytest.mark.parametrize(("kept", "lengths"), [([0, 2], [2, 2]), ([1, 2], [4]), ([0, 1, 2], [6])])
def test_an_episode_is_not_continued_across_a_lost_chunk(env, kept, lengths):
    buffer = HerEpisodeReplayBuffer(env, seed=0)
    chunks = list(play(env, fragment=2))
    buffer.add([chunks[number] for number in kept])
    episodes = list(buffer.her_buffer.episodes())
    assert [len(each) for each in episodes] == lengths
    for each in episodes:
        steps = each.observations["achieved_goal"][:, -1]
        assert (np.diff(steps) == 1).all()
    assert all(each.truncated for each in episodes)


def test_an_episode_with_nan_is_rejected_as_a_whole_when_it_ends(env):
    buffer = HerEpisodeReplayBuffer(env, seed=0)
    chunks = list(play(env, fragment=2))
    for chunk in chunks:
        chunk.observations.data["observation"][:, 0] = np.nan
    buffer.add(chunks[:-1])
    with pytest.raises(NotFiniteError, match=r"observations/observation .* at step 0"):
        buffer.add(chunks[-1])
    assert buffer.her_buffer.num_episodes == 0


def test_an_episode_longer_than_the_capacity_is_an_error_before_it_ends(env):
    buffer = HerEpisodeReplayBuffer(env, capacity=3, seed=0)
    with pytest.raises(ValueError, match=r"after at most 3 steps .* after 4 steps; .* time limit"):
        buffer.add(list(play(env, fragment=4)))


def test_a_rejected_chunk_does_not_affect_the_episode_before_it(env):
    buffer = HerEpisodeReplayBuffer(env, info_keys=("is_success",), seed=0)
    complete, rejected = (chunk for seed in (0, 1) for chunk in play(env, fragment=10, seed=seed))
    rejected.infos.data[2] = {}
    with pytest.raises(ValueError, match="info has no 'is_success' at step 1"):
        buffer.add([complete, rejected])
    [episode] = buffer.her_buffer.episodes()
    assert len(episode) == len(buffer) == 6
    assert episode.infos["is_success"].shape == (6,)


def test_columns_have_the_goals_and_rewards_of_the_batch(env):
    buffer = filled(env)
    [transitions] = buffer.sample(64, n_step=1, gamma=0.99)
    batch, columns = buffer.last_batch, transitions.columns
    assert len(transitions) == 64
    inputs = [batch.observations["observation"], batch.observations["desired_goal"]]
    np.testing.assert_array_equal(columns["obs"], np.concatenate(inputs, axis=1, dtype=np.float32))
    np.testing.assert_array_equal(
        columns["new_obs"][:, -2:], batch.next_observations["desired_goal"].astype(np.float32)
    )
    np.testing.assert_array_equal(columns["rewards"], batch.rewards)
    np.testing.assert_array_equal(columns["terminateds"], batch.terminations)
    assert batch.relabeled.mean() > 0.5


def test_shares_of_several_learners_make_up_the_batch(env):
    [transitions] = sampled = filled(env).sample(7)
    shares = [part for [part] in ShardEpisodesIterator(sampled, num_shards=2)]
    assert sorted(map(len, shares)) == [3, 4]
    for name, column in transitions.columns.items():
        np.testing.assert_array_equal(np.concatenate([part.columns[name] for part in shares]), column)


def test_discrete_goals_become_one_hot_vectors():
    env = gym.make("her_envs/BitFlipping-v0", n_bits=2, observation="integer")
    inputs = NetworkInputs(env.observation_space)
    states = {"observation": np.array([0, 3]), "desired_goal": np.array([2, 1])}
    np.testing.assert_array_equal(inputs(states, 2), [[1, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1, 0, 0]])
    assert inputs.space.shape == (8,)


def learn(buffer):
    """Let the learner set high priorities for step 2 of the last batch."""
    errors = torch.tensor(np.where(buffer.last_batch.index == 2, -5.0, 0.0))
    update_priorities_in_episode_replay_buffer(
        replay_buffer=buffer, td_errors={"default_policy": {"td_error": errors}}
    )


@pytest.mark.parametrize("priority", [None, Priority()])
def test_the_learner_sets_priorities_of_the_last_batch_if_the_buffer_has_them(env, priority):
    buffer = filled(env, prioritized=priority)
    buffer.sample(64)
    learn(buffer)
    buffer.sample(64)
    assert ((buffer.last_batch.index == 2).mean() > 0.9) == (priority is not None)


def test_our_connector_keeps_the_goals_that_the_connector_of_rllib_replaces(env):
    for connector, keeps in ((GoalsToInputs, True), (FlattenObservations, False)):
        episode = SingleAgentEpisode()
        episode.add_env_reset(*env.reset(seed=0))
        piece = connector(env.observation_space, env.action_space)
        piece(rl_module=None, batch={}, episodes=[episode], shared_data={})
        assert isinstance(episode.get_observations(-1), dict) == keeps


def test_a_state_of_a_buffer_with_other_options_is_an_error(env):
    with pytest.raises(ValueError, match="as in the saved buffer"):
        HerEpisodeReplayBuffer(env, gamma=0.5).set_state(HerEpisodeReplayBuffer(env).get_state())


def test_demonstrations_are_a_share_of_each_batch_and_have_priorities(env):
    demonstrations = Demonstrations(list(filled(env).her_buffer.episodes()), share=0.25)
    buffer = filled(env, prioritized=Priority(1.0), demonstrations=demonstrations)
    buffer.sample(64)
    assert buffer.last_batch.is_demonstration.sum() == 16
    learn(buffer)
    buffer.sample(64)
    demonstrated = buffer.last_batch.index[buffer.last_batch.is_demonstration]
    assert (demonstrated == 2).mean() > 0.9
