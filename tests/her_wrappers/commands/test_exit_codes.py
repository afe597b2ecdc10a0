"""Environments and data that cannot be used: one sentence, exit code 3, no traceback, no usage."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from typer.testing import CliRunner

from her_wrappers.cli import app
from her_wrappers.commands.terminal import EXIT_CODES
from tests.support.pages import ROOT

BOX = spaces.Box(-1, 1, (2,), np.float32)


class WithoutRender(gym.Env):
    """A goal environment that says it renders, and does not."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as gym.Env declares it
    observation_space = spaces.Dict(observation=BOX, achieved_goal=BOX, desired_goal=BOX)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {key: np.zeros(2, np.float32) for key in self.observation_space}, {}

    def step(self, action):
        return self.reset()[0], -1.0, False, True, {}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with broken modules, where the commands run."""
    (tmp_path / "unfinished_envs.py").write_text("import gymnasium\ndef make_env(\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(gym.registry, "WithoutRender-v0", gym.envs.registration.EnvSpec("WithoutRender-v0"))
    gym.registry["WithoutRender-v0"].entry_point = WithoutRender
    return tmp_path


def her(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})


def assert_fails_with(result, message):
    """One line on stderr says what cannot be used."""
    assert result.exit_code == 3, result.output
    assert isinstance(result.exception, SystemExit), "no traceback"
    assert re.fullmatch(f"Error: .*{message}.*", result.stderr.strip()), result.stderr
    assert "Usage" not in result.output


@pytest.mark.parametrize("arguments", [["--record", "out.gif"], ["--policy", "random"]])
def test_an_environment_without_render_cannot_be_played(arguments, folder):
    result = her("play", "WithoutRender-v0", *arguments)
    assert_fails_with(result, r"cannot draw .*WithoutRender.*: it has no render\(\)")
    assert not (folder / "out.gif").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["play", "unfinished_envs:Env-v0", "--record", "out.gif"],
        ["record", "unfinished_envs:Env-v0", "--out", "out"],
        ["check", "unfinished_envs:Env-v0"],
        ["check", "unfinished_envs:make_env"],
        ["show-relabeling", "unfinished_envs:Env-v0"],
    ],
    ids=" ".join,
)
def test_a_module_with_a_syntax_error_is_named_with_its_line(arguments):
    assert_fails_with(her(*arguments), r"unfinished_envs\.py, line 2: '\(' was never closed")


@pytest.mark.parametrize("path", ["/dev/null/out.gif", "/proc/nothing/out.gif"])
def test_a_place_where_no_film_can_be_written_is_named_before_anything_is_played(path, monkeypatch):
    monkeypatch.setattr(gym.Env, "reset", None)
    result = her("play", "her_envs/PointReach-v0", "--record", path)
    assert_fails_with(result, f"cannot write {path}: ")


def test_a_place_where_no_picture_of_relabeling_can_be_written_is_named():
    arguments = ["--seed", "7", "--episodes", "1", "--size", "64", "--out", "/dev/null/out.png"]
    assert_fails_with(her("show-relabeling", "her_envs/PointReach-v0", *arguments), "cannot write /dev/null")


def test_a_place_where_no_archive_can_be_written_is_named():
    result = her("record", "her_envs/PointReach-v0", "--out", "/dev/null/out")
    assert_fails_with(result, "cannot record to /dev/null/out: ")


@pytest.mark.parametrize("command", ["inspect", "record"])
@pytest.mark.parametrize("damage", [lambda text: text[:50], lambda text: "[]", lambda text: "{}"])
def test_a_damaged_archive_is_named(command, damage, folder):
    record = ["record", "her_envs/PointReach-v0", "-o", "max_steps=5", "--episodes", "1", "--out", "reach"]
    assert her(*record).exit_code == 0
    manifest = folder / "reach" / "manifest.json"
    manifest.write_text(damage(manifest.read_text()))
    result = her("inspect", "reach") if command == "inspect" else her(*record)
    assert_fails_with(result, r"reach/manifest\.json is damaged")


def test_an_archive_that_is_not_there_is_named():
    assert_fails_with(her("inspect", "nothing"), "cannot inspect nothing: there is no archive at nothing")


def test_a_manifest_cannot_control_the_terminal(folder):
    """The manifest has the right checksum, as a hostile writer would compute it."""
    her("record", "her_envs/PointReach-v0", "-o", "max_steps=5", "--episodes", "1", "--out", "reach")
    path = folder / "reach" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["crc32"]
    manifest["source"]["env_id"] = "\x1b]0;owned\x07\x9b31m"
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    checksum = f"{zlib.crc32(text.encode()):08x}"
    path.write_text(json.dumps(manifest | {"crc32": checksum}, separators=(",", ":")))
    result = her("inspect", "reach")
    assert result.exit_code == 0, result.output
    assert r"\x1b]0;owned\x07\x9b31m" in result.stdout
    assert not set("\x1b\x07\x9b") & set(result.stdout)


def test_all_commands_have_one_table_of_exit_codes():
    page = (ROOT / "docs/reference/index.md").read_text()
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE))
    assert rows == {str(code): meaning for code, meaning in EXIT_CODES.items()}
    for command in [None, *app.registered_commands]:
        names = [command.callback.__name__.replace("_", "-")] if command else []
        shown = " ".join(her(*names, "--help").output.split())
        assert "Exit codes: 0 clean, 1 findings, 2 wrong usage, 3 the environment or the data cannot" in shown


def test_the_exit_code_reaches_the_shell():
    command = [sys.executable, "-c", "from her_wrappers.cli import app; app()", "inspect", "nothing"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert (
        ran.stderr
        == "Error: cannot inspect nothing: there is no archive at nothing: it has no manifest.json\n"
    )
