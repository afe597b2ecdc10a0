"""Checkpoints: files of tensors, numbers and strings; written atomically, loaded without executing code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces

from her_agents.algorithms import make_agent
from her_agents.config import Config, make_config
from her_wrappers.files.atomic import replacement
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.recording.space_json import space_from_json, space_to_json

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from her_agents.agent import Agent

FORMAT = "her-toolkit checkpoint 2"
FORMAT_0_1 = "her-toolkit checkpoint 1"


def save_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically; a crash does not damage an existing file."""
    with replacement(path) as file:
        torch.save({"format": FORMAT, **content}, file)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint. No code in the file is executed.

    Raises:
        ValueError: The file cannot be read, is not a checkpoint, is damaged, or is from another version.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint of her train, or it is damaged") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found == FORMAT_0_1:
        raise ValueError(
            f"{path} is a checkpoint of her-toolkit 0.1, which this version cannot load; "
            "train again, or use version 0.1"
        )
    if found != FORMAT:
        raise ValueError(f"{path} is not a checkpoint of her train, or it is from another version")
    return dict(content)


def load_agent(path: str | os.PathLike[str]) -> Agent:
    """Load the agent of a checkpoint. The environment is not needed, and no code in the file is executed.

    Args:
        path: A checkpoint such as ``best.pt``, or the folder of a training, whose ``best.pt`` is loaded.

    Returns:
        The agent; its method `act` is a policy.

    Raises:
        ValueError: The file cannot be read, is not a checkpoint, is damaged, or is from another version.

    Example:
        ``load_agent("runs/PointReach-v0-sac-0").act(observation)``
    """
    file = best_checkpoint(path)
    return agent_of(load_checkpoint(file), file)


def best_checkpoint(path: str | os.PathLike[str]) -> Path:
    """Return the path of a checkpoint: ``path``, or ``best.pt`` if ``path`` is a folder."""
    return Path(path) / "best.pt" if Path(path).is_dir() else Path(path)


def agent_of(checkpoint: Mapping[str, Any], path: Path) -> Agent:
    """Return the agent of a checkpoint; ``path`` is for the message.

    Raises:
        ValueError: The checkpoint is damaged.
    """
    try:
        agent = make_agent(config_of(checkpoint), *map(space_from_json, checkpoint["spaces"]))
        agent.load_state_dict(checkpoint["agent"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return agent


def config_of(checkpoint: Mapping[str, Any]) -> Config:
    """Return the config of the training that wrote a checkpoint."""
    return make_config(checkpoint["config"])


def describe_spaces(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> list[dict[str, Any]]:
    """Return an observation space and an action space as JSON data.

    Args:
        observation_space: A Dict, of which only the three goal keys are used.
        action_space: Action space of one environment.
    """
    goal_space = spaces.Dict({key: observation_space[key] for key in GOAL_KEYS})  # type: ignore[index] # a Dict
    return [space_to_json(goal_space), space_to_json(action_space)]


def require_spaces(
    path: Path,
    checkpoint: Mapping[str, Any],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
) -> None:
    """Check that the spaces of an environment equal those of a checkpoint's agent.

    Args:
        path: Path of the checkpoint, for the message.
        checkpoint: Content of the checkpoint.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.

    Raises:
        ValueError: A space differs.
    """
    found = describe_spaces(observation_space, action_space)
    for saved, described in zip(checkpoint["spaces"], found, strict=True):
        if saved != described:
            raise ValueError(
                f"the agent of {path} needs the space {space_from_json(saved)}, "
                f"got an environment with {space_from_json(described)}; use another environment or checkpoint"
            )
