"""What the reference agents solve, and within how many steps; `docs/training.md` says how long that takes."""

from __future__ import annotations

import pytest

from examples.evaluate import evaluate
from examples.training.config import make_config
from examples.training.loop import train
from examples.training.parts import make_env


def success_after_training(**options):
    config = make_config({"evaluation_episodes": 10}, options)
    return evaluate(make_env(config), train(config).agent.act, episodes=100, seed=7).success_rate


@pytest.mark.slow
def test_sac_reaches_points():
    assert success_after_training(env="her_envs/PointReach-v0", algo="sac", steps=6_000) >= 0.98


@pytest.mark.slow
def test_dqn_flips_bits_that_it_sees_in_images():
    assert success_after_training(env="her_envs/BitFlippingImage-v0", algo="dqn", steps=4_000) >= 0.95


CLAIMS = [
    {"env": "her_envs/PointReach-v0", "algo": "ddpg", "steps": 8_000},
    {"env": "her_envs/PointReach-v0", "algo": "td3", "steps": 8_000},
    {"env": "her_envs/BitFlipping-v0", "algo": "dqn", "steps": 8_000},
    {"env": "her_envs/BitFlipping-v0", "algo": "dqn", "steps": 56_000, "env_kwargs": {"n_bits": 30}},
    {"env": "her_envs/BitFlippingContinuous-v0", "algo": "sac", "steps": 12_000},
]


@pytest.mark.campaign
@pytest.mark.parametrize(
    "options", CLAIMS, ids=lambda options: f"{options['env']}-{options['algo']}-{options['steps']}"
)
def test_what_the_page_on_training_claims(options):
    assert success_after_training(**options) >= 0.95
