"""CrossQ, the agent of a study: batch renormalization, updates, and an option that it does not support."""

import pytest
import torch

from benchmarks.studies.crossq import BatchRenorm
from her_agents import Config, train

AGENT = {"hidden": [32, 32], "temperature": 0.05, "learn_temperature": False}
CONFIG = {"env": "her_envs/PointReach-v0", "algo": "benchmarks/studies/crossq.py:CrossQ", "steps": 400}
CONFIG |= {"steps_per_epoch": 200, "learning_starts": 100, "evaluation_episodes": 2}


def test_batches_are_normalized_while_training_and_running_statistics_are_used_afterwards():
    layer, inputs = BatchRenorm(3), 5 + 2 * torch.randn(256, 3, generator=torch.manual_seed(0))
    for _ in range(600):
        outputs = layer(inputs)
    assert outputs.mean(0).detach() == pytest.approx(torch.zeros(3), abs=1e-4)
    assert outputs.std(0).detach() == pytest.approx(torch.ones(3), abs=1e-2)
    layer.eval()
    assert layer(inputs).detach() == pytest.approx(outputs.detach(), abs=0.05)


def test_the_agent_updates_its_critics_and_its_actor():
    result = train(Config(**CONFIG, agent=AGENT), on_epoch=None)
    assert type(result.agent).__name__ == "CrossQ"
    last = result.history[-1]
    assert {"critic_loss", "actor_loss", "q_mean", "entropy"} <= last.keys()
    assert last["updates"] > 0


def test_a_learned_temperature_is_an_error():
    with pytest.raises(ValueError, match="no-learn-temperature"):
        train(Config(**CONFIG), on_epoch=None)
