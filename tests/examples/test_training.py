"""Training as a function: what it logs and saves, and that it goes on as if it had never stopped."""

from __future__ import annotations

import csv
import signal
import sys
from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from examples.agents.dqn import DQN
from examples.evaluate import Evaluation
from examples.training import folder as folder_module
from examples.training import session
from examples.training.checkpoints import config_of, load_checkpoint, save_checkpoint
from examples.training.config import make_config, read_options
from examples.training.ctrl_c import ctrl_c
from examples.training.logs import COLUMNS
from examples.training.loop import train
from examples.training.parts import ALGORITHMS
from examples.training.ranges import RULES
from examples.training.session import Training
from her_envs import BitFlipping, TaskEnv
from her_wrappers import HindsightReplayBuffer, InUseError

TINY = {
    "num_envs": 4,
    "steps": 600,
    "steps_per_epoch": 200,
    "learning_starts": 50,
    "updates_per_step": 0.1,
    "batch_size": 32,
    "evaluation_episodes": 3,
    "history_every": 2,
    "seed": 3,
}
TASKS = {
    "dqn": {"env": "her_envs/BitFlipping-v0", "env_kwargs": {"n_bits": 5}},
    "ddpg": {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}},
    "td3": {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}},
    "sac": {"env": "her_envs/BitFlippingContinuous-v0", "env_kwargs": {"n_bits": 5}},
}


def tiny(task="dqn", **options):
    return make_config(TINY, {"algo": task}, TASKS[task], options)


def without_time(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def same(first, second):
    """Whether two trees of tensors and numbers are equal to the last bit."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second


@pytest.fixture(name="finished", scope="module")
def finished_training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "deeper" / "run"
    return train(tiny(), folder=folder, tensorboard=True), folder


@pytest.mark.parametrize(("algo", "prioritized"), [*((algo, False) for algo in TASKS), ("ddpg", True)])
def test_a_resumed_training_computes_what_an_uninterrupted_one_does(algo, prioritized, tmp_path):
    """Rows, weights, optimisers, priorities and what is drawn next are equal to the last bit."""
    whole = train(tiny(algo, prioritized=prioritized))
    train(tiny(algo, prioritized=prioritized, steps=400), folder=tmp_path)
    resumed = train(tiny(algo, prioritized=prioritized), folder=tmp_path, resume=True)
    assert len(resumed.history) == 3
    assert without_time(resumed.history) == without_time(whole.history)
    assert same(resumed.agent.state_dict(), whole.agent.state_dict())


def test_equal_configs_give_equal_trainings_and_other_seeds_others():
    histories = [without_time(train(tiny(seed=seed, steps=400)).history) for seed in (1, 1, 2)]
    assert histories[0] == histories[1] != histories[2]


def test_environments_that_are_not_vectorised_train_too():
    """Through Gymnasium's SyncVectorEnv, with its own time limits and seeds."""
    gym.register("her-test/Plain-v0", "her_envs.registration:bit_flipping", kwargs={"n_bits": 4})
    try:
        result = train(tiny(env="her-test/Plain-v0", env_kwargs={}, steps=400))
    finally:
        del gym.registry["her-test/Plain-v0"]
    assert [row["epoch"] for row in result.history] == [1, 2]


class Renamed(gym.Wrapper):
    """Tells success under another name."""

    def __init__(self, env, name):
        super().__init__(env)
        self.name = name

    def step(self, action):
        *result, info = self.env.step(action)
        return *result, {self.name: info["is_success"]}


@pytest.mark.parametrize("name", ["success", "won"])
def test_success_may_have_either_of_its_usual_names(name):
    gym.register("her-test/Renamed-v0", lambda: Renamed(TaskEnv(BitFlipping(n_bits=4)), name))
    config = tiny(env="her-test/Renamed-v0", env_kwargs={}, steps=200)
    try:
        if name == "success":
            assert train(config).history[-1]["collected_success"] > 0
        else:
            with pytest.raises(
                ValueError, match=r"info must tell success as 'is_success' or 'success', got \['won'"
            ):
                train(config)
    finally:
        del gym.registry["her-test/Renamed-v0"]


def test_the_log_has_a_row_for_each_epoch(finished):
    result, folder = finished
    with (folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0])[: len(COLUMNS)] == COLUMNS
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [int(row["env_steps"]) for row in rows] == [row["env_steps"] for row in result.history]
    last = {name: float(value) for name, value in rows[-1].items()}
    assert 600 <= last["env_steps"] < 604
    assert last["updates"] == int((last["env_steps"] - 50) * 0.1)
    assert -1 <= last["reward_mean"] <= 0
    assert 0 < last["relabeled_success"] < 1
    assert 0 <= last["goal_age"] < 5
    assert -50 <= last["q_mean"] < 0
    assert last["loss"] > 0


