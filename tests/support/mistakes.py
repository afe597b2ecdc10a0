"""The table of mistakes in README.md and docs/checking.md: planted faults that three checkers find.

`python -m tests.support.mistakes` writes it into both pages.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

import gymnasium as gym
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from her_wrappers.checker import check_goal_env
from tests.support.specimens.broken import FAULTS

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/checking.md")
SEEDS = range(5)
TABLE = re.compile(r"^\| mistakes \|.*\n(\|.*\n)+", re.MULTILINE)

# Kinds of mistakes, by the first letters of the codes.
KINDS = {
    "`reset`, `step` or `compute_reward` raises": ("GE000",),
    "goals and observations missing, or outside their spaces": ("GE00",),
    "rewards of `step` that `compute_reward` does not give": ("GE101", "GE103"),
    "rewards that mix up rows, or fail on a batch": ("GE104", "GE105", "GE106", "GE108", "GE119"),
    "functions that fail on a buffer's arrays, or reuse their output": ("GE12",),
    "`compute_reward` that writes, remembers or is random": ("GE109", "GE110", "GE111", "GE112"),
    "rewards that are NaN, overflow, need infos, or miss reached goals": ("GE11",),
    "terminations that are time limits, or depend on state": ("GE208", "GE209"),
    "success and termination that disagree with rewards": ("GE2",),
    "observations and infos that change after they were stored": ("GE301", "GE302"),
    "goals that change within an episode": ("GE303",),
    "seeds that do not repeat an episode, or set global generators": ("GE4",),
    "infos that a vector environment cannot batch": ("GE501",),
}
VECTOR = "faults of vector environments"


def kind_of(specimen, code):
    """The row of the table that counts a fault."""
    if issubclass(specimen, gym.vector.VectorEnv):
        return VECTOR
    return next(kind for kind, codes in KINDS.items() if code.startswith(codes))


def is_found_by_ours(specimen, code):
    """Whether our checker reports the rule that the fault breaks."""
    return code in check_goal_env(specimen, max_steps=400, seed=0).codes


def complains(check, make, seed):
    """Whether a checker raises or warns, except of what every environment without a spec lacks."""
    env = make()
    with contextlib.suppress(Exception):  # the faulty environment; the check begins with a reset of its own
        env.action_space.seed(seed)
        env.reset(seed=seed)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            check(env)
        except Exception:  # any error says that something is wrong
            return True
    return any("alternative render modes" not in str(warning.message) for warning in caught)


def is_found_by(check, specimen):
    """Whether a checker finds anything in any of some runs; others take no vector environments."""
    if issubclass(specimen, gym.vector.VectorEnv):
        return False
    return any(complains(check, specimen, seed) for seed in SEEDS)


def row_of(kind, sb3_check_env):
    """The numbers of planted faults of a kind, and of those that each checker finds."""
    faults = [(specimen, code) for specimen, code in FAULTS if kind_of(specimen, code) == kind]
    return (
        len(faults),
        sum(is_found_by_ours(specimen, code) for specimen, code in faults),
        sum(is_found_by(gymnasium_check_env, specimen) for specimen, _ in faults),
        sum(is_found_by(sb3_check_env, specimen) for specimen, _ in faults),
    )


def line_of(kind, row):
    """A row of numbers as a line of the table."""
    return f"| {kind} | {' | '.join(map(str, row))} |"


def main():
    """Write the table into the pages."""
    from stable_baselines3.common.env_checker import check_env as sb3_check_env  # noqa: PLC0415 - an extra

    rows = {kind: row_of(kind, sb3_check_env) for kind in [*KINDS, VECTOR]}
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    head = "| mistakes | planted | `her check` | Gymnasium | Stable-Baselines3 |\n|---|---|---|---|---|\n"
    table = head + "".join(line_of(kind, row) + "\n" for kind, row in rows.items())
    for page in PAGES:
        path = ROOT / page
        path.write_text(TABLE.sub(lambda _: table, path.read_text(), count=1))


if __name__ == "__main__":
    main()
