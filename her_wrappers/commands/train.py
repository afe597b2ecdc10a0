"""``her train``: train an agent on a goal environment."""

# No `from __future__ import annotations`: typer would compile each annotation string in every `her` command.

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers.checker import check_goal_env
from her_wrappers.checker.display import print_report
from her_wrappers.commands.make import OPTIONS_HELP, parse_options, usage_errors
from her_wrappers.commands.terminal import fail
from her_wrappers.environments import FORMS, BrokenModuleError, make_env
from her_wrappers.goal_interface import goal_spaces

if TYPE_CHECKING:
    import gymnasium as gym

    from her_agents.config import Config
    from her_agents.loop import Result
    from her_agents.training import Training

console = Console()

FIRST_DIAGNOSIS = 10
"""Number of evaluations without a success after which a training is diagnosed: 40,000 steps by default."""

MOST_FINDINGS = 3
"""Largest number of findings that are printed during a training."""

ENV, GOALS, LEARN, FILES = "Environment", "Relabeling", "Learning", "Files and output"
"""Panels of ``--help``. Each panel has its own column widths, so that long names fit in 80 columns."""


def option(panel: str, text: str, *names: str, **options: Any) -> Any:
    """Return a command-line option; ``names`` and ``options`` are further arguments of `typer.Option`.

    Args:
        panel: Panel of ``--help`` that lists the option.
        text: Help of the option.
        *names: Names of the option.
        **options: Other arguments.
    """
    return typer.Option(*names, rich_help_panel=panel, help=text, **options)


def number(panel: str, text: str, **options: Any) -> Any:
    """Return a numeric command-line option; the arguments are those of `option`."""
    return option(panel, text, metavar="N", **options)


