"""Environments, factories, agents and classes of the user in a run."""

from pathlib import Path

import gymnasium as gym
import pytest
import torch

import her_envs
from examples.own_agent import WideSAC
from her_agents.algorithms.networks import Network
from her_agents.algorithms.sac import SAC
from her_agents.algorithms.td3 import DDPG
from her_agents.training.checkpoints import export_policy, load_agent
from her_agents.training.loop import train
from her_agents.training.sources import ExploringPolicy
from tests.support.commands import her
from tests.support.short_runs import assert_same_results, tiny

gym.register_envs(her_envs)
OWN = str(Path(__file__).parents[3] / "examples" / "own_agent.py") + ":WideSAC"
REACH = "her_envs/PointReach-v0"


def make_reach():
    return gym.make(REACH, max_steps=9)


@pytest.fixture(name="trained", scope="module")
def own_agent(tmp_path_factory):
    """Train the agent of the example by the command, in two parts."""
    folder = tmp_path_factory.mktemp("own") / "run"
    numbers = ["--num-envs", 4, "--steps-per-epoch", 100, "--learning-starts", 50, "--evaluation-episodes", 2]
    options = ["--algo", OWN, "--agent", "width=16", "--agent", "hidden=[8]", "--no-check"]
    first = her("train", REACH, *options, *numbers, "--steps", 100, "--out", folder, "--no-tensorboard")
    assert first.exit_code == 0, first.output
    second = her("train", "--resume", folder, "--steps", 250, "--no-tensorboard")
    assert second.exit_code == 0, second.output
    return folder


def test_an_agent_of_a_file_is_trained_and_resumed_and_has_its_own_options(trained):
    agent = load_agent(trained, agent=WideSAC)
    assert (agent.options.width, agent.options.hidden) == (16, (8,))
    assert [each.layers[0].out_features for each in (agent.actor, *agent.critics)] == [8, 16, 16]
    assert len((trained / "progress.csv").read_text().splitlines()) == 3


def test_a_checkpoint_never_names_code_that_is_imported(trained, tmp_path):
    with pytest.raises(
        ValueError, match=r"best\.pt contains an agent of your class .*:WideSAC, .* pass it: load_agent"
    ):
        load_agent(trained)
    policy = tmp_path / "wide.policy"
    export_policy(trained, policy, agent=WideSAC)
    observation, _ = make_reach().reset(seed=0)
    actions = [load_agent(path, agent=WideSAC).act(observation) for path in (trained, policy)]
    assert actions[0] == pytest.approx(actions[1], abs=2e-2)


def test_a_factory_and_a_class_give_the_run_of_their_names():
    """The id has a vector environment of its own, so its function is given to both runs."""
    options = {"env_kwargs": {}, "steps": 100}
    named = train(tiny("sac", env=f"{__name__}:make_reach", **options), on_epoch=None)
    own = train(tiny("sac", env="my reach", **options), env=make_reach, agent=SAC, on_epoch=None)
    assert_same_results(own, named)


def test_a_factory_and_a_class_are_used_by_workers():
    """`test_collected_training.py` compares processes with workers in this process."""
    config = tiny("ddpg", env="my reach", env_kwargs={}, steps=100, workers=1)
    agent = train(config, env=make_reach, agent=WideDDPG, backend="local", on_epoch=None).agent
    assert agent.critics[0].layers[0].out_features == 24


class WideDDPG(DDPG):
    def make_network(self, num_outputs, num_actions=0):
        return Network(self.inputs, (24,), num_outputs, num_actions=num_actions)


@pytest.mark.usefixtures("two_threads")
def test_policies_of_workers_act_with_one_thread_whatever_the_learner_uses():
    env = make_reach()
    config = tiny("ddpg", env=REACH, env_kwargs={})
    policy = ExploringPolicy(config, (env.observation_space, env.action_space), None)
    observation, _ = env.reset(seed=0)
    seen = []
    policy._agent.act = lambda observations, explore: seen.append(torch.get_num_threads())
    policy(observation)
    assert (seen, torch.get_num_threads()) == ([1], 2)


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_an_environment_and_an_agent_that_exist_are_used_and_stay_open():
    class Robot(gym.Wrapper):
        resets, is_closed = 0, False

        def reset(self, **options):
            self.resets += 1
            return super().reset(**options)

        def close(self):
            self.is_closed = True

    robot = Robot(make_reach())
    agent = SAC(robot.observation_space, robot.action_space, gamma=0.98, hidden=(8,))
    config = tiny("sac", env="robot", env_kwargs={}, steps=100, num_envs=1, evaluation_episodes=2)
    before = {name: each.clone() for name, each in agent.actor.state_dict().items()}
    result = train(config, env=robot, agent=agent, on_epoch=None)
    assert result.agent is agent
    assert any(not torch.equal(before[name], each) for name, each in agent.actor.state_dict().items())
    assert robot.resets >= 100 // 9 + 2, "also by the evaluation"
    assert not robot.is_closed


def test_what_exists_once_cannot_be_used_several_times():
    message = "env= can be an environment only with num_envs=1 .* got num_envs=4 and workers=0"
    with pytest.raises(ValueError, match=message):
        train(tiny("sac", env="robot", env_kwargs={}), env=make_reach(), on_epoch=None)
    agent = SAC(make_reach().observation_space, make_reach().action_space)
    with pytest.raises(ValueError, match="with workers=2, agent= must be a class, got an instance of"):
        train(tiny("sac", env=REACH, env_kwargs={}, workers=2), agent=agent, on_epoch=None)
