"""Files that earlier versions wrote are read, with all their content, by this version and by later ones.

The folders in `tests/golden` have the names of the versions that wrote them; `tests/support/golden.py` has
their content.
"""

import importlib.metadata
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

import her_wrappers
from her_agents import load_agent
from her_agents.algorithms.registry import ALGORITHMS
from her_agents.training.checkpoints import load_checkpoint
from her_agents.training.config import REMOVED, make_config, read_options
from her_agents.training.run_logs import read_runs
from her_wrappers import DeviceReplayBuffer, EpisodeArchive, HindsightReplayBuffer
from her_wrappers.data.arrays import HEADER, ArrayFile, write_arrays
from her_wrappers.data.text import read_progress
from her_wrappers.replay.saving import load_same
from tests.support import golden
from tests.support.commands import her
from tests.support.equality import assert_same_episodes, assert_same_tree

FOLDERS = sorted(path for path in Path(__file__).with_name("golden").iterdir() if path.is_dir())


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def folder(request, tmp_path):
    """Return a copy of a folder of golden files."""
    return shutil.copytree(request.param, tmp_path / "golden")


@pytest.fixture(autouse=True, params=["this version", "1.1.0"])
def version(request, monkeypatch):
    """Run each test twice; in the second run, the installed package is version 1.1.0."""
    if request.param != "1.1.0":
        return her_wrappers.__version__
    real = importlib.metadata.Distribution.version.fget

    def installed(distribution):
        return request.param if distribution.name == "her-toolkit" else real(distribution)

    monkeypatch.setattr(importlib.metadata.Distribution, "version", property(installed))
    monkeypatch.setattr(her_wrappers, "__version__", request.param)
    return request.param


def with_force_only(episodes):
    """Return the episodes with only the info that buffers store."""
    return [replace(each, infos={"force": each.infos["force"]}) for each in episodes]


def assert_golden_rows(batch, lengths):
    """Assert that a batch has rows of all steps, with the states, actions and 2-step returns of the episodes.

    ``lengths`` has the number of steps of each episode that the buffer contains.
    """
    episode, t = batch.observations["observation"]["position"].astype(int).T
    length = np.array([lengths[each] for each in episode])
    steps = np.minimum(2, length - t)
    assert set(zip(episode, t, strict=True)) == {(e, t) for e, size in lengths.items() for t in range(size)}
    np.testing.assert_array_equal(batch.actions, np.stack([episode, t], 1))
    for states, at in ((batch.observations, t), (batch.next_observations, t + steps)):
        np.testing.assert_array_equal(states["observation"]["position"], np.stack([episode, at], 1))
        np.testing.assert_array_equal(states["observation"]["level"], at % 4)
        np.testing.assert_array_equal(states["achieved_goal"][:, 0], 10 * episode + at)
    goal = batch.observations["desired_goal"][:, 0]
    np.testing.assert_array_equal(goal, batch.next_observations["desired_goal"][:, 0])
    ahead = goal - 10 * episode - t  # steps until the goal is achieved
    assert (ahead[batch.relabeled] > 0).all()
    assert (ahead <= length - t)[batch.relabeled].all()
    assert len(set(ahead[batch.relabeled])) > 1
    rewards = -1.0 * (ahead != 1) - 0.9 * ((ahead != 2) & (steps == 2))
    np.testing.assert_allclose(batch.rewards, rewards, rtol=1e-6)
    discounts = np.where(batch.terminations, 0, 0.9**steps)
    np.testing.assert_allclose(batch.discounts, discounts, rtol=1e-6)
    return episode, t, length - t - steps


