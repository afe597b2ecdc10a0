"""The programs in tools: mutants of a module, generated texts, sizes."""

import importlib

import pytest

pytest.importorskip("coverage", reason="coverage is missing: the extra test")

from tools import size
from tools.generate import generate
from tools.mutants import Module, change_functions, only_changes_code

SOURCE = '''
def f(a: int | None, text="é") -> bool:
    """Not changed: 1 < 2."""
    if not a:
        raise ValueError(f"{a + 1}")
    return a < 3 and text == "é"
'''


def test_each_mutant_of_a_module_is_one_change(tmp_path):
    (tmp_path / "module.py").write_text(SOURCE)
    changed = [
        mutant.of(SOURCE).splitlines()[mutant.line - 1].strip()
        for mutant in Module(tmp_path, "module.py").mutants()
    ]
    assert sorted(changed) == [
        "if (a):",
        "if (not (not a)):",
        "pass",
        "return None",
        'return a < 3 and text != "é"',
        'return a < 3 or text == "é"',
        'return a < 4 and text == "é"',
        'return a <= 3 and text == "é"',
    ]


def test_a_mutant_names_the_lines_of_its_statement(tmp_path):
    (tmp_path / "module.py").write_text("x = 1\n\ndef f():\n    return g(\n        2,\n    )\n")
    mutants = {mutant.line: mutant.lines for mutant in Module(tmp_path, "module.py").mutants()}
    assert mutants == {1: (), 4: (4, 5, 6), 5: (4, 5, 6)}


DECORATED = """
import functools


@functools.cache
def f(x):
    return [y for y in (1, 2) if y < x]


def make(n):
    def inner(x):
        return x + n
    return inner


add_two = make(2)
"""


def test_functions_in_use_get_the_code_of_a_mutant(tmp_path, monkeypatch):
    path = tmp_path / "decorated_module.py"
    path.write_text(DECORATED)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(path.stem)
    every = list(Module(tmp_path, path.name).mutants())
    no_result = next(mutant for mutant in every if mutant.old == "return x + n")
    assert not only_changes_code(path, no_result)  # n would not be a variable of the function anymore
    mutants = {mutant.text.strip(): mutant for mutant in every}
    for text, change in (("<=", lambda: module.f(1) == [1]), ("-", lambda: module.add_two(5) == 3)):
        assert only_changes_code(path, mutants[text])
        module.f.cache_clear()
        assert not change()
        path.write_text(mutants[text].of(DECORATED))
        change_functions(path, mutants[text])
        module.f.cache_clear()
        assert change()
        path.write_text(DECORATED)


def test_a_generated_number_is_replaced():
    page = "of <!-- generated: count GE -->0<!-- end --> rules"
    assert generate(page) != page
    assert generate(generate(page)) == generate(page)


def test_sizes_count_lines_docstrings_and_comments():
    assert size.count('"""One\n\ntwo."""\n\nx = 1  # why\n') == (5, 3, 1)
    assert size.part_of("her_wrappers/checker/rules/rewards.py") == "her_wrappers/checker"
    assert size.part_of("her_wrappers/cli.py") == "her_wrappers/commands + her_wrappers/cli.py"
