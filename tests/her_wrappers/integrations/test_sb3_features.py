"""Features of `HerReplayBuffer` that SB3's class does not have: every test fails for SB3's class."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from scipy.stats import binomtest
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import SubprocVecEnv

from her_wrappers import Demonstrations, Episode, EpisodeRecorder, Mixture
from her_wrappers.integrations.sb3 import HerReplayBuffer
from tests.support.counting import ACTIONS, DESIRED, SPACE, counting_episode
from tests.support.sb3_buffers import Rewards, add, filled, make_buffer, model_of, one_success_kept
from tests.support.sb3_versions import HAS_N_STEPS, needs_n_steps

pytestmark = pytest.mark.filterwarnings("ignore:an episode terminated at its goal")


def bits(kind, **options):
    """Return a buffer with random steps of SB3's BitFlippingEnv."""
    options = {"replay_buffer_class": kind, "replay_buffer_kwargs": options, "learning_starts": 10**6}
    return model_of(sb3.DQN, BitFlippingEnv(5), **options).learn(200).replay_buffer


def test_a_relabeled_success_terminates_with_termination_success():
    """Stable-Baselines3's class keeps the recorded flag (issue 627 of Stable-Baselines3)."""
    assert one_success_kept(bits(sb3.HerReplayBuffer)).sum() == 0
    assert one_success_kept(bits(HerReplayBuffer)).sum() == 0  # the environment has no compute_terminated
    assert one_success_kept(bits(HerReplayBuffer, termination="success")).all()
    assert one_success_kept(bits(HerReplayBuffer, termination=reached)).all()


def reached(achieved, desired, info):
    return (achieved == desired).all(axis=-1)


class Ends(Rewards):
    """Its ``compute_terminated`` accepts batches."""

    def compute_terminated(self, achieved, desired, info):
        return reached(achieved, desired, info)


class EndsSingle(Rewards):
    """Its ``compute_terminated`` accepts only single goals."""

    def compute_terminated(self, achieved, desired, info):
        return bool(reached(achieved, desired, info))


class EndsNever(Rewards):
    """As the environments of gymnasium-robotics."""

    def compute_terminated(self, achieved, desired, info):
        return False


@pytest.mark.parametrize(("env", "terminates"), [(Ends, True), (EndsSingle, True), (EndsNever, False)])
@pytest.mark.filterwarnings("error", "ignore:compute_terminated accepts single goals only")
def test_by_default_terminations_are_computed_by_the_environment(env, terminates):
    buffer = filled(env=env, timeout=True)
    batch = buffer.sample(200)
    successes = batch.rewards[:, 0] == 0
    assert successes.sum() > 20
    assert (batch.dones[successes] == terminates).all()


@pytest.mark.parametrize("env", [Ends, EndsSingle])
def test_other_processes_compute_terminations_only_if_asked(env):
    """A call of ``EndsSingle`` with a batch would end the process."""
    envs = SubprocVecEnv([env], start_method="fork")
    for termination in (None, "recompute")[: 1 + (env is Ends)]:
        buffer = HerReplayBuffer(100, SPACE, ACTIONS, envs, device="cpu", termination=termination)
        add(buffer, [counting_episode(0, 5)], timeout=True)
        batch = buffer.sample(200)
        assert (batch.dones[batch.rewards[:, 0] == 0] == (termination is not None)).all()
    envs.close()


def test_batches_sampled_together_have_equal_distributions():
    """If n batches cannot share the relabeled rows equally, each has the same chance of an additional one."""
    buffer = filled(seed=0)
    shares = np.array([
        [(buffer.sample(2).observations["desired_goal"][:, 1] >= 0).float().mean() for _ in range(15)]
        for _ in range(200)
        if buffer._batches.invalidate() is None
    ])  # fmt: skip
    np.testing.assert_allclose(shares.mean(axis=0), 0.8, atol=0.07)  # over three deviations


def test_unused_batches_are_dropped_when_an_episode_is_stored():
    buffer = make_buffer()
    add(buffer, [counting_episode(0, 2)])
    for _ in range(5):
        buffer.sample(8)
    add(buffer, [counting_episode(1, 60)])
    for _ in range(4):  # at least two more batches were sampled
        assert (buffer.sample(8).observations["achieved_goal"][:, 0] == 1).any()


@pytest.mark.parametrize("strategy", ["Desired", Mixture({"future": 0.5, "desired": 0.5})])
def test_new_goals_may_be_desired_goals_of_other_episodes(strategy):
    buffer = make_buffer(goal_selection_strategy=strategy, n_sampled_goal=9)
    for number in range(3):
        add(buffer, [counting_episode(number, 5)])
    batch = buffer.sample(300)
    episode, goal = batch.observations["observation"][:, 0], batch.observations["desired_goal"]
    of_others = (goal[:, 0] != episode).numpy()
    assert (goal[of_others, 1] == DESIRED).all()
    share = 0.9 if isinstance(strategy, str) else 0.45
    assert binomtest(int(of_others.sum()), 300, share * 2 / 3).pvalue > 1e-4


