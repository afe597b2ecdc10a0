"""Replicas: other environments of the same kind as the one under test, and replays on them.

A replica is made by the user's factory, else from the environment's spec, else by a deep copy. If all three
fail, the rules that need a replica are reported as not exercised.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym

from her_wrappers.checker.values import first_difference, owns_resources
from her_wrappers.goal_interface import env_spec
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from her_wrappers.checker.rollout import ResetRecord, Rollout, StepRecord

AnyEnv: TypeAlias = Any
"""A gymnasium Env or VectorEnv; this module uses only methods that both have."""

Factory: TypeAlias = Callable[[], AnyEnv]


class EnvReplicator:
    """Makes replicas and closes them.

    Args:
        factory: Returns a new replica; None if replicas cannot be made.
    """

    def __init__(self, factory: Factory | None) -> None:
        self._made: list[AnyEnv] = []
        self._factory = factory

    @classmethod
    def of(cls, env: AnyEnv, factory: Factory | None) -> EnvReplicator:
        """Return a replicator that makes environments like ``env``.

        Args:
            env: Environment under test, before its first reset.
            factory: Function of the user that made ``env``, or None.
        """
        return cls(_valid_factory(factory, env) or _valid_factory(_from_spec(env), env) or _from_copy(env))

    def make(self) -> AnyEnv | None:
        """Return a new replica, or None if replicas cannot be made."""
        if self._factory is None:
            return None
        replica = self._factory()
        self._made.append(replica)
        return replica

    def close(self) -> None:
        """Close all replicas."""
        while self._made:
            close_safely(self._made.pop())


def close_safely(env: AnyEnv) -> None:
    """Close an environment and ignore exceptions, so that the report is not lost."""
    with contextlib.suppress(Exception):
        env.close()


def _valid_factory(factory: Factory | None, env: AnyEnv) -> Factory | None:
    """Return ``factory`` if it returns new environments with the same wrappers as ``env``, else None."""
    if factory is None:
        return None
    try:
        replica = factory()
    except Exception:
        return None
    if replica is env:
        return None
    has_same_layers = [type(layer) for layer in layers(replica)] == [type(layer) for layer in layers(env)]
    close_safely(replica)
    return factory if has_same_layers else None


def _from_spec(env: AnyEnv) -> Factory | None:
    try:
        spec = copy.deepcopy(env_spec(env))
    except Exception:
        return None
    if spec is None:
        return None
    spec.kwargs.pop("render_mode", None)

    def make() -> AnyEnv:
        if isinstance(env, gym.vector.VectorEnv):
            return gym.make_vec(copy.deepcopy(spec))
        replica = gym.make(copy.deepcopy(spec), disable_env_checker=True)
        return replica if isinstance(env, gym.Wrapper) else replica.unwrapped

    return make


def _from_copy(env: AnyEnv) -> Factory | None:
    """Return a function that makes deep copies, or None if copies would share resources with ``env``."""
    singles = env.unwrapped.envs if isinstance(env.unwrapped, gym.vector.SyncVectorEnv) else [env]
    if any(owns_resources(single) for single in singles):
        return None
    try:
        pristine = copy.deepcopy(env)
    except Exception:
        return None
    return lambda: copy.deepcopy(pristine)


def layers(env: AnyEnv) -> list[AnyEnv]:
    """Return the wrappers, the outermost first, and the environment; without PassiveEnvChecker."""
    stack = [env]
    while isinstance(stack[-1], gym.Wrapper | gym.vector.VectorWrapper):
        stack.append(stack[-1].env)
    return [layer for layer in stack if not isinstance(layer, gym.wrappers.PassiveEnvChecker)]


@dataclass(frozen=True)
class Divergence:
    """The first difference between a rollout and its repetition.

    Attributes:
        place: Episode and step, or the options of a reset.
        at_reset: Whether the difference is in a reset.
        path: Path of the value that differs, such as ``"desired_goal[0]"``.
        original: Value in the rollout.
        repeated: Value in the repetition.
    """

    place: str
    at_reset: bool
    path: str
    original: Any
    repeated: Any


def replay(
    rollout: Rollout, replica: AnyEnv, steps: int, before_step: Callable[[StepRecord], None]
) -> Divergence | None:
    """Repeat the beginning of a rollout on a replica, and return the first difference, or None.

    Observations, rewards, terminations and truncations are compared; infos are not.

    Args:
        rollout: Rollout of the environment under test.
        replica: The replica.
        steps: Number of steps to repeat.
        before_step: Function that is called before each step, to detect an effect on the step.
    """
    resets = iter(rollout.resets)
    episode = -1
    for step in rollout.steps[:steps]:
        while episode < step.episode:  # two resets may follow each other without a step between them
            record = next(resets)
            episode = record.episode
            found = compare_reset(record, replica)
            if found:
                return found
        before_step(step)
        found = _compare_step(step, replica)
        if found:
            return found
    return None


def compare_reset(record: ResetRecord, replica: AnyEnv) -> Divergence | None:
    """Repeat a reset, and return the first difference of the observations, or None.

    Args:
        record: Record of the reset.
        replica: Environment to reset with the same seed and options.
    """
    observation, _ = replica.reset(seed=record.seed, options=copy_tree(record.options))
    return divergence_of(
        record.place, at_reset=True, original=record.observation, repeated=copy_tree(observation)
    )


def _compare_step(step: StepRecord, replica: AnyEnv) -> Divergence | None:
    observation, reward, terminated, truncated, _ = replica.step(copy_tree(step.action))
    flags = {"reward": step.reward, "terminated": step.terminated, "truncated": step.truncated}
    repeated_flags = {"reward": reward, "terminated": terminated, "truncated": truncated}
    for original, repeated in ((step.observation, observation), (flags, repeated_flags)):
        found = divergence_of(step.place, at_reset=False, original=original, repeated=copy_tree(repeated))
        if found:
            return found
    return None


def divergence_of(place: str, *, at_reset: bool, original: Any, repeated: Any) -> Divergence | None:
    """Return the first difference between two trees, or None.

    Args:
        place: Episode and step, or the options of a reset.
        at_reset: Whether the trees are from resets.
        original: Tree of the rollout.
        repeated: Tree of the repetition.
    """
    found = first_difference(original, repeated)
    return Divergence(place, at_reset, *found) if found else None
