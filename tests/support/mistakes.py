"""The table of mistakes in docs/checking.md: number of planted faults that each checker finds.

`python -m tests.support.mistakes` writes the table into the page.
"""

import contextlib
import io
import re
import warnings
from pathlib import Path

import gymnasium as gym
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from benchmarks.result_page import markdown_table
from her_wrappers.checker import check_goal_env
from tests.support.specimens.broken import FAULTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "checking.md"
SEEDS = range(5)
TABLE = re.compile(r"^\| mistakes \|.*\n(\|.*\n)+", re.MULTILINE)

VECTOR = "vector environments, and infos that they cannot batch"
# Kinds of mistakes, with the families of their rules. All faults of vector environments are one kind.
KINDS = {
    "methods that raise; keys, spaces and dtypes of observations": "GE0",
    "rewards": "GE1",
    "success and termination": "GE2",
    "goals, and arrays that change after they were returned": "GE3",
    "seeds and random generators": "GE4",
    VECTOR: "GE5",
}


def mistake_kind(specimen, code):
    """Return the row of the table that counts a fault."""
    if issubclass(specimen, gym.vector.VectorEnv):
        return VECTOR
    return next(kind for kind, family in KINDS.items() if code.startswith(family))


def raises_or_warns(check, make, seed):
    """Whether a checker raises or warns; warnings about a missing ``spec`` are ignored."""
    env = make()
    with contextlib.suppress(Exception):  # the environment is faulty; the check calls reset again
        env.action_space.seed(seed)
        env.reset(seed=seed)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            check(env)
        except Exception:  # any exception counts as a finding
            return True
    return any("alternative render modes" not in str(warning.message) for warning in caught)


def is_found_by(check, specimen):
    """Whether another checker finds a fault in one of several runs; False for vector environments."""
    if issubclass(specimen, gym.vector.VectorEnv):
        return False
    return any(raises_or_warns(check, specimen, seed) for seed in SEEDS)


def row_of(kind, sb3_check_env):
    """Return the number of planted faults of a kind, and how many of them each checker finds."""
    faults = [(specimen, code) for specimen, code in FAULTS if mistake_kind(specimen, code) == kind]
    return (
        len(faults),
        sum(code in check_goal_env(specimen, max_steps=400).codes for specimen, code in faults),
        sum(is_found_by(gymnasium_check_env, specimen) for specimen, _ in faults),
        sum(is_found_by(sb3_check_env, specimen) for specimen, _ in faults),
    )


def main():
    """Write the table into the pages."""
    from stable_baselines3.common.env_checker import check_env as sb3_check_env  # noqa: PLC0415 - an extra

    rows = {kind: row_of(kind, sb3_check_env) for kind in KINDS}
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    table = markdown_table(
        ["mistakes", "planted", "`her check`", "Gymnasium", "Stable-Baselines3"],
        [[kind, *row] for kind, row in rows.items()],
    )
    PAGE.write_text(TABLE.sub(lambda _: f"{table}\n", PAGE.read_text(), count=1))


if __name__ == "__main__":
    main()
