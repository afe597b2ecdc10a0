"""Print lines, docstring lines and comment lines of each part of the repository, and its budget of lines.

python tools/size.py
python tools/size.py --against 6ae50eb   # also the lines at a commit
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = {  # of lines; a part is a folder without the folders that are parts themselves
    "her_wrappers + her_wrappers/goals + her_wrappers/data + her_wrappers/support": 3_050,
    "her_wrappers/recording": 2_500,
    "her_wrappers/replay": 3_450,
    "her_wrappers/checker": 3_850,
    "her_wrappers/simulators": 480,
    "her_wrappers/conformance": 2_500,
    "her_wrappers/diagnosis": 2_050,
    "her_wrappers/collecting": 920,
    "her_wrappers/integrations": 2_450,
    "her_wrappers/commands + her_wrappers/cli.py": 2_000,
    "her_agents": 4_700,
    "her_envs": 2_180,
    # The additions are for later capabilities: causes of errors, simulators, graphs of updates, robots.
    "wheel": 29_900 + 700 + 1_100 + 500 + 900,
    "tests": 26_500,
    "benchmarks + tools": 6_600,
}
PARTS = {path: part for part in BUDGETS for path in part.split(" + ")}
WHEEL = ("her_envs", "her_wrappers", "her_agents")


def part_of(file: str) -> str:
    """Return the part that a file belongs to (the longest matching path decides), or an empty string."""
    places = [path for path in PARTS if file == path or file.startswith(f"{path}/")]
    return PARTS[max(places, key=len)] if places else ""


def count(source: str) -> tuple[int, int, int]:
    """Return the numbers of lines, of docstring lines and of lines with a comment."""
    scopes = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node.body[0] for node in ast.walk(ast.parse(source)) if isinstance(node, scopes) and node.body]
    texts = [node for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    docstrings = sum((text.end_lineno or text.lineno) - text.lineno + 1 for text in texts)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return source.count("\n"), docstrings, sum(token.type == tokenize.COMMENT for token in tokens)


def sizes(files: dict[str, str]) -> dict[str, tuple[int, int, int]]:
    """Return the counts of `count` for each part, and for all packages of the wheel together."""
    total = dict.fromkeys(BUDGETS, (0, 0, 0))
    for file, source in files.items():
        for part in {part_of(file), "wheel" if file.startswith(WHEEL) else ""} & total.keys():
            total[part] = tuple(map(sum, zip(total[part], count(source), strict=True)))  # type: ignore[assignment]
    return total


def files_now() -> dict[str, str]:
    """Return the source of each Python file of the working tree that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).exists()}


def files_at(commit: str) -> dict[str, str]:
    """Return the source of each Python file at a commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [member for member in tar if member.isfile() and member.name.endswith(".py")]
        return {member.name: tar.extractfile(member).read().decode() for member in members}  # type: ignore[union-attr]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="COMMIT", help="also print the lines at this commit")
    commit = parser.parse_args().against
    now, before = sizes(files_now()), sizes(files_at(commit)) if commit else {}
    print(
        f"| part | {'lines at ' + commit + ' | ' if commit else ''}lines | budget | docstrings | comments |"
    )
    print("|---|" + "---:|" * (5 if commit else 4))
    for part, budget in BUDGETS.items():
        lines, docstrings, comments = now[part]
        earlier = f"{before[part][0]:,} | " if commit else ""
        over = " (over)" if lines > budget else ""
        print(f"| {part} | {earlier}{lines:,}{over} | {budget:,} | {docstrings:,} | {comments:,} |")


if __name__ == "__main__":
    main()
