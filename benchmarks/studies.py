"""Studies: figures of the papers on HER, made with `her train` and `her compare`.

For example:

    python -m benchmarks.studies bitflip --quick             to see that it runs
    python -m benchmarks.studies reach --jobs 2              about 40 minutes
    python -m benchmarks.studies ablation --seeds 1          about three hours

The studies:

    bitflip       DQN with and without HER, for several numbers of bits: figure 1 of the HER paper
    strategies    goal selection strategies on PointPush: figure 6 of the HER paper
    reach         DDPG, TD3 and SAC on three point tasks, with sparse and dense rewards
    ablation      a reference similar to the recipe fetch_push, and variants that differ in one option each

A study has comparisons, each with several variants. The options of a variant are written to a file, and
`her train --config FILE --seeds N --jobs N` trains the variant. Then `her compare` writes a figure and a
table of each comparison. All commands are printed. A variant whose folder exists is not trained again;
`her train --resume` continues single runs.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.result_page import count
from her_agents.recipes import read_recipe
from her_agents.training.config import merge_options
from her_wrappers import cli

Options = dict[str, Any]
"""Options of `her_agents.Config` by name."""

Study = dict[str, dict[str, Options]]
"""Comparisons by name, each with the options of its variants by name."""

GOALS: dict[str, Options] = {"with HER": {}, "without HER": {"her": False}}


def bitflip() -> Study:
    """Return DQN with and without HER, for several numbers of bits."""
    shared = {
        "env": "her_envs/BitFlipping-v0",
        "algo": "dqn",
        "num_envs": 64,
        "updates_per_step": 0.05,
        "batch_size": 512,
        "evaluation_episodes": 100,
        "agent": {"hidden": [512], "epsilon": 0.7},
    }
    return {
        f"{n} bits": {
            goals: {
                **shared,
                **options,
                "env_kwargs": {"n_bits": n},
                "steps": max(100_000, 100 * n**2),  # DQN without HER solves up to 10 bits in 100,000
                "steps_per_epoch": max(2_000, 8 * n**2),
            }
            for goals, options in GOALS.items()
        }
        for n in (5, 10, 13, 15, 20, 25, 30, 40, 50)
    }


POINT_TASKS: dict[str, Options] = {
    "PointReach": {"steps": 8_000, "steps_per_epoch": 1_600},
    "PointMaze": {"steps": 4_800, "steps_per_epoch": 1_200},
    "PointPush": {
        "steps": 352_000,
        "steps_per_epoch": 32_000,
        "evaluation_episodes": 25,
        "num_envs": 64,
        "learning_starts": 32_000,
        "buffer_size": 100_000,
        "updates_per_step": 0.02,
        "batch_size": 512,
        "prioritized": True,
    },
}

# With these, the puck moves more than twice as often as with the defaults.
PUSHING: dict[str, Options] = {
    "ddpg": {"action_l2": 0.1, "epsilon": 0, "noise": 1.0},
    "td3": {"action_l2": 0.1, "epsilon": 0, "noise": 1.0, "policy_delay": 1},
}

REWARDS: dict[str, Options] = {
    "sparse": {},
    "dense": {"env_kwargs": {"reward_type": "dense"}, "clip_targets": False},  # some are below -1
}


def point_task(task: str, algo: str) -> Options:
    """Return the options for an algorithm on a point task."""
    agent = PUSHING.get(algo, {}) if task == "PointPush" else {}
    return {"env": f"her_envs/{task}-v0", "algo": algo, "agent": agent, **POINT_TASKS[task]}


def reach() -> Study:
    """Return DDPG, TD3 and SAC on three tasks, with sparse and dense rewards, with and without HER."""
    return {
        f"{task}, {algo}": {
            f"{reward}, {goals}": point_task(task, algo) | rewards | options
            for goals, options in GOALS.items()
            for reward, rewards in REWARDS.items()
        }
        for task in POINT_TASKS
        for algo in ("ddpg", "td3", "sac")
    }


def strategies() -> Study:
    """Return goal selection strategies on PointPush, each with several numbers k of relabeled transitions."""
    shared = point_task("PointPush", "ddpg") | {"steps": 256_000}
    names = ("future", "geometric", "episode", "final", "random")
    study = {
        f"k = {k}": {name: {**shared, "goal_selection_strategy": name, "n_sampled_goal": k} for name in names}
        for k in (1, 2, 4, 8)
    }
    study["k = 4"]["without HER"] = {**shared, "her": False}
    return study


def ablation() -> Study:
    """Return variants of the recipe fetch_push, which differ from the reference in one option each."""
    recipe = read_recipe("fetch_push")
    recipe.require_installed()
    changed = {"goal_selection_strategy": "future", "updates_per_step": 0.25, "steps": 500_000}
    reference = {**recipe.options, **changed, "agent": {**recipe.options["agent"], "policy_delay": 1}}
    desired = {"future": 0.4, "desired": 0.4, "original": 0.2}
    variants: dict[str, Options] = {
        "reference": {},
        "without priorities": {"prioritized": False},
        "desired goals of other episodes": {"goal_selection_strategy": desired},
        "achieved goals of other episodes": {"goal_selection_strategy": {"future": 0.75, "random": 0.25}},
        "temperature 0.2": {"agent": {"temperature": 0.2}},
        "learned temperature": {"agent": {"learn_temperature": True}},
        "gamma 0.98": {"gamma": 0.98},
        "0.375 updates per step": {"updates_per_step": 0.375},
        "layer normalization": {"agent": {"layer_norm": True}},
        "targets not clipped": {"clip_targets": False},
    }
    return {"FetchPush": {name: merge_options(reference, options) for name, options in variants.items()}}


STUDIES: dict[str, Callable[[], Study]] = {
    "bitflip": bitflip,
    "strategies": strategies,
    "reach": reach,
    "ablation": ablation,
}


def run(study: Study, folder: Path, seeds: int, jobs: int, *, quick: bool) -> int:
    """Train all variants of a study, and compare them; return the first exit code that is not 0, or 0."""
    for comparison, variants in study.items():
        compared = folder / _file_name(comparison)
        groups = {name: compared / _file_name(name) for name in variants}
        for name, path in groups.items():
            if path.exists():
                print(f"{path} exists: not trained again")
                continue
            shorter = {"steps": 1_000, "steps_per_epoch": 500, "learning_starts": 500} if quick else {}
            compared.mkdir(parents=True, exist_ok=True)
            file = path.with_suffix(".json")
            file.write_text(json.dumps(variants[name] | shorter, indent=2))
            numbers = ["--seeds", seeds, "--jobs", jobs]
            if code := her("train", "--config", file, *numbers, "--no-check", "--out", path):
                return code
        paths = [f"{name}={path}" for name, path in groups.items()]
        files = [compared.with_suffix(suffix) for suffix in (".svg", ".md")]
        if code := her("compare", *paths, "--threshold", 0.95, "--out", *files):
            return code
    return 0


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def her(*arguments: object) -> int:
    """Print and execute a command of her-toolkit; return its exit code."""
    words = list(map(str, arguments))
    print(f"$ {shlex.join(['her', *words])}", flush=True)
    return cli.main(words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute a study; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", choices=STUDIES, metavar="STUDY", help=f"one of {', '.join(STUDIES)}")
    parser.add_argument("--quick", action="store_true", help="one seed, and 1,000 steps of each run")
    parser.add_argument("--seeds", type=count, metavar="N", default=3, help="seeds of each variant [3]")
    parser.add_argument("--jobs", type=count, metavar="N", default=1, help="runs at the same time [1]")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder of all files [runs/STUDY]")
    options = parser.parse_args(arguments)
    try:
        study = STUDIES[options.study]()
    except ValueError as error:
        parser.error(str(error))
    folder = options.out or Path("runs") / (f"{options.study}-quick" if options.quick else options.study)
    seeds = 1 if options.quick else options.seeds
    return run(study, folder, seeds, options.jobs, quick=options.quick)


if __name__ == "__main__":
    raise SystemExit(main())