def test_tensorboard_shows_what_the_log_says(finished):
    result, folder = finished
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    for name in ("success_rate", "goal_age", "relabeled_success", "reward_mean", "q_mean", "loss"):
        points = [(event.step, event.value) for event in events.Scalars(name)]
        assert points == [(row["env_steps"], pytest.approx(row[name], rel=1e-5)) for row in result.history]


@pytest.mark.parametrize("crashed", [False, True])
def test_tensorboard_shows_every_epoch_of_a_resumed_training_once(crashed, tmp_path, monkeypatch):
    """Also if the training that is gone on with had logged an epoch that it did not save."""
    train(tiny(steps=200), folder=tmp_path, tensorboard=True)
    if crashed:
        monkeypatch.setattr(folder_module.RunFolder, "_save_latest", lambda *_: None)
        train(tiny(steps=400), folder=tmp_path, tensorboard=True, resume=True)
        monkeypatch.undo()
    result = train(tiny(), folder=tmp_path, tensorboard=True, resume=True)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [row["env_steps"] for row in result.history]


def test_without_relabeling_there_are_no_goals_to_tell_of():
    row = train(tiny(her=False, steps=200)).history[-1]
    assert "reward_mean" in row
    assert not {"relabeled_success", "goal_age"} & row.keys()


def test_checkpoints_are_the_best_the_latest_and_some_of_the_way(finished):
    result, folder = finished
    names = {path.name for path in folder.rglob("*.pt")}
    assert names == {"best.pt", "latest.pt", "epoch_00002.pt"}
    assert len(list(folder.glob("buffer-*.replay"))) == 1
    best = load_checkpoint(folder / "best.pt")
    assert best["history"][-1]["success_rate"] == result.best_success
    assert load_checkpoint(folder / "history" / "epoch_00002.pt")["counts"]["epochs"] == 2
    config = config_of(best)
    assert config == tiny()
    assert make_config(read_options(folder / "config.json")) == config


def test_the_agent_has_the_gamma_of_the_config():
    with closing(Training(tiny(gamma=0.5))) as training:
        assert training.agent._bounds == (-2.0, 0.0)


@pytest.mark.parametrize("algo", TASKS)
def test_steps_are_counted_as_they_are_stored(algo):
    """Resets of a vector environment are none."""
    with closing(Training(tiny(algo, steps=10_000))) as training:
        training.begin_episodes()
        for _ in range(50):
            training._step()
        training.begin_episodes()
        assert training.counts.env_steps == len(training.buffer) <= 200


@pytest.mark.parametrize("strategy", ["episode", "random"])
def test_the_age_of_goals_is_counted_within_episodes_and_in_both_directions(strategy):
    row = train(tiny(strategy=strategy, steps=200)).history[-1]
    assert row["relabeled_success"] > 0
    if strategy == "random":
        assert "goal_age" not in row
    else:
        assert 0.5 < row["goal_age"] < 5, "5 bits are at most 4 steps away, before and after"


def test_a_folder_takes_one_training_at_a_time_and_keeps_what_it_did_not_write(tmp_path):
    """The second begins while the first is in its first epoch, when nothing is saved yet."""
    (tmp_path / "buffer-mine.replay").write_text("of another")
    refused = []

    def begin_another(training):
        if not refused:
            with pytest.raises(InUseError, match="is in use: another writer is at work there") as caught:
                train(tiny(steps=200), folder=tmp_path)
            refused.append(caught)

    train(tiny(steps=200), folder=tmp_path, show=begin_another)
    assert refused
    assert (tmp_path / "buffer-mine.replay").read_text() == "of another"
    train(tiny(steps=400), folder=tmp_path, resume=True)


