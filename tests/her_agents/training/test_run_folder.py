"""The folder of a run: logs, checkpoints, and resuming."""

import csv
import signal
import sys

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from her_agents.training import run as session
from her_agents.training import run_folder as folder_module
from her_agents.training.checkpoints import load_checkpoint, save_checkpoint
from her_agents.training.config import make_config, read_options
from her_agents.training.evaluation import Evaluation
from her_agents.training.logs import COLUMNS, write_csv
from her_agents.training.loop import epoch_line, train
from her_wrappers import InUseError
from her_wrappers.data.text import read_progress
from tests.support.short_runs import TASKS, assert_resumes, same, tiny


@pytest.fixture(name="finished", scope="module")
def finished_training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "deeper" / "run"
    return train(tiny(), folder=folder, tensorboard=True), folder


OPTIONS = [
    ("dqn", {"goal_selection_strategy": {"future": 0.5, "desired": 0.3, "original": 0.2}}),
    ("ddpg", {"prioritized": True, "env_kwargs": {"max_steps": 45}, "max_episode_steps": 30}),
    *((algo, {}) for algo in TASKS if algo not in {"dqn", "ddpg"}),
]


@pytest.mark.parametrize(("algo", "options"), OPTIONS)
def test_resumed_training_equals_an_uninterrupted_one(algo, options, tmp_path):
    """Rows, weights, optimizers, priorities and the random state are equal to the last bit."""
    assert_resumes(tiny(algo, **options, steps=200), tmp_path)


def test_log_has_a_row_for_each_epoch(finished):
    result, folder = finished
    with (folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0])[: len(COLUMNS)] == COLUMNS
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [int(row["env_steps"]) for row in rows] == [row["env_steps"] for row in result.history]
    last = {name: float(value) for name, value in rows[-1].items()}
    assert 300 <= last["env_steps"] < 320
    assert last["updates"] == int((last["env_steps"] - 30) * 0.1)
    assert -1 <= last["reward_mean"] <= 0
    assert 0 < last["relabeled_success"] < 1
    assert -50 <= last["q_mean"] < float(rows[0]["q_mean"]), "towards the returns, which are negative"
    assert last["loss"] > 0


def test_tensorboard_shows_the_values_of_the_log(finished):
    result, folder = finished
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    for name in ("success_rate", "relabeled_success", "reward_mean", "q_mean", "loss"):
        points = [(event.step, event.value) for event in events.Scalars(name)]
        assert points == [(row["env_steps"], pytest.approx(row[name], rel=1e-5)) for row in result.history]


def test_tensorboard_shows_each_epoch_of_a_resumed_training_once(tmp_path, monkeypatch):
    """The run crashed between logging an epoch and saving the checkpoint of this epoch."""
    # Files of the same second sort by this number, as text.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    train(tiny(steps=100), folder=tmp_path, tensorboard=True)
    with monkeypatch.context() as crash:
        crash.setattr(folder_module.RunFolder, "_save_latest", lambda *_: None)
        train(tiny(steps=200), folder=tmp_path, tensorboard=True, resume=True)
    result = train(tiny(steps=200), folder=tmp_path, tensorboard=True, resume=True)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [row["env_steps"] for row in result.history]


def test_writes_best_and_latest_checkpoints(finished):
    result, folder = finished
    names = {path.name for path in folder.rglob("*.pt")}
    assert names == {"best.pt", "latest.pt"}
    assert len(list(folder.glob("buffer-*.replay"))) == 1
    best = load_checkpoint(folder / "best.pt")
    assert best["history"][-1]["success_rate"] == result.best_success
    config = make_config(best["config"])
    assert config == tiny()
    assert make_config(read_options(folder / "config.json")) == config


def test_second_training_in_a_folder_raises_an_error_and_other_files_are_kept(tmp_path):
    """The second run starts while the first one is in its first epoch and has no checkpoint yet."""
    (tmp_path / "buffer-mine.replay").write_text("of another")
    refused = []

    def begin_another(training):
        if not refused:
            with pytest.raises(InUseError, match="is in use") as caught:
                train(tiny(steps=100), folder=tmp_path)
            refused.append(caught)

    train(tiny(steps=100), folder=tmp_path, on_step=begin_another)
    assert refused
    assert (tmp_path / "buffer-mine.replay").read_text() == "of another"
    train(tiny(steps=200), folder=tmp_path, resume=True)


