"""Mutants in a program that runs: the functions that exist get the mutant's code."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Place = tuple[str, str, int]


class LiveFunctions:
    """All functions of some source files that exist at the moment.

    Args:
        folder: The functions of the files below it.
    """

    def __init__(self, folder: Path) -> None:
        self._by_place: defaultdict[Place, list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if type(thing) is FunctionType and Path(thing.__code__.co_filename).is_relative_to(folder):
                self._by_place[_place(thing.__code__)].append(thing)

    def become(self, module: CodeType) -> None:
        """Give every function of a file the code that it has in another version of that file.

        Raises:
            ValueError: The version has a function that uses fewer variables of those around it, ``super()``
                among them; Python cannot exchange such code.
            LookupError: No function of that file is known.
        """
        pairs = [(f, code) for code in _all_below(module) for f in self._by_place[_place(code)]]
        if not pairs:
            raise LookupError(f"no function of {module.co_filename} was found")
        for function, code in pairs:
            function.__code__ = code


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _all_below(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _all_below(constant)
