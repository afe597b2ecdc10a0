"""The progress bar of a run."""

from __future__ import annotations

import io

from rich.console import Console

from her_wrappers.commands.train import progress_display


def test_a_long_run_fits_a_terminal_of_80_columns():
    console = Console(file=io.StringIO(), width=80)
    with progress_display(console) as progress:
        progress.add_task(
            "without HER",
            total=10_000_000,
            completed=9_000_000,
            success=1,
            steps_per_s=12_345,
            updates_per_s=1_234,
        )
    (line,) = console.file.getvalue().splitlines()
    for part in ("without HER", " 90% ", "success 1.00", "12,345 steps/s", "1,234 updates/s", "-:--:--"):
        assert part in line
    assert len(line) <= 80
    assert "…" not in line
