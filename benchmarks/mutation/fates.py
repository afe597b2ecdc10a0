"""What became of the mutants, as tables."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.mutation.campaign import Outcome
from benchmarks.mutation.mutants import Mutant
from her_agents.studies.result_page import Claim, Grid, at_least

ARGUED = Path(__file__).with_name("argued.toml")
LEFT = ("survived", "not run")
WIDTH = 60  # characters of code in a cell


def claims(outcomes: Mapping[str, Sequence[Outcome]]) -> list[Claim]:
    """Return what is promised of each part."""
    return [at_least(f"share killed of {part}", 0.85, _score(found)[0]) for part, found in outcomes.items()]


def scores(outcomes: Mapping[str, Sequence[Outcome]]) -> Grid:
    """Return what became of how many; of a sample, the interval is Wilson's for 95 %."""
    header = ["part", "tried", "killed", "timed out", "survived", "not run", "score", "interval of a sample"]
    return Grid("Fates", header, [_row(part, found) for part, found in outcomes.items()])


def survivors(outcomes: Mapping[str, Sequence[Outcome]]) -> Grid:
    """Return who is left, and why, where that is known."""
    argued = {(entry["path"], entry["before"], entry["after"]): entry["why"] for entry in _argued()}
    left = [one.mutant for found in outcomes.values() for one in found if one.fate in LEFT]
    rows = []
    for mutant in left:
        before, after = difference(mutant)
        why = argued.get((mutant.path, before, after), "")
        where = f"{mutant.path.removeprefix('her_wrappers/')}:{mutant.lines[0]}"
        rows.append([where, why, _code(before), _code(after)])
    return Grid("Survivors", ["where", "why no test sees it", "code", "mutant"], rows)


def _row(part: str, outcomes: Sequence[Outcome]) -> list[str]:
    fates = Counter(outcome.fate for outcome in outcomes)
    score, low, high = _score(outcomes)
    tried = len(outcomes) - fates["not possible"]
    counts = [tried, fates["killed"], fates["timed out"], fates["survived"], fates["not run"]]
    return [part, *map(str, counts), f"{score:.1%}", f"{low:.1%} to {high:.1%}"]


def _score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    tried = [outcome for outcome in outcomes if outcome.fate != "not possible"]
    killed = sum(outcome.fate not in LEFT for outcome in tried)
    return killed / len(tried), *_wilson(killed, len(tried))


def _wilson(killed: int, tried: int) -> tuple[float, float]:
    z = 1.96
    middle = (killed + z * z / 2) / (tried + z * z)
    half = z / (tried + z * z) * math.sqrt(killed * (tried - killed) / tried + z * z / 4)
    return middle - half, middle + half


def _argued() -> list[dict[str, str]]:
    return list(tomllib.loads(ARGUED.read_text())["survivor"])


def difference(mutant: Mutant, around: int = 24) -> tuple[str, str]:
    """Return the code and the mutant, without what is alike far from the change."""
    before, after = mutant.before, mutant.after
    head = max(0, _alike(before, after) - around)
    tail = max(0, _alike(before[head:][::-1], after[head:][::-1]) - around)
    return _cut(before, head, tail), _cut(after, head, tail)


def _alike(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _cut(text: str, head: int, tail: int) -> str:
    return ("…" if head else "") + text[head : len(text) - tail] + ("…" if tail else "")


def _code(text: str) -> str:
    text = text if len(text) <= WIDTH else text[:WIDTH] + "…"
    return f"`` {text} ``".replace("|", "\\|")
