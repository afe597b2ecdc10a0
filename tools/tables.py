"""Functions that return the tables and numbers which `tools/generate.py` writes into pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.result_page import in_words, markdown_table
from her_agents.recipes import Recipe, read_recipe, recipe_names
from her_envs import registration
from her_wrappers import cli
from her_wrappers.checker import GOAL_ENV_RULES
from her_wrappers.conformance import REPLAY_RULES
from her_wrappers.diagnosis import DIAGNOSIS_RULES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PEERS = ("Stable-Baselines3", "cpprb", "TorchRL", "Tianshou")

COLUMNS = {
    "GE": {"what is wrong": "meaning", "repair wrapper": "repair"},
    "HB": {"what is wrong": "meaning", "fix": "fix"},
    "GD": {"what is wrong": "meaning"},  # a finding and `her rules CODE` have the change to try
}
"""Columns that follow code, name and severity in the tables of rules: the field of a rule by heading."""


def rule_set(family: str) -> Mapping[str, Any]:
    """Return the rules of a suite, GE, HB or GD, by code."""
    return {"GE": GOAL_ENV_RULES, "HB": REPLAY_RULES, "GD": DIAGNOSIS_RULES}[family]


def rules(family: str) -> str:
    """Return the table of the rules of a suite."""
    columns = COLUMNS[family]
    rows = [
        [rule.code, rule.name, rule.severity, *(getattr(rule, field) for field in columns.values())]
        for _, rule in sorted(rule_set(family).items())
    ]
    if family == "GE":  # the last column names a class
        rows = [[*row[:-1], row[-1] and f"`{row[-1]}`"] for row in rows]
    return markdown_table(["code", "name", "severity", *columns], rows)


def count(family: str) -> str:
    """Return the number of rules of a suite."""
    return str(len(rule_set(family)))


def commands() -> str:
    """Return the table of all commands."""
    return markdown_table(
        ["command", "description"], [(f"`her {name}`", text) for name, text in cli.COMMANDS.items()]
    )


def recipes() -> str:
    """Return the table of the measured results of recipes, ordered by decreasing number of seeds."""
    measured = [(recipe, recipe.measured) for recipe in map(read_recipe, recipe_names()) if recipe.measured]
    rows = []
    for recipe, result in sorted(measured, key=lambda row: (-row[1].seeds, row[0].environment)):
        solved = "" if recipe.solved == Recipe.solved else f" (to {recipe.solved:.2f})"
        page = f"[{recipe.environment}](docs/results/recipe_{recipe.name}.md)"
        page += ", with demonstrations" * ("demos" in recipe.options)
        steps = f"{result.steps:,}{solved}"
        rows.append([page, f"{result.success:.2f}", steps, f"{result.minutes:.0f}", result.seeds])
    return markdown_table(["task", "success rate", "steps to 0.95", "minutes to 0.95", "seeds"], rows)


def recipe_details() -> str:
    """Return the table of all recipes, with their tasks and the medians from docs/results."""
    heads = ["recipe", "task", "steps to 0.95", "minutes", "final success", "seeds"]
    rows = []
    for name in recipe_names():
        recipe = read_recipe(name)
        task = re.sub(r"(?: \([^()]*\))?\.$", "", recipe.task)
        head = [f"`{name}`", f"{recipe.environment}: {task[0].lower()}{task[1:]}"]
        if recipe.measured is None:
            rows.append([*head, "not measured yet", "", "", ""])
            continue
        *costs, success = row_of(RESULTS / f"recipe_{name}.md", "median")
        steps, minutes = (cost.split()[0] for cost in costs)  # without the range
        if recipe.solved != Recipe.solved:
            steps = f"{steps} (to {recipe.solved:.2f})"
        head[0] = f"[{head[0]}](results/recipe_{name}.md)"
        rows.append([*head, steps, minutes, success, str(recipe.measured.seeds)])
    return markdown_table(heads, rows)


def environments() -> str:
    """Return the table of the bundled environments: action space, state and end of episodes."""
    rows = []
    for env_id, (name, options) in registration.ENTRY_POINTS.items():
        task = getattr(registration, name).args[1]
        action = type(task(**options).action_space).__name__
        if options:
            shown = ", ".join(f"`{option}={value!r}`" for option, value in options.items())
            rows.append([f"`{env_id}`", action, f"{task.__name__} with {shown}", ""])
            continue
        parts = dict(
            re.findall(r"^(\w+): ((?:.+\n?)+?)(?=\w+:|\n|$)", inspect.getdoc(task) or "", re.MULTILINE)
        )
        texts = (" ".join(parts[part].replace("``", "`").split()) for part in ("State", "Episode"))
        rows.append([f"`{env_id}`", action, *texts])
    return markdown_table(["id", "actions", "state", "episode"], rows)


def tasks() -> str:
    """Return the entries of the bundled tasks in the reference."""
    names = {getattr(registration, name).args[1].__name__ for name, _ in registration.ENTRY_POINTS.values()}
    entry = "::: her_envs.{}\n    options: {{ heading_level: 3, members: false }}"
    return "\n\n".join(entry.format(name) for name in sorted(names))


def speed() -> str:
    """Return the table of the replay buffer's speed compared with other libraries, from docs/results."""
    ours = measured("replay.md", "## Sampling 256", "her-toolkit", 2)
    small = [measured("replay.md", "## Sampling 256", peer, 2) / ours for peer in PEERS]
    few_priorities, priorities = (
        1 / measured("replay_priorities.md", "## Microseconds", "cpprb with HER", column) for column in (6, 7)
    )
    recorded = re.search(r"([\d.]+) times faster", read(RESULTS / "recording.md"))  # in the answer
    if recorded is None:
        raise ValueError("recording.md: the answer has no ratio")
    theirs, mine = (
        measured("sb3_training.md", "## Time of a step", f"1,000,000 | {name}", 3)
        for name in ("Stable-Baselines3", "her_wrappers")
    )
    rows: list[tuple[str, str, list[float]]] = [
        (
            "`sample(256)` of 1,000,000 transitions",
            "replay",
            [measured("replay.md", "## Sampling 256", peer, 5) for peer in PEERS],
        ),
        ("`sample(256)` of 10,000 transitions", "replay", small),
        (
            "adding a step, then `sample(256)` of 1,000,000",
            "replay",
            [measured("replay.md", "## Adding and sampling", peer, 3) for peer in PEERS],
        ),
        (
            "`sample(256)` of 1,000,000 with priorities, and updating them",
            "replay_priorities",
            [0, priorities],
        ),
        (
            "`sample(256)` of 10,000 with priorities, and updating them",
            "replay_priorities",
            [0, few_priorities],
        ),
        (
            "recording a step into the buffer with `EpisodeRecorder`",
            "recording",
            [float(recorded[1])],
        ),
        ("a whole step of a SAC run, buffer of 1,000,000", "sb3_training", [theirs / mine]),
    ]
    return markdown_table(
        ["", *PEERS],
        [
            [
                f"[{label}](docs/results/{page}.md)",
                *([in_words(ratio) if ratio else "" for ratio in ratios] + [""] * 4)[:4],
            ]
            for label, page, ratios in rows
        ],
    )


