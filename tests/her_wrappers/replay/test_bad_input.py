"""Invalid episodes and results of functions raise with one sentence and leave the buffer unchanged.

See `test_bad_arguments` for arguments, `test_damaged_files` for files, `test_memory_limit` for memory.
"""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import Episode, Episodes, HindsightReplayBuffer
from tests.support import buffers
from tests.support.counting import (
    ACTIONS,
    SPACE,
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.support.counting_rewards import costs
from tests.support.equality import assert_same_batches, assert_same_episodes


def filled(**options):
    return buffers.filled(**{"buffer_size": 30} | options)


def assert_refused(buffer, episodes, error, message):
    """Assert that adding raises, stores and evicts nothing, and does not change the following batches."""
    twin = copy.deepcopy(buffer)
    with pytest.raises(error, match=message) as caught:
        buffer.add_episodes(episodes)
    assert len(str(caught.value)) < 400, "a sentence, no arrays"
    buffer.verify()
    assert_same_episodes(buffer.episodes(), twin.episodes())
    assert_same_batches(buffer, twin, [20] * 3)
    for each in (buffer, twin):
        each.add_episode(counting_episode(9, 20))
    assert_same_batches(buffer, twin, [20] * 3)


def with_part(**parts):
    """Return a counting episode of three steps; ``parts`` replace its attributes."""
    return counting_episode(5, 3, **parts)


def with_observations(**leaves):
    episode = counting_episode(5, 3)
    return counting_episode(5, 3, observations=episode.observations | leaves)


def without(key):
    episode = counting_episode(5, 3)
    return counting_episode(
        5, 3, observations={name: rows for name, rows in episode.observations.items() if name != key}
    )


BAD = {
    "a missing key": (without("achieved_goal"), "observations/achieved_goal is missing in the episode"),
    "nothing observed": (without("observation"), "observations/observation is missing in the episode"),
    "no goal": (without("desired_goal"), "observations/desired_goal is missing in the episode"),
    "an observation of another shape": (
        with_observations(observation=np.zeros((4, 3))),
        "observations/observation of the episode must have shape (4, 2), got (4, 3)",
    ),
    "complex observations": (
        with_observations(observation=np.zeros((4, 2), complex)),
        "observations/observation of the episode must hold numbers of dtype float64, got complex128",
    ),
    "observations of one array": (
        with_part(observations=np.zeros((4, 2))),
        "observations/achieved_goal is missing in the episode",
    ),
    "a goal of another shape": (
        with_observations(desired_goal=np.zeros((4, 3))),
        "observations/desired_goal of the episode must have shape (4, 2), got (4, 3)",
    ),
    "goals of words": (
        with_observations(achieved_goal=np.full((4, 2), "a")),
        "observations/achieved_goal of the episode must hold numbers of dtype float64, got <U1",
    ),
    "actions of another shape": (
        with_part(actions=np.zeros((3, 2))), "actions of the episode must have shape (3, 1), got (3, 2)",
    ),
    "actions by key": (
        with_part(actions={"turn": np.zeros((3, 1))}),
        "actions of the episode must have shape (3, 1), got ()",
    ),
    "a reward that is NaN": (
        with_part(rewards=np.array([-1, np.nan, -1])), "rewards must be finite as float32, got nan at step 1",
    ),
    "a reward that is too large": (
        with_part(rewards=np.array([-1, 1e39, -1])),
        "rewards must be finite as float32, got 1e+39 at step 1",
    ),
    "a last reward that is infinite": (
        with_part(rewards=np.array([-1, -1, np.inf])), "rewards must be finite as float32, got inf at step 2",
    ),
    "a reward that is infinite": (
        with_part(rewards=np.array([-np.inf, -1, -1])),
        "rewards must be finite as float32, got -inf at step 0",
    ),
    "an episode too long": (
        counting_episode(5, 31),
        "an episode must fit the buffer of 30 transitions, got 31 steps; "
        "raise buffer_size or cut episodes with EpisodeRecorder(max_episode_steps=)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_an_episode_that_does_not_fit_is_an_error(bad):
    episode, message = BAD[bad]
    assert_refused(filled(), [episode], ValueError, f"^{re.escape(message)}$")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 6, 10])
def test_the_error_for_many_episodes_names_the_bad_one_and_none_is_stored(bad, place):
    episode, message = BAD[bad]
    episodes = [counting_episode(number, 2) for number in range(10)]
    episodes.insert(place, episode)
    episodes.append(episode)
    assert_refused(filled(), episodes, ValueError, f"^{re.escape(f'episodes[{place}]: {message}')}$")


def test_the_error_for_concatenated_episodes_names_the_bad_one():
    rewards = np.full(12, -1.0)
    rewards[7] = np.inf
    good = Episodes.of([counting_episode(number, 3) for number in range(4)])
    episodes = Episodes(
        good.observations, good.actions, rewards, good.lengths, good.terminated, good.truncated
    )
    message = "episodes[2]: rewards must be finite as float32, got inf at step 1"
    assert_refused(filled(), episodes, ValueError, f"^{re.escape(message)}$")


def test_episodes_that_fit_alone_fit_together():
    """Episodes with different dtypes or additional keys are stored as exactly in one list as one by one."""
    plain, more = counting_episode(0, 3), counting_episode(1, 3)
    more.observations["camera"] = np.zeros((4, 9))
    wide = counting_episode(2, 3)
    wide.observations["achieved_goal"] = wide.observations["achieved_goal"].astype(np.float64)
    together, one_by_one = filled(), filled()
    together.add_episodes([plain, more, wide])
    for episode in (plain, more, wide):
        one_by_one.add_episode(episode)
    assert_same_episodes(together.episodes(), one_by_one.episodes())


def test_large_integers_are_exact_next_to_floats():
    space = spaces.Dict({key: spaces.Box(-(2**62), 2**62, (1,), np.int64) for key in SPACE})
    exact = 2**53 + 1
    episodes = []
    for dtype in (np.int64, np.float64, np.int64):
        goals = np.full((3, 1), exact - (dtype is np.float64), dtype)
        rows = dict.fromkeys(SPACE, goals)
        episodes.append(Episode(rows, np.zeros((2, 1)), np.zeros(2), terminated=False, truncated=True))
    buffer = HindsightReplayBuffer(space, ACTIONS, buffer_size=20, n_sampled_goal=0)
    buffer.add_episodes(episodes)
    found = [int(episode.observations["achieved_goal"][0, 0]) for episode in buffer.episodes()]
    assert found == [exact, exact - 1, exact]


def test_the_error_for_an_element_that_is_not_an_episode_names_its_position():
    episodes = [counting_episode(0, 3), {"observations": []}]
    assert_refused(filled(), episodes, TypeError, r"^episodes\[1\] must be an Episode, got dict$")


def test_the_error_for_an_episode_without_infos_names_it():
    buffer = counting_buffer(info_keys=["cost"], buffer_size=30)
    episodes = [counting_episode(number, 3, infos=costs(number, 3)) for number in range(4)]
    buffer.add_episodes(episodes)
    message = (
        "episodes[4]: infos/cost is missing in the episode; "
        "record it with EpisodeRecorder(info_keys=['cost'])"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        buffer.add_episodes([*episodes, counting_episode(4, 3, infos={"force": np.zeros(3)})])
    assert buffer.num_episodes == 4


@pytest.mark.parametrize("method", ["add_episodes", "extend"])
def test_an_argument_that_is_not_an_iterable_of_episodes_is_an_error(method):
    buffer = filled()
    for given, message in (
        (counting_episode(0, 3), f"{method} takes an iterable of episodes, got one Episode; use add_episode"),
        (5, f"{method} takes an iterable of episodes, got int"),
    ):
        with pytest.raises(TypeError, match=f"^{message}$"):
            getattr(buffer, method)(given)
    assert buffer.num_episodes == 3


def test_an_element_of_a_source_that_is_not_an_episode_is_an_error():
    with pytest.raises(TypeError, match=r"^extend takes episodes, got dict$"):
        filled().extend([{"observations": []}])


def raising(*arguments):
    raise ZeroDivisionError("a wheel came off")


WRONG = {
    "raises": (raising, ZeroDivisionError, "a wheel came off"),
    "one number": (
        lambda *_: -1.0,
        ValueError,
        r"must return numbers of shape \(\d+,\) for \d+ steps, got float64",
    ),
    "a column": (
        lambda a, d, i: compute_reward(a, d, i)[:, None],
        ValueError,
        r"got float64 of shape \(\d+, 1\)",
    ),
    "too few": (
        lambda a, d, i: compute_reward(a, d, i)[1:],
        ValueError,
        r"must return numbers of shape \(\d+,\)",
    ),
    "words": (lambda a, d, i: np.full(len(a), "no"), ValueError, r"got <U2 of shape"),
    "complex": (lambda a, d, i: np.zeros(len(a), complex), ValueError, "got complex128 of shape"),
    "objects": (lambda a, d, i: [None] * len(a), ValueError, "got object of shape"),
    "nothing": (lambda *_: None, ValueError, r"got object of shape \(\)"),
    "not a number": (
        lambda a, d, i: np.full(len(a), np.nan),
        ValueError,
        "must return finite numbers, got nan at row 0",
    ),
    "too large": (
        lambda a, d, i: np.full(len(a), 1e39),
        ValueError,
        "must return finite numbers, got inf at row 0",
    ),
}


@pytest.mark.arrays_only(
    "errors of tensors differ, and their values are not checked: see test_unusable_devices.py"
)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["compute_reward", "reward_fn"])
def test_wrong_rewards_are_an_error_in_add_and_sample(name, wrong):
    function, error, message = WRONG[wrong]
    broken = False

    def goal_reward(achieved, desired, info):
        return (function if broken else compute_reward)(achieved, desired, info)

    def batch_reward(batch):
        return goal_reward(batch.next_observations["achieved_goal"], batch.observations["desired_goal"], {})

    functions = {"compute_reward": goal_reward} if name == "compute_reward" else {"reward_fn": batch_reward}
    buffer = filled(**{"compute_reward": None} | functions)
    broken = True
    with pytest.raises(error, match=message) as caught:
        buffer.sample(16)
    assert name in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    with pytest.raises(error, match=message):
        buffer.add_episode(counting_episode(8, 29))
    broken = False
    buffer.verify()
    assert (len(buffer), buffer.num_episodes) == (12, 3)
    assert len(buffer.sample(16)) == 16
    buffer.add_episode(counting_episode(8, 29))
    assert len(buffer) == 30 - 1


def test_an_exception_in_compute_terminated_has_a_note_with_its_name():
    buffer = filled(
        compute_terminated=lambda a, d, i: raising() if len(a) > 3 else compute_terminated(a, d, i)
    )
    with pytest.raises(ZeroDivisionError) as caught:
        buffer.sample(16)
    assert caught.value.__notes__ == [
        "compute_terminated raised this when called for a batch of steps; "
        "the stored transitions are unchanged"
    ]
    assert len(buffer) == 12


def test_an_episode_with_arrays_of_wrong_lengths_is_an_error_when_it_is_created():
    with pytest.raises(ValueError, match=r"observations must have 4 rows, got shape \(3, 2\)"):
        Episode(np.zeros((3, 2)), np.zeros((3, 1)), np.zeros(3), terminated=False, truncated=True)


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("values", [(2**53 + 1, 0.5), (0.5, 2**53 + 1)])
def test_large_integer_infos_next_to_floats_are_an_error_also_one_by_one(values, device):
    buffer = counting_buffer(info_keys=["cost"], buffer_size=30, device=device)
    first, second = (
        counting_episode(number, 3, infos={"cost": np.full(3, value)}) for number, value in enumerate(values)
    )
    buffer.add_episode(first)
    message = "infos/cost has arrays of float64 and int64, and float64 does not hold all their values"
    for add, episodes in ((buffer.add_episode, second), (buffer.add_episodes, [first, second])):
        with pytest.raises(ValueError, match=message):
            add(episodes)
        buffer.verify()
        assert_same_episodes(buffer.episodes(), [first])


def test_small_integer_infos_may_become_floats():
    buffer = counting_buffer(info_keys=["cost"], buffer_size=30)
    for number, value in enumerate((1, 0.5, 2**53)):
        buffer.add_episode(counting_episode(number, 3, infos={"cost": np.full(3, value)}))
    assert [episode.infos["cost"][0] for episode in buffer.episodes()] == [1, 0.5, 2**53]
