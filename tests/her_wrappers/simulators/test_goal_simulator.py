"""GoalSimulator: the rows of each simulator's interface, compared with numbered states."""

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from her_agents import SAC
from her_envs import PointReach, TaskVectorEnv
from her_wrappers import DeviceReplayBuffer, HindsightReplayBuffer
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.simulators import GoalSimulator
from tests.support import simulators
from tests.support.simulators import ACTION, READ, Generic, compute_reward, length_of, numbered, wrapped
from tests.support.waiting import NothingWaits

SIMULATORS = {
    "generic": lambda: wrapped(Generic()),
    "function": lambda: wrapped(Generic(), last_observation=lambda obs, infos: infos["final_obs"]),
    "tuple": lambda: wrapped(Generic(), last_observation=("final_obs",)),
    "ids": lambda: wrapped(simulators.EndedRows(with_ids=True), last_observation="terminal.observations"),
    "ended rows": lambda: wrapped(
        simulators.EndedRows(with_ids=False), last_observation="terminal.observations"
    ),
    "Isaac Lab": lambda: GoalSimulator.isaaclab(simulators.IsaacLab(), **READ),
    "Isaac Lab, no autoreset": lambda: GoalSimulator.isaaclab(
        simulators.IsaacLab(autoreset_mode="DISABLED"), **READ
    ),
    "mjlab": lambda: GoalSimulator.mjlab(simulators.Mjlab(), **READ | {"observation": "actor"}),
    "ManiSkill": lambda: GoalSimulator.maniskill(simulators.ManiSkill(), info_keys=["elapsed_steps"], **READ),
    "Genesis": lambda: GoalSimulator.genesis(simulators.Genesis(), **READ),
    "Brax": lambda: GoalSimulator.brax(simulators.JaxEnv(), 4, **READ),
    "MuJoCo Playground": lambda: GoalSimulator.playground(simulators.JaxEnv(resets="kept"), 4, **READ),
    "VectorEnv": lambda: GoalSimulator.vector_env(simulators.NumpyVectorEnv(), info_keys=["steps"]),
    "VectorEnv of tensors": lambda: GoalSimulator.vector_env(
        simulators.TensorVectorEnv(), info_keys=["steps"]
    ),
    "VectorEnv, no autoreset": lambda: GoalSimulator.vector_env(
        simulators.NumpyVectorEnv(AutoresetMode.DISABLED)
    ),
}


@pytest.fixture(params=SIMULATORS)
def env(request, monkeypatch):
    simulators.install_jax(monkeypatch)
    return SIMULATORS[request.param]()


def expected(episode, step):
    rows = numbered(np.arange(4), episode, step)
    return dict(zip(OBSERVATION_KEYS, rows, strict=True))


def assert_rows(observation, episode, step):
    for key, rows in expected(episode, step).items():
        assert observation[key].numpy().tolist() == rows.tolist(), key


def test_each_row_is_the_one_of_its_lane_episode_and_step(env):
    """Rows are compared after all steps, so a step that overwrites earlier ones would be found too."""
    shapes = {key: space.shape for key, space in env.single_observation_space.items()}
    assert shapes == {"observation": (3,), "achieved_goal": (2,), "desired_goal": (2,)}
    assert (env.num_envs, env.device.type, env.single_action_space.shape) == (4, "cpu", (2,))
    first = env.reset()
    episode, t = first["observation"][:, 1].numpy().astype(int), np.zeros(4, int)
    assert_rows(first, episode, t)
    for i, step in enumerate([env.step(ACTION) for _ in range(20)]):
        t += 1
        truncated = t >= simulators.TIME_LIMIT
        terminated = (t >= length_of(np.arange(4), episode)) & ~truncated
        assert_rows(step.last_observation, episode, t)
        goals = expected(episode, t)
        rewards = compute_reward(goals["achieved_goal"], goals["desired_goal"], {})
        assert (step.reward.tolist(), step.reward.dtype) == (rewards.tolist(), torch.float32)
        assert step.terminated.tolist() == terminated.tolist()
        assert step.truncated.tolist() == truncated.tolist()
        assert all(column.tolist() == t.tolist() for column in step.info.values())
        assert (step.first_observation is first) == (i == 0)
        episode, t = episode + (terminated | truncated), np.where(terminated | truncated, 0, t)
        assert_rows(step.observation, episode, t)
    env.check()
    assert env.notes == []


