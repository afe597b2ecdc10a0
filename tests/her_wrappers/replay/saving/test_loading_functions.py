"""Files contain no functions, only state that functions computed; buffers can be loaded without functions."""

from __future__ import annotations

import re

import numpy as np
import pytest

from her_wrappers import HindsightReplayBuffer
from tests.support.buffers import FUNCTIONS, reloaded, wrapped
from tests.support.counting import (
    DESIRED,
    compute_reward,
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.support.equality import assert_same_batches, assert_same_episodes


def test_a_new_termination_function_determines_again_which_episodes_crashed(tmp_path):
    """For the new function the step is a normal termination, which the saved buffer classified as a crash."""

    def with_the_recorded_goal(achieved, desired, info):
        return desired[:, 1] == DESIRED

    buffer = counting_buffer(buffer_size=20, goal_selection_strategy="episode")
    buffer.add_episode(counting_episode(0, 3, terminated=True))
    for termination, crash in ((compute_terminated, True), (with_the_recorded_goal, False)):
        options = {"compute_reward": compute_reward, "termination": termination}
        batch = reloaded(buffer, tmp_path / "buffer", **options).sample(300)
        last_and_missed = batch.relabeled & (batch.rewards < 0) & (batch.index == 2)
        assert set(batch.terminations[last_and_missed]) == {crash}


def test_a_warning_is_not_repeated_after_loading(tmp_path):
    buffer = counting_buffer(compute_terminated=None)
    solved = counting_episode(1, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    solved.observations["desired_goal"][:] = [1, 3]
    unlike = counting_episode(0, 3, rewards=np.full(3, -2.0))
    with pytest.warns(UserWarning, match='pass termination="success"'):
        buffer.add_episode(solved)
    with pytest.warns(UserWarning, match="has the reward -2"):
        buffer.add_episode(unlike)
    twin = reloaded(buffer, tmp_path / "buffer", compute_reward=compute_reward)
    twin.add_episodes([solved, unlike])


def test_the_comparison_of_the_first_episodes_continues_after_loading(tmp_path):
    buffer = counting_buffer()
    buffer.add_episodes([counting_episode(number, 3) for number in range(9)])
    unlike = counting_episode(0, 3, rewards=np.full(3, -2.0))
    with pytest.warns(UserWarning, match="has the reward -2"):
        reloaded(buffer, tmp_path / "buffer").add_episode(unlike)
    buffer.add_episode(counting_episode(9, 3))
    reloaded(buffer, tmp_path / "buffer").add_episode(unlike)


def test_another_termination_rule_inspects_all_episodes_again(tmp_path):
    """The loaded buffer classifies recorded terminations, which the saved one with "keep" did not do."""
    for termination in ("success", "recompute", compute_terminated):
        inspected, kept = wrapped(termination=termination), wrapped(termination="keep")
        twin = reloaded(kept, tmp_path / "buffer", **FUNCTIONS, termination=termination)
        assert_same_batches(inspected, twin, [500])
    plain = wrapped(n_sampled_goal=0)
    assert_same_batches(wrapped(), reloaded(plain, tmp_path / "buffer", **FUNCTIONS, n_sampled_goal=4), [500])


def test_recomputed_terminations_are_never_silently_kept(tmp_path):
    with pytest.raises(ValueError, match=re.escape('termination="recompute" needs compute_terminated(')):
        reloaded(wrapped(), tmp_path / "buffer", compute_reward=compute_reward)
    reloaded(wrapped(), tmp_path / "buffer", compute_reward=compute_reward, termination="keep").sample(10)


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
        # the copy samples the same rows, half of which are relabeled
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
def test_episodes_added_without_functions_are_inspected_when_functions_are_given(tmp_path, termination):
    whole = wrapped(termination=termination, goal_selection_strategy="episode")
    whole.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer")
    crashed, solved = (counting_episode(number, 10, terminated=True) for number in (10, 11))
    solved.observations["desired_goal"][:, 1], solved.rewards[-1] = 10, 0
    for each in (whole, twin):
        each.extend([crashed, solved])
    own = {"termination": termination} if callable(termination) else {}
    assert_same_batches(whole, reloaded(twin, tmp_path / "buffer", **FUNCTIONS, **own), [500])


def test_a_warning_is_not_repeated_after_a_load_without_functions(tmp_path):
    buffer, paid = counting_buffer(), np.full(5, 7.0)
    with pytest.warns(UserWarning, match="step 0 of an episode has the reward 7"):
        buffer.add_episode(counting_episode(0, 5, rewards=paid))
    buffer.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer")
    twin.add_episode(counting_episode(1, 5, rewards=paid))
    again = reloaded(twin, tmp_path / "buffer", **FUNCTIONS)
    assert len(again) == 10
