"""ONNX models act like the agent, without torch and without this package."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces

from her_agents import export_onnx, load_agent
from her_agents.algorithms.registry import make_agent
from her_agents.recipes import read_recipe, recipe_names
from her_agents.training.checkpoints import describe_spaces, load_checkpoint, save_checkpoint
from her_agents.training.config import make_config
from her_wrappers.data.trees import concatenate_trees, leaves_by_path, map_tree, path_name
from her_wrappers.recording.space_json import space_from_json
from tests.support.commands import her

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

RECIPES = [name for name in recipe_names() if read_recipe(name).policy.exists()]
EXAMPLE = "examples/run_onnx.py"

VECTORS = spaces.Dict({
    "observation": spaces.Box(-np.inf, np.inf, (4,), np.float64),
    "achieved_goal": spaces.Box(-3, 3, (2,), np.float32),
    "desired_goal": spaces.Box(-3, 3, (2,), np.float32),
})
IMAGES = spaces.Dict({
    "observation": spaces.Box(0, 255, (24, 22, 3), np.uint8),
    "achieved_goal": spaces.Box(0, 255, (3, 24, 22), np.uint8),
    "desired_goal": spaces.Box(0, 255, (3, 24, 22), np.uint8),
})
BITS = spaces.Dict(dict.fromkeys(VECTORS, spaces.MultiBinary(5)))
CAMERAS = spaces.Dict(
    VECTORS.spaces
    | {
        "observation": spaces.Dict(joints=VECTORS["observation"], camera=IMAGES["observation"]),
        "wrist": spaces.Tuple([spaces.Box(0, 255, (20, 30, 1), np.uint8), spaces.Box(-1, 1, (2,))]),
        "exact": spaces.Box(-1, 1, (3,)),
        "action_mask": spaces.MultiBinary(6),
    }
)
ACTIONS = spaces.Box(np.float32([-2, 0]), np.float32([3, 100]))
MOVES = spaces.Discrete(6, start=-2)


def save_run(path, algo, observation_space, action_space, **options):
    """Write the checkpoint of an agent with random weights, and with statistics of random observations."""
    options = {"env": "her_envs/PointReach-v0", "algo": algo, "agent": {"hidden": [16, 16]}} | options
    options |= {"offline": "archive"} if algo == "iql" else {}
    config = make_config(options)
    agent = make_agent(config, observation_space, action_space)
    torch.manual_seed(0)
    for weights in getattr(agent, agent._acting_network).parameters():
        weights.data += 0.3 * torch.randn(weights.shape)  # other actions for other observations
    agent.inputs(observations_of(observation_space, 200), update=True)
    keys = (*config.use_keys, *config.critic_keys)
    spaces_ = describe_spaces(observation_space, action_space, keys)
    save_checkpoint(path, {"config": config.as_dict(), "spaces": spaces_, "agent": agent.state_dict()})


def observations_of(space, count):
    space.seed(0)
    samples = [map_tree(lambda value: np.asarray(value)[None], space.sample()) for _ in range(count)]
    return concatenate_trees("samples", samples)


def run(path, observations):
    session = onnxruntime.InferenceSession(path)
    rows = {path_name(path): leaf for path, leaf in leaves_by_path(observations).items()}
    return session.run(["action"], {each.name: rows[each.name] for each in session.get_inputs()})[0]


CASES = [
    ("dqn", CAMERAS, MOVES),
    ("sac", VECTORS, spaces.Box(0, 9, (2,), np.int64)),
    pytest.param("iql", VECTORS, ACTIONS, marks=pytest.mark.slow),
    pytest.param("dqn", IMAGES, MOVES, marks=pytest.mark.slow),
    pytest.param("ddpg", CAMERAS, spaces.Box(-1, 1, (2,)), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("algo", "observation_space", "action_space"), CASES)
def test_model_acts_like_the_agent(algo, observation_space, action_space, tmp_path):
    keys = {}
    if observation_space is CAMERAS:
        keys = {"use_keys": ["wrist"], "critic_keys": ["exact"] * (algo != "dqn")}
    save_run(tmp_path / "run.pt", algo, observation_space, action_space, **keys)
    export_onnx(tmp_path / "run.pt", tmp_path / "run.onnx")
    observations = observations_of(observation_space, 300)
    expected = load_agent(tmp_path / "run.pt").act(observations)
    assert len(np.unique(expected)) > 1
    for count in (300, 1):
        actions = run(tmp_path / "run.onnx", map_tree(lambda rows: rows[:count], observations))  # noqa: B023
        assert (actions.dtype, actions.shape) == (expected.dtype, (count, *action_space.shape))
        np.testing.assert_allclose(actions, expected[:count], rtol=1e-5, atol=1e-5)
    assert all(map(action_space.contains, actions))
    if observation_space is not VECTORS:
        return
    session = onnxruntime.InferenceSession(tmp_path / "run.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    assert space_from_json(json.loads(metadata["action_space"])) == action_space
    assert space_from_json(json.loads(metadata["observation_space"])) == observation_space
    assert (metadata["env"], metadata["algo"]) == ("her_envs/PointReach-v0", algo)
    assert metadata["torch"] == torch.__version__
    inputs = {each.name: each.shape[1:] for each in session.get_inputs()}
    assert inputs == {name: list(observation_space[name].shape) for name in ("observation", "desired_goal")}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.campaign if i % 3 else pytest.mark.slow)
        for i, name in enumerate(RECIPES)
    ],
)
def test_every_shipped_policy_acts_like_its_agent(name, tmp_path):
    """Observations have the mean and deviation of those of the run, where actions are not saturated."""
    path = read_recipe(name).policy
    export_onnx(path, tmp_path / "policy.onnx")
    agent = load_agent(path)
    shift, scale = agent.inputs.normalizer.shift.numpy(), agent.inputs.normalizer.scale.numpy()
    space = space_from_json(load_checkpoint(path)["spaces"][0])
    observations = observations_of(space, 300)
    vectors = shift + np.random.default_rng(0).normal(size=(300, len(shift))) / scale
    parts = np.split(vectors, [len(shift) - space["desired_goal"].shape[0]], axis=1)
    for each, rows in zip(("observation", "desired_goal"), parts, strict=True):
        if isinstance(space[each], spaces.Dict):  # with an image, whose pixels are random
            observations[each]["joints"] = rows.astype(np.float32)
        else:
            observations[each] = rows.astype(space[each].dtype)
    actions, expected = run(tmp_path / "policy.onnx", observations), agent.act(observations)
    np.testing.assert_allclose(actions, expected, rtol=0, atol=1e-5)
    assert expected.std() > 0.1


@pytest.fixture(name="push", scope="module")
def exported_recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "push.onnx"
    assert her("export", "panda_push", path).exit_code == 0
    return path


def test_example_needs_neither_torch_nor_this_package(push):
    code = (
        f"import runpy, sys; sys.argv = ['', {str(push)!r}]\n"
        f"runpy.run_path({EXAMPLE!r})\n"
        "print([name for name in sys.modules if name.startswith(('torch', 'her_', 'gymnasium'))])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("her_agents.recipes.panda:make_panda_push "), printed
    assert printed.endswith("[]\n"), printed


def test_command_exports_policy_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "best.pt", "td3", BITS, spaces.Box(-1, 1, (2, 3), np.float64))
    result = her("export", tmp_path, "small.policy")
    assert (result.exit_code, result.output) == (0, f"small.policy: the policy of {tmp_path}/best.pt\n")
    assert her("export", "small.policy", "small.onnx").exit_code == 0
    observations = observations_of(BITS, 30)
    expected = load_agent("small.policy").act(observations)
    np.testing.assert_allclose(run("small.onnx", observations), expected, rtol=1e-5, atol=1e-5)
