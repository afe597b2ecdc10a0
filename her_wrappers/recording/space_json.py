"""Descriptions of spaces and environments as JSON, for the manifests of archives."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from her_wrappers.data import Json
from her_wrappers.data.arrays import JSON_ERRORS, reason_of
from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.goals.interface import AnyEnv, env_spec, spaces_of

SpaceJson: TypeAlias = dict[str, Any]

# Kinds of spaces without parts, and the attributes from which their constructors make an equal space.
ATTRIBUTES = {
    "Box": ("dtype", "shape", "low", "high"),
    "Discrete": ("dtype", "n", "start"),
    "MultiDiscrete": ("dtype", "nvec", "start"),
    "MultiBinary": ("n",),
}


def space_to_json(space: spaces.Space[Any]) -> SpaceJson:
    """Return a JSON description of a space, from which `space_from_json` makes an equal space.

    >>> space_to_json(spaces.Box(-np.inf, 1, (2,)))
    {'type': 'Box', 'dtype': 'float32', 'shape': [2], 'low': '-inf', 'high': 1.0}
    """
    leaf_spaces(space)  # raises TypeError
    described = _describe(space)
    try:
        is_same = _describe(space_from_json(json.loads(json.dumps(described, allow_nan=False)))) == described
    except (TypeError, ValueError):
        is_same = False
    if not is_same:  # such as float128 or >f4
        raise TypeError(f"the space {space} cannot be stored as JSON exactly; use dtypes such as float32")
    return described


def space_from_json(described: SpaceJson) -> spaces.Space[Any]:
    """Return the space that `space_to_json` described; raise ValueError for other JSON (a damaged file)."""
    try:
        return _make(described)
    # Gymnasium 1.1 raises AssertionError, NumPy SyntaxError for names of dtypes, NumPy 1 DeprecationWarning.
    except (*JSON_ERRORS, AssertionError, SyntaxError, DeprecationWarning) as error:
        raise ValueError(f"{str(described)[:200]} does not describe a space: {reason_of(error)}") from error


@dataclass(frozen=True)
class Source:
    """Description of an environment, for the manifest of an archive."""

    observation_space: SpaceJson  # of one environment
    action_space: SpaceJson
    env_id: str | None = None  # None if gymnasium.make did not make the environment
    env_class: str = ""  # class of the environment without wrappers, single or vectorized
    max_episode_steps: int | None = None  # of the spec of the environment
    kwargs: dict[str, Json] = field(default_factory=dict)  # arguments that JSON stores exactly
    kwargs_as_text: dict[str, str] = field(default_factory=dict)  # the repr of all other arguments

    @classmethod
    def of(cls, env: AnyEnv) -> Source:
        """Return the description of an environment, single or vectorized."""
        observation_space, action_space = map(space_to_json, spaces_of(env))
        spec = env_spec(env)
        given = {} if spec is None else dict(spec.kwargs)
        kwargs = {name: value for name, value in given.items() if _is_json(value)}
        return cls(
            observation_space,
            action_space,
            env_id=getattr(spec, "id", None),
            env_class=type(env.unwrapped).__qualname__,
            max_episode_steps=getattr(spec, "max_episode_steps", None),
            kwargs=kwargs,
            kwargs_as_text={name: repr(given[name]) for name in given.keys() - kwargs.keys()},
        )

    @property
    def spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """The spaces of observations and actions of one environment."""
        return space_from_json(self.observation_space), space_from_json(self.action_space)

    def require_same(self, folder: Path, other: Source) -> None:
        """Raise ValueError if ``other`` has another id or other spaces; ``folder`` is for the message."""
        spaces_of_both = zip(("observation_space", "action_space"), self.spaces, other.spaces, strict=True)
        for name, expected, got in (("env_id", self.env_id, other.env_id), *spaces_of_both):
            if expected != got:
                raise ValueError(
                    f"the archive {folder} has episodes with {name} {expected}, but env has {name} {got}; "
                    "choose another folder"
                )


def _is_json(value: Any) -> bool:
    """Return whether JSON keeps a value unchanged. Tuples, and dicts whose keys are numbers, change."""
    try:
        return repr(json.loads(json.dumps(value, allow_nan=False))) == repr(value)
    except (TypeError, ValueError, RecursionError):
        return False


def _describe(space: spaces.Space[Any]) -> SpaceJson:
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": [[key, _describe(part)] for key, part in space.items()]}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [_describe(part) for part in space]}
    kind = next((name for name in ATTRIBUTES if isinstance(space, getattr(spaces, name))), None)
    if kind is None:
        raise TypeError(f"the space {space} cannot be stored as JSON; use {', '.join(ATTRIBUTES)}")
    described: SpaceJson = {"type": kind}
    for name in ATTRIBUTES[kind]:
        values = np.asarray(getattr(space, name))
        if name in {"low", "high"}:  # equal bounds become one number, infinities become strings
            values = values if values.size else np.zeros(1, int)
            values = values.flat[:1].reshape(()) if (values == values.flat[0]).all() else values
            values = np.where(np.isinf(values), values.astype(str), values.astype(object))
        described[name] = str(space.dtype) if name == "dtype" else values.tolist()
    return described


def _make(described: SpaceJson) -> spaces.Space[Any]:
    kind = described["type"]
    if kind == "Dict":  # a plain dict would be sorted
        return spaces.Dict(OrderedDict((key, _make(part)) for key, part in described["spaces"]))
    if kind == "Tuple":
        return spaces.Tuple([_make(part) for part in described["spaces"]])
    values = {name: described[name] for name in ATTRIBUTES[kind]}
    if "dtype" in values:
        values["dtype"] = np.dtype(values["dtype"]).type
    if kind == "Box":
        values["shape"] = tuple(values["shape"])
        for name in ("low", "high"):
            bound = np.array(values[name], object).astype(values["dtype"])
            values[name] = np.broadcast_to(bound, values["shape"]).copy()
    if kind == "Discrete" and values["dtype"] is np.int64:
        del values["dtype"]  # Discrete has no argument dtype before Gymnasium 1.2
    space: spaces.Space[Any] = getattr(spaces, kind)(**values)
    return space
