"""docs/own_robot.md: its programs and commands run in the order of the page, and find what it shows."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.pages import ROOT

pytest.importorskip("onnxscript", reason="the page exports a policy")
pytest.importorskip("onnxruntime", reason="the page runs an exported policy")

PAGE = (ROOT / "docs" / "own_robot.md").read_text()
BLOCK = re.compile(
    r'^```(?P<kind>python|diff|console|text)(?: title="(?P<file>[\w.]+)")?\n(?P<content>.*?)^```',
    re.MULTILINE | re.DOTALL,
)
SHORT = {
    "--steps 40000 --steps-per-epoch 5000": "--steps 1200 --steps-per-epoch 600 --updates-per-step 0.02",
    "--demos demos": "--demos demos --evaluation-episodes 2",
    "--episodes 100": "--episodes 2",
    "--episodes 4": "--episodes 1",
    "range(50):\n    observation": "range(2):\n    observation",
}
HER = [sys.executable, "-m", "her_wrappers.cli"]


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


def follow(text, folder):
    """Run the programs and commands of the page in an empty folder; return what each command printed."""
    outputs, printed = {}, ""
    environment = {**os.environ, "MUJOCO_GL": "egl", "OMP_NUM_THREADS": "1"}
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
            printed = ""
            for line in content.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                if "pip" in arguments:
                    continue
                command = [*HER, *arguments] if program == "her" else [sys.executable, *arguments]
                result = subprocess.run(
                    command, cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                assert result.returncode == 0 or codes(result.stdout), result.stdout + result.stderr
                printed += result.stdout
                outputs[line] = result.stdout
    return outputs


@pytest.mark.real_envs
def test_the_commands_find_the_faults_and_a_short_run_gives_a_policy_that_can_be_deployed(tmp_path):
    text = PAGE
    for old, new in SHORT.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    follow(text, tmp_path)
    assert (tmp_path / "arm.gif").stat().st_size > 1000


@pytest.mark.campaign
def test_the_whole_page_ends_with_a_success_rate_of_090(tmp_path):
    outputs = follow(PAGE, tmp_path)
    successes = int(outputs["python deploy.py"].split()[0])
    assert successes >= 45, outputs
