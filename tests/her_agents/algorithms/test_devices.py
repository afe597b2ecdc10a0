"""Agents on other devices than the CPU: on every GPU of the machine, and on the meta device everywhere."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import her_agents.algorithms.base
from her_agents.algorithms.registry import ALGORITHMS, choose_device
from her_agents.training.checkpoints import load_agent
from her_envs import BitFlipping
from tests.support.cameras import CameraReach, TupleReach, batch_from
from tests.support.short_runs import assert_resumes, tiny
from tests.support.specimens.masks import ActionMask
from tests.support.transitions import POINT, batch_for, make

DEVICES = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
IMAGES = BitFlipping(n_bits=5, observation="image")


class OneDevice(TorchDispatchMode):
    """Rejects operations on tensors of several devices, except copies and operations with scalars."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        devices = {each.device.type for each in tensors if each.ndim}
        if len(devices) > 1 and "copy" not in func.name():
            raise RuntimeError(f"{func.name()} got tensors on {devices}")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def meta(monkeypatch):
    """Let agents use the device meta, whose tensors have no data, so that reading one is an error."""

    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, "cpu")

    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(her_agents.algorithms.base, "find_device", torch.device)
    monkeypatch.setattr(torch.optim, "Adam", lambda params, lr, fused: torch.optim.SGD(params, lr))


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.usefixtures("meta")
def test_an_update_stays_on_its_device_and_can_be_captured_from_tensors(algo):
    is_imitating = algo != "iql"
    agent = make(algo, device="meta", **({"bc_weight": 1.0} if is_imitating else {}))
    imitate = {"imitate": np.arange(64) < 9} if is_imitating else {}
    modules = [module for name, module in agent.modules.items() if name != "normalizer"]
    tensors = [*(each for module in modules for each in tensors_of(module)), agent.inputs.normalizer.sums]
    assert {each.device.type for each in tensors} == {"meta"}
    with OneDevice():
        for _ in range(2):
            losses = agent.update(batch_for(algo), **imitate)
    assert {loss.device.type for loss in losses.values()} == {"meta"}
    assert agent._errors.device.type == "meta"
    imitate = {name: torch.as_tensor(values).to("meta") for name, values in imitate.items()}
    batch = batch_for(algo).map(lambda values: torch.as_tensor(values).to("meta"))
    with NoHost():
        agent.update(batch, **imitate)
        agent.update(batch, **imitate)


class NoHost(TorchDispatchMode):
    """Rejects operations on CPU tensors, even copies, which a CUDA graph would repeat with the old values."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if any(each.device.type == "cpu" for each in tensors):
            raise RuntimeError(f"{func.name()} reads a CPU tensor")
        return func(*args, **(kwargs or {}))


def tensors_of(module):
    return [each for each in tree_leaves(module.state_dict()) if isinstance(each, torch.Tensor)]


KEYS = {"use_keys": ["wrist"], "critic_keys": ["exact"], "random_shift": 2}


@pytest.mark.parametrize(
    ("algo", "kind", "options"),
    [("sac", CameraReach, KEYS), ("iql", TupleReach, KEYS), ("dqn", ActionMask, {})],
)
@pytest.mark.usefixtures("meta")
def test_cameras_random_shifts_keys_of_critics_and_masks_stay_on_the_device(algo, kind, options):
    env = kind()
    agent = ALGORITHMS[algo](env.observation_space, env.action_space, device="meta", hidden=(8,), **options)
    batch = batch_from(env)
    with OneDevice():
        losses = agent.update(batch)
        actions = agent.choose(agent.inputs(batch.observations), explore=True)
    assert {loss.device.type for loss in losses.values()} == {actions.device.type} == {"meta"}
    assert len(actions) == 16


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_updates_on_a_device_are_those_of_the_cpu(algo, device):
    """Initial weights are equal; random numbers are not, so algorithms with noisy targets differ more."""
    first, same = (make(algo, seed=3, device=where) for where in ("cpu", device))
    for name, expected in first.policy_state()["network"].items():
        assert torch.equal(same.policy_state()["network"][name], expected)
    expected = {name: float(loss) for name, loss in first.update(batch_for(algo)).items()}
    tolerance = 0.3 if algo in {"sac", "tqc", "td3"} and device != "cpu" else 1e-4
    losses = same.update(batch_for(algo))
    assert {loss.dtype for loss in losses.values()} == {torch.float32}
    found = {name: float(loss) for name, loss in losses.items()}
    assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_unknown_devices_are_rejected():
    with pytest.raises(ValueError, match=r"device must be .*'cpu'.*, got 'tpu'"):
        make("sac", device="tpu")


def quick(**options):
    return tiny(
        "sac", **{"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}, "steps": 200} | options
    )


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_on_the_device_is_saved_resumed_and_played_on_the_cpu(device, tmp_path):
    resumed = assert_resumes(quick(device=device, prioritized=True), tmp_path / "run")
    assert resumed.agent.device.type == torch.device(device).type
    loaded = load_agent(tmp_path / "run")
    assert loaded.device.type == "cpu"
    observation, _ = gym.make("her_envs/PointReach-v0").reset(seed=0)
    best = load_agent(tmp_path / "run", device=device)
    np.testing.assert_allclose(loaded.act(observation), best.act(observation), atol=1e-4)


def test_auto_chooses_a_gpu_for_images_and_large_networks_only(monkeypatch):
    spaces = POINT.observation_space
    small, large = quick(device="auto"), quick(device="auto", agent={"hidden": (1024, 1024)}, batch_size=512)
    assert choose_device(quick(device="cuda:7"), spaces) == ("cuda:7", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(large, spaces) == ("cpu", "torch finds no CUDA device")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    assert choose_device(small, spaces)[0] == "cpu"
    assert choose_device(large, spaces) == ("cuda", "a GPU")
    assert choose_device(small, IMAGES.observation_space) == ("cuda", "a GPU")
