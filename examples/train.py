"""Train an agent on any goal environment: ``python -m examples.train --env ID --algo sac``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from examples.training.checkpoints import load_checkpoint
from examples.training.config import Config, make_config, read_options
from examples.training.display import one_sentence, progress_display
from examples.training.folder import RunFolder
from examples.training.loop import Result, train
from examples.training.parts import check, use_threads
from examples.training.session import Training
from her_wrappers.checker.display import print_report
from her_wrappers.commands.make import OPTIONS_HELP, parse_options

console = Console()

OPTIONS = {each.name for each in fields(Config)}
CONFIG_HELP = "A TOML or JSON file with options by their names; those of the command line win."


def main(
    *,
    env: Annotated[str | None, typer.Option(help="Id of a goal environment, or module:id.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", "--env-kwargs", metavar="NAME=VALUE", help=OPTIONS_HELP),
    ] = None,
    algo: Annotated[str | None, typer.Option(help="dqn, ddpg, td3 or sac.")] = None,
    her: Annotated[
        bool | None, typer.Option("--her/--no-her", help="Whether to relabel goals. [default: her]")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Which goals, such as future or final. [default: future]")
    ] = None,
    k: Annotated[
        int | None, typer.Option(help="Relabeled transitions for every original one. [default: 4]")
    ] = None,
    termination: Annotated[
        str | None,
        typer.Option(
            help="Where relabeled episodes end if the environment does not tell: success, keep or never."
        ),
    ] = None,
    prioritized: Annotated[
        bool | None,
        typer.Option(
            "--prioritized/--no-prioritized",
            help="Whether larger errors are drawn more often. [default: no-prioritized]",
        ),
    ] = None,
    num_envs: Annotated[
        int | None, typer.Option(help="Environments that are stepped together. [default: 16]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of all environments together. [default: 100000]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seeds everything. [default: 0]")] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount of a step. [default: 0.98]")] = None,
    n_steps: Annotated[
        int | None, typer.Option(help="Rewards added up in a transition, at most. [default: 1]")
    ] = None,
    clip_targets: Annotated[
        bool | None,
        typer.Option(
            "--clip-targets/--no-clip-targets",
            help="Whether rewards lie between -1 and 0. [default: clip-targets]",
        ),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Transitions of an update. [default: 128]")] = None,
    updates_per_step: Annotated[
        float | None, typer.Option(help="Updates for each step of an environment. [default: 0.25]")
    ] = None,
    steps_per_epoch: Annotated[
        int | None, typer.Option(help="Steps between evaluations. [default: 4000]")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="Options of the agent, such as hidden=[256,256], or a JSON object."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help=CONFIG_HELP)] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Folder of a training to go on with; of its options only --steps may change."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for logs and checkpoints. [default: runs/NAME-ALGO-SEED]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Train though the check finds errors.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard/--no-tensorboard", help="Whether to log for TensorBoard.")
    ] = True,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
) -> None:
    """Train an agent on a goal environment, relabeling goals in hindsight.

    Logs, checkpoints and the config go to the folder. Ctrl-C saves and ends.

    For example:

    - `python -m examples.train --env her_envs/PointReach-v0 --algo sac --steps 12000`
    - `python -m examples.train --env her_envs/BitFlipping-v0 -o n_bits=15 --algo dqn`
    - `python -m examples.train --config runs/mine/config.json --seed 1`
    - `python -m examples.train --resume runs/PointReach-v0-sac-0 --steps 24000`
    """
    given = {name: value for name, value in locals().items() if name in OPTIONS and value is not None}
    use_threads(threads)
    with one_sentence():
        for name, pairs in (("env_kwargs", option), ("agent", agent)):
            if pairs:
                given[name] = parse_options(pairs)
        chosen, folder = _choose(given, config, resume, out)
        if resume is None:
            RunFolder(folder).require_new()
            _require_sound(chosen, force=force)
        result = _train(chosen, folder, resume=resume is not None, tensorboard=tensorboard)
    _tell(result, folder)


def _choose(
    given: Mapping[str, Any], file: Path | None, resume: Path | None, out: Path | None
) -> tuple[Config, Path]:
    """Return the config and the folder that the options ask for.

    Raises:
        ValueError: They contradict each other, or an option is wrong.
    """
    if resume is not None:
        if out is not None or file is not None:
            raise ValueError(
                "--resume goes on in its own folder with its own config; leave out --out and --config"
            )
        if resume.suffix == ".pt" and resume.name != "latest.pt":
            raise ValueError(f"--resume takes the folder of a training, or its latest.pt, got {resume}")
        folder = resume.parent if resume.suffix == ".pt" else resume
        return make_config(load_checkpoint(folder / "latest.pt")["config"], given), folder
    chosen = make_config({} if file is None else read_options(file), given)
    name = chosen.env.rpartition("/")[2].replace(":", "-")
    plain = "" if chosen.her else "-no-her"
    return chosen, out or Path("runs") / f"{name}-{chosen.algo}{plain}-{chosen.seed}"


def _require_sound(config: Config, *, force: bool) -> None:
    """Check the environment; tell what is wrong with it.

    Raises:
        ValueError: There are errors, and ``force`` does not say to go on.
    """
    report = check(config)
    if report.findings:
        print_report(report, console)
    else:
        console.print(f"Goal interface of {report.summary()}", highlight=False, soft_wrap=True)
    if report.of_severity("error") and not force:
        raise ValueError(f"{config.env} would break relabeling: mend the errors above, or pass --force")


def _train(config: Config, folder: Path, *, resume: bool, tensorboard: bool) -> Result:
    """Train, with a bar that moves and a line for each epoch.

    Raises:
        TypeError: As `train`.
        ValueError: As `train`.
    """
    with progress_display(console) as progress:
        task = progress.add_task(config.algo, total=config.steps, success=0.0, steps_per_s=0, updates_per_s=0)
        printed: int | None = None

        def show(training: Training) -> None:
            nonlocal printed
            counts = training.counts
            progress.update(
                task,
                completed=counts.env_steps,
                success=training.success_rate,
                steps_per_s=counts.env_steps / counts.seconds,
                updates_per_s=counts.updates / counts.seconds,
            )
            if printed is not None and printed != counts.epochs:
                _print_epoch(training.history[-1])
            printed = counts.epochs

        return train(config, folder=folder, resume=resume, tensorboard=tensorboard, show=show)


def _print_epoch(row: Mapping[str, float]) -> None:
    texts = [
        f"epoch {row['epoch']:>3}",
        f"{row['env_steps']:>9,} steps",
        f"success {row['success_rate']:.2f}",
    ]
    texts += [f"return {row['mean_return']:.2f}", f"length {row['mean_length']:.1f}"]
    diagnostics = ("q_mean", "relabeled_success", "goal_age")
    texts += [f"{name} {row[name]:.2f}" for name in diagnostics if name in row]
    console.print(" | ".join(texts), highlight=False, soft_wrap=True)


def _tell(result: Result, folder: Path) -> None:
    """Say what came of it.

    Raises:
        typer.Exit: It was interrupted.
    """
    state = "Interrupted; saved." if result.interrupted else "Done."
    console.print(
        f"{state} Best success rate {result.best_success:.2f}; checkpoints and logs in {folder}",
        soft_wrap=True,
    )
    if result.interrupted:
        console.print(f"Go on with: python -m examples.train --resume {folder}", soft_wrap=True)
        raise typer.Exit(130)  # as a shell says of what Ctrl-C ended
    if result.history:
        console.print(f"Watch it: python -m examples.play {folder / 'best.pt'}", soft_wrap=True)


app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
app.command()(main)

if __name__ == "__main__":
    app()
