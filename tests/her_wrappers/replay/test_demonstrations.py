"""Demonstrations: their share, rows, files and errors. Random programs have demonstrations too."""

import copy
from collections import Counter

import numpy as np
import pytest

from her_wrappers import (
    CorruptFileError,
    Demonstrations,
    EpisodeArchive,
    Episodes,
    HindsightReplayBuffer,
    Priority,
)
from her_wrappers.replay.saving import load_same
from tests.support.buffers import filled, load_buffer
from tests.support.chi_square import assert_proportional
from tests.support.counting import FUNCTIONS, counting_buffer, counting_episode
from tests.support.equality import assert_same_batches, assert_same_episodes

EPISODES = [counting_episode(number, length, terminated=True) for number, length in ((100, 3), (101, 5))]


def with_demonstrations(device=None, share=0.25, episodes=EPISODES, **options):
    """Return a buffer with three episodes of its own, and demonstrations."""
    return filled(device, demonstrations=Demonstrations(episodes, share), **options)


def numbers_of(batch):
    """Return the numbers of the episodes of a batch."""
    return np.asarray(batch.to_numpy().observations["observation"])[:, 0]


@pytest.mark.parametrize(("batch_size", "share"), [(1, 0.9), (7, 0.25), (64, 0.25)])
def test_the_share_is_exact_in_expectation_for_any_batch_size(batch_size, share):
    buffer = with_demonstrations(share=share, seed=batch_size)
    counts = Counter(int(buffer.sample(batch_size).is_demonstration.sum()) for _ in range(700 // batch_size))
    low = int(share * batch_size)
    above = share * batch_size - low
    assert_proportional(counts, {low: 1 - above, low + 1: above} if above else {low: 1})


def test_each_demonstrated_step_is_equally_likely():
    batch = with_demonstrations(seed=0).sample(20_000)
    steps = Counter(batch.index[batch.is_demonstration].tolist())
    assert_proportional(steps, dict.fromkeys(range(8), 1))


def test_demonstrations_are_never_evicted_and_stay_when_the_buffer_is_cleared():
    buffer = with_demonstrations(buffer_size=12)
    found = buffer.statistics()
    assert (found.num_transitions, found.num_episodes) == (12, 3)
    buffer.clear()
    assert not buffer.can_sample
    with pytest.raises(ValueError, match="no complete episode"):
        buffer.sample(1)
    for number in range(20):
        buffer.add_episode(counting_episode(number, 9))
    assert set(numbers_of(buffer.sample(300))) == {19, 100, 101}
    assert (len(buffer), buffer.num_episodes) == (9, 1)
    assert_same_episodes(buffer.demonstrations.episodes(), EPISODES)


def test_without_demonstrations_the_batches_are_the_same(device):
    """The own rows of a batch are those of a buffer without demonstrations."""
    mixed, plain = with_demonstrations(device, share=0.5, seed=3), filled(device, seed=3)
    for _ in range(20):
        batch, expected = mixed.sample(16).to_numpy(), plain.sample(8).to_numpy()
        assert (batch.index[~batch.is_demonstration] == expected.index + 8).all()


@pytest.mark.parametrize("options", [{}, {"prioritized": Priority(), "n_steps": 3}])
def test_a_loaded_buffer_continues_with_the_same_batches(tmp_path, device, options):
    path, buffer = tmp_path / "buffer", with_demonstrations(device, **options)
    if options:
        assert buffer.update_priorities([0, 9], [5.0, 2.0]) == 0
    buffer.sample(7)
    buffer.save(path)
    for twin in (load_buffer(path, device), load_same(buffer, path)):
        assert_same_batches(copy.deepcopy(buffer), twin, [7] * 20)
        assert_same_episodes(twin.demonstrations.episodes(), EPISODES)
    with pytest.raises(ValueError, match=r"demonstrations of .* must be 0\.25, as in .*, got 0\.5"):
        load_same(with_demonstrations(share=0.5, **options), path)


def test_load_may_give_other_demonstrations_and_another_seed(tmp_path):
    with_demonstrations().save(tmp_path / "buffer")
    twins = [load_buffer(tmp_path / "buffer", None, **FUNCTIONS, seed=5) for _ in range(2)]
    assert_same_batches(*twins, [16] * 5)
    given = Demonstrations([counting_episode(7, 2, rewards=np.array([-1.0, 0.0]))], 0.5)
    with pytest.warns(UserWarning, match="demonstrations"):
        other = load_buffer(tmp_path / "buffer", None, **FUNCTIONS, seed=5, demonstrations=given)
    assert sorted(set(numbers_of(other.sample(100)))) == [0, 1, 2, 7]


@pytest.mark.parametrize("index", [-1, 20])
def test_an_update_with_an_unknown_step_number_changes_nothing(index):
    buffer = with_demonstrations(prioritized=Priority())
    twin = with_demonstrations(prioritized=Priority())
    with pytest.raises(ValueError, match="step numbers of this buffer"):
        buffer.update_priorities([7, 8, index], [9.0, 9.0, 9.0])
    assert_same_batches(buffer, twin)


def test_any_source_of_episodes_can_be_used(tmp_path):
    with EpisodeArchive(tmp_path / "archive") as archive:
        archive.add_episodes(EPISODES)
    other = counting_buffer()
    other.add_episodes(EPISODES)
    for source in (EpisodeArchive(tmp_path / "archive"), other.episodes(), Episodes.of(EPISODES)):
        assert_same_episodes(with_demonstrations(episodes=source).demonstrations.episodes(), EPISODES)


OTHER_SPACE = counting_episode(0, 3)
OTHER_SPACE.observations["observation"] = np.zeros((4, 3))
WRONG = [
    (lambda: Demonstrations(EPISODES, 1.0), ValueError, "share of Demonstrations"),
    (lambda: Demonstrations(EPISODES, "0.5"), ValueError, "share of Demonstrations"),
    (lambda: Demonstrations(EPISODES[0]), TypeError, r"pass \[episode\]"),
    (lambda: counting_buffer(demonstrations=EPISODES), TypeError, "got list"),
    (lambda: with_demonstrations(episodes=[]), ValueError, "at least one episode"),
    (lambda: with_demonstrations(episodes=5), TypeError, "got int"),
    (lambda: with_demonstrations(episodes=[*EPISODES, 5]), TypeError, "int at position 2"),
    (lambda: with_demonstrations(episodes=[OTHER_SPACE]), ValueError, "demonstrations: .*observation"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG)
def test_wrong_demonstrations_are_an_error(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_demonstrations_with_other_rewards_are_a_warning():
    with pytest.warns(UserWarning, match="demonstrations: step 0"):
        with_demonstrations(episodes=[counting_episode(100, 3, rewards=np.full(3, -5.0))])


def test_a_file_with_damaged_demonstrations_is_rejected(tmp_path):
    buffer = with_demonstrations()
    buffer.save(tmp_path / "buffer")
    content = (tmp_path / "buffer").read_bytes()
    at = content.rindex(b"demonstrations")
    (tmp_path / "buffer").write_bytes(content[: at - 400] + b"\0" * 100 + content[at - 300 :])
    with pytest.raises(CorruptFileError):
        HindsightReplayBuffer.load(tmp_path / "buffer")
