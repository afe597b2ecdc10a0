"""``her train``: train an agent on a goal environment. Its options are the fields of `her_agents.Config`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, Suppress, arg

from her_agents.algorithms.options import agent_options
from her_agents.recipes import read_recipe, recipe_names
from her_agents.training.config import Config, make_config, merge_options, read_options
from her_wrappers.checker import check_goal_env
from her_wrappers.commands import terminal
from her_wrappers.commands.terminal import Address, Backend, EnvOptions, Positive, exits_with
from her_wrappers.goals.environments import BrokenModuleError, absolute_name, make_env
from her_wrappers.goals.episode_limit import limit_episodes
from her_wrappers.goals.interface import OBSERVATION_KEYS, goal_spaces

if TYPE_CHECKING:
    from her_agents.training.loop import Result
    from her_agents.training.run import Run
    from her_wrappers.rules import Report

FIRST_DIAGNOSIS = 10
"""A run without any success is diagnosed after this many evaluations; then after 2, 4, ... times as many."""

MOST_FINDINGS = 3
"""Maximum number of findings that are printed for each diagnosis during a run."""


@dataclass(frozen=True)
class ConfigOptions(Config):
    """Options of a run that are saved in its checkpoints, and that recipes can set."""

    env: Positional[Annotated[str | None, arg(metavar="ENV")]] = None  # type: ignore[assignment]
    algo: str | None = None  # type: ignore[assignment]
    env_kwargs: EnvOptions = ()  # type: ignore[assignment]
    steps: int | None = None  # type: ignore[assignment]
    agent: Suppress[Any] = None  # its options depend on algo: see `_parse`

    def __post_init__(self) -> None:
        """Skip the validation of `Config`: a recipe or a file may set options that are missing here."""
        object.__setattr__(self, "info_keys", tuple(self.info_keys))  # a list in files


@dataclass(frozen=True)
class Sources:
    """Options that name the output folder, and a recipe, file or earlier run that sets other options."""

    recipe: str | None = None
    """Name of a recipe, a set of options for a task; --config and the command line override its options."""
    config: Path | None = None
    """TOML or JSON file with options by name; the command line overrides them."""
    resume: Path | None = None
    """Folder of a run to continue; of the options of the run, only --steps may be changed."""
    out: Path | None = None
    """Folder of logs and checkpoints, by default runs/NAME-ALGO-SEED; with --seeds, folder of all runs."""


@dataclass(frozen=True)
class RunOptions(Sources):
    """Options that are not part of the saved config of a run."""

    recipes: FlagCreatePairsOff[bool] = False
    """List the recipes, and exit."""
    seeds: Positive = 1
    """Number of runs, whose seeds are --seed and the integers after it; `her compare` compares the runs."""
    jobs: Positive = 1
    """Number of runs that train at the same time, each in its own process."""
    stop: bool = True
    """Whether to stop after two successive evaluations in which all episodes are successes."""
    backend: Backend = "process"
    address: Address = None
    tensorboard: bool = True
    """Whether to write logs for TensorBoard."""
    check: bool = True
    """Whether to check the environment before the run, with random actions in separate instances of it."""
    check_steps: Positive = 3000
    """Number of steps of the check."""
    force: FlagCreatePairsOff[bool] = False
    """Train even if the check of the environment finds errors."""


@dataclass(frozen=True)
class TrainOptions:
    """All options of ``her train``, except the agent's, which depend on the algorithm."""

    config: OmitArgPrefixes[ConfigOptions] = ConfigOptions()
    run: OmitArgPrefixes[RunOptions] = RunOptions()


def train(arguments: Sequence[str]) -> int:
    """Train an agent on a goal environment, with relabeled goals.

    Writes logs, checkpoints and the config to a folder. Ctrl-C saves and stops the run. With --algo, the help
    lists the options of the agent too.

    For example:

    - her train her_envs/PointReach-v0
    - her train her_envs/BitFlipping-v0 -o n_bits=15 --algo dqn --agent.hidden 128 128
    - her train --recipe fetch_push
    - her train her_envs/PointReach-v0 --seeds 5 --jobs 2 --out runs/reach
    - her train --config runs/mine/config.json --seed 1
    - her train --resume runs/PointReach-v0-sac-0 --no-stop

    Args:
        arguments: The command line after ``her train``.

    Returns:
        The exit code.
    """
    with exits_with(2, TypeError, ValueError):
        given, base, run = _parse(arguments)
    if run.recipes:
        _print_recipes()
        return 0
    if run.resume is not None and run.seeds > 1:
        raise terminal.CommandError("--resume continues one run; remove --seeds")
    from her_wrappers.collecting import CollectorError

    with exits_with(3, BrokenModuleError, CollectorError, OSError), exits_with(2, TypeError, ValueError):
        if run.resume is None:
            config, folder = _new_run(given, base, run)
            if run.seeds > 1:
                return _train_seeds(config, run)
            result = _train(config, folder, run)
        else:
            config, folder = make_config(base, given), run.resume
            with terminal.advises_folder(folder):
                result = _train(config, folder, run)
    return _print_result(result, folder)


