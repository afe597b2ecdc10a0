"""Checkpoints and policy files, which are written atomically and loaded without executing code.

A checkpoint contains the whole agent. A policy file, with the suffix ``.policy``, contains only the network
that chooses actions, with weights in float16, and the statistics that normalize its inputs.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from gymnasium import spaces

from her_agents.algorithms.registry import make_agent
from her_agents.training.config import FILE_OPTIONS, make_config
from her_wrappers.data.arrays import ArrayFile, CorruptFileError, as_corrupt, write_arrays
from her_wrappers.data.atomic import open_regular, replacement
from her_wrappers.goals.action_masks import MASK
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.recording.space_json import SpaceJson, space_from_json, space_to_json
from her_wrappers.support.arguments import require_suffix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from her_agents.algorithms.base import Agent

FORMAT = "her-toolkit checkpoint 2"

POLICY_SUFFIX, POLICY_KIND, POLICY_VERSION = ".policy", "policy", 1


def save_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically; a crash does not damage an existing file."""
    data = io.BytesIO()
    # In memory first, since torch.save to a file on a full disk raises an error without a reason
    torch.save({"format": FORMAT, "folder": str(path.parent.absolute()), **content}, data)
    with replacement(path) as file:
        file.write(data.getbuffer())


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint, or a policy file (suffix ``.policy``). No code in the file is executed.

    If a Python file named in the config no longer exists, for example since the run is on another machine,
    the config of the result names another file instead: the file at the same path relative to the checkpoint
    or, if this file is missing too, the file of the same name in the current folder.
    """
    path = Path(path)
    try:
        content = _read_policy(path) if path.suffix == POLICY_SUFFIX else _read_torch(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    with as_corrupt(f"{path} is damaged"):
        for option in FILE_OPTIONS:
            origin, colon, name = str(content["config"].get(option)).rpartition(":")
            if origin.endswith(".py") and not Path(origin).exists():
                beside = path.parent / os.path.relpath(origin, content.get("folder", Path(origin).parent))
                for moved in (beside.resolve(), Path(origin).name):
                    if Path(moved).is_file():
                        content["config"][option] = f"{Path(moved).absolute()}{colon}{name}"
                        break
        if make_config(content["config"]).algo is None:  # a run has chosen it
            raise ValueError("'config' must have the option 'algo'")
        if len([space_from_json(each) for each in content["spaces"]]) != 2:
            raise ValueError(f"'spaces' must have 2 entries, got {len(content['spaces'])}")
    return content


def load_agent(
    path: str | os.PathLike[str], *, agent: type[Agent] | None = None, device: str = "cpu"
) -> Agent:
    """Load the agent of a checkpoint. The environment is not needed, and no code in the file is executed.

    Args:
        path: A checkpoint such as ``best.pt``; the folder of a run, from which ``best.pt`` is loaded; or a
            policy file written by `export_policy`.
        agent: Class of the agent. Required if the run used an agent of your own, since modules named in the
            file are never imported.
        device: Torch device of the agent, which may differ from the device of the run.

    Returns:
        The agent; its method `act` is a policy. An agent from a policy file cannot be trained further, since
        the file has neither critics nor optimizers.

    Raises:
        ValueError: The file cannot be read, is not a checkpoint, is damaged or is from another version; or
            ``agent`` is missing although the file contains an agent of your own.

    Example:
        ``load_agent("runs/PointReach-v0-sac-0").act(observation)``
    """
    file = best_checkpoint(path)
    checkpoint = load_checkpoint(file)
    algo = checkpoint["config"]["algo"]
    if agent is None and ":" in algo:
        raise ValueError(
            f"{file} contains an agent of your class {algo}, which is not imported automatically; import the "
            "class, and pass it: load_agent(path, agent=Class)"
        )
    return agent_of(checkpoint, file, agent=agent, device=device)


def best_checkpoint(path: str | os.PathLike[str]) -> Path:
    """Return the path of a checkpoint: ``best.pt`` in ``path`` if ``path`` is a folder, else ``path``."""
    return Path(path) / "best.pt" if Path(path).is_dir() else Path(path)


def agent_of(
    checkpoint: Mapping[str, Any], path: Path, *, agent: type[Agent] | None = None, device: str = "cpu"
) -> Agent:
    """Make the agent of a loaded checkpoint on ``device``; ``path`` is used in error messages only.

    If the class ``agent`` is None and the run used a user's class, this function imports the module that the
    checkpoint names. `load_agent` raises ValueError instead, since an import executes code.
    """
    with as_corrupt(f"{path} is damaged"):
        spaces_ = map(space_from_json, checkpoint["spaces"])
        loaded = make_agent(make_config(checkpoint["config"]), *spaces_, agent=agent, device=device)
        if "policy" in checkpoint:
            loaded.load_policy_state(checkpoint["policy"])
        else:
            loaded.load_state_dict(checkpoint["agent"])
    return loaded


def export_policy(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, agent: type[Agent] | None = None
) -> None:
    """Write the policy of a checkpoint to a small file, from which `load_agent` restores the policy.

    Args:
        path: A checkpoint, or the folder of a run, whose ``best.pt`` is used.
        out: The file to write; its name ends with ``.policy``. Weights are rounded to float16.
        agent: Class of the agent. Required if the run used an agent of your own.

    Raises:
        OSError: ``out`` cannot be written.
        ValueError: The checkpoint cannot be used, or ``out`` has another suffix.
    """
    require_suffix("out", out, [POLICY_SUFFIX])
    file = best_checkpoint(path)
    checkpoint = load_checkpoint(file)
    config = checkpoint["config"] | {"critic_keys": []}  # the policy does not need them
    observation_space, action_space = map(space_from_json, checkpoint["spaces"])
    spaces_ = describe_spaces(observation_space, action_space, config.get("use_keys", ()))
    state = load_agent(file, agent=agent).policy_state()
    arrays = {
        f"network/{name}": tensor.numpy().astype(np.float16) for name, tensor in state["network"].items()
    }
    normalizer = state["normalizer"]
    header = {"config": config, "spaces": spaces_, "count": normalizer["count"]}
    arrays["normalizer/sums"] = normalizer["sums"].numpy()
    write_arrays(out, arrays, header, kind=POLICY_KIND, version=POLICY_VERSION)


def _read_torch(path: Path) -> dict[str, Any]:
    """Return the content of a file that `save_checkpoint` wrote."""
    with open_regular(path) as file:
        try:
            if name := ZipFile(file).testzip():  # torch.load ignores the checksums
                raise BadZipFile(name)  # noqa: TRY301 - one message for all damage
            file.seek(0)
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            raise CorruptFileError(f"{path} is not a checkpoint of `her train`, or it is damaged") from error
    found = content.get("format") if isinstance(content, dict) else None
    if not isinstance(found, str) or found != FORMAT:
        raise CorruptFileError(
            f"{path} must be a checkpoint of `her train` with the format {FORMAT!r}, got "
            f"{'no format' if found is None else repr(str(found)[:50])}; "
            "pass a file such as best.pt, or use the version of her-toolkit that wrote the file"
        )
    return dict(content)


def _read_policy(path: Path) -> dict[str, Any]:
    """Return the content of a policy file, in the same format as a checkpoint."""
    with ArrayFile(path, kind=POLICY_KIND, version=POLICY_VERSION) as file:
        arrays = {name: torch.from_numpy(file.read(name)) for name in file.arrays}
        header = file.header
    with as_corrupt(f"{path} is damaged"):
        normalizer = {"count": header["count"], "sums": arrays.pop("normalizer/sums")}
        network = {name.removeprefix("network/"): tensor.float() for name, tensor in arrays.items()}
        policy = {"network": network, "normalizer": normalizer}
        return {"config": header["config"], "spaces": header["spaces"], "policy": policy}


def describe_spaces(
    observation_space: Any, action_space: spaces.Space[Any], keys: Sequence[str] = ()
) -> list[SpaceJson]:
    """Return the spaces as JSON data: the Dict of observation and goals, and the action space.

    ``keys`` are the further keys of the observation that the agent reads. A mask of Discrete actions is
    included if the observation has one.
    """
    has_mask = isinstance(action_space, spaces.Discrete) and MASK in observation_space.spaces
    names = (*OBSERVATION_KEYS, *keys, *[MASK] * has_mask)
    goal_space = spaces.Dict({key: observation_space[key] for key in names})
    return [space_to_json(goal_space), space_to_json(action_space)]


def require_spaces(
    path: Path, checkpoint: Mapping[str, Any], env_spaces: tuple[spaces.Dict, spaces.Space[Any]]
) -> None:
    """Raise ValueError if ``env_spaces``, observation and action space, do not fit the checkpoint's agent."""
    needed, needed_action = map(space_from_json, checkpoint["spaces"])
    known, critic_keys = env_spaces[0].spaces, checkpoint["config"].get("critic_keys", ())
    # Actions do not need the keys that only critics read.
    parts = {key: part for key, part in needed.items() if key in known or key not in critic_keys}  # type: ignore[attr-defined]
    found = {key: known[key] for key in parts if key in known}
    pairs = [(spaces.Dict(parts), spaces.Dict(found)), (needed_action, env_spaces[1])]
    for name, (saved, got) in zip(("observation", "action"), pairs, strict=True):
        if space_to_json(saved) != space_to_json(got):
            raise ValueError(
                f"the agent of {path} needs the {name} space {saved}, but the environment has {got}; use "
                "another environment or checkpoint"
            )
