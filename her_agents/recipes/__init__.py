"""Recipes: options that solve a task, the measured result, and a trained policy.

A recipe ``NAME`` consists of ``NAME.toml`` and, if a policy was trained, ``NAME.policy`` in this folder.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Measured:
    """The result of a recipe, measured by ``make reproduce``.

    Attributes:
        steps: Median number of environment steps until the task is solved (`Recipe.solved`).
        minutes: Median wall-clock time until then [min].
        success: Median success rate of the final policies.
        seeds: Number of runs, each with its own seed.
    """

    steps: int
    minutes: float
    success: float
    seeds: int


@dataclass(frozen=True)
class Recipe:
    """Options that solve a task.

    Attributes:
        name: Name of the recipe.
        environment: Id of the environment.
        task: Description of the task, one sentence.
        package: Package that the environment needs, or an empty string for a bundled environment.
        install: Command that installs the package, or an empty string for a bundled environment.
        options: Options of `her_agents.Config` by name.
        measured: The measured result, or None.
        known_findings: Codes of the checker's errors in this environment that do not prevent learning.
        solved: Smallest success rate of an evaluation at which the task counts as solved.
    """

    name: str
    environment: str
    task: str
    package: str
    install: str
    options: dict[str, Any]
    measured: Measured | None
    known_findings: tuple[str, ...] = ()
    solved: float = 0.95

    @property
    def policy(self) -> Path:
        """File of the trained policy, which does not exist for every recipe."""
        return FOLDER / f"{self.name}.policy"

    def require_installed(self) -> None:
        """Check that the package of the environment is installed.

        Raises:
            ValueError: The package is not installed.
        """
        if self.package and find_spec(self.package) is None:
            raise ValueError(f"the recipe {self.name!r} needs {self.package}; run: {self.install}")


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_recipe(name: str) -> Recipe:
    """Read a recipe.

    Args:
        name: One of `recipe_names`.

    Raises:
        ValueError: The recipe does not exist.
    """
    if name not in recipe_names():
        raise ValueError(f"unknown recipe {name!r}; choose from {', '.join(map(repr, recipe_names()))}")
    content = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    measured = Measured(**content["measured"]) if "measured" in content else None
    known_findings = tuple(content.get("known_findings", ()))
    return Recipe(name, **content | {"measured": measured, "known_findings": known_findings})