def waiting(*_, **__):
    raise AssertionError("a copy to the host waits")


@pytest.mark.parametrize("name", ["generic", "Isaac Lab", "ManiSkill", "Genesis", "ids", "ended rows"])
def test_a_step_waits_only_when_the_checks_are_due(name, monkeypatch):
    env = SIMULATORS[name]()
    env.reset()
    due = []
    for _ in range(19):
        sim_step = env.sim.step(ACTION)  # a simulator may wait
        with monkeypatch.context() as patch:
            patch.setattr(env.sim, "step", lambda action, result=sim_step: result)
            patch.setattr(env._checks, "judge", lambda: due.append(env._checks._steps + 1))
            for each in ("tolist", "numpy", "cpu"):
                patch.setattr(torch.Tensor, each, waiting)
            with NothingWaits():
                env.step(ACTION)
    assert due == [1, 2, 4, 8, 16]


def test_bundled_vector_environments_are_simulators():
    env = GoalSimulator.vector_env(TaskVectorEnv(PointReach(), 8, autoreset_mode="SameStep", max_steps=5))
    observation = env.reset(seed=3)
    same = TaskVectorEnv(PointReach(), 8, autoreset_mode="SameStep", max_steps=5)
    assert observation["desired_goal"].tolist() == same.reset(seed=3)[0]["desired_goal"].tolist()
    rng = np.random.default_rng(0)
    for _ in range(12):
        action = rng.uniform(-1, 1, (8, 2)).astype(np.float32)
        step = env.step(torch.from_numpy(action))
        now, reward, terminated, truncated, infos = same.step(action)
        assert step.observation["observation"].tolist() == now["observation"].tolist()
        assert step.reward.tolist() == reward.tolist()
        assert step.truncated.tolist() == truncated.tolist()
        for i in np.flatnonzero(terminated | truncated):
            final = infos["final_obs"][i]["observation"]
            assert step.last_observation["observation"][i].tolist() == final.tolist()


def test_keeps_the_rewards_of_the_simulator():
    class Shaped(Generic):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, 2 * reward[:, None].double(), *rest

    env = wrapped(Shaped(), reward="simulator", compute_reward=lambda *goals: 2 * compute_reward(*goals))
    env.reset()
    assert env.step(ACTION).reward.tolist() == [-2.0] * 4


def test_observations_may_be_nested_and_of_other_dtypes():
    class Nested(Generic):
        def observe(self, step=None):
            found = super().observe(step)
            picture = found["policy"].to(torch.uint8).reshape(4, 3, 1)
            return found | {"nested": {"picture": picture, "is_on": found["policy"] > 0}}

    env = wrapped(Nested(), observation="nested")
    assert env.single_observation_space["observation"]["picture"].dtype == np.uint8
    assert env.single_observation_space["observation"]["is_on"].dtype == np.bool_
    for _ in range(5):
        step = env.step(ACTION)
    assert step.last_observation["observation"]["picture"].dtype == torch.uint8


def test_further_keys_are_read_stored_and_used_by_critics():
    further = {"state": lambda raw: raw["policy"], "goal": "goals"}
    env = wrapped(Generic(), further=further)
    assert env.single_observation_space.spaces.keys() == {*OBSERVATION_KEYS, *further}
    buffer = DeviceReplayBuffer.for_env(env, steps_per_env=50, termination="keep", seed=0)
    agent = SAC(env.single_observation_space, env.single_action_space, critic_keys=["state"], hidden=(8,))
    observation = env.reset()
    for _ in range(12):
        action = agent.choose(agent.inputs(observation), explore=True).detach()
        step = env.step(action)
        assert torch.equal(step.last_observation["state"], step.last_observation["observation"])
        buffer.add(step)
        observation = step.observation
    assert torch.isfinite(agent.update(buffer.sample(16))["critic_loss"])


