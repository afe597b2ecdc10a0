"""Mutation testing: change the code in one place at a time, and print the changes that no test detects.

    make mutants                                              # 150 mutants of each part of her_wrappers
    make mutants ARGS="checker --sample 20 --seed 1"
    python tools/mutants.py --tree OTHER_CHECKOUT --out runs/mutants_before
    python tools/mutants.py --summary --out runs/mutants_before

A mutant is a copy of the code with one change. A mutant is killed if one of the default tests of its part of
the code fails or hangs. First, all tests run once with coverage. Then, for each mutant, the tests that
execute its line are run, the quickest first, until a test fails or --test-seconds are used up. These tests
run in a forked process, which has already imported the code and collected the tests, and replaces the code of
its functions; for a mutant outside of functions, a process imports the changed code. OUT/PART.jsonl has one
line for each mutant. A second call with the same arguments continues an interrupted call. After a change of
the code, use another OUT.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import gc
import importlib
import itertools
import json
import math
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

import coverage
import pytest

PARTS = {
    "replay": ("her_wrappers/replay",),
    "recording": ("her_wrappers/recording", "her_wrappers/files"),
    "checker": ("her_wrappers/checker", "her_wrappers/rules.py"),
    "conformance": ("her_wrappers/conformance",),
}
TESTS = {
    "replay": ("tests/her_wrappers/replay",),
    # `HindsightReplayBuffer.add` records episodes too.
    "recording": (
        "tests/her_wrappers/recording",
        "tests/her_wrappers/files",
        "tests/her_wrappers/replay/test_add*.py",
    ),
    "checker": ("tests/her_wrappers/checker", "tests/her_wrappers/test_rules.py"),
    "conformance": ("tests/her_wrappers/conformance",),
}
# Runs tests, with a mutant or without one, and returns the first test that fails.
FirstFailure = Callable[[list[str], "Mutant | None"], str | None]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LIBRARIES = "numpy scipy.stats torch gymnasium hypothesis stable_baselines3 cloudpickle filelock rich tyro"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "runs", "site")
MEMORY = 12 << 30  # bytes of address space of one mutant
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
OPTIONS += ["--hypothesis-seed=0"]
SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Pow: "*", ast.BitAnd: "|", ast.BitOr: "&", ast.And: "or", ast.Or: "and",
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: the characters from ``start`` to ``end`` of a file are replaced by ``text``."""

    file: str
    line: int  # of the changed expression
    start: int
    end: int
    operator: str
    text: str
    old: str
    lines: tuple[int, ...]  # of the statement; empty outside of functions

    @property
    def key(self) -> str:
        """Return a text that identifies the mutant among the mutants of the same version of the code."""
        return f"{self.file}:{self.start}-{self.end}:{self.text}"

    def of(self, source: str) -> str:
        """Return the changed source of the file."""
        return source[: self.start] + self.text + source[self.end :]


