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
from examples.results import Grid, Page, claim_grid, provenance
from examples.training.config import Config

if TYPE_CHECKING:
    from examples.reproduce.runs import Run
    from examples.reproduce.study import Study

SIMULATORS = ("gymnasium-robotics", "mujoco")

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


def make_page(study: Study, outcomes: Outcomes, facts: Facts) -> Page:
    """Return the page: promises, table, figure, facts, and settings."""
    claims = study.judge(outcomes)
    grids = [claim_grid(claims, quick=study.quick)] if claims else []
    return Page(
        study.title,
        study.about,
        [*grids, study.tabulate(outcomes)],
        _facts(study, outcomes, facts),
        f"{RULES}\n\n{settings_of(study.runs)}",
        f"{study.name}.png",
    )


def _facts(study: Study, outcomes: Outcomes, facts: Facts) -> dict[str, str]:
    seeds = sorted({run.config.seed for run in study.runs})
    wall = timedelta(seconds=round(seconds_by_the_clock(outcomes)))
    processor = timedelta(seconds=round(float(outcomes.processor_seconds.sum())))
    return {
        **provenance(facts.command, max(each.ended for each in outcomes.all), SIMULATORS),
        "runs": f"{len(outcomes.all)} of {len(study.runs)}, seeds {', '.join(map(str, seeds))}; "
        f"each evaluation is a row of [{study.name}.csv]({study.name}.csv)",
        "time": f"{wall} by the clock, with --jobs {facts.jobs}; {processor} of the processor (h:mm:ss)",
        **{f"**failed**: {failure.run}": failure.reason for failure in facts.failures},
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
    table = Grid("Settings", [*runs[0].labels, *differing], [list(row) for row in rows])
    told = "All that is not as by default in `examples.training.config.Config`."
    shared = f"In all runs: {listed}.\n\n" if listed else ""
    return f"## {table.title}\n\n{told}\n\n{shared}{table.cells()}"


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
