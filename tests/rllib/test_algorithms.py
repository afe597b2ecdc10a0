"""DQN and SAC of RLlib with our buffer: several env runners, checkpoints, and settings that are errors."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from her_wrappers.integrations.rllib import HerDQN, HerDQNConfig, HerSACConfig

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {"fcnet_hiddens": [16], "head_fcnet_hiddens": []}


def dqn(**buffer):
    """DQN on 4 bits, with an update after every 32 steps."""
    return (
        HerDQNConfig()
        .environment("her_envs:her_envs/BitFlipping-v0", env_config={"n_bits": 4})
        .env_runners(num_envs_per_env_runner=4, rollout_fragment_length=8)
        .training(
            replay_buffer_config=buffer,
            train_batch_size_per_learner=32,
            num_steps_sampled_before_learning_starts=0,
        )
        .rl_module(model_config=SMALL)
        .reporting(min_sample_timesteps_per_iteration=64)
        .debugging(seed=0)
    )


def learned_steps(result):
    return result["learners"]["default_policy"]["num_module_steps_trained_lifetime"]


def test_env_runners_and_learners_in_processes_share_a_buffer_without_episodes_of_evaluations():
    config = dqn(n_sampled_goal=4).env_runners(num_env_runners=2).learners(num_learners=2)
    config.evaluation(
        evaluation_interval=1,
        evaluation_num_env_runners=1,
        evaluation_parallel_to_training=True,
        evaluation_duration=2,
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        buffer = algo.local_replay_buffer
        assert learned_steps(result) > 0
        assert result["replay_buffer"]["num_env_steps_stored"] == len(buffer) > 32
        assert len(buffer) <= result["env_runners"]["num_env_steps_sampled_lifetime"]
        assert 0 <= result["env_runners"]["success_rate"] <= 1
        for episode in buffer.her_buffer.episodes():  # none was cut into chunks
            assert len(episode) == 4 or (len(episode) < 4 and episode.terminated)
    finally:
        algo.stop()


@pytest.fixture(scope="module")
def trained():
    algo = dqn(capacity=500, n_sampled_goal=2).training(n_step=3).build_algo()
    algo.train()
    yield algo
    algo.stop()


def rows_of(algo):
    return [
        episode.observations["achieved_goal"] for episode in algo.local_replay_buffer.her_buffer.episodes()
    ]


def test_a_checkpoint_has_the_buffer(trained, tmp_path):
    path = trained.save_to_path(tmp_path / "checkpoint")
    restored = Algorithm.from_checkpoint(path)
    try:
        stored, loaded = rows_of(trained), rows_of(restored)
        assert len(loaded) >= len(stored) > 0  # open episodes are stored as truncated
        for one, other in zip(stored, loaded, strict=False):
            np.testing.assert_array_equal(one, other)
        before = len(restored.local_replay_buffer)
        assert learned_steps(restored.train()) > 0
        assert len(restored.local_replay_buffer) > before
    finally:
        restored.stop()


def test_restoring_replaces_the_buffer_unless_it_is_left_out(trained, tmp_path):
    path = trained.save_to_path(tmp_path / "checkpoint")
    before = len(rows_of(trained))
    trained.train()
    assert len(rows_of(trained)) > before
    trained.restore_from_path(path)
    assert before <= len(rows_of(trained)) <= before + 4
    assert "replay_buffer" not in trained.get_state(not_components=["replay_buffer"])


def test_the_buffer_gets_size_gamma_and_n_step_of_the_configuration(trained):
    buffer = trained.local_replay_buffer
    assert buffer.her_buffer.buffer_size == 500
    assert buffer.her_buffer.sample(200).discounts.max() == np.float32(0.99)
    [transitions] = buffer.sample(200)
    assert set(transitions.columns["n_step"]) == {1, 2, 3}


class Line(gym.Env):
    """A state on a line that moves by the action; the first component counts the steps."""

    observation_space = gym.spaces.Dict({
        name: gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
        for name in ("observation", "achieved_goal", "desired_goal")
    })
    action_space = gym.spaces.Box(-5.0, 5.0, (1,), np.float32)

    def __init__(self, config=None):
        self.state = np.zeros(2, np.float32)

    def _observe(self):
        goal = np.array([4, 2], np.float32)
        return {"observation": self.state, "achieved_goal": self.state.copy(), "desired_goal": goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(2, np.float32)
        return self._observe(), {}

    def step(self, action):
        self.state = self.state + np.array([1, action[0]], np.float32)
        observation = self._observe()
        reward = self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})
        return observation, float(reward), False, bool(self.state[0] == 4), {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.abs(achieved_goal - desired_goal).max(-1) > 0.5).astype(np.float32)


@pytest.mark.parametrize("normalize", [True, False])
def test_actions_of_a_scaled_box_belong_to_their_states(normalize):
    config = HerSACConfig().environment(Line, normalize_actions=normalize)
    config.training(train_batch_size_per_learner=8, num_steps_sampled_before_learning_starts=0)
    config.rl_module(model_config=SMALL).reporting(
        min_sample_timesteps_per_iteration=12, min_time_s_per_iteration=0
    )
    algo = config.build_algo()
    try:
        assert learned_steps(algo.train()) > 0
        [batch] = algo.local_replay_buffer.sample(64)
        moved = batch.columns["new_obs"][:, 1] - batch.columns["obs"][:, 1]
        scale = 5 if normalize else 1  # RLlib's modules return actions in [-1, 1]
        np.testing.assert_allclose(moved, (scale * batch.columns["actions"]).clip(-5, 5)[:, 0], atol=1e-4)
        for episode in algo.local_replay_buffer.her_buffer.episodes():
            assert (np.diff(episode.observations["observation"][:, 0]) == 1).all()
    finally:
        algo.stop()


def test_a_trial_of_tune_learns_from_the_buffer(tmp_path):
    options = tune.RunConfig(stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0)
    [result] = tune.Tuner(HerDQN, param_space=dqn(), run_config=options).fit()
    assert learned_steps(result.metrics) > 0
    sampled = result.metrics["env_runners"]["num_env_steps_sampled_lifetime"]
    assert 0 < result.metrics["replay_buffer"]["num_env_steps_stored"] <= sampled


LSTM = SMALL | {"use_lstm": True}
ERRORS = {
    "type": (
        lambda: HerDQNConfig().training(replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer"}),
        r'replay_buffer_config\["type"\] must be left out',
    ),
    "buffer_size": (
        lambda: HerSACConfig().training(replay_buffer_config={"buffer_size": 5}),
        "unknown key 'buffer_size'; choose from 'capacity'",
    ),
    "connector": (
        lambda: HerDQNConfig().env_runners(env_to_module_connector=lambda *_: FlattenObservations()),
        "env_to_module_connector must be None",
    ),
    "n_step": (lambda: HerDQNConfig().training(n_step=(1, 3)), "n_step must be an int"),
    "old stack": (
        lambda: HerDQNConfig().api_stack(
            enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False
        ),
        "HerDQNConfig needs the new API stack",
    ),
    "lstm in a dict": (lambda: HerDQNConfig().rl_module(model_config=LSTM), "use_lstm must be False"),
    "lstm in a dataclass": (
        lambda: HerSACConfig().rl_module(model_config=DefaultModelConfig(use_lstm=True)),
        "use_lstm must be False",
    ),
    "lstm in a spec": (
        lambda: HerSACConfig().rl_module(rl_module_spec=RLModuleSpec(model_config=LSTM)),
        "use_lstm must be False",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_setting_that_does_not_work_is_an_error(name):
    make, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        make().environment(Line).validate()


class Recurrent(DefaultDQNTorchRLModule):
    """An RLModule of the user with an initial state."""

    def get_initial_state(self):
        return {"h": torch.zeros(4)}


def test_a_recurrent_module_is_an_error_when_the_algorithm_is_built():
    spec = RLModuleSpec(module_class=Recurrent, model_config=SMALL)
    with pytest.raises(ValueError, match="HerDQN samples single steps"):
        dqn().rl_module(rl_module_spec=spec).build_algo()


def test_an_environment_without_goals_is_an_error():
    with pytest.raises(ValueError, match="desired_goal"):
        HerDQNConfig().environment("CartPole-v1").build_algo()