def test_finished_training_continues_only_with_more_steps(finished):
    _, folder = finished
    before = (folder / "config.json").read_text()
    for steps in (300, 50):
        with pytest.raises(ValueError, match=rf"steps={steps} is too small .* already has 3[01]\d steps"):
            train(tiny(steps=steps), folder=folder, resume=True)
    assert (folder / "config.json").read_text() == before


def test_rows_of_a_run_that_began_without_success_once_stay_readable(tmp_path):
    old = {
        "epoch": 1,
        "env_steps": 10,
        "updates": 1,
        "seconds": 1.0,
        "success_rate": 0.5,
        "mean_return": -1.0,
    }
    new = old | {"epoch": 2, "mean_length": 5.0, "success_once": 0.75}
    write_csv(tmp_path / "progress.csv", [old, new])
    assert read_progress(tmp_path / "progress.csv") == [old, new]
    assert "success_once 0.75" in epoch_line(new)
    assert "success_once" not in epoch_line(old | {"mean_length": 5.0})


def test_only_a_better_evaluation_replaces_the_best_checkpoint(tmp_path, monkeypatch):
    rates = iter([(0.2, -5.0, 5.0, 1.0), (0.6, -5.0, 5.0, 1.0), (0.6, -4.0, 4.0, 1.0), (0.4, -1.0, 1.0, 1.0)])
    monkeypatch.setattr(session, "evaluate", lambda *arguments: Evaluation(*next(rates)))
    train(tiny(steps=400), folder=tmp_path)
    assert load_checkpoint(tmp_path / "best.pt")["counts"]["epochs"] == 3


def test_ctrl_c_ends_the_training_after_the_step_and_saves(tmp_path):
    steps = []

    def interrupt(training):
        steps.append(training.counts.env_steps)
        if training.counts.env_steps >= 150:
            signal.raise_signal(signal.SIGINT)

    result = train(tiny(), folder=tmp_path, on_step=interrupt)
    assert result.interrupted
    assert len(result.history) == 1
    assert 150 <= steps[-1] < 154
    saved = load_checkpoint(tmp_path / "latest.pt")
    assert saved["counts"]["env_steps"] == steps[-1]
    resumed = train(tiny(), folder=tmp_path, resume=True)
    assert not resumed.interrupted
    assert [row["epoch"] for row in resumed.history] == [1, 2, 3]
    assert 300 <= resumed.history[-1]["env_steps"] < 320
    with (tmp_path / "progress.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2", "3"]


def test_crash_while_saving_leaves_a_matching_checkpoint_and_buffer(tmp_path, monkeypatch):
    """The crash occurs after the new buffer and before the new checkpoint is written; old files remain."""
    train(tiny(steps=100), folder=tmp_path)
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
    train(tiny(steps=200), folder=tmp_path, resume=True)
    assert len(list(tmp_path.glob("buffer-*.replay"))) == 1


def test_folder_of_another_training_raises_an_error(finished, tmp_path):
    _, folder = finished
    with pytest.raises(ValueError, match=r"already contains a run; continue it with resume=True"):
        train(tiny(), folder=folder)
    with pytest.raises(ValueError, match=r"latest.pt belongs to .* with seed=3, but seed=4 was given"):
        train(tiny(seed=4), folder=folder, resume=True)
    with pytest.raises(ValueError, match=r"cannot read .*latest.pt: No such file"):
        train(tiny(), folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="resume=True needs the folder of the run, got folder=None"):
        train(tiny(), resume=True)
    (tmp_path / "best.pt").touch()
    with pytest.raises(ValueError, match="already contains a run; delete the folder, or choose another"):
        train(tiny(), folder=tmp_path)


class Trap:
    """An object that ends the process when it is unpickled."""

    def __reduce__(self):
        return (sys.exit, (3,))


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02.", b"\x80\x020", b"PK\x03\x04 no zip", Trap(), {"format": "another"}, [1]]
)
def test_other_files_raise_an_error_and_are_not_executed(content, tmp_path):
    path = tmp_path / "latest.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=r"latest.pt (is not|must be) a checkpoint of `her train`"):
        load_checkpoint(path)


def test_missing_tensorboard_raises_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match="needs the package tensorboard; run: pip"):
        train(tiny(), folder=tmp_path, tensorboard=True)
    train(tiny(steps=100), folder=tmp_path / "without")