def train(
    *,
    env: Annotated[str | None, option(ENV, f"The goal environment: {FORMS}.", metavar="ENV")] = None,
    env_kwargs: Annotated[
        list[str] | None, option(ENV, OPTIONS_HELP, "--option", "-o", "--env-kwargs", metavar="NAME=VALUE")
    ] = None,
    num_envs: Annotated[
        int | None, number(ENV, "Number of environments, stepped together. [default: 16]")
    ] = None,
    workers: Annotated[
        int | None,
        number(
            ENV,
            "Workers that collect episodes while the agent learns, each with --num-envs environments. "
            "[default: 0]",
        ),
    ] = None,
    fresh_envs: Annotated[
        bool | None,
        option(
            ENV,
            "Whether workers make new environments for each round, for environments whose reset does not "
            "restore all of their state.",
            "--fresh-envs",
            metavar="",
        ),
    ] = None,
    backend: Annotated[
        str, option(ENV, "Where workers run: process, ray or local.", metavar="NAME")
    ] = "process",
    address: Annotated[
        str | None,
        option(
            ENV,
            "Address of a Ray cluster. By default RAY_ADDRESS; without it, Ray starts here.",
            metavar="HOST:PORT",
        ),
    ] = None,
    force: Annotated[
        bool, option(ENV, "Train even if the check finds errors.", "--force", metavar="")
    ] = False,
    her: Annotated[
        bool | None, option(GOALS, "Whether to relabel goals. [default: her]", "--her/--no-her")
    ] = None,
    goal_selection_strategy: Annotated[
        str | None,
        option(
            GOALS,
            "Goal selection strategy, such as final, or shares of several strategies as a JSON object (in a "
            'file, a table): {"future": 0.5, "desired": 0.3, "original": 0.2}. [default: future]',
            metavar="NAME",
        ),
    ] = None,
    n_sampled_goal: Annotated[
        int | None, number(GOALS, "Relabeled transitions for each original one. [default: 4]")
    ] = None,
    termination: Annotated[
        str | None,
        option(
            GOALS,
            "Terminations of relabeled steps: recompute, success, keep, never or module:function. "
            "By default recompute if the environment has compute_terminated, else keep.",
            metavar="NAME",
        ),
    ] = None,
    prioritized: Annotated[
        bool | None,
        option(
            GOALS,
            "Whether to sample transitions by their TD errors. [default: no-prioritized]",
            "--prioritized/--no-prioritized",
        ),
    ] = None,
    algo: Annotated[
        str | None,
        option(
            LEARN,
            "dqn, ddpg, td3, sac or tqc. By default dqn for Discrete actions, else sac.",
            metavar="NAME",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        number(LEARN, "Steps of all environments together. By default 4,000 times the episode length."),
    ] = None,
    stop: Annotated[
        bool,
        option(
            LEARN,
            "Whether to stop after two successive evaluations in which all episodes are successes.",
            "--stop/--no-stop",
        ),
    ] = True,
    seed: Annotated[int | None, number(LEARN, "Seed of everything random. [default: 0]")] = None,
    gamma: Annotated[float | None, number(LEARN, "Discount per step. [default: 0.98]")] = None,
    n_steps: Annotated[
        int | None, number(LEARN, "Largest number of rewards in a return. [default: 1]")
    ] = None,
    clip_targets: Annotated[
        bool | None,
        option(
            LEARN,
            "Whether to clip targets to the returns of rewards in [-1, 0]. By default only if all rewards "
            "of a random episode are -1 or 0.",
            "--clip-targets/--no-clip-targets",
        ),
    ] = None,
    batch_size: Annotated[int | None, number(LEARN, "Transitions in an update. [default: 128]")] = None,
    updates_per_step: Annotated[
        float | None, number(LEARN, "Updates for each step of an environment. [default: 0.25]")
    ] = None,
    steps_per_epoch: Annotated[
        int | None, number(LEARN, "Steps between evaluations. [default: 4000]")
    ] = None,
    agent: Annotated[
        list[str] | None,
        option(
            LEARN, "Arguments of the agent, such as hidden=[256,256], or a JSON object.", metavar="NAME=VALUE"
        ),
    ] = None,
    threads: Annotated[int, number(LEARN, "Number of torch threads.", min=1)] = 1,
    recipe: Annotated[
        str | None,
        option(
            FILES,
            "Options that solve a task, by name; --config and the command line have precedence.",
            metavar="NAME",
        ),
    ] = None,
    recipes: Annotated[bool, option(FILES, "List the recipes, and exit.", "--recipes", metavar="")] = False,
    config: Annotated[
        Path | None,
        option(
            FILES,
            "TOML or JSON file with options by name; the command line has precedence.",
            metavar="FILE",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        option(FILES, "Folder of a training to continue; only --steps may differ.", metavar="FOLDER"),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            FILES,
            "Folder of logs and checkpoints. [default: runs/NAME-ALGO-SEED]",
            file_okay=False,
            metavar="FOLDER",
        ),
    ] = None,
    tensorboard: Annotated[
        bool, option(FILES, "Whether to write logs for TensorBoard.", "--tensorboard/--no-tensorboard")
    ] = True,
    doctor: Annotated[
        bool,
        option(
            FILES,
            "Whether to print a diagnosis if no evaluation had a success; see her doctor.",
            "--doctor/--no-doctor",
        ),
    ] = True,
) -> None:
    """Train an agent on a goal environment, with relabeled goals.

    Writes logs, checkpoints and the config to a folder. Ctrl-C saves and stops the training.

    For example:

    - `her train --env her_envs/PointReach-v0`
    - `her train --env her_envs/BitFlipping-v0 -o n_bits=15`
    - `her train --recipe fetch_push`
    - `her train --config runs/mine/config.json --seed 1`
    - `her train --resume runs/PointReach-v0-sac-0 --no-stop`
    """
    given = {name: value for name, value in locals().items() if value is not None}
    from her_wrappers.collecting import CollectorError

    if recipes:
        _print_recipes()
        return
    with usage_errors(), unusable(BrokenModuleError, OSError):
        for name in ("env_kwargs", "agent"):
            if name in given:
                given[name] = parse_options(given[name])
        if given.get("goal_selection_strategy", "").lstrip().startswith("{"):
            given["goal_selection_strategy"] = parse_options([given["goal_selection_strategy"]])
        if resume is None:
            chosen, folder = _new_training(given, recipe, config, out, force=force)
        else:
            chosen, folder = _resumed_training(given, config, resume, out)
        try:
            result = _train(
                chosen,
                folder,
                resume=resume is not None,
                doctor=doctor,
                tensorboard=tensorboard,
                threads=threads,
                stop=stop,
                backend=backend,
                address=address,
            )
        except CollectorError as error:
            fail(str(error))
    _print_result(result, folder)


def _print_recipes() -> None:
    """Print a table of all recipes."""
    from her_agents.recipes import Recipe, read_recipe, recipe_names

    results = Table("recipe", "algorithm", "steps", "minutes", "success", box=None)
    tasks = Table("recipe", "task", box=None)  # a table of its own, since it needs all of a narrow terminal
    for column in (*results.columns, tasks.columns[0]):  # users copy the names
        column.no_wrap = True
    tasks.columns[1].overflow = "fold"
    for name in recipe_names():
        recipe = read_recipe(name)
        numbers = ["", "", "not measured"]
        if recipe.measured is not None:
            measured = recipe.measured
            solved = "" if recipe.solved == Recipe.solved else f" (to {recipe.solved:.2f})"
            numbers = [
                f"{measured.steps:,}{solved}",
                f"{measured.minutes:.1f}",
                f"{measured.success:.2f}",
            ]
        results.add_row(name, recipe.options["algo"], *numbers)
        tasks.add_row(name, recipe.task)
    console.print(tasks)
    console.print()
    console.print(results)
    console.print(
        f"Steps and minutes until a success rate of {Recipe.solved} (or that in brackets), and success rate "
        "of the final policies; medians, see docs/recipes.md.",
        soft_wrap=True,
    )


def _new_training(
    given: Mapping[str, Any], recipe: str | None, file: Path | None, out: Path | None, *, force: bool
) -> "tuple[Config, Path]":
    """Return the config and the folder of a new training, after a check of the environment.

    Raises:
        typer.Exit: The environment cannot be used.
        ValueError: An option is wrong, or the folder already holds a training.
    """
    from her_agents.config import make_config, read_options
    from her_agents.recipes import read_recipe
    from her_agents.run_folder import RunFolder

    sources = [{} if file is None else read_options(file), _config_options(given)]
    chosen = None if recipe is None else read_recipe(recipe)
    if chosen is not None:
        chosen.require_installed()
        sources.insert(0, chosen.options)
    options = ChainMap(*reversed(sources))
    config = make_config(_defaults_for(options), *sources)
    is_own_env = chosen is not None and chosen.options["env"] == config.env
    known_findings = chosen.known_findings if chosen and is_own_env else ()
    name = recipe or config.env.rpartition("/")[2].replace(":", "-")
    suffix = "" if config.her else "-no-her"
    folder = out or Path("runs") / f"{name}-{config.algo}{suffix}-{config.seed}"
    RunFolder(folder).require_new()
    factory = partial(make_env, config.env, disable_env_checker=True, **config.env_kwargs)
    with closing(factory()) as env:
        _require_supported(config, env)
        _check(config.env, factory, known_findings, force=force)
        config = _clip_if_possible(config, env, is_given="clip_targets" in options)
    return config, folder


def _resumed_training(
    given: Mapping[str, Any], file: Path | None, resume: Path, out: Path | None
) -> "tuple[Config, Path]":
    """Return the config and the folder of a training to continue.

    Raises:
        typer.Exit: The checkpoint cannot be read.
        ValueError: Options contradict each other, or one is wrong.
    """
    from her_agents.checkpoints import load_checkpoint
    from her_agents.config import make_config

    if out is not None or file is not None or "recipe" in given:
        raise ValueError(
            "--resume uses the folder and the config of its training; remove --out, --config and --recipe"
        )
    if resume.suffix == ".pt" and resume.name != "latest.pt":
        raise ValueError(f"--resume must be the folder of a training, or its latest.pt, got {resume}")
    folder = resume.parent if resume.suffix == ".pt" else resume
    with unusable(ValueError):
        saved = load_checkpoint(folder / "latest.pt")["config"]
    return make_config(saved, _config_options(given)), folder


def _config_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the command line that belong to the config."""
    from her_agents.config import Config

    return {name: value for name, value in given.items() if name in Config.__dataclass_fields__}


def _defaults_for(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the algorithm and the number of steps that fit the environment; {} if both are given."""
    from her_agents.algorithms import default_options

    if "env" not in options or {"algo", "steps"} <= options.keys():
        return {}
    env = make_env(options["env"], disable_env_checker=True, **options.get("env_kwargs", {}))
    with closing(env):
        return default_options(env)


def _require_supported(config: "Config", env: "gym.Env[Any, Any]") -> None:
    """Check that the environment has goals, and that the algorithm and the options fit it."""
    from her_agents.algorithms import make_agent
    from her_agents.training import find_termination

    with unusable(TypeError, ValueError):
        observation_space, action_space = goal_spaces(env)
    make_agent(config, observation_space, action_space)
    find_termination(config.termination)


def _check(
    name: str, factory: "Callable[[], gym.Env[Any, Any]]", known_findings: tuple[str, ...], *, force: bool
) -> None:
    """Check the environment, and print new findings; end the command after an error, unless ``force``."""
    report = check_goal_env(factory, ignore=known_findings)
    if report.findings:
        print_report(report, console)
    else:
        console.print(f"Goal interface of {report.summary()}", highlight=False, soft_wrap=True)
    if report.of_severity("error") and not force:
        fail(f"{name} does not support relabeling; fix the errors above, or pass --force")


def _clip_if_possible(config: "Config", env: "gym.Env[Any, Any]", *, is_given: bool) -> "Config":
    """Check the success flag and the rewards; disable clipped targets for dense rewards by default.

    Raises:
        ValueError: ``--clip-targets`` is given, and a reward is outside [-1, 0].
    """
    from her_agents.algorithms import has_sparse_rewards
    from her_agents.training import require_clippable, take_random_step

    with unusable(ValueError):
        reward, _ = take_random_step(env)
    if is_given or has_sparse_rewards(env):
        if config.clip_targets:
            require_clippable(reward)
        return config
    console.print(
        "Targets will not be clipped, since some rewards are not -1 or 0. Pass --clip-targets if all rewards "
        "lie in [-1, 0].",
        soft_wrap=True,
        highlight=False,
    )
    return replace(config, clip_targets=False)


@contextmanager
def unusable(*errors: type[Exception]) -> Iterator[None]:
    """Print an error about an unusable environment or file as one sentence, and exit with code 3.

    Args:
        *errors: Types of the errors to print; others are raised.
    """
    try:
        yield
    except errors as error:
        fail(str(error))


def _train(config: "Config", folder: Path, *, stop: bool, doctor: bool, **options: Any) -> "Result":
    """Train, with a progress bar, a line for each epoch, and a diagnosis if no evaluation had a success."""
    from her_agents.loop import epoch_line, is_solved, train

    console.print(
        f"{config.algo} for at most {config.steps:,} steps; Ctrl-C saves and stops", highlight=False
    )
    with progress_display(console) as progress:
        task = progress.add_task(config.algo, total=config.steps, success=0.0, steps_per_s=0, updates_per_s=0)

        def show(training: "Training") -> None:
            counts = training.counts
            progress.update(
                task,
                completed=counts.env_steps,
                success=training.success_rate,
                steps_per_s=counts.env_steps / counts.seconds,
                updates_per_s=counts.updates / counts.seconds,
            )
            if doctor and is_new_diagnosis_due(training.history, diagnosed):
                diagnosed.append(len(training.history))
                _print_diagnosis(training, folder)

        diagnosed: list[int] = []
        return train(
            config,
            folder=folder,
            stop=is_solved if stop else lambda history: False,
            on_epoch=lambda row: console.print(epoch_line(row), highlight=False, soft_wrap=True),
            on_step=show,
            **options,
        )


def is_new_diagnosis_due(history: "Sequence[Mapping[str, float]]", diagnosed: "Sequence[int]") -> bool:
    """Return whether no evaluation had a success, and it is time for another diagnosis.

    The first diagnosis is due after `FIRST_DIAGNOSIS` evaluations, and each further one after twice as many
    evaluations as the one before.

    Args:
        history: A row for each evaluation, with its ``success_rate``.
        diagnosed: Numbers of evaluations after which a diagnosis was printed, in ascending order.
    """
    due = 2 * diagnosed[-1] if diagnosed else FIRST_DIAGNOSIS
    return len(history) >= due and not any(row["success_rate"] for row in history)


def _print_diagnosis(training: "Training", folder: Path) -> None:
    """Print the first findings of a diagnosis."""
    from her_wrappers.diagnosis.diagnose import diagnose_training

    report = diagnose_training(training.buffer, training.config.as_dict(), training.history)
    console.print(
        f"None of {len(training.history)} evaluations had a success. `her doctor {folder}` shows the "
        "complete diagnosis:",
        highlight=False,
        soft_wrap=True,
    )
    print_report(replace(report, findings=report.findings[:MOST_FINDINGS], not_exercised=()), console)


def progress_display(output: Console) -> Progress:
    """Return a progress bar with the success rate, steps per second and updates per second.

    The tasks of the progress bar need the fields ``success``, ``steps_per_s`` and ``updates_per_s``.

    Args:
        output: Console that shows the progress bar.
    """
    return Progress(
        TextColumn("{task.description:<11}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("success {task.fields[success]:.2f}"),
        TextColumn("{task.fields[steps_per_s]:,.0f} steps/s"),
        TextColumn("{task.fields[updates_per_s]:,.0f} updates/s"),
        TimeRemainingColumn(),
        console=output,
    )


def _print_result(result: "Result", folder: Path) -> None:
    """Print the result and the next command; exit with code 130 if Ctrl-C ended the training."""
    from her_agents.loop import is_solved

    state = "Interrupted; saved." if result.interrupted else "Done."
    if is_solved(result.history):
        state = "Solved: all episodes of the last two evaluations were successes."
    console.print(
        f"{state} Best success rate {result.best_success:.2f}; checkpoints and logs in {folder}",
        soft_wrap=True,
    )
    if result.interrupted:
        console.print(f"Continue with: her train --resume {folder}", soft_wrap=True)
        raise typer.Exit(130)  # the exit code of shells after Ctrl-C
    if result.history:
        console.print(f"Watch it: her watch {folder / 'best.pt'}", soft_wrap=True)
