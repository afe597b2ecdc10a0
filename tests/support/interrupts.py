"""Exceptions before a chosen instruction of chosen modules."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Countdown:
    """Raises an error before an instruction of some files.

    Args:
        instruction: Number of instructions of these files that run before.
        files: Parts of the paths of the files.
        error: The error.

    Attributes:
        left: Number of instructions until the error; negative after it.
    """

    def __init__(self, instruction: int, *files: str, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left = instruction
        self._files = files
        self._error = error

    @property
    def has_raised(self) -> bool:
        """Whether the error was raised."""
        return self.left < 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count instructions in this block."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in self._files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise self._error
        return self._trace
