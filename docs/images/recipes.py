"""Draw the trained policies of the recipes: MUJOCO_GL=egl python docs/images/recipes.py.

Each GIF shows episodes of `her watch --recipe NAME`, cut, with fewer colors. The
recipes' packages must be installed (`docs/recipes.md`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image, ImageSequence

from her_agents.recipes import read_recipe, recipe_names
from her_wrappers.cli import main as her

HERE = Path(__file__).parent
HEIGHT, COLORS = 200, 48
FETCH, SLIDE, PANDA = (110, 150, 370, 410), (110, 150, 480, 410), (190, 60, 500, 370)
HAND = (60, 110, 460, 410)
PARTS = {
    "fetch_pick_and_place": FETCH,
    "fetch_pick_and_place_demos": FETCH,
    "fetch_push": FETCH,
    "fetch_reach": FETCH,
    "fetch_slide": SLIDE,
    "hand_reach": HAND,
    "panda_pick_and_place": PANDA,
    "panda_push": PANDA,
    "parking": (0, 0, 600, 300),
}
"""Part of the pictures of each environment that is shown: left, top, right, bottom [pixels]."""

EPISODES = {"panda_pick_and_place": 8}  # they are short; 3 of the others


def main() -> None:
    """Write one GIF for each recipe that has a policy."""
    for name in recipe_names():
        if read_recipe(name).policy.exists():
            with tempfile.TemporaryDirectory() as folder:
                large = Path(folder) / "large.gif"
                her(
                    [
                        "watch",
                        "--recipe",
                        name,
                        "--record",
                        str(large),
                        "--episodes",
                        str(EPISODES.get(name, 3)),
                    ],
                    standalone_mode=False,
                )
                shrink(large, HERE / f"{name}.gif", PARTS[name])


def shrink(large: Path, small: Path, part: tuple[int, int, int, int]) -> None:
    """Write a part of every second picture of a GIF, `HEIGHT` pixels high, with the same `COLORS` colors."""
    left, top, right, bottom = part
    size = HEIGHT * (right - left) // (bottom - top), HEIGHT
    with Image.open(large) as movie:
        frames = [frame.convert("RGB").resize(size, box=part) for frame in ImageSequence.Iterator(movie)][::2]
        palette = frames[0].quantize(
            COLORS, Image.Quantize.FASTOCTREE
        )  # keeps the few red pixels of the goal
        pictures = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        first, *others = pictures
        first.save(small, save_all=True, append_images=others, duration=2 * movie.info["duration"], loop=0)


if __name__ == "__main__":
    main()
