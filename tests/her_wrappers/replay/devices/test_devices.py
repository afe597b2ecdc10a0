"""Torch devices: the same batches as without one, in tensors there, without waiting; and what is refused.

The other test files of this folder run a second time on the CPU device; here is what only devices have.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import Episode, EpisodeRecorder, Geometric, HindsightReplayBuffer, Mixture, Priority
from her_wrappers.replay.devices import choice, device_storage
from her_wrappers.replay.devices.tensor_probe import made_up_steps, obstacle, obstacle_of_infos
from her_wrappers.replay.devices.tensor_records import TensorRecords
from her_wrappers.trees import leaf_arrays, map_tree
from tests.counting import (
    ACTIONS,
    SPACE,
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)

pytestmark = pytest.mark.arrays_only("devices are given in each test")

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()

PARTS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminations",
    "truncations",
    "discounts",
    "weights",
    "relabeled",
    "index",
    "episode",
    "goal_index",
    "strategy",
)


def assert_equal(batch, other):
    """Two batches, of arrays or tensors, are the same; rewards within the tolerance of float32."""
    assert len(batch) == len(other)
    for name in PARTS:
        leaves, others = (leaf_arrays(getattr(each.to_numpy(), name)) for each in (batch, other))
        for leaf, other_leaf in zip(leaves, others, strict=True):
            assert (leaf.dtype, leaf.shape) == (other_leaf.dtype, other_leaf.shape), name
            if name in {"rewards", "discounts", "weights"}:
                np.testing.assert_allclose(leaf, other_leaf, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(leaf, other_leaf, err_msg=name)


# --- the same batches -----------------------------------------------------------------------------

DTYPES = [f"float{n}" for n in (16, 32, 64)] + [f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)]
STRATEGIES = [
    "future",
    "final",
    "episode",
    "random",
    Geometric(0.8),
    Mixture({"future": 0.5, "random": 0.25, "original": 0.25}),
]


def goals_equal(achieved, desired):
    """(B,) bool, for arrays and tensors, of goals of any shape, or dicts of two."""
    if isinstance(achieved, dict):
        return goals_equal(achieved["a"], desired["a"]) & goals_equal(achieved["b"], desired["b"])
    return (achieved == desired).reshape(len(achieved), -1).all(-1)


def sparse(achieved, desired, info):
    return -1.0 + goals_equal(achieved, desired)


def dense(achieved, desired, info):
    return -((achieved["a"] - desired["a"]) ** 2.0).reshape(len(achieved["a"]), -1).sum(-1)


def ended(achieved, desired, info):
    return goals_equal(achieved, desired)


def space_of(dtype, goal_shape, kind):
    """A goal environment's space; few values, so that goals are often reached."""
    box = spaces.Box(0, 2, goal_shape, dtype)
    goal = spaces.Dict(a=box, b=spaces.Discrete(2)) if kind == "tree" else box
    seen = {
        "alone": box,  # of which the episodes make the achieved goal
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
    if rng.random() < 0.7:  # else the goal changes inside the episode
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
def test_a_device_gives_the_same_batches_as_none(device, data):
    """For every strategy, rule for terminations, dtype and shape of spaces, at any moment."""
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
        "skip_trivial": data.draw(st.booleans()),
        "n_steps": data.draw(st.sampled_from([1, 1, 2, 5])),
        "gamma": data.draw(st.sampled_from([0.9, 0.99])),
        "prioritized": data.draw(st.sampled_from([None, Priority()])),
        "seed": data.draw(st.integers(0, 99)),
    }
    buffers = [HindsightReplayBuffer(space, action_space, device=each, **options) for each in (None, device)]
    rng = np.random.default_rng(options["seed"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="step .* of an episode was paid")  # where rewards are dense
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


def filled(**options):
    buffer = counting_buffer(**{"device": "cpu", **options})
    for number, length in enumerate([4, 1, 7]):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def test_batches_are_tensors_and_where_they_are_from_is_told_in_arrays():
    buffer = filled()
    batch = buffer.sample(32)
    assert buffer.on_device
    assert buffer.device == torch.device("cpu")
    for leaf in leaf_arrays([batch.observations, batch.next_observations, batch.actions][0]):
        assert isinstance(leaf, torch.Tensor)
    for name in ("actions", "rewards", "terminations", "truncations", "relabeled", "index"):
        assert isinstance(getattr(batch, name), torch.Tensor), name
    assert (batch.rewards.dtype, batch.relabeled.dtype, batch.index.dtype) == (
        torch.float32,
        torch.bool,
        torch.int64,
    )
    assert isinstance(batch.goal_index, np.ndarray)
    assert_equal(batch.to_torch("cpu"), batch)
    assert counting_buffer().device is None


def test_torch_may_have_other_defaults():
    """A program that makes its tensors on a GPU, in double precision, gets the same batches."""
    expected = filled().sample(32)
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            batches = [filled(n_steps=n_steps).sample(32) for n_steps in (1, 3)]
    finally:
        torch.set_default_dtype(dtype)
    assert_equal(batches[0], expected)
    assert_equal(batches[1], filled(n_steps=3).sample(32))


def test_long_episodes_reach_a_device_in_parts(monkeypatch):
    """Of five records each, over the end of the ring and past it."""
    expected = filled(buffer_size=60, device=None)
    monkeypatch.setattr(device_storage, "STAGED_BYTES", 250)
    buffer = filled(buffer_size=60)
    for number, length in enumerate([25, 40, 60, 7]):
        for each in (buffer, expected):
            each.add_episode(counting_episode(number, length))
        for one, other in zip(buffer.episodes(), expected.episodes(), strict=True):
            np.testing.assert_array_equal(one.observations["observation"], other.observations["observation"])
            np.testing.assert_array_equal(one.actions, other.actions)


@pytest.mark.parametrize("act", ["make", "grow", "clear"])
def test_what_is_stored_in_inference_mode_can_be_added_to_outside_of_it(act):
    """Where an actor collects episodes, say; torch writes to no tensor that was made there."""
    buffer = filled(buffer_size=200)
    with torch.inference_mode():
        if act == "make":
            buffer = counting_buffer(device="cpu")
        elif act == "grow":
            buffer.add_episodes([counting_episode(number, 1) for number in range(200)])
        else:
            buffer.clear()
    buffer.add_episode(counting_episode(7, 150))
    assert set(buffer.sample(9).observations["observation"][:, 0].tolist()) <= {7, *range(150, 200)}


@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_batch_after_others_in_inference_mode_can_be_learned_from(n_steps):
    buffer = filled(n_steps=n_steps)
    with torch.inference_mode():
        buffer.sample(8)
        buffer.sample(8)  # and another is drawn with it
    batch = buffer.sample(8)
    batch.map(lambda leaf: leaf.zero_())
    values = torch.ones(1, 12, requires_grad=True)
    values.expand(8, 12).gather(1, batch.index[:, None]).sum().backward()
    assert values.grad[0, 0] == 8


WEIGHT = torch.ones((), requires_grad=True)


def learned_reward(achieved, desired, info):
    if isinstance(achieved, torch.Tensor):
        return WEIGHT * sparse(achieved, desired, info)
    return sparse(achieved, desired, info)


def test_a_success_is_found_by_rewards_as_they_are_stored():
    """A tenth is another number as float64 than as float32."""

    def reward(achieved, desired, info):
        reached = (achieved == desired).all(-1)
        return 0.1 + 0.1 * (reached.double() if isinstance(reached, torch.Tensor) else reached)

    buffer = counting_buffer(device="cpu", compute_reward=reward, termination="success")
    buffer.add_episode(counting_episode(0, 5, rewards=np.full(5, 0.1)))
    assert buffer.on_device
    batch = buffer.sample(64)
    assert torch.equal(batch.terminations, batch.rewards > 0.15)
    assert batch.terminations.any()


def test_no_gradient_flows_into_a_batch():
    buffer = filled(compute_reward=learned_reward)
    assert buffer.on_device
    assert not buffer.sample(16).rewards.requires_grad


def test_no_two_batches_and_no_two_parts_of_one_share_memory():
    buffer, twin = filled(), filled()
    batches = [buffer.sample(8) for _ in range(6)]
    kept = [copy.deepcopy(batch.to_numpy()) for batch in batches]
    for number, batch in enumerate(batches):
        batch.map(lambda leaf: leaf.zero_())
        for other, before in zip(batches[number + 1 :], kept[number + 1 :], strict=True):
            assert_equal(other, before)
    assert_equal(buffer.sample(8), [twin.sample(8) for _ in range(7)][-1])
    leaves = []
    twin.sample(64).map(lambda leaf: leaves.append(leaf.numpy()))
    for i, leaf in enumerate(leaves):
        assert not any(np.shares_memory(leaf, other) for other in leaves[:i])


@pytest.mark.parametrize(("saved", "loaded"), [(None, "cpu"), ("cpu", None), ("cpu", "cpu")])
def test_a_file_saved_on_one_device_goes_on_on_another(saved, loaded, tmp_path):
    buffer = filled(device=saved, skip_trivial=True)
    buffer.sample(16)
    buffer.sample(16)
    buffer.save(tmp_path / "buffer")
    functions = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", device=loaded, **functions)
    assert twin.on_device == (loaded is not None)
    for _ in range(5):
        assert_equal(buffer.sample(16), twin.sample(16))


def test_copies_and_pickles_keep_their_device():
    buffer = filled(compute_reward=None, compute_terminated=None, n_sampled_goal=0)
    for twin in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        twin.add_episode(counting_episode(3, 900))
        assert twin.on_device
    batches = [each.sample(20) for each in (buffer, copy.deepcopy(buffer))]
    assert_equal(filled(n_sampled_goal=0).sample(20), batches[0])
    assert len(batches[1]) == 20


@pytest.mark.parametrize("made", [copy.deepcopy, lambda records: pickle.loads(pickle.dumps(records))])
def test_a_copy_of_records_has_one_memory_for_rows_and_fields(made):
    records = TensorRecords.of(np.ones(3, [("value", np.float32)]), torch.device("cpu"))
    assert records["value"].tolist() == [1, 1, 1]
    twin = made(records)
    twin["value"] = torch.tensor([2.0, 3, 4])
    assert twin.to_numpy()["value"].tolist() == [2, 3, 4]
    assert records.to_numpy()["value"].tolist() == [1, 1, 1]


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


# --- which functions take tensors -----------------------------------------------------------------


def with_numpy(achieved, desired, info):
    return np.isclose(np.linalg.norm(achieved - desired, axis=-1), 0.0) - 1.0


def as_float32(achieved, desired, info):
    return (achieved == desired).all(-1).astype(np.float32) - 1


def otherwise(achieved, desired, info):
    return sparse(achieved, desired, info) - 1.0 * isinstance(achieved, torch.Tensor)


def of_no_shape(achieved, desired, info):
    return (
        -1.0 + (achieved == desired).all()
        if isinstance(achieved, torch.Tensor)
        else sparse(achieved, desired, info)
    )


def warning(achieved, desired, info):
    if isinstance(achieved, torch.Tensor):
        warnings.warn("tensors are slow", stacklevel=1)
    return sparse(achieved, desired, info)


def always_warning(achieved, desired, info):
    warnings.warn("rewards are slow", stacklevel=1)
    return sparse(achieved, desired, info)


def writing(achieved, desired, info):
    rewards = sparse(achieved, desired, info)
    if isinstance(achieved, torch.Tensor):
        desired += 1
    return rewards


def writing_elsewhere(achieved, desired, info):
    rewards = sparse(achieved, desired, info)
    if isinstance(achieved, torch.Tensor):
        achieved += 1
    return rewards


def of_one_goal(achieved, desired, info):
    return bool((achieved == desired).all())


UNFIT = {
    with_numpy: "compute_reward must return a tensor for tensors, got ndarray",
    as_float32: "compute_reward raises AttributeError: 'Tensor' object has no attribute 'astype'",
    otherwise: "compute_reward answers [-1.0, -2.0] to tensors and [0.0, -1.0] to arrays",
    of_no_shape: "compute_reward must return numbers of shape (2,) on cpu, got torch.float32 of shape () on "
    "cpu; reduce over the goal's own axes only",
    warning: "compute_reward warns where it gets tensors",
    writing: "compute_reward writes to what it is given",
    writing_elsewhere: "compute_reward writes to what it is given",
}


def reason(buffer):
    """Why a buffer's functions are not asked with tensors."""
    parts = buffer._parts
    return obstacle(parts.relabeling, made_up_steps(parts.layout), torch.device("cpu"))


@pytest.mark.parametrize("function", UNFIT, ids=lambda function: function.__name__)
def test_a_reward_that_is_not_for_tensors_is_computed_on_the_host(function):
    """All is as without a device, but that the batch is made of tensors at the end."""
    buffer = filled(compute_reward=function)
    assert not buffer.on_device
    assert reason(buffer) == UNFIT[function]
    batch = buffer.sample(64)
    assert isinstance(batch.rewards, torch.Tensor)
    assert_equal(batch, filled(device=None, compute_reward=function).sample(64))
    assert_equal(batch.to_torch(), batch)


@pytest.mark.parametrize("function", [with_numpy, as_float32, of_one_goal], ids=lambda each: each.__name__)
def test_so_are_terminations_that_are_not_for_tensors(function):
    def ends(achieved, desired, info):
        answer = function(achieved, desired, info)
        return answer if function is of_one_goal else answer == 0

    buffer = filled(compute_terminated=ends)
    assert not buffer.on_device
    assert reason(buffer).startswith("compute_terminated ")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="compute_terminated answers for single goals")
        assert_equal(buffer.sample(64), filled(device=None, compute_terminated=ends).sample(64))