def test_a_finished_training_is_gone_on_with_by_more_steps_alone(finished):
    _, folder = finished
    before = (folder / "config.json").read_text()
    for steps in (600, 100):
        with pytest.raises(ValueError, match=rf"is at 60\d of {steps} steps already; pass more by --steps"):
            train(tiny(steps=steps), folder=folder, resume=True)
    assert (folder / "config.json").read_text() == before


def test_a_better_evaluation_replaces_the_best_and_a_worse_one_does_not(tmp_path, monkeypatch):
    rates = iter([(0.2, -5.0, 5.0), (0.6, -5.0, 5.0), (0.6, -4.0, 4.0), (0.4, -1.0, 1.0)])
    monkeypatch.setattr(session, "evaluate", lambda *arguments: Evaluation(*next(rates)))
    train(tiny(steps=800), folder=tmp_path)
    assert load_checkpoint(tmp_path / "best.pt")["counts"]["epochs"] == 3


def test_ctrl_c_ends_after_the_step_and_saves(tmp_path):
    steps = []

    def interrupt(training):
        steps.append(training.counts.env_steps)
        if training.counts.env_steps >= 300:
            signal.raise_signal(signal.SIGINT)

    result = train(tiny(), folder=tmp_path, show=interrupt)
    assert result.interrupted
    assert len(result.history) == 1
    assert 300 <= steps[-1] < 304
    saved = load_checkpoint(tmp_path / "latest.pt")
    assert saved["counts"]["env_steps"] == steps[-1]
    resumed = train(tiny(), folder=tmp_path, resume=True)
    assert not resumed.interrupted
    assert [row["epoch"] for row in resumed.history] == [1, 2, 3]
    assert 600 <= resumed.history[-1]["env_steps"] < 604
    with (tmp_path / "progress.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2", "3"]


def test_a_training_ends_when_its_caller_has_seen_enough_and_is_saved(tmp_path):
    asked = []

    def stop(history):
        asked.append([row["epoch"] for row in history])
        return len(history) == 2

    result = train(tiny(history_every=0, save_every=9), folder=tmp_path, stop=stop)
    assert asked == [[1], [1, 2]]
    assert (len(result.history), result.interrupted) == (2, False)
    assert load_checkpoint(tmp_path / "latest.pt")["counts"]["epochs"] == 2


def test_the_caller_is_asked_after_every_evaluation_and_the_last(tmp_path):
    asked = []
    train(tiny(), stop=lambda history: bool(asked.append(len(history))))
    assert asked == [1, 2, 3]


def test_a_second_ctrl_c_does_not_wait():
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c() as wanted:
        signal.raise_signal(signal.SIGINT)
        assert wanted.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_crash_while_saving_leaves_a_pair_that_fits(tmp_path, monkeypatch):
    """The new buffer is written, the new checkpoint is not: the old ones are still there."""
    train(tiny(steps=200), folder=tmp_path)
    before = load_checkpoint(tmp_path / "latest.pt")

    def crash(path, content):
        if path.name == "latest.pt":
            raise OSError("no space left")
        save_checkpoint(path, content)

    monkeypatch.setattr(folder_module, "save_checkpoint", crash)
    with pytest.raises(OSError, match="no space left"):
        train(tiny(), folder=tmp_path, resume=True)
    monkeypatch.undo()
    assert same(load_checkpoint(tmp_path / "latest.pt"), before)
    resumed = train(tiny(), folder=tmp_path, resume=True)
    assert without_time(resumed.history) == without_time(train(tiny()).history)
    assert len(list(tmp_path.glob("buffer-*.replay"))) == 1


