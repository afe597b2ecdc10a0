"""Draw the pictures of the documentation: python -m docs.images.make.

The pictures show the bundled tasks, and a relabeled episode, which is the output of

    python -m examples.show_relabeling --seed 200 --size 480 --out docs/images/relabeling.gif
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio.v3 as imageio
import numpy as np

import her_envs
from examples import show_relabeling

gym.register_envs(her_envs)

# id, options, seed, steps
PICTURES: list[tuple[str, dict[str, Any], int, int]] = [
    ("BitFlipping", {}, 1, 4),
    ("PointReach", {}, 3, 30),
    ("PointMaze", {"layout": "four_rooms"}, 118, 60),
    ("PointPush", {}, 9, 20),
    ("Counting", {}, 1, 3),
]

HERE = Path(__file__).parent


def towards(observation: dict[str, Any], noise: np.ndarray) -> np.ndarray:
    """Return a noisy action towards the goal, or towards the puck if there is one."""
    place = observation["observation"]
    there = observation["desired_goal"] if len(place) == 2 else place[2:]
    return np.clip(2 * (there - place[:2]) / np.abs(there - place[:2]).max() + noise, -1, 1)


def main() -> None:
    """Write one small PNG per task, and the GIF of the README."""
    for name, options, seed, steps in PICTURES:
        env = gym.make(f"her_envs/{name}-v0", render_mode="rgb_array", render_size=240, **options)
        env.action_space.seed(seed)
        rng = np.random.default_rng(seed)
        observation, _ = env.reset(seed=seed)
        for _ in range(steps):
            points = isinstance(env.action_space, gym.spaces.Box)
            action = towards(observation, rng.normal(size=2)) if points else env.action_space.sample()
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break
        imageio.imwrite(HERE / f"{name}.png", env.render(), optimize=True)
    show_relabeling.main(seed=200, size=480, out=HERE / "relabeling.gif")


if __name__ == "__main__":
    main()