def test_to_be_probed_tells_a_function_and_the_world_nothing(recwarn):
    """No warning is shown, the global generator stays where it was, the spaces keep theirs."""
    state, seen = np.random.get_state()[1].copy(), copy.deepcopy(SPACE)  # noqa: NPY002 - that it stays as it is
    seen.seed(3)
    twin = copy.deepcopy(seen)
    actions, other_actions = spaces.Discrete(1000, seed=3), spaces.Discrete(1000, seed=3)
    torch_state = torch.get_rng_state()
    for function in UNFIT:
        HindsightReplayBuffer(seen, actions, compute_reward=function, device="cpu")
    assert HindsightReplayBuffer(seen, ACTIONS, compute_reward=always_warning, device="cpu").on_device
    assert not recwarn
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002 - the same
    assert torch.equal(torch_state, torch.get_rng_state())
    np.testing.assert_array_equal(seen.sample()["observation"], twin.sample()["observation"])
    assert [actions.sample() for _ in range(9)] == [other_actions.sample() for _ in range(9)]


def test_a_device_with_memory_of_its_own_warns_once_of_what_it_costs(monkeypatch):
    meta = torch.device("meta")  # has no memory, but is not the CPU
    monkeypatch.setattr(choice, "find_device", lambda name: meta)
    message = (
        "^transitions are kept and relabeled on the host, and each batch is copied to meta, since "
        "compute_reward raises AttributeError: 'Tensor' object has no attribute 'astype'; with functions "
        "that take tensors as well as arrays all stays there$"
    )
    with pytest.warns(UserWarning, match=message) as told:
        buffer = filled(device="meta", compute_reward=as_float32)
    assert len(told) == 1
    assert told[0].filename == str(Path(counting_buffer.__code__.co_filename))
    assert buffer.sample(8).rewards.device == meta


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


