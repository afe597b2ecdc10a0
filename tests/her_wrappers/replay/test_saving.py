"""Saving and loading: the same sequence of batches, options of `load`, functions that are given again."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import CorruptFileError, Geometric, HindsightReplayBuffer, Mixture, Priority
from her_wrappers.data.arrays import ArrayFile, write_arrays
from her_wrappers.replay.options import REMOVED
from her_wrappers.replay.saving import KIND, VERSION
from tests.support.buffers import FUNCTIONS, filled, load_buffer, make_buffer, transitions, wrapped
from tests.support.counting import (
    SPACE,
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.support.equality import assert_same_batches, assert_same_episodes, assert_same_tree
from tests.support.expected_buffer import halfway


def reloaded(buffer, folder, device=None, **options):
    """Save a buffer and return the loaded one; ``options`` are arguments of `load`, FUNCTIONS by default."""
    buffer.save(folder / "buffer")
    return load_buffer(folder / "buffer", device, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"goal_selection_strategy": Geometric(0.8), "n_steps": 4},
        {"prioritized": Priority(alpha=np.float32(0.7)), "n_sampled_goal": np.int64(1)},
    ],
)
def test_a_loaded_buffer_continues_with_the_same_batches(tmp_path, device, options):
    """Before saving, batches are prefetched; saving changes nothing in the running buffer."""
    for sampled in ([], [16] * 6, [16, 16, 7]):
        buffer = wrapped(device, **options)
        for size in sampled:
            buffer.sample(size)
        unsaved = copy.deepcopy(buffer)
        twin = reloaded(buffer, tmp_path, device)
        for other in (unsaved, twin):
            assert_same_batches(copy.deepcopy(buffer), other, [16] * 12 + [7, 7, 300, 300])


def test_numbers_of_any_bits_are_restored(tmp_path, device):
    rng = np.random.default_rng(0)
    buffer, episodes = make_buffer(device), []
    for number in range(30):
        episode = counting_episode(number, 20)
        values = rng.choice([0.0, -0.0, 5e-324, np.nextafter(1, 2), np.inf], size=(2, 21, 2))
        episode.observations.update(desired_goal=np.minimum(values[0], 1e308), observation=values[1])
        episodes.append(episode)
    buffer.add_episodes(episodes)
    assert_same_episodes(reloaded(buffer, tmp_path, device).episodes(), episodes)


# --- options of load ------------------------------------------------------------------------------


def test_another_seed_begins_another_sequence(tmp_path):
    twins = [reloaded(wrapped(), tmp_path, **FUNCTIONS, seed=seed) for seed in (7, 7, 8)]
    assert_same_batches(*twins[:2], [16] * 5)
    assert not np.array_equal(twins[1].sample(50).index, twins[2].sample(50).index)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"goal_selection_strategy": Mixture({"future": 1, "original": 0})}, {"future"}),
        ({"goal_selection_strategy": "episode", "n_sampled_goal": 0}, {"original"}),
    ],
)
def test_other_shares_and_strategies_may_be_chosen(tmp_path, options, names):
    buffer = wrapped(n_sampled_goal=4)
    buffer.sample(50)
    assert set(reloaded(buffer, tmp_path, **FUNCTIONS, **options).sample(50).strategy) == names


def test_other_windows_and_another_beta_keep_rows_and_goals(tmp_path):
    saved = wrapped(n_steps=4, prioritized=Priority())
    twin = wrapped(n_steps=2, gamma=0.5, prioritized=Priority())
    for each in (saved, twin):
        each.update_priorities(range(95, 100), range(5))
        each.sample(16)
    assert_same_batches(twin, reloaded(saved, tmp_path, **FUNCTIONS, n_steps=2, gamma=0.5))
    other = reloaded(saved, tmp_path, **FUNCTIONS, prioritized=Priority(beta=1.0))
    assert other.sample(50).weights.min() < saved.sample(50).weights.min()


def test_priorities_may_begin_and_end_at_load(tmp_path):
    buffer = wrapped(prioritized=Priority())
    buffer.update_priorities([100, 101], [50.0, 0.0])
    plain = reloaded(buffer, tmp_path, **FUNCTIONS, prioritized=None)
    assert plain.sample(10).weights.tolist() == [1] * 10
    for priority in (Priority(), Priority(alpha=0.5), Priority(eps=0.1)):
        source = buffer if priority.alpha == 0.5 else plain
        again = reloaded(source, tmp_path, **FUNCTIONS, prioritized=priority)
        assert again.sample(100).weights.tolist() == [1] * 100, "all have the first priority again"


SAVED_BY_A_FUNCTION = [
    {"goal_selection_strategy": Mixture({"future": 0.5, halfway: 0.5})},
    {"termination": compute_terminated},
]


@pytest.mark.parametrize("options", SAVED_BY_A_FUNCTION)
def test_a_users_strategy_or_termination_is_given_again(tmp_path, options):
    buffer, [name] = wrapped(**options), options
    for _ in range(5):
        buffer.sample(16)
    with pytest.raises(ValueError, match=f"{name}="):
        reloaded(buffer, tmp_path)
    assert_same_batches(buffer, reloaded(buffer, tmp_path, **FUNCTIONS, **options))


def test_without_functions_all_works_but_relabeling(tmp_path):
    buffer, results = wrapped(n_sampled_goal=1), set()
    buffer.save(tmp_path / "buffer")
    without = HindsightReplayBuffer.load(tmp_path / "buffer")
    assert_same_episodes(buffer.episodes(), without.episodes())
    for _ in range(20):
        expected = buffer.sample(1)  # the loaded buffer samples the same rows
        results.add(bool(expected.relabeled[0]))
        if expected.relabeled[0]:
            with pytest.raises(ValueError, match="env=, compute_reward= or reward_fn="):
                without.sample(1)
        else:
            assert_same_tree(without.sample(1).index, expected.index)
    assert results == {False, True}


def test_an_open_episode_longer_than_the_loaded_buffer_is_an_error_but_no_damage(tmp_path):
    buffer = counting_buffer(buffer_size=50)
    for transition in list(transitions(counting_episode(0, 31)))[:-1]:
        buffer.add(*transition)
    with pytest.raises(ValueError, match=r"already has 20 steps.*increase buffer_size") as error:
        reloaded(buffer, tmp_path, **FUNCTIONS, buffer_size=20)
    assert not isinstance(error.value, CorruptFileError)


BAD_OPTIONS = [
    ({"info_keys": ["cost"]}, ValueError, r"info_keys must be \[.*\], as in the saved buffer"),
    ({"buffer_size": 9}, ValueError, "buffer of 9 transitions, got 25 steps"),
    ({"n_sampled_goal": -1}, ValueError, "n_sampled_goal"),
    ({"buffersize": 10}, TypeError, "buffersize"),
    ({"compute_terminated": None}, ValueError, "needs compute_terminated"),
    ({"env": gym.make("her_envs/PointReach-v0")}, ValueError, "observation/achieved_goal"),
    ({"env": "her_envs/PointReach-v0"}, TypeError, "str"),
]


@pytest.mark.parametrize(("options", "error", "word"), BAD_OPTIONS)
def test_a_bad_option_of_load(tmp_path, options, error, word):
    with pytest.raises(error, match=word):
        reloaded(wrapped(termination="recompute"), tmp_path, **FUNCTIONS | options)


# --- what functions found in the stored episodes ----------------------------------------------------

SOLVED = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
SOLVED.observations["desired_goal"][:] = [1, 3]
UNLIKE = counting_episode(0, 3, rewards=np.full(3, -2.0))


@pytest.mark.parametrize("termination", ["success", "recompute", compute_terminated])
def test_another_termination_inspects_all_stored_episodes_again(tmp_path, termination):
    """The saved buffers did not classify recorded terminations, or had no functions for new episodes."""
    inspected, kept = wrapped(termination=termination), wrapped(termination="keep")
    assert_same_batches(inspected, reloaded(kept, tmp_path, **FUNCTIONS, termination=termination), [500])
    own = {"termination": termination} if callable(termination) else {}
    inspected.save(tmp_path / "buffer")
    without = HindsightReplayBuffer.load(tmp_path / "buffer", **own)
    for each in (inspected, without):
        each.extend([counting_episode(10, 10, terminated=True), SOLVED])
    assert_same_batches(inspected, reloaded(without, tmp_path, **FUNCTIONS, **own), [500])


def test_warnings_are_not_repeated_after_loading_but_the_first_episodes_are_compared(tmp_path):
    buffer = counting_buffer(compute_terminated=None)
    for episode, words in ((SOLVED, 'termination="success"'), (UNLIKE, "reward -2")):
        with pytest.warns(UserWarning, match=words):
            buffer.add_episode(episode)
    buffer.save(tmp_path / "buffer")
    HindsightReplayBuffer.load(tmp_path / "buffer").add_episode(UNLIKE)
    reloaded(buffer, tmp_path, compute_reward=compute_reward).add_episodes([SOLVED, UNLIKE])
    other = filled(lengths=[3] * 9)
    with pytest.warns(UserWarning, match="reward -2"):
        reloaded(other, tmp_path).add_episode(UNLIKE)


def test_removed_options_in_older_files_are_ignored_unless_they_were_used(tmp_path):
    buffer, path = wrapped(), tmp_path / "buffer"
    buffer.save(path)
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header, arrays = file.header, {name: file.read(name) for name in file.arrays}
    header["options"] |= {name: default for name, (default, _) in REMOVED.items()}
    write_arrays(path, arrays.items(), header, kind=KIND, version=VERSION)
    assert_same_batches(buffer, load_buffer(path, None))
    header["options"]["resample_achieved_goals"] = True
    write_arrays(path, arrays.items(), header, kind=KIND, version=VERSION)
    with pytest.raises(ValueError, match="resample_achieved_goals"):
        load_buffer(path, None)


def test_a_failed_save_leaves_the_old_file_and_the_buffer(tmp_path):
    buffer = wrapped()
    buffer.save(tmp_path / "buffer")
    before = (tmp_path / "buffer").read_bytes()
    odd = HindsightReplayBuffer(SPACE, spaces.Space((1,), np.float64), n_sampled_goal=0)
    with pytest.raises(TypeError, match="cannot be stored as JSON"):
        odd.save(tmp_path / "buffer")
    with pytest.raises(FileNotFoundError):
        buffer.save(tmp_path / "nowhere" / "buffer")
    with pytest.raises(IsADirectoryError):
        buffer.save(tmp_path)
    with pytest.raises(FileNotFoundError):
        HindsightReplayBuffer.load(tmp_path / "nothing")
    assert (tmp_path / "buffer").read_bytes() == before
    assert_same_batches(buffer, reloaded(buffer, tmp_path))
