"""Standard output and error: every encoding, closed, full, and a pipe whose reader leaves."""

import contextlib
import io
import subprocess
import sys

import pytest

from her_wrappers.cli import main
from tests.support.commands import her

SHOWN = [
    ["train", "--help"],
    ["rules"],
    ["check", "her_envs/PointReach-v0", "--max-steps", "20"],
    ["inspect", "größe→"],
    ["check", "her_envs/PointReach-v0", "--größe→"],
]


@pytest.mark.parametrize(
    ("arguments", "encoding"),
    [(each, "ascii") for each in SHOWN] + [(SHOWN[-2], each) for each in ("utf-16", "utf-8")],
    ids=str,
)
def test_all_texts_can_be_written_in_every_encoding(arguments, encoding):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    out.seek(0)
    err.seek(0)
    assert (code == 0) == bool(out.read())
    assert (code == 0) != bool(err.read())


def shell(command):
    """Run `her` by a shell line, with its path as ``$her``."""
    line = command.replace("$her", f"{sys.executable} -m her_wrappers.cli")
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "closed", "exit_code"),
    [("rules", "<&- >&- 2>&-", 0), ("rules", ">/dev/full 2>&1", 3), ("check --xyz", ">&- 2>&-", 2)],
)
def test_closed_streams_do_not_change_the_exit_code(arguments, closed, exit_code):
    """The shell repeats the exit code of the command."""
    result = shell(f"{{ $her {arguments}; echo $? >&9; }} 9>&1 {closed}")
    assert (result.stdout.splitlines()[-1], result.stderr) == (str(exit_code), ""), result


def test_a_run_continues_when_the_reader_of_its_output_leaves(tmp_path):
    options = "--no-check --steps 100 --learning-starts 90 --no-tensorboard --evaluation-episodes 2"
    line = f"her_envs/BitFlipping-v0 -o n_bits=4 --agent hidden=[8] --algo dqn {options} --out {tmp_path}/run"
    result = shell(f"{{ {{ $her train {line}; echo $? >&9; }} | true; }} 9>&1")
    assert (result.stdout, result.stderr) == ("0\n", "")
    assert (tmp_path / "run" / "latest.pt").exists()


def test_help_fits_into_a_terminal_of_four_columns():
    assert "--max-steps" in her("check", "--help", columns=4).output.replace("\n", "")