def reward_less_cost(achieved, desired, info):
    return sparse(achieved, desired, info) - info["cost"]


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
        for scale in (1, 0.5):  # whole numbers become others
            infos = {"cost": costs * scale if scale != 1 else costs}
            buffer.add_episode(counting_episode(0, 7, rewards=-1.0 - infos["cost"], infos=infos))
        assert buffer.on_device == (on_device and device is not None)
        batches.append(buffer.sample(64))
    assert_equal(*batches)


def test_infos_with_which_tensors_cannot_be_asked_are_for_the_host():
    """What is fine of floats is an error of bools, and what infos hold shows too late."""
    options = {"compute_reward": reward_less_cost, "info_format": "columns"}
    buffer = counting_buffer(info_keys=["cost"], device="cpu", **options)
    assert "with a bool tensor is not supported" in reason(buffer)
    assert not buffer.on_device
    assert not counting_buffer(info_keys=["cost", "b", "c", "d"], device="cpu", **options).on_device
    as_dicts = counting_buffer(info_keys=["cost"], info_format="list", device="cpu")
    assert obstacle_of_infos(as_dicts._parts.layout.infos) == "info_format='list' makes a dict for each row"
    plain = {"info_keys": ["cost"], "n_sampled_goal": 0}  # nobody asks for them
    assert counting_buffer(device="cpu", **plain).on_device


