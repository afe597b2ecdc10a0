"""The tool for call paths counts calls, functions, files and switches exactly."""

from tools import call_path
from tools.call_path import CallPath


def leaf():
    return len("not a Python function")


def branch():
    return leaf() + leaf() + sum(number for number in [1])


def test_counts_calls_of_python_functions_in_the_package(monkeypatch):
    """The generator passed to `sum` counts as two calls: one yields its only number, one ends it."""
    monkeypatch.setattr(call_path, "PACKAGE", __file__)
    names = [name for _, name in call_path.call_path(branch).path]
    assert names == ["branch", "leaf", "leaf", "branch.<locals>.<genexpr>", "branch.<locals>.<genexpr>"]
    monkeypatch.setattr(call_path, "PACKAGE", "another folder")
    assert call_path.call_path(branch).path == ()


def test_counts_functions_classes_files_and_switches():
    path = CallPath((
        ("a", "C.f"),
        ("a", "C.f.<locals>.<genexpr>"),
        ("b", "f.<locals>.g"),
        ("a", "f"),
        ("a", "f"),
    ))
    counts = path.calls, path.functions, path.classes, path.files, path.switches
    assert counts == (5, 4, 1, 2, 2)
    assert CallPath(()).switches == 0
