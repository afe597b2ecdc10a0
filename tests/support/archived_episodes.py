"""Episodes of nested spaces for archives, and their exact comparison."""

import json
import zlib

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers import Episode
from tests.support import equality
from tests.support.counting import numbered

NESTED = spaces.Dict({
    "image": spaces.Box(0, 255, (2, 2, 3), np.uint8),
    "joints": spaces.Tuple([spaces.Box(-np.inf, np.inf, (), np.float64), spaces.MultiDiscrete([3, 4])]),
    "a/b": spaces.Discrete(5, start=-2),
    "empty": spaces.Dict(),
})


class Nested(gym.Env):
    """An environment that has only spaces, of many types."""

    observation_space = NESTED
    action_space = spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)])


def random_episode(length, seed=0, env=Nested, **changes):
    """Return an episode in the spaces of an environment, with random rewards, flags and infos."""
    rng = np.random.default_rng((length, seed))
    parts = {
        "observations": numbered(env.observation_space, 40 * seed + length, np.arange(length + 1)),
        "actions": numbered(env.action_space, 40 * seed + length, np.arange(length)),
        "rewards": rng.random(length),
        "terminated": bool(rng.integers(2)),
        "truncated": bool(rng.integers(2)),
        "infos": {"is_success": rng.random(length) < 0.5, "place/x": rng.random((length, 2))},
        "reset_info": {"start": rng.random(2)} if rng.integers(2) else {},
    }
    return Episode(**parts | changes)


def assert_same_episodes(some, others):
    """Assert that two sequences of episodes are bit-identical, with their reset infos."""
    some, others = tuple(some), tuple(others)
    equality.assert_same_episodes(some, others)
    for one, other in zip(some, others, strict=True):
        equality.assert_same_tree(one.reset_info, other.reset_info)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def forge_manifest(folder, change):
    """Change the JSON of the manifest in a folder by ``change``, and write it with a correct checksum."""
    content = json.loads((folder / "manifest.json").read_text())
    del content["crc32"]
    change(content)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["crc32"] = zlib.crc32(canonical.encode())
    (folder / "manifest.json").write_text(json.dumps(content))
