"""`TaskVectorEnv` on a torch device: the same tasks with tensors, without waiting for the device."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from scipy import stats
from torch.utils._pytree import tree_leaves

from her_envs import BitFlipping, Counting, PointMaze, PointPush, PointReach, TaskVectorEnv
from her_envs.tensors import TensorRandom
from tests.support.bundled import TASKS, VARIANTS, ids
from tests.support.waiting import NothingWaits

MODES = list(AutoresetMode)


def arrays(tree):
    """Return a tree with arrays in the place of tensors."""
    if isinstance(tree, dict):
        return {key: arrays(value) for key, value in tree.items()}
    return tree.numpy()


def draw_actions(env, rng):
    if isinstance(env.single_action_space, spaces.Discrete):
        return torch.from_numpy(rng.integers(env.single_action_space.n, size=env.num_envs))
    return torch.from_numpy(rng.uniform(-1.2, 1.2, env.action_space.shape).astype(np.float32))


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_tensors_have_the_values_of_arrays(env_id, options):
    """Both environments start in the same states, and get the same actions."""
    options = options | {"reward_type": "dense", "max_steps": 30, "num_envs": 30}
    with_arrays = gym.make_vec(env_id, autoreset_mode="NextStep", **options)
    with_arrays.reset(seed=0)
    start = with_arrays.unwrapped.state
    env = gym.make_vec(env_id, autoreset_mode="Disabled", device="cpu", **options)
    observations, infos = env.reset(
        seed=0, options={"goal": torch.from_numpy(start.pop("goal")), "state": start}
    )
    assert env.observation_space.contains(arrays(observations))
    assert not infos["is_success"].any()
    rng = np.random.default_rng(0)
    for _ in range(25):
        actions = draw_actions(env, rng)
        observations, rewards, *flags, infos = env.step(actions)
        expected, expected_rewards, *expected_flags, expected_infos = with_arrays.step(actions.numpy())
        for key, values in observations.items():
            assert values.numpy().dtype == expected[key].dtype
            np.testing.assert_allclose(values.numpy(), expected[key], atol=1e-5)
        np.testing.assert_allclose(rewards.numpy(), expected_rewards, atol=1e-5)
        np.testing.assert_array_equal(infos["is_success"].numpy(), expected_infos["is_success"])
        np.testing.assert_array_equal(torch.stack(flags).numpy(), expected_flags)
        assert (rewards.dtype, flags[0].dtype, flags[1].dtype) == (torch.float32, torch.bool, torch.bool)
        if np.any(expected_flags):
            break


@pytest.fixture
def _generator_without_a_device(monkeypatch):
    class Generator(torch.Generator):
        def __new__(cls, device):
            return super().__new__(cls, "cpu")

    monkeypatch.setattr(torch, "Generator", Generator)


def take_steps(task, mode):
    """Take steps on the device meta, whose tensors have no values: reading a value is an error."""
    env = TaskVectorEnv(task, 6, autoreset_mode=mode, max_steps=2, reward_type="dense", device="meta")
    actions = draw_actions(env, np.random.default_rng(0)).to("meta")
    with NothingWaits():
        env.reset(seed=0)
        for _ in range(3):
            observations, rewards, terminations, truncations, infos = env.step(actions)
            if mode is AutoresetMode.DISABLED:
                env.reset(options={"reset_mask": terminations | truncations})
    tensors = tree_leaves((observations, rewards, terminations, infos))
    assert {each.device.type for each in tensors} == {"meta"}


@pytest.mark.usefixtures("_generator_without_a_device")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", TASKS)
def test_nothing_waits_for_the_device(task, mode):
    take_steps(task, mode)


@pytest.mark.parametrize("task", TASKS)
def test_final_observations_are_the_next_states_of_all_environments(task):
    env = TaskVectorEnv(task, 40, max_steps=3, device="cpu")
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observations, _ = env.reset(seed=0)
    rng, elapsed = np.random.default_rng(0), np.zeros(40, int)
    for _ in range(12):
        actions, before = draw_actions(env, rng), arrays(env.state)
        observations, _, terminations, truncations, infos = env.step(actions)
        clipped = actions.numpy().clip(env._lowest, env._highest)
        expected = task.observe(task.step(before, clipped, rng))
        success = task.success(expected["achieved_goal"], expected["desired_goal"])
        elapsed += 1
        ended = (success & task.terminate_on_success) | (elapsed == 3)
        np.testing.assert_array_equal(terminations | truncations, ended)
        for mask in (infos["_final_obs"], infos["_final_info"], infos["final_info"]["_is_success"]):
            np.testing.assert_array_equal(mask, ended)
        np.testing.assert_array_equal(infos["final_info"]["is_success"], success)
        np.testing.assert_array_equal(infos["is_success"], success & ~ended)
        state = arrays(env.state)
        for key, values in task.observe(state).items():
            np.testing.assert_allclose(infos["final_obs"][key], expected[key], atol=1e-6)
            np.testing.assert_array_equal(observations[key], values)
            np.testing.assert_array_equal(observations[key][~ended], infos["final_obs"][key][~ended])
        started = task.observe(state)
        assert not task.success(started["achieved_goal"], started["desired_goal"])[ended].any()
        elapsed[ended] = 0


@pytest.mark.parametrize("mode", MODES)
def test_episodes_begin_when_the_mode_says(mode):
    """Counting shows the step number: all steps of its episodes follow each other."""
    task, rng = Counting(length=4), np.random.default_rng(0)
    env = TaskVectorEnv(task, 50, autoreset_mode=mode, device="cpu")
    count = env.reset(seed=0)[0]["observation"]
    ended = torch.zeros(50, dtype=torch.bool)
    for _ in range(15):
        if mode is AutoresetMode.DISABLED:
            count = env.reset(options={"reset_mask": ended})[0]["observation"]
        before, begins = count, ended if mode is AutoresetMode.NEXT_STEP else torch.zeros_like(ended)
        observations, rewards, terminations, truncations, infos = env.step(draw_actions(env, rng))
        count = observations["observation"]
        last = infos["final_obs"]["observation"] if mode is AutoresetMode.SAME_STEP else count
        assert torch.equal(last[~begins], before[~begins] + torch.tensor([0, 1]))
        assert not last[begins, 1].any()
        assert torch.equal(rewards == 0, terminations | begins)
        assert not truncations.any()
        ended = terminations
        if mode is AutoresetMode.SAME_STEP:
            assert torch.equal(count[:, 1] == 0, ended)


@pytest.mark.parametrize("num_envs", [1, 500])
@pytest.mark.parametrize("unsolved", [0.0, 0.1, 0.7])
def test_starts_are_unsolved_if_one_sample_is(num_envs, unsolved):
    class Easy(PointReach):
        def reset(self, num_envs, rng):
            state = super().reset(num_envs, rng)
            away = 1.0 * (rng.random((num_envs, 1)) < unsolved)
            return {"position": state["position"] / 2, "goal": state["position"] / 2 + 0.3 * away}

    env = TaskVectorEnv(Easy(), num_envs, device="cpu", max_steps=1)
    env.reset(seed=0)
    starts = env.step(torch.zeros(num_envs, 2))[0]
    apart = (starts["achieved_goal"] - starts["desired_goal"]).norm(dim=1)
    assert ((apart > 0.1) == (unsolved > 0)).all()
    different = len(starts["achieved_goal"].unique(dim=0))
    assert different == num_envs if unsolved > 0.5 else different <= num_envs * 3 // 2 + 64


@pytest.mark.parametrize("task", [PointReach(), PointPush(), PointMaze(layout="four_rooms"), Counting()])
def test_starts_have_the_distribution_of_arrays(task):
    kinds = [{}, {"device": "cpu", "max_steps": 1}]
    env, on_device = (TaskVectorEnv(task, 4000, **options) for options in kinds)
    expected, _ = env.reset(seed=0)
    on_device.reset(seed=0)
    observations, *_ = on_device.step(draw_actions(on_device, np.random.default_rng(0)))
    for key, values in observations.items():
        for got, column in zip(values.T, expected[key].T, strict=True):
            assert stats.ks_2samp(got, column).pvalue > 1e-4


def test_equal_seeds_give_equal_episodes():
    first, again, other, unseeded = (
        TaskVectorEnv(PointPush(), 5, max_steps=2, device="cpu") for _ in range(4)
    )
    starts = [env.reset(seed=seed)[0] for env, seed in ((first, 3), (again, 3), (other, 4), (unseeded, None))]
    assert len({str(start["observation"].tolist()) for start in starts}) == 3
    actions = torch.zeros(5, 2)
    for _ in range(5):
        steps = [env.step(actions)[0]["observation"] for env in (first, again)]
        assert torch.equal(*steps)


def test_masked_reset_changes_only_the_masked_environments():
    env = TaskVectorEnv(PointReach(), 4, autoreset_mode="Disabled", max_steps=2, device="cpu")
    before, _ = env.reset(seed=0)
    env.step(torch.zeros(4, 2))
    mask = torch.tensor([True, False, False, True])
    for options in ({}, {"goal": [0.9, 0.9]}, {"goal": torch.full((4, 2), 0.9), "state": [0.1, 0.1]}):
        after, infos = env.reset(options={"reset_mask": mask, **options})
        assert torch.equal((after["observation"] == before["observation"]).all(1), ~mask)
        assert torch.equal(infos["_is_success"], mask)
        if options:
            assert torch.equal((after["desired_goal"] == 0.9).all(1), mask)
    assert env.step(torch.zeros(4, 2))[3].tolist() == [False, True, True, False]
    with pytest.raises(ValueError, match="'goal'"):
        env.reset(options={"goal": [3.0, 3.0]})
    with pytest.raises(ValueError, match="'reset_mask'"):
        env.reset(options={"reset_mask": torch.ones(3, dtype=torch.bool)})


def test_actions_are_clipped_and_nan_is_passed_on():
    env = TaskVectorEnv(PointMaze(), 3, device="cpu")
    env.reset(seed=0, options={"state": [0.5, 0.5]})
    actions = torch.tensor([[99.0, 0.0], [1.0, 0.0], [np.nan, 0.0]], requires_grad=True)
    for _ in range(2):
        observations, *_ = env.step(actions)
    moved = observations["observation"]
    assert torch.equal(moved[0], moved[1])
    assert moved[2].isnan().any()
    assert not moved.requires_grad
    bits = TaskVectorEnv(BitFlipping(n_bits=2), 2, device="cpu")
    bits.reset(options={"goal": [1, 1], "state": [0, 0]})
    flipped = bits.step(torch.tensor([-5, 5]))[4]["final_obs"]["observation"]
    assert flipped.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "actions",
    [np.zeros((3, 2)), torch.zeros(2, 2), torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, 2).to("meta")],
)
def test_wrong_actions_raise_an_error(actions):
    env = TaskVectorEnv(PointReach(), 3, device="cpu")
    with pytest.raises(ResetNeeded):
        env.step(torch.zeros(3, 2))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must be a tensor"):
        env.step(actions)


@pytest.mark.parametrize("device", ["gpu", 1.5])
def test_unknown_devices_raise_an_error(device):
    with pytest.raises(ValueError, match="device must be None"):
        TaskVectorEnv(PointReach(), 2, device=device)


class Drift(PointReach):
    """A user's task with noise, an array as attribute, and functions for arrays or for both types."""

    def __init__(self, both):
        super().__init__()
        self.both = both
        self.wind = np.float32([0.01, 0.0])

    def step(self, state, action, rng):
        noise = rng.uniform(0.0, 0.001, state["position"].shape)
        position = state["position"] + self.wind + noise
        return {
            "position": (position if self.both else np.asarray(position)).clip(0, 1),
            "goal": state["goal"],
        }


