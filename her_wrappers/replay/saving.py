"""Saving and loading of buffers.

A file has arrays and a JSON header. The arrays contain blocks of episodes, the priorities, the episodes that
`add` has begun but not ended, and the bytes of a second buffer file with the demonstrations.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from her_wrappers.data import Json
from her_wrappers.data.arrays import ArrayFile, as_corrupt, write_arrays
from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.data.trees import path_name
from her_wrappers.goals.interface import AnyEnv, goal_spaces, require_goal_space
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.space_json import space_from_json, space_to_json
from her_wrappers.replay.demonstrations import MixedReplay, options_of_demonstrations
from her_wrappers.replay.options import (
    FUNCTIONS,
    SAMPLING,
    SAVED,
    BufferOptions,
    functions_missing,
    merged_options,
    option_from_json,
    options_to_json,
    relabels,
    without_removed,
)
from her_wrappers.replay.relabeled_replay import RelabeledReplay
from her_wrappers.replay.relabeling import SeenRewards
from her_wrappers.replay.rows import RowStorage, row_bytes

KIND = "replay buffer"
VERSION = 5  # version of the format; files of other versions are rejected
SPACES = ("observation_space", "action_space")


def save_buffer(path: str | os.PathLike[str], buffer: Any) -> None:
    """Write a buffer to a file; see `HindsightReplayBuffer.save`."""
    replay, demonstrations = buffer._replay, buffer.demonstrations
    storage, priorities, stored = replay.storage, replay.priorities, replay.storage.stored
    blocks = storage.episode_blocks()
    is_single, lengths, open_episodes = buffer._open_episodes.copy()
    options = options_to_json(replay.options)
    relabeler: dict[str, Json] | None = None
    if replay.relabeler is not None:
        seen = replay.relabeler.seen
        relabeler = {"termination": replay.relabeler.rule.mode, "warned": sorted(replay.checks.warned)}
        relabeler |= {"achieved_reward": seen.achieved, "missed_reward": seen.missed}
    header = {
        **{name: space_to_json(getattr(buffer, name)) for name in SPACES},
        "options": options | {"demonstrations": buffer._replay.share},
        "functions": sorted(set(SAVED) - options.keys()),
        "first": stored.first - len(demonstrations or ()),  # counted from the end of the demonstrations
        "relabeler": relabeler,
        "sampler": replay.sampler_state(),
        "largest_priority": None if priorities is None else priorities.largest,
        "open": {"is_single": is_single, "lengths": lengths.tolist()},
        "attachment": buffer._attachment,
        "demonstrations": demonstrations and buffer._replay.share_rng.bit_generator.state,
        "blocks": len(blocks),
    }

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        for number, block in enumerate(blocks):
            episodes, goal_independent = storage.read_episodes(int(block[0]), int(block[-1]))
            yield from _episode_arrays(f"{number}/", storage, episodes, goal_independent)
        if priorities is not None:
            priorities.set_stored(stored.first, stored.end)
            yield "priorities", priorities.scaled(np.arange(stored.first, stored.end))
        if open_episodes is not None:
            flags = np.zeros(len(open_episodes.lengths), np.bool_)
            yield from _episode_arrays("open/", storage, open_episodes, flags)
        if demonstrations is not None:
            yield "demonstrations", np.frombuffer(to_bytes(demonstrations), np.uint8)

    write_arrays(path, arrays(), header, kind=KIND, version=VERSION)


def _episode_arrays(
    prefix: str, storage: RowStorage, episodes: Episodes, goal_independent: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names and arrays in which ``episodes`` are saved. Repeated desired goals are saved once."""
    flags = np.array([episodes.terminated, episodes.truncated, goal_independent])
    yield from ((f"{prefix}{name}", getattr(episodes, name)) for name in ("rewards", "lengths"))
    yield f"{prefix}flags", flags
    leaves = [leaf.find(episodes.observations, "") for leaf in storage.observations]
    is_desired = [leaf.path[0] == "desired_goal" for leaf in storage.observations]
    begins = np.zeros(len(leaves[0]), np.bool_)
    begins[0] = True
    for values in itertools.compress(leaves, is_desired):
        rows = row_bytes(values)
        begins[1:] |= rows[1:] != rows[:-1]
    yield f"{prefix}goal_lengths", np.diff(begins.nonzero()[0], append=len(begins))
    left_out = set() if prefix == "open/" else storage.equal_to_goal
    for number, values in enumerate(leaves):
        if number not in left_out:
            yield f"{prefix}observation {number}", values[begins] if is_desired[number] else values
    for number, leaf in enumerate(storage.actions):
        yield f"{prefix}action {number}", leaf.find(episodes.actions, "")
    for key, column in episodes.infos.items():
        yield f"{prefix}info {key}", column


