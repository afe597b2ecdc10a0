"""Tasks that the agents solve within a number of steps."""

import pytest

from her_agents.training.config import make_config
from her_agents.training.evaluation import evaluate
from her_agents.training.loop import train
from her_wrappers.goals.environments import make_env


def success_after_training(**options):
    config = make_config({"evaluation_episodes": 10}, options)
    agent = train(config, on_epoch=None).agent
    return evaluate(make_env(config.env, **config.env_kwargs), agent.act, 100, seed=7).success_rate


@pytest.mark.slow
def test_sac_solves_point_reach():
    assert success_after_training(env="her_envs/PointReach-v0", algo="sac", steps=6_000) >= 0.98


POINT_MAZE = {
    "env": "her_envs/PointMaze-v0",
    "algo": "ddpg",
    "steps": 12_000,
    "batch_size": 512,
    "agent": {"action_l2": 0.1},
}

POINT_PUSH = {
    "env": "her_envs/PointPush-v0",
    "algo": "ddpg",
    "seed": 2,
    "num_envs": 64,
    "steps": 400_000,
    "steps_per_epoch": 32_000,
    "learning_starts": 32_000,
    "buffer_size": 100_000,
    "updates_per_step": 0.02,
    "batch_size": 512,
    "prioritized": True,
    # With this noise, an untrained agent touches the puck in every fourth episode.
    "agent": {"action_l2": 0.1, "epsilon": 0, "noise": 1.0},
}


@pytest.mark.campaign
def test_ddpg_learns_point_maze_faster_with_her():
    """Without HER the agent learns later, since many goals of this small maze are reached by chance."""
    few = POINT_MAZE | {"steps": 4_000}
    assert success_after_training(**few) >= success_after_training(**few, her=False) + 0.2


CLAIMS = [
    {"env": "her_envs/PointReach-v0", "algo": "ddpg", "steps": 8_000},
    {"env": "her_envs/PointReach-v0", "algo": "td3", "steps": 8_000},
    {"env": "her_envs/BitFlipping-v0", "algo": "dqn", "steps": 8_000},
    {"env": "her_envs/BitFlipping-v0", "algo": "dqn", "steps": 56_000, "env_kwargs": {"n_bits": 30}},
    {"env": "her_envs/BitFlippingContinuous-v0", "algo": "sac", "steps": 12_000},
    {**POINT_MAZE, "algo": "sac", "agent": {}},
    POINT_PUSH,
]
CAMERA = {"env": "tests.support.cameras:CameraPointReach", "agent": {"layer_norm": True}}
CLAIMS += [{"env": "her_envs/BitFlippingImage-v0", "algo": "dqn", "steps": 4_000}]
CLAIMS += [CAMERA | {"algo": "sac", "steps": 5_000}]


@pytest.mark.campaign
@pytest.mark.parametrize(
    "options", CLAIMS, ids=lambda options: f"{options['env']}-{options['algo']}-{options['steps']}"
)
def test_results_of_the_page_on_training_and_with_images(options):
    assert success_after_training(**options) >= 0.95