class Bad(Generic):
    """Returns values of wrong shapes, by its attribute ``what``."""

    what = ""

    def observe(self, step=None):
        found = super().observe(step)
        return found | {"policy": found["policy"][:3]} if self.what == "rows" else found

    def step(self, action):
        observation, reward, terminated, truncated, infos = super().step(action)
        if self.what == "reward":
            reward = reward[:, None].expand(4, 2)
        if self.what == "last":
            infos = {"final_obs": infos["final_obs"] | {"policy": torch.zeros(4, 5)}}
        if self.what == "some rows":
            infos = {"final_obs": infos["final_obs"] | {"policy": torch.zeros(2, 3)}}
        if self.what == "values":
            return observation, reward, terminated
        return observation, reward, terminated, truncated, infos


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": "policies"}, "observation"),
        ({"desired_goal": "goals.wanted"}, "desired_goal"),
        ({"info_keys": ["success"]}, "info_keys"),
        ({"reward": "sim"}, "reward"),
        ({"compute_reward": lambda *goals: torch.zeros(())}, "compute_reward"),
        ({"compute_reward": lambda *goals: None}, r"compute_reward must return .*; add a return statement"),
        ({"achieved_goal": lambda obs: obs["goals"]["achieved"][0]}, r"achieved_goal must have 4 rows, got"),
        ({"compute_reward": lambda one, two, info: one.sub_(two).sum(-1)}, "compute_reward changed"),
        ({"what": "rows"}, "4 rows"),
        ({"what": "reward"}, "reward"),
        ({"what": "last"}, "last observations"),
        ({"what": "some rows"}, "last observations"),
        ({"what": "values"}, "4 or 5 values"),
    ],
)
def test_a_mistake_is_an_error_that_names_it(options, message):
    sim = Bad()
    sim.what = options.pop("what", "")
    with pytest.raises(ValueError, match=message):  # noqa: PT012 - the mistake shows at different calls
        env = wrapped(sim, **options)
        env.reset()
        env.step(ACTION)


def test_needs_a_simulator_and_a_reward():
    with pytest.raises(ValueError, match="num_envs"):
        wrapped(object())
    with pytest.raises(TypeError, match="compute_reward"):
        wrapped(Generic(), compute_reward=None)


def test_a_seed_is_passed_on_or_rejected():
    with pytest.raises(ValueError, match="seed"):
        GoalSimulator.genesis(simulators.Genesis(), **READ).reset(seed=0)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: GoalSimulator.isaaclab(simulators.IsaacLab("absent"), **READ), "compute_final_obs"),
        (lambda: GoalSimulator.isaaclab(simulators.OldIsaacLab(), **READ), "compute_final_obs"),
        (lambda: GoalSimulator.mjlab(simulators.Mjlab(auto_reset=True), **READ), "auto_reset"),
        (lambda: GoalSimulator.brax(simulators.JaxEnv(resets="lost"), 4, **READ).reset(), "auto_reset"),
        (lambda: GoalSimulator.brax(simulators.JaxEnv(), 3, **READ).reset(), "batched"),
        (lambda: GoalSimulator.brax(simulators.JaxEnv(), **READ), "num_envs"),
        (
            lambda: GoalSimulator.vector_env(simulators.NumpyVectorEnv(AutoresetMode.NEXT_STEP)),
            "autoreset_mode",
        ),
    ],
)
def test_a_setting_that_loses_last_observations_is_an_error(make, setting, monkeypatch):
    simulators.install_jax(monkeypatch)
    with pytest.raises(ValueError, match=setting):
        make()


def test_steps_in_inference_mode_whose_tensors_do_not_count_changes():
    with torch.inference_mode():
        wrapped(Generic()).step(ACTION)


def test_a_simulator_that_cannot_reset_some_environments_cannot_return_last_observations():
    env = wrapped(Generic(), last_observation="returned")
    with pytest.raises(ValueError, match="pass reset_lanes="):
        [env.step(ACTION) for _ in range(10)]


def test_a_hindsight_buffer_of_arrays_names_the_buffer_of_tensors():
    env = wrapped(Generic())
    with pytest.raises(TypeError, match="use DeviceReplayBuffer"):
        HindsightReplayBuffer.for_env(env)
