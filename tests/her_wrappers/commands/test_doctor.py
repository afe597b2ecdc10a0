"""``her doctor``, its page, and its use by ``her train``."""

import json
import re
import sys

import pytest

from her_wrappers import EpisodeArchive
from tests.support.commands import SMALL, fails, her, succeeds
from tests.support.diagnosis import EPISODES, healthy


def archive_of(code, folder):
    with EpisodeArchive(folder) as archive:
        archive.add_episodes(healthy() if code is None else EPISODES[code]())
    return folder


@pytest.mark.parametrize(
    ("code", "arguments", "exit_code"),
    [
        (None, [], 0),
        ("GD102", ["--ignore", "GD102"], 0),
        ("GD202", ["--strict"], 1),
        (None, ["--gamma", "0.5"], 1),
        (None, ["--gamma", "1.5"], 2),
        (None, ["--select", "GE101"], 2),
    ],
)
def test_exit_codes_depend_on_findings_and_strictness(code, arguments, exit_code, tmp_path):
    result = her("doctor", archive_of(code, tmp_path / "archive"), *arguments)
    assert result.exit_code == exit_code, result.output


def test_options_of_an_environment_can_be_given():
    result = her("doctor", "her_envs/PointMaze-v0", "-o", "layout=large", "-o", "max_steps=10")
    assert result.exit_code == 1
    assert "error GD402 time-limit-too-short" in result.output


def test_the_page_escapes_names_and_loads_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "report.html"
    assert her("doctor", archive_of("GD102", tmp_path / "<a>"), "--html", page).exit_code == 1
    text = page.read_text()
    assert "error GD102 object-not-touched" in text
    assert "&lt;a&gt;" in text
    assert text.count("<img") == text.count('src="data:image/png;base64,') == text.count("src=") == 1
    assert not re.search(r"<(script|link|iframe)|url\(", text)


def test_the_page_of_a_run_has_plots_of_its_history(reach, tmp_path):
    pytest.importorskip("matplotlib")
    result = her("doctor", reach[0], "--html", tmp_path / "report.html")
    assert result.exit_code in {0, 1}, result.output
    text = (tmp_path / "report.html").read_text()
    for caption in ("Success rate in evaluations", "Mean value of the critic", "Temperature of SAC"):
        assert caption in text


def test_train_prints_a_diagnosis_if_no_evaluation_had_a_success(tmp_path):
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    words = ["--config", tmp_path / "small.json", "--steps", 800, "--steps-per-epoch", 80, "--no-check"]
    words += ["--num-envs", 2, "--no-tensorboard", "--out", tmp_path / "far"]
    output = succeeds("train", "tests.support.diagnosis:Unreachable", *words)
    assert "None of 10 evaluations had a success." in output
    assert "GD201 goals-outside-achieved" in output
    assert len(re.findall(r"^(?:error|warning) GD", output, re.MULTILINE)) <= 3


def test_a_page_without_matplotlib_names_the_missing_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    archive, message = archive_of(None, tmp_path / "archive"), 'pip install "her-toolkit[agents]"'
    fails(2, message, "doctor", archive, "--html", tmp_path / "report.html")
