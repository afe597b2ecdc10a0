"""read_progress: read ``progress.csv``, the log of a run of ``her train``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from her_wrappers.data.text import parse_file


def read_progress(path: Path) -> list[dict[str, float]]:
    """Return one dict for each evaluation in the file, without the empty cells.

    Args:
        path: A file ``progress.csv`` of a run folder.

    Raises:
        CorruptFileError: The file is damaged, or a row has no value in the column ``success_rate``.
        OSError: The file cannot be read.
    """
    return parse_file(path, _rows, "the log of a run")


def _rows(text: str) -> list[dict[str, float]]:
    table = csv.DictReader(io.StringIO(text, newline=""))
    rows = [{name: float(cell) for name, cell in row.items() if cell} for row in table]
    header = table.fieldnames or ["success_rate"]  # an empty file has no header
    if any("success_rate" not in names for names in (header, *rows)):
        raise ValueError("each row must have a value in the column 'success_rate'")
    return rows