class Module:
    """The source of a module, and the mutants of its syntax tree."""

    def __init__(self, root: Path, file: str) -> None:
        self.file, self.source = file, (root / file).read_text()
        self.starts = [0, *itertools.accumulate(map(len, self.source.splitlines(keepends=True)))]

    def offset(self, line: int, column: int) -> int:
        """Return the index of the character at a line and a column; the column is an offset in bytes."""
        text = self.source[self.starts[line - 1] : self.starts[line]]
        return self.starts[line - 1] + len(text.encode()[:column].decode())

    def begin(self, node: Any) -> int:
        """Return the index of the first character of a node."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        """Return the index of the character after a node."""
        return self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: Any) -> str:
        """Return the source of a node."""
        return self.source[self.begin(node) : self.end(node)]

    def mutants(self) -> Iterator[Mutant]:
        """Yield all mutants that Python can compile."""
        for mutant in self.visit(ast.parse(self.source), (), in_function=False):
            with contextlib.suppress(SyntaxError):
                compile(mutant.of(self.source), self.file, "exec")
                yield mutant

    def visit(self, node: Any, lines: tuple[int, ...], *, in_function: bool) -> Iterator[Mutant]:
        """Yield the mutants of a node and of its descendants, without annotations and f-strings."""
        if isinstance(node, ast.stmt):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in self.text(node.test):
                return
            body = getattr(node, "body", None)  # of a compound statement, whose lines are those of its head
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            lines = tuple(range(node.lineno, last + 1)) if in_function else ()
        for operator, start, end, new in (*self.swaps(node), *self.replacements(node)):
            line = self.source.count("\n", 0, start) + 1
            yield Mutant(self.file, line, start, end, operator, new, self.source[start:end], lines)
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list"} or isinstance(node, ast.JoinedStr):
                continue
            is_body = name == "body" and isinstance(node, FUNCTIONS)
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.visit(child, lines, in_function=in_function or is_body)

    def swaps(self, node: Any) -> Iterator[tuple[str, int, int, str]]:
        """Yield name, start, end and new text of each change of an operator of a node."""
        operator: str
        terms: list[Any]
        operators: list[Any]
        match node:
            case ast.Compare():
                operator, terms, operators = "comparison", [node.left, *node.comparators], node.ops
            case ast.BoolOp():
                operator, terms, operators = "and, or", node.values, [node.op] * len(node.values)
            case ast.BinOp():
                operator, terms, operators = "arithmetic", [node.left, node.right], [node.op]
            case ast.AugAssign():
                operator, terms, operators = "arithmetic", [node.target, node.value], [node.op]
            case _:
                return
        equals = "=" if isinstance(node, ast.AugAssign) else ""
        for (left, right), op in zip(itertools.pairwise(terms), operators, strict=False):
            if type(op) in SWAPS:
                yield operator, self.end(left), self.begin(right), f" {SWAPS[type(op)]}{equals} "

    def replacements(self, node: Any) -> Iterator[tuple[str, int, int, str]]:
        """Yield name, start, end and new text of each replacement of a node or of one part of the node."""
        part: Any
        match node:
            case ast.UnaryOp(op=ast.Not()):
                operator, part, new = "not", node, f"({self.text(node.operand)})"
            case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Compare):
                operator, part, new = "condition", node.test, f"(not ({self.text(node.test)}))"
            case ast.For() | ast.comprehension():
                operator, part, new = "no iteration", node.iter, "()"
            case ast.Constant(value=bool()):
                operator, part, new = "boolean", node, str(not node.value)
            case ast.Constant(value=int(number)):
                operator, part, new = "number", node, str(number + 1)
            case ast.Break() | ast.Continue():
                operator, part = "break", node
                new = "break" if isinstance(node, ast.Continue) else "continue"
            case ast.Raise() | ast.Expr(value=ast.Call()):
                operator, part, new = "no statement", node, "pass"
            case ast.Return(value=ast.expr() as value) if getattr(value, "value", True) not in {False, None}:
                operator, part, new = "return None", node, "return None"
            case _:
                return
        if self.text(part) != new:
            yield operator, self.begin(part), self.end(part), new


class Progress:
    """A pytest plugin that runs the chosen tests in their order, and writes starts and outcomes to a pipe."""

    def __init__(self, chosen: list[str] | None, at_most: float, pipe: int = -1) -> None:
        self.at_most = at_most
        self.order = None if chosen is None else {test: i for i, test in enumerate(chosen)}
        self.pipe = pipe

    def write(self, *fields: object) -> None:
        """Write a line to the pipe."""
        os.write(self.pipe, (json.dumps(fields) + "\n").encode())

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, in their order."""
        if self.order is not None:
            items[:] = [item for item in items if item.nodeid in self.order]
            items.sort(key=lambda item: self.order[item.nodeid])  # type: ignore[index]

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Stop after this test if its process used its seconds: processor time, as the core may be shared."""
        if time.process_time() > self.at_most:
            item.session.shouldstop = "enough tests"

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write the start of a test."""
        self.write("start", nodeid, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the outcome of the setup, the call or the teardown of a test."""
        self.write("failed" if report.failed else "passed", report.nodeid, report.duration)


def run_tests(
    copy: Path,
    arguments: list[str],
    seconds: dict[str, float],
    chosen: list[str] | None = None,
    at_most: float = math.inf,
) -> tuple[list[str], dict[str, float]]:
    """Run pytest in a forked process; return the failed tests, and the seconds of each test."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        separate(copy)
        progress = Progress(chosen, at_most, writer)
        code = 3
        try:
            code = int(
                pytest.main([*OPTIONS, f"--basetemp={copy.parent / 'basetemp'}", *arguments], [progress])
            )
        except BaseException:
            traceback.print_exc()
        leave(progress, code)
    os.close(writer)
    return follow(child, reader, seconds)


def separate(copy: Path) -> None:
    """Put this forked process into its own process group, limit its memory, and write output to a log."""
    os.setsid()
    os.chdir(copy)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    log = os.open(copy.parent / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)


def leave(progress: Progress, code: int) -> NoReturn:
    """Write pytest's exit code, and end this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    progress.write("end", "", code)
    os._exit(0)


def follow(child: int, reader: int, seconds: dict[str, float]) -> tuple[list[str], dict[str, float]]:
    """Read the events of a test process from a pipe; return the failed tests, and the seconds of each test.

    If a test takes longer than 60 s plus 20 times its time without a mutant, it fails and the process ends.
    """
    failed: list[str] = []
    durations: dict[str, float] = {}
    current, patience, code, rest = "import", 300.0, None, b""
    while code is None:
        ready = select.select([reader], [], [], patience)[0]
        chunk = os.read(reader, 1 << 16) if ready else b""
        if not chunk:
            failed.append(f"{current} ({'crash' if ready else 'timeout'})")
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for event, test, value in map(json.loads, lines):
            if event == "start":
                current, patience = test, 60 + 20 * seconds.get(test, 60.0)
            elif event == "end":
                code = value
            else:
                durations[test] = durations.get(test, 0.0) + value
                failed += [test] if event == "failed" else []
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if code not in {None, 0, 5} and not failed:  # 1 with -x: an error while test files are imported
        failed.append("import")
    return failed, durations


class Tests:
    """The default tests of a part of the code, their durations, and which tests execute each line."""

    def __init__(self, copy: Path, part: str, cache: Path, at_most: float) -> None:
        self.copy, self.at_most = copy, at_most
        if not cache.exists():
            print(f"{part}: running the tests once with coverage", flush=True)
            cache.write_text(json.dumps(self.measure(copy, part)))
        saved = json.loads(cache.read_text())
        for test in saved["failed"]:
            print(f"left out, fails without a mutant: {test}")
        self.seconds = {
            test: value for test, value in saved["seconds"].items() if test not in saved["failed"]
        }
        names = ["", *saved["seconds"]]
        self.lines = {
            file: {line: [names[i] for i in found] for line, found in by_line.items()}
            for file, by_line in saved["lines"].items()
        }
        executing = {test for by_line in self.lines.values() for tests in by_line.values() for test in tests}
        self.elsewhere = self.seconds.keys() - executing
        self.trusted: set[str] = set()

    @staticmethod
    def measure(copy: Path, part: str) -> dict[str, Any]:
        """Run all tests of the part; return durations, failed tests, and which tests execute each line."""
        places = [path for pattern in (*PARTS[part], *TESTS[part]) for path in sorted(copy.glob(pattern))]
        arguments = [str(path.relative_to(copy)) for path in places]
        arguments += ["--cov", "--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
        data = copy.parent / "coverage.sqlite"
        os.environ["COVERAGE_FILE"] = str(data)
        failed, seconds = run_tests(copy, arguments, {})
        if not seconds:
            raise SystemExit((copy.parent / "log.txt").read_text())
        measured = coverage.CoverageData(str(data))
        measured.read()
        numbers = {
            test: i for i, test in enumerate(["", *seconds])
        }  # names are long, and repeated very often
        lines = {}
        for file in measured.measured_files():
            name = str(Path(file).relative_to(copy))
            if name.startswith(PARTS[part]):
                lines[name] = {
                    line: sorted({numbers[context.rpartition("|")[0]] for context in contexts})
                    for line, contexts in measured.contexts_by_lineno(file).items()
                }
        return {"seconds": seconds, "failed": failed, "lines": lines}

    def executed_at_import(self, mutant: Mutant) -> bool:
        """Return whether the mutant's line is outside of functions or is executed by an import."""
        by_line = self.lines.get(mutant.file, {})
        return not mutant.lines or any("" in by_line.get(str(line), ()) for line in mutant.lines)

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the mutant's line, the quickest first.

        If an import executes the line, these are the tests that execute any line of the file. Tests that
        execute no line of the part come last, since they may execute the line in another process.
        """
        by_line = self.lines.get(mutant.file, {})
        found = {test for line in mutant.lines for test in by_line.get(str(line), ())}
        if self.executed_at_import(mutant):
            found = {test for tests in by_line.values() for test in tests}
        candidates = (found | self.elsewhere) & self.seconds.keys()
        return sorted(candidates, key=lambda test: (test in self.elsewhere, self.seconds[test], test))

    def first_failure(self, chosen: list[str], mutant: Mutant | None = None) -> str | None:
        """Run tests in a process that imports the code, and return the first one that fails, or None."""
        files = sorted({test.partition("::")[0] for test in chosen})
        failed, _ = run_tests(self.copy, ["-x", "-p", "no:cov", *files], self.seconds, chosen, self.at_most)
        return failed[0] if failed else None

    def passes(self, test: str, first_failure: FirstFailure) -> bool:
        """Return whether a test passes alone and without a mutant; if it fails, remove it from the tests."""
        if test in self.seconds and test not in self.trusted:
            if first_failure([test], None):
                print(f"left out, fails without a mutant: {test}")
                del self.seconds[test]
                return False
            self.trusted.add(test)
        return True


class Loop:
    """A pytest plugin that runs the tests for each mutant in a forked process, instead of only once."""

    def __init__(
        self, tests: Tests, mutants: list[Mutant], record: Callable[[Mutant, FirstFailure], None]
    ) -> None:
        self.tests, self.mutants, self.record = tests, mutants, record
        self.progress = Progress(None, tests.at_most)
        self.session: Any = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants."""
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        session.config.pluginmanager.register(self.progress)
        for mutant in self.mutants:
            self.record(mutant, self.first_failure)
        return True

    def first_failure(self, chosen: list[str], mutant: Mutant | None) -> str | None:
        """Run tests with a mutant in a forked process, and return the first one that fails, or None."""
        reader, self.progress.pipe = os.pipe()
        child = os.fork()
        if child == 0:
            code = 3
            try:
                separate(self.tests.copy)
                if mutant is not None:
                    change_functions(self.tests.copy / mutant.file, mutant)
                run = [self.items[test] for test in chosen if test in self.items]
                for item, following in itertools.zip_longest(run, run[1:]):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    if self.session.shouldfail or self.session.shouldstop:
                        break
                code = 0
            except BaseException:
                traceback.print_exc()
            leave(self.progress, code)
        os.close(self.progress.pipe)
        failed, _ = follow(child, reader, self.tests.seconds)
        return failed[0] if failed else None


def functions_of(path: Path, source: str) -> dict[tuple[str, int], CodeType]:
    """Return the code of all functions of a module, by qualified name and number among equal names."""
    found: dict[tuple[str, int], CodeType] = {}
    codes = [compile(source, str(path), "exec")]
    for code in codes:
        number = next(n for n in itertools.count() if (code.co_qualname, n) not in found)
        found[code.co_qualname, number] = code
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


def only_changes_code(path: Path, mutant: Mutant) -> bool:
    """Return whether it is enough to change the code of existing functions to apply a mutant."""
    source = path.read_text()
    old, new = functions_of(path, source), functions_of(path, mutant.of(source))
    return all(key in new and code.co_freevars == new[key].co_freevars for key, code in old.items())


def change_functions(path: Path, mutant: Mutant) -> None:
    """Replace the code of all functions of an imported module by the mutant's code, read from its file."""
    new = path.read_text()
    old = new[: mutant.start] + mutant.old + new[mutant.start + len(mutant.text) :]
    names = {(code.co_qualname, code.co_firstlineno): key for key, code in functions_of(path, old).items()}
    changed = functions_of(path, new)
    for function in gc.get_objects():
        # Not isinstance, which runs code of lazy objects.
        if type(function) is FunctionType and function.__code__.co_filename == str(path):
            function.__code__ = changed[
                names[function.__code__.co_qualname, function.__code__.co_firstlineno]
            ]


WRITES = itertools.count(1_000_000_000)


def write(path: Path, source: str) -> None:
    """Write a module with a unique modification time, so that Python does not use an older compiled file."""
    path.write_text(source)
    os.utime(path, (next(WRITES),) * 2)


def try_mutant(mutant: Mutant, tests: Tests, first_failure: FirstFailure) -> dict[str, Any]:
    """Write the mutant to the copy of the repository, run its tests, and return its record."""
    path = tests.copy / mutant.file
    source = path.read_text()
    changed = mutant.of(source)
    begin = time.monotonic()
    killed_by = None
    while chosen := tests.of(mutant):
        write(path, changed)
        try:
            killed_by = first_failure(chosen, mutant)
        finally:
            write(path, source)
        if killed_by is None or tests.passes(killed_by, first_failure):
            break
        killed_by = None
    diff = difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm="")
    return {
        "file": mutant.file, "line": mutant.line, "operator": mutant.operator,
        "killed_by": killed_by, "tests": len(chosen),
        "seconds": round(time.monotonic() - begin, 1),
        "diff": [line for line in diff if not line.startswith(("---", "+++", "@@"))], "key": mutant.key,
    }  # fmt: skip


