"""Descriptions of spaces and environments as JSON, for the manifests of archives."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.goal_interface import env_spec
from her_wrappers.spaces import leaf_spaces
from her_wrappers.trees import path_name

if TYPE_CHECKING:
    from pathlib import Path

    from her_wrappers.files import Json
    from her_wrappers.goal_interface import AnyEnv

SpaceJson: TypeAlias = dict[str, Any]

MAX_BYTES = 2**23
"""Maximum size in bytes of an element of a space, since a short damaged description can have a huge shape."""

MAX_SOURCE = 2**22
"""Maximum size in bytes of the description of an environment as JSON."""

MAX_REPR = 1000
"""Maximum number of characters stored as text for an argument that JSON cannot store exactly."""

SPACE_ERRORS = (
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    RecursionError,
    AssertionError,  # of Gymnasium 1.1
    DeprecationWarning,  # of NumPy 1
)
"""Errors that NumPy and Gymnasium raise for arguments that do not make a space."""

INFINITIES = {"inf": math.inf, "-inf": -math.inf}

LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)


def space_to_json(space: spaces.Space[Any]) -> SpaceJson:
    """Return a JSON description of a space, from which `space_from_json` makes an equal space.

    Args:
        space: Box, Discrete, MultiBinary, MultiDiscrete, or a Dict or Tuple of these.

    Raises:
        TypeError: The space has a part of another type, or JSON cannot describe it exactly.

    Example:
        >>> space_to_json(spaces.Box(-np.inf, 1, (2,)))
        {'type': 'Box', 'dtype': 'float32', 'shape': [2], 'low': '-inf', 'high': 1.0}
    """
    leaves = leaf_spaces(space)
    for path, leaf in leaves.items():
        long = leaf.dtype is not None and leaf.dtype.itemsize > 8  # JSON has no long doubles
        if long or not isinstance(leaf, LEAVES) or not all(isinstance(key, str | int) for key in path):
            where = f" at {path_name(path)}" if path else ""
            raise TypeError(f"expected a space that JSON can describe, got {leaf}{where}")
    described = _describe(space)
    try:
        same = _describe(space_from_json(described)) == described
    except ValueError as error:
        raise TypeError(f"JSON cannot describe {space}: {error}") from error
    if not same:
        raise TypeError(f"JSON cannot describe {space} exactly")
    return described


def space_from_json(described: SpaceJson) -> spaces.Space[Any]:
    """Return the space of a description.

    Args:
        described: Description that `space_to_json` returned, or any other JSON, as a damaged file may have.

    Raises:
        ValueError: ``described`` is not the description of a space, or an element of the space takes more
            than `MAX_BYTES`.
    """
    try:
        size = _nbytes(described)
        if size > MAX_BYTES:
            raise ValueError(f"its elements take {size} bytes, at most {MAX_BYTES} are possible")
        return _make(described)
    except SPACE_ERRORS as error:
        reason = str(error)[:200]
        raise ValueError(f"{str(described)[:200]} does not describe a space: {reason}") from error


@dataclass(frozen=True)
class Source:
    """Description of an environment, for the manifest of an archive.

    Attributes:
        observation_space: Observation space of one environment, as described by `space_to_json`.
        action_space: Action space of one environment, as described by `space_to_json`.
        env_id: Id of the environment; None if ``gymnasium.make`` did not make it.
        env_class: Name of the environment's class, without wrappers; of a vector environment, its own class.
        max_episode_steps: Time limit of the environment's spec, or None.
        kwargs: Arguments of ``gymnasium.make`` that JSON can store exactly.
        kwargs_as_text: ``repr`` of the other arguments.
    """

    observation_space: SpaceJson
    action_space: SpaceJson
    env_id: str | None = None
    env_class: str = ""
    max_episode_steps: int | None = None
    kwargs: dict[str, Json] = field(default_factory=dict)
    kwargs_as_text: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, env: AnyEnv) -> Source:
        """Return the description of an environment, single or vectorized.

        Raises:
            TypeError: ``env`` is not an environment, or a space cannot be described as JSON.
            ValueError: The description is too long.
        """
        if isinstance(env, gym.vector.VectorEnv):
            spaces = env.single_observation_space, env.single_action_space
        elif isinstance(env, gym.Env):
            spaces = env.observation_space, env.action_space
        else:
            raise TypeError(f"expected a gymnasium Env or VectorEnv, got {type(env).__name__}")
        spec = env_spec(env)
        given = {} if spec is None else dict(spec.kwargs)
        kwargs = {name: value for name, value in given.items() if _is_json(value)}
        source = cls(
            space_to_json(spaces[0]),
            space_to_json(spaces[1]),
            env_id=None if spec is None else spec.id,
            env_class=type(env.unwrapped).__qualname__,
            max_episode_steps=None if spec is None else spec.max_episode_steps,
            kwargs=kwargs,
            kwargs_as_text={name: _as_text(given[name]) for name in given.keys() - kwargs.keys()},
        )
        size = len(json.dumps(asdict(source), allow_nan=False, separators=(",", ":")))
        if size > MAX_SOURCE:
            raise ValueError(
                f"spaces and arguments of env take {size} bytes as JSON, at most {MAX_SOURCE} are possible; "
                "open the archive without env"
            )
        return source

    def require_same(self, folder: Path, other: Source) -> None:
        """Raise ValueError if another environment has another id or other spaces than this one.

        Args:
            folder: Folder of the archive, for the message.
            other: Description of the other environment.

        Raises:
            ValueError: The environments differ.
        """
        for name in ("env_id", "observation_space", "action_space"):
            expected, got = getattr(self, name), getattr(other, name)
            if expected != got:
                if name != "env_id":
                    expected, got = space_from_json(expected), space_from_json(got)
                raise ValueError(
                    f"the archive {folder} has episodes with {name} {expected}, got {got}; "
                    "write to another folder"
                )


def _is_json(value: Any) -> bool:
    """Whether JSON stores a value exactly; it does not for tuples and for dicts whose keys are numbers."""
    try:
        back = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
    return repr(back) == repr(value)


def _as_text(value: Any) -> str:
    try:
        return repr(value)[:MAX_REPR]
    except Exception:  # an error of the value's own __repr__
        return f"<{type(value).__name__}>"


def _describe(space: spaces.Space[Any]) -> SpaceJson:
    kinds = (spaces.Dict, spaces.Tuple, *LEAVES)
    described: SpaceJson = {"type": next(kind.__name__ for kind in kinds if isinstance(space, kind))}
    if isinstance(space, spaces.Dict):
        described["spaces"] = [[key, _describe(part)] for key, part in space.items()]
    elif isinstance(space, spaces.Tuple):
        described["spaces"] = [_describe(part) for part in space]
    elif isinstance(space, spaces.Box):
        described |= {"dtype": str(space.dtype), "shape": list(space.shape)}
        described |= {"low": _as_bound(space.low), "high": _as_bound(space.high)}
    elif isinstance(space, spaces.Discrete):
        described |= {"dtype": str(space.dtype), "n": int(space.n), "start": int(space.start)}
    elif isinstance(space, spaces.MultiDiscrete):
        described |= {"dtype": str(space.dtype), "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    elif isinstance(space, spaces.MultiBinary):
        described["n"] = space.n if isinstance(space.n, int) else list(map(int, space.n))
    return described


def _make(described: SpaceJson) -> spaces.Space[Any]:
    kind = described["type"]
    if kind == "Dict":
        return spaces.Dict(OrderedDict((key, _make(part)) for key, part in described["spaces"]))
    if kind == "Tuple":
        return spaces.Tuple([_make(part) for part in described["spaces"]])
    if kind == "Box":
        return _make_box(described)
    if kind == "Discrete":
        # Discrete has no argument dtype before Gymnasium 1.2, and int64 is its only dtype there.
        other = {} if described["dtype"] == "int64" else {"dtype": described["dtype"]}
        return spaces.Discrete(described["n"], start=described["start"], **other)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(
            described["nvec"], dtype=np.dtype(described["dtype"]).type, start=described["start"]
        )
    if kind == "MultiBinary":
        return spaces.MultiBinary(described["n"])
    raise ValueError(
        f"its type must be Dict, Tuple, Box, Discrete, MultiDiscrete or MultiBinary, got {kind!r}"
    )


def _make_box(described: SpaceJson) -> spaces.Box:
    dtype, shape = np.dtype(described["dtype"]), tuple(described["shape"])
    low, high = (
        np.broadcast_to(_from_bound(described[name], dtype), shape).copy() for name in ("low", "high")
    )
    return spaces.Box(low, high, shape, dtype.type)


def _as_bound(values: np.ndarray) -> Any:
    """Return a bound of a Box as JSON: one number if all are equal, else lists; infinities as strings."""
    if values.size == 0:
        return 0
    distinct = np.unique(values)
    return _with_strings(distinct[0].item() if distinct.size == 1 else values.tolist())


def _with_strings(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_strings(part) for part in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _from_bound(bound: Any, dtype: np.dtype[Any]) -> np.ndarray:
    numbers = _with_infinities(bound)
    with np.errstate(all="ignore"):  # the comparison finds numbers that do not fit
        array = np.array(numbers, dtype)
    if array.tolist() != numbers:
        raise ValueError(f"its bounds must be numbers of dtype {dtype}")
    return array


def _with_infinities(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_infinities(part) for part in value]
    return INFINITIES[value] if isinstance(value, str) else value


def _nbytes(described: SpaceJson) -> int:
    """Return the size in bytes of an element of a space; 0 for kinds whose JSON is as long as an element."""
    kind = described["type"]
    if kind == "Dict":
        return sum(_nbytes(part) for _, part in described["spaces"])
    if kind == "Tuple":
        return sum(map(_nbytes, described["spaces"]))
    if kind == "Box":
        return math.prod(described["shape"]) * np.dtype(described["dtype"]).itemsize
    if kind == "MultiBinary":
        return math.prod(np.atleast_1d(described["n"]).tolist())
    return 0
