"""HindsightReplayBuffer: memory, spaces, terminations, rewards, seeds, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import re
import threading
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import her_envs
from her_wrappers import (
    Episode,
    EpisodeArchive,
    EpisodeRecorder,
    Episodes,
    HindsightReplayBuffer,
    Mixture,
)
from her_wrappers.replay.relabeling.rewards import GoalRewards
from her_wrappers.replay.relabeling.stand_ins import NoRelabeling
from tests.counting import (
    ACTIONS,
    SPACE,
    compute_reward,
    counting_buffer,
    counting_episode,
)


def filled(**options):
    """A buffer with three episodes of 4, 1 and 7 steps."""
    buffer = counting_buffer(**options)
    for number, length in enumerate([4, 1, 7]):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def arrays_of(batch):
    """All arrays of a batch."""
    return [
        *batch.observations.values(),
        *batch.next_observations.values(),
        batch.actions,
        batch.rewards,
        batch.terminations,
        batch.truncations,
        batch.weights,
        batch.relabeled,
        batch.index,
    ]


# --- capacity -------------------------------------------------------------------------------------


def test_an_episode_as_long_as_the_buffer_fits_and_can_be_sampled():
    buffer = counting_buffer(buffer_size=10)
    for number in range(3):
        buffer.add_episode(counting_episode(number, 10))
        assert set(buffer.sample(500).observations["observation"][:, 1]) == set(range(10))


def test_a_longer_episode_is_refused_and_nothing_is_evicted():
    buffer = filled(buffer_size=12)
    with pytest.raises(
        ValueError, match="must fit the buffer of 12 transitions, got 13 steps; raise buffer_size"
    ):
        buffer.add_episode(counting_episode(9, 13))
    assert (len(buffer), buffer.num_episodes) == (12, 3)


def test_one_step_episodes_fill_the_buffer_to_its_size():
    buffer = counting_buffer(buffer_size=1000)
    for number in range(2500):
        buffer.add_episode(counting_episode(number, 1))
    assert len(buffer) == 1000
    batch = buffer.sample(20_000)
    assert set(batch.observations["observation"][:, 0]) == set(range(1500, 2500))


def test_no_state_is_stored_twice():
    buffer = counting_buffer(buffer_size=10_000)
    per_state = 2 * 2 * 8 + 8 + 4 + 2 * 4  # observation and achieved goal, action, reward, two counts
    assert buffer.nbytes / 10_000 < 1.1 * per_state + 5


def image_episode(number, length, *, apart=False):
    """An episode of pictures that are the achieved goals, or of others that have their shape."""
    rng = np.random.default_rng(number)
    pictures = rng.integers(256, size=(length + 1, 1, 36, 36), dtype=np.uint8)
    goal = np.repeat(rng.integers(256, size=(1, 1, 36, 36), dtype=np.uint8), length + 1, axis=0)
    observations = {
        "observation": pictures + 1 if apart else pictures,
        "achieved_goal": pictures,
        "desired_goal": goal,
    }
    return Episode(observations, np.zeros(length, np.int64), np.full(length, -1.0), False, True)


def image_buffer(**options):
    picture = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), picture))

    def reward(achieved, desired, info):
        return -1.0 + (achieved == desired).all((1, 2, 3))

    return HindsightReplayBuffer(
        space, spaces.Discrete(3), compute_reward=reward, termination="keep", **options
    )


def test_a_picture_that_is_observation_and_achieved_goal_is_stored_once():
    """Stable-Baselines3 keeps six pictures a transition: of three keys, and of their nexts."""
    for apart, most in ((False, 0.2), (True, 0.36)):
        buffer = image_buffer(buffer_size=5000, seed=0)
        for number in range(100):
            buffer.add_episode(image_episode(number, 50, apart=apart))
        assert buffer.nbytes / len(buffer) < most * 6 * 36 * 36


@pytest.mark.parametrize("first_apart", [0, 1, 3])
def test_pictures_come_back_whenever_observation_and_goal_part_ways(first_apart):
    buffer = image_buffer(buffer_size=100, seed=0)
    episodes = [image_episode(number, 12, apart=number >= first_apart) for number in range(20)]
    for number, episode in enumerate(episodes):
        buffer.add_episode(episode)
        batch = buffer.sample(40)
        for i in range(40):
            source, t = episodes[batch.episode[i] // 12], batch.index[i] % 12
            for key in ("observation", "achieved_goal"):
                np.testing.assert_array_equal(batch.observations[key][i], source.observations[key][t])
                np.testing.assert_array_equal(
                    batch.next_observations[key][i], source.observations[key][t + 1]
                )
            goal = batch.goal_index[i]
            wanted = (
                episodes[goal // 12].observations["achieved_goal"][goal % 12 + 1]
                if batch.relabeled[i]
                else source.observations["desired_goal"][t]
            )
            np.testing.assert_array_equal(batch.observations["desired_goal"][i], wanted)
        for array in (*batch.observations.values(), *batch.next_observations.values()):
            array[...] = number  # a batch is its own memory


@pytest.mark.arrays_only("it takes away the memory of arrays; for tensors in test_devices.py")
def test_memory_that_cannot_be_had_is_an_error_with_its_size(monkeypatch):
    def no_memory(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("her_wrappers.replay.storage.episode_storage.Ring", no_memory)
    with pytest.raises(MemoryError, match=r"buffer_size=1000000 needs 0\.\d GiB, which cannot be had"):
        counting_buffer()


def test_clear_drops_everything():
    buffer = filled()
    buffer.clear()
    assert len(buffer) == buffer.num_episodes == 0
    assert not buffer.can_sample
    buffer.add_episode(counting_episode(0, 2))
    assert set(buffer.sample(50).index) == {12, 13}, "no number is given twice"


def test_clear_forgets_what_was_learned():
    buffer = counting_buffer(termination="success")
    buffer.add_episode(counting_episode(0, 3))
    buffer.clear()
    buffer._parts.relabeling._rewards = GoalRewards(lambda a, d, i: 10 + compute_reward(a, d, i))
    buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, 9.0)))
    assert set(buffer.sample(100).rewards) == {9, 10}


# --- memory ---------------------------------------------------------------------------------------


def test_a_batch_shares_memory_neither_with_the_buffer_nor_within_itself():
    buffer = filled()
    twin = copy.deepcopy(buffer)
    batch = buffer.sample(64)
    kept = [array.copy() for array in arrays_of(batch)]
    arrays = arrays_of(batch)
    for i, array in enumerate(arrays):
        for other in arrays[:i]:
            assert not np.shares_memory(array, other)
    for array in arrays:
        array[...] = 0
    for array, before in zip(arrays_of(twin.sample(64)), kept, strict=True):
        np.testing.assert_array_equal(array, before)
    for array, other in zip(arrays_of(twin.sample(64)), arrays_of(buffer.sample(64)), strict=True):
        np.testing.assert_array_equal(array, other)


def test_an_episode_is_copied_when_it_is_added():
    buffer, episode = counting_buffer(), counting_episode(3, 5)
    buffer.add_episode(episode)
    for array in (*episode.observations.values(), episode.actions, episode.rewards):
        array[...] = 99
    assert set(buffer.sample(100).observations["observation"][:, 0]) == {3}


def test_a_batch_becomes_torch_tensors_of_the_same_values_and_memory():
    batch = filled().sample(32)
    tensors = batch.to_torch()
    for array, tensor in zip(arrays_of(batch), arrays_of(tensors), strict=True):
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(array, tensor.numpy())
        assert tensor.data_ptr() == array.ctypes.data
    assert tensors.rewards.dtype == torch.float32
    assert tensors.terminations.dtype == torch.bool
    assert len(tensors) == 32
    torch.nn.Linear(2, 3, dtype=torch.float64)(tensors.observations["observation"])


# --- goals ----------------------------------------------------------------------------------------


def test_original_transitions_keep_their_goals_where_the_goal_changes_inside_an_episode():
    buffer = counting_buffer(n_sampled_goal=1)
    for number in range(200):  # enough goals to make their ring grow
        episode = counting_episode(number, 6)
        episode.observations["desired_goal"][:] = [[number, -1 - t // 2] for t in range(7)]
        buffer.add_episode(episode)
    batch = buffer.sample(2000)
    original = ~batch.relabeled
    assert original.any()
    steps = batch.observations["observation"][original, 1]
    np.testing.assert_array_equal(batch.observations["desired_goal"][original, 1], -1 - steps // 2)
    np.testing.assert_array_equal(batch.next_observations["desired_goal"][original, 1], -1 - (steps + 1) // 2)
    relabeled = batch.relabeled
    np.testing.assert_array_equal(
        batch.observations["desired_goal"][relabeled], batch.next_observations["desired_goal"][relabeled]
    )


def test_goals_keep_their_dtype_to_the_last_bit():
    """Fetch's goals are float64; a cast to float32 flips rewards at the threshold."""
    seen = []

    def threshold_reward(achieved, desired, info):
        seen.extend(str(goal.dtype).removeprefix("torch.") for goal in (achieved, desired))
        return -1.0 * (abs(achieved - desired) > 1e-12).any(-1)

    buffer = counting_buffer(compute_reward=threshold_reward)
    episode = counting_episode(0, 3)
    episode.observations["achieved_goal"][:] = 1 + 1e-10 * np.arange(4)[:, None]
    buffer.add_episode(episode)
    batch = buffer.sample(1000)
    assert set(seen) == {"float64"}
    own = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.rewards == 0, own)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9, 15, 16, 17, 33])