def try_part(part: str, options: argparse.Namespace) -> None:
    """Try a random sample of the mutants of a part, except the mutants that OUT already contains."""
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copy = Path(folder).resolve() / "copy"
        shutil.copytree(options.tree, copy, ignore=LEFT_OUT)
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)
        os.chdir(copy)
        settings = tomllib.loads((copy / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
        ignored = {option.removeprefix("--ignore=") for option in settings["addopts"]}
        names = {str(path.relative_to(copy)) for path in copy.rglob("her_wrappers/**/*.py")} - ignored
        files = [name for name in names if name.startswith(PARTS[part])]
        mutants = sorted(mutant for name in files for mutant in Module(copy, name).mutants())
        # The first mutants of a larger sample are the sample of a smaller one.
        chosen = random.Random(options.seed).sample(mutants, len(mutants))[: options.sample]
        results = options.out / f"{part}.jsonl"
        done = {record["key"] for record in read(results)}
        left = [mutant for mutant in chosen if mutant.key not in done]
        print(f"{part}: {len(mutants):,} mutants, {len(chosen)} in the sample, {len(left)} left", flush=True)
        if not left:
            return
        tests = Tests(copy, part, options.out / f"{part}.tests.json", options.test_seconds)

        def record(mutant: Mutant, first_failure: FirstFailure) -> None:
            found = try_mutant(mutant, tests, first_failure)
            with results.open("a") as file:
                file.write(json.dumps(found) + "\n")
            result = f"{found['killed_by'] or 'SURVIVED'} ({found['seconds']} s)"
            print(f"{mutant.file}:{mutant.line} {mutant.operator}: {result}", flush=True)

        quick = [
            mutant
            for mutant in left
            if not tests.executed_at_import(mutant) and only_changes_code(copy / mutant.file, mutant)
        ]
        for mutant in left:
            if mutant not in quick:
                record(mutant, tests.first_failure)
        paths = sorted({test.partition("::")[0] for test in tests.seconds})
        child = os.fork()
        if child == 0:
            arguments = [*OPTIONS, "-x", "-p", "no:cov", f"--basetemp={copy.parent / 'basetemp'}", *paths]
            pytest.main(arguments, [Loop(tests, quick, record)])
            os._exit(0)
        os.waitpid(child, 0)


def read(results: Path) -> list[dict[str, Any]]:
    """Return the records of a file of results, or an empty list if there is no such file."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def forget_survivors(out: Path, part: str) -> None:
    """Remove the records of the survivors and the stored measurement of the tests."""
    killed = [record for record in read(out / f"{part}.jsonl") if record["killed_by"]]
    (out / f"{part}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in killed))
    (out / f"{part}.tests.json").unlink(missing_ok=True)


def wilson(killed: int, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share."""
    z, share = 1.96, killed / total
    center = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return center - half, center + half


def summarize(out: Path, survivors: bool) -> None:
    """Print the share of killed mutants of each part, and the survivors."""
    for path in sorted(out.glob("*.jsonl")):
        records = read(path)
        alive = [record for record in records if record["killed_by"] is None]
        for record in alive if survivors else ():
            print(f"{record['file']}:{record['line']} {record['operator']}", *record["diff"], sep="\n  ")
        low, high = wilson(len(records) - len(alive), len(records))
        share = 1 - len(alive) / len(records)
        print(
            f"{path.stem}: {len(records)} mutants, killed {share:.1%} (95 % interval {low:.1%} to {high:.1%})"
        )


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} [all]")
    parser.add_argument("--sample", type=int, default=150, help="mutants of each part [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample [%(default)s]")
    parser.add_argument(
        "--test-seconds", type=float, default=60, help="processor seconds of one mutant [%(default)s]"
    )
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="the checkout to mutate")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/mutants"), help="folder of results [%(default)s]"
    )
    parser.add_argument(
        "--retry", action="store_true", help="try survivors again, after a change of the tests"
    )
    parser.add_argument("--summary", action="store_true", help="only print the results so far")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.summary:
        # conftest.py sets these too, but after torch is imported
        os.environ |= {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "OMP_NUM_THREADS": "1"}
        for library in LIBRARIES.split():
            with contextlib.suppress(ImportError):
                importlib.import_module(library)
        for part in options.parts or PARTS:
            if options.retry:
                forget_survivors(options.out, part)
            try_part(part, options)
    summarize(options.out, survivors=not options.summary)


if __name__ == "__main__":
    main()