def _read_episodes(
    file: ArrayFile, prefix: str, storage: RowStorage, info_keys: Sequence[str]
) -> tuple[Episodes, np.ndarray]:
    """Return the episodes and the ``goal_independent``, (n,) bool, that `_episode_arrays` saved."""
    names = ("rewards", "lengths", "flags", "goal_lengths")
    rewards, lengths, flags, counts = (file.read(prefix + name) for name in names)
    observations = []
    goal = next(i for i, leaf in enumerate(storage.observations) if leaf.path[0] == "achieved_goal")
    for number, leaf in enumerate(storage.observations):
        name = f"{prefix}observation {number}"  # not in the file if it equals the achieved goal
        values = file.read(name if name in file.arrays else f"{prefix}observation {goal}")
        observations.append(values.repeat(counts, 0) if leaf.path[0] == "desired_goal" else values)
    actions = [file.read(f"{prefix}action {number}") for number in range(len(storage.actions.leaves))]
    episodes = Episodes(
        observations=storage.observations.build(observations),
        actions=storage.actions.build(actions),
        rewards=rewards,
        lengths=lengths,
        terminated=flags[0],
        truncated=flags[1],
        infos={key: file.read(f"{prefix}info {key}") for key in info_keys},
    )
    return episodes, flags[2]


class Header(NamedTuple):
    """The header of a file."""

    content: dict[str, Any]  # the JSON, without removed options
    spaces: list[Any]  # of observations and actions
    options: dict[str, Any]  # without demonstrations; `functions_missing` in place of functions


def _reading(file: ArrayFile) -> Any:
    """Return a context manager that converts errors in its block to `CorruptFileError`."""
    return as_corrupt(f"{file.path} is damaged: its content is not a replay buffer")


def _read_header(file: ArrayFile, given: Mapping[str, Any]) -> Header:
    """Return the header of a file; ``given`` are the arguments of `load`."""
    with _reading(file):
        saved = dict(file.header["options"])
    content = file.header | {"options": without_removed(saved, given)}
    with _reading(file):
        found = [space_from_json(content[name]) for name in SPACES]
        require_goal_space(found[0])
        options: dict[str, Any] = dict.fromkeys(content["functions"], functions_missing)
        options |= {name: option_from_json(saved[name]) for name in SAVED if name in saved}
    return Header(content, found, options)


def load_buffer(cls: Any, path: str | os.PathLike[str], env: AnyEnv | None, given: Mapping[str, Any]) -> Any:
    """Read a buffer of the class ``cls`` from a file; see `HindsightReplayBuffer.load`."""
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header = _read_header(file, given)
        content, share = header.content, header.content["options"].get("demonstrations")
        if env is not None:
            _require_same_spaces(header.spaces, goal_spaces(env), "env")
        buffer = _make_buffer(cls, header, env, given)
        if share is not None and buffer.demonstrations is None:  # they were not given again
            options = buffer._replay.options
            demonstrations = _load_demonstrations(options, file, given)
            own_spaces = buffer.observation_space, buffer.action_space
            mixed = MixedReplay(*own_spaces, options, demonstrations, share)
            if "seed" not in given:
                with _reading(file):
                    mixed.share_rng.bit_generator.state = content["demonstrations"]
            buffer._set_up(mixed)
        _restore(buffer._replay, file, header, given)
        with _reading(file):
            buffer._attachment = dict(content["attachment"])
            is_single, lengths = content["open"]["is_single"], np.array(content["open"]["lengths"])
            if lengths.any():
                storage, info_keys = buffer._replay.storage, header.options["info_keys"]
                episodes, _ = _read_episodes(file, "open/", storage, info_keys)
        if lengths.any():
            buffer._open_episodes.resume(is_single, lengths, episodes)
    return buffer


def _make_buffer(cls: Any, header: Header, env: AnyEnv | None, given: Mapping[str, Any]) -> Any:
    """Return an empty buffer. Without ``env`` and without given functions, it cannot relabel."""
    arguments = merged_options(header.options, given)
    if not relabels(arguments):
        return cls(*header.spaces, **arguments)
    if env is None and all(arguments.get(name) is None for name in FUNCTIONS):
        return cls(*header.spaces, **arguments | {"compute_reward": functions_missing})
    for name, value in arguments.items():
        if value is functions_missing:
            fix = f"pass {name}= to load()"
            raise ValueError(f"the buffer had a function as {name}, which its file does not contain; {fix}")
    return cls(*header.spaces, **arguments) if env is None else cls.for_env(env, **arguments)