def test_goals_of_every_size_reach_the_rows_that_they_belong_to(size):
    """A few sizes are quick to copy, and memory is laid out for them; all must be right."""
    goal, tiny = spaces.Box(0, 255, (size,), np.uint8), spaces.Box(0, 255, (1,), np.uint8)
    space = spaces.Dict({"observation": tiny, "achieved_goal": goal, "desired_goal": goal})
    buffer = HindsightReplayBuffer(
        space, tiny, buffer_size=20, compute_reward=lambda achieved, desired, info: np.full(len(desired), -1)
    )
    rng = np.random.default_rng(0)
    achieved, desired = rng.integers(256, size=(2, 30, 11, size), dtype=np.uint8)
    for number in range(30):
        observations = {"achieved_goal": achieved[number], "desired_goal": desired[number]}
        observations["observation"] = np.arange(11, dtype=np.uint8)[:, None]
        actions = np.zeros((10, 1), np.uint8)
        buffer.add_episode(counting_episode(0, 10, observations=observations, actions=actions))
    batch = buffer.sample(1000)
    episode, t = np.divmod(batch.index, 10)
    goals = np.where(
        batch.relabeled[:, None],
        achieved[batch.goal_index // 10, batch.goal_index % 10 + 1],
        desired[episode, t],
    )
    next_goals = np.where(batch.relabeled[:, None], goals, desired[episode, t + 1])
    np.testing.assert_array_equal(batch.observations["desired_goal"], goals)
    np.testing.assert_array_equal(batch.next_observations["desired_goal"], next_goals)
    np.testing.assert_array_equal(batch.next_observations["achieved_goal"], achieved[episode, t + 1])
    np.testing.assert_array_equal(batch.observations["observation"], t[:, None])


def test_a_function_is_a_strategy_of_the_users_own():
    next_state = counting_buffer(goal_selection_strategy=lambda t, length, rng: t + 1)
    next_state.add_episode(counting_episode(0, 9))
    batch = next_state.sample(100)
    np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)


def test_a_strategy_that_fails_leaves_the_buffer_usable():
    answers = [lambda t: t - t, lambda t: t + 1]  # the state before every step is none that it reached
    buffer = filled(goal_selection_strategy=lambda t, length, rng: answers[0](t))
    with pytest.raises(ValueError, match=r"must return states in 1\.\.length, got 0"):
        buffer.sample(32)
    del answers[0]
    batch = buffer.sample(32)
    np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)


def test_a_strategy_may_return_integers_of_any_kind():
    for kind in (np.uint8, np.int32, np.uint64):
        buffer = filled(goal_selection_strategy=lambda t, length, rng, kind=kind: (t + 1).astype(kind))
        batch = buffer.sample(32)
        np.testing.assert_array_equal(batch.rewards == 0, batch.relabeled)
        np.testing.assert_array_equal(batch.goal_index[batch.relabeled], batch.index[batch.relabeled])


def test_a_plain_replay_buffer_needs_no_functions():
    buffer = HindsightReplayBuffer(SPACE, ACTIONS, n_sampled_goal=0)
    episode = counting_episode(0, 5, terminated=True, rewards=np.arange(5.0))
    buffer.add_episode(episode)
    batch = buffer.sample(100)
    assert not batch.relabeled.any()
    np.testing.assert_array_equal(batch.rewards, batch.observations["observation"][:, 1])
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 4)


