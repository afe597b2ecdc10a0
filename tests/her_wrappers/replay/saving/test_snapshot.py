"""Saved buffers: what comes back goes on as if it had never been away, or is refused with a sentence."""

from __future__ import annotations

import re
import tracemalloc
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import EpisodeRecorder, Geometric, HindsightReplayBuffer, InUseError, Mixture, Priority
from her_wrappers.files.atomic import replacement
from her_wrappers.replay.goals.selection import final
from her_wrappers.replay.relabeling.rewards import GoalRewards
from her_wrappers.replay.storage import contents
from her_wrappers.trees import leaf_arrays
from tests.counting import (
    ACTIONS,
    DESIRED,
    SPACE,
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.her_wrappers.replay.buffers import transitions
from tests.her_wrappers.replay.odd_spaces import ODD_SPACES, image_buffer, image_episode, random_tree
from tests.her_wrappers.replay.relabeling.test_infos import (
    episode_with_costs,
    reward_of_columns,
    reward_of_rows,
)

FUNCTIONS = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}


def reloaded(buffer, path, **options):
    """What comes back of a buffer; counting functions unless others are given."""
    buffer.save(path)
    return HindsightReplayBuffer.load(path, **(options or FUNCTIONS))


def assert_same_tree(tree, other):
    """The same arrays in the same places, to the last bit."""
    if isinstance(tree, dict):
        assert tree.keys() == other.keys()
        for key, part in tree.items():
            assert_same_tree(part, other[key])
    elif isinstance(tree, tuple):
        for part, twin in zip(tree, other, strict=True):
            assert_same_tree(part, twin)
    else:
        assert (tree.dtype, tree.shape) == (other.dtype, other.shape)
        if tree.tobytes() != other.tobytes():
            np.testing.assert_array_equal(tree, other)
            raise AssertionError("the numbers are equal and the bits are not")


def assert_same_batches(buffer, twin, sizes=(16,) * 40):
    """Both give the same rows, in every part of the batch."""
    for size in sizes:
        batch, other = buffer.sample(size), twin.sample(size)
        for name in (
            "observations", "actions", "rewards", "next_observations", "terminations", "truncations",
            "discounts", "weights", "relabeled", "index", "episode", "goal_index", "strategy",
        ):  # fmt: skip
            assert_same_tree(getattr(batch, name), getattr(other, name))


def assert_same_episodes(some, others):
    """The same episodes in the same order, to the last bit."""
    for one, other in zip(some, others, strict=True):
        assert (one.terminated, one.truncated) == (other.terminated, other.truncated)
        for name in ("observations", "actions", "rewards", "infos"):
            assert_same_tree(getattr(one, name), getattr(other, name))


def wrapped(**options):
    """A buffer that is full and has been for a while, with crashes, goals reached, and goals that change."""
    buffer = counting_buffer(**{"buffer_size": 60} | options)
    for number, length in enumerate([9, 1, 30, 4, 17, 25, 1, 1, 13, 6]):
        episode = counting_episode(number, length, terminated=number % 3 == 0)
        if number % 2:
            episode.observations["desired_goal"][length // 2 :, 1] = -2
        buffer.add_episode(episode)
    return buffer


def own_strategy(t, length, rng):
    return rng.integers(t, length) + 1


# --- as if it had never been away -----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"goal_selection_strategy": "future"},
        {"goal_selection_strategy": "final", "n_sampled_goal": 1},
        {"goal_selection_strategy": "episode", "her_ratio": np.float32(0.7)},
        {"goal_selection_strategy": "geometric", "her_ratio": 1},
        {"goal_selection_strategy": Geometric(0.8), "skip_trivial": True},
        {"goal_selection_strategy": "random", "skip_trivial": np.True_},
        {"goal_selection_strategy": final, "n_sampled_goal": np.int64(2)},
        {"goal_selection_strategy": Mixture({"future": 0.5, "random": 0.3, "original": 0.2})},
        {"goal_selection_strategy": Mixture({Geometric(0.5): 0.5, "final": 0.25, final: 0.25})},
        {"n_sampled_goal": 0},
    ],
)
def test_a_loaded_buffer_goes_on_with_the_same_batches(tmp_path, options):
    """Also when some were drawn ahead, of another size, and when more is added to both."""
    for sampled in ([], [16], [16] * 6, [16, 16, 7], [10_000, 10_000]):
        buffer = wrapped(**options)
        for size in sampled:
            buffer.sample(size)
        twin = reloaded(buffer, tmp_path / "buffer")
        twin.verify()
        assert (len(twin), twin.num_episodes, twin.buffer_size) == (len(buffer), buffer.num_episodes, 60)
        assert_same_batches(buffer, twin, [16] * 40 + [7, 7, 300, 10_000])
        for number in range(10, 14):
            for each in (buffer, twin):
                each.add_episode(counting_episode(number, 2 * number, terminated=True))
            assert_same_batches(buffer, twin, [7] * 5)