def _load_demonstrations(own: BufferOptions, file: ArrayFile, given: Mapping[str, Any]) -> RelabeledReplay:
    """Return the demonstrations in the file of a buffer with the options ``own``."""
    content = file.read("demonstrations").tobytes()
    with _as_file(content) as path, ArrayFile(path, kind=KIND, version=VERSION) as inner:
        header = _read_header(inner, given)
        sizes = {name: header.options[name] for name in ("buffer_size", "info_keys")}
        observation_space, action_space = header.spaces
        options = options_of_demonstrations(own, **sizes)
        replay = RelabeledReplay(observation_space, action_space, options)
        _restore(replay, inner, header, given)
    return replay


def _restore(replay: RelabeledReplay, file: ArrayFile, header: Header, given: Mapping[str, Any]) -> None:
    """Fill an empty replay with the episodes, priorities and states in a file."""
    storage, priorities, relabeler = replay.storage, replay.priorities, replay.relabeler
    content, saved = header.content, header.options
    is_inspected = True  # whether the saved flags of episodes are those of the present termination rule
    with _reading(file):
        first = content["first"] + len(replay.demonstrations or ())  # the header counts from their end
        storage.stored = storage.stored._replace(first=first, end=first)
        blocks, state = range(content["blocks"]), content["relabeler"]
        if relabeler is not None and replay.checks is not None:
            mode = state and state["termination"].removesuffix(" by default")  # of older files
            is_inspected = mode == relabeler.rule.mode and "termination" not in given
            if is_inspected:
                replay.checks.warned = set(state["warned"])
                relabeler.seen = SeenRewards(state["achieved_reward"], state["missed_reward"])
    for number in blocks:
        with _reading(file):
            episodes, goal_independent = _read_episodes(file, f"{number}/", storage, saved["info_keys"])
        episodes = storage.validate(episodes)
        if relabeler is not None and not is_inspected:
            goal_independent, relabeler.seen = relabeler.find_goal_independent(episodes)
        storage.add(episodes, goal_independent)
    with _reading(file):
        stored = storage.stored
        if priorities is not None:
            priorities.set_stored(stored.first, stored.end)
            if saved.get("prioritized") is not None:
                scaled, largest = file.read("priorities"), float(content["largest_priority"])
                priorities.restore(scaled, largest, saved["prioritized"])
        if "seed" not in given:
            now, then = options_to_json(replay.options), content["options"]
            is_same = stored.first == first and all(now.get(each) == then.get(each) for each in SAMPLING)
            replay.restore_sampler(content["sampler"] | ({} if is_same else {"batches": 0}))


def load_same(buffer: Any, source: str | os.PathLike[str] | bytes) -> Any:
    """Load a file, or the bytes of a file, with the functions of ``buffer``, whose options must be equal."""
    if isinstance(source, bytes):
        with _as_file(source) as path:
            return load_same(buffer, path)
    with ArrayFile(source, kind=KIND, version=VERSION) as file:
        header = _read_header(file, {})
    _require_same_spaces(header.spaces, [getattr(buffer, name) for name in SPACES], "this buffer")
    options = buffer._replay.options
    mine = options_to_json(options) | {"demonstrations": buffer._replay.share}
    saved = BufferOptions(**{"compute_reward": functions_missing} | header.options)
    theirs = options_to_json(saved) | {"demonstrations": header.content["options"]["demonstrations"]}
    for name in (*SAVED, "demonstrations"):
        here, there = (each.get(name, "a function") for each in (mine, theirs))
        if here != there:
            raise ValueError(
                f"{name} of this buffer must be {there}, as in the saved buffer, got {here}; make this "
                "buffer with the options of the saved buffer"
            )
    names = *(name for name in SAVED if name not in mine), *FUNCTIONS, "device"
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return type(buffer).load(source, **given)


def to_bytes(buffer: Any) -> bytes:
    """Return the content of the file that `save_buffer` writes."""
    with _as_file(b"") as path:
        buffer.save(path)
        return path.read_bytes()


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[Path]:
    """Return the path of a temporary file with ``content``, which exists during the ``with`` block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "buffer")
        path.write_bytes(content)
        yield path


def _require_same_spaces(saved: Sequence[Any], others: Sequence[Any], owner: str) -> None:
    for name, *pair in zip(("observation", "action"), saved, others, strict=True):
        here, there = (leaf_spaces(space, (name,)) for space in pair)
        for path in here | there:
            if here.get(path) != there.get(path):
                raise ValueError(
                    f"{owner} must have the same spaces as the saved buffer, but {path_name(path)} is "
                    f"{there.get(path, 'missing')} in {owner} and {here.get(path, 'missing')} in the saved "
                    "buffer; use the environment with which the saved buffer was recorded"
                )
