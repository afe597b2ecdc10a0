"""Bytes per transition of our buffer and of Stable-Baselines3's."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from gymnasium import spaces

from benchmarks.replay_task import (
    ACTION,
    ACTION_SPACE,
    HORIZON,
    OBSERVATION_SPACE,
    make_episodes,
    never_reached,
)
from her_wrappers import Episode, HindsightReplayBuffer

TRANSITIONS = 10_000
IMAGE_SPACE = spaces.Dict({
    key: spaces.Box(0, 255, (36, 36), np.uint8) for key in ("observation", "achieved_goal", "desired_goal")
})

VECTORS = "25/3/4 floats"
IMAGES = "36x36 uint8 images in all three keys"
SAME_IMAGES = "the same, achieved goal = observation"


def bytes_per_transition() -> dict[str, tuple[float, float | None]]:
    """Return our bytes and those of Stable-Baselines3 (None if not installed), for each kind of episode."""
    rng = np.random.default_rng(0)
    classes: dict[str, tuple[spaces.Dict, Callable[[], Episode]]] = {
        VECTORS: (OBSERVATION_SPACE, lambda: make_episodes(1)[0]),
        IMAGES: (IMAGE_SPACE, lambda: _image_episode(rng, goal_is_observation=False)),
        SAME_IMAGES: (IMAGE_SPACE, lambda: _image_episode(rng, goal_is_observation=True)),
    }
    return {kind: (_ours(space, make), _theirs(space)) for kind, (space, make) in classes.items()}


def _image_episode(rng: np.random.Generator, *, goal_is_observation: bool) -> Episode:
    pictures, others, goals = rng.integers(256, size=(3, HORIZON + 1, 36, 36), dtype=np.uint8)
    goals[:] = goals[0]
    achieved = pictures if goal_is_observation else others
    return Episode(
        {"observation": pictures, "achieved_goal": achieved, "desired_goal": goals},
        np.zeros((HORIZON, ACTION), np.float32),
        np.full(HORIZON, -1.0),
        terminated=False,
        truncated=True,
    )


def _ours(space: spaces.Dict, make: Callable[[], Episode]) -> float:
    """Return the bytes per transition of a full buffer."""
    buffer = HindsightReplayBuffer(space, ACTION_SPACE, buffer_size=TRANSITIONS, compute_reward=never_reached)
    while len(buffer) < TRANSITIONS:
        buffer.add_episode(make())
    return buffer.nbytes / len(buffer)


def _theirs(space: spaces.Dict) -> float | None:
    if find_spec("stable_baselines3") is None:
        return None
    from benchmarks.replay_buffers.sb3 import array_bytes  # noqa: PLC0415 - an optional dependency

    return array_bytes(TRANSITIONS, space) / TRANSITIONS
