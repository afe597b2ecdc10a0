"""``her check``: check a goal environment."""

from __future__ import annotations

import contextlib
import inspect
import os
from pathlib import Path
from typing import Any

import gymnasium as gym

from her_wrappers.checker import check_goal_env
from her_wrappers.commands import terminal
from her_wrappers.commands.policies import find_policy
from her_wrappers.goals.environments import call_factory, env_factory, present_folder
from her_wrappers.support.error_texts import is_library
from her_wrappers.support.policies import PolicyError


def check(
    env: terminal.Environment,
    *,
    option: terminal.EnvOptions = (),
    max_steps: terminal.Positive = 3000,
    max_seconds: float | None = None,
    seed: terminal.NotNegative = 0,
    replicas: bool = True,
    policy: str = "random",
    reporting: terminal.Reporting = terminal.DEFAULT_REPORTING,
) -> int:
    """Check a goal environment.

    For example:

    - her check her_envs/BitFlipping-v0 -o n_bits=15 --strict
    - her check my_envs:MyReach-v0 --max-steps 10000
    - her check my_envs:make_env --policy my_agents.py:reach

    Args:
        max_steps: Number of steps for which the check runs the environment.
        max_seconds: Time limit in seconds for these steps; the other parts of the check have no time limit.
        seed: Seed of the check.
        replicas: Whether to make further instances of the environment for comparisons; pass --no-replicas
            if only one instance can exist, such as for a robot.
        policy: The policy that chooses the actions: random, the folder of a run, a checkpoint, a policy file,
            module:function or path/to/file.py:function.
    """
    options = terminal.parse_options(option)
    progress = terminal.progress("checking", max_steps, "steps")
    errors = terminal.exits_with(2, TypeError, ValueError)
    with errors, present_folder(), reporting.alone(), progress as advance:
        factory = env_factory(env, disable_env_checker=True)
        made = call_factory(env, factory, options)
        if not isinstance(made, gym.Env | gym.vector.VectorEnv):
            raise TypeError(f"{env} must return a gymnasium Env or VectorEnv, got {type(made).__name__}")
        location = _class_location(made) if reporting.format == "github" else None
        first, failure = [made], None
        try:
            report = check_goal_env(
                lambda: first.pop() if first else factory(**options),
                max_steps=max_steps,
                max_seconds=max_seconds,
                policy=find_policy(policy, made),
                **reporting.prefixes(),
                seed=seed,
                replicas=replicas,
                on_step=advance,
            )
        except PolicyError as error:  # a fault of the environment may be the cause
            failure, report = error, error.report
    code = reporting.finish(report, location)
    if failure is not None:
        raise failure
    return code


def _class_location(env: Any) -> tuple[str, int] | None:
    """Find the outermost wrapper or environment whose class is the user's own; return its file and line."""
    repository = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    while env is not None:
        env_class = type(env)
        env = getattr(env, "env", None)  # of a wrapper
        with contextlib.suppress(OSError, TypeError):  # the class has no source file
            file, (_, line) = Path(inspect.getfile(env_class)).resolve(), inspect.getsourcelines(env_class)
            is_installed = is_library(file) or "site-packages" in file.parts
            if file.is_relative_to(repository) and not is_installed:
                return file.relative_to(repository).as_posix(), line
    return None
