"""Twins: further environments like the one under test, and what a comparison with one of them shows.

A twin comes from the user's factory, else from the environment's spec, else from a deep copy. Where all
three fail, the rules that need one are reported as not exercised.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym

from her_wrappers.checker.values import first_difference, owns_resources
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from her_wrappers.checker.tape import Start, Step, Tape

AnyEnv: TypeAlias = Any
"""A gymnasium Env or VectorEnv: the calls made here are common to both."""

Factory: TypeAlias = Callable[[], AnyEnv]


class TwinMaker:
    """Makes twins, and closes them in the end.

    Args:
        factory: Makes one, or None where there is no way.
    """

    def __init__(self, factory: Factory | None) -> None:
        self._made: list[AnyEnv] = []
        self._factory = factory

    @classmethod
    def of(cls, env: AnyEnv, factory: Factory | None) -> TwinMaker:
        """Find a way to make twins.

        Args:
            env: The environment under test, before its first reset.
            factory: What made it, if the user gave that.
        """
        return cls(_checked(factory, env) or _checked(_from_spec(env), env) or _from_copy(env))

    def make(self) -> AnyEnv | None:
        """Make a twin, or return None where there is no way."""
        if self._factory is None:
            return None
        twin = self._factory()
        self._made.append(twin)
        return twin

    def close(self) -> None:
        """Close all twins made."""
        while self._made:
            close_safely(self._made.pop())


def close_safely(env: AnyEnv) -> None:
    """Close an environment; what its ``close`` raises is no reason to lose a report."""
    with contextlib.suppress(Exception):
        env.close()


def _checked(factory: Factory | None, env: AnyEnv) -> Factory | None:
    """Return ``factory`` if it makes new environments with the same layers as ``env``."""
    if factory is None:
        return None
    try:
        twin = factory()
    except Exception:
        return None
    if twin is env:
        return None
    alike = [type(layer) for layer in layers(twin)] == [type(layer) for layer in layers(env)]
    close_safely(twin)
    return factory if alike else None


def _from_spec(env: AnyEnv) -> Factory | None:
    try:
        spec = copy.deepcopy(env.spec)
    except Exception:
        return None
    if spec is None:
        return None
    spec.kwargs.pop("render_mode", None)

    def make() -> AnyEnv:
        if isinstance(env, gym.vector.VectorEnv):
            return gym.make_vec(copy.deepcopy(spec))
        twin = gym.make(copy.deepcopy(spec), disable_env_checker=True)
        return twin if isinstance(env, gym.Wrapper) else twin.unwrapped

    return make


def _from_copy(env: AnyEnv) -> Factory | None:
    """Return a way by deep copies, unless a copy would share a process or a simulator with the original."""
    singles = env.unwrapped.envs if isinstance(env.unwrapped, gym.vector.SyncVectorEnv) else [env]
    if any(owns_resources(single) for single in singles):
        return None
    try:
        pristine = copy.deepcopy(env)
    except Exception:
        return None
    return lambda: copy.deepcopy(pristine)


def layers(env: AnyEnv) -> list[AnyEnv]:
    """Return the wrappers from the outermost to the environment itself, without Gymnasium's own checker."""
    stack = [env]
    while isinstance(stack[-1], gym.Wrapper | gym.vector.VectorWrapper):
        stack.append(stack[-1].env)
    return [layer for layer in stack if not isinstance(layer, gym.wrappers.PassiveEnvChecker)]


@dataclass(frozen=True)
class Divergence:
    """The first place where an environment and its twin came apart."""

    place: str
    at_reset: bool
    part: str  # of what was returned
    here: Any
    there: Any


def replay(tape: Tape, twin: AnyEnv, steps: int, meddle: Callable[[Step], None]) -> Divergence | None:
    """Repeat the beginning of a tape on a twin and return the first Divergence, or None.

    Args:
        tape: What the environment under test returned.
        twin: Another like it.
        steps: How many steps to repeat.
        meddle: Called before each step, to see whether it has an effect.

    Raises:
        Exception: Whatever the twin raises.
    """
    starts = iter(tape.starts)
    episode = -1
    for step in tape.steps[:steps]:
        while episode < step.episode:  # a reset may follow on another without a step between
            start = next(starts)
            episode = start.episode
            found = compare_start(start, twin)
            if found:
                return found
        meddle(step)
        found = _compare_step(step, twin)
        if found:
            return found
    return None


def compare_start(start: Start, twin: AnyEnv) -> Divergence | None:
    """Repeat a reset and return where it differs, or None."""
    observation, _ = twin.reset(seed=start.seed, options=copy_tree(start.options))
    return _diverges(start.place, at_reset=True, here=start.observation, there=copy_tree(observation))


def _compare_step(step: Step, twin: AnyEnv) -> Divergence | None:
    observation, reward, terminated, truncated, _ = twin.step(copy_tree(step.action))
    here = (
        step.observation,
        {"reward": step.reward, "terminated": step.terminated, "truncated": step.truncated},
    )
    there = (observation, {"reward": reward, "terminated": terminated, "truncated": truncated})
    for own, other in zip(here, there, strict=True):
        found = _diverges(step.place, at_reset=False, here=own, there=copy_tree(other))
        if found:
            return found
    return None


def _diverges(place: str, *, at_reset: bool, here: Any, there: Any) -> Divergence | None:
    found = first_difference(here, there)
    return Divergence(place, at_reset, *found) if found else None
