"""The benchmark of the diagnosis, with fewer episodes."""

from benchmarks.doctor import BLOCK, STEPS, main, write_archive
from her_wrappers.diagnosis import diagnose


def test_the_archive_of_the_benchmark_has_episodes_like_fetchpush_without_findings(tmp_path):
    write_archive(tmp_path / "archive", episodes=BLOCK)
    report = diagnose(tmp_path / "archive")
    assert (report.episodes, report.steps) == (BLOCK, BLOCK * STEPS)
    assert not report.findings


def test_a_quick_run_writes_a_page_with_time_and_memory(tmp_path):
    main(["--quick", "--out", str(tmp_path / "page.md")])
    page = (tmp_path / "page.md").read_text()
    assert "`her doctor` takes " in page
    assert "50,000 transitions in 1,000 episodes; repetitions: 1" in page
