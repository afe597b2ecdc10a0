"""Draw the trained policies of the recipes: MUJOCO_GL=egl python docs/images/recipes.py.

Each GIF shows episodes of `her watch --recipe NAME` at the speed of the environment, 480 pixels wide. The
recipes' packages must be installed (`docs/recipes.md`).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageSequence

from her_agents.recipes import read_recipe, recipe_names
from her_wrappers.cli import main as her

HERE = Path(__file__).parent
WIDTH, COLORS = 480, 48

EPISODES = {"panda_pick_and_place": 5, "panda_push": 5}  # they are short; 2 of the others


def main(names: list[str]) -> None:
    """Write one GIF for each recipe that has a policy, or for those named."""
    for name in names or recipe_names():
        if read_recipe(name).policy.exists():
            with tempfile.TemporaryDirectory() as folder:
                large = Path(folder) / "large.gif"
                episodes = str(EPISODES.get(name, 2))
                her(["watch", "--recipe", name, "--record", str(large), "--episodes", episodes])
                shrink(large, HERE / f"{name}.gif")


def shrink(large: Path, small: Path) -> None:
    """Write the pictures of a GIF `WIDTH` pixels wide, with the same `COLORS` colors."""
    with Image.open(large) as movie:
        size = WIDTH, movie.height * WIDTH // movie.width
        frames = [frame.convert("RGB").resize(size) for frame in ImageSequence.Iterator(movie)]
        duration = movie.info["duration"]
    # This method keeps the few red pixels of the goal.
    palette = frames[0].quantize(COLORS, Image.Quantize.FASTOCTREE)
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first.save(small, save_all=True, append_images=others, duration=duration, loop=0, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