# --- without waiting ------------------------------------------------------------------------------


class NothingWaits(TorchDispatchMode):
    """Refuses the operations for whose results a host has to wait."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "bincount")

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.name().removeprefix("aten::").split(".")[0]
        assert name not in self.WAITING, name
        if name in {"index", "index_put_"}:  # by bools it counts them first
            assert not any(index is not None and index.dtype == torch.bool for index in args[1])
        return operation(*args, **(kwargs or {}))


WAITING = (
    "item",
    "cpu",
    "numpy",
    "tolist",
    "nonzero",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__array__",
)


@contextlib.contextmanager
def cuda_refuses_to_wait():
    """Where there is CUDA, it raises an error itself."""
    if not torch.cuda.is_available():
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("termination", ["recompute", "success", "keep", "never"])
@pytest.mark.parametrize("strategy", ["future", "random", Mixture({"future": 0.5, "original": 0.5})])
@pytest.mark.parametrize("options", [{}, {"n_steps": 3}, {"prioritized": Priority()}])
@pytest.mark.parametrize("device", DEVICES)
def test_to_sample_never_waits_for_the_device(device, termination, strategy, options, monkeypatch):
    buffer = filled(device=device, termination=termination, goal_selection_strategy=strategy, **options)
    assert buffer.on_device
    buffer.sample(32)

    def refuse(*arguments):
        raise AssertionError("the host waits for the device")

    with monkeypatch.context() as patch, NothingWaits(), cuda_refuses_to_wait():
        for name in WAITING:
            patch.setattr(torch.Tensor, name, refuse)
        batches = [buffer.sample(32) for _ in range(40)]
    assert sum(int((batch.rewards == 0).sum()) for batch in batches) > 0


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("termination", ["recompute", "success", "keep", "never"])
def test_to_add_and_to_sample_read_nothing_from_the_device(termination, n_steps, monkeypatch):
    """Of tensors on the device called meta nothing can be read, and all that is computed stays there."""
    monkeypatch.setattr(choice, "find_device", torch.device)
    monkeypatch.setattr(choice, "obstacle", lambda *arguments: None)
    buffer = counting_buffer(device="meta", buffer_size=300, termination=termination, n_steps=n_steps)
    for number in range(50):
        buffer.add_episode(counting_episode(number, 1 + number, terminated=number % 2 == 0))
    for batch_size in (8, 8, 200):
        devices = []
        buffer.sample(batch_size).map(lambda leaf, devices=devices: devices.append(leaf.device.type))
        assert devices == ["meta"] * 14
    buffer.verify()


def test_the_test_of_waiting_can_fail():
    flags = torch.tensor([True, False])
    for wait in (lambda: bool(flags[0]), lambda: flags[flags], lambda: torch.nonzero(flags), flags[0].item):
        with pytest.raises(AssertionError), NothingWaits():
            wait()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta", "cpu:x", 3.5, ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(device):
    with pytest.raises(
        ValueError, match=f"^device must be one that torch can use here, 'cpu'.*, got {device!r}$"
    ):
        counting_buffer(device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_is_refused_where_there_is_none():
    with pytest.raises(ValueError, match=r"^device must be one that torch can use here, 'cpu', got 'cuda'$"):
        counting_buffer(device="cuda")


def test_without_torch_a_device_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"^device='cuda' needs torch; run: pip install \"her-toolkit\[torch\]\", or leave device out$"
    with pytest.raises(ImportError, match=message):
        counting_buffer(device="cuda")
    assert len(filled(device=None).sample(3)) == 3


def test_without_torch_a_batch_of_tensors_is_refused_with_what_to_install(monkeypatch):
    batch = filled(device=None).sample(3)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"^to_torch needs torch; run: pip install \"her-toolkit\[torch\]\", or use the arrays$"
    with pytest.raises(ImportError, match=message):
        batch.to_torch()


def test_a_buffer_of_arrays_does_not_import_torch():
    code = """
