"""Runs of a study: when a run ends, what is measured, and parallel processes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.studies import bitflip, runs
from benchmarks.studies.run_all import Failure, run_all
from benchmarks.studies.runs import Run, execute
from her_agents.training.config import make_config
from her_agents.training.loop import is_solved, train
from tests.support.studies import tiny_bits


def test_parallel_processes_give_the_same_results(monkeypatch):
    monkeypatch.setattr(runs, "FINAL_EPISODES", 100)  # as in the processes, where the fixture has no effect
    study = bitflip.make_study(1, quick=True)
    broken = Run({"n": 2, "goals": "broken"}, replace(study.runs[0].config, env="no/Such-v0"))
    results = {}
    run_all([*study.runs, broken], 2, lambda result: results.update({str(result.run): result}))
    failure = results.pop(str(broken))
    assert isinstance(failure, Failure)
    assert "cannot make no/Such-v0" in failure.reason
    for run in study.runs:
        here, there = execute(run), results[str(run)]
        assert [point.success_rate for point in here.curve] == [point.success_rate for point in there.curve]
        assert here.final.mean_return == there.final.mean_return


SCRIPT = """
import signal, sys
from pathlib import Path
from benchmarks.studies import bitflip
from benchmarks.studies.__main__ import main

settings = bitflip.settings
bitflip.QUICK = (2, 3)
bitflip.settings = lambda n: settings(n) | {"steps": 10**7 if n == 2 else 1_200, "steps_per_epoch": 10**6}
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_ctrl_c_ends_all_processes_and_keeps_completed_results(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    arguments = [sys.executable, script, "bitflip", "--quick", "--jobs", "3", "--out", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    table = tmp_path / "bitflip.csv"
    try:
        while not table.exists() or table.read_text().count("final") < 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Interrupted. Completed runs are in" in output
    assert "Traceback" not in output + errors


def test_run_ends_when_solved_and_is_evaluated_at_the_end():
    longer = {"steps": 6_000, "steps_per_epoch": 200, "batch_size": 64, "updates_per_step": 0.2}
    outcome = execute(Run({"n": 2}, make_config(tiny_bits(2), longer)))
    rates = [point.success_rate for point in outcome.curve]
    assert len(rates) < 30
    assert rates[-2:] == [1, 1]
    assert [1, 1] not in [rates[i : i + 2] for i in range(len(rates) - 2)]
    assert outcome.final.env_steps == outcome.curve[-1].env_steps
    assert outcome.final.processor_seconds > outcome.curve[-1].processor_seconds
    assert not is_solved([{"success_rate": 1.0}])


def test_final_episodes_differ_from_those_of_the_evaluations(monkeypatch):
    seeds = []

    original = runs.evaluate
    monkeypatch.setattr(runs, "evaluate", lambda *args: seeds.append(args[2:]) or original(*args))
    monkeypatch.setattr("her_agents.training.run.evaluate", runs.evaluate)
    execute(bitflip.make_study(1, quick=True).runs[0])
    assert seeds[-1][0] == 4
    assert seeds[-1][1] not in {seed for _, seed in seeds[:-1]}


def folder_run(folder, **options):
    return Run({"n": 2}, make_config(tiny_bits(2), {"steps": 90, "seed": 1}, options), folder)


def test_run_with_a_folder_continues_an_interrupted_training(tmp_path):
    whole = execute(folder_run(tmp_path / "whole"))
    train(folder_run(None, steps=60).config, folder=tmp_path / "part", on_epoch=None)
    resumed = execute(folder_run(tmp_path / "part"))
    one, other = (
        [(point.env_steps, point.updates, point.success_rate) for point in each.curve]
        for each in (whole, resumed)
    )
    assert one == other
    assert resumed.final.success_rate == whole.final.success_rate
    assert resumed.curve[0].processor_seconds == 0 < resumed.curve[-1].processor_seconds
    assert resumed.final.seconds > resumed.curve[-1].seconds > resumed.curve[0].seconds
