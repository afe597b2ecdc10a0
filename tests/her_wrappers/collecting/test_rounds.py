"""Rounds of a collector: their episodes, the states of the policy, and continuing from a saved state."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from her_wrappers.collecting import Collector
from tests.support.collecting import (
    Noisy,
    Walk,
    assert_same_rounds,
    collect,
    collect_with_updates,
    two_walks,
)
from tests.support.equality import assert_same_episodes


def test_processes_return_the_episodes_of_one_process_bit_for_bit():
    assert_same_rounds(collect("process", 3), collect("local", 3))


def test_each_environment_plays_its_number_of_episodes_and_no_more():
    """Episodes have random lengths, so that some environments end before others."""
    for episodes in collect("local", num_workers=3, num_envs=4):
        assert len(episodes) == 3 * 4 * 2
        assert episodes.terminated.all()
        assert len(np.unique(episodes.lengths)) > 1


def test_workers_are_joined_in_their_order():
    """In the first two rounds, the episodes of a worker do not depend on the number of workers."""
    rounds = (collect("local", 2, num_workers=workers) for workers in (1, 2))
    for one, two in zip(*rounds, strict=True):
        assert_same_episodes(one, two[:6])


class Marks(Noisy):
    """A policy whose actions equal its state, so that rewards identify the state that a round used."""

    def __call__(self, observations):
        return np.full((len(observations), 1), self.gain)


def test_a_round_is_played_with_the_state_given_after_the_round_before_the_last():
    gains, ages = [], []
    with Collector(Walk, Marks()) as collector:
        for each in collector.rounds():
            gains.append(each.episodes.rewards[0])
            ages.append(each.policy_age)
            if each.number == 6:
                break
            if each.number != 3:  # no update: the latest state stays in use
                collector.update({"gain": each.number / 10})
    assert gains == [0.1, 0.1, 0.0, 0.1, 0.2, 0.2, 0.4]
    assert ages == [1, 2, 2, 2, 2, 3, 2]


def test_a_state_is_copied_when_it_is_given():
    state = {"gain": 0.5}
    with Collector(Walk, Marks()) as collector:
        rounds = collector.rounds()
        next(rounds)
        collector.update(state)
        state["gain"] = -1.0
        assert [next(rounds).episodes.rewards[0] for _ in range(3)] == [0.1, 0.5, 0.5]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_another_collector_continues_from_a_state_with_the_same_episodes(after):
    whole = collect("local", 6)
    settings = {"num_workers": 2, "num_envs": 3, "seed": 7, "info_keys": ["place"]}
    with Collector(Walk, Noisy(), **settings) as first:
        begun = collect_with_updates(first, after) if after else []
        saved = first.state_dict()
    message = "a collector with seed=7, but this collector has seed=8"
    with (
        Collector(Walk, Noisy(), **settings | {"seed": 8}) as other,
        pytest.raises(ValueError, match=message),
    ):
        other.load_state_dict(saved)
    with Collector(Walk, Noisy(), **settings) as second:
        second.load_state_dict(saved)
        assert_same_rounds(begun + collect_with_updates(second, 6 - after), whole)


def test_rounds_can_be_left_and_called_again():
    with Collector(Walk, Noisy()) as collector:
        numbers = [next(iter(collector.rounds())).number for _ in range(3)]
        assert numbers == [0, 1, 2]
        with pytest.raises(
            ValueError, match=r"episodes_per_env must stay 1, got .*, as workers already play round 3"
        ):
            next(iter(collector.rounds(2)))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_environments_in_all_autoreset_modes_play_whole_episodes(mode):
    def make_envs():
        return two_walks(mode)

    rounds = collect("local", make_env=make_envs, num_envs=None)
    assert [len(episodes) for episodes in rounds] == [8] * 4
    assert all(episodes.terminated.all() for episodes in rounds)


def test_a_module_that_registers_its_environments_in_the_worker_too_causes_no_warning(
    tmp_path, monkeypatch, capfd
):
    """Workers get the registered environments of the program before they import the module."""
    code = "import gymnasium as gym\ngym.register('Registered-v0', 'tests.support.collecting:Walk')\n"
    (tmp_path / "registers_at_import.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    make_env = partial(gym.make, "registers_at_import:Registered-v0", disable_env_checker=True)
    make_env().close()
    with Collector(make_env, Noisy(), backend="process") as collector:
        next(collector.rounds(1))
    gym.registry.pop("Registered-v0")
    assert "Overriding" not in capfd.readouterr().err
