"""Exceptions and signal handlers at a chosen moment of a program, between two instructions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Countdown:
    """Raises an error or calls a signal handler after n bytecode instructions in some files.

    Args:
        instruction: Number of these instructions, n.
        files: Parts of the paths of the files.
        error: Class of the error.
        handler: Function that is called in place of raising the error, or None.

    Attributes:
        left: Number of instructions until the error; negative after it.
    """

    def __init__(
        self,
        instruction: int,
        *files: str,
        error: type[BaseException] = KeyboardInterrupt,
        handler: Callable[[], object] | None = None,
    ) -> None:
        self.left = instruction
        self._files = files
        self._error = error
        self._handler = handler

    @property
    def has_raised(self) -> bool:
        """Whether the error was raised, or the handler called."""
        return self.left < 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count instructions while the ``with`` block runs."""
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
                if self._handler is None:
                    raise self._error
                self._handler()
        return self._trace


def count_instructions(function: Callable[[], object], *files: str) -> int:
    """Call a function, and return the number of instructions of some files that ran."""
    countdown = Countdown(10**9, *files)
    with countdown.running():
        function()
    return 10**9 - countdown.left
