"""docs/own_robot.md: its programs and commands run in the order of the page, and find what it shows."""

import contextlib
import importlib
import io
import re
import runpy
import shlex
import sys

import pytest

from tests.support.commands import her
from tests.support.pages import ROOT

pytest.importorskip("onnxscript", reason="the page exports a policy")
pytest.importorskip("onnxruntime", reason="the page runs an exported policy")

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = (ROOT / "docs" / "own_robot.md").read_text()
BLOCK = re.compile(
    r'^```(?P<kind>python|diff|console|text)(?: title="(?P<file>[\w.]+)")?\n(?P<content>.*?)^```',
    re.MULTILINE | re.DOTALL,
)
SHORT = {
    "--steps 40000 --steps-per-epoch 5000": "--steps 1200 --steps-per-epoch 600 --updates-per-step 0.02",
    "--demos demos": "--demos demos --evaluation-episodes 2 --check-steps 300",
    "--episodes 100": "--episodes 2",
    "--episodes 4": "--episodes 1",
    "range(50):\n    observation": "range(2):\n    observation",
    "--steps-per-epoch 500 --steps 1500": "--steps-per-epoch 60 --steps 120 --learning-starts 50",
    "sac-0 --steps 3000": "sac-0 --steps 180",
}


def apply_diff(text, diff):
    """Replace the lines of each hunk, from an empty line to the next, which occur once in the text."""
    for hunk in diff.removesuffix("\n").split("\n\n"):
        lines = [(line[0], line[1:]) for line in hunk.split("\n")]
        old, new = ("\n".join(line for sign, line in lines if sign != other) for other in "+-")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def codes(text):
    return re.findall(r"^(?:error|warning|info) (\w+) ", text, re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, whose modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget_modules(tmp_path)


def forget_modules(folder):
    """Let the next command import the files of a folder again, as a new process does."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]
    importlib.invalidate_caches()


def run(program, *arguments):
    """Run a command of the page in this process, since a new one imports for seconds; return its output."""
    if program == "her":
        result = her(*arguments)
        assert result.exit_code == 0 or codes(result.stdout), result.output
        return result.stdout
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(*arguments, run_name="__main__")
    return out.getvalue()


def follow(text, folder):
    """Run the programs and commands of the page in an empty folder; return the output of each command."""
    outputs, printed = {}, ""
    for block in BLOCK.finditer(text):
        kind, content = block["kind"], block["content"]
        if kind == "python":
            (folder / block["file"]).write_text(content)
        elif kind == "diff":
            file = folder / "my_arm.py"
            file.write_text(apply_diff(file.read_text(), content))
        elif kind == "text":
            assert codes(content) == codes(printed)
        else:
            lines = content.splitlines()
            for line in lines:
                forget_modules(folder)
                outputs[line] = run(*shlex.split(line, comments=True))
            printed = "".join(outputs[line] for line in lines)
    return outputs


@pytest.mark.real_envs
def test_the_commands_find_the_faults_and_a_short_run_gives_a_policy_that_can_be_deployed(folder):
    text = PAGE
    for old, new in SHORT.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    follow(text, folder)
    assert (folder / "arm.gif").stat().st_size > 1000


@pytest.mark.campaign
def test_the_whole_page_ends_with_a_success_rate_of_090(folder):
    outputs = follow(PAGE, folder)
    successes = int(outputs["python deploy.py"].split()[0])
    assert successes >= 45, outputs
