"""What our checker and two others see of the planted faults: the table of the README and of the docs."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from her_wrappers.checker import check_goal_env
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.reach import DenseReach, Reach

sb3 = pytest.importorskip("stable_baselines3.common.env_checker")

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "docs/checking.md")
SEEDS = range(5)

# Kinds of mistakes, by the first letters of the codes.
KINDS = {
    "`reset`, `step` or `compute_reward` raises": ("GE000",),
    "goals and observations missing, or outside their spaces": ("GE00",),
    "rewards of `step` that `compute_reward` does not give": ("GE101", "GE103"),
    "rewards that mix up rows, or fail on a batch": ("GE104", "GE105", "GE106", "GE108"),
    "`compute_reward` that writes, remembers or is random": ("GE109", "GE110", "GE111", "GE112"),
    "rewards that are NaN, need infos, or miss reached goals": ("GE11",),
    "success and termination that disagree with rewards": ("GE2",),
    "observations and infos that change after they were stored": ("GE301", "GE302"),
    "goals that change within an episode": ("GE303",),
    "seeds that do not repeat an episode": ("GE401",),
    "infos that a vector environment cannot batch": ("GE501",),
}
VECTOR = "faults of vector environments"


def kind_of(specimen, code):
    if issubclass(specimen, gym.vector.VectorEnv):
        return VECTOR
    return next(kind for kind, codes in KINDS.items() if code.startswith(codes))


def ours(specimen, code):
    return code in check_goal_env(specimen, max_steps=400, seed=0).codes


def complains(check, make, seed):
    """Whether a checker raises, or warns of something that every environment without a spec is told."""
    env = make()
    with contextlib.suppress(
        Exception
    ):  # of the faulty environment: the check begins with a reset of its own
        env.action_space.seed(seed)
        env.reset(seed=seed)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            check(env)
        except Exception:  # whatever it says, it says that something is wrong
            return True
    return any("alternative render modes" not in str(warning.message) for warning in caught)


def theirs(check, specimen):
    """Whether a checker says anything in any of some runs; a vector environment is nothing they take."""
    if issubclass(specimen, gym.vector.VectorEnv):
        return False
    return any(complains(check, specimen, seed) for seed in SEEDS)


def row_of(kind):
    """The row of a kind of mistakes: how many were planted, and how many each checker sees."""
    faults = [(specimen, code) for specimen, code in FAULTS if kind_of(specimen, code) == kind]
    seen = (
        sum(ours(specimen, code) for specimen, code in faults),
        sum(theirs(gymnasium_check_env, specimen) for specimen, _ in faults),
        sum(theirs(sb3.check_env, specimen) for specimen, _ in faults),
    )
    return f"| {kind} | {len(faults)} | {' | '.join(map(str, seen))} |"


@pytest.mark.parametrize("specimen", [Reach, DenseReach])
@pytest.mark.parametrize("check", [gymnasium_check_env, sb3.check_env])
def test_the_others_are_content_with_what_the_faults_are_planted_in(check, specimen):
    assert not any(complains(check, specimen, seed) for seed in SEEDS)


@pytest.mark.skipif(gym.__version__ < "1.4", reason="earlier checkers of Gymnasium see other mistakes")
@pytest.mark.parametrize("kind", [*KINDS, VECTOR])
def test_what_is_seen_of_a_kind_of_mistakes_is_what_the_pages_say(kind):
    row = row_of(kind)
    for page in PAGES:
        assert row in (ROOT / page).read_text(), page


@pytest.mark.parametrize("page", PAGES)
def test_the_last_row_adds_the_others_up(page):
    rows = re.findall(r"^\| (.*?) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", (ROOT / page).read_text(), re.M)
    assert [row[0] for row in rows] == [*KINDS, VECTOR, "all"]
    *parts, total = ([int(count) for count in row[1:]] for row in rows)
    assert total == [sum(column) for column in zip(*parts, strict=True)]
    assert total[0] == len(FAULTS)
