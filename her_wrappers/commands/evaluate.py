"""``her evaluate``: show where a policy succeeds."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from her_wrappers.commands import terminal
from her_wrappers.commands.policies import given_policy, open_policy
from her_wrappers.commands.terminal import EnvOptions, NotNegative, Positive, exits_with
from her_wrappers.support.arguments import require_suffix


def evaluate(
    policy: Positional[Annotated[str | None, arg(metavar="POLICY")]] = None,
    *,
    env: str | None = None,
    option: EnvOptions = (),
    recipe: str | None = None,
    episodes: Positive = 200,
    seed: NotNegative = 0,
    max_episode_steps: Positive | None = None,
    out: Annotated[tuple[Path, ...], arg(metavar="FILE")] = (),
) -> None:
    """Show where a policy succeeds: by goal, by distance and over time.

    Starts and goals depend only on the environment and --seed, so all policies get the same goals.

    For example:

    - her evaluate runs/PointReach-v0-sac-0
    - her evaluate runs/PointPush-v0-td3-0 --episodes 1000 --out report.html report.json
    - her evaluate my_agents:pusher --env her_envs/PointPush-v0
    - her evaluate --recipe fetch_push

    Args:
        policy: Folder of a run, a checkpoint, a policy file, module:function, path/to/file.py:function, or
            random.
        env: The environment; by default the environment of the run.
        recipe: Evaluate the trained policy of a recipe.
        episodes: Number of episodes.
        seed: Seed of the starts and goals.
        max_episode_steps: Steps after which episodes are truncated; by default the run's limit, if any.
        out: Files to write, by their suffixes: .html, .json or .md.
    """
    from her_agents.results.evaluation_report import SUFFIXES, evaluate_goals

    with exits_with(2, ValueError):
        for path in out:
            require_suffix("--out", path, SUFFIXES)
    name = given_policy("POLICY", policy, recipe)
    made, act = open_policy(name, env, terminal.parse_options(option), max_episode_steps)
    with (
        contextlib.closing(made),
        exits_with(3, TypeError, ValueError),
        terminal.progress("evaluating", episodes, "episodes") as advance,
    ):
        report = evaluate_goals(
            made, act, episodes=episodes, seed=seed, name=recipe or name, on_episode=advance
        )
    print(report.markdown(), end="")
    for path in out:
        path.parent.mkdir(parents=True, exist_ok=True)
        report.write(path)
        print(f"written: {path}")
