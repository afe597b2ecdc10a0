"""The benchmark of saved buffers runs, on as many transitions as it is told."""

from __future__ import annotations

import re

from benchmarks import snapshot


def test_everything_is_measured_and_shown(capsys, monkeypatch):
    monkeypatch.setattr(snapshot, "TURNS", 1)
    snapshot.main(["--transitions", "2500"])
    shown = capsys.readouterr().out
    assert re.search(r"^2,500 transitions, \d+ MB in memory$", shown, re.MULTILINE)
    assert len(re.findall(r"^(?:save|load) \d+\.\d\d s, \d+ MB beside it$", shown, re.MULTILINE)) == 2
    assert re.search(r"^file \d+ MB$", shown, re.MULTILINE)
