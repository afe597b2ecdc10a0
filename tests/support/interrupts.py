"""Exceptions at a chosen moment of a program, between two instructions."""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any


class Countdown:
    """Raises an error after n bytecode instructions in some files.

    Instructions that call ``__exit__`` at the end of a ``with`` block are not counted. Python handles no
    signal there, and an error would leave the block without ``__exit__``.

    Args:
        instruction: Number of these instructions, n.
        files: Parts of the paths of the files.
        error: Class of the error.

    Attributes:
        left: Number of instructions until the error; negative after it.
    """

    def __init__(self, instruction: int, *files: str, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left, self._files, self._error = instruction, files, error

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count instructions while the ``with`` block runs."""
        before = sys.gettrace()
        sys.settrace(self._trace_call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace_call(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count the instructions of a function that begins, if it is in one of the files."""
        if not any(part in frame.f_code.co_filename for part in self._files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        exit_calls = _exit_calls(frame.f_code)

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            if event == "opcode" and frame.f_lasti not in exit_calls:
                self.left -= 1
                if self.left < 0:
                    sys.settrace(None)
                    raise self._error
            return trace

        return trace


@functools.cache
def _exit_calls(code: CodeType) -> set[int]:
    """Return the offsets of instructions that call ``__exit__(None, None, None)``."""
    instructions, offsets = list(dis.get_instructions(code)), set()
    for begin in range(len(instructions) - 3):
        loads, rest = instructions[begin : begin + 3], instructions[begin + 3 : begin + 5]
        if all(each.opname == "LOAD_CONST" and each.argval is None for each in loads):
            calls = [each for each in rest if each.opname in {"PRECALL", "CALL"}]
            if calls:
                offsets |= {each.offset for each in (*loads, *calls)}
    return offsets


def count_instructions(function: Callable[[], object], *files: str) -> int:
    """Call a function, and return the number of instructions of some files that ran."""
    countdown = Countdown(10**9, *files)
    with countdown.running():
        function()
    return 10**9 - countdown.left
