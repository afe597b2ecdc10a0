"""The page on RLlib: its code runs, its programs solve their tasks."""

import re

import pytest

from tests.support.pages import EXAMPLE, ROOT, run_page

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = ROOT / "docs" / "rllib.md"
SHORTER = (
    (r"range\(\d+\)", "range(1)"),
    (r"training_intensity=256 \* \d+", "training_intensity=256"),
    (r"evaluation_duration=100", "evaluation_duration=2"),
    (r"\.debugging\(", ".reporting(min_sample_timesteps_per_iteration=240).debugging("),
)
"""Changes of the programs for a test in seconds: one iteration, few updates, few test episodes."""


def shortened(text):
    for pattern, replacement in SHORTER:
        text, count = re.subn(pattern, replacement, text)
        assert count == 2, f"{pattern} must occur in both programs"
    return text


def program(name):
    """The program of the page that uses a configuration."""
    return next(
        match["code"] for match in EXAMPLE.finditer(PAGE.read_text()) if f"{name}()\n" in match["code"]
    )


def success_rate(code, capsys):
    capsys.readouterr()
    names = {}
    exec(code, names)
    for made in ("algo", "reach"):
        if made in names:
            names[made].stop()
    return float(re.search(r"success rate ([\d.]+)", capsys.readouterr().out)[1])


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    page = tmp_path / "rllib.md"
    page.write_text(shortened(PAGE.read_text()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tests.support.pages.ROOT", tmp_path)
    run_page(page, {}, capsys)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("configuration", ["HerDQNConfig", "HerSACConfig"])
def test_programs_solve_their_task_with_relabeling_only(configuration, seed, capsys):
    code = program(configuration).replace("seed=0", f"seed={seed}")
    assert success_rate(code, capsys) >= 0.95
    without = code.replace('"n_sampled_goal": 4', '"n_sampled_goal": 0')
    assert success_rate(without, capsys) <= 0.05
