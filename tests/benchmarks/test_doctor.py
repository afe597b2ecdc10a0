"""The benchmark of the diagnosis, with fewer episodes."""

from benchmarks.doctor import BLOCK, STEPS, write_archive
from her_wrappers.diagnosis import diagnose


def test_the_archive_of_the_benchmark_has_episodes_like_fetchpush_without_findings(tmp_path):
    write_archive(tmp_path / "archive", episodes=BLOCK)
    report = diagnose(tmp_path / "archive")
    assert (report.episodes, report.steps) == (BLOCK, BLOCK * STEPS)
    assert not report.findings
