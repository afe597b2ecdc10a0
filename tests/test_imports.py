"""Allowed imports between modules, and modules that the packages must not import."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Each module or folder may import itself and the modules listed for it.
ALLOWED_IMPORTS = {
    "her_envs": set(),
    "her_wrappers.trees": set(),
    "her_wrappers.spaces": {"her_wrappers.trees"},
    "her_wrappers.infos": {"her_wrappers.trees"},
    "her_wrappers.rules": set(),
    "her_wrappers.arguments": set(),
    "her_wrappers.user_warning": set(),
    "her_wrappers.autoreset": set(),
    "her_wrappers.success_flag": {"her_wrappers.trees"},
    "her_wrappers.environments": {"her_wrappers.checker"},
    "her_wrappers.files": {"her_wrappers.arguments"},
    "her_wrappers.goal_functions": {
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.user_warning",
    },
    "her_wrappers.goal_interface": {
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.goal_functions",
    },
    "her_wrappers.checker": {
        "her_wrappers.infos",
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.user_warning",
        "her_wrappers.autoreset",
        "her_wrappers.success_flag",
        "her_wrappers.goal_interface",
        "her_wrappers.rules",
    },
    "her_wrappers.adapters": {
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.success_flag",
        "her_wrappers.goal_interface",
    },
    "her_wrappers.recording": {
        "her_wrappers.infos",
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.user_warning",
        "her_wrappers.autoreset",
        "her_wrappers.files",
        "her_wrappers.goal_interface",
    },
    "her_wrappers.replay": {
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.user_warning",
        "her_wrappers.arguments",
        "her_wrappers.files",
        "her_wrappers.goal_functions",
        "her_wrappers.goal_interface",
        "her_wrappers.recording",
    },
    "her_wrappers.collecting": {
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.autoreset",
        "her_wrappers.recording",
    },
    "her_wrappers.conformance": {
        "her_wrappers.arguments",
        "her_wrappers.checker",
        "her_wrappers.recording",
        "her_wrappers.replay",
        "her_wrappers.integrations",
    },
    "her_wrappers.diagnosis": {
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.files",
        "her_wrappers.success_flag",
        "her_wrappers.goal_interface",
        "her_wrappers.environments",
        "her_wrappers.checker",
        "her_wrappers.recording",
        "her_wrappers.replay",
    },
    "her_wrappers.integrations": {
        "her_wrappers.arguments",
        "her_wrappers.infos",
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.user_warning",
        "her_wrappers.success_flag",
        "her_wrappers.goal_interface",
        "her_wrappers.recording",
        "her_wrappers.replay",
    },
}

COMMAND_LINE = ("her_wrappers.cli", "her_wrappers.commands")
"""Modules that no other module imports."""


def component_of(module: str) -> str | None:
    """Return the key of `ALLOWED_IMPORTS` to which a module belongs, or None for other packages."""
    if module.split(".", maxsplit=1)[0] == "her_agents":
        return "her_agents"
    if module.split(".", maxsplit=1)[0] == "her_envs":
        return "her_envs"
    return ".".join(module.split(".")[:2]) if module.split(".", maxsplit=1)[0] == "her_wrappers" else None


def imported_modules(path: Path, *, in_functions: bool = True) -> set[str]:
    """Return all modules that a file imports, also for type checking and, by default, in functions."""
    modules: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    for node in nodes:  # grows in the loop
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            modules.add(str(node.module))
        if in_functions or not isinstance(node, ast.FunctionDef):
            nodes += ast.iter_child_nodes(node)
    return modules


FILES = sorted(
    path for name in ("her_envs", "her_wrappers", "her_agents") for path in ROOT.glob(f"{name}/**/*.py")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_in_one_direction(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    component = component_of(module)
    if component in {"her_wrappers", "her_wrappers.cli", "her_wrappers.commands"}:  # may import all modules
        return
    imported = {component_of(name) for name in imported_modules(path)} - {None}
    if component == "her_agents":
        assert not imported & set(COMMAND_LINE)
    else:
        assert imported <= ALLOWED_IMPORTS[component] | {component}


def test_only_commands_load_the_agents_and_only_when_they_run():
    for path in ROOT.glob("her_wrappers/**/*.py"):
        if "her_agents" in {name.split(".")[0] for name in imported_modules(path)}:
            assert path.parent.name == "commands"
            assert path.stem in {"train", "watch", "reproduce"}
    code = "import sys, her_wrappers.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_package_imports_tests_examples_or_benchmarks(path):
    others = {"examples", "benchmarks", "tests"}
    assert not others & {name.split(".")[0] for name in imported_modules(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_canvas_imports_pygame(path):
    if path.name != "canvas.py":
        assert "pygame" not in imported_modules(path)


@pytest.mark.parametrize("folder", ["her_envs", "her_wrappers/recording", "her_wrappers/replay"])
def test_files_of_a_folder_import_each_other_without_a_cycle(folder):
    """Imports for type checking are included, imports inside of functions are not."""
    package = folder.replace("/", ".")
    files = {f"{package}.{path.stem}": path for path in (ROOT / folder).glob("*.py")}
    imports = {
        module: imported_modules(path, in_functions=False) & files.keys() for module, path in files.items()
    }
    list(TopologicalSorter(imports).static_order())  # raises CycleError


@pytest.mark.parametrize(
    "package",
    ["her_envs", "her_wrappers", "her_agents", "her_wrappers.collecting", "her_wrappers.integrations.minari"],
)
def test_importing_a_package_imports_no_extra(package):
    extras = {"torch", "pygame", "minari", "h5py", "ray"}
    code = f"import sys, {package}; sys.exit(bool({extras} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
