"""The benchmark of saving and loading buffers."""

import re

from benchmarks import snapshot


def test_page_shows_times_memory_and_file_size(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "TURNS", 1)
    page = tmp_path / "snapshot.md"
    snapshot.main(["--transitions", "2500", "--out", str(page)])
    written = page.read_text(encoding="utf-8")
    assert re.search(r"^- buffer: 2,500 transitions, \d+ MB in memory$", written, re.MULTILINE)
    assert len(re.findall(r"^\| (?:save|load) \| \d+\.\d\d \| \d+ \|$", written, re.MULTILINE)) == 2
    assert re.search(r"^- file: \d+ MB$", written, re.MULTILINE)
