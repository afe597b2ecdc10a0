"""Batches on a torch device equal batches of NumPy arrays, for every strategy, space and option."""

from __future__ import annotations

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import Episode, EpisodeRecorder, Geometric, HindsightReplayBuffer, Mixture, Priority
from her_wrappers.trees import leaf_arrays, map_tree
from tests.support.counting import (
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.support.tensors import DEVICES, assert_equal, cpu_buffer, ended, sparse

pytestmark = pytest.mark.arrays_only("devices are given in each test")


DTYPES = [f"float{n}" for n in (16, 32, 64)] + [f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)]


STRATEGIES = [
    "future",
    "final",
    "episode",
    "random",
    Geometric(0.8),
    "desired",
    Mixture({"future": 0.5, "random": 0.25, "original": 0.25}),
    Mixture({"desired": 0.3, "future": 0.5, "original": 0.2}),
]


def dense(achieved, desired, info):
    return -((achieved["a"] - desired["a"]) ** 2.0).reshape(len(achieved["a"]), -1).sum(-1)


def space_of(dtype, goal_shape, kind):
    """Return the space of a goal environment with few values, so that goals are often achieved."""
    box = spaces.Box(0, 2, goal_shape, dtype)
    goal = spaces.Dict(a=box, b=spaces.Discrete(2)) if kind == "tree" else box
    seen = {
        "alone": box,  # episodes use it as the achieved goal
        "flat": spaces.Box(0, 1, (3,), np.uint8),
        "tree": spaces.Dict(x=spaces.Tuple([spaces.Box(0, 9, (2, 2), dtype), spaces.MultiBinary(3)]), y=box),
    }[kind]
    return spaces.Dict({"observation": seen, "achieved_goal": goal, "desired_goal": goal})


def random_rows(space, rows, rng):
    if isinstance(space, spaces.Dict):
        return {key: random_rows(part, rows, rng) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(random_rows(part, rows, rng) for part in space)
    return rng.integers(0, 2, (rows, *(space.shape or ()))).astype(space.dtype)


def random_episode(space, action_space, length, rng, *, alone):
    observations = random_rows(space, length + 1, rng)
    if alone:
        observations["observation"] = observations["achieved_goal"].copy()
    if rng.random() < 0.7:  # otherwise the goal changes inside the episode
        goal = map_tree(lambda rows: np.repeat(rows[:1], length + 1, axis=0), observations["desired_goal"])
        observations["desired_goal"] = goal
    reached = [
        map_tree(lambda rows: rows[1:], observations[f"{which}_goal"]) for which in ("achieved", "desired")
    ]
    ends = bool(rng.random() < 0.5)
    rewards = sparse(*reached, {})
    return Episode(
        observations, random_rows(action_space, length, rng), rewards, terminated=ends, truncated=not ends
    )


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60)
@given(data=st.data())
def test_batches_on_a_device_equal_batches_without_one(device, data):
    """Options, spaces, episodes and batch sizes are random."""
    kind = data.draw(st.sampled_from(["alone", "flat", "tree"]))
    dtype, shape = (
        data.draw(st.sampled_from(DTYPES)),
        data.draw(st.sampled_from([(), (1,), (3,), (5,), (2, 2)])),
    )
    space, action_space = (
        space_of(dtype, shape, kind),
        data.draw(st.sampled_from([spaces.Discrete(2), spaces.Box(0, 1, (2,))])),
    )
    paid = dense if kind == "tree" and dtype.startswith("float") else sparse
    termination = data.draw(st.sampled_from(["recompute", "success", "keep", "never"]))
    options = {
        "buffer_size": data.draw(st.sampled_from([12, 40, 400])),
        "compute_reward": paid,
        "compute_terminated": ended,
        "goal_selection_strategy": data.draw(st.sampled_from(STRATEGIES)),
        "termination": "keep" if paid is dense and termination == "success" else termination,
        "resample_achieved_goals": data.draw(st.booleans()),
        "n_steps": data.draw(st.sampled_from([1, 1, 2, 5])),
        "gamma": data.draw(st.sampled_from([0.9, 0.99])),
        "prioritized": data.draw(st.sampled_from([None, Priority()])),
        "seed": data.draw(st.integers(0, 99)),
    }
    buffers = [HindsightReplayBuffer(space, action_space, device=each, **options) for each in (None, device)]
    rng = np.random.default_rng(options["seed"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="step .* of an episode has the reward")  # rewards are dense
        for length in data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=8)):
            episode = random_episode(
                space, action_space, length, rng, alone=kind == "alone" and rng.random() < 0.8
            )
            for buffer in buffers:
                buffer.add_episode(episode)
            for batch_size in data.draw(st.lists(st.integers(1, 50), max_size=3)):
                batches = [buffer.sample(batch_size) for buffer in buffers]
                assert_equal(*batches)
                if options["prioritized"]:
                    errors = rng.random(batch_size)
                    buffers[0].update_priorities(batches[0].index, errors)
                    buffers[1].update_priorities(batches[1].index, torch.from_numpy(errors))
    assert buffers[0].statistics(100).__dict__ == pytest.approx(
        buffers[1].statistics(100).__dict__, nan_ok=True
    )
    for one, other in zip(*(buffer.episodes() for buffer in buffers), strict=True):
        for leaf, other_leaf in zip(
            *(leaf_arrays((e.observations, e.actions, e.rewards)) for e in (one, other)), strict=True
        ):
            np.testing.assert_array_equal(leaf, other_leaf)


