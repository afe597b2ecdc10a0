"""Comparison of `HerReplayBuffer` with SB3's class, for every method."""

import copy
import inspect
import pickle
import re
import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from her_wrappers.integrations.sb3 import HerReplayBuffer
from tests.support.counting import ACTIONS, SPACE, compute_reward, counting_episode
from tests.support.reusing import KEPT, Reusing
from tests.support.sb3_buffers import BOTH, Rewards, add, filled, make_buffer, model_of

pytestmark = pytest.mark.filterwarnings("ignore:an episode terminated at its goal")


def test_arguments_have_the_names_the_order_and_the_defaults_of_sb3():
    theirs = list(inspect.signature(sb3.HerReplayBuffer).parameters.values())
    ours = list(inspect.signature(HerReplayBuffer).parameters.values())
    facts = [[(each.name, each.default, each.kind) for each in part] for part in (theirs, ours)]
    assert facts[1][: len(theirs)] == facts[0]
    assert {each.kind for each in ours[len(theirs) :]} == {inspect.Parameter.KEYWORD_ONLY}


@BOTH
@pytest.mark.parametrize("n_envs", [1, 3])
def test_every_public_method_does_the_same_in_both_classes(kind, n_envs):
    """Both classes pass this test of the public behavior."""
    buffer = make_buffer(15 * n_envs, kind=kind, n_envs=n_envs, n_sampled_goal=3)
    assert isinstance(buffer, sb3.HerReplayBuffer)
    assert (buffer.buffer_size, buffer.n_envs, buffer.size(), buffer.pos, buffer.full) == (
        15, n_envs, 0, 0, False,
    )  # fmt: skip
    assert buffer.her_ratio == 0.75
    assert buffer.goal_selection_strategy is GoalSelectionStrategy.FUTURE
    with pytest.raises(RuntimeError, match="Unable to sample before the end of the first episode"):
        buffer.sample(4)
    counts = []
    for number in range(5):
        add(buffer, [counting_episode(10 * number + i, 4) for i in range(n_envs)], timeout=number % 2)
        counts.append((buffer.size(), buffer.pos, buffer.full))
    assert counts == [(4, 4, False), (8, 8, False), (12, 12, False), (15, 1, True), (15, 5, True)]
    batch = buffer.sample(64)
    for key, part in SPACE.items():
        for observations in (batch.observations, batch.next_observations):
            assert observations[key].shape == (64, *part.shape)
            assert observations[key].numpy().dtype == part.dtype
    assert {tuple(part.shape) for part in (batch.rewards, batch.dones)} == {(64, 1)}
    assert batch.rewards.dtype == batch.dones.dtype == torch.float32
    assert batch.actions.shape == (64, *ACTIONS.shape)
    buffer.extend([], [], [], [], [], [])
    buffer.reset()
    assert (buffer.size(), buffer.pos, buffer.full) == (0, 0, False)


@BOTH
@pytest.mark.parametrize("copies", [False, True])
def test_compute_reward_gets_infos_in_the_same_form(kind, copies):
    forms, seen = set(), []

    class Recording(Rewards):
        def compute_reward(self, achieved, desired, info):
            if len(achieved) == 80:  # the relabeled rows of a batch of 100
                forms.add((type(info), getattr(info, "dtype", None), len(info)))
                seen.extend(info)
            return compute_reward(achieved, desired, info)

    buffer = filled(kind=kind, env=Recording, copy_info_dict=copies)
    buffer.sample(100)
    assert forms == {(np.ndarray, np.dtype(object), 80) if copies else (list, None, 80)}
    assert {type(info) for info in seen} == {dict}
    assert {info.get("t") for info in seen} == ({0, 1, 2, 3, 4} if copies else {None})


@BOTH
def test_a_reward_function_that_changes_infos_does_not_change_the_stored_ones(kind):
    seen = []

    class Changing(Rewards):
        def compute_reward(self, achieved, desired, info):
            seen.extend(row["place"].tolist() for row in info)
            for row in info:
                row["place"][:] = 7
            return compute_reward(achieved, desired, info)

    buffer = filled(kind=kind, env=Changing, copy_info_dict=True, info={"place": np.zeros(2)})
    for _ in range(3):
        buffer.sample(100)
    assert len(seen) >= 240
    assert all(place == [0, 0] for place in seen)


