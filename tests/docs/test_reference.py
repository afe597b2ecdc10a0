"""The reference has every public name with its members, every command, and every name of a type."""

import inspect
import re
from importlib import import_module

import pytest

import her_agents
import her_envs
import her_wrappers
from her_wrappers import checker
from her_wrappers.goals import repairs
from tests.support.pages import ROOT

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

PACKAGES = {"her_envs", "her_wrappers", "her_agents"}
PAGES = {page: page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")}
INDEX = PAGES[ROOT / "docs" / "reference" / "index.md"]
OTHER = ("lerobot", "rllib", "torchrl")
ENTRIES = {
    name: options
    for text in PAGES.values()
    for name, options in re.findall(r"^::: (\S+)\n(?:    options: (.*))?", text, re.MULTILINE)
    if not name.startswith(tuple(f"her_wrappers.integrations.{other}" for other in OTHER))
}
"""Full names of all entries, with their options; those of `OTHER` packages have tests of their own."""


def value_of(name):
    """Return the object that an entry of the reference names."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


VALUES = {name: value_of(name) for name in ENTRIES}
CLASSES = {name: value for name, value in VALUES.items() if inspect.isclass(value)}


def own_members(value):
    """The public functions and properties that a class defines, without inherited ones."""
    members = {name: member for name, member in vars(value).items() if not name.startswith("_")}
    return {
        name: getattr(member, "__func__", getattr(member, "fget", member))
        for name, member in members.items()
        if callable(member) or isinstance(member, property | classmethod | staticmethod)
    }


def hidden_bases(value):
    """The bases of a class that have no entry, except those of repairs."""
    bases = [base for base in value.__mro__[1:] if base.__module__.split(".")[0] in PACKAGES]
    return [base for base in bases if base not in CLASSES.values() and base.__module__ != repairs.__name__]


def test_every_public_name_has_an_entry():
    wrappers = {
        name
        for name, value in vars(repairs).items()
        if getattr(value, "__module__", "") == repairs.__name__ and not name.startswith("_")
    }
    last = {name.rpartition(".")[2] for name in ENTRIES}
    names = {*her_envs.__all__, *her_wrappers.__all__, *her_agents.__all__, *checker.__all__, *wrappers}
    assert names <= last
    assert len(last) == len(ENTRIES), "links in docstrings use the last component of a name"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_shows_members_inherited_from_a_base_without_an_entry(name):
    """Base classes of repairs are excluded, since repairs inherit only Gymnasium's reset and step."""
    value = CLASSES[name]
    inherited = {member for base in hidden_bases(value) for member in own_members(base)}
    inherited -= own_members(value).keys()
    if "members: false" not in ENTRIES[name]:
        shown = re.search(r"inherited_members: \[(.*?)\]", ENTRIES[name])
        assert inherited == (set(shown[1].split(", ")) if shown else set())


def names_in_annotations():
    """The names of types in the signatures of the reference."""
    shown = [value for name, value in VALUES.items() if name not in CLASSES]
    for value in CLASSES.values():
        shown += [value.__init__, *own_members(value).values()]
        shown += [member for base in hidden_bases(value) for member in own_members(base).values()]
    annotations = [note for each in shown for note in inspect.get_annotations(each).values()]
    return {name for note in annotations for name in re.findall(r"\b[A-Z]\w+", str(note))}


def test_every_type_name_of_the_packages_has_a_row():
    sources = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).glob("**/*.py"))
    aliases = dict(re.findall(r"^ *([A-Z]\w+)(?:: TypeAlias)? = (.*)$", sources, re.MULTILINE))
    ours = aliases.keys() | set(re.findall(r"^class ([A-Z]\w+)", sources, re.MULTILINE))
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", INDEX, re.MULTILINE))
    assert rows.keys() == (names_in_annotations() & ours) - {name.rpartition(".")[2] for name in ENTRIES}
    for name in rows.keys() & aliases.keys():
        if aliases[name].startswith("Literal["):
            assert ", ".join(re.findall("`(.*?)`", rows[name])) == aliases[name][len("Literal[") : -1]
