"""``her train``: train an agent on a goal environment. Its options are the fields of `her_agents.Config`."""

from __future__ import annotations

import itertools
import textwrap
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg

from her_agents.algorithms.options import agent_options, option_meanings
from her_agents.recipes import read_recipe, recipe_names
from her_agents.training.config import Config, make_config, merge_options, read_options
from her_wrappers.checker import check_goal_env
from her_wrappers.commands import terminal
from her_wrappers.commands.terminal import Address, Backend, EnvOptions, Positive, Timeout, exits_with
from her_wrappers.goals.action_masks import MASK
from her_wrappers.goals.environments import BrokenModuleError, make_env
from her_wrappers.goals.episode_limit import limit_episodes
from her_wrappers.goals.interface import OBSERVATION_KEYS, goal_spaces


@dataclass(frozen=True)
class ConfigOptions(Config):
    """Options of a run that are saved in its checkpoints, and that recipes can set."""

    env: Positional[Annotated[str | None, arg(metavar="ENV")]] = None  # type: ignore[assignment]
    algo: str | None = None  # type: ignore[assignment]
    env_kwargs: EnvOptions = ()  # type: ignore[assignment]
    steps: int | None = None  # type: ignore[assignment]
    updates_per_step: float | None = None  # type: ignore[assignment]
    steps_per_epoch: int | None = None  # type: ignore[assignment]
    evaluate_every: int | None = None  # type: ignore[assignment]
    clip_targets: bool = True  # a flag; only options that are given count
    agent: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()  # type: ignore[assignment]
    """Option of the algorithm, such as learning_rate=3e-4 or hidden=[128,128]; `her train --algo sac --help`
    lists those of sac."""

    def __post_init__(self) -> None:
        """Skip the validation of `Config`: a recipe or a file may set options that are missing here."""
        object.__setattr__(self, "info_keys", tuple(self.info_keys))  # a list in files
        for name in ("use_keys", "critic_keys"):  # also --use-keys a,b
            keys = (key for text in getattr(self, name) for key in text.split(","))
            object.__setattr__(self, name, tuple(keys))


@dataclass(frozen=True)
class CommandOptions:
    """Options that are not part of the saved config of a run."""

    recipe: str | None = None
    """Name of a recipe, a set of options for a task; --config and the command line override its options. For
    an ENV other than that of the recipe, options that describe the recipe's environment are left out."""
    config: Path | None = None
    """TOML or JSON file with options by name; the command line overrides them."""
    resume: Path | None = None
    """Folder of a run to continue; of the options of the run, only --steps and ENV may be changed."""
    out: Path | None = None
    """Folder of logs and checkpoints, by default runs/NAME-ALGO-SEED, or runs/NAME-ALGO-run2-SEED and so on
    if that has a run; with --seeds, the folder of all runs, in which existing runs are continued."""
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
    timeout: Timeout = None
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
    """All options of ``her train``."""

    saved: OmitArgPrefixes[ConfigOptions] = ConfigOptions()
    command: OmitArgPrefixes[CommandOptions] = CommandOptions()


def train(arguments: Sequence[str]) -> int:
    """Train an agent on a goal environment, with relabeled goals.

    Writes logs, checkpoints and the config to a folder. Ctrl-C saves and stops the run. With --algo, the help
    lists the options of the agent too.

    For example:

    - her train her_envs/PointReach-v0
    - her train her_envs/BitFlipping-v0 -o n_bits=15 --algo dqn --agent hidden=[128,128]
    - her train --recipe fetch_push
    - her train her_envs/PointReach-v0 --seeds 5 --jobs 2 --out runs/reach
    - her train --resume runs/PointReach-v0-sac-0 --no-stop
    """
    # `her train --env ENV` is `her train ENV`, since other commands have an option --env.
    words = [each.removeprefix("--env=") for each in arguments if each not in {"-h", "--help", "--env"}]
    parsed = terminal.parse(train, words, TrainOptions)
    command = parsed.command
    if command.recipes:
        _print_recipes()
        return 0
    if command.resume is not None and command.seeds > 1:
        raise terminal.CommandError("--resume continues one run; remove --seeds")
    from her_wrappers.collecting import CollectorError

    with exits_with(3, BrokenModuleError, CollectorError, OSError), exits_with(2, TypeError, ValueError):
        base = _base_options(command, parsed.saved.env)
        given = _given_options(parsed.saved, words, base)
        if given.get("real"):  # also with a recipe that has several environments
            given = {"num_envs": 1, "workers": 0} | given
        if {"-h", "--help"} & set(arguments):
            return _print_help(base, given.get("algo"))
        if command.resume is None:
            with ExitStack() as stack:
                return _train(*_new_runs(given, base, command, stack), command)
        with terminal.advises_folder(command.resume):
            return _train([(make_config(base, given), command.resume)], None, command)


