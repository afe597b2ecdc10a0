"""Text files that may be damaged: manifests, options, and logs of runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from her_wrappers.data.arrays import as_corrupt
from her_wrappers.data.atomic import open_regular

MAX_TEXT = 2**23  # bytes of a file; limits the time to read it

Content = TypeVar("Content")


def parse_file(path: Path, parse: Callable[[str], Content], expected: str) -> Content:
    """Read the text of a UTF-8 file, and return ``parse(text)``; ``expected`` is for error messages.

    Raise CorruptFileError if ``parse`` raises, or if the file is not UTF-8 or is too large. Raise OSError if
    the file cannot be read, or is a folder, pipe or device.
    """
    with open_regular(path) as file:
        content = file.read(MAX_TEXT + 1)
    with as_corrupt(f"{path} is damaged, or is not {expected}"):
        if len(content) > MAX_TEXT:
            raise ValueError(f"the file has more than {MAX_TEXT} bytes")
        return parse(content.decode("utf-8-sig"))
