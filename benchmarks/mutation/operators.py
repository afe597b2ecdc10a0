"""The mistakes: what a piece of code could have been by a slip."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from functools import singledispatch

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}


@singledispatch
def slips(_: ast.AST) -> Iterator[ast.AST]:
    """Yield what could stand in the place of a node."""
    yield from ()


@slips.register
def _(node: ast.BinOp | ast.BoolOp) -> Iterator[ast.AST]:
    if type(node.op) in SWAPS:
        yield _changed(node, op=SWAPS[type(node.op)]())


@slips.register
def _(node: ast.AugAssign) -> Iterator[ast.AST]:
    yield _changed(node, op=SWAPS[type(node.op)]())
    yield ast.Assign([node.target], node.value)


@slips.register
def _(node: ast.Compare) -> Iterator[ast.AST]:
    for i, operator in enumerate(node.ops):
        yield _changed(node, ops=[*node.ops[:i], SWAPS[type(operator)](), *node.ops[i + 1 :]])


@slips.register
def _(node: ast.Break | ast.Continue) -> Iterator[ast.AST]:
    yield SWAPS[type(node)]()


@slips.register
def _(node: ast.UnaryOp) -> Iterator[ast.AST]:
    yield node.operand


@slips.register
def _(node: ast.If | ast.IfExp | ast.While) -> Iterator[ast.AST]:
    for always in (True, False):
        yield _changed(node, test=ast.Constant(always))


@slips.register
def _(node: ast.comprehension) -> Iterator[ast.AST]:
    for i in range(len(node.ifs)):
        yield _changed(node, ifs=[*node.ifs[:i], *node.ifs[i + 1 :]])


@slips.register
def _(node: ast.Constant) -> Iterator[ast.AST]:
    match node.value:
        case bool():
            yield ast.Constant(not node.value)
        case int() | float():
            yield ast.Constant(node.value + 1)
        case str() if " " not in node.value:  # a name or a key; the wording of sentences is read, not tested
            yield ast.Constant(f"XX{node.value}XX")


@slips.register
def _(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id == "cast":
        return
    for i, argument in enumerate(node.args):
        if not isinstance(argument, ast.Starred) and not _is_none(argument):
            yield _changed(node, args=[*node.args[:i], ast.Constant(None), *node.args[i + 1 :]])
    for i in range(len(node.keywords)):
        yield _changed(node, keywords=[*node.keywords[:i], *node.keywords[i + 1 :]])


@slips.register
def _(node: ast.Assign | ast.AnnAssign | ast.Return) -> Iterator[ast.AST]:
    if node.value is not None and not _is_none(node.value):
        yield _changed(node, value=ast.Constant(None))


@slips.register
def _(node: ast.Expr) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Call):
        yield ast.Pass()


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    other = copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