@BOTH
@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_pickled_buffer_accepts_an_environment_and_truncates_open_episodes(kind, n_envs):
    buffer = make_buffer(15 * n_envs, kind=kind, n_envs=n_envs)
    for number, steps in ((0, 4), (10, 2)):
        add(buffer, [counting_episode(number + i, 4) for i in range(n_envs)], steps=steps)
    loaded = pickle.loads(pickle.dumps(buffer))
    assert loaded.env is None
    loaded.set_env(buffer.env)
    with pytest.raises(ValueError, match="set env of already initialized"):
        loaded.set_env(buffer.env)
    with pytest.warns(UserWarning, match="last trajectory in the replay buffer will be truncated"):
        loaded.truncate_last_trajectory()
    loaded.truncate_last_trajectory()  # no episode is open
    assert (loaded.size(), loaded.pos) == (buffer.size(), buffer.pos) == (6, 6)
    numbers = {
        part.sample(200).observations["achieved_goal"][:, 0].max().item() // 10 for part in (buffer, loaded)
    }
    assert numbers == {0, 1}


@BOTH
@pytest.mark.parametrize("handle", [True, False])
@pytest.mark.parametrize("end", ["goal", "time limit", "interruption"])
@pytest.mark.filterwarnings("ignore:.*last trajectory")
def test_episodes_cut_by_time_or_a_person_terminate_only_where_that_is_not_handled(kind, handle, end):
    buffer = make_buffer(kind=kind, handle_timeout_termination=handle, n_sampled_goal=0)
    length = 5 if end == "interruption" else 3
    add(buffer, [counting_episode(0, length)], steps=3, timeout=end == "time limit")
    buffer.truncate_last_trajectory()
    batch = buffer.sample(50)
    last = batch.next_observations["achieved_goal"][:, 1] == 3
    assert set(batch.dones[last].flatten().tolist()) == {float(not (handle and end != "goal"))}
    assert batch.dones[~last].sum() == 0


@pytest.mark.parametrize(("algorithm", "image"), [(sb3.DQN, False), (sb3.SAC, True), (sb3.TD3, False)])
def test_every_algorithm_of_sb3_trains_on_bits_and_on_images(algorithm, image):
    env = make_vec_env(lambda: BitFlippingEnv(4, continuous=algorithm is not sb3.DQN, image_obs_space=image))
    options = {"n_sampled_goal": 2, "copy_info_dict": True}
    model = model_of(algorithm, env, train_freq=8, replay_buffer_kwargs=options)
    model.learn(40)
    assert model.replay_buffer.size() == 40


def test_an_algorithm_of_sb3_contrib_trains():
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is missing")
    model = model_of(contrib.QRDQN, make_vec_env(lambda: BitFlippingEnv(4), 2)).learn(40)
    assert len(model.replay_buffer.her_buffer) > 20


def test_subprocesses_and_discrete_observations_work():
    env = SubprocVecEnv([lambda: BitFlippingEnv(3, discrete_obs_space=True)] * 2, start_method="fork")
    try:
        model = model_of(sb3.DQN, env, train_freq=4)
        model.learn(40)
        batch = model.replay_buffer.sample(50)
    finally:
        env.close()
    assert batch.observations["desired_goal"].shape == (50, 1)
    reached = batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]
    torch.testing.assert_close(batch.rewards, reached.float() - 1)


class Strict(BitFlippingEnv):
    """Its functions raise if they are called with batches."""

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return bool(np.all(achieved_goal == desired_goal)) if np.ndim(achieved_goal) == 1 else 1 / 0

    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.float64(np.all(achieved_goal == desired_goal) - 1 if info is None else 1 / 0)  # step: None


@pytest.mark.parametrize(
    ("termination", "name"), [("recompute", "compute_terminated"), ("keep", "compute_reward")]
)
def test_a_function_that_ends_its_subprocess_is_named(termination, name):
    env = SubprocVecEnv([partial(Strict, 3)] * 2, start_method="fork")
    with pytest.raises(ConnectionError, match=f"ended in {name}, called with"):
        model_of(sb3.DQN, env, train_freq=4, replay_buffer_kwargs={"termination": termination}).learn(40)
    for process in env.processes:
        process.terminate()


FORKED = partial(SubprocVecEnv, start_method="fork")


