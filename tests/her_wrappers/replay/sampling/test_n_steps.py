"""N-step returns under one goal; `test_buffer_reference` tests them in every mode and space."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common import buffers

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, Priority
from her_wrappers.trees import leaf_arrays
from tests.support.buffers import reloaded
from tests.support.counting import (
    ACTIONS,
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.support.counting_rewards import (
    effort_buffer,
    effort_episode,
    effort_reward,
    episode_with_costs,
    reward_of_columns,
    reward_of_rows,
)
from tests.support.equality import assert_same_batches, assert_same_tree
from tests.support.sb3_versions import needs_n_steps

GAMMA = 0.9


def filled(*, lengths=(4, 1, 7, 20, 2), terminated=False, **options):
    buffer = counting_buffer(**{"gamma": GAMMA} | options)
    for number, length in enumerate(lengths):
        buffer.add_episode(counting_episode(number, length, terminated=terminated))
    return buffer


def steps_of(batch):
    """Return the episode, first step, number of steps and step of the goal of each row."""
    number, t = batch.observations["observation"].T.astype(int)
    there, end = batch.next_observations["observation"].T.astype(int)
    np.testing.assert_array_equal(number, there)
    return number, t, end - t, batch.observations["desired_goal"][:, 1].astype(int)


def misses(steps, gamma=GAMMA):
    """Return the discounted sum of ``steps`` rewards of -1."""
    return -sum(gamma**i for i in range(steps))


@pytest.mark.parametrize("n_steps", [1, 2, 3, 10, 25])
def test_in_the_counting_environment_returns_are_arithmetic(n_steps):
    """A goal d steps ahead is achieved by the d-th step, which has reward 0 and terminates."""
    env = gym.make("her_envs/Counting-v0", length=12)
    buffer = HindsightReplayBuffer.for_env(env, n_steps=n_steps, gamma=GAMMA, n_sampled_goal=1, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    for seed in range(30):
        recorder.reset(seed=seed)
        while not any(recorder.step(0)[2:4]):
            pass
    batch = buffer.sample(2000)
    _, t, m, goal = steps_of(batch)
    ahead = goal - t
    np.testing.assert_array_equal(m, np.minimum(ahead, n_steps))
    np.testing.assert_array_equal(batch.terminations, ahead <= n_steps)
    expected = [misses(steps - ended) for steps, ended in zip(m, ahead <= n_steps, strict=True)]
    np.testing.assert_allclose(batch.rewards, expected, rtol=1e-6)
    np.testing.assert_array_equal(batch.discounts, np.where(ahead <= n_steps, 0, GAMMA**m).astype(np.float32))
    assert not batch.truncations.any()
    assert (batch.rewards.dtype, batch.discounts.dtype) == (np.float32, np.float32)
    assert (batch.terminations.dtype, batch.truncations.dtype) == (np.bool_, np.bool_)


OPTIONS = st.fixed_dictionaries({
    "n_steps": st.integers(1, 14),
    "termination": st.sampled_from(["recompute", "keep", "never", compute_terminated]),
    "goal_selection_strategy": st.sampled_from(["future", "final", "episode", "geometric", "random"]),
    "seed": st.integers(0, 2**32),
})


@settings(max_examples=60)
@given(
    options=OPTIONS,
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    terminated=st.booleans(),
)
def test_the_reward_of_each_step_of_a_window_uses_its_state_and_action(options, lengths, terminated):
    n_steps, termination = options["n_steps"], options["termination"]
    buffer = effort_buffer(gamma=GAMMA, buffer_size=40, **options)
    for number, length in enumerate(lengths):
        buffer.add_episode(effort_episode(number, length, terminated=terminated))
    batch = buffer.sample(30)
    for i, (number, t, m, _) in enumerate(zip(*steps_of(batch), strict=True)):
        goal = batch.observations["desired_goal"][i].tolist()
        reached = [[number, t + k + 1] == goal for k in range(m)]
        paid = [reached[k] - 1 - (number + (t + k) / 1000) / 8 - (t + k) / 64 for k in range(m)]
        assert batch.rewards[i] == pytest.approx(sum(GAMMA**k * paid[k] for k in range(m)), rel=1e-5)
        last = t + m == lengths[number]
        ends = batch.relabeled[i] and termination not in {"keep", "never"}
        ended = (last and terminated and not (batch.relabeled[i] and termination == "never")) or (
            ends and reached[-1]
        )
        assert batch.terminations[i] == ended
        assert m == n_steps or last or ended, "no window is shorter than it must be"
        assert not (ends and any(reached[:-1])), "no window goes on behind its goal"


def test_functions_are_called_once_with_all_steps_of_all_windows():
    asked = []

    def reward(achieved, desired, info):
        asked.append(("compute_reward", achieved.copy(), desired.copy(), len(info)))
        return compute_reward(achieved, desired, info)

    def terminated(achieved, desired, info):
        asked.append(("compute_terminated", achieved.copy(), desired.copy(), len(info)))
        return compute_terminated(achieved, desired, info)

    buffer = filled(lengths=[30], n_steps=4, compute_reward=reward, compute_terminated=terminated)
    asked.clear()
    batch = buffer.sample(50)
    assert [name for name, *_ in asked] == ["compute_reward", "compute_terminated"]
    rows = np.flatnonzero(batch.relabeled)
    _, t, _, goal = steps_of(batch)
    after = [min(t[i] + k, 30) for i in rows for k in (1, 2, 3, 4)]
    for _, achieved, desired, infos in asked:
        assert infos == len(rows) * 4
        assert achieved[:, 1].tolist() == after, "behind the end of an episode its last step is repeated"
        assert desired[:, 1].tolist() == np.repeat(goal[rows], 4).tolist()


@pytest.mark.parametrize("n_steps", [4, 5, 300, 10**30])
def test_functions_get_at_most_the_steps_of_the_longest_window(n_steps):
    asked = []

    def reward(achieved, desired, info):
        asked.append(len(info))
        return compute_reward(achieved, desired, info)

    buffer = filled(lengths=[1, 4, 2], n_steps=n_steps, compute_reward=reward)
    asked.clear()
    batch = buffer.sample(200)
    assert asked == [4 * batch.relabeled.sum()]


def test_reward_fn_is_called_once_with_all_single_steps():
    asked = []

    def reward(batch):
        asked.append(batch.map(np.copy))
        return effort_reward(batch)

    buffer = effort_buffer(reward, n_steps=3, gamma=GAMMA)
    buffer.add_episode(effort_episode(1, 20))
    asked.clear()
    batch = buffer.sample(60)
    [seen] = asked
    rows = np.flatnonzero(batch.relabeled)
    _, t, _, goal = steps_of(batch)
    steps = np.minimum(t[rows, None] + np.arange(3), 19).ravel()
    assert len(seen) == len(steps)
    assert seen.index.tolist() == seen.observations["observation"][:, 1].tolist() == steps.tolist()
    assert seen.next_observations["achieved_goal"][:, 1].tolist() == (steps + 1).tolist()
    assert seen.actions[:, 0].tolist() == (1 + steps / 1000).tolist()
    for observations in (seen.observations, seen.next_observations):
        assert observations["desired_goal"][:, 1].tolist() == np.repeat(goal[rows], 3).tolist()
    assert seen.relabeled.all()
    assert seen.truncations.tolist() == (steps == 19).tolist()
    np.testing.assert_array_equal(seen.rewards, (-1 - (1 + steps / 1000) / 8 - steps / 64).astype(np.float32))
    np.testing.assert_array_equal(seen.discounts, np.float32(GAMMA))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_reward_fn_gets_for_each_step_the_weight_of_its_row_and_the_discount_of_one_step(n_steps):
    asked = []

    def reward(batch):
        asked.append(batch.map(np.copy))
        return effort_reward(batch)

    buffer = effort_buffer(reward, n_steps=n_steps, gamma=GAMMA, prioritized=Priority())
    buffer.add_episode(effort_episode(1, 20, terminated=True))
    assert asked, "recorded rewards are compared"
    assert all((seen.weights == 1).all() for seen in asked)
    buffer.update_priorities(range(20), range(20))
    batch = buffer.sample(60)
    assert len(set(batch.weights)) > 5
    np.testing.assert_array_equal(asked[-1].weights, batch.weights[batch.relabeled].repeat(n_steps))
    assert all((seen.discounts == np.float32(GAMMA)).all() for seen in asked)


@pytest.mark.parametrize(
    ("function", "form"), [(reward_of_rows, "list"), (reward_of_columns, "columns")], ids=["list", "columns"]
)
def test_each_step_of_a_window_has_the_info_of_its_own(function, form):
    buffer = counting_buffer(
        compute_reward=function, info_keys=["cost", "force"], info_format=form, n_steps=3, gamma=GAMMA,
        buffer_size=40,
    )  # fmt: skip
    for number, length in enumerate([3, 1, 8, 20, 11, 5, 12]):
        buffer.add_episode(episode_with_costs(number, length))
    batch = buffer.sample(64)
    for i, (number, t, m, goal) in enumerate(zip(*steps_of(batch), strict=True)):
        paid = [(t + k + 1 == goal) - 1 - (number + (t + k) / 100) for k in range(m)]
        assert batch.rewards[i] == pytest.approx(sum(GAMMA**k * paid[k] for k in range(m)), rel=1e-5)


@pytest.mark.parametrize("terminated", [False, True])
def test_windows_longer_than_the_episode_end_with_it(terminated):
    buffer = filled(n_steps=10**9, terminated=terminated, termination="keep")
    batch = buffer.sample(500)
    number, t, m, _ = steps_of(batch)
    np.testing.assert_array_equal(t + m, np.array([4, 1, 7, 20, 2])[number])
    assert (batch.terminations == terminated).all()
    assert (batch.truncations != terminated).all()


def test_where_an_episode_is_merely_cut_short_there_is_something_left_to_discount():
    batch = filled(n_steps=3).sample(500)
    _, t, m, goal = steps_of(batch)
    cut_short = batch.truncations & (goal != t + m)
    assert cut_short.any()
    np.testing.assert_array_equal(batch.discounts[cut_short], (GAMMA ** m[cut_short]).astype(np.float32))
    np.testing.assert_array_equal(batch.discounts == 0, batch.terminations)


def test_a_goal_inside_the_window_ends_it_where_goals_end_episodes():
    """Where reaching a goal does not terminate episodes, the window continues under the same goal."""
    for termination, ends in (("recompute", True), ("success", True), ("keep", False), ("never", False)):
        buffer = filled(lengths=[9], n_steps=5, termination=termination, goal_selection_strategy="final")
        batch = buffer.sample(200)
        _, t, m, _ = steps_of(batch)
        assert (batch.terminations == (batch.relabeled & (t >= 4) & ends)).all()
        np.testing.assert_array_equal(m, np.minimum(9 - t, 5))
        buffer = filled(lengths=[9], n_steps=5, termination=termination, her_ratio=1.0)
        batch = buffer.sample(200)
        _, t, m, goal = steps_of(batch)
        inside = goal - t < np.minimum(9 - t, 5)
        assert inside.any()
        np.testing.assert_array_equal(m[inside], (goal - t if ends else np.minimum(9 - t, 5))[inside])
        expected = [misses(n) + GAMMA ** (g - 1) * (g <= n) for n, g in zip(m, goal - t, strict=True)]
        np.testing.assert_allclose(batch.rewards, expected, rtol=1e-5, atol=1e-6)


def test_a_window_of_a_recorded_goal_ends_before_the_step_over_which_it_changes():
    """A window ends before a step at which the goal changes; a window that begins there has one step."""
    episode = counting_episode(0, 8, rewards=np.arange(8.0))
    episode.observations["desired_goal"][:, 1] = [50, 50, 50, 60, 60, 60, 60, 70, 70]
    buffer = counting_buffer(n_steps=5, gamma=GAMMA, n_sampled_goal=0)
    buffer.add_episode(episode)
    batch = buffer.sample(200)
    _, t, m, goal = steps_of(batch)
    assert set(t) == set(range(8))
    np.testing.assert_array_equal(m, np.array([2, 1, 1, 3, 2, 1, 1, 1])[t])
    np.testing.assert_array_equal(goal, np.array([50, 50, 50, 60, 60, 60, 60, 70])[t])
    next_goal = batch.next_observations["desired_goal"][:, 1]
    np.testing.assert_array_equal(next_goal, np.array([50, 50, 60, 60, 60, 60, 70, 70])[t])
    for i in range(200):
        assert batch.rewards[i] == pytest.approx(sum(GAMMA**k * (t[i] + k) for k in range(m[i])))
    np.testing.assert_array_equal(batch.discounts, (GAMMA**m).astype(np.float32))
    np.testing.assert_array_equal(batch.truncations, t == 7)


def test_a_relabeled_window_continues_where_the_recorded_goal_changes():
    episode = counting_episode(0, 8)
    episode.observations["desired_goal"][:, 1] = np.arange(50, 59)
    buffer = counting_buffer(n_steps=5, her_ratio=1.0, goal_selection_strategy="final")
    buffer.add_episode(episode)
    _, t, m, goal = steps_of(buffer.sample(200))
    assert (goal == 8).all()
    np.testing.assert_array_equal(m, np.minimum(8 - t, 5))


def test_sampled_rows_and_goals_do_not_depend_on_n_steps():
    one, five = (filled(n_steps=n_steps, resample_achieved_goals=True) for n_steps in (1, 5))
    for _ in range(20):
        batch, other = one.sample(30), five.sample(30)
        for name in ("observations", "actions", "relabeled", "index", "episode", "goal_index", "strategy"):
            assert_same_tree(getattr(batch, name), getattr(other, name))


def test_a_window_of_one_step_is_that_step():
    one, many = filled(lengths=[1] * 9), filled(lengths=[1] * 9, n_steps=4)
    assert_same_batches(one, many)


@pytest.mark.parametrize("n_sampled_goal", [0, 4])
def test_no_part_of_a_batch_shares_memory_with_another_or_with_the_buffer(n_sampled_goal):
    buffer = filled(n_steps=3, n_sampled_goal=n_sampled_goal)
    batch = buffer.sample(20)
    twin = buffer.sample(20)
    arrays = [
        leaf
        for each in (batch, twin)
        for name in (
            "observations", "actions", "rewards", "next_observations", "terminations", "truncations",
            "discounts", "relabeled", "index",
        )
        for leaf in leaf_arrays(getattr(each, name))
    ]  # fmt: skip
    for array, other in itertools.combinations(arrays, 2):
        assert not np.shares_memory(array, other)
    before = [episode.rewards.tolist() for episode in buffer.episodes()]
    for array in arrays:
        array[...] = 1
    assert [episode.rewards.tolist() for episode in buffer.episodes()] == before


def test_a_loaded_buffer_continues_with_the_same_windows(tmp_path):
    buffer = filled(n_steps=4, buffer_size=30)
    buffer.sample(16)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer"))


def test_a_loaded_buffer_may_have_other_windows(tmp_path):
    """The loaded buffer samples the same rows and goals as the saved one."""
    functions = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}
    saved, twin = filled(n_steps=4), filled(n_steps=2, gamma=0.5)
    for each in (saved, twin):
        each.sample(16)
    loaded = reloaded(saved, tmp_path / "buffer", n_steps=2, gamma=0.5, **functions)
    assert_same_batches(twin, loaded)
    again = reloaded(loaded, tmp_path / "buffer")
    assert_same_batches(loaded, again)
    with pytest.raises(ValueError, match="n_steps must be a whole number >= 1, got 0"):
        reloaded(saved, tmp_path / "buffer", n_steps=0)


@pytest.mark.parametrize("function", ["compute_reward", "compute_terminated"])
def test_a_wrong_result_for_the_steps_of_windows_is_an_error(function):
    answers = {"wrong": False}

    def once_wrong(achieved, desired, info):
        answer = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}[function]
        return answer(achieved, desired, info)[: -1 if answers["wrong"] else None]

    buffer = filled(n_steps=3, her_ratio=1.0, **{function: once_wrong})
    answers["wrong"] = True
    with pytest.raises(ValueError, match=rf"{function} must return .*\(30,\)"):
        buffer.sample(10)
    answers["wrong"] = False
    assert len(buffer.sample(10)) == 10


def test_batches_have_discounts_without_windows_too():
    batch = filled(terminated=True).sample(100)
    assert batch.discounts.dtype == np.float32
    np.testing.assert_array_equal(batch.discounts, np.where(batch.terminations, 0, np.float32(GAMMA)))
    assert 0 < np.count_nonzero(batch.discounts) < 100
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 9))
    assert set(buffer.sample(100).discounts) == {np.float32(0), np.float32(0.99)}


@pytest.mark.arrays_only("sums of tensors are not checked, since the host would wait for the device")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n_sampled_goal", [0, 4])
def test_a_sum_of_rewards_that_float32_does_not_hold_is_an_error(sign, n_sampled_goal):
    def huge_reward(achieved, desired, info):
        return 3e38 * sign + 0 * achieved.sum(-1)

    buffer = counting_buffer(
        n_steps=2, gamma=1.0, n_sampled_goal=n_sampled_goal, compute_reward=huge_reward, termination="never"
    )
    buffer.add_episode(counting_episode(0, 20, rewards=np.full(20, 3e38 * sign)))
    with pytest.raises(ValueError, match=r"the sum of n_steps rewards must be finite as float32, got -?inf"):
        buffer.sample(50)


def test_a_sum_of_rewards_may_exceed_float32_on_the_way():
    buffer = counting_buffer(n_steps=3, gamma=1.0, n_sampled_goal=0, termination="never")
    buffer.add_episode(counting_episode(0, 4, rewards=np.array([3e38, 3e38, -3e38, 0])))
    first = [batch.rewards[0] for batch in map(buffer.sample, [1] * 40) if batch.index[0] == 0]
    assert first
    np.testing.assert_allclose(first, 3e38, rtol=1e-6)


@needs_n_steps
@pytest.mark.parametrize("n_steps", [1, 3, 8])
def test_recorded_goals_have_the_returns_of_stable_baselines3(n_steps):
    """The returns are compared, not the discounts, which are not 0 at terminations in Stable-Baselines3."""
    observations = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    theirs = buffers.NStepReplayBuffer(64, observations, ACTIONS, device="cpu", n_steps=n_steps, gamma=GAMMA)
    ours = counting_buffer(n_steps=n_steps, gamma=GAMMA, n_sampled_goal=0)
    rng = np.random.default_rng(0)
    for number, length in enumerate([4, 1, 9, 6, 12, 3]):
        episode = counting_episode(
            number, length, rewards=rng.normal(size=length), terminated=number % 2 == 0
        )
        ours.add_episode(episode)
        seen = episode.observations["observation"]
        for t in range(length):
            done, cut_short = t + 1 == length, t + 1 == length and number % 2 == 1
            theirs.add(
                seen[t], seen[t + 1], episode.actions[t], episode.rewards[t], np.array([done]),
                [{"TimeLimit.truncated": cut_short}],
            )  # fmt: skip
    batch = ours.sample(200)
    expected = theirs._get_samples(batch.index)
    np.testing.assert_array_equal(batch.observations["observation"], expected.observations)
    np.testing.assert_array_equal(batch.next_observations["observation"], expected.next_observations)
    np.testing.assert_array_equal(batch.terminations, expected.dones[:, 0].bool())
    np.testing.assert_allclose(batch.rewards, expected.rewards[:, 0], rtol=1e-5, atol=1e-6)
    discounts = (expected.discounts * (1 - expected.dones))[:, 0]
    np.testing.assert_allclose(batch.discounts, discounts, rtol=1e-6)
