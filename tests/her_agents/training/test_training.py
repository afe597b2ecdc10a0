"""The function `train`: environments, buffer and agent of a run, and its end."""

import signal
from contextlib import closing

import numpy as np
import pytest
import torch

from her_agents.algorithms.base import LOSS_INTERVAL
from her_agents.training.loop import epoch_line, interrupt_flag, train
from her_agents.training.run import open_run
from her_wrappers import HindsightReplayBuffer, NotFiniteError
from her_wrappers.collecting import CollectorError
from her_wrappers.goals import episode_limit
from her_wrappers.goals.episode_limit import EndlessEpisodeError
from tests.support.other_envs import NeedsInfo, Other
from tests.support.short_runs import tiny, without_time


def test_equal_configs_give_equal_histories_and_other_seeds_different_ones():
    histories = [without_time(train(tiny(seed=seed, steps=100)).history) for seed in (1, 1, 2)]
    assert histories[0] == histories[1] != histories[2]


def run_epochs(run, number):
    for _ in range(number):
        assert run.run_epoch(lambda: False, lambda run: None)


def other(name, **options):
    return tiny("ddpg", env=f"tests.support.other_envs:{name}", env_kwargs={}, **options)


WHOLE = [
    (tiny("dqn", steps=10_000), {5}),  # episodes also end at goals
    (tiny("ddpg", steps=10_000, env_kwargs={"max_steps": 55}), {55}),
    (other("Long", steps=10_000), {90}),
    (other("Endless", steps=10_000, max_episode_steps=70), {70}),
]


@pytest.mark.parametrize(("config", "lengths"), WHOLE)
def test_every_stored_episode_is_whole(config, lengths):
    with closing(open_run(config)) as run:
        run_epochs(run, 2)
        episodes = list(run.buffer.episodes())
        assert len(run.buffer) == run.counts.env_steps  # without the steps that only reset an environment
        assert [row["epoch"] for row in run.history] == [1, 2]
        assert len(episodes) >= 2 * config.num_envs
    assert {len(episode) for episode in episodes if not episode.terminated} <= lengths
    assert all("is_success" in episode.infos for episode in episodes)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_has_at_least_one_episode_of_each_environment(workers):
    """Also if an episode has more steps than an epoch."""
    config = other("Long", steps=700, workers=workers)
    history = train(config, on_epoch=None, backend="local").history
    assert [row["env_steps"] for row in history] == [360, 720]


@pytest.mark.parametrize(("name", "workers"), [("Endless", 0), ("Forgetful", 0), ("EndsOnlyAtGoals", 1)])
def test_endless_episodes_raise_an_error_that_names_the_option(name, workers, monkeypatch):
    monkeypatch.setattr(episode_limit, "MAX_EPISODE_STEPS", 60)
    message = "did not end after 60 steps; pass --max-episode-steps"
    with pytest.raises((EndlessEpisodeError, CollectorError), match=message):
        train(other(name, workers=workers), backend="local")
    config = other(name, workers=workers, max_episode_steps=20, steps=100)
    assert [row["mean_length"] for row in train(config, backend="local").history] == [20]


def test_ctrl_c_keeps_the_open_episodes_as_truncated():
    with closing(open_run(other("Endless", max_episode_steps=500))) as run:
        assert not run.run_epoch(lambda: run.counts.env_steps >= 100, lambda run: None)
        assert [len(episode) for episode in run.buffer.episodes()] == [25] * 4


def test_a_function_that_needs_an_info_is_an_error_before_the_first_step(monkeypatch):
    def reward(self, achieved_goal, desired_goal, info):
        return 0.0 if isinstance(info, dict) else np.array([each["speed"] for each in info])

    monkeypatch.setattr(NeedsInfo, "compute_reward", reward)
    monkeypatch.setattr(NeedsInfo, "inform", lambda *_: {"is_success": False, "speed": 0.0})
    with pytest.raises(ValueError, match=r"reads info 'speed'.*; pass info_keys=\['speed'\]"):
        train(other("NeedsInfo"))
    assert len(train(other("NeedsInfo", info_keys=["speed"], steps=100)).history) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_raises_keyboard_interrupt(number):
    around = signal.signal(number, signal.default_int_handler)  # background processes ignore SIGINT
    try:
        with interrupt_flag() as wanted:
            signal.raise_signal(number)
            assert wanted.is_set()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, around)