def test_a_mixture_can_set_the_share_of_original_rows():
    mixture = Mixture({"final": 0.5, "original": 0.5})
    buffer = filled(goal_selection_strategy=mixture, n_sampled_goal=None)
    assert buffer.her_ratio == 0.5
    assert (buffer.sample(300).observations["desired_goal"][:, 1] >= 0).sum() == 150
    with pytest.raises(ValueError, match="share of relabeled rows must be given only once"):
        make_buffer(goal_selection_strategy=mixture)


@needs_n_steps
def test_n_step_batches_have_discounts():
    buffer = filled(n_sampled_goal=0, n_steps=3, gamma=0.5, timeout=True)
    batch = buffer.sample(200)
    left = (5 - batch.observations["achieved_goal"][:, 1]).clip(max=3)
    torch.testing.assert_close(batch.discounts[:, 0], (0.5**left).float())
    torch.testing.assert_close(batch.rewards[:, 0], -(2 - 2 * 0.5**left).float())


@pytest.mark.skipif(HAS_N_STEPS, reason="this Stable-Baselines3 has n steps")
def test_n_steps_are_an_error_for_an_sb3_without_discounts():
    with pytest.raises(ValueError, match="needs Stable-Baselines3 2"):
        make_buffer(n_steps=3)


def test_the_seed_of_the_algorithm_determines_the_batches():
    def batch(seed, **options):
        model = model_of(sb3.DQN, BitFlippingEnv(4), seed=seed, replay_buffer_kwargs=options)
        return model.learn(40).replay_buffer.sample(30)

    torch.testing.assert_close(batch(1), batch(1))
    buffers = [make_buffer(seed=seed) for seed in (1, 1, 2)]
    for buffer in buffers:
        add(buffer, [counting_episode(0, 40)])
    first, same, other = (buffer.sample(30).observations["observation"] for buffer in buffers)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_float64_observations_are_rounded_to_the_float32_of_their_space():
    space = spaces.Dict({key: spaces.Box(-1, 1, (2,), np.float32) for key in SPACE})

    class Doubles(Rewards):
        observation_space = space

    buffer = make_buffer(env=Doubles)
    obs = {key: np.full((1, 2), 0.1) for key in space}
    buffer.add(obs, obs, np.zeros((1, *ACTIONS.shape)), np.zeros(1), np.ones(1, bool), [{}])
    assert buffer.sample(1).observations["observation"].dtype == torch.float32


def test_batches_are_on_the_device_of_the_buffer():
    buffer = filled()
    buffer.device = torch.device("meta")
    for _ in range(4):
        batch = buffer.sample(4)
        parts = (*batch.observations.values(), *batch.next_observations.values(), batch.actions, batch.dones)
        assert {part.device.type for part in (*parts, batch.rewards)} == {"meta"}


def test_demonstrations_have_scaled_actions_and_are_saved(tmp_path):
    """Stable-Baselines3 stores actions in [-1, 1]."""
    env = gym.wrappers.RescaleAction(
        gym.make("her_envs/PointReach-v0", max_steps=5), np.float32(0), np.float32(4)
    )
    episodes: list[Episode] = []
    recorder = EpisodeRecorder(env, episodes.append)
    for seed in range(3):
        recorder.reset(seed=seed)
        while not any(recorder.step(np.full(2, 3, np.float32))[2:4]):
            pass
    options = {"demonstrations": Demonstrations(episodes, share=0.5), "termination": "success"}
    model = model_of(sb3.SAC, env, replay_buffer_kwargs=options, seed=0).learn(30)
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    model.load_replay_buffer(tmp_path / "buffer.pkl")
    batch = model.learn(30).replay_buffer.her_buffer.sample(64)
    assert batch.is_demonstration.sum() == 32
    assert (batch.actions[batch.is_demonstration] == 0.5).all()
    assert (batch.actions[~batch.is_demonstration] != 0.5).any()


def test_without_relabeling_the_environment_computes_nothing():
    calls = []

    class Counts(Rewards):
        def compute_terminated(self, *arguments):
            calls.append(arguments)
            return reached(*arguments)

    buffer = filled(env=Counts, n_sampled_goal=0)
    assert buffer.sample(20).dones.any()
    assert not calls


@pytest.mark.filterwarnings("ignore:step .* of an episode has the reward")
def test_a_reward_function_gets_the_actions_of_the_environment():
    class Wide(Rewards):
        action_space = spaces.Box(0, 4, ACTIONS.shape, np.float32)

    given = []
    buffer = filled(env=Wide, reward_fn=lambda batch: given.append(batch.actions) or 0 * batch.rewards)
    stored = buffer.her_buffer.sample(100).actions
    np.testing.assert_allclose(given[-1] / 2 - 1, stored[: len(given[-1])], atol=1e-6)
