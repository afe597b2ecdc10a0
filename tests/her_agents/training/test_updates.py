"""Updates of the agent in CUDA graphs, which are simulated on the CPU, and without them."""

import warnings
from dataclasses import replace

import pytest
import torch

from her_agents import SAC
from her_agents.training import updates
from her_agents.training.config import Config
from her_agents.training.loop import train
from tests.support import recorded_graphs
from tests.support.short_runs import assert_resumes, same, tiny, without_time

SHORT = {"steps": 120, "steps_per_epoch": 60, "learning_starts": 20, "batch_size": 8, "updates_per_step": 0.3}
ON_DEVICE = SHORT | {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}, "on_device": True}
ON_DEVICE |= {"updates_per_step": 0.5}  # 2 updates after each step of 4 environments

CAMERAS = {"env": "tests.support.cameras:CameraReach", "env_kwargs": {}}
CAMERAS |= {"use_keys": ["wrist"], "critic_keys": ["exact"]}
MASKS = {"env": "tests.support.specimens.masks:ActionMask", "env_kwargs": {}, "her": False}

TD3 = tiny("td3", **ON_DEVICE)
RUNS = {
    "sac with a device": tiny("sac", **ON_DEVICE, agent={"policy_delay": 3}, linear_schedule=True),
    "tqc in memory": tiny("tqc", agent={"policy_delay": 2}, prioritized=True, **SHORT),
    "dqn in memory": tiny("dqn", agent={"target_update_interval": 4}, n_steps=2, **SHORT),
    "cameras": tiny("ddpg", agent={"random_shift": 2, "hidden": [8]}, **CAMERAS, **SHORT),
    "masks": tiny("dqn", **MASKS, **SHORT),
}


@pytest.fixture
def graphs(monkeypatch):
    return recorded_graphs.use(monkeypatch)


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["simulated", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("name", RUNS)
def test_graphs_give_the_numbers_of_single_updates(name, device, monkeypatch):
    config = RUNS[name]
    if device == "cuda":
        config, graphs = replace(config, device="cuda", steps=1200, updates_in_graph="always"), None
    else:
        graphs = recorded_graphs.use(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(updates, "EAGER_CALLS", 10**9)  # no graphs, with the same settings of the optimizers
        eager = train(config, on_epoch=None)
        assert not graphs
    captured = train(config, on_epoch=None)
    assert graphs is None or 1 <= len(graphs) <= eager.agent.update_cycle
    assert same(captured.agent.policy_state(), eager.agent.policy_state())
    assert captured.agent.updates == eager.agent.updates > 20
    assert same(captured.agent.td_errors.tolist(), eager.agent.td_errors.tolist())
    for row, expected in zip(without_time(captured.history), without_time(eager.history), strict=True):
        assert row == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_a_resumed_run_makes_its_graphs_again(tmp_path, graphs):
    config = TD3
    train(config, on_epoch=None)
    number = len(graphs)
    assert_resumes(config, tmp_path / "run")
    assert len(graphs) > 2 * number


class Waiting(SAC):
    """An agent of the user that reads a loss in each update."""

    def update(self, batch, imitate=None):
        measured = super().update(batch)
        float(measured["critic_loss"])
        return measured


@pytest.mark.usefixtures("graphs")
def test_an_update_that_waits_is_an_error_that_names_it():
    with pytest.raises(RuntimeError, match="capturing") as found:
        train(RUNS["sac with a device"], agent=Waiting, on_epoch=None)
    assert "Waiting.update" in found.value.__notes__[0]


def test_an_update_that_waits_is_found_before_and_runs_without_graphs(graphs, monkeypatch):
    def update(self, batch):
        if self.updates == 0:  # as torch does then
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        return SAC.update(self, batch)

    monkeypatch.setattr(Waiting, "update", update)
    config = RUNS["sac with a device"]
    with pytest.warns(UserWarning, match=r"line \d+ of .*test_updates.py waits for the device"):
        result = train(config, agent=Waiting, on_epoch=None)
    assert result.agent.updates > 20
    assert not graphs
    with pytest.raises(ValueError, match="waits for the device"):
        train(replace(config, updates_in_graph="always"), agent=Waiting, on_epoch=None)


def test_graphs_can_be_demanded_and_refused(graphs):
    config = TD3
    train(replace(config, updates_in_graph="never"), on_epoch=None)
    assert not graphs
    slow = replace(config, updates_in_graph="always", agent={"target_update_interval": 100})
    with pytest.raises(ValueError, match="repeat after 200 updates"):
        train(slow, on_epoch=None)
    with pytest.raises(ValueError, match="updates_in_graph must be"):
        Config("her_envs/PointReach-v0", updates_in_graph="yes")


def test_graphs_need_cuda():
    with pytest.raises(ValueError, match="the device is cpu"):
        train(replace(TD3, updates_in_graph="always"), on_epoch=None)