def test_own_tasks_run_on_a_device_if_they_support_tensors():
    for options in ({}, {"device": "cpu"}):
        env = TaskVectorEnv(Drift(both=True), 500, **options)
        before = env.reset(seed=0, options={"state": [0.5, 0.5], "goal": [0.9, 0.9]})[0]["observation"]
        actions = env.action_space.sample()
        after = env.step(torch.from_numpy(actions) if options else actions)[0]["observation"]
        moved = (after - before).mean(0)
        np.testing.assert_allclose(moved, [0.0105, 0.0005], atol=3e-4)


def test_tasks_for_arrays_only_raise_an_error_on_a_device():
    env = TaskVectorEnv(Drift(both=False), 3, device="cpu")
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"'position' of Drift must be a tensor .*ndarray"):
        env.step(torch.zeros(3, 2))


def test_random_tensors_have_the_ranges_of_numpy():
    rng = TensorRandom(torch.device("cpu"))
    assert rng.integers(3, size=1000).unique().tolist() == [0, 1, 2]
    assert rng.integers(2, 5, size=(10, 100)).unique().tolist() == [2, 3, 4]
    assert (rng.random(3, np.float32).dtype, rng.random().dtype) == (torch.float32, torch.float64)


def test_pictures_equal_those_of_arrays():
    pictures = []
    for options in ({}, {"device": "cpu"}):
        env = TaskVectorEnv(PointPush(), 2, render_mode="rgb_array", render_size=64, **options)
        env.reset(seed=0, options={"goal": [0.5, 0.7], "state": {"agent": [0.2, 0.2], "puck": [0.4, 0.4]}})
        for _ in range(3):
            actions = np.ones((2, 2), np.float32)
            env.step(torch.from_numpy(actions) if options else actions)
        pictures.append(env.render())
    np.testing.assert_array_equal(*pictures)
