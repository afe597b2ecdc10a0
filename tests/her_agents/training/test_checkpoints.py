"""Checkpoints: agents are loaded without an environment, and other files raise an error."""

import zipfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from her_agents import export_policy, load_agent, train
from her_agents.training.checkpoints import load_checkpoint
from her_wrappers import CorruptFileError
from tests.support.damage import damaged
from tests.support.short_runs import TASKS, same, tiny


@pytest.mark.parametrize("algo", TASKS)
def test_a_loaded_agent_and_an_exported_policy_act_like_the_saved_one(algo, tmp_path, monkeypatch):
    config = tiny(algo, steps=100)
    result = train(config, folder=tmp_path, on_epoch=None)
    observation, _ = gym.make_vec(config.env, 5, **config.env_kwargs).reset(seed=0)
    monkeypatch.setattr("gymnasium.make", None)
    agent = load_agent(tmp_path / "latest.pt")
    assert type(agent) is type(result.agent)
    np.testing.assert_array_equal(agent.act(observation), result.agent.act(observation))

    export_policy(tmp_path / "latest.pt", tmp_path / "small.policy")
    assert (tmp_path / "small.policy").stat().st_size < (tmp_path / "latest.pt").stat().st_size / 4
    with zipfile.ZipFile(tmp_path / "small.policy") as file:
        assert {Path(name).suffix for name in file.namelist()} <= {".npy", ".json"}, "nothing is pickled"
    agent = load_agent(tmp_path / "small.policy")
    assert type(agent) is type(result.agent)
    saved, exact = agent.policy_state(), result.agent.policy_state()
    for name, weights in exact["network"].items():
        torch.testing.assert_close(saved["network"][name], weights, rtol=2**-10, atol=1e-7)
    assert same(saved["normalizer"], exact["normalizer"])


def test_damaged_files_raise_an_error(tmp_path):
    train(tiny(steps=100), folder=tmp_path, on_epoch=None)
    path = tmp_path / "small.policy"
    export_policy(tmp_path, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"small\.policy"):
        load_agent(path)
    with pytest.raises(ValueError, match=r"cannot read .*none.policy: No such file"):
        load_agent(tmp_path / "none.policy")
    with pytest.raises(ValueError, match=r"out must end with .policy, got 'a.pt'"):
        export_policy(tmp_path, "a.pt")
    path = tmp_path / "best.pt"
    content, weights = path.read_bytes(), load_checkpoint(path)
    errors = 0
    for variant in damaged(content, 60):
        path.write_bytes(variant)
        try:
            assert same(load_checkpoint(path), weights)
        except CorruptFileError:
            errors += 1
    assert errors > 50
