"""Text files that may be damaged: manifests, options, and logs of runs, such as ``progress.csv``."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from her_wrappers.data.arrays import as_corrupt
from her_wrappers.data.atomic import open_regular

SB3_METRICS = {
    "time/total_timesteps": "env_steps",
    "rollout/success_rate": "collected_success",
    "train/n_updates": "updates",
    "train/critic_loss": "critic_loss",
    "train/loss": "loss",
    "train/ent_coef": "temperature",
}
"""Columns of the log of Stable-Baselines3, and those of ``her train`` with the same meaning."""

Content = TypeVar("Content")


def parse_file(path: Path, parse: Callable[[str], Content], expected: str) -> Content:
    """Return ``parse(text)`` of a UTF-8 file, or raise CorruptFileError: the file is not ``expected``."""
    with open_regular(path) as file:
        content = file.read()
    with as_corrupt(f"{path} is damaged, or is not {expected}"):
        return parse(content.decode("utf-8-sig"))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file as dicts from column to the text of the cell, "" for a missing cell."""
    rows = parse_file(path, lambda text: list(csv.DictReader(text.splitlines())), "a CSV file")
    return [{name: cell or "" for name, cell in row.items() if name} for row in rows]


def read_progress(path: Path) -> list[dict[str, float]]:
    """Return the rows of a ``progress.csv``, also of Stable-Baselines3, as dicts from column to number."""
    with as_corrupt(f"{path} is damaged, or is not the log of a run"):
        rows = read_rows(path)
        if any("time/total_timesteps" in row for row in rows):
            of_agent = any(row.get("eval/success_rate") for row in rows)  # else of episodes with exploration
            rate = "eval/success_rate" if of_agent else "rollout/success_rate"
            names = {**SB3_METRICS, rate: "success_rate"}
            rows = [{new: row.get(name, "") for name, new in names.items()} for row in rows if row.get(rate)]
            if not rows:
                raise ValueError(f"it has no {rate}; Stable-Baselines3 logs it if infos have is_success")
        history = [{name: float(cell) for name, cell in row.items() if cell} for row in rows]
        if not all("success_rate" in row for row in rows):  # empty in epochs without an evaluation
            raise ValueError("it must have the column 'success_rate'")
    return history
