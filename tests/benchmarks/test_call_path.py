"""The benchmark of call paths counts calls, functions, files and switches exactly."""

from __future__ import annotations

import sys

import pytest

from benchmarks import call_path
from benchmarks.call_path import CallPath
from benchmarks.result_page import at_most


def leaf():
    return len("not a Python function")


def branch():
    return leaf() + leaf() + sum(number for number in [1])


def test_counts_calls_of_python_functions_in_the_package(monkeypatch):
    """The generator passed to `sum` counts as two calls: one yields its only number, one ends it."""
    monkeypatch.setattr(call_path, "PACKAGE", __file__)
    names = [name for _, name in call_path.call_path(branch).calls]
    assert names == ["branch", "leaf", "leaf", "branch.<locals>.<genexpr>", "branch.<locals>.<genexpr>"]
    monkeypatch.setattr(call_path, "PACKAGE", "another folder")
    assert call_path.call_path(branch).calls == ()


def test_counts_functions_classes_files_and_switches():
    path = CallPath((
        ("a", "C.f"),
        ("a", "C.f.<locals>.<genexpr>"),
        ("b", "f.<locals>.g"),
        ("a", "f"),
        ("a", "f"),
    ))
    counts = len(path.calls), path.functions, path.classes, path.files, path.switches
    assert counts == (5, 4, 1, 2, 2)
    assert CallPath(()).switches == 0


def test_an_error_restores_the_profiler(monkeypatch):
    before = sys.getprofile()
    with pytest.raises(ZeroDivisionError):
        call_path.call_path(lambda: 1 // 0)
    assert sys.getprofile() is before


def test_two_runs_give_the_same_counts(tmp_path):
    pages = []
    for name in ("one.md", "two.md"):
        call_path.main(["--out", str(tmp_path / name)])
        pages.append((tmp_path / name).read_text(encoding="utf-8"))
    tables = [[line for line in page.splitlines() if line.startswith("|")] for page in pages]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 2 + 8 + 2 + 6 + 2 + 1  # requirements, counts, the environment in the checker


@pytest.mark.parametrize(("length", "verdict"), [(30, "met"), (31, "MISSED")])
def test_requirement_includes_its_limit(length, verdict):
    path = CallPath((("a", "f"),) * length)
    requirement, *_ = call_path.requirements(dict.fromkeys("abcdef", path), path)
    assert requirement == at_most("calls in `sample(64)`", 30, length)
    assert requirement.verdict == verdict
