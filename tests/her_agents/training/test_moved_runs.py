"""Runs whose folder, environment file or replay buffer is elsewhere or missing."""

import shutil
import sys

import pytest

from her_agents import SAC, train
from her_agents.training.checkpoints import load_checkpoint
from tests.support.commands import her
from tests.support.short_runs import tiny

FILE = "from tests.support.other_envs import Other\n\nclass Reach(Other):\n    pass\n"


@pytest.fixture(name="run", scope="module")
def finished_run(tmp_path_factory):
    """The folder ``project`` with the file of an environment and a run of it."""
    project = tmp_path_factory.mktemp("first") / "project"
    (project / "envs").mkdir(parents=True)
    (project / "envs" / "reach.py").write_text(FILE)
    file = f"{project}/envs/reach.py"
    config = tiny("sac", env=f"{file}:Reach", env_kwargs={}, start_state=f"{file}:set_state", steps=100)
    train(config, folder=project / "runs" / "a", on_epoch=None)
    return project / "runs" / "a"


@pytest.fixture(name="copied")
def copied_run(run, tmp_path):
    """The run in another folder, while the old folder is renamed."""
    project = run.parent.parent
    sys.modules.pop(f"{project}/envs/reach.py", None)  # as in a new process
    shutil.copytree(project, tmp_path / "project")
    project.rename(project.with_name("away"))
    yield tmp_path / "project" / "runs" / "a"
    project.with_name("away").rename(project)


def test_the_file_of_the_environment_is_found_in_its_place_relative_to_the_run(copied):
    found, file = load_checkpoint(copied / "latest.pt")["config"], f"{copied.parent.parent}/envs/reach.py"
    assert (found["env"], found["start_state"]) == (f"{file}:Reach", f"{file}:set_state")
    result = her("train", "--resume", copied, "--steps", 200, "--no-tensorboard")
    assert result.exit_code == 0, result.output


def test_else_it_is_found_by_its_name_in_the_current_folder(copied, tmp_path, monkeypatch):
    shutil.move(copied.parent.parent / "envs" / "reach.py", tmp_path / "reach.py")
    assert "no file" in her("evaluate", copied, "--episodes", 2).stderr
    monkeypatch.chdir(tmp_path)
    assert her("evaluate", copied, "--episodes", 2).exit_code == 0


def test_another_environment_can_be_given(copied, tmp_path):
    other = shutil.move(copied.parent.parent / "envs" / "reach.py", tmp_path / "other.py")
    for words in (
        ["train", "--resume", copied, "--steps", 200, "--no-tensorboard"],
        ["evaluate", copied, "--episodes", 2],
        ["watch", copied, "--no-show", "--episodes", 1],
    ):
        assert her(*words).exit_code == 2
        result = her(*words, "--env", f"{other}:Reach")
        assert result.exit_code == 0, result.output


def test_watch_shows_the_agent_in_the_other_environment(copied, monkeypatch):
    acted, act = [], SAC.act
    monkeypatch.setattr(SAC, "act", lambda self, observation: acted.append(1) or act(self, observation))
    env = f"{copied.parent.parent}/envs/reach.py:Reach"
    result = her("watch", copied, "--env", env, "--no-show", "--episodes", 1)
    assert (result.exit_code, len(acted)) == (0, 20), result.output
    result = her("watch", env, "--env", env, "--no-show")
    assert (result.exit_code, "--env" in result.stderr) == (2, True)


def test_a_file_that_exists_is_not_replaced(run, tmp_path, monkeypatch):
    (tmp_path / "reach.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    assert load_checkpoint(run / "best.pt")["config"]["env"] == f"{run.parent.parent}/envs/reach.py:Reach"


def test_a_run_without_its_buffer_continues_with_the_agent_and_new_episodes(copied):
    for buffer in copied.glob("buffer-*.replay"):
        buffer.unlink()
    file = f"{copied.parent.parent}/envs/reach.py"
    config = tiny("sac", env=f"{file}:Reach", env_kwargs={}, start_state=f"{file}:set_state", steps=200)
    with pytest.warns(UserWarning, match=r"buffer-\d+\.replay.* is missing; the run continues"):
        result = train(config, folder=copied, resume=True, on_epoch=None)
    assert [row["epoch"] for row in result.history] == [1, 2]
    assert result.history[1]["updates"] > result.history[0]["updates"]
