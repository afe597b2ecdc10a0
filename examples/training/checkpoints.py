"""Checkpoints: plain dicts of tensors, numbers and texts, written whole or not at all, loaded as data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from examples.training.config import Config, make_config
from her_wrappers.files.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import spaces

FORMAT = "her-toolkit checkpoint 1"


def save_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint; a crash leaves the one that was there before."""
    with replacement(path) as file:
        torch.save({"format": FORMAT, **content}, file)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in the file is executed.

    Raises:
        ValueError: There is no such file, or it is no checkpoint.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint of examples.train, or it is damaged") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is no checkpoint of examples.train, or one of another version")
    return content


def config_of(checkpoint: Mapping[str, Any]) -> Config:
    """Return the config of the training that a checkpoint is of."""
    return make_config(checkpoint["config"])


def require_alike(path: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with a checkpoint under other options than those it was made with.

    Raises:
        ValueError: An option differs.
    """
    for name, value in given.items():
        if name != "steps" and saved[name] != value:
            raise ValueError(
                f"{path} is of a training with {name} {saved[name]!r}, got {value!r}; only steps may change"
            )


def require_spaces(path: Path, checkpoint: Mapping[str, Any], *found: spaces.Space[Any]) -> None:
    """Refuse an environment with other spaces than those that an agent was trained for.

    Raises:
        ValueError: They differ.
    """
    for saved, space in zip(checkpoint["spaces"], found, strict=True):
        if saved != str(space):
            raise ValueError(f"{path} is of an agent for {saved}, got an environment with {space}")


def spaces_of(*found: spaces.Space[Any]) -> list[str]:
    """Return what `require_spaces` compares with."""
    return [str(space) for space in found]
