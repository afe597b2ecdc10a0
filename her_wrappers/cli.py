"""The command-line program ``her``. The module of a command is imported only if the command runs."""

from __future__ import annotations

import difflib
import io
import os
import platform
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled

from her_wrappers.commands import terminal
from her_wrappers.commands.terminal import CommandError
from her_wrappers.goals.environments import BrokenModuleError, EnvNameError
from her_wrappers.goals.episode_limit import EndlessEpisodeError
from her_wrappers.support.error_texts import describe, describe_user_error
from her_wrappers.support.policies import PolicyError

COMMANDS = {
    "check": "Check a goal environment.",
    "check-replay": "Check a HER replay buffer.",
    "record": "Record episodes in an archive.",
    "inspect": "Show lengths, returns and success of an archive.",
    "train": "Train an agent on a goal environment.",
    "watch": "Show an environment with an agent, a policy or random actions.",
    "compare": "Compare groups of runs: success rates, time until a success rate, and learning curves.",
    "evaluate": "Show where a policy succeeds: by goal, by distance and over time.",
    "export": "Write the policy of a run as ONNX, or as a small policy file.",
    "doctor": "Find out why a run does not learn.",
    "rules": "List the rules of check, check-replay and doctor, or explain one.",
    "envs": "List the bundled environments, or the options of one.",
}

REPORTED = ("her-toolkit", "gymnasium", "numpy", "torch", "pygame-ce", "pygame", "stable-baselines3")
"""Packages whose versions a bug report needs."""

AGENTS_PACKAGES = ("torch", "matplotlib", "tensorboard", "scipy")  # modules that the extra `agents` installs

MAX_MESSAGE = 4000
"""Number of characters after which an error message is cut, since it may quote a long text from a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``her`` with ``arguments``, by default ``sys.argv[1:]``; return the exit code."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed by the shell; no other file may get its descriptor
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: PTH123, SIM115 - until exit
    if threading.current_thread() is threading.main_thread():  # schedulers of clusters send SIGTERM
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    out, err = _Output(sys.stdout), _Output(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        words = list(sys.argv[1:] if arguments is None else arguments)
        try:
            code = _run(*([word for word in words if word != "--traceback"] or ["--help"]))
        except SystemExit as ended:  # of --help and of wrong usage
            code = int(ended.code or 0)
        except CommandError as error:
            if "--traceback" in words:
                traceback.print_exception(error.__cause__ or error, file=err)
            print(f"Error: {terminal.printable(str(error))[:MAX_MESSAGE]}", file=err)
            code = error.exit_code
        except KeyboardInterrupt:
            code = 130
        out.flush()
        if out.error is not None and not isinstance(out.error, BrokenPipeError):
            print(f"Error: cannot write to standard output: {out.error.strerror}", file=err)
            code = 3
        err.flush()
    return code


class _Output:
    """A text stream that discards the later output after an OSError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None  # the first error
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # escapes characters that the encoding lacks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._drop_errors(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._drop_errors(self._stream.flush)

    def _drop_errors(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self.error = self.error or error
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _run(name: str, *arguments: str) -> int:
    """Run a command and return its exit code; raise CommandError for errors in the user's code or data."""
    if name in {"-h", "--help"}:
        return _print_help()
    if name == "--version":
        return _print_versions()
    if name not in COMMANDS:
        meant = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `her {meant[0]}`?" if meant else f"choose from {', '.join(COMMANDS)}"
        raise CommandError(f"unknown command {name!r}; {hint}")
    if "" in arguments:
        raise CommandError(f"`her {name}` got an empty argument (''); a shell variable may be unset")
    module = name.replace("-", "_")
    try:
        command = getattr(import_module(f"her_wrappers.commands.{module}"), module)
        if name == "train":  # its options depend on --algo, --recipe, --config and --resume
            return int(command(arguments) or 0)
        return int(terminal.parse(command, arguments) or 0)
    except (CommandError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also a SystemExit that the user's module raises
        found = _as_command_error(error)
        if found is None:
            raise
        raise found from error


def _as_command_error(error: BaseException) -> CommandError | None:
    """Return the error to show to the user, or None for a bug in the toolkit, which needs a traceback."""
    package = str(getattr(error, "name", "")).partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in AGENTS_PACKAGES:
        return CommandError(f'this command needs {package}; run: pip install "her-toolkit[agents]"')
    if isinstance(error, EnvNameError):
        return CommandError(str(error))
    if isinstance(error, BrokenModuleError | EndlessEpisodeError | PolicyError | DependencyNotInstalled):
        return CommandError(str(error), 3)
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if message := describe_user_error(error):
        message += "; --traceback shows the whole traceback"
    elif isinstance(error, OSError | ValueError | MemoryError):
        message = str(error)
    elif last.is_relative_to(Path(gym.__file__).parent):
        message = describe(error)
    else:
        return None
    return CommandError(message, 3)


def _print_help() -> int:
    width = max(map(len, COMMANDS))
    print("usage: her [-h] [--version] COMMAND ...\n")
    print("Hindsight Experience Replay for any Gymnasium goal environment.\n")
    for name, summary in COMMANDS.items():
        print(f"  {name:<{width}}  {summary}")
    print("\n`her COMMAND --help` shows the options of COMMAND; `her --version` is for bug reports.")
    print(terminal.EXIT_CODES)
    return 0


def _print_versions() -> int:
    for name in REPORTED:
        try:
            print(name, version(name))
        except PackageNotFoundError:
            print(name, "not installed")
    print(f"python {platform.python_version()} on {platform.platform()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
