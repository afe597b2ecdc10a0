"""Priorities against a dict of them: who is drawn how often, with which weight, and what is refused."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from her_wrappers import HindsightReplayBuffer, Mixture, Priority
from her_wrappers.replay.priorities.sum_tree import SumTree
from tests.counting import compute_reward, compute_terminated, counting_buffer, counting_episode
from tests.her_wrappers.replay.reference import PriorityReference
from tests.her_wrappers.replay.saving.test_snapshot import assert_same_batches

FUNCTIONS = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}


def prioritized_buffer(lengths=(), *, priority=None, **options):
    """A buffer of counting episodes with priorities."""
    buffer = counting_buffer(**{"prioritized": priority or Priority(), "buffer_size": 100} | options)
    for number, length in enumerate(lengths):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def drawn(buffer, draws=40_000, batch_size=500):
    """How often each transition is drawn."""
    return Counter(
        int(number) for _ in range(draws // batch_size) for number in buffer.sample(batch_size).index
    )


def assert_drawn_in_proportion(counts, odds, p_value=1e-5):
    """A chi-square test of counts by number against odds by number; those that are too rare go together."""
    assert counts.keys() <= odds.keys()
    expected = np.array(list(odds.values())) * counts.total() / sum(odds.values())
    found = np.array([counts[number] for number in odds])
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    found = np.append(found[common], found[~common].sum())
    if expected[-1] == 0:
        expected, found = expected[:-1], found[:-1]
    if len(found) > 1:
        assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > p_value


def assert_agree(buffer, oracle):
    """The buffer holds what the oracle holds, and a batch has its weights."""
    buffer.verify()
    saved = buffer._parts.priorities.saved()
    odds = oracle.odds()
    assert len(buffer) == len(odds)
    assert saved.largest == oracle.largest
    np.testing.assert_allclose(saved.scaled, [odds[number] for number in sorted(odds)], rtol=1e-14)
    if odds:
        oracle.explain(buffer.sample(20))


POSITIVE = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 7.0, 1e12, 3e38]))
ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 30), min_size=1, max_size=3)),
    st.tuples(
        st.just("update"), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), POSITIVE), max_size=8)
    ),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("save and load"), st.sampled_from([0, 5, 60])),
)


@settings(max_examples=60)  # files are written
@given(
    st.builds(
        Priority,
        alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
        beta=st.sampled_from([0.0, 0.4, 1.0]),
        eps=st.sampled_from([1e-6, 1e-30, 1.0]),
    ),
    st.integers(30, 70),
    st.lists(ACTIONS, max_size=15),
)
def test_priorities_are_those_of_a_dict_whatever_happens(tmp_path_factory, priority, buffer_size, actions):
    """Added, evicted, updated, cleared, saved and loaded in any order and any number of laps."""
    path = tmp_path_factory.getbasetemp() / "buffer"
    buffer = prioritized_buffer(priority=priority, buffer_size=buffer_size)
    oracle = PriorityReference(buffer_size, priority)
    for what, value in actions:
        if what == "add":
            for length in value:
                buffer.add_episode(counting_episode(0, length))
                oracle.add(length)
        elif what == "update" and oracle.end:
            index = [int(fraction * oracle.end) for fraction, _ in value]
            priorities = [priority for _, priority in value]
            assert buffer.update_priorities(index, priorities) == oracle.update(index, priorities)
        elif what == "clear":
            buffer.clear()
            oracle.clear()
        elif what == "save and load":
            oracle.shrink(max(30, oracle.buffer_size - value))
            buffer.save(path)
            buffer = HindsightReplayBuffer.load(path, **FUNCTIONS, buffer_size=oracle.buffer_size)
        assert_agree(buffer, oracle)


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 0.3, 0.6, 1])
def test_transitions_are_drawn_in_proportion_to_their_priorities_to_the_power_of_alpha(alpha):
    buffer = prioritized_buffer([5, 1, 30, 7, 20, 30, 25], priority=Priority(alpha=alpha, eps=1e-3))
    numbers = np.arange(13 + 23, 118)
    priorities = np.random.default_rng(0).exponential(size=len(numbers))
    buffer.update_priorities(numbers, priorities)
    odds = dict(zip(numbers.tolist(), (priorities + 1e-3) ** alpha, strict=True))
    assert_drawn_in_proportion(drawn(buffer), odds)


def test_a_buffer_of_many_laps_and_a_deep_tree_draws_by_its_priorities():
    """70,000 transitions are three levels of sums; an array indexed by number says what is in them."""
    buffer, rng = (
        prioritized_buffer(buffer_size=70_000, priority=Priority(alpha=0.5, eps=1e-3)),
        np.random.default_rng(0),
    )
    expected, largest = np.zeros(0), 1.0
    for lap in range(12):
        lengths = rng.integers(1, 900, 60)
        buffer.add_episodes([counting_episode(number, length) for number, length in enumerate(lengths)])
        expected = np.append(expected, np.full(lengths.sum(), largest))
        for _ in range(10):
            index = rng.integers(0, len(expected), 2000)
            index, priorities = np.unique(index), rng.exponential(size=len(np.unique(index))) * (1 + lap)
            oldest = len(expected) - len(buffer)
            assert buffer.update_priorities(index, priorities) == (index < oldest).sum()
            expected[index] = priorities
            largest = max(largest, priorities[index >= oldest].max(initial=0))
        buffer.verify()
        odds = (expected[oldest:] + 1e-3) ** 0.5
        np.testing.assert_allclose(buffer._parts.priorities.saved().scaled, odds, rtol=1e-14)
    tenths = np.argsort(np.argsort(odds)) * 10 // len(odds)
    found = Counter(tenths[buffer.sample(60_000).index - oldest].tolist())
    assert_drawn_in_proportion(found, {tenth: odds[tenths == tenth].sum() for tenth in range(10)})


def test_memory_that_is_missing_while_priorities_follow_is_an_error_once():
    buffer = prioritized_buffer([30, 60])
    twin = copy.deepcopy(buffer)

    def refuse(*_):
        raise MemoryError

    for each in (buffer, twin):
        each.add_episode(counting_episode(2, 50))
    for name in ("set_range", "find"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SumTree, name, refuse)
            with pytest.raises(MemoryError):
                buffer.sample(8)
    buffer.verify()
    assert set(buffer.sample(1000).index) == set(twin.sample(1000).index)


def test_draws_of_a_batch_do_not_depend_on_each_other():
    """Pairs of rows in a batch are as frequent as independent draws make them; stratified ones are not."""
    buffer = prioritized_buffer([4], priority=Priority(alpha=1))
    buffer.update_priorities(range(4), [1, 2, 3, 4])
    pairs = Counter()
    for _ in range(3000):
        index = buffer.sample(2).index
        pairs[4 * int(index[0]) + int(index[1])] += 1
        buffer.update_priorities([0], [1])  # or rows would be drawn ahead
    odds = np.outer([1, 2, 3, 4], [1, 2, 3, 4]).ravel()
    assert_drawn_in_proportion(pairs, dict(enumerate(odds.tolist())))


def test_after_an_update_the_new_priorities_count():
    """No batch that was drawn ahead survives."""
    buffer = prioritized_buffer([20, 20], priority=Priority(alpha=1))
    for number in (3, 30, 11):
        for _ in range(5):
            buffer.sample(8)
        buffer.update_priorities(np.arange(40), np.where(np.arange(40) == number, 1e12, 0))
        assert (buffer.sample(8).index == number).all()


def test_evicted_transitions_are_never_drawn_and_new_ones_are_as_likely_as_the_likeliest():
    buffer = prioritized_buffer([60, 40], priority=Priority(alpha=1))
    buffer.update_priorities(np.arange(100), np.r_[np.full(60, 1e6), np.full(20, 0.0), np.full(20, 5.0)])
    buffer.add_episode(counting_episode(2, 50))
    assert_drawn_in_proportion(
        drawn(buffer),
        dict(enumerate([1e-6] * 20 + [5] * 20 + [1e6] * 50, start=60)),
    )


def test_new_transitions_have_priority_1_before_any_larger_one_is_given():
    buffer = prioritized_buffer([3], priority=Priority(alpha=1, eps=1e-6))
    buffer.update_priorities([0, 1, 2], [0.25, 0.5, 0.25])
    buffer.add_episode(counting_episode(1, 1))
    assert_drawn_in_proportion(drawn(buffer), {0: 0.25, 1: 0.5, 2: 0.25, 3: 1.0})


def test_an_evicted_transition_does_not_raise_the_priority_of_new_ones():
    buffer = prioritized_buffer([60, 60])
    assert buffer.update_priorities([0, 70], [1e9, 2.0]) == 1
    assert buffer._parts.priorities.saved().largest == 2


@pytest.mark.parametrize("ratio", [1e12, 1e24])
def test_priorities_may_differ_by_any_ratio(ratio):
    low, high = ratio**-0.5, ratio**0.5
    buffer = prioritized_buffer([50, 50], priority=Priority(alpha=1, eps=1e-30))
    buffer.update_priorities(np.arange(100), np.where(np.arange(100) % 10 == 7, high, low))
    assert_drawn_in_proportion(drawn(buffer), dict.fromkeys(range(7, 100, 10), 1.0))


def test_priorities_of_0_leave_all_as_likely_as_each_other():
    buffer = prioritized_buffer([50, 50])
    buffer.update_priorities(np.arange(100), np.zeros(100))
    assert_drawn_in_proportion(drawn(buffer), dict.fromkeys(range(100), 1.0))
    np.testing.assert_array_equal(buffer.sample(100).weights, 1)


def test_a_single_transition_is_drawn_with_weight_1():
    buffer = prioritized_buffer([1], buffer_size=1)
    for number in range(5):
        batch = buffer.sample(3)
        assert batch.index.tolist() == [number] * 3
        assert batch.weights.tolist() == [1] * 3
        buffer.update_priorities(batch.index, [0, 10.0**-number, 0])
        buffer.add_episode(counting_episode(number, 1))


@pytest.mark.parametrize("priorities", [None, [1, 100]])
def test_which_rows_are_relabeled_depends_on_neither_index_nor_priority(priorities):
    """A contingency test, of numbers against parts of a mixture."""
    buffer = prioritized_buffer(
        [4, 4], goal_selection_strategy=Mixture({"future": 0.4, "random": 0.3, "original": 0.3})
    )
    if priorities is not None:
        buffer.update_priorities(range(8), priorities * 4)
    table = np.zeros((8, 3))
    for _ in range(1500):
        batch = buffer.sample(13)
        np.add.at(table, (batch.index, np.searchsorted(["future", "original", "random"], batch.strategy)), 1)
        buffer.update_priorities([], [])
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_goals_from_anywhere_stay_uniform():
    buffer = prioritized_buffer(
        [10, 10], goal_selection_strategy="random", n_sampled_goal=None, her_ratio=1.0
    )
    buffer.update_priorities(np.arange(20), np.where(np.arange(20) == 7, 1e6, 0))
    goals = Counter()
    for _ in range(40):
        goals.update(buffer.sample(500).goal_index.tolist())
    assert_drawn_in_proportion(goals, dict.fromkeys(range(20), 1.0))


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 0.4, 1])
@pytest.mark.parametrize("by", ["the option", "sample"])
def test_weights_make_up_for_probabilities_to_the_power_of_beta(beta, by):
    buffer = prioritized_buffer(
        [30, 30], priority=Priority(alpha=0.7, beta=beta if by == "the option" else 0.9)
    )
    priorities = np.random.default_rng(0).exponential(size=60)
    buffer.update_priorities(np.arange(60), priorities)
    odds = (priorities + 1e-6) ** 0.7
    for _ in range(5):
        batch = buffer.sample(16) if by == "the option" else buffer.sample(16, beta=beta)
        weights = (60 * odds[batch.index] / odds.sum()) ** -beta
        assert batch.weights.dtype == np.float32
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"prioritized": Priority(alpha=0)}])
def test_weights_are_ones_where_all_are_drawn_alike(options):
    buffer = counting_buffer(**options)
    buffer.add_episode(counting_episode(0, 9))
    batch = buffer.sample(50)
    assert batch.weights.dtype == np.float32
    assert batch.weights.tolist() == [1] * 50
    assert batch.to_torch().weights.tolist() == [1] * 50


def test_a_reward_function_of_batches_gets_weights_too():
    seen = []

    def reward_fn(batch):
        seen.append(batch.weights)
        return np.full(len(batch), -1.0)

    buffer = counting_buffer(compute_reward=None, reward_fn=reward_fn, termination="never")
    buffer.add_episode(counting_episode(0, 5))
    buffer.sample(10)
    assert all((weights == 1).all() and str(weights.dtype).endswith("float32") for weights in seen)


# --- what goes on as before -----------------------------------------------------------------------


def test_equal_seeds_give_equal_batches_whatever_was_looked_at_in_between():
    buffers = [prioritized_buffer([30, 50], seed=3) for _ in range(2)]
    for step in range(20):
        batches = [buffer.sample(16, beta=step / 20) for buffer in buffers]
        np.testing.assert_array_equal(*(batch.index for batch in batches))
        np.testing.assert_array_equal(*(batch.weights for batch in batches))
        for buffer in buffers:
            buffer.update_priorities(batches[0].index, np.arange(16) % 5)
        buffers[0].statistics()
        buffers[0].verify()
        if step == 10:
            buffers[0] = copy.deepcopy(buffers[0])
            buffers[1] = pickle.loads(pickle.dumps(buffers[1]))
    assert_same_batches(*buffers)


def test_clear_forgets_all_priorities():
    buffer = prioritized_buffer([20, 20], priority=Priority(alpha=1))
    buffer.update_priorities([3, 4], [100.0, 1e6])
    buffer.clear()
    buffer.verify()
    assert not buffer.can_sample
    buffer.add_episode(counting_episode(0, 10))
    assert buffer.update_priorities([3, 4], [5.0, 5.0]) == 2
    assert_drawn_in_proportion(drawn(buffer), dict.fromkeys(range(40, 50), 1.0))
    assert buffer._parts.priorities.saved().largest == 1


def test_priorities_take_less_than_nine_bytes_a_transition():
    assert (
        8
        < (prioritized_buffer(buffer_size=10**5).nbytes - counting_buffer(buffer_size=10**5).nbytes) / 1e5
        < 9
    )


def test_verify_finds_priorities_that_are_not_those_of_the_steps():
    buffer = prioritized_buffer([20, 20])
    buffer.verify()
    buffer._parts.priorities._tree.set_range(50, 51, 1.0)
    with pytest.raises(RuntimeError, match="its priorities are not those of its steps"):
        buffer.verify()


def test_one_thread_samples_another_updates_and_a_third_adds():
    buffer = prioritized_buffer([30], buffer_size=200)
    batches = [buffer.sample(32)]

    def sample():
        for _ in range(300):
            batches.append(buffer.sample(32))
            np.testing.assert_array_equal(
                batches[-1].observations["observation"][:, 1], batches[-1].index - batches[-1].episode
            )

    def update():
        rng = np.random.default_rng(0)
        return [
            buffer.update_priorities(batches[rng.integers(len(batches))].index, rng.random(32))
            for _ in range(300)
        ]

    def add():
        for number in range(300):
            buffer.add_episode(counting_episode(number, 1 + number % 60))

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(work) for work in (sample, update, add)]:
            done.result()
    buffer.verify()
    assert len(batches) == 301


# --- what may be given ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "priorities"),
    [
        ([0, 2], [0.5, 4]),
        ((0, 2), (np.float32(0.5), 4)),
        (np.array([0, 2], np.uint8), np.array([0.5, 4], np.float16)),
        (torch.tensor([0, 2]), torch.tensor([0.5, 4.0], requires_grad=True)),
        (torch.tensor([0, 2], dtype=torch.int32), torch.tensor([0.5, 4.0], dtype=torch.bfloat16)),
    ],
)
def test_arrays_tensors_and_lists_are_taken(index, priorities):
    buffer = prioritized_buffer([4], priority=Priority(alpha=1, eps=1e-30))
    assert buffer.update_priorities(index, priorities) == 0
    assert buffer._parts.priorities.saved().scaled.tolist() == [0.5, 1, 4, 1]


def test_the_loop_of_a_learner_takes_torch_batches():
    buffer = prioritized_buffer([40, 40])
    for _ in range(3):
        batch = buffer.sample(32).to_torch()
        error = batch.rewards - torch.ones(32, requires_grad=True)
        (batch.weights * error.square()).mean().backward()
        assert buffer.update_priorities(batch.index, error.abs()) == 0


WHOLE = "index must be whole numbers of shape (B,), as batch.index, got "
BAD_UPDATES = [
    ([0, 1], [1, -0.5], "priorities must be >= 0, as np.abs(td_errors) is, got -0.5 at row 1"),
    ([0, 1], [np.nan, 1], "priorities must be finite as float32, got nan at row 0"),
    ([0, 1], [1, np.inf], "priorities must be finite as float32, got inf at row 1"),
    ([0, 1], [1e39, 1], "priorities must be finite as float32, got 1e+39 at row 0"),
    ([0, 1], ["a", "b"], "priorities must be real numbers, got <U1 of shape (2,)"),
    ([0, 1], [True, False], "priorities must be real numbers, got bool of shape (2,)"),
    ([0, 1], [[1], [1, 2]], "priorities must be real numbers, got object of shape ()"),
    ([0, 1], [1], "priorities must be one for each index, of shape (2,), got (1,)"),
    ([0, 1], [[1], [1]], "priorities must be one for each index, of shape (2,), got (2, 1)"),
    ([0, 1], 1.0, "priorities must be one for each index, of shape (2,), got ()"),
    ([], [1], "priorities must be one for each index, of shape (0,), got (1,)"),
    ([0, 24], [1, 1], "index must be numbers that this buffer has given, as batch.index, got 24 at row 1"),
    ([-1, 0], [1, 1], "index must be numbers that this buffer has given, as batch.index, got -1 at row 0"),
    (
        np.array([2**63 + 5, 0], np.uint64), [1, 1],
        "index must be numbers that this buffer has given, as batch.index, got 9223372036854775813 at row 0",
    ),
    ([0.0, 1], [1, 1], WHOLE + "float64 of shape (2,)"),
    ([True, False], [1, 1], WHOLE + "bool of shape (2,)"),
    ([[0], [1]], [1, 1], WHOLE + "int64 of shape (2, 1)"),
    (0, 1.0, WHOLE + "int64 of shape ()"),
    (None, None, WHOLE + "object of shape ()"),
]  # fmt: skip


@pytest.mark.parametrize(("index", "priorities", "message"), BAD_UPDATES)
def test_a_bad_update_is_refused_at_once_and_changes_nothing(index, priorities, message):
    buffer = prioritized_buffer([12, 12])
    buffer.update_priorities([1, 20], [9, 0.1])
    for _ in range(3):
        buffer.sample(8)
    twin = copy.deepcopy(buffer)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        buffer.update_priorities(index, priorities)
    buffer.verify()
    assert buffer._parts.priorities.saved().largest == 9
    assert_same_batches(buffer, twin, [8] * 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -0.1}, "alpha of Priority must lie in [0, 1], got -0.1"),
        ({"alpha": 1.5}, "alpha of Priority must lie in [0, 1], got 1.5"),
        ({"alpha": np.nan}, "alpha of Priority must lie in [0, 1], got nan"),
        ({"alpha": "0.6"}, "alpha of Priority must lie in [0, 1], got '0.6'"),
        ({"beta": 2}, "beta of Priority must lie in [0, 1], got 2"),
        ({"beta": True}, "beta of Priority must lie in [0, 1], got True"),
        ({"eps": 0}, "eps of Priority must lie in [1e-30, 1], got 0"),
        ({"eps": np.inf}, "eps of Priority must lie in [1e-30, 1], got inf"),
    ],
)
def test_a_priority_has_its_ranges(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Priority(**options)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, Fraction, int])
def test_a_priority_of_short_floats_reckons_with_doubles(tmp_path, kind):
    """Else what is new would be unlike what is updated, or infinite, and a file would be refused."""
    priority = Priority(alpha=kind(1), beta=kind(1), eps=kind(1))
    assert {type(value) for value in (priority.alpha, priority.beta, priority.eps)} == {float}
    buffer = prioritized_buffer([4], priority=priority)
    buffer.update_priorities([0], [1e30 / 3])
    buffer.add_episode(counting_episode(1, 1))
    assert buffer._parts.priorities.saved().scaled.tolist() == [1e30 / 3, 2, 2, 2, 1e30 / 3]
    buffer.save(tmp_path / "buffer")
    assert_same_batches(buffer, HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS))


@pytest.mark.parametrize("value", [True, 0.6, {"alpha": 0.6}, Priority])
def test_what_is_no_priority_is_refused_with_the_way_out(value):
    with pytest.raises(
        TypeError, match=r"^prioritized must be a Priority or None, got .*; pass Priority\(\)$"
    ):
        counting_buffer(prioritized=value)


@pytest.mark.parametrize("beta", [-0.1, 1.1, np.nan, "1", [0.5]])
def test_a_bad_beta_is_refused_and_nothing_is_drawn(beta):
    buffer, twin = (prioritized_buffer([30]) for _ in range(2))
    with pytest.raises(ValueError, match=r"^beta must lie in \[0, 1\], got "):
        buffer.sample(8, beta=beta)
    assert_same_batches(buffer, twin)


def test_without_priorities_neither_beta_nor_an_update_is_taken():
    buffer, twin = (counting_buffer() for _ in range(2))
    for each in (buffer, twin):
        each.add_episode(counting_episode(0, 30))
    with pytest.raises(
        ValueError,
        match=r"beta is for a buffer with priorities, got 0.5; make it with prioritized=Priority\(\)",
    ):
        buffer.sample(8, beta=0.5)
    with pytest.raises(ValueError, match=r"has no priorities; make it with prioritized=Priority\(\)"):
        buffer.update_priorities([0], [1])
    assert_same_batches(buffer, twin)


# --- saving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [[], [16], [16] * 6, [300, 300]])
def test_a_loaded_buffer_goes_on_with_the_same_batches(tmp_path, sampled):
    buffer = prioritized_buffer([9, 30, 25, 30, 40, 1], skip_trivial=True)
    for size in sampled:
        batch = buffer.sample(size)
    if sampled:
        buffer.update_priorities(batch.index, np.abs(batch.rewards) * np.arange(sampled[-1]))
        buffer.sample(16)
    buffer.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
    twin.verify()
    for number in range(30):
        assert_same_batches(buffer, twin, [16])
        batch = buffer.sample(16)
        np.testing.assert_array_equal(twin.sample(16).weights, batch.weights)
        for each in (buffer, twin):
            each.update_priorities(batch.index, np.arange(16) / (1 + number))
            if number % 3 == 0:
                each.add_episode(counting_episode(number, 1 + number))


def test_another_beta_keeps_priorities_and_another_alpha_begins_anew(tmp_path):
    buffer = prioritized_buffer([9, 30])
    buffer.update_priorities([0, 5], [3.0, 7.0])
    buffer.save(tmp_path / "buffer")
    for priority, largest in [(Priority(beta=1), 7), (Priority(alpha=0.5), 1), (Priority(eps=0.1), 1)]:
        twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, prioritized=priority)
        twin.verify()
        saved = twin._parts.priorities.saved()
        assert saved.largest == largest
        assert (len(set(saved.scaled)) == 1) == (largest == 1)
        twin.sample(10)
    plain = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, prioritized=None)
    assert plain.sample(10).weights.tolist() == [1] * 10
    plain.save(tmp_path / "buffer")
    again = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, prioritized=Priority())
    again.verify()
    assert set(again.sample(500).index) == set(range(39))


def test_what_stays_in_a_smaller_buffer_keeps_its_priorities(tmp_path):
    buffer = prioritized_buffer([30, 30, 30], priority=Priority(alpha=1, eps=1e-30))
    buffer.update_priorities(np.arange(90), np.arange(90.0))
    buffer.save(tmp_path / "buffer")
    for buffer_size, first in ((89, 30), (60, 30), (59, 60), (1000, 0)):
        twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, buffer_size=buffer_size)
        twin.verify()
        np.testing.assert_allclose(
            twin._parts.priorities.saved().scaled, np.arange(first, 90), rtol=0, atol=1e-29
        )
        assert twin.update_priorities([0, 89], [1, 1]) == (first > 0)
        assert_drawn_in_proportion(
            drawn(twin), dict(enumerate([*range(first, 89), 1], start=first)) | ({0: 1} if first == 0 else {})
        )


@pytest.mark.parametrize("eps", [1e-6, 0.01, 0.3])
def test_the_smallest_and_the_largest_priority_come_back_with_any_alpha(tmp_path, eps):
    """Powers of one number and of many differ in their last bits; no file is refused for that."""
    for alpha in np.linspace(0, 1, 21):
        buffer = prioritized_buffer([30], buffer_size=30, priority=Priority(alpha=alpha, eps=eps))
        buffer.update_priorities(np.arange(30), np.repeat([0.0, 7.3, 1e12], 10))
        buffer.save(tmp_path / "buffer")
        twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
        assert_same_batches(buffer, twin, [16] * 3)
