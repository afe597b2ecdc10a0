"""Studies in a Ray cluster: the same results as in one process, also if a node is lost."""

import contextlib
import csv
import threading

import pytest

from benchmarks.studies import bitflip, runs
from benchmarks.studies.run_all import run_all, run_on_ray
from tests.support.ray_cluster import one_node, three_nodes
from tests.support.studies import do

pytest.importorskip("ray", reason="the extra `ray` is not installed")

TIMES = {"seconds", "processor_seconds", "ended"}


def rows_without_times(path):
    with path.open() as file:
        rows = [
            {name: cell for name, cell in row.items() if name not in TIMES} for row in csv.DictReader(file)
        ]
    return sorted(rows, key=str)


def test_a_study_in_ray_has_the_results_of_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "FINAL_EPISODES", 100)  # as in the workers, where the fixture has no effect
    for backend, nodes in [("process", contextlib.nullcontext()), ("ray", one_node(num_cpus=2))]:
        with nodes:
            result = do("bitflip", "--quick", "--jobs", 1, "--out", tmp_path / backend, "--backend", backend)
        assert result.exit_code == 0, result.output
    rows = [rows_without_times(tmp_path / backend / "bitflip.csv") for backend in ("process", "ray")]
    assert rows[0] == rows[1]
    assert rows[0]


@pytest.mark.slow
def test_runs_of_a_lost_node_are_executed_again(monkeypatch):
    monkeypatch.setattr(runs, "FINAL_EPISODES", 100)
    study = bitflip.make_study(3, quick=True)
    here, there = {}, {}
    run_all(study.runs, 1, lambda result: here.update({result.run.key: result.final.mean_return}))
    with three_nodes() as cluster:
        node = cluster.list_all_nodes()[-1]
        timer = threading.Timer(3.0, cluster.remove_node, [node], {"allow_graceful": False})
        timer.start()
        run_on_ray(study.runs, 1, lambda result: there.update({result.run.key: result.final.mean_return}))
        timer.join()
    assert here == there