MISTAKES = [
    ({"env": "no/Such-v0"}, ValueError, "cannot make 4 no/Such-v0 together"),
    ({"env_kwargs": {"bits": 3}}, ValueError, "cannot make 4 her_envs/BitFlipping-v0 together: .*'bits'"),
    ({"env": "CartPole-v1", "env_kwargs": {}}, ValueError, "observation space must be a Dict"),
    ({"algo": "ppo"}, ValueError, "unknown algo 'ppo'; choose from 'dqn', 'ddpg', 'td3', 'sac'"),
    ({"algo": "sac"}, TypeError, "sac needs actions in a Box, got Discrete"),
    (
        {"agent": {"layers": 3}},
        ValueError,
        "dqn has no option 'layers'; choose from 'epsilon', 'hidden', 'learning",
    ),
    ({"strategy": "futur"}, ValueError, "'futur'"),
    ({"termination": "goal"}, ValueError, "unknown termination 'goal'; choose from 'recompute'"),
    (
        {"env_kwargs": {"reward_type": "dense"}},
        ValueError,
        "clipped targets assume rewards from -1 to 0, got -",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES)
def test_what_does_not_go_together_is_refused(options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        train(tiny(**options), folder=tmp_path)
    assert not list(tmp_path.glob("*.pt"))


def test_every_number_that_an_agent_takes_has_a_rule():
    """Else a mistake in it shows as a traceback in the middle of a training."""
    taken = {name for algorithm in ALGORITHMS.values() for name in algorithm.__init__.__kwdefaults__}
    assert taken == {*RULES, "hidden", "policy_delay", "seed", "clip_targets"} - {"updates_per_step"}


@pytest.mark.parametrize(("termination", "discount"), [("success", 0.0), ("never", np.float32(0.98))])
def test_relabeled_episodes_end_as_the_config_says(termination, discount):
    """An environment need not have a compute_terminated, to which else they look."""
    with closing(Training(tiny(termination=termination))) as training:
        training.begin_episodes()
        while not training.buffer.can_sample:
            training._step()
        batch = training.buffer.sample(256)
    reached = batch.relabeled & (batch.rewards == 0)
    assert (batch.discounts[reached] == discount).all()
    assert reached.any()


def test_prioritized_training_gives_errors_of_updates_to_the_buffer(monkeypatch):
    given = []
    monkeypatch.setattr(
        HindsightReplayBuffer, "update_priorities", lambda _, *arguments: given.append(arguments)
    )
    with closing(Training(tiny(prioritized=True))) as training:
        training.begin_episodes()
        while training.counts.updates < 3:
            training._step()
            training._learn()
        assert len(given) == training.counts.updates
        index, errors = given[-1]
    assert index.shape == (32,)
    np.testing.assert_array_equal(errors, training.agent.td_errors)


def test_returns_of_several_steps_train_too():
    row = train(tiny(n_steps=3, steps=200)).history[-1]
    assert -3 < row["reward_mean"] < train(tiny(steps=200)).history[-1]["reward_mean"]


def test_dense_rewards_train_without_clipped_targets():
    row = train(tiny(env_kwargs={"reward_type": "dense"}, clip_targets=False, steps=200)).history[-1]
    assert row["reward_mean"] < -1
    assert "relabeled_success" not in row, "0 does not tell success where rewards are other than -1 and 0"
    assert row["goal_age"] > 0


BAD_OPTIONS = [
    ({"setps": 3}, ValueError, "unknown option 'setps'; choose from 'env', 'algo', 'env_kwargs'"),
    ({"steps": 0}, ValueError, "steps must be a whole number >= 1, got 0"),
    ({"steps": 1.5}, ValueError, "steps must be a whole number >= 1, got 1.5"),
    ({"gamma": 1.0}, ValueError, r"gamma must lie in \(0, 1\), got 1.0"),
    ({"gamma": 0}, ValueError, r"gamma must lie in \(0, 1\), got 0"),
    ({"gamma": True}, ValueError, r"gamma must lie in \(0, 1\), got True"),
    ({"learning_starts": 600}, ValueError, "learning_starts must be below steps, got 600 and 600: nothing"),
    ({"seed": 2**63}, ValueError, r"seed must be below 2\*\*63, got 9223"),
    ({"updates_per_step": float("inf")}, ValueError, r"updates_per_step must lie in \(0, inf\), got inf"),
    ({"updates_per_step": float("nan")}, ValueError, r"updates_per_step must lie in \(0, inf\), got nan"),
    ({"agent": {"hidden": 3}}, ValueError, "hidden must be a list of whole numbers, got 3"),
    ({"agent": {"hidden": [8, -3]}}, ValueError, "each of hidden must be a whole number >= 1, got -3"),
    ({"agent": {"policy_delay": 0}}, ValueError, "policy_delay must be a whole number >= 1, got 0"),
    ({"agent": {"epsilon": "a"}}, ValueError, r"epsilon must lie in \[0, 1\], got 'a'"),
    ({"agent": {"tau": 0}}, ValueError, r"tau must lie in \(0, 1\], got 0"),
    ({"agent": {"temperature": 0}}, ValueError, r"temperature must lie in \(0, inf\), got 0"),
    ({"agent": {"action_l2": -1}}, ValueError, r"action_l2 must lie in \[0, inf\), got -1"),
    ({"agent": {"target_entropy": "low"}}, ValueError, "target_entropy must be a finite number, got 'low'"),
    ({"updates_per_step": 0}, ValueError, r"updates_per_step must lie in \(0, inf\), got 0"),
    ({"her": "no"}, TypeError, "her must be true or false, got 'no'"),
    ({"prioritized": 1}, TypeError, "prioritized must be true or false, got 1"),
    ({"env_kwargs": [1]}, TypeError, r"env_kwargs must be a table of names and values, got \[1\]"),
    ({"info_keys": "cost"}, TypeError, "info_keys must be a list of strings"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_OPTIONS)
def test_a_config_has_only_options_that_can_be(options, error, message):
    with pytest.raises(error, match=message):
        tiny(**options)


def test_a_config_needs_an_environment_and_an_algorithm():
    with pytest.raises(ValueError, match="expected algo, got none; pass --algo or write it into the file"):
        make_config({"env": "her_envs/BitFlipping-v0"})


def test_options_are_read_from_toml_and_json_alike(tmp_path):
    (tmp_path / "a.toml").write_text('env = "x"\nk = 8\n[agent]\nhidden = [8, 8]\n')
    (tmp_path / "a.json").write_text('{"env": "x", "k": 8, "agent": {"hidden": [8, 8]}}')
    assert read_options(tmp_path / "a.toml") == read_options(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "", "expected a file that ends in .toml or .json, got .*a.yaml"),
        ("a.toml", "k = ", "cannot read .*a.toml: Invalid value"),
        ("a.json", "{", "cannot read .*a.json: Expecting property name"),
        ("a.json", "[1]", r"must hold options by name, got \[1\]"),
        ("b.json", None, "cannot read .*b.json: .*No such file"),
    ],
)
def test_files_that_hold_no_options_are_refused(name, text, message, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_options(tmp_path / name)


def test_a_folder_is_not_written_over_and_another_training_not_gone_on_with(finished, tmp_path):
    _, folder = finished
    with pytest.raises(ValueError, match=r"there is a training in .* already; go on with it by --resume"):
        train(tiny(), folder=folder)
    with pytest.raises(
        ValueError, match=r"latest.pt is of a training with seed 3, got 4; only steps may change"
    ):
        train(tiny(seed=4), folder=folder, resume=True)
    with pytest.raises(ValueError, match="is of a training with algo 'dqn', got 'sac'"):
        train(tiny(algo="sac"), folder=folder, resume=True)
    with pytest.raises(ValueError, match=r"cannot read .*latest.pt: No such file"):
        train(tiny(), folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="resume=True needs the folder of the training, got none"):
        train(tiny(), resume=True)


class Trap:
    """What a loader that executes what it reads would run."""

    def __reduce__(self):
        return (sys.exit, (3,))


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02.", b"\x80\x020", b"PK\x03\x04 no zip", Trap(), {"format": "another"}, [1]]
)
def test_what_is_no_checkpoint_is_refused_and_never_executed(content, tmp_path):
    path = tmp_path / "latest.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=r"latest.pt is no checkpoint of examples.train, or"):
        load_checkpoint(path)


def test_a_missing_tensorboard_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"needs tensorboard; run: pip install .* or pass --no-tensorboard"):
        train(tiny(), folder=tmp_path, tensorboard=True)
    train(tiny(steps=200), folder=tmp_path / "without")


def test_epochs_begin_with_starts_of_their_own(monkeypatch):
    """Else each epoch would practise the same episodes."""
    starts = []

    class Watching(DQN):
        def act(self, observation, *, explore=False):
            if explore:
                starts.append(observation["desired_goal"].copy())
            return super().act(observation, explore=explore)

    monkeypatch.setitem(ALGORITHMS, "dqn", Watching)
    assert len(train(tiny(steps=400)).history) == 2
    assert not np.array_equal(starts[0], starts[len(starts) // 2])
