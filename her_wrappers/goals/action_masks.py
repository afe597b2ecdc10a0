"""Masks of valid Discrete actions: find them in observations and infos, and add them to observations."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.goals.interface import find_function

MASK = "action_mask"  # key of the observation from which agents read the mask

MASKS = (MASK, "action_masks", "mask")
"""Usual names of the mask of valid actions, as keys of the observation or the info."""


def find_masks(env: Any, observation: Any, info: Any, names: Sequence[str] = MASKS) -> list[np.ndarray]:
    """Return the masks, vectors of 0 and 1, in observation, info and the method ``action_masks``."""
    space, found = env.action_space, []
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return []
    trees = [tree for tree in (observation, info) if isinstance(tree, dict)]
    masks = [tree[name] for tree in trees for name in names if name in tree]
    with contextlib.suppress(ValueError):  # the attribute lookup of a wrapper raised
        masks += [method()] if callable(method := find_function(env, "action_masks")) else []
    size = space.n if isinstance(space, spaces.Discrete) else space.nvec.sum()
    for mask in masks:
        with contextlib.suppress(TypeError, ValueError):  # the value is not a mask
            flags = np.concatenate([np.ravel(part) for part in mask])
            if flags.size == size and np.isin(flags, (0, 1)).all():
                found.append(flags)
    return found


def valid_action(action: Any, env: Any, observation: Any, info: Any, rng: np.random.Generator) -> Any:
    """Return ``action`` or, if a mask of valid actions excludes it, a random valid action."""
    for flags in find_masks(env, observation, info):
        space = env.action_space
        sizes, start = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec), space.start
        valid = [np.flatnonzero(part) for part in np.split(flags, np.cumsum(sizes)[:-1])]
        parts = zip(np.ravel(np.asarray(action) - start), valid, strict=True)
        chosen = [i if i in few or not few.size else rng.choice(few) for i, few in parts]
        action = np.reshape(chosen, np.shape(action)).astype(space.dtype)[()] + start
    return action


class ActionMaskObservation(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the mask of valid actions, from the infos or the method ``action_masks``, to the observations."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._all = np.ones(env.action_space.n, np.int8)  # type: ignore[attr-defined]
        self.observation_space = spaces.Dict({
            **env.observation_space.spaces,  # type: ignore[attr-defined]
            MASK: spaces.MultiBinary(self._all.size),
        })

    def _add(self, observation: Any, info: Any) -> Any:
        masks = find_masks(self.env, {}, info, [MASK])
        return observation | {MASK: masks[0].astype(np.int8) if masks else self._all.copy()}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset the environment, and add the mask to the observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._add(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment, and add the mask to the observation."""
        observation, *rest, info = self.env.step(action)
        return self._add(observation, info), *rest, info


def with_action_mask(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return ``env`` with the mask in its observations, or ``env`` itself if a reset gives no new mask."""
    space = env.observation_space
    if not isinstance(env.action_space, spaces.Discrete) or not isinstance(space, spaces.Dict):
        return env
    if MASK in space.spaces or not find_masks(env, *env.reset(), [MASK]):
        return env
    return ActionMaskObservation(env)
