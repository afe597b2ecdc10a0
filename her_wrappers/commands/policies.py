"""Policies by name: the agent of a run, of a policy file or of a recipe; a function; or random actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.commands import terminal
from her_wrappers.commands.terminal import CommandError, Policy, exits_with
from her_wrappers.goals.action_masks import valid_action, with_action_mask
from her_wrappers.goals.environments import EnvNameError, import_callable, make_env
from her_wrappers.goals.episode_limit import limit_episodes
from her_wrappers.goals.interface import goal_spaces

if TYPE_CHECKING:
    from her_agents.training.config import Config


def is_run(name: str) -> bool:
    """Return whether a name is that of a run, a checkpoint or a policy file."""
    return name != "random" and (Path(name).exists() or Path(name).suffix in {".pt", ".policy"})


def open_policy(
    policy: str, env_name: str | None, options: dict[str, Any], max_episode_steps: int | None
) -> tuple[gym.Env[Any, Any], Policy]:
    """Return an environment, by default that of the run ``policy``, and the policy that acts in it."""
    if is_run(policy):
        agent, config = load_run(policy)
        if env_name is None:
            env_name, options = config.env, {**config.env_kwargs, **options}
        with terminal.advises_folder(policy):
            env = make_env(env_name, disable_env_checker=True, **options)
        env = with_action_mask(limit_episodes(env, max_episode_steps or config.max_episode_steps))
        return env, agent(env)
    if ":" not in policy and len(Path(policy).parts) > 1:
        raise CommandError(f"there is no folder or file {policy}; pass a run, or module:function", 3)
    if env_name is None:
        raise CommandError(
            f"the policy {policy!r} needs an environment, since it does not belong to a run; pass the "
            "environment by --env (`her evaluate`) or as TARGET (`her watch`)"
        )
    try:
        env = limit_episodes(make_env(env_name, **options), max_episode_steps)
    except EnvNameError as error:
        if ":" in env_name or env_name in gym.registry or Path(env_name).exists():
            raise
        raise CommandError(f"{error}; there is no run or policy file {env_name!r} either") from error
    if found := find_policy(policy, env):
        return env, found
    env, rng = with_action_mask(env), np.random.default_rng()
    return env, lambda observation: valid_action(env.action_space.sample(), env, observation, {}, rng)


def find_policy(name: str, env: Any) -> Policy | None:
    """Return the policy that ``--policy`` names, to act in ``env``; None for "random"."""
    if is_run(name):
        return load_run(name)[0](env)
    forms = "random, a run, or module:function"
    return None if name == "random" else import_callable(name, "--policy", forms)


def load_run(name: str) -> tuple[Callable[[gym.Env[Any, Any]], Policy], Config]:
    """Load a run; return ``(policy_for, config)``: ``policy_for(env)`` returns the policy for ``env``."""
    import torch

    from her_agents import make_config
    from her_agents.training import checkpoints

    torch.set_num_threads(1)  # faster than several threads, since the networks are small
    file = checkpoints.best_checkpoint(name)
    if Path(name).is_dir() and not file.exists():
        raise CommandError(
            f"folder {name} has no best.pt: it is not a run, or the run has no evaluation yet; continue a "
            f"run with `her train --resume {name}`",
            3,
        )
    content = checkpoints.load_checkpoint(file)
    agent = checkpoints.agent_of(content, file)

    def policy_for(env: gym.Env[Any, Any]) -> Policy:
        with exits_with(3, TypeError):
            found = goal_spaces(env)
        with exits_with(2, ValueError):
            checkpoints.require_spaces(file, content, found)
        return agent.act

    return policy_for, make_config(content["config"])


def given_policy(form: str, given: str | None, recipe: str | None) -> str:
    """Return ``given``, an argument of this form, or the path of the trained policy of a recipe."""
    from her_agents.recipes import read_recipe

    if given is not None and recipe is None:
        return given
    if recipe is None or given is not None:
        raise CommandError(f"expected either {form} or --recipe NAME, got {'both' if given else 'neither'}")
    with exits_with(2, ValueError):
        chosen = read_recipe(recipe)
        chosen.require_installed()
    if not chosen.policy.exists():
        raise CommandError(f"recipe {recipe!r} has no trained policy; run `her train --recipe {recipe}`")
    return str(chosen.policy)