@pytest.mark.parametrize("termination", [None, "recompute", "success", "keep", "never"])
def test_every_termination_comes_back_with_its_reasons(tmp_path, termination):
    buffer = wrapped(termination=termination)
    twin = reloaded(reloaded(buffer, tmp_path / "buffer"), tmp_path / "buffer")
    assert_same_batches(buffer, twin, [500, 500])


def test_functions_of_the_users_own_are_given_again(tmp_path):
    def termination(achieved, desired, info):
        return achieved[:, 1] % 2 == 0

    own = {"goal_selection_strategy": own_strategy, "termination": termination}
    buffer = wrapped(**own)
    for _ in range(5):
        buffer.sample(16)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, **own))

    buffer = wrapped(goal_selection_strategy=Mixture({own_strategy: 0.5, "future": 0.5}))
    twin = reloaded(
        buffer,
        tmp_path / "buffer",
        **FUNCTIONS,
        goal_selection_strategy=Mixture({own_strategy: 0.5, "future": 0.5}),
    )
    assert_same_batches(buffer, twin)


def test_an_empty_buffer_comes_back_and_goes_on(tmp_path):
    for buffer in (counting_buffer(buffer_size=30), wrapped()):
        buffer.clear()
        twin = reloaded(buffer, tmp_path / "buffer")
        assert (len(twin), twin.num_episodes, twin.can_sample) == (0, 0, False)
        for each in (buffer, twin):
            each.add_episode(counting_episode(0, 5))
        assert_same_batches(buffer, twin)


def test_the_open_episode_comes_back_and_goes_on(tmp_path):
    buffer = wrapped()
    steps = list(transitions(counting_episode(20, 8, terminated=True)))
    for transition in steps[:5]:
        buffer.add(*transition)
    twin = reloaded(buffer, tmp_path / "buffer")
    with pytest.raises(ValueError, match="obs does not follow on the next_obs before"):
        twin.add(*steps[0])
    for transition in steps[5:]:
        for each in (buffer, twin):
            each.add(*transition)
    assert_same_batches(buffer, twin)
    assert_same_episodes(buffer.episodes(), twin.episodes())


def test_what_is_drawn_ahead_survives_another_layout_of_memory(tmp_path):
    """Another capacity has the rows elsewhere; indices, goals and what is drawn are the same."""
    buffer = wrapped()
    for _ in range(4):
        buffer.sample(16)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, buffer_size=61))


@pytest.mark.parametrize("taken", range(1, 9))
@pytest.mark.parametrize("options", [{}, {"n_steps": 3}, {"prioritized": Priority()}])
def test_what_users_write_to_their_batches_is_in_no_file(tmp_path, taken, options):
    buffer, twin = wrapped(**options), wrapped(**options)
    for _ in range(taken):
        batch = buffer.sample(8)
        twin.sample(8)
        for column in (batch.index, batch.relabeled, batch.weights):
            column[...] = -1
    again = reloaded(buffer, tmp_path / "buffer")
    batch = again.sample(8)
    assert_same_tree(batch.index, twin.sample(8).index)
    batch.index[...] = -1
    assert_same_batches(twin, reloaded(again, tmp_path / "buffer"))


