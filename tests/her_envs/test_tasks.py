"""The rules of each bundled task."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from her_envs import BitFlipping, Counting, PointReach, TaskEnv


def encode(task, bits):
    """Return the achieved goals of (N, n_bits) bits."""
    return task.observe({"bits": bits, "goal": bits})["achieved_goal"]


@given(
    st.sampled_from(["bits", "integer", "image"]), st.integers(1, 60), st.booleans(), st.integers(0, 2**32)
)
def test_success_and_distance_do_not_depend_on_the_encoding(form, n_bits, first, seed):
    task = BitFlipping(n_bits=n_bits, observation=form, channel_first=first)
    a, b = np.random.default_rng(seed).integers(2, size=(2, 9, n_bits), dtype=np.int8)
    b[0] = a[0]
    shown_a, shown_b = encode(task, a), encode(task, b)

    np.testing.assert_array_equal(task.distance(shown_a, shown_b), (a != b).sum(-1))
    np.testing.assert_array_equal(task.success(shown_a, shown_b), (a == b).all(-1))
    assert task.observation_space["achieved_goal"].contains(shown_a[0])


def test_bit_i_of_an_integer_has_weight_2_to_the_i():
    assert encode(
        BitFlipping(n_bits=4, observation="integer"), np.array([[1, 0, 0, 0], [0, 1, 0, 1]])
    ).tolist() == [1, 10]


@pytest.mark.parametrize("n_bits", [1, 2, 10, 50])
def test_images_show_each_bit_as_one_square(n_bits):
    task = BitFlipping(n_bits=n_bits, observation="image")
    zeros = np.zeros((1, n_bits), np.int8)
    changed = np.zeros_like(encode(task, zeros)[0], int)
    for bit in range(n_bits):
        one = zeros.copy()
        one[0, bit] = 1
        changed += encode(task, one)[0] != encode(task, zeros)[0]
    assert changed.max() == 1, "no pixel shows two bits"
    assert changed.shape[-1] >= 36
    assert set(np.unique(encode(task, zeros))) <= {0, 80}


def test_actions_flip_the_selected_bits():
    state = {"bits": np.zeros((2, 3), np.int8), "goal": np.ones((2, 3), np.int8)}
    rng = np.random.default_rng(0)
    flipped = BitFlipping(n_bits=3).step(state, np.array([0, 2]), rng)["bits"]
    assert flipped.tolist() == [[1, 0, 0], [0, 0, 1]]
    actions = np.float32([[0.1, 0.0, -1.0], [1.0, -0.5, 0.5]])
    flipped = BitFlipping(n_bits=3, continuous=True).step(state, actions, rng)["bits"]
    assert flipped.tolist() == [[1, 0, 0], [1, 0, 1]]
    assert state["bits"].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_point_stops_at_the_sides_of_the_square():
    env = TaskEnv(PointReach(step_size=0.3), max_steps=100)
    env.reset(seed=0, options={"goal": [0, 0], "state": [0.9, 0.5]})
    positions = np.array([env.step([1.0, -1.0])[0]["observation"] for _ in range(5)])
    assert positions[-1].tolist() == [1.0, 0.0]
    assert ((positions >= 0) & (positions <= 1)).all()


@given(st.floats(0.01, 0.5), st.integers(0, 2**32))
def test_success_includes_the_radius(radius, seed):
    task = PointReach(success_radius=radius)
    a, b = np.random.default_rng(seed).random((2, 500, 2), dtype=np.float32)
    exact = np.hypot(*(a.astype(float) - b).T)
    clear = abs(exact - radius) > 1e-6
    np.testing.assert_array_equal(task.success(a, b)[clear], exact[clear] <= radius)


def test_counting_shows_episode_and_step_and_terminates_at_its_goal():
    env = TaskEnv(Counting(length=6))
    lengths = []
    for seed in range(300):
        first, _ = env.reset(seed=seed)
        for step in range(1, 7):
            observation, reward, terminated, truncated, _ = env.step(0)
            assert observation["achieved_goal"].tolist() == [first["observation"][0], step]
            assert (reward == 0) == terminated == (step == observation["desired_goal"][1])
            if terminated:
                break
        assert not truncated
        lengths.append(step)
    assert stats.chisquare(np.bincount(lengths, minlength=7)[1:]).pvalue > 1e-4
