"""The page on simulators has valid arguments. `make simulators` runs its code for mjlab and Brax."""

import ast
import inspect

from her_wrappers.simulators import GoalSimulator
from tests.support.pages import EXAMPLE, ROOT

PAGE = (ROOT / "docs" / "simulators.md").read_text()
PRESETS = {"isaaclab", "mjlab", "maniskill", "brax", "genesis"}


def test_presets_and_arguments_of_the_page_exist():
    known, shown = inspect.signature(GoalSimulator).parameters.keys(), set()
    for example in EXAMPLE.finditer(PAGE):
        for call in ast.walk(ast.parse(example["code"])):
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            if name.startswith("GoalSimulator"):
                preset = name.partition(".")[2]
                function = getattr(GoalSimulator, preset) if preset else GoalSimulator
                names = {each.arg for each in call.keywords}
                assert names <= known | inspect.signature(function).parameters.keys(), name
                shown.add(preset)
    assert shown == PRESETS | {""}


def test_the_table_names_existing_presets():
    for name in PRESETS | {"playground", "vector_env"}:
        assert callable(getattr(GoalSimulator, name))
        assert f".{name}`" in PAGE
