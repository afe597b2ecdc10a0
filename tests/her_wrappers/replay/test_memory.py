"""Memory: each state is stored once, pickles have stored rows only, and too little memory is an error."""

import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer, Priority
from tests.support.buffers import FUNCTIONS, device_options, load_buffer, make_buffer, plain_buffer
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode
from tests.support.equality import assert_same_episodes
from tests.support.memory_limit import count_low_limits

# --- each state is stored once --------------------------------------------------------------------


def test_memory_is_that_of_one_state_per_step_and_stays_constant_when_episodes_are_evicted():
    """Short episodes have more states and goal spans, for which the memory grows."""
    per_step = (2 + 2) * 8 + 8 + 4 + 3 * 8  # observation, achieved goal; action, reward, integers
    assert counting_buffer(buffer_size=10_000).nbytes / 10_000 < 1.1 * per_step
    buffer, sizes = counting_buffer(buffer_size=1000, prioritized=Priority()), []
    for chapter in range(20):
        lengths = [1 + (chapter + i) % (2 if chapter % 10 == 3 else 40) for i in range(200)]
        buffer.add_episodes([counting_episode(number, length) for number, length in enumerate(lengths)])
        sizes.append(buffer.nbytes)
    assert sizes[-1] <= 1.25 * sizes[9]


def image_episode(number, length, *, apart=False):
    """Return an episode whose images equal the achieved goals, or differ with ``apart``."""
    rng = np.random.default_rng(number)
    pictures = rng.integers(256, size=(length + 1, 1, 36, 36), dtype=np.uint8)
    observations = {
        "observation": pictures + 1 if apart else pictures,
        "achieved_goal": pictures,
        "desired_goal": np.repeat(pictures[:1] + 7, length + 1, axis=0),
    }
    return Episode(observations, np.zeros(length, np.int64), np.full(length, -1.0), False, True)


def image_buffer(device=None, **options):
    picture = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    space = spaces.Dict(dict.fromkeys(SPACE, picture))
    functions = {"compute_reward": lambda a, d, i: -1.0 + (a == d).reshape(len(a), -1).all(-1)}
    options = device_options(device, functions | {"termination": "keep"} | options)
    return HindsightReplayBuffer(space, spaces.Discrete(3), **options)


def test_an_image_that_is_observation_and_achieved_goal_is_stored_and_saved_once(tmp_path):
    """Stable-Baselines3 stores six images per transition: three keys of two observations."""
    sizes = {}
    for apart in (False, True):
        buffer = image_buffer(buffer_size=500)
        buffer.add_episodes([image_episode(number, 50, apart=apart) for number in range(10)])
        buffer.save(tmp_path / "buffer")
        sizes[apart] = buffer.nbytes, (tmp_path / "buffer").stat().st_size
    for once, twice in zip(*sizes.values(), strict=True):
        assert twice - once > 0.9 * 36 * 36 * 500
    assert sizes[True][0] < 6 / 2 * 36 * 36 * 1.25 * 500


@pytest.mark.parametrize("first_apart", [1, 9])
def test_images_stay_exact_when_they_begin_to_differ_from_the_goal(device, first_apart, tmp_path):
    """Also after the images differed in episodes that are evicted, in the loaded buffer, and after clear."""
    buffer, episodes = image_buffer(device, buffer_size=60), []
    for number in range(12):
        episodes.append(image_episode(number, 12, apart=first_apart <= number < 10))
        buffer.add_episode(episodes[-1])
        assert_same_episodes(buffer.episodes(), episodes[-5:])
        if number == 4:
            buffer.save(tmp_path / "buffer")
            never = lambda a, d, i: -1.0 + 0 * a.sum((1, 2, 3))  # noqa: E731
            buffer = load_buffer(tmp_path / "buffer", device, compute_reward=never)
    batch = buffer.sample(100).to_numpy()
    for i, step in enumerate(batch.index):
        source, t = episodes[step // 12].observations, step % 12
        for key in ("observation", "achieved_goal"):
            np.testing.assert_array_equal(batch.observations[key][i], source[key][t])
            np.testing.assert_array_equal(batch.next_observations[key][i], source[key][t + 1])
    buffer.clear()
    buffer.add_episodes(episodes[:1])
    assert_same_episodes(buffer.episodes(), episodes[:1])


# --- pickles and files ----------------------------------------------------------------------------


def test_a_pickle_has_the_stored_rows_only(device):
    """Pickles of an empty and of a cleared buffer are small, unlike the memory of the buffer."""
    buffer = plain_buffer(100_000, **device_options(device, {}))
    assert len(pickle.dumps(buffer)) < 40_000 < buffer.nbytes
    buffer.add_episodes([counting_episode(number, 50) for number in range(2000)])
    full = len(pickle.dumps(buffer))
    buffer.clear()
    assert len(pickle.dumps(buffer)) < 40_000 < full


@pytest.fixture
def peak():
    """Return a function that returns the peak of allocated bytes since its last call."""
    tracemalloc.start()

    def read():
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        return most

    yield read
    tracemalloc.stop()


def test_saving_loading_and_iterating_take_little_additional_memory(tmp_path, peak):
    wide = spaces.Dict({**SPACE.spaces, "observation": spaces.Box(-1, 1, (200,), np.float64)})
    buffer = HindsightReplayBuffer(wide, ACTIONS, buffer_size=50_000, **FUNCTIONS)
    seen = counting_episode(0, 50).observations | {"observation": np.zeros((51, 200))}
    for _ in range(11):
        buffer.add_episodes([counting_episode(0, 50, observations=seen)] * 100)
    held, nbytes = tracemalloc.get_traced_memory()[0], buffer.nbytes
    peak()
    buffer.save(tmp_path / "buffer")
    assert peak() < held + nbytes / 2
    for _ in buffer.episodes():
        pass
    assert peak() < held + nbytes / 2
    del buffer
    held = tracemalloc.get_traced_memory()[0]
    assert len(HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)) == 50_000
    assert peak() < held + 3 / 2 * nbytes


# --- too little memory ----------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_size", [10**15, 10**18, 2**62])
def test_more_memory_than_there_is_is_an_error_with_its_size(device, buffer_size, tmp_path):
    with pytest.raises(MemoryError, match=r"buffer_size=\d+ needs \d+\.\d GiB"):
        make_buffer(device, buffer_size=buffer_size)
    plain_buffer(100).save(tmp_path / "buffer")
    with pytest.raises(MemoryError, match=r"buffer_size=\d+ needs \d+\.\d GiB"):
        load_buffer(tmp_path / "buffer", device, n_sampled_goal=0, buffer_size=buffer_size)


ROOMS = (2**18, 2**20, 2**24, 2**22, 2**23)  # the third fills the buffer, so that others would evict


@pytest.mark.skipif(sys.platform != "linux", reason="the limit needs RLIMIT_AS and /proc of Linux")
@pytest.mark.parametrize(
    "call",
    ["sample", *(pytest.param(each, marks=pytest.mark.slow) for each in ("add_episodes", "save", "grow"))],
)
def test_the_buffer_is_whole_after_a_memory_error_of_the_operating_system(call, tmp_path):
    assert count_low_limits(call, ROOMS, tmp_path / "buffer") >= 1
