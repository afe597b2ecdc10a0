"""Options and pages of all benchmarks."""

import importlib
from pathlib import Path

import pytest

from benchmarks import timing
from benchmarks.result_page import Benchmark, Grid, at_most, count

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

FOLDER = Path(timing.__file__).parent
COMMANDS = sorted(path.stem for path in FOLDER.glob("*.py") if "\nBENCHMARK = " in path.read_text())
assert len(COMMANDS) > 10  # an empty list would pass all tests

DOC = """What is measured.

For example:

    python -m benchmarks.mine --quick     to see that it runs

How it is measured.

And more.
"""
MINE = Benchmark("mine", "Mine", DOC, ("rich",))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_and_the_path_of_the_page(name, capsys):
    module = importlib.import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit, match=r"^0$"):
        module.main(["--help"])
    shown = capsys.readouterr().out
    assert "For example:\n\n    " in shown
    assert f"    python -m benchmarks.{name} --quick " in shown
    assert f"docs/results/{name}.md, or runs/benchmarks/{name}.md with --quick" in " ".join(shown.split())


def test_a_quick_run_writes_to_another_folder_and_out_sets_the_file():
    outs = [MINE.parse(arguments, "q").out for arguments in ([], ["--quick"], ["--quick", "--out", "a"])]
    assert list(map(str, outs)) == ["docs/results/mine.md", "runs/benchmarks/mine.md", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "."], "--out must be a file, got the folder ."),
        (["--bits", "0"], "argument --bits: must be an integer of at least 1, got 0"),
        (["--bits", "many"], "argument --bits: must be an integer of at least 1, got many"),
    ],
)
def test_bad_options_are_usage_errors(arguments, message, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        MINE.parse(arguments, "q", bits={"type": count})
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


def test_missed_requirements_are_named_but_not_those_of_a_quick_run(tmp_path):
    missed = [at_most("time", 1, 2.0), at_most("size", 1, 1.0)]
    for arguments, sentences in ([], ["time is 2; at most 1 is required"]), (["--quick"], []):
        options = MINE.parse([*arguments, "--out", str(tmp_path / "a.md")], "q")
        page = MINE.publish(options, "", [], {}, requirements=missed)
        assert list(map(str, page.missed)) == sentences


def test_page_has_answer_results_command_and_method(tmp_path):
    path = tmp_path / "runs" / "mine.md"
    arguments = ["--out", str(path), "--bits", "3"]
    options = MINE.parse(arguments, "q", bits={"type": count})
    page = MINE.publish(options, "The answer.", [Grid("G", ["a"], [["1"]])], {"run": "once"})
    assert options.bits == 3
    assert path.read_text(encoding="utf-8") == page.markdown()
    assert page.markdown().startswith("# Mine\n\nThe answer.\n\n## G\n")
    assert page.markdown().endswith("\n- run: once\n\nHow it is measured.\n\nAnd more.\n")
    assert page.facts["command"] == f"`python -m benchmarks.mine {' '.join(arguments)}`"
    assert "cores" in page.facts["machine"]
    assert "rich" in page.facts["versions"]
