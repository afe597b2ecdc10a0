"""No identifier keeps a retired name in its retired meaning, and no two classes share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("her_envs", "her_wrappers", "her_agents")
FOLDERS = (*PACKAGES, "tests", "examples", "benchmarks")

CLASSES = frozenset({"class"})
FUNCTIONS = frozenset({"function"})
VALUES = frozenset({"argument", "attribute", "variable"})
ALL_KINDS = CLASSES | FUNCTIONS | VALUES


@dataclass(frozen=True)
class Rule:
    """Names that must not be used any more, with or without a leading underscore.

    Attributes:
        retired: The replaced names, separated by spaces.
        use: The current names, for the message.
        kinds: The kinds of identifiers that must not have these names.
        folders: The folders in which the names must not occur.
    """

    retired: str
    use: str
    kinds: frozenset[str] = ALL_KINDS
    folders: tuple[str, ...] = FOLDERS


REPLAY = ("her_wrappers/replay",)
REPLAY_AND_ITS_TESTS = (*REPLAY, "tests/her_wrappers/replay")
STORAGE = tuple(f"her_wrappers/replay/{name}.py" for name in ("episode_index", "ring", "storage", "sampling"))
MIXTURES = tuple(f"her_wrappers/replay/{name}.py" for name in ("goal_sampler", "goal_selection", "options"))
SPACES = ("her_wrappers/spaces.py", "her_wrappers/recording", "her_wrappers/integrations", *REPLAY)
AGENTS = ("her_agents", "benchmarks", "examples", "tests/her_agents", "tests/benchmarks")

RULES = (
    # goals and sampling
    Rule("Shares Part Sources", "GoalMixture, MixtureComponent, GoalSampler", CLASSES),
    Rule("part parts", "component", VALUES, MIXTURES),
    Rule("Draws Draw Ahead Located", "BatchSampler, SampledIndices, PrefetchState, StepRefs", CLASSES),
    Rule("skip_trivial", "resample_achieved_goals"),
    # n-step returns
    Rule("Batches Windows", "(part of sample), NStepWindows", CLASSES),
    Rule("add_up end_at until_first", "(part of sample), zero_terminal_discounts, mask_through_first_done"),
    Rule("spread", "repeat_rows", folders=REPLAY_AND_ITS_TESTS),
    # adding and storing
    Rule("Intake Parts Backend Contents", "(the buffer), EpisodeReader", CLASSES),
    Rule("assemble", "(the buffer)", FUNCTIONS),
    Rule("StepTable Oldest", "EpisodeIndex, EvictionPoint"),
    Rule("positions places numbers", "offsets, slots, serials", folders=STORAGE),
    Rule("forget", "invalidate, or reset", FUNCTIONS),
    # the user's functions and terminations
    Rule("NoRelabeling MissingFunctions NoPriorities LostFunction stand_ins", "None and one clear error"),
    Rule("Outcomes", "GoalTransition", CLASSES),
    Rule("ask answers questions", "call_user_function, user_functions", FUNCTIONS, PACKAGES),
    Rule("questions", "user_functions", VALUES, PACKAGES),
    Rule("require_ends", "validate_terminations"),
    Rule("ends learn learned recall", "terminations, fit, state_dict, load_state_dict", FUNCTIONS),
    Rule("studies", "inspects", VALUES, ("her_wrappers",)),
    Rule("Unlearned", "stateless"),
    Rule("other_reason", "goal_independent_termination"),
    Rule("earned if_reached", "rewards_fn, self_goal_rewards_fn"),
    Rule("RowByRow DecidedAtUse", "LoopedGoalFunction, LazilyVectorizedGoalFunction"),
    # spaces and recording
    Rule("share sharable_in part_ways", "deduplicate, find_duplicates, undeduplicate", FUNCTIONS, PACKAGES),
    Rule("looks alone seen", "SpaceSpec", folders=SPACES),
    Rule("Leaves", "SpaceSpec", CLASSES),
    Rule("Timeline OpenEpisode Waiting", "VectorEpisodeAccumulator, EpisodeAccumulator, PendingEpisodes"),
    Rule("blamed draws_alike obstacle", "reraise_as_corrupt, same_sampling, incompatibility"),
    Rule("made_up_steps staged", "dummy_transitions, pin"),
    # checker
    Rule("Tape Start Runner TwinMaker", "Rollout, ResetRecord, RolloutCollector, EnvReplicator", CLASSES),
    Rule("meddle SUPPRESSES Occurrence Glance", "before_step, implies, Violation, WindowEvidence"),
    # pictures, agents and training
    Rule("Take Scene film", "RenderedEpisode, EpisodeRenderer, render_episode", CLASSES | FUNCTIONS),
    Rule("Seen", "NetworkInput", CLASSES),
    Rule("descend follow", "gradient_step, Agent._update_target", FUNCTIONS, AGENTS),
    Rule("explored worth", "add_exploration_noise, target_q", FUNCTIONS),
    Rule("eyes", "image_encoder"),
    Rule("ctrl_c conduct hear", "interrupt_flag, run_all, on_result"),
    Rule("parts", "factories", frozenset({"argument", "attribute"}), ("her_agents",)),
    Rule("Look", "LineStyle", CLASSES),
)

ALLOWED = {
    ("her_wrappers/recording/episodes.py", "ends"): "public Episodes.ends: the last step of each episode",
    (
        "her_wrappers/collecting/backends.py",
        "Backend",
    ): "where the workers of a Collector run: its argument `backend`",
    ("tests/her_wrappers/replay/goals/test_trivial_goals.py", "skip_trivial"): "tests of the deprecated name",
}
"""Reasons for identifiers that have a retired name in another meaning, by file and name."""

CLASS_HOMONYMS: dict[str, str] = {}
"""Reasons for names that several classes have."""

FUNCTION_HOMONYMS = {
    "check_replay": "the command her check-replay calls her_wrappers.conformance.check_replay",
    "make_study": "each study has one",
    "settings": "each study may have one",
    "take_rows": "rows of one array of a ring, and of a tree of arrays",
    "train": "the command her train calls her_agents.train",
}
"""Reasons for names that several public functions of modules have."""


@dataclass(frozen=True)
class Identifier:
    """A name that a file defines or passes as a keyword."""

    path: str
    line: int
    kind: str
    name: str


FIELDS = {
    ast.ClassDef: ("class", "name"),
    ast.FunctionDef: ("function", "name"),
    ast.AsyncFunctionDef: ("function", "name"),
    ast.arg: ("argument", "arg"),
    ast.keyword: ("argument", "arg"),
    ast.Attribute: ("attribute", "attr"),
    ast.Name: ("variable", "id"),
    ast.alias: ("variable", "asname"),
}
"""Kind of identifier and field with its name, by type of node."""


def definitions(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Yield kind, name and line of each identifier that is defined, assigned or passed as a keyword."""
    for node in ast.walk(tree):
        if type(node) in FIELDS and not isinstance(getattr(node, "ctx", None), ast.Load):
            kind, field = FIELDS[type(node)]
            if name := getattr(node, field):
                yield kind, name, node.lineno