@pytest.mark.parametrize(("termination", "discount"), [("success", 0.0), ("never", np.float32(0.98))])
def test_termination_option_is_that_of_the_buffer(termination, discount):
    """The option overrides the environment's `compute_terminated`."""
    with closing(open_run(tiny(termination=termination))) as run:
        run_epochs(run, 1)
        batch = run.buffer.sample(256)
    reached = batch.relabeled & (batch.rewards == 0)
    assert (batch.discounts[reached] == discount).all()
    assert reached.any()


def test_prioritized_training_updates_the_priorities_with_td_errors(monkeypatch):
    given = []
    monkeypatch.setattr(
        HindsightReplayBuffer, "update_priorities", lambda _, *arguments: given.append(arguments)
    )
    with closing(open_run(tiny(prioritized=True))) as run:
        run_epochs(run, 1)
        assert len(given) == run.counts.updates > 0
        index, errors = given[-1]
    assert index.shape == (32,)
    np.testing.assert_array_equal(errors, run.agent.td_errors)


def test_the_linear_schedule_decreases_all_learning_rates_to_zero():
    config = tiny("sac", linear_schedule=True, steps_per_epoch=300, agent={"learning_rate": 0.01})
    with closing(open_run(config)) as run:
        optimizers = [each for name, each in run.agent.modules.items() if "optimizer" in name]
        for progress in (0.5, 1.0):
            end = progress * config.steps
            run.run_epoch(lambda end=end: run.counts.env_steps >= end, lambda _: None)
            expected = 0.01 * (1 - run.counts.env_steps / config.steps)
            assert optimizers
            for optimizer in optimizers:
                assert [group["lr"] for group in optimizer.param_groups] == [pytest.approx(max(0, expected))]


def test_dense_rewards_are_trained_without_clipped_targets():
    options = {"env_kwargs": {"reward_type": "dense", "n_bits": 10}, "clip_targets": False}
    row = train(tiny(steps=100, **options)).history[-1]
    assert row["reward_mean"] < -1
    assert "relabeled_success" not in row, "a reward of 0 does not mean success if rewards are dense"


def test_epochs_start_with_different_episodes():
    """If epochs started with equal seeds, every epoch would repeat the same initial states and goals."""
    with closing(open_run(other("Long"))) as run:
        run_epochs(run, 2)
        goals = [each.observations["desired_goal"][0].tolist() for each in run.buffer.episodes()]
    assert len(set(map(tuple, goals))) == 8, "of 4 environments in 2 epochs"


class Unstable(Other):
    """An environment of which a share of the episodes, ``bad``, ends with NaN."""

    bad, is_bad = 0.3, False

    def reset(self, **options):
        result = super().reset(**options)
        self.is_bad = self.np_random.random() < self.bad
        return result

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if truncated and self.is_bad:
            observation["observation"] = np.full_like(observation["observation"], np.nan)
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("workers", [0, 1])
def test_episodes_with_nan_are_skipped_and_counted_in_the_log(workers):
    config = tiny("sac", steps=400, workers=workers, evaluation_episodes=1)
    with pytest.warns(UserWarning, match="skipped.*observations/observation must be numbers, not NaN"):
        result = train(config, env=Unstable, backend="local")
    assert result.history[-1]["skipped_episodes"] >= 2
    assert "skipped_episodes" in epoch_line(result.history[-1])
    assert all(np.isfinite(value) for value in result.history[-1].values())


def test_a_run_whose_episodes_are_all_bad_ends_with_the_error():
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(NotFiniteError, match="not NaN"):
        train(tiny("sac", steps=200), env=type("AllBad", (Unstable,), {"bad": 1.0}))


def test_an_agent_that_diverges_stops_with_a_sentence():
    with closing(open_run(tiny("sac", steps=10_000))) as run:
        run_epochs(run, 1)
        batch = run.buffer.sample(32)
        batch.rewards[:] = np.nan
        run.agent.updates = LOSS_INTERVAL - 1
        with pytest.raises(ValueError, match=r"the loss of sac is nan after .*lower learning_rate"):
            run.agent.update(batch)
        run._meter.add({"loss": np.inf})
        with pytest.raises(ValueError, match="the agent diverged"):
            run_epochs(run, 1)
        run.agent.actor.layers[-1].bias.data.fill_(np.nan)
        with pytest.raises(ValueError, match="an action of sac is nan"):
            run_epochs(run, 1)


def test_the_default_dtype_of_torch_does_not_matter():
    expected = train(tiny("tqc", steps=100)).history
    torch.set_default_dtype(torch.float64)
    try:
        found = train(tiny("tqc", steps=100)).history
    finally:
        torch.set_default_dtype(torch.float32)
    assert without_time(found) == without_time(expected)