# --- statistics -----------------------------------------------------------------------------------


def standing_still(length):
    """An episode that stays where it is until its last step."""
    episode = counting_episode(0, length)
    episode.observations["achieved_goal"][:-1] = 0
    return episode


def test_goals_that_ask_for_nothing_are_counted_and_on_request_redrawn():
    shares = []
    for skip in (False, True):
        buffer = counting_buffer(skip_trivial=skip)
        buffer.add_episode(standing_still(4))
        shares.append(buffer.statistics(40_000).trivial_share)
    # of the goals 1..4 after steps 0..3 all but the last are trivial; a redraw squares their odds
    odds = np.array([3 / 4, 2 / 3, 1 / 2, 0])
    np.testing.assert_allclose(shares, [odds.mean(), (odds**2).mean()], atol=0.01)


@pytest.mark.parametrize("options", [{"n_sampled_goal": 0}, {"her_ratio": 0.1}])
def test_batches_without_relabeled_rows_have_no_goals_to_redraw(options):
    buffer = counting_buffer(skip_trivial=True, **options)
    buffer.add_episode(counting_episode(0, 3))
    for _ in range(30):
        buffer.sample(1)


def test_redrawn_goals_keep_their_strategy_and_provenance():
    mixture = Mixture({"random": 0.5, "final": 0.25, "original": 0.25})
    buffer = counting_buffer(skip_trivial=True, goal_selection_strategy=mixture)
    for number in range(3):
        buffer.add_episode(standing_still(4 + number))
    batch = buffer.sample(5000)
    lengths = np.array([0, 4, 9, 15])
    rows = batch.strategy == "final"
    np.testing.assert_array_equal(
        batch.goal_index[rows] + 1, lengths[np.searchsorted(lengths, batch.episode[rows], side="right")]
    )
    assert set(batch.goal_index[batch.strategy == "random"]) == set(range(15))


def test_statistics_describe_and_change_nothing():
    buffer, twin = filled(), filled()
    stats = buffer.statistics(20_000)
    assert (stats.num_transitions, stats.num_episodes, stats.mean_length) == (12, 3, 4)
    assert stats.nbytes == buffer.nbytes
    assert stats.relabeled_share == pytest.approx(0.8, abs=1e-3)
    assert stats.original_reward == -1
    assert stats.terminated_share == pytest.approx(1 + stats.relabeled_reward, abs=1e-6)
    steps_left = [left for length in (4, 1, 7) for left in range(length)]
    assert stats.mean_ahead == pytest.approx(np.mean(steps_left) / 2, abs=0.05)
    np.testing.assert_array_equal(buffer.sample(20).index, twin.sample(20).index)
    assert np.isnan(filled(n_sampled_goal=0).statistics().relabeled_reward)


def test_verify_finds_memory_that_was_overwritten():
    for field, by in (("length", 1), ("length", -1), ("first_index", 2), ("episode", 1), ("end", 1)):
        buffer = filled()
        buffer.verify()
        buffer._parts.backend.storage._table.segments.column("segment")[field][1] += by
        with pytest.raises(RuntimeError, match=r"the buffer is corrupted: the .* do not agree"):
            buffer.verify()
    for step, segment in ((3, 2), (0, 1), (11, 63)):
        buffer = filled()
        buffer._parts.backend.storage._table.steps.column("segment")[step] = segment
        with pytest.raises(RuntimeError, match=r"the buffer is corrupted: the .* do not agree"):
            buffer.verify()
    counting_buffer().verify()


# --- spaces ---------------------------------------------------------------------------------------

BOX = spaces.Box(-1, 1, (3,), np.float32)
ODD_SPACES = {
    "discrete": (spaces.Discrete(9), spaces.Discrete(9)),
    "image": (
        spaces.Box(0, 255, (1, 6, 5), np.uint8),
        spaces.Box(0, 255, (1, 6, 5), np.uint8),
    ),
    "multi": (spaces.MultiBinary((2, 3)), spaces.MultiDiscrete([3, 4])),
    "nested": (
        spaces.Dict(
            camera=spaces.Box(0, 255, (4, 4), np.uint8), joints=spaces.Tuple([BOX, spaces.Discrete(3)])
        ),
        BOX,
    ),
    "half": (spaces.Box(-1, 1, (), np.float16), spaces.Box(-1, 1, (1, 1), np.float64)),
}