QUESTIONS = {
    "How fast?": [
        "replay",
        "replay_priorities",
        "recording",
        "sb3_training",
        "agents",
        "env_speed",
        "checker",
        "doctor",
    ],
    "How right?": ["situations", "reliability", "mutation"],
    "What is solved?": [
        *(f"recipe_{name}" for name in recipe_names() if read_recipe(name).measured),
        *("sb3_success", "ablation", "reach", "strategies", "bitflip", "tried"),
    ],
    "What scales?": [
        "collecting",
        "real_time",
        "replay_gpu",
        "solve_gpu",
        "agents_gpu",
    ],
}
"""Names of the pages of results, without suffix, by topic."""


def results() -> str:
    """Return a section for each topic, with a table of the questions and answers of its result pages."""
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"index"}
    if pages != (listed := {name for names in QUESTIONS.values() for name in names}):
        raise ValueError(f"QUESTIONS must list all pages of docs/results, got {pages ^ listed}")
    parts = []
    for topic, names in QUESTIONS.items():
        rows = []
        if topic == "What is solved?":
            links = (f"[{name}]({name}.md)".replace("[recipe_", "[") for name in names if "recipe_" in name)
            answer = f"{', '.join(links)}."
            rows.append(["[How fast does each recipe solve its task?](../recipes.md)", answer])
        for name in (name for name in names if not name.startswith("recipe_")):
            title, answer = read(RESULTS / f"{name}.md").removeprefix("# ").split("\n\n")[:2]
            rows.append([f"[{title}]({name}.md)", " ".join(answer.split())])
        parts.append(f"## {topic}\n\n{markdown_table(['question', 'answer'], rows)}")
    return "\n\n".join(parts)


SB3_BUFFERS = {
    "theirs": "Stable-Baselines3",
    "keep": 'her_wrappers, termination="keep"',
    "ours": 'her_wrappers, termination="success"',
}


def sb3_success(buffer: str) -> str:
    """Return the mean success rate of a buffer in Stable-Baselines3's own performance test of HER."""
    return f"{measured('sb3_success.md', '## Success', SB3_BUFFERS[buffer], 2):.2f}"


def sb3_passed(buffer: str) -> str:
    """Return the number of seeds with which a buffer passes Stable-Baselines3's performance test of HER."""
    return f"{measured('sb3_success.md', '## Success', SB3_BUFFERS[buffer], 4):.0f}"


@cache
def read(page: Path) -> str:
    """Return the text of a page."""
    return page.read_text()


def row_of(page: Path, start: str) -> list[str]:
    """Return the remaining cells of the first table row of a page that begins with the cells ``start``."""
    (row,) = re.findall(rf"^\| {re.escape(start)} \| (.*) \|$", read(page), re.MULTILINE)[:1]
    return list(row.split(" | "))


def measured(page: str, section: str, row: str, column: int) -> float:
    """Return the number in column ``column`` of the first table row ``row`` after ``section`` in a page."""
    text = read(RESULTS / page).split(section, 1)[1]
    (line,) = re.findall(rf"^\| {re.escape(row)} \|.*$", text, re.MULTILINE)[:1]
    found = re.search(r"[\d.,]+", line.split("|")[column])
    if found is None:
        raise ValueError(f"{page}: no number in column {column} of {row}")
    return float(found[0].replace(",", ""))
