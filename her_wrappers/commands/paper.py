"""Paper: pages of text, bars and pictures, as PNG or GIF. The only module that imports pillow."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from her_envs.canvas import BACKGROUND, INK

Color = tuple[int, int, int]

GRAY: Color = (110, 110, 108)


class Paper:
    """A page with one unit of length for all positions and sizes.

    Args:
        width: Width of the page.
        height: Height of the page.
        scale: Pixels per unit of length.

    Attributes:
        image: The page as a pillow image.
    """

    def __init__(self, width: float, height: float, scale: float) -> None:
        self._scale = scale
        self.image = Image.new("RGB", (self._px(width), self._px(height)), BACKGROUND)
        self._draw = ImageDraw.Draw(self.image)

    def text(
        self, text: str, at: tuple[float, float], size: float, color: Color = INK, *, right: bool = False
    ) -> None:
        """Write a line of text.

        Args:
            text: The text.
            at: Upper left corner of the line, or upper right corner if ``right``.
            size: Size of the font.
            color: Color of the letters.
            right: Whether the line is aligned to the right.
        """
        font = ImageFont.load_default(size * self._scale)
        place = tuple(part * self._scale for part in at)
        self._draw.text((place[0], place[1]), text, color, font, "ra" if right else "la")

    def box(self, at: tuple[float, float], width: float, height: float, color: Color) -> None:
        """Fill a rectangle.

        Args:
            at: Upper left corner.
            width: Width of the rectangle.
            height: Height of the rectangle.
            color: Color of the rectangle.
        """
        left, top = (self._px(part) for part in at)
        right, bottom = self._px(at[0] + width) - 1, self._px(at[1] + height) - 1
        if left <= right and top <= bottom:
            self._draw.rectangle((left, top, right, bottom), color)

    def picture(self, pixels: np.ndarray, at: tuple[float, float]) -> None:
        """Draw a picture, (H, W, 3) uint8, with its upper left corner at ``at``, without scaling it."""
        self.image.paste(Image.fromarray(pixels), (self._px(at[0]), self._px(at[1])))

    def _px(self, length: float) -> int:
        return round(length * self._scale)


def fitted(pixels: np.ndarray, size: int, margin: int) -> np.ndarray:
    """Return a picture scaled to fit a square with a margin, (size, size, 3) uint8.

    Args:
        pixels: (H, W, 3) uint8.
        size: Side of the square with its margin [pixels].
        margin: Width of the margin [pixels].
    """
    inside = (size - 2 * margin, size - 2 * margin)
    return np.asarray(
        ImageOps.expand(ImageOps.pad(Image.fromarray(pixels), inside, color=BACKGROUND), margin, BACKGROUND)
    )


def as_png(paper: Paper) -> bytes:
    """Return a page as a PNG file."""
    file = io.BytesIO()
    paper.image.save(file, "PNG", optimize=True)
    return file.getvalue()


def as_gif(papers: list[Paper], milliseconds: list[int]) -> bytes:
    """Return pages as an animated GIF file, with 256 colors for all pages.

    Args:
        papers: Pages of one size, at least one.
        milliseconds: Duration of each page [ms].
    """
    samples = np.concatenate([np.asarray(paper.image) for paper in (papers[0], papers[-1])])
    palette = Image.fromarray(samples).quantize(256, dither=Image.Dither.NONE)
    # Without dithering, parts that do not move are equal in all pages, so the file stays small.
    frames = [paper.image.quantize(palette=palette, dither=Image.Dither.NONE) for paper in papers]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return file.getvalue()