def random_tree(space, rows):
    """``rows`` samples of a space, stacked leaf by leaf."""
    samples = [space.sample() for _ in range(rows)]
    if isinstance(space, spaces.Dict):
        return {key: random_tree(part, rows) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(random_tree(part, rows) for part in space)
    return np.array(samples, space.dtype)


def assert_row(space, tree, i, whole, j):
    """Row i of ``tree`` is row j of ``whole``, in the space's dtype and shape."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            assert_row(part, tree[key], i, whole[key], j)
    elif isinstance(space, spaces.Tuple):
        for part, inner, inner_whole in zip(space, tree, whole, strict=True):
            assert_row(part, inner, i, inner_whole, j)
    else:
        assert tree.dtype == space.dtype
        assert tree.shape[1:] == space.shape
        np.testing.assert_array_equal(tree[i], whole[j])


@pytest.mark.parametrize("actions", ["discrete", "nested", "half"])
@pytest.mark.parametrize("name", ODD_SPACES)
def test_every_space_of_arrays_is_stored_and_given_back_exactly(name, actions):
    observation, goal = ODD_SPACES[name]
    space = spaces.Dict(
        observation=observation, achieved_goal=goal, desired_goal=goal, extra=spaces.Discrete(2)
    )
    action_space = ODD_SPACES[actions][0]

    def reward(achieved, desired, info):
        equal = (achieved == desired).reshape(len(achieved), -1)
        return -1.0 + equal.all(-1)

    observations, taken = random_tree(space, 8), random_tree(action_space, 7)
    observations["desired_goal"][:] = observations["desired_goal"][:1]
    rewards = reward(observations["achieved_goal"][1:], observations["desired_goal"][1:], None)
    episode = Episode(observations, taken, rewards, terminated=False, truncated=True)
    buffer = HindsightReplayBuffer(
        space, action_space, buffer_size=20, compute_reward=reward, termination="keep"
    )
    for _ in range(4):
        buffer.add_episode(episode)
    batch = buffer.sample(60)
    for i in range(60):
        t = batch.index[i] % 7
        assert_row(action_space, batch.actions, i, taken, t)
        for key in ("observation", "achieved_goal", "extra"):
            assert_row(space[key], batch.observations[key], i, observations[key], t)
            assert_row(space[key], batch.next_observations[key], i, observations[key], t + 1)
        if not batch.relabeled[i]:
            assert_row(goal, batch.observations["desired_goal"], i, observations["desired_goal"], 0)
    assert list(batch.observations) == list(space)
    batch.to_torch()


def test_spaces_without_arrays_are_refused():
    with pytest.raises(TypeError, match=re.escape("got Text(1, 5, charset=")):
        HindsightReplayBuffer(SPACE, spaces.Text(5), compute_reward=compute_reward)


# --- rewards --------------------------------------------------------------------------------------


def test_an_episode_paid_otherwise_than_compute_reward_says_is_reported_once():
    buffer = counting_buffer()
    episode = counting_episode(0, 3, rewards=np.array([-1.0, -1.5, -1.0]))
    with pytest.warns(UserWarning, match=r"step 1 of an episode was paid -1.5, but compute_reward gives -1"):
        buffer.add_episode(episode)
    buffer.add_episode(episode)
    assert buffer.num_episodes == 2


def test_rewards_that_differ_by_rounding_are_not_reported():
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 3, rewards=np.array([-1.0, -1.00001, -1.0])))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda a, d, i: compute_reward(a, d, i)[:, None],
            r"must return numbers of shape \(\d+,\) for \d+ steps",
        ),
        (lambda a, d, i: -1.0, r"got float64 of shape \(\)"),
        (lambda a, d, i: ["no"] * len(a), r"got <U2 of shape"),
    ],
)
def test_a_reward_function_that_answers_wrongly_is_named_before_anything_is_stored(function, message):
    buffer = counting_buffer(compute_reward=function)
    with pytest.raises(ValueError, match=message):
        buffer.add_episode(counting_episode(0, 3))
    assert len(buffer) == 0


def test_a_reward_function_cannot_write_to_what_is_stored():
    def subtracting(achieved, desired, info):
        achieved -= desired
        return -abs(achieved).sum(-1)

    buffer = counting_buffer(compute_reward=subtracting)
    with pytest.raises(ValueError, match="read-only"):
        buffer.add_episode(counting_episode(0, 3))


def test_rewards_that_are_not_finite_are_refused():
    buffer = counting_buffer(compute_reward=lambda a, d, i: np.where(a[:, 1] == 2, np.nan, -1.0))
    with pytest.raises(ValueError, match="compute_reward must return finite numbers, got nan at row 1"):
        buffer.add_episode(counting_episode(0, 3))


def test_a_warning_that_is_made_an_error_comes_once():
    buffer, episode = counting_buffer(), counting_episode(0, 3, rewards=np.full(3, -2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="was paid -2"):
            buffer.add_episode(episode)
        buffer.add_episode(episode)
    assert buffer.num_episodes == 1


def test_a_reward_function_that_fails_while_sampling_leaves_the_buffer_usable():
    broken = False

    def reward(achieved, desired, info):
        if broken:
            raise ZeroDivisionError
        return compute_reward(achieved, desired, info)

    buffer = filled(compute_reward=reward)
    broken = True
    with pytest.raises(ZeroDivisionError):
        buffer.sample(32)
    broken = False
    assert len(buffer.sample(32)) == 32


# --- terminations ---------------------------------------------------------------------------------


def crashed_and_solved(**options):
    """Two episodes of 3 steps: number 0 crashed at the end, number 1 ended at its goal."""
    buffer = counting_buffer(goal_selection_strategy="episode", **options)
    solved = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    solved.observations["desired_goal"][:] = [1, 3]
    buffer.add_episode(counting_episode(0, 3, terminated=True))
    buffer.add_episode(solved)
    batch = buffer.sample(3000)
    number, t = batch.observations["observation"].T
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    return batch, number, t == 2, reached


def only_step_two(achieved, desired, info):
    return achieved[:, 1] == 2


@pytest.mark.parametrize(
    ("termination", "expected"),
    [
        (None, lambda number, last, reached: reached | (last & (number == 0))),
        ("recompute", lambda number, last, reached: reached | (last & (number == 0))),
        ("success", lambda number, last, reached: reached | (last & (number == 0))),
        ("keep", lambda number, last, reached: last),
        ("never", lambda number, last, reached: np.zeros_like(last)),
    ],
)
def test_relabeled_terminations_follow_their_mode_and_a_crash_stays_a_crash(termination, expected):
    batch, number, last, reached = crashed_and_solved(termination=termination)
    rows = batch.relabeled
    np.testing.assert_array_equal(batch.terminations[rows], expected(number, last, reached)[rows])
    np.testing.assert_array_equal(batch.terminations[~rows], last[~rows])
    assert (reached & rows & ~last).any()


def test_a_function_stands_in_for_compute_terminated():
    batch, _, last, _ = crashed_and_solved(termination=only_step_two)
    second = batch.observations["observation"][:, 1] == 1
    np.testing.assert_array_equal(batch.terminations[batch.relabeled], (second | last)[batch.relabeled])


def test_success_finds_the_reward_of_a_reached_goal_on_any_scale():
    def bonus(achieved, desired, info):
        return 10.0 * (achieved == desired).all(-1)

    buffer = counting_buffer(compute_reward=bonus, compute_terminated=None, termination="success")
    buffer.add_episode(counting_episode(0, 4, rewards=np.zeros(4)))
    batch = buffer.sample(500)
    np.testing.assert_array_equal(batch.terminations[batch.relabeled], batch.rewards[batch.relabeled] == 10)
    assert batch.terminations.any()


def test_success_goes_by_compute_reward_where_the_environment_pays_otherwise():
    buffer = counting_buffer(termination="success")
    with pytest.warns(UserWarning, match="was paid -2"):
        buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, -2.0)))
    buffer.add_episode(counting_episode(1, 3))
    assert buffer.num_episodes == 2


def test_success_refuses_a_third_value_when_it_shows():
    def three(achieved, desired, info):
        return np.where(
            (achieved == desired).all(-1), 0.0, np.where(achieved[:, 0] == desired[:, 0], -1.0, -5.0)
        )

    buffer = counting_buffer(
        compute_reward=three, termination="success", goal_selection_strategy="random", her_ratio=1
    )
    for number in range(2):
        buffer.add_episode(counting_episode(number, 3))
    with pytest.raises(ValueError, match=r"needs rewards of two values.*got -5, -1, 0"):
        buffer.sample(100)


def test_success_refuses_rewards_of_many_values_and_stores_nothing():
    def dense(achieved, desired, info):
        return -abs(achieved - desired).sum(-1)

    buffer = counting_buffer(compute_reward=dense, termination="success")
    episode = counting_episode(0, 4)
    paid = dense(episode.observations["achieved_goal"][1:], episode.observations["desired_goal"][1:], None)
    message = r'termination="success" needs rewards of two values.*got -5, -4, -3, -2, 0; use a sparse reward'
    with pytest.raises(ValueError, match=message):
        buffer.add_episode(counting_episode(0, 4, rewards=paid))
    assert len(buffer) == 0


def test_without_compute_terminated_a_goal_that_ends_episodes_is_reported_once():
    buffer = counting_buffer(compute_terminated=None)
    buffer.add_episode(counting_episode(0, 3, terminated=True))  # a crash tells nothing
    solved = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    solved.observations["desired_goal"][:] = [1, 3]
    with pytest.warns(UserWarning, match='pass termination="success"'):
        buffer.add_episode(solved)
    buffer.add_episode(solved)
    batch = buffer.sample(300)
    np.testing.assert_array_equal(batch.terminations, batch.observations["observation"][:, 1] == 2)


@pytest.mark.parametrize("termination", ["keep", "never", "success"])
def test_a_mode_asked_for_is_not_questioned(termination):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crashed_and_solved(compute_terminated=None, termination=termination)


def test_the_cost_of_a_scalar_compute_terminated_is_told_by_the_first_batch_and_not_before():
    env = gym.make("her_envs/PointReach-v0")
    env.unwrapped.compute_terminated = lambda achieved, desired, info: bool(
        np.linalg.norm(achieved - desired) < 0.1
    )
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    for _ in range(50):
        recorder.step([0.1, 0.1])
    with pytest.warns(UserWarning, match="80 times for this batch"):
        buffer.sample(100)


def test_a_scalar_compute_terminated_is_called_row_by_row_with_a_warning_of_the_cost():
    def scalar(achieved, desired, info):
        return bool((achieved == desired).all())

    buffer = counting_buffer(compute_terminated=scalar)
    buffer.add_episode(counting_episode(0, 5))
    with pytest.warns(UserWarning, match=r"called once for each row, \d+ times for this batch"):
        batch = buffer.sample(100)
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.terminations, reached)
    buffer.sample(100)


# --- one by one -----------------------------------------------------------------------------------


def transitions(episode):
    """An episode as arguments of `add`."""
    for t in range(len(episode)):
        here, there = ({key: rows[i] for key, rows in episode.observations.items()} for i in (t, t + 1))
        last = t == len(episode) - 1
        yield (
            here,
            episode.actions[t],
            episode.rewards[t],
            there,
            episode.terminated and last,
            episode.truncated and last,
            {},
        )


def test_adding_transitions_is_adding_their_episodes():
    whole, stepwise = counting_buffer(buffer_size=300), counting_buffer(buffer_size=300)
    for number, length in enumerate([3, 1, 200, 90, 7]):  # longer than the staging area at first
        episode = counting_episode(number, length, terminated=number % 2 == 0)
        whole.add_episode(episode)
        for transition in transitions(episode):
            stepwise.add(*transition)
        assert len(whole) == len(stepwise)
    for one, other in zip(arrays_of(whole.sample(400)), arrays_of(stepwise.sample(400)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_open_episode_is_never_sampled():
    buffer = counting_buffer()
    *most, last = transitions(counting_episode(0, 4))
    for transition in most:
        buffer.add(*transition)
    assert not buffer.can_sample
    with pytest.raises(ValueError, match="cannot sample before an episode is complete"):
        buffer.sample(1)
    buffer.add(*last)
    assert len(buffer) == 4


def test_reused_arrays_are_copied_on_arrival():
    buffer = counting_buffer()
    reused = {key: np.zeros(2) for key in SPACE}
    for here, action, reward, there, terminated, truncated, _ in transitions(counting_episode(2, 5)):
        for key, array in reused.items():
            array[:] = there[key]
        buffer.add(here, action, reward, reused, terminated, truncated)
    for array in reused.values():
        array[:] = 77
    assert set(buffer.sample(100).next_observations["observation"][:, 0]) == {2}


@pytest.mark.parametrize("key", ["achieved_goal", "desired_goal"])
def test_a_transition_that_does_not_follow_on_the_last_is_refused(key):
    """The usual cause is an episode's end that was not passed on."""
    buffer = counting_buffer()
    (first, second) = transitions(counting_episode(0, 2))
    buffer.add(*first)
    elsewhere = second[0] | {key: second[0][key] + 1}
    with pytest.raises(ValueError, match=f"obs does not follow on the next_obs before: observation/{key} is"):
        buffer.add(elsewhere, *second[1:])
    buffer.add(*second)
    assert len(buffer) == 2


def test_an_interrupted_episode_can_be_ended():
    buffer = counting_buffer()
    buffer.truncate_open_episode()
    first, *_ = transitions(counting_episode(0, 3))
    buffer.add(*first)
    buffer.truncate_open_episode()
    assert len(buffer) == 1
    assert buffer.sample(10).truncations.all()
    for transition in transitions(counting_episode(1, 3)):
        buffer.add(*transition)
    assert (len(buffer), buffer.num_episodes) == (4, 2)


def test_an_open_episode_does_not_outgrow_the_buffer():
    buffer = counting_buffer(buffer_size=3)
    *most, last = transitions(counting_episode(0, 4))
    for transition in most:
        buffer.add(*transition)
    with pytest.raises(ValueError, match="the open one has as many; raise buffer_size, or pass truncated"):
        buffer.add(*last)
    buffer.truncate_open_episode()
    assert len(buffer) == 3


@pytest.mark.parametrize(
    ("position", "value", "error"),
    [
        (0, {}, ValueError),
        (0, None, ValueError),
        (0, {"observation": "garbage"}, ValueError),
        (1, [[1.0], [1.0, 2.0]], ValueError),
        (1, np.zeros(2), ValueError),
        (2, None, ValueError),
        (2, "x", ValueError),
        (2, 1j, ValueError),
        (2, np.zeros(2), ValueError),
        (2, np.nan, ValueError),
        (2, 1e39, ValueError),
        (3, None, ValueError),
        (4, np.array([True, False]), TypeError),
        (5, "no", TypeError),
    ],
)
def test_a_bad_transition_adds_nothing_and_the_episode_goes_on(position, value, error):
    for bad_step in (0, 1):
        buffer, steps = counting_buffer(), list(transitions(counting_episode(0, 3)))
        for i, transition in enumerate(steps):
            if i == bad_step:
                bad = list(transition)
                bad[position] = value
                with pytest.raises(error, match=r".{20}"):
                    buffer.add(*bad)
            buffer.add(*transition)
        assert len(buffer) == 3
        assert set(buffer.sample(100).observations["observation"][:, 1]) == {0, 1, 2}


def test_copies_and_pickles_sample_alike():
    buffer = filled()
    for twin in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        batch, other = copy.deepcopy(buffer).sample(30), twin.sample(30)
        for one, two in zip(arrays_of(batch), arrays_of(other), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("length", [1, 7])  # one makes the rings grow, the other leaves gaps
def test_a_pickle_is_of_what_is_stored_and_what_it_makes_goes_on_alike(length):
    buffer = filled(buffer_size=150)
    for number in range(3, 200):
        buffer.add_episode(counting_episode(number, length))
    twin = pickle.loads(pickle.dumps(buffer))
    for number in range(200, 300):
        twin.verify()
        for each in (buffer, twin):
            each.add_episode(counting_episode(number, 1 + number % 5))
        batch, other = buffer.sample(30), twin.sample(30)
        for one, two in zip(arrays_of(batch), arrays_of(other), strict=True):
            np.testing.assert_array_equal(one, two)
    assert twin.nbytes == buffer.nbytes
    large = filled(buffer_size=10**6)
    assert len(pickle.dumps(large)) < 40_000 < large.nbytes


# --- seeds and threads ----------------------------------------------------------------------------


def test_equal_seeds_give_equal_batches_and_the_global_generator_is_left_alone():
    np.random.seed(0)  # noqa: NPY002 - to see that it is not used
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second, other = filled(seed=5), filled(seed=5), filled(seed=6)
    for _ in range(5):
        one, two, three = (buffer.sample(50) for buffer in (first, second, other))
        for a, b in zip(arrays_of(one), arrays_of(two), strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(one.index, three.index)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_threads_may_add_and_sample_together():
    buffer, errors = counting_buffer(buffer_size=300), []
    buffer.add_episode(counting_episode(0, 5))

    def add(start):
        for number in range(start, start + 300):
            buffer.add_episode(counting_episode(number, 1 + number % 40))

    def sample():
        for _ in range(300):
            batch = buffer.sample(64)
            if not (
                batch.next_observations["observation"][:, 1] == batch.observations["observation"][:, 1] + 1
            ).all():
                errors.append(batch)

    threads = [threading.Thread(target=add, args=(1000 * i,)) for i in (1, 2)]
    threads += [threading.Thread(target=sample) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# --- environments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", her_envs.registration.ENTRY_POINTS)
def test_bundled_environments_record_relabel_and_agree_with_their_own_functions(env_id):
    env = gym.make(env_id)
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=500, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.action_space.seed(0)
    recorder.reset(seed=0)
    for _ in range(700):
        _, _, terminated, truncated, _ = recorder.step(recorder.action_space.sample())
        if terminated or truncated:
            recorder.reset()
    batch = buffer.sample(1000)
    goals = batch.next_observations["achieved_goal"], batch.next_observations["desired_goal"]
    np.testing.assert_array_equal(batch.rewards, env.unwrapped.compute_reward(*goals, {}))
    np.testing.assert_array_equal(batch.terminations, env.unwrapped.compute_terminated(*goals, {}))
    assert (batch.rewards[batch.relabeled] == 0).any()


def test_the_environment_is_never_copied():
    """Copying a simulator may fail, or disconnect the original."""

    class Simulator(her_envs.TaskEnv):
        def __deepcopy__(self, memo):
            raise AssertionError

    buffer = HindsightReplayBuffer.for_env(Simulator(her_envs.PointReach()))
    buffer.clear()


def test_a_vector_environment_gives_the_spaces_of_one():
    env = gym.make_vec("her_envs/PointReach-v0", num_envs=3, vectorization_mode="sync")
    buffer = HindsightReplayBuffer.for_env(env)
    episode_space = gym.make("her_envs/PointReach-v0").observation_space
    assert buffer.observation_space == episode_space


# --- bad input ------------------------------------------------------------------------------------

BAD_ARGUMENTS = [
    ({"buffer_size": 0}, "buffer_size must be a whole number >= 1, got 0"),
    ({"buffer_size": 1e6}, "buffer_size must be a whole number >= 1, got 1000000.0"),
    ({"n_sampled_goal": -1}, "n_sampled_goal must be a whole number >= 0, got -1"),
    (
        {"goal_selection_strategy": "futur"},
        "unknown goal_selection_strategy 'futur'; choose from 'future', 'final', 'episode', 'geometric', "
        "'random', a Mixture of them, or a function",
    ),
    (
        {"termination": ["keep"]},
        "unknown termination ['keep']; choose from 'recompute', 'success', 'keep', 'never', "
        "or pass a function",
    ),
    (
        {"n_sampled_goal": 0, "termination": "always"},
        "unknown termination 'always'; choose from 'recompute', 'success', 'keep', 'never', "
        "or pass a function",
    ),
    ({"her_ratio": 1.5}, "her_ratio must lie in [0, 1], got 1.5"),
    ({"n_steps": 0}, "n_steps must be a whole number >= 1, got 0"),
    ({"n_steps": 2.5}, "n_steps must be a whole number >= 1, got 2.5"),
    ({"gamma": 0}, "gamma must lie in (0, 1], got 0"),
    ({"gamma": 1.01}, "gamma must lie in (0, 1], got 1.01"),
    ({"gamma": float("nan")}, "gamma must lie in (0, 1], got nan"),
    ({"gamma": "0.99"}, "gamma must lie in (0, 1], got '0.99'"),
    (
        {"her_ratio": 0.5, "n_sampled_goal": 4},
        "the relabeled share must be given once, got n_sampled_goal and her_ratio",
    ),
    (
        {"her_ratio": 0.5, "goal_selection_strategy": Mixture({"future": 0.5, "original": 0.5})},
        "the relabeled share must be given once, got her_ratio and Mixture with a share of 'original'",
    ),
    (
        {"termination": "always"},
        "unknown termination 'always'; choose from 'recompute', 'success', 'keep', 'never', "
        "or pass a function",
    ),
    (
        {"termination": "recompute", "compute_terminated": None},
        'termination="recompute" needs compute_terminated(achieved_goal, desired_goal, info); '
        "define it on the environment or pass such a function as termination=",
    ),
    (
        {"compute_reward": None},
        "relabeling needs compute_reward(achieved_goal, desired_goal, info); "
        "pass compute_reward= or reward_fn=, or n_sampled_goal=0 for plain replay",
    ),
    (
        {"reward_fn": lambda batch: np.zeros(len(batch))},
        "rewards must be computed in one way, got compute_reward and reward_fn; pass one",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_ARGUMENTS)
def test_a_bad_argument_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        counting_buffer(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"goal_selection_strategy": ["future"]},
            "goal_selection_strategy must be a name, a function or a Mixture",
        ),
        (
            {"compute_reward": 5},
            "compute_reward must be a function of (achieved_goal, desired_goal, info), got 5",
        ),
        ({"info_keys": "cost"}, "info_keys must be a list of strings, got the string 'cost'; write ['cost']"),
    ],
)
def test_what_is_of_a_wrong_kind_is_refused_at_once(options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        counting_buffer(**options)


def test_only_episodes_are_added_as_episodes():
    with pytest.raises(TypeError, match="add_episode takes an Episode, got dict"):
        counting_buffer().add_episode({"observations": []})


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"future": 0.5}, "shares of a Mixture must sum to 1, got 0.5"),
        ({"future": 1.5, "final": -0.5}, "shares of a Mixture must lie in (0, 1], got 1.5 for 'future'"),
    ],
)
def test_shares_that_do_not_add_up_are_refused(shares, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Mixture(shares)


@pytest.mark.parametrize("batch_size", [0, -3, 2.0, True, None])
def test_a_bad_batch_size_is_refused(batch_size):
    with pytest.raises(
        ValueError, match=re.escape(f"batch_size must be a whole number >= 1, got {batch_size!r}")
    ):
        filled().sample(batch_size)


def without(key):
    episode = counting_episode(0, 3)
    del episode.observations[key]
    return episode


def with_observation(rows):
    episode = counting_episode(0, 3)
    episode.observations["observation"] = rows
    return episode


BAD_EPISODES = [
    (lambda: without("observation"), "observations/observation is missing in the episode"),
    (lambda: without("desired_goal"), "observations/desired_goal is missing in the episode"),
    (
        lambda: with_observation(np.zeros((4, 3))),
        "observations/observation of the episode must have shape (4, 2), got (4, 3)",
    ),
    (
        lambda: with_observation(np.zeros((4, 2), complex)),
        "observations/observation of the episode must hold numbers of dtype float64, got complex128",
    ),
    (
        lambda: counting_episode(0, 3, rewards=np.array([-1.0, 1e39, -1.0])),
        "rewards must be finite as float32, got 1e+39 at step 1",
    ),
    (
        lambda: counting_episode(0, 3, rewards=np.array([-1.0, np.nan, -1.0])),
        "rewards must be finite as float32, got nan at step 1",
    ),
    (
        lambda: counting_episode(0, 3, rewards=np.array([-1.0, -1.0, np.inf])),
        "rewards must be finite as float32, got inf at step 2",
    ),
]


@pytest.mark.parametrize(("make_episode", "message"), BAD_EPISODES)
def test_a_bad_episode_is_refused_and_nothing_is_stored(make_episode, message):
    buffer = filled()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        buffer.add_episode(make_episode())
    assert (len(buffer), buffer.num_episodes) == (12, 3)
    buffer.sample(10)


# --- many episodes at once ------------------------------------------------------------------------


def lists_of_episodes():
    """The same episodes in every form that `extend` and `add_episodes` take."""
    episodes = [counting_episode(number, length) for number, length in enumerate((4, 1, 7, 3))]
    return {
        "list": episodes,
        "generator": (episode for episode in episodes),
        "Episodes": Episodes.of(episodes),
    }


@pytest.mark.parametrize("method", ["add_episodes", "extend"])
@pytest.mark.parametrize("form", ["list", "generator", "Episodes"])
def test_many_episodes_are_added_as_one_by_one(method, form):
    together, apart = counting_buffer(buffer_size=12), counting_buffer(buffer_size=12)
    getattr(together, method)(lists_of_episodes()[form])
    for episode in lists_of_episodes()["list"]:
        apart.add_episode(episode)
    together.verify()
    for array, other in zip(arrays_of(together.sample(50)), arrays_of(apart.sample(50)), strict=True):
        np.testing.assert_array_equal(array, other)


def test_of_more_episodes_than_fit_the_last_ones_stay():
    buffer = counting_buffer(buffer_size=9)
    buffer.add_episodes([counting_episode(number, 1 + number % 4) for number in range(40)])
    buffer.verify()
    assert set(buffer.sample(500).observations["observation"][:, 0]) == {37, 38, 39}


def test_an_archive_is_read_into_a_buffer(tmp_path):
    episodes = lists_of_episodes()["list"]
    with EpisodeArchive(tmp_path / "archive", shard_steps=5) as archive:
        archive.add_episodes(Episodes.of(episodes))
    buffer, other = counting_buffer(), counting_buffer()
    buffer.extend(EpisodeArchive(tmp_path / "archive"))
    other.add_episodes(episodes)
    for array, same in zip(arrays_of(buffer.sample(50)), arrays_of(other.sample(50)), strict=True):
        np.testing.assert_array_equal(array, same)


def test_one_bad_episode_among_many_stores_none_and_is_named():
    buffer = filled()
    bad = counting_episode(8, 3, rewards=np.array([-1.0, np.nan, -1.0]))
    with pytest.raises(
        ValueError, match=r"^episodes\[1\]: rewards must be finite as float32, got nan at step 1$"
    ):
        buffer.add_episodes([counting_episode(7, 2), bad])
    assert len(buffer) == 12
    buffer.verify()


def test_none_are_added_by_an_empty_list():
    buffer = filled()
    buffer.add_episodes([])
    assert len(buffer) == 12
    with pytest.raises(TypeError, match="expected an Episode, got int"):
        buffer.add_episodes([3])


# --- what goes wrong on the way -------------------------------------------------------------------


class Moody:
    """A strategy that fails when it is told to."""

    def __init__(self):
        self.fails = False

    def __call__(self, t, length, rng):
        if self.fails:
            raise RuntimeError("not today")
        return length


@pytest.mark.parametrize("samples_before", [0, 1, 3])
def test_after_a_strategy_failed_no_step_comes_that_was_evicted(samples_before):
    strategy = Moody()
    buffer = counting_buffer(buffer_size=5, goal_selection_strategy=strategy)
    buffer.add_episode(counting_episode(0, 5))
    for _ in range(samples_before):
        buffer.sample(8)
    buffer.add_episode(counting_episode(1, 5))
    strategy.fails = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not today"):
            buffer.sample(8)
    strategy.fails = False
    batch = buffer.sample(8)
    assert (batch.index >= 5).all()
    assert (batch.observations["observation"][:, 0] == 1).all()


def test_a_strategy_cannot_write_to_the_steps_it_is_given():
    def shift(t, length, rng):
        t += 1
        return t

    buffer = filled(goal_selection_strategy=shift)
    with pytest.raises(ValueError, match="read-only"):
        buffer.sample(64)


def test_a_strategy_is_never_asked_about_no_steps():
    def loop(t, length, rng):
        return np.array([rng.integers(a + 1, b + 1) for a, b in zip(t, length, strict=True)])

    buffer = filled(goal_selection_strategy=Mixture({loop: 0.01, "final": 0.01, "original": 0.98}))
    for _ in range(50):
        assert len(buffer.sample(3)) == 3


@pytest.mark.parametrize(
    "options", [{}, {"her_ratio": 0.05}, {"n_sampled_goal": 0}], ids=["k=4", "her_ratio", "plain"]
)
def test_small_batches_may_hold_no_goal_that_could_be_trivial(options):
    buffer = filled(skip_trivial=True, **options)
    for _ in range(50):
        assert len(buffer.sample(1)) == 1


def test_a_buffer_with_a_strategy_of_the_users_own_can_be_pickled():
    buffer = filled(goal_selection_strategy=Moody())
    twin = pickle.loads(pickle.dumps(buffer))
    np.testing.assert_array_equal(twin.sample(50).goal_index, buffer.sample(50).goal_index)


@pytest.mark.parametrize("ends", [-1.0, 0.3, np.nan, "False", None])
def test_terminations_that_are_no_bools_are_refused(ends):
    buffer = counting_buffer(compute_terminated=lambda a, d, i: np.full(len(a), ends))
    buffer.add_episode(counting_episode(0, 3))
    with pytest.raises(ValueError, match=r"compute_terminated must return bools, got .* such as"):
        buffer.sample(50)


def test_zeros_and_ones_are_bools():
    buffer = counting_buffer(compute_terminated=lambda a, d, i: (a == d).all(-1).astype(float))
    buffer.add_episode(counting_episode(0, 3))
    batch = buffer.sample(200)
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 0)


