import ast
import importlib.util
import os
import signal
from types import SimpleNamespace

import pytest

pytest.importorskip("coverage")

from benchmarks.mutation import campaign
from benchmarks.mutation.apart import side_by_side
from benchmarks.mutation.campaign import Campaign, Outcome, _failing, _limit
from benchmarks.mutation.fates import difference, scores
from benchmarks.mutation.live import LiveFunctions
from benchmarks.mutation.mutants import Mutant, compiled, mutants_of
from benchmarks.mutation.operators import slips

SOURCE = '''
def threshold(value, limit=3):
    """Say where it stands."""

    def above():
        return value > limit

    if above():
        raise ValueError(f"{value} is above")
    return "below"


class Counter:
    """Counts."""

    def __init__(self):
        self.count = 0

    @property
    def next(self):
        self.count += 1
        return self.count
'''


@pytest.mark.parametrize(
    ("code", "others"),
    [
        ("a < b", ["a <= b"]),
        ("a < b == c", ["a <= b == c", "a < b != c"]),
        ("a + b", ["a - b"]),
        ("a @ b", []),
        ("a and b", ["a or b"]),
        ("not a", ["a"]),
        ("-a", ["a"]),
        ("a += 1", ["a -= 1", "a = 1"]),
        ("a if b else c", ["a if True else c", "a if False else c"]),
        ("if a: b", ["if True:\n    b", "if False:\n    b"]),
        ("3", ["4"]),
        ("True", ["False"]),
        ("'name'", ["'XXnameXX'"]),
        ("'some words'", []),
        ("f(a, *b, key=c)", ["f(None, *b, key=c)", "f(a, *b)"]),
        ("f(None)", []),
        ("cast(a, b)", []),
        ("a = b", ["a = None"]),
        ("a: int = b", ["a: int = None"]),
        ("a: int", []),
        ("break", ["continue"]),
        ("return a", ["return None"]),
        ("return", []),
    ],
)
def test_the_slips_of_a_piece_of_code(code, others):
    node = ast.parse(code).body[0]
    node = node.value if isinstance(node, ast.Expr) else node
    assert [ast.unparse(ast.copy_location(other, node)) for other in slips(node)] == others


def test_a_call_may_not_be_made_and_a_filter_may_be_lost():
    assert [type(other) for other in slips(ast.parse("f()").body[0])] == [ast.Pass]
    generator = ast.parse("[a for a in b if c if d]").body[0].value.generators[0]
    assert [ast.unparse(other).strip() for other in slips(generator)] == [
        "for a in b if d",
        "for a in b if c",
    ]


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("shop", path)
    shop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shop)
    return shop


def test_mutants_are_of_what_runs_when_a_function_runs(tmp_path, module):
    texts = {(mutant.before, mutant.after) for mutant in mutants_of(tmp_path, "shop.py")}
    assert texts == {
        ("return value > limit", "return None"),
        ("value > limit", "value >= limit"),
        ("if above():", "if True:"),
        ("if above():", "if False:"),
        ("ValueError(f'{value} is above')", "ValueError(None)"),
        ("return 'below'", "return None"),
        ("'below'", "'XXbelowXX'"),
        ("self.count = 0", "self.count = None"),
        ("0", "1"),
        ("self.count += 1", "self.count -= 1"),
        ("self.count += 1", "self.count = 1"),
        ("1", "2"),
        ("return self.count", "return None"),
    }


def test_functions_that_exist_become_the_mutant_and_so_do_properties_and_closures(tmp_path, module):
    functions = LiveFunctions(tmp_path)
    mutants = {mutant.after: mutant for mutant in mutants_of(tmp_path, "shop.py")}
    counter = module.Counter()
    assert module.threshold(3) == "below"
    functions.become(compiled(tmp_path, mutants["value >= limit"]))
    with pytest.raises(ValueError, match="3 is above"):
        module.threshold(3)
    functions.become(compiled(tmp_path, mutants["self.count -= 1"]))
    assert module.threshold(3) == "below"
    assert counter.next == -1


def test_a_file_without_functions_to_change_is_an_error(tmp_path):
    with pytest.raises(LookupError, match="no function of elsewhere"):
        LiveFunctions(tmp_path).become(compile(SOURCE, "elsewhere", "exec"))


def endless():
    while True:
        pass


@pytest.mark.parametrize(("work", "limits"), [(endless, (1, 100)), (signal.pause, (100, 1))])
def test_work_that_does_not_end_is_ended_by_the_processor_or_by_the_clock(work, limits):
    def limited():
        _limit(*limits)
        return work()

    works = [("own", lambda: [str(os.getpid())]), ("endless", limited), ("empty", list)]
    answers = dict(side_by_side(works, processes=2))
    assert answers["own"] != [str(os.getpid())]
    assert answers["endless"] is None
    assert answers["empty"] == []


def test_a_process_that_fails_is_an_error_not_an_answer():
    with pytest.raises(RuntimeError, match="broken: the process ended without an answer"):
        list(side_by_side([("broken", lambda: 1 / 0)], processes=1))


def test_of_no_tests_none_fails():
    """Where there are fewer tests than processes."""
    assert _failing([]) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda items: [item.nodeid for item in items],
            "^2 of 2 tests fail without a mutant, such as first$",
        ),
        (lambda items: os.kill(os.getpid(), signal.SIGPROF), "^a test took more than 60 s without a mutant"),
    ],
)
def test_where_tests_fail_or_do_not_end_without_a_mutant_there_is_no_score(
    answer, message, monkeypatch, tmp_path
):
    monkeypatch.setattr(campaign, "_failing", answer)
    names = ["first", "second"]
    tried = Campaign(tmp_path, [(outcome("killed").mutant, names)], 1, say=print, tell=print)
    with pytest.raises(RuntimeError, match=message):
        tried._healthy({name: SimpleNamespace(nodeid=name) for name in names})


def outcome(fate, before="a", after="b"):
    return Outcome(Mutant("path.py", (1, 1), 0, 0, before, after), fate)


def test_the_score_counts_what_no_test_runs_and_leaves_out_what_is_not_possible():
    fates = ["killed"] * 6 + ["timed out"] * 2 + ["survived", "not run", "not possible"]
    [row] = scores({"replay": [outcome(fate) for fate in fates]}).rows
    assert row == ["replay", "10", "6", "2", "1", "1", "80.0%", "49.0% to 94.3%"]


def test_a_difference_is_shown_without_what_is_far_from_it():
    line = "f(first_argument_of_many, second_argument, third_argument, and_the_last_argument_of_all)"
    before, after = difference(Mutant("path.py", (1, 1), 0, 0, line, line.replace("second_argument", "None")))
    assert before == "…first_argument_of_many, second_argument, third_argument, and_th…"
    assert after == "…first_argument_of_many, None, third_argument, and_th…"