def test_a_buffer_has_its_episodes_priorities_and_demonstrations(folder):
    buffer = HindsightReplayBuffer.load(folder / "buffer.replay", compute_reward=golden.compute_reward)
    assert (buffer.observation_space, buffer.action_space) == (golden.SPACE, golden.ACTIONS)
    assert (buffer.buffer_size, buffer.info_keys) == (50, ("force",))
    assert_same_episodes(buffer.episodes(), with_force_only(golden.episodes()))
    assert_same_episodes(
        buffer.demonstrations.episodes(), with_force_only([golden.episode(*golden.DEMONSTRATION)])
    )

    batch, demonstrated = buffer.sample(4000), golden.DEMONSTRATION[1]
    lengths = dict(enumerate(golden.LENGTHS)) | dict([golden.DEMONSTRATION])
    episode, t, rest = assert_golden_rows(batch, lengths)
    first = {7: 0, 0: demonstrated, 1: demonstrated + 2, 2: demonstrated + 5}
    np.testing.assert_array_equal(batch.index, t + [first[each] for each in episode])
    np.testing.assert_array_equal(batch.terminations, (rest == 0) & (episode % 2 == 0))
    np.testing.assert_array_equal(batch.truncations, (rest == 0) & (episode % 2 == 1))
    assert batch.is_demonstration.sum() == 1000
    shares = {name: (batch.strategy == name).mean() for name in set(batch.strategy)}
    assert len(shares) == 3
    assert abs(shares["future"] - 0.5) < 0.01
    assert abs(shares["original"] - 0.3) < 0.01
    # With alpha 0.5 and beta 1, weights are inversely proportional to the square root of the priority.
    own = ~batch.is_demonstration
    products = batch.weights[own] * golden.PRIORITIES[batch.index[own] - demonstrated] ** 0.5
    np.testing.assert_allclose(products, products[0], rtol=1e-5)


def test_an_open_episode_of_a_buffer_goes_on(folder):
    buffer = HindsightReplayBuffer.load(folder / "buffer.replay", compute_reward=golden.compute_reward)
    number, length = golden.OPEN
    for t in range(1, length):
        buffer.add(*golden.transition(number, length, t))
    expected = [*golden.episodes(), golden.episode(number, length)]
    assert_same_episodes(buffer.episodes(), with_force_only(expected))


def test_a_buffer_on_a_device_has_its_steps(folder):
    path = folder / "device_buffer.replay"
    buffer = DeviceReplayBuffer.load(path, compute_reward=golden.compute_reward)
    assert (buffer.observation_space, buffer.action_space) == (golden.SPACE, golden.ACTIONS)
    assert (buffer.num_envs, buffer.steps_per_env, len(buffer)) == (2, 10, 8)
    tensors = buffer.sample(2000)
    batch = tensors.to_numpy()
    lengths = {0: 3, 1: 3, 2: 1, 3: 1} | dict([golden.DEMONSTRATION])
    episode, _, rest = assert_golden_rows(batch, lengths)
    np.testing.assert_array_equal(batch.terminations, (rest == 0) & np.isin(episode, [0]))
    np.testing.assert_array_equal(batch.is_demonstration, episode == golden.DEMONSTRATION[0])
    np.testing.assert_array_equal(tensors.lane, np.where(batch.is_demonstration, 2, episode % 2))
    assert abs(batch.relabeled.mean() - 0.6) < 0.01


def test_an_archive_has_its_episodes_and_its_environment_and_gets_more(folder):
    archive, expected = EpisodeArchive(folder / "archive"), golden.episodes(reset_info=True)
    assert archive.source.env_id == "Golden-v0"
    assert (archive.source.kwargs, archive.source.max_episode_steps) == (
        {"size": 3, "bounds": [0.5, None]},
        9,
    )
    assert archive.source.kwargs_as_text == {"shape": "(1, 2)"}
    assert (archive.observation_space, archive.action_space) == (golden.SPACE, golden.ACTIONS)
    assert archive.versions.keys() == {"her-toolkit", "gymnasium", "numpy"}
    more = golden.episode(*golden.OPEN, reset_info=True)
    with EpisodeArchive(folder / "archive", env=golden.GoldenEnv()) as writer:
        writer.add_episode(more)
    for read, episodes in ((archive, expected), (EpisodeArchive(folder / "archive"), [*expected, more])):
        assert_same_episodes(read, episodes)
        for episode, other in zip(read, episodes, strict=True):
            assert_same_tree(episode.reset_info, other.reset_info)


