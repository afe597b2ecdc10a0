"""Environments and data that cannot be used: one sentence, exit code 3, no traceback, no usage."""

import importlib
import re
import sys

import pytest

from tests.support.commands import her

BROKEN = """
from tests.support.other_envs import Other as Reach

class Init(Reach):
    def __init__(self, render_mode=None):
        raise ValueError("no simulator")

class Reset(Reach):
    def reset(self, *, seed=None, options=None):
        raise KeyError("no such joint")

class Step(Reach):
    def step(self, action):
        raise AssertionError

class Exit(Reach):
    def step(self, action):
        raise SystemExit(7)

class Render(Reach):
    def render(self):
        return {}["picture"]

class Pipe(Reach):
    def step(self, action):
        raise BrokenPipeError("the simulator has ended")

class WithoutRender(Reach):
    def render(self):
        raise NotImplementedError
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with broken modules, where the commands run."""
    (tmp_path / "unfinished_envs.py").write_text("import gymnasium\ndef make_env(\n")
    (tmp_path / "exiting_envs.py").write_text("import sys\nsys.exit(4)\n")
    (tmp_path / "broken_envs.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_envs", raising=False)
    return tmp_path


def assert_fails_with(result, message):
    """Assert that the command ended with code 3 and one line on stderr."""
    assert result.exit_code == 3, result.output
    assert re.fullmatch(f"Error: .*{message}.*", result.stderr.strip()), result.stderr


COMMANDS = {
    "check": ["--max-steps", "20"],
    "watch": ["--record", "out.gif", "--episodes", "1"],
    "record": ["--episodes", "2", "--out", "out"],
}


@pytest.mark.parametrize(
    ("command", "env", "message"),
    [
        ("check", "exiting_envs:Env", r"cannot import exiting_envs: SystemExit: 4; raised in .*, line 2"),
        ("record", "unfinished_envs:Env", r"unfinished_envs\.py, line 2: '\(' was never closed"),
        ("check", "broken_envs:Init", r"cannot make .*: ValueError: no simulator; raised in .*, line 6"),
        ("record", "broken_envs:Reset", r"KeyError: 'no such joint'; raised in broken_envs\.py, line 10"),
        ("watch", "broken_envs:Step", r"AssertionError; raised in broken_envs\.py, line 14"),
        ("check", "broken_envs:Exit", r"SystemExit: 7; raised in broken_envs\.py, line 18"),
        ("watch", "broken_envs:Render", r"KeyError: 'picture'; raised in broken_envs\.py, line 22"),
        ("watch", "broken_envs:WithoutRender", r"cannot draw .*WithoutRender.*: it has no render\(\)"),
    ],
)
def test_a_module_or_an_environment_that_raises_is_named_with_its_line(command, env, message):
    assert_fails_with(her(command, env, *COMMANDS[command]), message)


@pytest.mark.parametrize("name", ["Reset", "Step", "Pipe"])
def test_an_environment_that_raises_is_a_finding_of_the_check(name):
    result = her("check", f"broken_envs:{name}", *COMMANDS["check"])
    assert (result.exit_code, "GE000" in result.stdout) == (1, True)


def test_an_error_of_the_toolkit_itself_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(importlib.import_module("her_wrappers.commands.envs"), "_short", None)
    with pytest.raises(TypeError):
        her("envs")


MID_RUN = """
from tests.support.other_envs import Other as Reach
import multiprocessing
import numpy as np

class Step(Reach):
    count = 0
    def add(self):
        np.zeros(2) + np.zeros(3)
    def step(self, action):
        Step.count += 1
        if Step.count >= 150:
            self.add()
        return super().step(action)

class Reset(Reach):
    count = 0
    def reset(self, **options):
        Reset.count += 1
        return super().reset(**options) if Reset.count < 20 else int("two")

class Reward(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) == 2 and len(achieved_goal) > 4:
            raise TypeError("cannot take a batch")
        return super().compute_reward(achieved_goal, desired_goal, info)

class Own(Exception):
    def __init__(self, code, place):
        super().__init__(f"error {code} at {place}")

class Custom(Reach):
    def step(self, action):
        if multiprocessing.parent_process():
            raise Own(7, "elbow")
        return super().step(action)
"""
SHORT = ["--no-check", "--steps", 400, "--steps-per-epoch", 200, "--learning-starts", 390, "--algo", "sac"]


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("Step", [], r"ValueError: operands could not.* line 9, in a call of step\(\).*after [\d,]+ steps"),
        ("Reset", ["--workers", 1, "--backend", "local"], r"invalid literal.* line 20, in a call of reset\("),
        ("Reward", [], r"TypeError: cannot take a batch; .* line 25, in a call of compute_reward\(\).*after"),
    ],
)
def test_an_error_in_the_middle_of_a_run_is_named_with_type_line_and_call(name, options, error, folder):
    (folder / "middle.py").write_text(MID_RUN)
    assert_fails_with(her("train", f"middle.py:{name}", *SHORT, *options, "--out", "run"), error)


def test_an_error_in_a_parallel_run_is_named_with_type_line_and_call(folder):
    (folder / "middle.py").write_text(MID_RUN)
    result = her("train", "middle.py:Custom", *SHORT, "--seeds", 2, "--jobs", 2, "--out", "runs")
    assert_fails_with(result, r"seed \d: Own: error 7 at elbow; .*middle\.py, line 35, in a call of step\(\)")


def test_traceback_shows_the_whole_traceback(folder):
    (folder / "middle.py").write_text(MID_RUN)
    result = her("record", "middle.py:Step", "--out", "out", "--episodes", 90, "--traceback")
    assert result.exit_code == 3
    assert re.search(r'Traceback .*middle\.py", line \d+, in step.*\nError: ', result.stderr, re.DOTALL)
