"""TaskVectorEnv: its results equal those of Gymnasium's SyncVectorEnv of single environments."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from her_envs import BitFlipping, PointReach, TaskEnv, TaskVectorEnv
from her_envs.starts import sample_starts
from tests.support.bundled import TASKS, VARIANTS, ids

MODES = list(AutoresetMode)


def unsolved_starts(task, seed):
    """Yield unsolved starts, sampled by the task."""
    rng = np.random.default_rng(seed)
    while True:
        yield sample_starts(task, 1, rng, {})[0]


def with_given_starts(task, starts):
    """Return the task with a `reset` that returns the starts of an iterator."""

    def reset(num_envs, rng):
        rows = [next(starts) for _ in range(num_envs)]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    task = copy.copy(task)
    task.reset = reset
    return task


def pair(task, num_envs, mode, seed, **options):
    """Return a TaskVectorEnv and a SyncVectorEnv that get the same starts in the same order."""
    native = TaskVectorEnv(
        with_given_starts(task, unsolved_starts(task, seed)), num_envs, autoreset_mode=mode, **options
    )
    shared = with_given_starts(task, unsolved_starts(task, seed))
    sync = SyncVectorEnv([lambda: TaskEnv(shared, **options)] * num_envs, autoreset_mode=mode)
    return native, sync


@given(
    task=st.sampled_from(TASKS),
    num_envs=st.integers(1, 5),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 2**32 - 1),
    max_steps=st.integers(1, 7),
    terminate_on_success=st.booleans(),
    reward_type=st.sampled_from(["sparse", "dense"]),
    partial_resets=st.booleans(),
)
def test_steps_and_resets_equal_those_of_a_sync_vector_env(
    task, num_envs, mode, seed, partial_resets, **options
):
    rng = np.random.default_rng(seed)
    native, sync = pair(task, num_envs, mode, seed, **options)
    assert native.observation_space == sync.observation_space
    assert native.action_space == sync.action_space
    native.action_space.seed(seed)
    assert data_equivalence(native.reset(), sync.reset(), exact=True)
    for _ in range(25):
        actions = native.action_space.sample()
        got = native.step(actions)
        assert data_equivalence(got, sync.step(actions), exact=True), got
        mask = rng.random(num_envs) < 0.15 * partial_resets
        if mode is AutoresetMode.DISABLED:
            mask |= got[2] | got[3]
        if mask.any():
            resets = [env.reset(options={"reset_mask": mask.copy()}) for env in (native, sync)]
            assert data_equivalence(*resets, exact=True)


@pytest.mark.parametrize("mode", MODES)
def test_given_starts_equal_those_of_a_sync_vector_env(mode):
    native, sync = pair(PointReach(success_radius=0.1), 3, mode, seed=0)
    options = {"goal": [0.5, 0.5], "state": {"position": [0.55, 0.5]}}
    assert data_equivalence(native.reset(options=options), sync.reset(options=dict(options)), exact=True)
    mask = np.array([False, True, True])
    elsewhere = {"goal": [0.1, 0.1], "state": [0.9, 0.9], "reset_mask": mask}
    got = native.reset(options=elsewhere)
    assert data_equivalence(got, sync.reset(options=dict(elsewhere)), exact=True)
    assert got[1]["_is_success"].tolist() == mask.tolist()
    assert elsewhere["reset_mask"] is mask, "the caller's options are not changed"


def test_options_give_a_start_for_each_environment():
    env = TaskVectorEnv(PointReach(), 3)
    goals = np.float32([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])
    observations, _ = env.reset(options={"goal": goals})
    np.testing.assert_array_equal(observations["desired_goal"], goals)
    mask = np.array([True, False, True])
    observations, infos = env.reset(options={"goal": 1 - goals, "state": 1 - goals, "reset_mask": mask})
    np.testing.assert_array_equal(observations["desired_goal"], np.where(mask[:, None], 1 - goals, goals))
    assert infos["is_success"].tolist() == mask.tolist()


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_make_vec_makes_the_native_environment_with_all_options(env_id, options):
    env = gym.make_vec(env_id, num_envs=3, autoreset_mode="SameStep", reward_type="dense", **options)
    assert isinstance(env, TaskVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    env.action_space.seed(0)
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    assert env.observation_space.contains(env.step(env.action_space.sample())[0])


def overwrite(tree):
    """Overwrite every array of a tree."""
    if isinstance(tree, np.ndarray) and tree.dtype != object:
        tree[...] = 1
    elif isinstance(tree, dict):
        overwrite(list(tree.values()))
    elif isinstance(tree, list | tuple | np.ndarray):
        for part in tree:
            overwrite(part)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_arrays_that_a_task_keeps_are_not_changed(mode):
    """A reset of some environments must not write into arrays that the task returned."""
    task, middle = copy.copy(PointReach(success_radius=0.1)), np.float32([0.5, 0.5])

    def reset(num_envs, rng):
        position = rng.random((num_envs, 2), dtype=np.float32)
        return {"position": position, "goal": np.broadcast_to(middle, (num_envs, 2))}

    task.reset = reset
    env = TaskVectorEnv(task, 50, autoreset_mode=mode, max_steps=1)
    env.reset(seed=0)
    for _ in range(3):
        observations, *_ = env.step(env.action_space.sample())
        np.testing.assert_array_equal(observations["desired_goal"], np.tile(middle, (50, 1)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", TASKS)
def test_overwriting_returned_arrays_changes_nothing(task, mode):
    env, twin = (TaskVectorEnv(task, 4, autoreset_mode=mode, max_steps=3) for _ in range(2))
    env.action_space.seed(0)
    results = [each.reset(seed=0) for each in (env, twin)]
    for _ in range(12):
        assert data_equivalence(*results, exact=True)
        ended = results[1][2] | results[1][3] if len(results[1]) == 5 else np.zeros(4, bool)
        overwrite(results[0])
        if mode is AutoresetMode.DISABLED and ended.any():
            results = [each.reset(options={"reset_mask": ended}) for each in (env, twin)]
        else:
            actions = env.action_space.sample()
            results = [each.step(actions) for each in (env, twin)]


def test_starts_and_goals_are_uniform_over_unsolved_pairs():
    """Starts that are solved already are resampled in batches; all other starts keep equal probabilities."""
    task = BitFlipping(n_bits=2, observation="integer")
    env = TaskVectorEnv(task, 3000, autoreset_mode="SameStep", max_steps=1)
    observations, _ = env.reset(seed=0)
    counts = np.zeros((4, 4))
    for _ in range(5):
        np.add.at(counts, (observations["achieved_goal"], observations["desired_goal"]), 1)
        observations, *_ = env.step(env.action_space.sample())
    assert np.diag(counts).sum() == 0
    assert stats.chisquare(counts[~np.eye(4, dtype=bool)]).pvalue > 1e-4


def test_step_after_the_end_raises_an_error_in_mode_disabled():
    env = TaskVectorEnv(PointReach(), 3, autoreset_mode="Disabled", max_steps=1)
    env.reset(seed=0)
    env.step(np.zeros((3, 2)))
    env.reset(options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(ResetNeeded, match=r"after the end of the episodes of environments \[1\]; call reset"):
        env.step(np.zeros((3, 2)))


@pytest.mark.parametrize("mode", MODES)
def test_pictures_equal_those_of_the_single_environment(mode):
    options = {"render_mode": "rgb_array", "render_size": 64, "max_steps": 5}
    native, sync = pair(PointReach(), 3, mode, seed=0, **options)
    native.action_space.seed(0)
    for env in (native, sync):
        env.reset()
    for step in range(8):
        pictures = native.render()
        assert data_equivalence(pictures, sync.render(), exact=True)
        actions = native.action_space.sample()
        ended = native.step(actions)[3]
        sync.step(actions)
        mask = ended if mode is AutoresetMode.DISABLED else np.array([step == 2, False, False])
        if mask.any():
            for env in (native, sync):
                env.reset(options={"reset_mask": mask.copy()})
