"""The benchmark of recording: it measures all recorders, and judges its requirements."""

from benchmarks import recording
from benchmarks.array_envs import ArrayVectorEnv
from benchmarks.timing import Timing
from her_wrappers import VectorEpisodeRecorder


def test_table_has_all_measured_recorders(monkeypatch):
    monkeypatch.setattr(recording, "NUM_ENVS", 8)
    contenders = recording.contenders(5_000)
    costs = recording.measure_costs(contenders, Timing(turns=2, seconds=0.0))
    assert list(costs) == list(contenders)
    assert all(len(values) == 2 for values in costs.values())
    rows = recording.cost_grid(costs).rows
    assert len(rows) == len(contenders)
    assert len(recording.requirements(costs)) == 3


def test_runs_as_many_episodes_as_it_counts():
    for horizon in (10, 50):
        episodes = []
        env = VectorEpisodeRecorder(ArrayVectorEnv(4, horizon), episodes.append)
        recording.vector(env, horizon)(3)
        assert [len(episode) for episode in episodes] == [horizon] * 12
