"""Draw the trained policies of the recipes: MUJOCO_GL=egl python docs/images/recipes.py.

Each GIF shows three episodes of `her watch --recipe NAME`, cut, with fewer colors. The
recipes' packages must be installed (`docs/recipes.md`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image, ImageSequence

from her_agents.recipes import read_recipe, recipe_names
from her_wrappers.cli import app

HERE = Path(__file__).parent
SIZE, COLORS, EPISODES = 200, 48, 3
MIDDLE = (110, 150, 370, 410)
"""Part of the 480 x 480 pictures of the Fetch environments that is shown: left, top, right, bottom."""


def main() -> None:
    """Write one GIF for each recipe that has a policy."""
    for name in recipe_names():
        if read_recipe(name).policy.exists():
            with tempfile.TemporaryDirectory() as folder:
                large = Path(folder) / "large.gif"
                app(
                    ["watch", "--recipe", name, "--record", str(large), "--episodes", str(EPISODES)],
                    standalone_mode=False,
                )
                shrink(large, HERE / f"{name}.gif")


def shrink(large: Path, small: Path) -> None:
    """Write every second picture of a GIF, with `SIZE` pixels and the same `COLORS` colors."""
    with Image.open(large) as movie:
        frames = [
            frame.convert("RGB").resize((SIZE, SIZE), box=MIDDLE) for frame in ImageSequence.Iterator(movie)
        ][::2]
        palette = frames[0].quantize(
            COLORS, Image.Quantize.FASTOCTREE
        )  # keeps the few red pixels of the goal
        pictures = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        first, *others = pictures
        first.save(small, save_all=True, append_images=others, duration=2 * movie.info["duration"], loop=0)


if __name__ == "__main__":
    main()
