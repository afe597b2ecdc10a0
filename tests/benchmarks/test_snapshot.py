"""The benchmark of saved buffers runs, on as many transitions as it is told."""

from __future__ import annotations

import re

from benchmarks import snapshot


def test_everything_is_measured_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "TURNS", 1)
    page = tmp_path / "snapshot.md"
    snapshot.main(["--transitions", "2500", "--out", str(page)])
    written = page.read_text(encoding="utf-8")
    assert re.search(r"^- buffer: 2,500 transitions, \d+ MB in memory$", written, re.MULTILINE)
    assert len(re.findall(r"^\| (?:save|load) \| \d+\.\d\d \| \d+ \|$", written, re.MULTILINE)) == 2
    assert re.search(r"^- file: \d+ MB$", written, re.MULTILINE)