def identifiers(folders: tuple[str, ...]) -> Iterator[Identifier]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for kind, name, line in definitions(ast.parse(path.read_text())):
                yield Identifier(path.relative_to(ROOT).as_posix(), line, kind, name.lstrip("_"))


IDENTIFIERS = list(identifiers(FOLDERS))


def violations(rule: Rule) -> list[Identifier]:
    names = rule.retired.split()
    return [
        found
        for found in IDENTIFIERS
        if found.name in names and found.kind in rule.kinds and found.path.startswith(rule.folders)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.retired)
def test_no_identifier_keeps_a_retired_name(rule):
    found = [
        f"{each.path}:{each.line}: {each.kind} {each.name}"
        for each in violations(rule)
        if (each.path, each.name) not in ALLOWED
    ]
    assert not found, f"use {rule.use}:\n" + "\n".join(found)


def test_every_allowed_identifier_exists():
    found = {(each.path, each.name) for rule in RULES for each in violations(rule)}
    assert ALLOWED.keys() <= found


def test_a_retired_name_is_found_whatever_it_names():
    program = """
class _Draws: ...
def film(staged, *, other_reason=0): blamed = staged
self._eyes = buffer(skip_trivial=True)
import her_envs as obstacle
"""
    found = {(kind, name.lstrip("_")) for kind, name, _ in definitions(ast.parse(program))}
    assert found == {
        ("class", "Draws"),
        ("function", "film"),
        ("argument", "staged"),
        ("argument", "other_reason"),
        ("variable", "blamed"),
        ("attribute", "eyes"),
        ("argument", "skip_trivial"),
        ("variable", "obstacle"),
    }


def homonyms(places: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that are defined in several places, with these places."""
    found = defaultdict(list)
    for name, place in places:
        found[name].append(place)
    return {name: each for name, each in found.items() if len(each) > 1}


def assert_homonyms_are(allowed, found):
    unexpected = [f"{name}: {', '.join(places)}" for name, places in found.items() if name not in allowed]
    assert not unexpected, "several definitions have one name:\n" + "\n".join(unexpected)
    assert allowed.keys() == found.keys(), "an allowed homonym does not exist"


def test_no_two_classes_share_a_name():
    classes = (each for each in IDENTIFIERS if each.kind == "class" and each.path.startswith(PACKAGES))
    assert_homonyms_are(CLASS_HOMONYMS, homonyms((each.name, each.path) for each in classes))


def test_no_two_public_functions_share_a_name():
    functions = (
        (node.name, path.relative_to(ROOT).as_posix())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    )
    assert_homonyms_are(FUNCTION_HOMONYMS, homonyms(functions))
