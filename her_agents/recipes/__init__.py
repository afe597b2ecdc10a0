"""Recipes: options that solve a task, the measured result, and a trained policy.

A recipe ``NAME`` consists of ``NAME.toml`` and, if it has a trained policy, ``NAME.policy`` in this folder.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ENVIRONMENT_OPTIONS = {
    *("env", "env_kwargs", "max_episode_steps", "termination", "clip_targets", "info_keys", "use_keys"),
    *("critic_keys", "demos", "offline", "on_device", "fresh_envs", "deterministic", "real"),
    *("start_share", "start_source", "start_state"),
}
"""Options that describe the environment of a recipe, and are not used for another environment."""


@dataclass(frozen=True)
class Measured:
    """Results of a recipe: medians over several runs of ``her train``, as ``her compare`` prints them."""

    steps: int  # of the environment until the task is solved (`Recipe.solved`)
    minutes: float  # wall-clock time until then
    success: float  # success rate of the final policy
    seeds: int  # number of runs, each with its own seed


@dataclass(frozen=True)
class Recipe:
    """Options that solve a task, and the measured results of runs with these options."""

    name: str
    environment: str  # id
    task: str  # description, one sentence
    package: str  # that the environment needs, or an empty string for a bundled environment
    install: str  # command that installs the package, or an empty string for a bundled environment
    options: dict[str, Any]  # of `her_agents.Config` by name
    measured: Measured | None
    known_findings: tuple[str, ...] = ()  # codes of errors in the environment that do not prevent learning
    solved: float = 0.95  # smallest success rate of an evaluation at which the task counts as solved

    @property
    def policy(self) -> Path:
        """Path of the file with the trained policy; some recipes do not have this file."""
        return FOLDER / f"{self.name}.policy"

    def options_for(self, env: str | None) -> dict[str, Any]:
        """Return the options for an environment, by name; None means the environment of the recipe.

        For another environment, options that describe that of the recipe, such as ``termination``, are left
        out.
        """
        if env is None or env == self.options["env"]:
            return dict(self.options)
        return {k: v for k, v in self.options.items() if k not in ENVIRONMENT_OPTIONS} | {"env": env}

    def require_installed(self) -> None:
        """Raise ValueError if the package of the environment is not installed."""
        if self.package and find_spec(self.package) is None:
            raise ValueError(f"the recipe {self.name!r} needs {self.package}; run: {self.install}")


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_recipe(name: str) -> Recipe:
    """Read a recipe; raise ValueError unless ``name`` is one of `recipe_names`."""
    if name not in recipe_names():
        raise ValueError(f"unknown recipe {name!r}; choose from {', '.join(map(repr, recipe_names()))}")
    content = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    measured = Measured(**content["measured"]) if "measured" in content else None
    known_findings = tuple(content.get("known_findings", ()))
    return Recipe(name, **content | {"measured": measured, "known_findings": known_findings})
