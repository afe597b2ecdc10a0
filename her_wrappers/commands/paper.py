"""Paper: pages of text, bars and pictures, and files of them. The only file that knows pillow."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from her_envs.canvas import BACKGROUND, INK

Colour = tuple[int, int, int]

GREY: Colour = (110, 110, 108)


class Paper:
    """A page whose lengths are written for one size and drawn in another.

    Args:
        width: Of the page.
        height: Of the page.
        scale: Pixels of a unit of length.
    """

    def __init__(self, width: float, height: float, scale: float) -> None:
        self._scale = scale
        self.image = Image.new("RGB", (self._px(width), self._px(height)), BACKGROUND)
        self._draw = ImageDraw.Draw(self.image)

    def text(
        self, text: str, at: tuple[float, float], size: float, colour: Colour = INK, *, right: bool = False
    ) -> None:
        """Write a line.

        Args:
            text: What to write.
            at: Its upper left corner, or the upper right one.
            size: Height of its letters.
            colour: Their colour.
            right: Whether ``at`` is where it ends.
        """
        font = ImageFont.load_default(size * self._scale)
        place = tuple(part * self._scale for part in at)
        self._draw.text((place[0], place[1]), text, colour, font, "ra" if right else "la")

    def box(self, at: tuple[float, float], width: float, height: float, colour: Colour) -> None:
        """Fill a rectangle; one without an area is not seen.

        Args:
            at: Its upper left corner.
            width: Of the rectangle.
            height: Of the rectangle.
            colour: What fills it.
        """
        left, top = (self._px(part) for part in at)
        right, bottom = self._px(at[0] + width) - 1, self._px(at[1] + height) - 1
        if left <= right and top <= bottom:
            self._draw.rectangle((left, top, right, bottom), colour)

    def picture(self, pixels: np.ndarray, at: tuple[float, float]) -> None:
        """Put a picture, (H, W, 3) uint8, with its upper left corner at a place; it is not scaled."""
        self.image.paste(Image.fromarray(pixels), (self._px(at[0]), self._px(at[1])))

    def _px(self, length: float) -> int:
        return round(length * self._scale)


def fitted(pixels: np.ndarray, size: int, margin: int) -> np.ndarray:
    """Return a picture as large as fits a square with a margin, (size, size, 3) uint8."""
    inside = (size - 2 * margin, size - 2 * margin)
    return np.asarray(
        ImageOps.expand(ImageOps.pad(Image.fromarray(pixels), inside, color=BACKGROUND), margin, BACKGROUND)
    )


def as_png(paper: Paper) -> bytes:
    """Return the file of a page."""
    file = io.BytesIO()
    paper.image.save(file, "PNG", optimize=True)
    return file.getvalue()


def as_gif(papers: list[Paper], milliseconds: list[int]) -> bytes:
    """Return the file of a moving picture that goes on for ever, in 256 colours that all pages share.

    Args:
        papers: Pages of one size, at least one.
        milliseconds: How long each is shown.
    """
    samples = np.concatenate([np.asarray(paper.image) for paper in (papers[0], papers[-1])])
    palette = Image.fromarray(samples).quantize(256, dither=Image.Dither.NONE)
    # Without dithering, what does not move stays as it is, and takes no place in the file.
    frames = [paper.image.quantize(palette=palette, dither=Image.Dither.NONE) for paper in papers]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return file.getvalue()