def _train_seeds(config: Config, run: RunOptions) -> int:
    """Train one run for each seed; return the exit code, which is not 0 if a run was interrupted."""
    from her_wrappers.commands.processes import train_in_processes

    configs = [replace(config, seed=config.seed + i) for i in range(run.seeds)]
    runs = [(each, _folder(each, run)) for each in configs]
    if run.jobs > 1:
        results = train_in_processes(runs, min(run.jobs, run.seeds), _train_options(run))
    else:
        results = ((_train(each, folder, run), folder) for each, folder in runs)
    code = 0
    for result, folder in results:
        code = max(code, _print_result(result, folder))
        if code and run.jobs == 1:
            return code
    print(f"Compare them: her compare {run.out or ' '.join(str(folder) for _, folder in runs)}")
    return code


def _folder(config: Config, run: RunOptions) -> Path:
    if run.out is not None:
        return run.out / f"seed-{config.seed}" if run.seeds > 1 else run.out
    name = run.recipe or config.env.rpartition("/")[2].replace(":", "-")
    algo = config.algo.rpartition(":")[2]
    return Path("runs") / f"{name}-{algo}{'' if config.her else '-no-her'}-{config.seed}"


def _parse(arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], RunOptions]:
    """Return config options in ``arguments``; config options of a recipe, file or run; and `RunOptions`."""
    early: Any = make_dataclass("Early", [("algo", str | None, None)], bases=(Sources,), frozen=True)
    sources: Any
    sources, _ = tyro.cli(early, args=list(arguments), return_unknown_args=True, add_help=False)
    if sources.resume is not None:
        if sources.recipe or sources.config or sources.out:
            raise ValueError("--resume uses the run's folder and config; remove --out, --config and --recipe")
        from her_agents.training.checkpoints import load_checkpoint

        latest = sources.resume / "latest.pt"
        if not latest.exists():
            terminal.fail(f"--resume must be the folder of a run, but there is no file {latest}")
        with exits_with(3, ValueError):
            base = load_checkpoint(latest)["config"]
    else:
        recipe = {} if sources.recipe is None else read_recipe(sources.recipe).options
        base = merge_options(recipe, {} if sources.config is None else read_options(sources.config))

    algo = sources.algo or base.get("algo")
    if algo is None and any(each.startswith("--agent.") for each in arguments):
        raise ValueError(
            "the options --agent.* need an algorithm; pass --algo, --recipe, or a --config file with 'algo'"
        )
    names = {each.name for each in fields(Config)} - {"env_kwargs", "agent"}
    form: Any = TrainOptions
    if algo is not None:
        agent = agent_options(algo, base.get("agent", {}) if algo == base.get("algo") else {})
        form = make_dataclass("Options", [("agent", type(agent), agent)], bases=(TrainOptions,), frozen=True)
    default = form(config=ConfigOptions(**{name: base[name] for name in names & base.keys()}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # make_config reports wrong types in a file
        options = terminal.parse(form, "train", arguments, train.__doc__ or "", default)

    given = _changed(options.config, default.config, names)
    if {"--clip-targets", "--clip_targets"} & set(arguments):
        given["clip_targets"] = True  # even if equal to the default of Config
    if options.config.env_kwargs:
        given["env_kwargs"] = terminal.parse_options(options.config.env_kwargs)
    if algo is not None and (changed := _changed(options.agent, agent, vars(agent))):
        given["agent"] = changed
    return given, base, options.run


def _changed(options: Any, defaults: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields in ``names`` whose values differ from ``defaults``."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value != getattr(defaults, name)}


def _print_recipes() -> None:
    for name in recipe_names():
        recipe = read_recipe(name)
        print(f"{name}: {recipe.task}")
        result = "not measured"
        if (measured := recipe.measured) is not None:
            result = (
                f"success rate {recipe.solved:.2f} after {measured.steps:,} steps and {measured.minutes:.1f} "
                f"minutes, {measured.success:.2f} at the end"
            )
        print(f"    {recipe.options['algo']}: {result}")
    print("Medians over several seeds; see docs/recipes.md.")


def _new_run(given: Mapping[str, Any], base: Mapping[str, Any], run: RunOptions) -> tuple[Config, Path]:
    """Return the config and the folder of a new run, after a check of the environment."""
    from her_agents.algorithms.registry import default_options, has_sparse_rewards, make_agent, resolve_auto
    from her_agents.training.run import require_clippable, take_random_step
    from her_agents.training.run_folder import RunFolder
    from her_agents.training.sources import find_termination

    recipe = None if run.recipe is None else read_recipe(run.recipe)
    if recipe is not None:
        recipe.require_installed()
    options = merge_options(base, given)
    if "env" not in options:
        raise ValueError(
            "ENV is missing; pass an environment, such as her_envs/PointReach-v0, or a --config file that "
            "sets 'env'"
        )
    limit = options.get("max_episode_steps")

    def factory() -> Any:
        made = make_env(options["env"], disable_env_checker=True, **options.get("env_kwargs", {}))
        return made if limit is None else limit_episodes(made, limit)

    with closing(factory()) as env:
        config = make_config(default_options(env, limit), base, given)
        folder = _folder(config, run)
        for i in range(run.seeds):
            RunFolder(_folder(replace(config, seed=config.seed + i), run)).require_new()
        with exits_with(3, TypeError, ValueError):
            observation_space, action_space = goal_spaces(env)
        config, reasons = resolve_auto(config, observation_space)
        for option, reason in reasons.items():
            print(f"--{option} auto chooses {getattr(config, option)}: {reason}.")
        make_agent(config, observation_space, action_space)
        find_termination(config.termination)
        if unused := sorted(observation_space.keys() - OBSERVATION_KEYS):
            print(
                f"The agent uses only 'observation' and 'desired_goal' of the observations, not "
                f"{', '.join(map(repr, unused))}."
            )
        if run.check:
            known = (
                recipe.known_findings if recipe and absolute_name(recipe.options["env"]) == config.env else ()
            )
            _check(config, run, check_goal_env(factory, max_steps=run.check_steps, ignore=known))
        with exits_with(3, ValueError):
            reward, _ = take_random_step(env, config)
        if "clip_targets" not in options and not has_sparse_rewards(env):
            print(
                "Targets will not be clipped, since some rewards are not -1 or 0. Pass --clip-targets if all "
                "rewards lie in [-1, 0]."
            )
            return replace(config, clip_targets=False), folder
        if config.clip_targets:
            require_clippable(reward)
    return config, folder


def _check(config: Config, run: RunOptions, report: Report) -> None:
    """Print ``report``; if it contains errors, raise CommandError unless ``run.force`` is True."""
    if report.findings:
        terminal.print_report(report)
    else:
        print(f"Goal interface of {report.summary()}")
    if report.of_severity("error") and not run.force:
        terminal.fail(f"{config.env} has the errors above; fix them, or pass --force to train anyway")


def _train(config: Config, folder: Path, run: RunOptions) -> Result:
    """Train with a progress bar and a line per epoch; print diagnoses until an evaluation has a success."""
    from her_agents.training.loop import epoch_line
    from her_agents.training.loop import train as run_training

    console = Console()
    steps_per_s = () if config.offline else (TextColumn("{task.fields[steps_per_s]:,.0f} steps/s"),)
    threads = "" if config.threads == 1 else f" with {config.threads} threads"
    console.print(
        f"{config.algo}{threads} for at most {config.steps:,} steps; Ctrl-C saves and stops", highlight=False
    )
    with Progress(
        TextColumn("{task.description:<11}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("success {task.fields[success]:.2f}"),
        *steps_per_s,
        TextColumn("{task.fields[updates_per_s]:,.0f} updates/s"),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        task = progress.add_task(config.algo, total=config.steps, success=0.0, steps_per_s=0, updates_per_s=0)
        due = FIRST_DIAGNOSIS

        def show(run: Run) -> None:
            nonlocal due
            counts = run.counts
            progress.update(
                task,
                completed=counts.steps,
                success=run.history[-1]["success_rate"] if run.history else 0.0,
                steps_per_s=counts.env_steps / counts.seconds,
                updates_per_s=counts.updates / counts.seconds,
            )
            evaluations = len(run.history)
            if evaluations >= due and not any(row["success_rate"] for row in run.history):
                due = 2 * evaluations
                _print_diagnosis(run, folder)

        return run_training(
            config,
            folder=folder,
            on_epoch=lambda row: console.print(epoch_line(row), highlight=False, soft_wrap=True),
            on_step=show,
            resume=run.resume is not None,
            **_train_options(run),
        )


def _train_options(run: RunOptions) -> dict[str, Any]:
    """Return the arguments of `her_agents.train` that ``run`` sets."""
    from her_agents.training.loop import is_solved

    options = {name: getattr(run, name) for name in ("tensorboard", "backend", "address")}
    return options | ({"stop": is_solved} if run.stop else {})


def _print_diagnosis(run: Run, folder: Path) -> None:
    """Diagnose the run, and print the first findings."""
    from her_wrappers.diagnosis import diagnose
    from her_wrappers.diagnosis.targets import options_of_config, read_target

    options = options_of_config(run.config.as_dict())
    report = diagnose(read_target(run.buffer).with_options(**options), history=run.history)
    print(
        f"None of {len(run.history)} evaluations had a success. `her doctor {folder}` shows the "
        "complete diagnosis:"
    )
    terminal.print_report(replace(report, findings=report.findings[:MOST_FINDINGS], not_exercised=()))


def _print_result(result: Result, folder: Path) -> int:
    """Print the result and a command to run next; return the exit code, 130 after Ctrl-C, else 0."""
    from her_agents.training.loop import is_solved

    state = "Interrupted; saved." if result.interrupted else "Done."
    if is_solved(result.history):
        state = "Solved: all episodes of the last two evaluations were successes."
    print(f"{state} Best success rate {result.best_success:.2f}; checkpoints and logs in {folder}")
    if result.interrupted:
        print(f"Continue with: her train --resume {folder}")
        return 130
    if result.history:
        print(f"Watch it: her watch {folder / 'best.pt'}")
    return 0
