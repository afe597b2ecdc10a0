"""The page of a study: what was done, by what machine, how it was configured, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from examples.reproduce.outcomes import Outcomes
from examples.reproduce.pool import Failure
from examples.reproduce.runs import FINAL_EPISODES
from examples.results import Grid, machine, versions
from examples.training.config import Config

if TYPE_CHECKING:
    from examples.reproduce.runs import Run
    from examples.reproduce.study import Study

PACKAGES = ("torch", "numpy", "gymnasium", "gymnasium-robotics", "mujoco")

RULES = f"""Every arm is trained and measured alike. A training ends when two evaluations in a row saw
nothing but successes, else when its steps are used up. Success rates are those of the greedy policy at that
end, not of its best moment, in {FINAL_EPISODES} episodes of their own. Numbers are medians over the seeds,
with the lowest and the highest in brackets; figures shade that range. Where a seed ends before others its
curve goes on with its last value."""


@dataclass(frozen=True)
class Facts:
    """What is known of how a study was done.

    Attributes:
        command: What the user typed.
        jobs: Processes.
        failures: Runs that came to nothing.
    """

    command: str
    jobs: int
    failures: Sequence[Failure]


def make_page(study: Study, outcomes: Outcomes, grids: Iterable[Grid], facts: Facts) -> str:
    """Return the page as Markdown."""
    listed = "".join(f"- {name}: {value}\n" for name, value in _facts(study, outcomes, facts).items())
    failed = "".join(f"- **failed**: {failure.run}: {failure.reason}\n" for failure in facts.failures)
    tables = "\n".join(grid.markdown() for grid in grids)
    return (
        f"# {study.title}\n\n{study.about.strip()}\n\n![{study.title}]({study.name}.png)\n\n{tables}\n"
        f"## How it was done\n\n{listed}{failed}\n{RULES}\n\n{settings_of(study.runs)}"
    )


def _facts(study: Study, outcomes: Outcomes, facts: Facts) -> dict[str, str]:
    seeds = sorted({run.config.seed for run in study.runs})
    wall = timedelta(seconds=round(seconds_by_the_clock(outcomes)))
    processor = timedelta(seconds=round(float(outcomes.processor_seconds.sum())))
    return {
        "command": f"`{facts.command}`",
        "machine": machine(),
        "versions": versions(PACKAGES),
        "runs": f"{len(outcomes.all)} of {len(study.runs)}, seeds {', '.join(map(str, seeds))}; "
        f"each evaluation is a row of [{study.name}.csv]({study.name}.csv)",
        "time": f"{wall} by the clock, with --jobs {facts.jobs}; {processor} of the processor (h:mm:ss)",
    }


def seconds_by_the_clock(outcomes: Outcomes) -> float:
    """Return how long at least one run was under way; pauses of an interrupted study do not count."""
    spans = sorted((each.ended - timedelta(seconds=each.final.seconds), each.ended) for each in outcomes.all)
    total, until = timedelta(), datetime.min.replace(tzinfo=spans[0][0].tzinfo)
    for start, end in spans:
        total += max(timedelta(), end - max(start, until))
        until = max(until, end)
    return total.total_seconds()


def settings_of(runs: Sequence[Run]) -> str:
    """Return all that deviates from the defaults of `Config`, first what all runs have in common."""
    options = [_options(run.config) for run in runs]
    names = list(dict.fromkeys(chain.from_iterable(options)))
    values = {name: [each.get(name) for each in options] for name in names}
    common = [name for name in names if all(value == values[name][0] for value in values[name])]
    differing = [name for name in names if name not in common]
    defaults = _defaults()
    listed = ", ".join(
        f"`{name} = {json.dumps(values[name][0])}`"
        for name in common
        if name not in defaults or values[name][0] != defaults[name]
    )
    rows = dict.fromkeys(
        (*map(str, run.labels.values()), *(_cell(each, name) for name in differing))
        for run, each in zip(runs, options, strict=True)
    )
    table = Grid("Settings", [*runs[0].labels, *differing], [list(row) for row in rows]).markdown()
    title, _, cells = table.partition("\n\n")
    shared = f"In all runs: {listed}.\n\n" if listed else ""
    return (
        f"{title}\n\nAll that is not as by default in `examples.training.config.Config`.\n\n{shared}{cells}"
    )


def _cell(options: Mapping[str, Any], name: str) -> str:
    return json.dumps(options[name]) if name in options else "default"


def _options(config: Config) -> dict[str, Any]:
    """Return options by name, those within tables by the names of both; the seed is told elsewhere."""
    return {name: value for name, value in _flat(config.as_dict()) if name != "seed"}


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _defaults() -> dict[str, Any]:
    return {each.name: each.default for each in fields(Config) if each.default is not MISSING}