PICTURES = spaces.Dict(
    observation=spaces.Box(-9, 9, (2,), np.float32),
    achieved_goal=spaces.Box(-9, 9, (2,), np.float32),
    desired_goal=spaces.Box(-9, 9, (2,), np.float32),
)


def same_array_episode(seen, rewards):
    observations = {"observation": seen, "achieved_goal": np.abs(seen), "desired_goal": np.ones_like(seen)}
    return Episode(observations, np.zeros((len(rewards), 1)), rewards, terminated=False, truncated=True)


def test_a_zero_keeps_its_sign_where_the_observation_equals_the_goal():
    buffer = HindsightReplayBuffer(PICTURES, ACTIONS, compute_reward=lambda a, d, i: np.zeros(len(a)))
    buffer.add_episode(same_array_episode(np.full((3, 2), -0.0, np.float32), np.zeros(2)))
    assert np.signbit(buffer.sample(20).observations["observation"]).all()
    assert not np.signbit(buffer.sample(20).observations["achieved_goal"]).any()


def test_a_refused_episode_takes_no_memory():
    buffer = HindsightReplayBuffer(PICTURES, ACTIONS, compute_reward=lambda a, d, i: np.zeros(len(a)))
    buffer.add_episode(same_array_episode(np.ones((3, 2), np.float32), np.zeros(2)))
    before = buffer.nbytes
    with pytest.raises(ValueError, match="rewards must be finite"):
        buffer.add_episode(same_array_episode(-np.ones((3, 2), np.float32), np.full(2, np.nan)))
    assert buffer.nbytes == before
    buffer.add_episode(same_array_episode(-np.ones((3, 2), np.float32), np.zeros(2)))
    batch = buffer.sample(50)
    np.testing.assert_array_equal(
        np.abs(batch.observations["observation"]), batch.observations["achieved_goal"]
    )
    assert buffer.nbytes > before
    buffer.verify()


