"""Replicas: other environments of the same kind as the one under test."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import gymnasium as gym

from her_wrappers.checker.comparing import owns_resources
from her_wrappers.goals.interface import env_spec

# A gymnasium Env or VectorEnv. The alias is Any, since the classes annotate the same methods differently.
CheckedEnv: TypeAlias = Any
Factory: TypeAlias = Callable[[], CheckedEnv]


class Replicas:
    """Makes replicas of an environment, and closes them when the ``with`` block ends.

    They are made by the user's factory, else from the spec of ``env``, else by deep copies of ``env``, which
    must be unused. The factory or the spec is not used before the end of the run, since a second connection
    to a robot can end the first connection.
    """

    def __init__(self, env: CheckedEnv, factory: Factory | None) -> None:
        self._made: list[CheckedEnv] = []
        self._env, self._given = env, factory
        self._copy = _from_copy(env) if factory is None else None

    @cached_property
    def _factory(self) -> Factory | None:
        """The user's factory, or else one based on the environment's spec; None if neither can be used."""
        return _valid_factory(self._given, self._env) or _valid_factory(_from_spec(self._env), self._env)

    @property
    def are_copies(self) -> bool:
        """Whether the replicas are deep copies, which may share a simulator with the environment."""
        return self._factory is None

    @property
    def can_be_made(self) -> bool:
        """Whether there is a way to make replicas."""
        return (self._factory or self._copy) is not None

    def make(self) -> CheckedEnv:
        """Return a new replica; call this only if replicas `can_be_made`."""
        make = self._factory or self._copy
        self._made.append(make() if make else None)
        return self._made[-1]

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        while self._made and not self.are_copies:  # a copy may hold the connection of the original
            close_safely(self._made.pop())


def close_safely(env: CheckedEnv) -> None:
    """Close an environment and ignore exceptions, so that the report is not lost."""
    with contextlib.suppress(Exception):
        env.close()


def layers(env: CheckedEnv) -> list[CheckedEnv]:
    """Return all wrappers except PassiveEnvChecker, outermost first, and then the innermost environment."""
    stack = [env]
    while isinstance(stack[-1], gym.Wrapper | gym.vector.VectorWrapper):
        stack.append(stack[-1].env)
    return [layer for layer in stack if not isinstance(layer, gym.wrappers.PassiveEnvChecker)]


def _valid_factory(factory: Factory | None, env: CheckedEnv) -> Factory | None:
    """Return ``factory`` if it returns new environments with the same wrappers as ``env``, else None."""
    try:
        replica = factory() if factory else env
    except Exception:
        return None
    if replica is env:
        return None
    # Types are compared by name, since a factory may define its classes in each call.
    names = [[str(type(layer)) for layer in layers(each)] for each in (replica, env)]
    close_safely(replica)
    return factory if names[0] == names[1] else None


def _from_spec(env: CheckedEnv) -> Factory | None:
    """Return a function that makes environments from ``env.spec``, without render_mode; None without spec."""
    try:
        spec = copy.deepcopy(env_spec(env))
    except Exception:
        return None
    if spec is None:
        return None
    spec.kwargs.pop("render_mode", None)
    is_vector, is_wrapped = isinstance(env, gym.vector.VectorEnv), isinstance(env, gym.Wrapper)

    def make() -> CheckedEnv:
        if is_vector:
            return gym.make_vec(copy.deepcopy(spec))
        replica = gym.make(copy.deepcopy(spec), disable_env_checker=True)
        return replica if is_wrapped else replica.unwrapped

    return make


def _from_copy(env: CheckedEnv) -> Factory | None:
    """Return a function that makes deep copies; None if ``env`` cannot be copied or owns resources."""
    singles = env.unwrapped.envs if isinstance(env.unwrapped, gym.vector.SyncVectorEnv) else [env]
    if any(map(owns_resources, singles)):
        return None
    try:
        pristine = copy.deepcopy(env)
    except Exception:
        return None
    return lambda: copy.deepcopy(pristine)