def test_a_buffer_may_be_saved_again_and_again(tmp_path):
    buffer = wrapped()
    for number in range(10, 20):
        for _ in range(number % 4):
            buffer.sample(9)
        twin = reloaded(buffer, tmp_path / "buffer")
        assert_same_batches(buffer, twin, [9] * (number % 3))
        buffer = twin
        buffer.add_episode(counting_episode(number, number))
    assert_same_episodes(buffer.episodes(), [counting_episode(n, n) for n in (17, 18, 19)])


# --- every space, goal and info -------------------------------------------------------------------


@pytest.mark.parametrize("actions", ["discrete", "nested", "half"])
@pytest.mark.parametrize("name", ODD_SPACES)
def test_every_space_of_arrays_comes_back_exactly(tmp_path, name, actions):
    observation, goal = ODD_SPACES[name]
    space = spaces.Dict(
        observation=observation, achieved_goal=goal, desired_goal=goal, extra=spaces.Discrete(2)
    )
    action_space = ODD_SPACES[actions][0]
    functions = {"compute_reward": lambda a, d, i: (a == d).reshape(len(a), -1).all(-1) + -1.0}
    buffer = HindsightReplayBuffer(
        space, action_space, buffer_size=30, termination="keep", seed=0, **functions
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rewards are anything
        for length in (7, 1, 12, 9, 8):
            episode = counting_episode(
                0,
                length,
                observations=random_tree(space, length + 1),
                actions=random_tree(action_space, length),
            )
            buffer.add_episode(episode)
    twin = reloaded(buffer, tmp_path / "buffer", **functions)
    assert (twin.observation_space, twin.action_space) == (space, action_space)
    assert_same_episodes(buffer.episodes(), twin.episodes())
    assert_same_batches(buffer, twin, [50])


@pytest.mark.parametrize("first_apart", [0, 2, 9])
def test_pictures_come_back_however_they_are_shared_and_part_ways_later(tmp_path, first_apart):
    buffer = image_buffer(buffer_size=60, seed=0)
    for number in range(4):
        buffer.add_episode(image_episode(number, 12, apart=number >= first_apart))
    options = {"compute_reward": buffer._parts.relabeling._rewards.function}
    twin = reloaded(buffer, tmp_path / "buffer", **options)
    for number in range(4, 9):
        assert twin.nbytes == buffer.nbytes
        assert_same_batches(buffer, twin, [30])
        for each in (buffer, twin):
            each.add_episode(image_episode(number, 12, apart=number >= 6))
    assert_same_episodes(buffer.episodes(), twin.episodes())


def test_a_picture_is_written_once_for_all_that_show_it(tmp_path):
    buffer = image_buffer(buffer_size=500, seed=0)
    for number in range(10):
        buffer.add_episode(image_episode(number, 50))
    buffer.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").stat().st_size < 1.1 * 36 * 36 * 520


def test_numpy_opens_the_file_too(tmp_path):
    buffer = wrapped()
    buffer.save(tmp_path / "buffer")
    with np.load(tmp_path / "buffer", allow_pickle=False) as arrays:
        expected = np.concatenate([episode.actions for episode in buffer.episodes()])
        np.testing.assert_array_equal(arrays["0/actions"], expected)


def test_goals_come_back_to_the_last_bit_wherever_they_change(tmp_path):
    rng = np.random.default_rng(0)
    buffer, episodes = counting_buffer(), []
    for number in range(30):
        episode = counting_episode(number, 20)
        changes = rng.integers(3, size=21) == 0
        values = rng.choice([0.0, -0.0, np.nan, 1.0, np.nextafter(1, 2)], size=(21, 2))
        episode.observations["desired_goal"][:] = values[np.maximum.accumulate(np.arange(21) * changes)]
        episodes.append(episode)
    buffer.add_episodes(episodes)
    twin = reloaded(buffer, tmp_path / "buffer")
    assert_same_episodes(buffer.episodes(), episodes)
    assert_same_episodes(twin.episodes(), episodes)
    assert_same_batches(buffer, twin, [300])


@pytest.mark.parametrize(("function", "form"), [(reward_of_rows, "list"), (reward_of_columns, "columns")])
def test_infos_come_back_in_their_form(tmp_path, function, form):
    buffer = counting_buffer(
        compute_reward=function, info_keys=["cost", "force"], info_format=form, buffer_size=20
    )
    for number, length in enumerate([9, 5, 8]):
        buffer.add_episode(episode_with_costs(number, length))
    twin = reloaded(
        buffer, tmp_path / "buffer", compute_reward=function, compute_terminated=compute_terminated
    )
    assert_same_batches(buffer, twin)
    assert_same_episodes(buffer.episodes(), twin.episodes())
    for each in (buffer, twin):
        each.add_episode(episode_with_costs(4, 11))
    assert_same_batches(buffer, twin)


def test_an_open_episode_brings_its_infos(tmp_path):
    options = {"compute_reward": reward_of_columns, "compute_terminated": compute_terminated}
    buffer = counting_buffer(info_keys=["cost", "force"], info_format="columns", **options)
    episode = episode_with_costs(2, 5)
    for t, transition in enumerate(transitions(episode)):
        buffer.add(*transition[:6], {key: column[t] for key, column in episode.infos.items()})
        buffer = reloaded(buffer, tmp_path / "buffer", **options)
    [found] = buffer.episodes()
    np.testing.assert_array_equal(found.infos["force"], episode.infos["force"], strict=True)


def test_an_environment_of_our_own_gives_the_functions(tmp_path):
    env = gym.make("her_envs:her_envs/PointPush-v0")
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=400, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.action_space.seed(0)
    for seed in range(5):
        recorder.reset(seed=seed)
        for _ in range(100):
            recorder.step(recorder.action_space.sample())
    buffer.sample(64)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer", env=env), [64] * 10)


# --- what was learned -----------------------------------------------------------------------------


@pytest.mark.arrays_only("of tensors nobody looks at the values of rewards")
def test_the_rewards_that_success_goes_by_come_back(tmp_path):
    """The values are known from before: rewards of another scale are refused."""
    buffer = wrapped(termination="success")
    twin = reloaded(buffer, tmp_path / "buffer")
    twin._parts.relabeling._rewards = GoalRewards(lambda a, d, i: 10 + compute_reward(a, d, i))
    with pytest.raises(ValueError, match=r"needs rewards of two values.*got -1, 0, 9"):
        twin.sample(100)


def test_a_function_given_for_terminations_decides_anew_what_was_a_crash(tmp_path):
    """What the saved buffer took for a crash, the new function explains by the recorded goal."""

    def with_the_recorded_goal(achieved, desired, info):
        return desired[:, 1] == DESIRED

    buffer = counting_buffer(buffer_size=20, goal_selection_strategy="episode")
    buffer.add_episode(counting_episode(0, 3, terminated=True))
    for termination, crash in ((compute_terminated, True), (with_the_recorded_goal, False)):
        options = {"compute_reward": compute_reward, "termination": termination}
        batch = reloaded(buffer, tmp_path / "buffer", **options).sample(300)
        last_and_missed = batch.relabeled & (batch.rewards < 0) & (batch.index == 2)
        assert set(batch.terminations[last_and_missed]) == {crash}


def test_a_warning_that_came_does_not_come_again(tmp_path):
    buffer = counting_buffer(compute_terminated=None)
    solved = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    solved.observations["desired_goal"][:] = [1, 3]
    unlike = counting_episode(0, 3, rewards=np.full(3, -2.0))
    with pytest.warns(UserWarning, match='pass termination="success"'):
        buffer.add_episode(solved)
    with pytest.warns(UserWarning, match="was paid -2"):
        buffer.add_episode(unlike)
    twin = reloaded(buffer, tmp_path / "buffer", compute_reward=compute_reward)
    twin.add_episodes([solved, unlike])


def test_the_comparison_of_first_episodes_goes_on_where_it_was(tmp_path):
    buffer = counting_buffer()
    buffer.add_episodes([counting_episode(number, 3) for number in range(9)])
    unlike = counting_episode(0, 3, rewards=np.full(3, -2.0))
    with pytest.warns(UserWarning, match="was paid -2"):
        reloaded(buffer, tmp_path / "buffer").add_episode(unlike)
    buffer.add_episode(counting_episode(9, 3))
    reloaded(buffer, tmp_path / "buffer").add_episode(unlike)


def test_another_termination_learns_from_all_episodes_again(tmp_path):
    """A crash is known as one although the saved buffer did not look for any."""
    for termination in ("success", "recompute", compute_terminated):
        asked, kept = wrapped(termination=termination), wrapped(termination="keep")
        twin = reloaded(kept, tmp_path / "buffer", **FUNCTIONS, termination=termination)
        assert_same_batches(asked, twin, [500])
    plain = wrapped(n_sampled_goal=0)
    assert_same_batches(wrapped(), reloaded(plain, tmp_path / "buffer", **FUNCTIONS, n_sampled_goal=4), [500])


def test_recomputed_terminations_are_never_silently_kept(tmp_path):
    with pytest.raises(ValueError, match=re.escape('termination="recompute" needs compute_terminated(')):
        reloaded(wrapped(), tmp_path / "buffer", compute_reward=compute_reward)
    reloaded(wrapped(), tmp_path / "buffer", compute_reward=compute_reward, termination="keep").sample(10)


# --- without functions ----------------------------------------------------------------------------


def test_without_functions_all_works_but_relabeling(tmp_path):
    buffer = wrapped(n_sampled_goal=1)
    buffer.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer")
    assert_same_episodes(buffer.episodes(), twin.episodes())
    message = (
        "relabeled transitions need their rewards computed, and the buffer was loaded without functions; "
        "load it with env=, compute_reward= or reward_fn="
    )
    sampled = 0
    for _ in range(20):
        # the twin draws the same rows, of which half are relabeled
        if buffer.sample(1).relabeled[0]:
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                twin.sample(1)
        else:
            assert not twin.sample(1).relabeled[0]
            sampled += 1
    assert 0 < sampled < 20
    twin.verify()


def test_a_plain_replay_buffer_is_loaded_without_functions(tmp_path):
    buffer = wrapped(n_sampled_goal=0)
    buffer.save(tmp_path / "buffer")
    assert_same_batches(buffer, HindsightReplayBuffer.load(tmp_path / "buffer"))
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", her_ratio=0)
    assert not twin.sample(50).relabeled.any()


@pytest.mark.parametrize("termination", ["recompute", "success", compute_terminated])
def test_what_is_added_without_functions_is_learned_from_when_they_are_back(tmp_path, termination):
    whole = wrapped(termination=termination, goal_selection_strategy="episode")
    whole.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer")
    crashed, solved = (counting_episode(number, 10, terminated=True) for number in (10, 11))
    solved.observations["desired_goal"][:, 1], solved.rewards[-1] = 10, 0
    for each in (whole, twin):
        each.extend([crashed, solved])
    own = {"termination": termination} if callable(termination) else {}
    assert_same_batches(whole, reloaded(twin, tmp_path / "buffer", **FUNCTIONS, **own), [500])


def test_a_warning_that_has_come_does_not_come_again_after_a_time_without_functions(tmp_path):
    buffer, paid = counting_buffer(), np.full(5, 7.0)
    with pytest.warns(UserWarning, match="step 0 of an episode was paid 7"):
        buffer.add_episode(counting_episode(0, 5, rewards=paid))
    buffer.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer")
    twin.add_episode(counting_episode(1, 5, rewards=paid))
    again = reloaded(twin, tmp_path / "buffer", **FUNCTIONS)
    assert len(again) == 10


# --- other options --------------------------------------------------------------------------------


def test_a_smaller_buffer_keeps_the_newest_episodes(tmp_path):
    buffer = wrapped()
    lengths = [len(episode) for episode in buffer.episodes()]
    for _ in range(4):
        buffer.sample(16)
    twin = reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, buffer_size=26)
    kept = list(buffer.episodes())[-4:]
    assert sum(map(len, kept)) <= 26 < sum(lengths[-5:])
    assert_same_episodes(twin.episodes(), kept)
    twin.verify()
    newest = int(buffer.sample(2000).index.max())
    assert set(twin.sample(2000).index) == set(range(newest + 1 - len(twin), newest + 1))
    again = reloaded(twin, tmp_path / "buffer")
    assert again.buffer_size == 26


