"""Properties of every page: its code runs, its links have targets, its commands have the options shown."""

import functools
import re
import shlex
import sys

import gymnasium as gym
import pytest

import her_envs  # noqa: F401 - before a page, since the registry is restored after each page
from her_wrappers import cli
from tests.support.commands import her
from tests.support.pages import EXAMPLE, PAGES, ROOT, name_of, run_page

TUTORIAL = [
    ROOT / f"docs/tutorial/{name}.md" for name in ("index", "check", "record", "relabel", "train", "watch")
]
OTHER_TESTS = {
    "rllib": "tests/rllib/test_page.py",
    "own_robot": "tests/real_envs/test_own_robot.py",
}
"""Test files of pages whose name differs from that of the page."""

LINK = re.compile(r"\]\((?!https?:)([^)\s]+)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def has_no_own_test(page):
    """Whether the page has code and neither a test file nor a place in the tutorial."""
    own = ROOT / OTHER_TESTS.get(page.stem, f"tests/docs/test_{page.stem}.py")
    return EXAMPLE.search(page.read_text()) is not None and not own.exists() and page not in TUTORIAL


def anchors(page):
    """Return the anchors of the headings of a page."""
    headings = re.findall(
        r"^#+ (.*)", CODE.sub(lambda code: code[0].strip("`"), page.read_text()), re.MULTILINE
    )
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.fixture
def session(tmp_path, monkeypatch):
    """An empty namespace in an empty folder; modules and environments of a page are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules, registry = set(sys.modules), dict(gym.registry)
    yield {}
    gym.registry.clear()
    gym.registry.update(registry)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


SHORT = "steps=320, steps_per_epoch=160, learning_starts=160, updates_per_step=0.05, evaluation_episodes=2"
SHORT_RUN = {
    "steps=1400, steps_per_epoch=700": SHORT,
    "steps=6000, steps_per_epoch=2000": SHORT,
    "check_goal_env(env).raise_if_errors()": "check_goal_env(env, max_steps=300).raise_if_errors()",
    "episodes=100, seed=7": "episodes=4, seed=7",
    "evaluation.success_rate > 0.9": "evaluation.success_rate >= 0",
}


@pytest.mark.parametrize("page", [page for page in PAGES if has_no_own_test(page)], ids=name_of)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, session, capsys):
    run_page(page, session, capsys, SHORT_RUN)


def test_every_change_of_a_page_has_a_place():
    text = "".join(page.read_text() for page in PAGES)
    assert all(old in text for old in SHORT_RUN)


@pytest.mark.parametrize(
    "changes", [SHORT_RUN, pytest.param({}, marks=pytest.mark.campaign)], ids=["short", "all"]
)
def test_the_tutorial_runs_as_one_session(changes, session, capsys):
    for page in TUTORIAL:
        run_page(page, session, capsys, changes)


def test_the_tutorial_has_all_pages_of_its_folder():
    assert sorted(TUTORIAL) == sorted((ROOT / "docs/tutorial").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_has_a_target(page):
    for link in LINK.findall(CODE.sub("", page.read_text())):
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_commands_have_the_options_shown_on_pages():
    shown = re.compile(rf"\bher ({'|'.join(cli.COMMANDS)})(?: ([^`\n]*))?(?=[`\n])")
    known_options = functools.cache(lambda name: set(re.findall(r"--[\w.-]+", her(name, "--help").stdout)))
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which names removed options
    found = [each for page in pages for each in shown.findall(page.read_text())]
    assert len(found) >= 20
    for command, line in found:
        options = {word for word in shlex.split(line, comments=True) if word.startswith("--")}
        assert options <= known_options(command), f"her {command} {line}"