@pytest.mark.parametrize(("saved", "loaded"), [(None, "cpu"), ("cpu", None), ("cpu", "cpu")])
def test_a_buffer_saved_on_one_device_continues_on_another(saved, loaded, tmp_path):
    buffer = cpu_buffer(device=saved, resample_achieved_goals=True)
    buffer.sample(16)
    buffer.sample(16)
    buffer.save(tmp_path / "buffer")
    functions = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", device=loaded, **functions)
    assert twin.on_device == (loaded is not None)
    for _ in range(5):
        assert_equal(buffer.sample(16), twin.sample(16))


def test_copies_and_pickles_keep_their_device():
    buffer = cpu_buffer(compute_reward=None, compute_terminated=None, n_sampled_goal=0)
    for twin in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        twin.add_episode(counting_episode(3, 900))
        assert twin.on_device
    batches = [each.sample(20) for each in (buffer, copy.deepcopy(buffer))]
    assert_equal(cpu_buffer(n_sampled_goal=0).sample(20), batches[0])
    assert len(batches[1]) == 20


def test_the_bundled_environments_are_relabeled_on_the_device():
    for spec in (spec for name, spec in gym.registry.items() if name.startswith("her_envs/")):
        env = gym.make(spec.id)
        buffers = [
            HindsightReplayBuffer.for_env(env, buffer_size=500, seed=0, device=d) for d in (None, "cpu")
        ]
        recorder = EpisodeRecorder(env, *(buffer.add_episode for buffer in buffers))
        env.action_space.seed(0)
        for seed in range(3):
            recorder.reset(seed=seed)
            for _ in range(9):
                if any(recorder.step(env.action_space.sample())[2:4]):
                    break
        recorder.close()
        assert buffers[1].on_device, spec.id
        assert_equal(*(buffer.sample(64) for buffer in buffers))


def reward_of_effort(batch):
    return batch.actions[:, 0] * batch.observations["observation"][:, 1] + batch.relabeled


def test_a_reward_of_whole_transitions_is_computed_on_the_device():
    buffers = [
        counting_buffer(device=device, compute_reward=None, reward_fn=reward_of_effort)
        for device in (None, "cpu")
    ]
    for buffer in buffers:
        episode = counting_episode(2, 9, rewards=(2 + np.arange(9) / 1000) * np.arange(9) + 1)
        buffer.add_episode(episode)
    assert buffers[1].on_device
    assert_equal(*(buffer.sample(64) for buffer in buffers))


@pytest.mark.parametrize(
    ("costs", "form", "on_device"),
    [
        (np.arange(7.0), "columns", True),
        (np.arange(7), "columns", True),
        (np.arange(7.0), "list", False),
    ],
)
def test_infos_in_columns_are_tensors_too(costs, form, on_device):
    def reward(achieved, desired, info):
        cost = info["cost"] if form == "columns" else np.array([row["cost"] for row in info])
        return sparse(achieved, desired, info) - 1.0 * cost

    batches = []
    for device in (None, "cpu"):
        options = {"compute_reward": reward, "info_keys": ["cost"], "info_format": form, "device": device}
        buffer = counting_buffer(buffer_size=9, **options)
        for scale in (1, 0.5):  # integers, then floats
            infos = {"cost": costs * scale if scale != 1 else costs}
            buffer.add_episode(counting_episode(0, 7, rewards=-1.0 - infos["cost"], infos=infos))
        assert buffer.on_device == (on_device and device is not None)
        batches.append(buffer.sample(64))
    assert_equal(*batches)
