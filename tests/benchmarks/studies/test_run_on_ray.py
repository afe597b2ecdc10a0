"""Studies in a Ray cluster: the same results as in one process, also if a node is lost."""

import threading

import pytest

from benchmarks.studies import bitflip, runs
from benchmarks.studies.run_all import run_all, run_on_ray
from tests.support.ray_cluster import three_nodes

pytest.importorskip("ray", reason="the extra `ray` is not installed")


@pytest.mark.slow
def test_runs_of_a_lost_node_are_executed_again(monkeypatch):
    monkeypatch.setattr(runs, "FINAL_EPISODES", 100)  # as in the workers, where the fixture has no effect
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