@pytest.mark.parametrize("kind", [DummyVecEnv, FORKED], ids=["here", "subprocess"])
def test_stacked_goals_are_an_error_that_names_the_wrapper(kind):
    env = VecFrameStack(kind([lambda: gym.make("her_envs/PointReach-v0")]), 3)
    with pytest.raises(ValueError, match=r"to \(6,\), but .* takes \(2,\).*VecFrameStack"):
        model_of(sb3.SAC, env)
    model_of(sb3.SAC, env, replay_buffer_kwargs={"n_sampled_goal": 0})  # nothing is relabeled
    env.close()


@pytest.mark.parametrize(
    ("kept", "kind", "n_envs"), [*((kept, DummyVecEnv, 2) for kept in KEPT), (KEPT[-1], FORKED, 1)]
)
@pytest.mark.filterwarnings("ignore:step .* of an episode has the reward")  # since its last goal is wrong
def test_overwritten_terminal_observations_are_noticed(kept, kind, n_envs):
    env = kind([partial(Reusing, kept)] * n_envs)
    with warnings.catch_warnings(record=True) as found:  # others are consequences, such as wrong rewards
        warnings.simplefilter("always")
        model_of(sb3.SAC, env, learning_starts=1000, replay_buffer_kwargs={"seed": 0}).learn(200)
    env.close()
    messages = [str(each.message) for each in found if "CopyObservation" in str(each.message)]
    assert len(messages) == 1
    assert re.match(rf"in all \d+ episodes, the last value of observation/.*{kept[-1]}", messages[0])


@pytest.mark.parametrize("kept", [("info",), ()])
def test_overwritten_infos_are_noticed(kept):
    env = DummyVecEnv([partial(Reusing, kept)] * 2)
    options = {"seed": 0, "copy_info_dict": True}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model_of(sb3.SAC, env, learning_starts=1000, replay_buffer_kwargs=options).learn(100)
    messages = [str(each.message) for each in found if "CopyObservation" in str(each.message)]
    assert len(messages) == len(kept)
    assert all(text.startswith("the environment returns the same info dict") for text in messages)


@BOTH
def test_rewards_are_computed_from_raw_goals_and_then_normalized(kind):
    env = VecNormalize(make_vec_env("her_envs/PointReach-v0", 2, env_kwargs={"max_steps": 5}), gamma=0.9)
    model = model_of(sb3.SAC, env, replay_buffer_class=kind, replay_buffer_kwargs={"n_sampled_goal": 4})
    model.learn(40)
    batch = model.replay_buffer.sample(200, env=env)
    raw = env.unnormalize_obs({key: rows.numpy() for key, rows in batch.next_observations.items()})
    apart = np.linalg.norm(raw["achieved_goal"] - raw["desired_goal"], axis=1)
    clear = abs(apart - 0.05) > 1e-3
    paid = env.normalize_reward(-(apart > 0.05).astype(np.float32))
    assert (paid != 0).any()
    np.testing.assert_allclose(batch.rewards[clear, 0], paid[clear], atol=1e-5)
    assert batch.observations["observation"].dtype == torch.float32


@pytest.mark.parametrize("n_envs", [1, 2])
def test_a_loaded_buffer_continues_the_open_episode(tmp_path, n_envs):
    env = make_vec_env(lambda: BitFlippingEnv(4, continuous=True), n_envs)
    model = model_of(sb3.SAC, env, buffer_size=2000)
    model.learn(62 - n_envs)
    before = copy.deepcopy(model.replay_buffer)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    model = sb3.SAC.load(tmp_path / "model", env=env)
    model.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=False)
    after = model.replay_buffer
    assert (after.size(), len(after.her_buffer)) == (before.size(), len(before.her_buffer))
    before.env = env
    torch.testing.assert_close(after.sample(64), before.sample(64))
    model.learn(20, reset_num_timesteps=False)
    assert len(after.her_buffer) > len(before.her_buffer)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.filterwarnings("ignore:.*last trajectory")
def test_an_episode_that_a_second_learn_interrupts_is_not_joined_to_the_next(optimize):
    """SB3's class joins the steps after the reset to the old episode, and relabels across the reset."""
    model = model_of(
        sb3.DQN, BitFlippingEnv(10), optimize_memory_usage=optimize, learning_starts=10**6, train_freq=1
    )
    model.learn(3)
    model.learn(30)
    first, *_ = model.replay_buffer.her_buffer.episodes()
    assert (len(first), first.terminated, first.truncated) == (3, False, True)
    for episode in model.replay_buffer.her_buffer.episodes():
        states = episode.observations["observation"].astype(int)
        assert (abs(np.diff(states, axis=0)).sum(1) == 1).all()  # one bit per step, so no reset