def test_an_episode_that_does_not_fit_the_smaller_buffer_is_named(tmp_path):
    with pytest.raises(
        ValueError,
        match="must fit the buffer of 9 transitions, got 25 steps; raise buffer_size",
    ):
        reloaded(wrapped(), tmp_path / "buffer", **FUNCTIONS, buffer_size=9)


def test_another_seed_begins_anew(tmp_path):
    buffer = wrapped()
    twins = [reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, seed=seed) for seed in (7, 7, 8)]
    assert_same_batches(*twins[:2])
    assert not np.array_equal(twins[1].sample(50).index, twins[2].sample(50).index)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"goal_selection_strategy": "final"}, {"final", "original"}),
        ({"her_ratio": 1}, {"future"}),
        ({"goal_selection_strategy": Mixture({"random": 0.5, "original": 0.5})}, {"random", "original"}),
        ({"goal_selection_strategy": "episode", "n_sampled_goal": 0}, {"original"}),
    ],
)
def test_other_shares_and_strategies_may_be_chosen(tmp_path, options, names):
    buffer = wrapped(n_sampled_goal=4)
    buffer.sample(50)
    assert set(reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, **options).sample(50).strategy) == names


@pytest.mark.parametrize(
    ("saved", "options", "message"),
    [
        (
            {"goal_selection_strategy": own_strategy},
            {},
            "goal_selection_strategy of the saved buffer has a function of the user's own, 'own_strategy', "
            "which no file holds; pass goal_selection_strategy= to load",
        ),
        (
            {"goal_selection_strategy": Mixture({"future": 0.5, own_strategy: 0.5})},
            {},
            "goal_selection_strategy of the saved buffer has a function of the user's own, 'own_strategy', "
            "which no file holds; pass goal_selection_strategy= to load",
        ),
        (
            {"termination": compute_terminated},
            {},
            "termination of the saved buffer has a function of the user's own, 'compute_terminated', "
            "which no file holds; pass termination= to load",
        ),
        (
            {},
            {"info_keys": ["cost"]},
            "info_keys must be those of the saved buffer, [], whose infos are in the file, got ['cost']; "
            "leave them out",
        ),
        ({}, {"buffer_size": 0}, "buffer_size must be a whole number >= 1, got 0"),
        (
            {},
            {"n_sampled_goal": 1, "her_ratio": 0.5},
            "the relabeled share must be given once, got n_sampled_goal and her_ratio",
        ),
    ],
)
def test_options_that_cannot_be_are_refused_with_a_sentence(tmp_path, saved, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        reloaded(wrapped(**saved), tmp_path / "buffer", **FUNCTIONS, **options)


def test_an_unknown_option_is_refused(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'buffersize'"):
        reloaded(wrapped(), tmp_path / "buffer", **FUNCTIONS, buffersize=10)


@pytest.mark.parametrize("info_keys", ["cost", 5, None])
def test_keys_of_infos_that_are_no_list_of_strings_are_refused(tmp_path, info_keys):
    with pytest.raises(TypeError, match="info_keys must be a list of strings, got "):
        reloaded(wrapped(), tmp_path / "buffer", **FUNCTIONS, info_keys=info_keys)


def test_an_environment_of_other_spaces_is_refused_by_the_part_that_differs(tmp_path):
    buffer = wrapped()
    buffer.save(tmp_path / "buffer")
    with pytest.raises(
        ValueError,
        match=r"env must have the spaces of the buffer in .*: observation/achieved_goal is Box\(-inf",
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer", gym.make("her_envs:her_envs/PointReach-v0"))
    with pytest.raises(TypeError, match="expected a gymnasium Env or VectorEnv, got str"):
        HindsightReplayBuffer.load(tmp_path / "buffer", "her_envs/PointReach-v0")


def test_a_space_that_no_file_describes_is_refused_and_the_old_file_stays(tmp_path):
    wrapped().save(tmp_path / "buffer")
    before = (tmp_path / "buffer").read_bytes()
    buffer = HindsightReplayBuffer(SPACE, spaces.Space((1,), np.float64), n_sampled_goal=0)
    with pytest.raises(TypeError, match="expected a space that JSON can describe, got <"):
        buffer.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["buffer"]


def test_places_that_cannot_be_written_to_are_refused_and_the_buffer_goes_on(tmp_path):
    buffer = wrapped()
    with pytest.raises(FileNotFoundError):
        buffer.save(tmp_path / "nowhere" / "buffer")
    with pytest.raises(IsADirectoryError, match="expected the path of a file, got the folder"):
        buffer.save(tmp_path)
    with (
        replacement(tmp_path / "buffer"),
        pytest.raises(InUseError, match="is being written by another process or thread"),
    ):
        buffer.save(tmp_path / "buffer")
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer"))


# --- memory ---------------------------------------------------------------------------------------


@pytest.fixture
def peak():
    """Function that returns the most bytes allocated since the last call."""
    tracemalloc.start()

    def read():
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        return most

    yield read
    tracemalloc.stop()


def test_saving_and_loading_take_little_memory_beside_the_buffer(tmp_path, peak):
    space = spaces.Dict(
        observation=spaces.Box(-1, 1, (200,), np.float64),
        achieved_goal=SPACE["achieved_goal"],
        desired_goal=SPACE["desired_goal"],
    )
    buffer = HindsightReplayBuffer(space, ACTIONS, buffer_size=100_000, **FUNCTIONS)
    episodes = [
        counting_episode(
            n, 50, observations=counting_episode(n, 50).observations | {"observation": np.zeros((51, 200))}
        )
        for n in range(100)
    ]
    for _ in range(21):
        buffer.add_episodes(episodes)
    held = tracemalloc.get_traced_memory()[0]
    peak()
    buffer.save(tmp_path / "buffer")
    assert peak() < held + buffer.nbytes / 3
    assert (tmp_path / "buffer").stat().st_size > 0.9 * buffer.nbytes
    for _ in buffer.episodes():
        pass
    assert peak() < held + buffer.nbytes / 3
    nbytes = buffer.nbytes
    del buffer
    held = tracemalloc.get_traced_memory()[0]
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
    assert peak() < held + 4 / 3 * nbytes
    assert len(twin) == 100_000


# --- episodes -------------------------------------------------------------------------------------


def test_a_buffer_filled_with_the_episodes_of_another_equals_it():
    for options in ({}, {"buffer_size": 1000}, {"n_sampled_goal": 0}):
        buffer, copy = wrapped(**options), counting_buffer(**options)
        copy.extend(buffer.episodes())
        assert_same_episodes(buffer.episodes(), copy.episodes())
        assert (len(copy), copy.num_episodes) == (len(buffer), buffer.num_episodes)


def test_episodes_come_as_they_were_added_in_memory_of_their_own():
    added = [
        counting_episode(number, length, terminated=number == 2) for number, length in enumerate([4, 1, 7])
    ]
    buffer = counting_buffer()
    buffer.add_episodes(added)
    for _ in range(2):
        found = list(buffer.episodes())
        assert_same_episodes(found, added)
        arrays = [leaf for e in found for leaf in leaf_arrays((e.observations, e.actions, e.rewards))]
        assert all(array.base is None for array in arrays)
        for array in arrays:
            array[...] = 99


def test_episodes_may_be_added_and_evicted_while_others_are_read(monkeypatch):
    monkeypatch.setattr(contents, "PART_BYTES", 1)
    monkeypatch.setattr(contents, "MOST_PARTS", 100)
    buffer = counting_buffer(buffer_size=20)
    for number in range(4):
        buffer.add_episode(counting_episode(number, 5))
    iterator = buffer.episodes()
    numbers = [int(next(iterator).actions[0, 0])]
    buffer.add_episodes([counting_episode(number, 5) for number in (4, 5)])
    numbers += [int(episode.actions[0, 0]) for episode in iterator]
    assert numbers == [0, 2, 3], "1 is evicted before it is read, 4 and 5 came later"
    iterator = buffer.episodes()
    next(iterator)
    buffer.clear()
    assert list(iterator) == []


def test_parts_of_any_size_are_all_there(tmp_path, monkeypatch):
    for part_bytes in (1, 300, 2000, 10**9):
        monkeypatch.setattr(contents, "PART_BYTES", part_bytes)
        for most in (1, 3, 1000):
            monkeypatch.setattr(contents, "MOST_PARTS", most)
            buffer = wrapped()
            assert_same_episodes(buffer.episodes(), list(buffer.episodes()))
            assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer"), [100])