import sys
from tests.counting import counting_buffer, counting_episode
buffer = counting_buffer(n_steps=2)
buffer.add_episode(counting_episode(0, 5))
buffer.sample(8)
buffer.statistics()
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


@pytest.mark.parametrize("buffer_size", [10**15, 10**19, 10**30])
def test_more_memory_than_a_device_has_is_an_error_with_its_name(buffer_size):
    with pytest.raises(
        MemoryError, match=r"^on cpu buffer_size=\d+ needs \d+\.\d GiB, which cannot be had; make it smaller$"
    ):
        counting_buffer(device="cpu", buffer_size=buffer_size)


def test_a_buffer_that_cannot_grow_on_its_device_stays_whole(monkeypatch):
    buffer = counting_buffer(device="cpu", buffer_size=2000)
    buffer.add_episode(counting_episode(0, 900))
    empty = torch.empty

    def little(shape, **options):
        if np.prod(shape) > 30_000:
            raise RuntimeError("CUDA out of memory")
        return empty(shape, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", little)
        with pytest.raises(MemoryError, match=r"^0\.0 GiB cannot be had on cpu$"):
            buffer.add_episodes([counting_episode(1 + number, 1) for number in range(700)])
        with pytest.raises(MemoryError, match=r"^0\.0 GiB cannot be had on cpu$"):
            buffer.sample(10_000)
    buffer.verify()
    assert set(buffer.sample(20_000).index.tolist()) == set(range(900))


@pytest.mark.parametrize("function", [sparse, with_numpy], ids=["on the device", "on the host"])
def test_a_dtype_that_torch_does_not_have_is_refused(function):
    box = spaces.Box(0, 1, (2,), np.longdouble)
    space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
    with pytest.raises(
        TypeError, match=r"^observations/observation has dtype \w+, which torch .* does not have"
    ):
        HindsightReplayBuffer(space, ACTIONS, compute_reward=function, device="cpu")
    HindsightReplayBuffer(space, ACTIONS, compute_reward=function)


@pytest.mark.parametrize("name", [">f4", ">i8"])
def test_numbers_in_another_order_of_bytes_are_refused(name):
    """They would be read as others."""
    dtype = np.dtype(name)
    box = spaces.Box(0, 9, (2,), dtype)
    space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
    with pytest.raises(
        TypeError, match=rf"^observations/observation has dtype {name}, which torch .* not have"
    ):
        HindsightReplayBuffer(space, ACTIONS, compute_reward=sparse, device="cpu")


def test_a_reward_that_answers_wrongly_on_the_device_leaves_the_buffer_usable():
    wrong = []

    def reward(achieved, desired, info):
        if wrong and isinstance(achieved, torch.Tensor):
            return wrong[0](len(achieved))
        return sparse(achieved, desired, info)

    buffer = filled(compute_reward=reward)
    for answer, message in [
        (
            lambda count: torch.zeros(3),
            r"must return numbers of shape \(\d+,\) on cpu, got torch.float32 of shape \(3,\) on cpu",
        ),
        (
            lambda count: torch.zeros(count) * 1j,
            "must return numbers of shape .*, got torch.complex64 of shape",
        ),
        (
            lambda count: torch.zeros(count, device="meta"),
            r"must return numbers of .* on cpu, got .* on meta",
        ),
        (np.zeros, "must return a tensor for tensors, got ndarray"),
    ]:
        wrong[:] = [answer]
        with pytest.raises(ValueError, match=f"^compute_reward {message}"):
            buffer.sample(32)
    wrong.clear()
    assert len(buffer.sample(32)) == 32
