"""Which file may import which, and what importing the packages costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Each part may import itself and what stands below it; a part is named by the folder or file.
BELOW = {
    "her_envs": set(),
    "her_wrappers.trees": set(),
    "her_wrappers.spaces": {"her_wrappers.trees"},
    "her_wrappers.infos": {"her_wrappers.trees"},
    "her_wrappers.arguments": set(),
    "her_wrappers.user_warning": set(),
    "her_wrappers.autoreset": set(),
    "her_wrappers.success_flag": {"her_wrappers.trees"},
    "her_wrappers.environments": set(),
    "her_wrappers.files": {"her_wrappers.arguments"},
    "her_wrappers.goal_interface": {
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.user_warning",
    },
    "her_wrappers.checker": {
        "her_wrappers.infos",
        "her_wrappers.trees",
        "her_wrappers.arguments",
        "her_wrappers.user_warning",
        "her_wrappers.autoreset",
        "her_wrappers.success_flag",
        "her_wrappers.goal_interface",
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
        "her_wrappers.goal_interface",
        "her_wrappers.recording",
    },
    "her_wrappers.conformance": {
        "her_wrappers.arguments",
        "her_wrappers.checker",
        "her_wrappers.recording",
        "her_wrappers.replay",
        "her_wrappers.integrations",
    },
    "her_wrappers.integrations": {
        "her_wrappers.infos",
        "her_wrappers.spaces",
        "her_wrappers.trees",
        "her_wrappers.user_warning",
        "her_wrappers.goal_interface",
        "her_wrappers.recording",
        "her_wrappers.replay",
    },
}

# The modules of the replay buffer: each may import the ones before it.
REPLAY = (
    "byte_rows",
    "torch_records",
    "batch",
    "rewards",
    "terminations",
    "goal_selection",
    "episode_index",
    "layout",
    "n_step",
    "storage",
    "goal_sampler",
    "sum_tree",
    "relabeling",
    "torch_backend",
    "prioritized",
    "sampling",
    "stored_episodes",
    "options",
    "episode_buffer",
    "checkpoint",
    "buffer",
)


ABOVE = ("her_wrappers.cli", "her_wrappers.commands")
"""The command line, which nothing imports."""


def part_of(module: str) -> str | None:
    """The part of ours that a module belongs to."""
    if module.split(".", maxsplit=1)[0] == "her_agents":
        return "her_agents"
    if module.split(".", maxsplit=1)[0] == "her_envs":
        return "her_envs"
    return ".".join(module.split(".")[:2]) if module.split(".", maxsplit=1)[0] == "her_wrappers" else None


def imported_modules(path: Path) -> set[str]:
    """All modules that a file imports, inside functions and for type checking too."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            modules.add(str(node.module))
    return modules


FILES = sorted(
    path for name in ("her_envs", "her_wrappers", "her_agents") for path in ROOT.glob(f"{name}/**/*.py")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    part = part_of(module)
    if part in {"her_wrappers", "her_wrappers.cli", "her_wrappers.commands"}:  # these see everything
        return
    imported = {part_of(name) for name in imported_modules(path)} - {None}
    if part == "her_agents":
        assert not imported & set(ABOVE)
    else:
        assert imported <= BELOW[part] | {part}


def test_only_commands_load_the_agents_and_only_when_they_run():
    for path in ROOT.glob("her_wrappers/**/*.py"):
        if "her_agents" in {name.split(".")[0] for name in imported_modules(path)}:
            assert path.parent.name == "commands"
            assert path.stem in {"train", "watch", "reproduce"}
    code = "import sys, her_wrappers.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.is_relative_to(ROOT / "her_wrappers" / "replay")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_imports_inside_the_replay_buffer_run_one_way(path):
    part = path.relative_to(ROOT / "her_wrappers" / "replay").with_suffix("").parts[0]
    if part == "__init__":
        return
    names = [name.split(".") for name in imported_modules(path)]
    inside = {name[2] for name in names if name[:2] == ["her_wrappers", "replay"]}
    assert inside <= {*REPLAY[: REPLAY.index(part)], part}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_package_imports_what_stands_around_it(path):
    around = {"examples", "benchmarks", "tests"}
    assert not around & {name.split(".")[0] for name in imported_modules(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_canvas_knows_pygame(path):
    if path.name != "canvas.py":
        assert "pygame" not in imported_modules(path)


def test_the_files_of_her_envs_import_each_other_without_a_cycle():
    """Imports for type checking count too."""
    files = {f"her_envs.{path.stem}": path for path in (ROOT / "her_envs").glob("*.py")}
    imports = {module: imported_modules(path) & files.keys() for module, path in files.items()}
    list(TopologicalSorter(imports).static_order())  # raises CycleError


@pytest.mark.parametrize(
    "package", ["her_envs", "her_wrappers", "her_agents", "her_wrappers.integrations.minari"]
)
def test_importing_a_package_imports_no_extra(package):
    code = (
        f"import sys, {package}; sys.exit(bool({{'torch', 'pygame', 'minari', 'h5py'}} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
