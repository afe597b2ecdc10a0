"""The command of a benchmark and its page of results."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks import timing
from benchmarks.result_page import Benchmark, Grid, at_least, at_most, compared_with, count, spread

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

FOLDER = Path(timing.__file__).parent
COMMANDS = sorted(path.stem for path in FOLDER.glob("*.py") if "\nBENCHMARK = " in path.read_text())
MINE = Benchmark(
    "mine", "Mine", "What.\n\nFor example:\n\n    mine --quick\n\nHow it is measured.\n", ("rich",)
)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_benchmark_has_help(name, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        importlib.import_module(f"benchmarks.{name}").main(["--help"])
    assert f"    python -m benchmarks.{name} --quick " in capsys.readouterr().out


def test_a_quick_run_writes_to_another_folder_and_out_sets_the_file():
    outs = [MINE.parse(arguments, "q").out for arguments in ([], ["--quick"], ["--quick", "--out", "a"])]
    assert list(map(str, outs)) == ["docs/results/mine.md", "runs/benchmarks/mine.md", "a"]


@pytest.mark.parametrize("arguments", [["--out", "."], ["--bits", "0"], ["--bits", "many"]])
def test_bad_options_are_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        MINE.parse(arguments, "q", bits={"type": count})
    assert arguments[0] in capsys.readouterr().err.splitlines()[-1]


def test_the_page_has_answer_tables_missed_requirements_and_method(tmp_path):
    required = [at_most("time", 1, 2.0), at_most("size", 1, 1.0), at_least("speed", 1, None)]
    path = tmp_path / "new" / "mine.md"
    options = MINE.parse(["--out", str(path)], "q")
    grids = [Grid("Times", ["n", "what"], [["1", "a"]])]
    page = MINE.publish(options, "So fast.", grids, {"run": "once"}, requirements=required, picture="a.svg")
    assert page.missed == required[:1]
    text = path.read_text()
    parts = ["# Mine\n", "So fast.", "(a.svg)", "| n | what |\n|---|---|\n| 1 | a |\n", "time", "run: once"]
    places = [text.index(part) for part in [*parts, "How it is measured.\n"]]
    assert places == sorted(places)
    assert "rich" in page.facts["versions"]
    quick = MINE.parse(["--quick", "--out", str(path)], "q")
    assert MINE.publish(quick, "", [], {}, requirements=required).missed == []


def test_cells_show_median_and_range_and_ratios_name_the_faster_one():
    assert spread(np.array([0.2, 1.0, 0.9])) == "0.90 (0.20 to 1.00)"
    assert (spread([1.0, 1.0]), spread([]), spread([3, 1_000], ",.0f")) == ("1.00", "", "502 (3 to 1,000)")
    compared = [compared_with("X", ratio) for ratio in (22.49, 1.03, 0.721)]
    assert compared == ["22 times faster than X", "about as fast as X", "1.4 times slower than X"]