def test_a_space_without_leaves_comes_back_as_it_is():
    space = spaces.Dict({**SPACE.spaces, "observation": spaces.Dict({})})
    buffer = HindsightReplayBuffer(space, ACTIONS, compute_reward=compute_reward)
    episode = counting_episode(0, 3)
    buffer.add_episode(counting_episode(0, 3, observations={**episode.observations, "observation": {}}))
    assert buffer.sample(5).observations["observation"] == {}


def test_large_rewards_are_finite_rewards():
    buffer = counting_buffer(compute_reward=lambda a, d, i: np.full(len(a), 1e25), termination="keep")
    buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, 1e25)))
    assert (buffer.sample(50).rewards == np.float32(1e25)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: counting_buffer(her_ratio="0.5"), "her_ratio must lie in [0, 1], got '0.5'"),
        (lambda: Mixture([("future", 1.0)]), "shares of a Mixture must be a dict of strategies, got [("),
        (lambda: Mixture({"future": None}), "shares of a Mixture must lie in (0, 1], got None for 'future'"),
        (lambda: counting_buffer(buffer_size=2**62), "which cannot be had; make it smaller"),
        (
            lambda: filled().add_episodes(counting_episode(0, 2)),
            "add_episodes takes many episodes, got one Episode; use add_episode",
        ),
    ],
)
def test_odd_arguments_get_a_sentence(call, message):
    with pytest.raises((TypeError, ValueError, MemoryError), match=re.escape(message)):
        call()


def test_an_environment_needs_no_reward_where_nothing_is_relabeled():
    env = gym.make("her_envs/Counting-v0")
    buffer = HindsightReplayBuffer.for_env(env, her_ratio=0)
    assert isinstance(buffer._parts.relabeling, NoRelabeling)