def test_agents_and_policies_act_as_before(folder):
    for name, actions in json.loads((folder / "actions.json").read_text()).items():
        agent = load_agent(folder / name)
        assert type(agent) is ALGORITHMS["dqn" if "/" in name else Path(name).stem]
        np.testing.assert_allclose(golden.actions_of(folder / name), actions, atol=1e-4)


def test_a_config_and_a_checkpoint_have_the_options_of_their_run(folder):
    options = read_options(folder / "run" / "config.json")
    assert {name: options[name] for name in golden.RUN} == golden.RUN
    kept = {name: value for name, value in options.items() if name not in REMOVED}
    for saved in (options, load_checkpoint(folder / "run" / "latest.pt")["config"]):
        found = make_config(saved).as_dict()
        assert {name: json.loads(json.dumps(found[name])) for name in kept} == kept


def without_options(path, *names):
    """Remove options from a saved buffer, as if a later version had added them."""
    with zipfile.ZipFile(path) as file:
        content = json.loads(file.read(HEADER))
    kind = {name: content[name] for name in ("kind", "version")}
    with ArrayFile(path, **kind) as file:
        arrays = {name: file.read(name) for name in file.arrays}
    for name in names:
        del content["header"]["options"][name]
    write_arrays(path, arrays, content["header"], **kind)
    return path


def test_options_that_a_later_version_adds_have_their_defaults_in_buffers(folder):
    function = {"compute_reward": golden.compute_reward}
    path = without_options(folder / "buffer.replay", "gamma", "n_steps")
    on_device = without_options(folder / "device_buffer.replay", "gamma", "n_steps")
    buffer = HindsightReplayBuffer.load(path, **function)
    for each in (buffer, load_same(buffer, path), DeviceReplayBuffer.load(on_device, **function)):
        batch = each.sample(100).to_numpy()
        np.testing.assert_allclose(batch.discounts, 0.99 * ~batch.terminations)
    other = HindsightReplayBuffer.load(path, **function, gamma=0.5)
    with pytest.raises(ValueError, match=r"gamma of this buffer must be 0\.99"):
        load_same(other, path)


def test_options_that_a_later_version_adds_have_their_defaults_in_configs(folder):
    options = read_options(folder / "run" / "config.json")
    complete = make_config(options)
    for name in ("critic_keys", "evaluate_every", "linear_schedule", "start_state", "workers"):
        del options[name]
        assert make_config(options) == complete


def drop_from_checkpoint(path):
    """Remove options and a count from a checkpoint, as if a later version had added them."""
    content = torch.load(path, weights_only=True)
    for name in ("critic_keys", "linear_schedule", "start_state"):
        del content["config"][name]
    del content["counts"]["skipped_episodes"]
    torch.save(content, path)


def test_a_run_is_read_and_resumed(folder, version):
    run = folder / "run"
    rows = read_progress(run / "progress.csv")
    assert [(row["epoch"], row["env_steps"]) for row in rows] == [(1, 24), (2, 43)]
    [log] = read_runs(run)
    np.testing.assert_array_equal(log.steps, [24, 43])
    np.testing.assert_array_equal(log.success_rate, [row["success_rate"] for row in rows])
    assert log.options["agent.learning_rate"] == 0.01
    drop_from_checkpoint(run / "latest.pt")
    result = her("train", "--resume", run, "--steps", 60, "--no-tensorboard", "--no-stop")
    assert result.exit_code == 0, result.output
    resumed = read_progress(run / "progress.csv")
    assert resumed[:2] == rows
    assert resumed[2]["env_steps"] >= 60
    assert resumed[2]["updates"] > rows[1]["updates"]
    env = gym.make(golden.RUN["env"], **golden.RUN["env_kwargs"])
    [buffer] = run.glob("buffer-*.replay")
    kept = HindsightReplayBuffer.load(buffer, env)
    assert len(kept) == resumed[2]["env_steps"]
    assert f"her-toolkit {version}" in her("--version").output