def _base_options(command: CommandOptions, env: str | None) -> dict[str, Any]:
    """Return the options of the recipe and the config file, or of the run to continue."""
    if command.resume is None:
        file = {} if command.config is None else read_options(command.config)
        env = env or file.get("env")
        recipe = {} if command.recipe is None else read_recipe(command.recipe).options_for(env)
        return merge_options(recipe, file)
    if command.recipe or command.config or command.out:
        raise ValueError("--resume uses the run's folder and config; remove --out, --config and --recipe")
    from her_agents.training.checkpoints import load_checkpoint

    latest = command.resume / "latest.pt"
    if not latest.exists():
        raise terminal.CommandError(f"--resume must be the folder of a run, but there is no file {latest}", 3)
    with exits_with(3, ValueError):
        options: dict[str, Any] = load_checkpoint(latest)["config"]
    return options


def _given_options(options: ConfigOptions, words: Sequence[str], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `Config` on the command line, except those with the same value in ``base``."""
    written = {word.partition("=")[0][2:].replace("-", "_") for word in words if word.startswith("--")}
    names = {each.name for each in fields(Config)} & {each.removeprefix("no_") for each in written}
    given = {name: getattr(options, name) for name in names}
    if options.env is not None:
        given["env"] = options.env
    # A given ``algo`` or ``env`` replaces ``agent`` or ``env_kwargs`` of the base instead of extending them.
    given = {name: value for name, value in given.items() if name not in base or base[name] != value}
    if options.env_kwargs:
        given["env_kwargs"] = terminal.parse_options(options.env_kwargs)
    if options.agent:
        pairs = terminal.parse_options(options.agent, "--agent", "learning_rate=3e-4", _parse_toml)
        given["agent"] = {name.replace("-", "_"): value for name, value in pairs.items()}
    return given


def _parse_toml(text: str) -> Any:
    return tomllib.loads(f"value = {text}")["value"]


def _print_help(base: Mapping[str, Any], algo: str | None) -> int:
    """Print all options, with the defaults of ``base``, and the options of the algorithm if it is known."""
    names = {each.name for each in fields(Config)} - {"env_kwargs", "agent"}
    default = TrainOptions(ConfigOptions(**{name: base[name] for name in names & base.keys()}))
    with suppress(SystemExit), warnings.catch_warnings(action="ignore"):  # about wrong types in a file
        terminal.parse(train, ["--help"], TrainOptions, default)
    algo = algo or base.get("algo")
    if algo is not None:
        options = agent_options(algo, base.get("agent", {}) if algo == base.get("algo") else {})
        print(f"\nOptions of {algo}, each as --agent NAME=VALUE, with their defaults:\n")
        for name, meaning in option_meanings(type(options)).items():
            value = str(getattr(options, name)).replace("True", "true").replace("False", "false")
            print(textwrap.fill(f"{name}={value}: {meaning}", 110, subsequent_indent="    "))
    return 0


def _new_runs(
    given: Mapping[str, Any], base: Mapping[str, Any], command: CommandOptions, stack: ExitStack
) -> tuple[list[tuple[Config, Path]], Any]:
    """Check the environment; return a list with the (config, folder) of a new run for each seed.

    Also return the real robot or the simulator of all runs, which ``stack`` closes, or None.
    """
    from her_agents.algorithms.registry import choose_defaults, choose_device, make_agent
    from her_agents.training.sources import find_function, make_single_env

    here = Path.cwd()  # the environment may change the current folder
    recipe = read_recipe(command.recipe) if command.recipe else None
    options = merge_options(base, given)
    if recipe and options["env"] == recipe.options["env"]:
        recipe.require_installed()
    elif recipe:
        if left_out := sorted(recipe.options.keys() - recipe.options_for(options["env"]).keys()):
            values = ", ".join(f"{name}={recipe.options[name]!r}" for name in left_out)
            print(f"Options of the recipe left out, since they are for {recipe.environment}: {values}")
        recipe, command = None, replace(command, recipe=None)
    if "env" not in options:
        raise ValueError(
            "ENV is missing; pass an environment, such as her_envs/PointReach-v0, or a --config with 'env'"
        )
    if "algo" in options:  # for module:Class, whose options `make_config` does not validate
        agent_options(options["algo"], options.get("agent", {}))
    config = make_config(base, given)
    if config.real and command.jobs > 1:
        raise ValueError(f"--real needs --jobs 1, since there is one robot, got {command.jobs}; omit --jobs")
    env = stack.enter_context(closing(make_single_env(config)))
    simulator = getattr(env.unwrapped, "simulator", None)
    config = choose_defaults(config, env)
    folders = _folders(config, command, here)
    with exits_with(3, TypeError, ValueError):
        observation_space, action_space = goal_spaces(env)
    device, reason = choose_device(config, observation_space)
    if reason:
        print(f"--device auto chooses {device}: {reason}.")
    config = replace(config, device=device)
    make_agent(config, observation_space, action_space)
    for option in ("termination", "goal_selection_strategy"):
        find_function(option, getattr(config, option))
    used = {*OBSERVATION_KEYS, *config.use_keys, *config.critic_keys, MASK}
    if unused := sorted(observation_space.keys() - used):
        print(
            f"The agent does not use {', '.join(map(repr, unused))} of the observations; --use-keys adds "
            "keys, and --critic-keys adds keys that only the critics use."
        )
    if command.check and not config.real:
        _check(config, command, recipe.known_findings if recipe else (), simulator)
    config = _choose_clipping(config, env)
    runs = [(replace(config, seed=config.seed + i), folder) for i, folder in enumerate(folders)]
    only_one = env if config.real else simulator  # some simulators can be made only once in a process
    if only_one is not None and command.jobs == 1:
        return runs, only_one
    stack.close()
    return runs, None


def _choose_clipping(config: Config, env: Any) -> Config:
    """Test the goal functions, and choose ``clip_targets``; print the reason if targets are not clipped."""
    from her_agents.algorithms.registry import choose_clipping
    from her_agents.training.run import take_random_step
    from her_agents.training.updates import require_clippable

    if not config.real:
        with exits_with(3, ValueError):
            reward, _ = take_random_step(env, config)
    config, reason = choose_clipping(config, env)
    if reason:
        print(f"Targets are not clipped, since {reason}; pass --clip-targets if all rewards lie in [-1, 0].")
    elif config.clip_targets and not config.real:
        require_clippable(reward)
    return config


def _check(config: Config, command: CommandOptions, known: Sequence[str], simulator: Any) -> None:
    """Check the environment, and print the report; after errors, raise CommandError without ``force``."""

    def factory() -> Any:
        made = make_env(config.env, disable_env_checker=True, **config.env_kwargs)
        return made if config.max_episode_steps is None else limit_episodes(made, config.max_episode_steps)

    if simulator is None:
        report = check_goal_env(factory, ignore=known, max_steps=command.check_steps)
    else:  # rewards show its successes, without a flag
        env, ignore = simulator.as_vector_env(), [*known, "GE201"]
        report = check_goal_env(env, ignore=ignore, replicas=False, max_steps=command.check_steps)
    if report.findings:
        terminal.print_report(report)
    else:
        print(f"Goal interface of {report.summary()}")
    if report.of_severity("error") and not command.force:
        message = f"{config.env} has the errors above; fix them, or pass --force to train anyway"
        raise terminal.CommandError(message, 3)


def _train(runs: Sequence[tuple[Config, Path]], env: Any, command: CommandOptions) -> int:
    """Train runs, pairs (config, folder); return the exit code, 130 if a run was interrupted, else 0."""
    from her_agents.training.logs import is_solved
    from her_wrappers.commands.train_runs import print_result, train_here, train_in_processes

    options = {name: getattr(command, name) for name in ("backend", "address", "timeout")}
    options |= {"env": env, "tensorboard": None if command.tensorboard else False}
    options |= {"stop": is_solved} if command.stop else {}
    runs = [each for each in runs if command.resume or not _is_complete(*each, stop=command.stop)]
    if not runs:
        raise terminal.CommandError(
            f"all runs in {command.out} are complete; choose another --out, or more --seeds"
        )
    jobs = min(command.jobs, len(runs))
    execute = train_in_processes(runs, jobs, options) if jobs > 1 else train_here(runs, options)
    code = max(print_result(result, folder) for result, folder in execute)
    if command.seeds > 1 and not code:
        print(f"Compare them: her compare {command.out or ' '.join(str(folder) for _, folder in runs)}")
    return code


def _is_complete(config: Config, folder: Path, *, stop: bool) -> bool:
    """Return whether a saved run has all its steps or, with ``stop``, is solved; if so, print a message."""
    from her_agents.training.checkpoints import load_checkpoint
    from her_agents.training.logs import is_solved, steps_of

    latest = folder / "latest.pt"
    if not latest.exists():
        return False
    saved = load_checkpoint(latest)
    complete = steps_of(saved["counts"]) >= config.steps or (stop and is_solved(saved["history"]))
    complete &= replace(make_config(saved["config"]), steps=config.steps) == config  # else training raises
    if complete:
        print(f"{folder} is complete")
    return complete


def _folders(config: Config, command: CommandOptions, here: Path) -> list[Path]:
    """Return the folder of the run of each seed: below --out, or the next default folders without runs."""
    from her_agents.training.run_folder import RunFolder

    seeds, base = range(config.seed, config.seed + command.seeds), here if Path.cwd() != here else Path()
    if command.out is not None:
        out = base / command.out
        folders = [out / f"seed-{seed}" for seed in seeds] if command.seeds > 1 else [out]
        for folder in folders:
            if command.seeds == 1 or not (folder / "latest.pt").exists():  # else this run continues
                RunFolder(folder).require_new()
        return folders
    name = command.recipe or config.env.rpartition("/")[2].replace(":", "-")
    name += f"-{config.algo.rpartition(':')[2]}{'' if config.her else '-no-her'}"
    for number in itertools.count(1):
        folders = [base / "runs" / f"{name}{f'-run{number}' if number > 1 else ''}-{seed}" for seed in seeds]
        if not any((folder / "config.json").exists() for folder in folders):
            break
    return folders


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
