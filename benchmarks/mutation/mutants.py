"""Which mutants there are of a file, and what each one is when compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

from benchmarks.mutation.operators import slips

# What is looked at when a function is made, not when it runs, and what only people and type checkers read.
NOT_RUN = {"annotation", "returns", "decorator_list", "args", "format_spec"}


@dataclass(frozen=True)
class Mutant:
    """One mistake in one place.

    Attributes:
        path: The file, relative to the repository.
        lines: First and last line of the statement that it is in, or of the head of that statement.
        site: Which of the file's places.
        slip: Which of the mistakes that can be made there.
        before: The code there.
        after: The code there by mistake.
    """

    path: str
    lines: tuple[int, int]
    site: int
    slip: int
    before: str
    after: str


@dataclass(frozen=True)
class Site:
    """A place in a tree: a field of a node, or an item of that field."""

    owner: ast.AST
    field: str
    index: int | None
    lines: tuple[int, int]

    @property
    def node(self) -> ast.AST:
        """What stands there."""
        held = getattr(self.owner, self.field)
        return held if self.index is None else held[self.index]

    def put(self, node: ast.AST) -> None:
        """Let something else stand there."""
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """List all mutants of a file, always in the same order."""
    return [
        Mutant(path, site.lines, i, j, _text(site.node), _text(other))
        for i, site in enumerate(_sites(ast.parse(_source(root / path))))
        for j, other in enumerate(_others(site))
    ]


def compiled(root: Path, mutant: Mutant) -> CodeType:
    """Return the code of the whole file with the mutant in it."""
    tree = ast.parse(_source(root / mutant.path))
    site = _sites(tree)[mutant.site]
    site.put(_others(site)[mutant.slip])
    return compile(ast.fix_missing_locations(tree), str(root / mutant.path), "exec")


def _others(site: Site) -> list[ast.AST]:
    return [ast.copy_location(other, site.node) for other in slips(site.node)]


@cache
def _source(path: Path) -> str:
    return path.read_text()


def _sites(tree: ast.Module) -> list[Site]:
    return [site for function in _outermost(tree) for site in _below(function, (0, 0))]


def _outermost(node: ast.AST) -> Iterator[ast.FunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child
        elif isinstance(child, ast.ClassDef | ast.If):
            yield from _outermost(child)


def _below(owner: ast.AST, lines: tuple[int, int]) -> Iterator[Site]:
    for field, value in ast.iter_fields(owner):
        if field in NOT_RUN and not isinstance(owner, ast.Call):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _is_text(owner, child):
                place = _extent(child) if isinstance(child, ast.stmt) else lines
                yield Site(owner, field, index, place)
                yield from _below(child, place)


def _is_text(owner: ast.AST, child: ast.AST) -> bool:
    docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
    return docstring or (isinstance(owner, ast.JoinedStr) and isinstance(child, ast.Constant))


def _extent(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
    return statement.lineno, last or statement.lineno


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    if isinstance(node, ast.If | ast.While):
        text = text.partition("\n")[0]
    return " ".join(text.split())
