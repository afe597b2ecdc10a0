"""`HindsightTensorDictReplayBuffer` with the collectors, environments and losses of TorchRL."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch

import her_envs
from her_wrappers import NotFiniteError, Priority
from her_wrappers.conformance import check_replay
from tests.support.reusing import KEPT, Reusing

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("torchrl", reason="torchrl is missing: the extra torchrl")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TorchRL warns when it is imported
    from tensordict import TensorDict
    from torchrl.collectors import Collector, MultiSyncCollector
    from torchrl.envs import FrameSkipTransform, GymWrapper, RewardScaling, SerialEnv, TransformedEnv

from her_wrappers.integrations.torchrl import HindsightTensorDictReplayBuffer  # noqa: E402

gym.register_envs(her_envs)
REACH, FLIP = "her_envs/PointReach-v0", "her_envs/BitFlipping-v0"


def collector(make_env, frames, num_envs=1, **options):
    """Return a collector with random actions; `her_envs` are seeded."""
    env = SerialEnv(num_envs, make_env) if num_envs > 1 else make_env()
    env.set_seed(0)
    return Collector(env, frames_per_batch=frames, total_frames=options.pop("total", 600), **options)


def flip(categorical=False, **options):
    env = gym.make(FLIP, n_bits=4, **options)
    return GymWrapper(env, categorical_action_encoding=categorical)


def reach():
    return GymWrapper(gym.make(REACH))


def make_buffer(env_id=REACH, **options):
    made = {"n_bits": 4} if env_id == FLIP else {}
    return HindsightTensorDictReplayBuffer.for_env(
        gym.make(env_id, **made), buffer_size=5000, seed=0, **options
    )


def episode(length, first=0.0, *, goal=-1.0, terminated=False, done=True):
    """Return an episode of PointReach-like states first, first + 1, ..., all of whose entries are equal."""
    states = first + torch.arange(length + 1, dtype=torch.float32)[:, None]
    ends = torch.zeros(length, 1, dtype=torch.bool)
    ends[-1] = done

    def observations(rows):
        goals = torch.full((length, 2), goal)
        return {"observation": rows.repeat(1, 2), "achieved_goal": rows.repeat(1, 2), "desired_goal": goals}

    after = observations(states[1:]) | {"reward": torch.full((length, 1), -1.0), "done": ends}
    after["terminated"] = ends & terminated
    return TensorDict(
        {**observations(states[:-1]), "action": torch.zeros(length, 2), "next": after}, batch_size=[length]
    )


def counting_buffer(**options):
    space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    states = gym.spaces.Dict(observation=space, achieved_goal=space, desired_goal=space)
    return HindsightTensorDictReplayBuffer(
        states,
        gym.spaces.Box(-1, 1, (2,), np.float32),
        compute_reward=lambda achieved, desired, info: (achieved == desired).all(-1) - 1.0,
        **{"buffer_size": 1000, "termination": "success", "seed": 0} | options,
    )


def filled(length=4, **options):
    """Return a `counting_buffer` with an episode."""
    buffer = counting_buffer(**options)
    buffer.extend(episode(length))
    return buffer


def lengths(buffer):
    return [len(each) for each in buffer.her_buffer.episodes()]


def test_the_buffer_passes_the_conformance_suite():
    from her_wrappers.conformance.adapters.torchrl import OursForTorchRL  # noqa: PLC0415 - needs torchrl

    report = check_replay(OursForTorchRL, max_seconds=600)
    assert not report.findings, report.text()


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("frames", [30, 150])
def test_episodes_of_a_collector_are_stored_completely(num_envs, frames):
    buffer = make_buffer()
    for data in collector(reach, frames, num_envs):
        buffer.extend(data)
    assert set(lengths(buffer)) == {50}
    assert len(buffer) == num_envs * 50 * (600 // num_envs // 50)


@pytest.mark.parametrize("kept", KEPT)
def test_an_environment_that_reuses_its_arrays_is_noticed(kept):
    """`Collector` copies the states of a single environment only when it returns the data."""
    buffer = HindsightTensorDictReplayBuffer.for_env(Reusing(), buffer_size=5000, seed=0)
    with pytest.warns(UserWarning, match="reuse its arrays.*CopyObservation"):
        [buffer.extend(data) for data in collector(lambda: GymWrapper(Reusing(kept)), 90)]


@pytest.mark.parametrize("num_envs", [1, 3])
def test_an_environment_with_new_arrays_gives_no_warning(num_envs):
    buffer = HindsightTensorDictReplayBuffer.for_env(Reusing(), buffer_size=5000, seed=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for data in collector(lambda: GymWrapper(Reusing()), 90, num_envs):
            buffer.extend(data)
    assert not [each for each in found if "arrays" in str(each.message)]


def test_a_collector_writes_into_the_buffer():
    buffer = make_buffer()
    for data in collector(reach, 100, replay_buffer=buffer):
        assert data is None
    assert (len(buffer), buffer.write_count) == (600, 600)


@pytest.mark.parametrize("categorical", [False, True])
def test_discrete_actions_have_the_encoding_of_the_collector(categorical):
    buffer = make_buffer(FLIP)
    for data in collector(lambda: flip(categorical), 200):
        buffer.extend(data)
    batch = buffer.sample(64)
    assert batch["action"].dtype == data["action"].dtype
    assert batch["action"].shape == (64, *data["action"].shape[1:])
    actions = batch["action"] if categorical else batch["action"].long().argmax(-1)
    flipped = (batch["observation"] != batch["next", "observation"]).long().argmax(-1)
    assert (actions == flipped).all()


def test_batches_have_the_entries_and_shapes_of_a_collector():
    buffer = make_buffer(batch_size=32)
    for data in collector(reach, 100):
        buffer.extend(data)
    batch = buffer.sample()
    for key in batch.exclude("index", "relabeled").keys(include_nested=True, leaves_only=True):
        assert batch[key].shape == (32, *data[key].shape[1:]), key
        assert batch[key].dtype == data[key].dtype, key


def test_an_episode_may_come_in_parts_and_rows_are_separate_environments():
    buffer = counting_buffer()
    whole = torch.stack([episode(7), episode(7, first=100)])
    for begin, end in ((0, 2), (2, 3), (3, 7)):
        assert len(buffer) == 0
        buffer.extend(whole[:, begin:end])
    first = [each.observations["observation"][0, 0] for each in buffer.her_buffer.episodes()]
    assert (lengths(buffer), first) == ([7, 7], [0, 100])
    for step in episode(3, first=50).unbind(0):
        buffer.add(step)
    assert lengths(buffer) == [7, 7, 3]


def test_trajectory_ids_join_the_parts_of_an_episode_in_any_order():
    buffer = counting_buffer()
    parts = [episode(6), episode(6, first=100)]
    for number, part in enumerate(parts):
        part["collector", "traj_ids"] = torch.full((6,), number)
    for begin, end in ((0, 4), (4, 6)):
        for part in parts:
            buffer.extend(part[begin:end])
    assert lengths(buffer) == [6, 6]


def test_a_step_from_another_state_truncates_the_episode():
    buffer = counting_buffer()
    buffer.extend(episode(4, done=False))
    buffer.extend(episode(3, first=50))
    buffer.extend(torch.cat([episode(2, first=70, done=False), episode(2, first=80)]))
    assert lengths(buffer) == [4, 3, 2, 2]
    assert [each.truncated for each in buffer.her_buffer.episodes()] == [True] * 4


def test_open_episodes_can_be_truncated_or_removed():
    buffer = counting_buffer()
    buffer.extend(episode(4, done=False))
    buffer.truncate_open_episodes()
    assert lengths(buffer) == [4]
    buffer.extend(episode(4, done=False))
    buffer.empty()
    buffer.truncate_open_episodes()
    assert len(buffer) == 0


def test_the_buffer_owns_its_data():
    buffer, data = counting_buffer(), episode(4)
    buffer.extend(data[:2])
    data["observation"][:2] = 77
    data["next", "observation"][:1] = 77
    buffer.extend(data[2:])
    (stored,) = buffer.her_buffer.episodes()
    assert stored.observations["observation"][:, 0].tolist() == [0, 1, 2, 3, 4]


def test_priorities_change_the_sampling_frequency():
    buffer = filled(prioritized=Priority(alpha=1.0), n_sampled_goal=0)
    batch = buffer.sample(100)
    first = batch["index"].min()
    batch["td_error"] = torch.where(batch["index"] == first, 1000.0, 1e-3)
    buffer.update_tensordict_priority(batch)
    sampled = buffer.sample(200)
    assert (sampled["index"] == first).float().mean() > 0.9
    assert sampled["priority_weight"].shape == (200,)
    without = filled()
    without.update_tensordict_priority(without.sample(4))  # does nothing


def test_n_step_batches_have_the_number_of_steps():
    batch = filled(5, n_steps=3, gamma=0.9, n_sampled_goal=0).sample(300)
    left = (5 - batch["observation"][:, :1]).clip(max=3)
    assert (batch["steps_to_next_obs"] == left).all()


def test_keys_can_differ_from_those_of_torchrl():
    names = {"observation": ("agent", "state"), "action": ("agent", "action"), "reward": ("agent", "reward")}
    buffer = counting_buffer(keys=names)
    data = episode(4)
    data.rename_key_("observation", names["observation"])
    data.rename_key_("action", names["action"])
    for old in ("observation", "reward"):
        data.rename_key_(("next", old), ("next", *names[old]))
    buffer.extend(data)
    batch = buffer.sample(8)
    assert batch["agent", "state"].shape == batch["next", "agent", "state"].shape == (8, 2)
    assert batch["next", "agent", "reward"].shape == (8, 1)


def test_a_loaded_buffer_has_the_functions_of_the_constructor_and_the_same_options(tmp_path):
    options = {"reward_fn": lambda batch: np.full(len(batch.rewards), 8.0), "termination": "never"}
    buffer, loaded = make_buffer(**options), make_buffer(**options)
    for data in collector(reach, 100):
        buffer.extend(data)
    buffer.dumps(tmp_path / "buffer.her")
    loaded.loads(tmp_path / "buffer.her")
    assert (buffer.sample(50) == loaded.sample(50)).all()
    with pytest.raises(ValueError, match="as in the saved buffer"):
        make_buffer(prioritized=Priority(), **options).loads(tmp_path / "buffer.her")
    with pytest.raises(ValueError, match="this buffer must have the same spaces"):
        make_buffer(FLIP).loads(tmp_path / "buffer.her")


def test_a_loaded_buffer_has_the_encoding_of_actions():
    buffer, loaded = make_buffer(FLIP), make_buffer(FLIP)
    for data in collector(flip, 100, total=100):
        buffer.extend(data)
    loaded.load_state_dict(buffer.state_dict())
    assert loaded.write_count == 100
    one, two = buffer.sample(50), loaded.sample(50)
    assert two["action"].shape == (50, 4)
    assert (one == two).all()


@pytest.mark.parametrize(
    "options", [{"trajs_per_batch": 4}, {"split_trajs": True}, {"split_trajs": True, "num_envs": 1}]
)
def test_padding_of_trajectories_is_ignored(options):
    buffer = make_buffer()
    for data in collector(reach, 60, **{"num_envs": 2} | options):
        buffer.extend(data)
    assert set(lengths(buffer)) == {50}
    assert len(buffer) >= 400


def test_episodes_that_the_collector_resets_are_stored_as_truncated():
    buffer = make_buffer()
    for data in collector(reach, 8, total=800, reset_at_each_iter=True):
        buffer.extend(data)
    assert set(lengths(buffer)) == {8}
    assert len(buffer) > 600


def test_asynchronous_workers_with_short_episodes_may_deliver_in_any_order():
    buffer = counting_buffer()
    parts = [torch.cat([episode(2, first=10 * i) for i in range(20)] + [episode(4, first=500)]) for _ in "12"]
    for number, part in enumerate(parts):
        part["collector", "traj_ids"] = 100 * number + torch.arange(44).div(2).long().clip(max=20)
    for begin, end in ((0, 42), (42, 44)):
        for part in parts:
            buffer.extend(part[begin:end])
    assert lengths(buffer) == [2] * 40 + [4] * 2


def test_a_rollout_may_end_after_the_first_step_of_an_episode():
    buffer = counting_buffer()
    for _ in range(2):
        buffer.extend(torch.cat([episode(4), episode(1, first=50, done=False)]))
    assert lengths(buffer) == [4, 1, 4]


NOT_CONSECUTIVE = {
    "a step of each of N environments": lambda whole: whole[:, 0],
    "steps before environments": lambda whole: whole.transpose(0, 1),
    "a shuffled batch": lambda whole: whole.reshape(-1)[torch.randperm(12)],
    "single steps by turns": lambda whole: whole.transpose(0, 1).reshape(-1),
}


@pytest.mark.parametrize("name", NOT_CONSECUTIVE)
def test_steps_that_are_not_consecutive_are_an_error(name):
    buffer = counting_buffer()
    whole = torch.stack([episode(6), episode(6, first=100)])
    with pytest.raises(ValueError, match=r"extend\(data.unsqueeze\(-1\)\)"):
        buffer.extend(NOT_CONSECUTIVE[name](whole))
    assert len(buffer) == 0


@pytest.mark.parametrize("terminated", [True, False])
def test_a_final_state_of_zeros_is_an_error_unless_it_has_the_goal_of_the_episode(terminated):
    buffer, data = counting_buffer(), episode(4, terminated=terminated)
    for key in ("observation", "achieved_goal"):
        data["next", key][-1] = 0
    lost = data.clone()
    lost["next", "desired_goal"][-1] = 0
    with pytest.raises(ValueError, match=r"GymEnv\(id, num_envs=N\)"):
        buffer.extend(lost)
    assert len(buffer) == 0
    buffer.extend(data)
    assert lengths(buffer) == [4]


def test_an_episode_with_nan_in_two_parts_is_rejected_as_one():
    buffer, data = counting_buffer(), episode(6)
    for where in (data, data["next"]):
        where["observation"][:, 0] = float("nan")
    buffer.extend(data[:4])
    with pytest.raises(NotFiniteError, match="at step 0"):
        buffer.extend(data[4:])


@pytest.mark.parametrize(
    "transform", [RewardScaling(0.0, 10.0), RewardScaling(1.0, 1.0), FrameSkipTransform(5)]
)
def test_a_transform_of_rewards_is_noticed(transform):
    buffer = make_buffer()
    data = next(iter(collector(lambda: TransformedEnv(reach(), transform), 60)))
    with pytest.warns(UserWarning, match="compute_reward"):
        buffer.extend(data)


def test_a_collector_with_workers_cannot_write_into_the_buffer():
    with pytest.raises(NotImplementedError, match="HindsightTensorDictReplayBuffer cannot be shared"):
        MultiSyncCollector([reach], None, frames_per_batch=10, total_frames=10, replay_buffer=make_buffer())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda data: data.exclude("achieved_goal"), KeyError, "data must have the key .*achieved_goal"),
        (lambda data: data.exclude(("next", "terminated")), KeyError, "next.*terminated"),
        (lambda data: data[None, None], ValueError, r"must have shape \(steps,\) or \(environments, steps\)"),
        (lambda data: data.set("action", torch.zeros(4, 3)), ValueError, "action"),
    ],
)
def test_wrong_data_raise_and_nothing_is_stored(change, error, message):
    buffer = counting_buffer()
    with pytest.raises(error, match=message):
        buffer.extend(change(episode(4)))
    assert len(buffer) == 0
    buffer.extend(episode(4))
    assert lengths(buffer) == [4]


def test_wrong_arguments_raise():
    with pytest.raises(ValueError, match="keys= has the unknown name 'goal'"):
        counting_buffer(keys={"goal": "goal"})
    with pytest.raises(ValueError, match="batch_size is missing"):
        filled().sample()
