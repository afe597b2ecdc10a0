"""Saving and loading of buffers. A file is written as a whole or not at all, and validated when it is read.

A file has arrays and a JSON header. The arrays contain blocks of episodes, the priorities, the episodes that
`add` has begun but not ended, and the bytes of a second buffer file with the demonstrations. The header has
spaces, options, the number of the oldest step, and the states of the relabeler and of the sampler.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.data.arrays import ArrayFile, as_corrupt, write_arrays
from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.data.trees import path_name
from her_wrappers.goals.interface import AnyEnv, goal_spaces, require_goal_space
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.space_json import space_from_json, space_to_json
from her_wrappers.replay.demonstrations import DemonstrationPart
from her_wrappers.replay.options import (
    MAX_SIZE,
    SAMPLING,
    goal_mixture,
    merged_options,
    option_from_json,
    options_to_json,
    require_options,
)
from her_wrappers.replay.rows import RowStorage, row_bytes
from her_wrappers.support.arguments import require_count

KIND = "replay buffer"
VERSION = 5  # version of the format; files of other versions are rejected
SPACES = ("observation_space", "action_space")
OF_THE_OWNER = ("buffer_size", "info_keys", "seed")  # arguments that the inner buffer does not share
# Arguments of a buffer that compute rewards or terminations
FUNCTIONS = ("compute_reward", "reward_fn", "compute_terminated")


def save_buffer(path: str | os.PathLike[str], buffer: Any) -> None:
    """Write a buffer to a file; see `HindsightReplayBuffer.save`."""
    storage, priorities, relabeler = buffer._storage, buffer._priorities, buffer._relabeler
    stored, blocks = storage.stored, storage.episode_blocks()
    is_single, lengths, open_episodes = buffer._open_episodes.copy()
    options = options_to_json(buffer._options)
    options = {name: value for name, value in options.items() if name not in buffer._missing}
    header = {
        **{name: space_to_json(getattr(buffer, name)) for name in SPACES},
        "options": options,
        "functions": sorted(buffer._options.keys() - options.keys()),
        "first": stored.first,
        "relabeler": relabeler and relabeler.state | {"warned": sorted(buffer._checks.warned)},
        "sampler": buffer._sampler.state_dict(),
        "largest_priority": None if priorities is None else priorities.largest,
        "open": {"is_single": is_single, "lengths": lengths.tolist()},
        "attachment": buffer._attachment,
        "demonstrations": buffer._demonstrations and buffer._demonstrations.generator_state,
        "blocks": len(blocks),
    }

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        for number, block in enumerate(blocks):
            episodes, goal_independent = storage.read_episodes(int(block[0]), int(block[-1]))
            yield from _episode_arrays(f"{number}/", storage, episodes, goal_independent)
        if priorities is not None:
            priorities.follow(stored.first, stored.end)
            yield "priorities", priorities.scaled(np.arange(stored.first, stored.end))
        if open_episodes is not None:
            flags = np.zeros(len(open_episodes.lengths), np.bool_)
            yield from _episode_arrays("open/", storage, open_episodes, flags)
        if buffer.demonstrations is not None:
            yield "demonstrations", np.frombuffer(to_bytes(buffer.demonstrations), np.uint8)

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
    for number, values in enumerate(leaves):
        if prefix == "open/" or number not in storage.equal_to_goal:
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
    states = rewards.size + lengths.size
    if counts.dtype.kind != "i" or not ((counts > 0) & (counts <= states)).all() or counts.sum() != states:
        expected = f"positive integers with the sum {states}"
        raise ValueError(f"'goal_lengths' in the file must be {expected}, got {counts.tolist()}")
    if flags.shape != (3, lengths.size) or flags.dtype != np.bool_:
        got = f"dtype {flags.dtype} and shape {flags.shape}"
        raise ValueError(f"'flags' in the file must be bools of shape {(3, lengths.size)}, got {got}")
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


def load_buffer(cls: Any, path: str | os.PathLike[str], env: AnyEnv | None, given: Mapping[str, Any]) -> Any:
    """Read a buffer of the class ``cls`` from a file; see `HindsightReplayBuffer.load`."""
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header, damaged = file.header, f"{path} is damaged: its content is not a replay buffer"
        with as_corrupt(damaged):
            spaces = [space_from_json(header[name]) for name in SPACES]
            described = header["options"].items()
            saved = {name: option_from_json(value) for name, value in described if name != "demonstrations"}
            size = require_options(cls.__init__.__kwdefaults__ | saved)["buffer_size"]
            state, info_keys = header["relabeler"], saved["info_keys"]
            if not {"goal_selection_strategy", "termination"} >= set(header["functions"]):
                raise ValueError(f"'functions' in the header has an unknown name: {header['functions']}")
            rule = None if state is None else state["termination"]
            first, blocks = (require_count(name, header[name], at_least=0) for name in ("first", "blocks"))
            if first > MAX_SIZE:
                raise ValueError(f"'first' in the header must be at most {MAX_SIZE}, got {first}")
            require_goal_space(spaces[0])
            lengths = [require_count("lengths", each, at_least=0) for each in header["open"]["lengths"]]
        if env is not None:
            _require_same_spaces(spaces, goal_spaces(env), "env")
        arguments, functions = merged_options(saved, given), set(header["functions"])
        buffer = _make_buffer(cls, spaces, env, arguments, functions)
        _require_room(max((each for each in lengths if each <= size), default=0), buffer.buffer_size)
        storage, priorities, relabeler = buffer._storage, buffer._priorities, buffer._relabeler
        storage.stored = storage.stored._replace(first=first, end=first)
        is_inspected = relabeler is None or (rule == relabeler.termination and "termination" not in given)
        if relabeler is not None and is_inspected:
            with as_corrupt(damaged):
                relabeler.load_state(state)
                buffer._checks.warned = set(map(str, state["warned"]))
        for number in range(blocks):
            with as_corrupt(damaged):
                episodes, goal_independent = _read_episodes(file, f"{number}/", storage, info_keys)
                longest = int(episodes.lengths.max())
                if longest <= buffer.buffer_size or longest > size:
                    episodes = storage.validate(episodes)
            _require_room(longest, buffer.buffer_size)
            storage.add(episodes, goal_independent if is_inspected else relabeler.goal_independent(episodes))
        with as_corrupt(damaged):
            stored = storage.stored
            if priorities is not None:
                priorities.follow(stored.first, stored.end)
                if saved["prioritized"] is not None:
                    priorities.restore(
                        file.read("priorities"), float(header["largest_priority"]), saved["prioritized"]
                    )
            if "seed" not in given:
                now, then = options_to_json(buffer._options), header["options"]
                is_same = stored.first == first and all(now.get(each) == then.get(each) for each in SAMPLING)
                buffer._sampler.load_state_dict(header["sampler"] | ({} if is_same else {"batches": 0}))
            buffer._attachment = dict(header["attachment"])
            if any(lengths):
                buffer._open_episodes.resume(
                    bool(header["open"]["is_single"]),
                    np.array(lengths),
                    _read_episodes(file, "open/", storage, info_keys)[0],
                )
            _restore_demonstrations(buffer, file, env, given)
    return buffer


def _require_room(length: int, buffer_size: int) -> None:
    if length > buffer_size:
        fit = f"an episode must fit the buffer of {buffer_size} transitions, got {length} steps"
        raise ValueError(f"{fit}; pass a larger buffer_size=")


def load_same(buffer: Any, source: str | os.PathLike[str] | bytes) -> Any:
    """Load a buffer from a file, or from the bytes of a file. Functions are taken from ``buffer``.

    Raise ValueError if a saved option or space differs from the same option or space of ``buffer``.
    """
    if isinstance(source, bytes):
        return _read_bytes(source, lambda path: load_same(buffer, path))
    damaged = f"{source} is damaged: its content is not a replay buffer"
    with ArrayFile(source, kind=KIND, version=VERSION) as file, as_corrupt(damaged):
        saved = dict(file.header["options"])
        spaces = [space_from_json(file.header[name]) for name in SPACES]
    _require_same_spaces(spaces, [getattr(buffer, name) for name in SPACES], "this buffer")
    mine = options_to_json(buffer._options)
    for name in buffer._options:
        here, there = (options.get(name, "a function") for options in (mine, saved))
        if here != there:
            raise ValueError(
                f"{name} of this buffer must be {there}, as in the saved buffer, got {here}; make this "
                "buffer with the options of the saved buffer"
            )
    functions = {name: value for name, value in buffer._options.items() if name not in mine}
    return type(buffer).load(source, **buffer._arguments, **functions)


def to_bytes(buffer: Any) -> bytes:
    """Return the content of the file that `save_buffer` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "buffer")
        buffer.save(path)
        return path.read_bytes()


def _restore_demonstrations(
    buffer: Any, file: ArrayFile, env: AnyEnv | None, given: Mapping[str, Any]
) -> None:
    """Restore the saved demonstrations; do nothing if the file has none, or if others are ``given``."""
    share = file.header["options"]["demonstrations"]
    if buffer.demonstrations is not None or share is None:  # given again, or not in the file
        return
    own = {name: value for name, value in given.items() if name not in OF_THE_OWNER}
    content = file.read("demonstrations").tobytes()
    loaded = _read_bytes(content, lambda path: load_buffer(type(buffer), path, env, own))
    buffer._options["demonstrations"] = share
    buffer._demonstrations = DemonstrationPart(loaded, share, given.get("seed"))
    if "seed" not in given:
        buffer._demonstrations.generator_state = file.header["demonstrations"]


def _read_bytes(content: bytes, read: Callable[[Path], Any]) -> Any:
    """Write ``content`` to a temporary file, and return ``read(path)``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "buffer")
        path.write_bytes(content)
        return read(path)


def _require_same_spaces(saved: Sequence[Any], others: Sequence[Any], owner: str) -> None:
    for name, *pair in zip(("observation", "action"), saved, others, strict=True):
        here, there = map(leaf_spaces, pair)
        for leaf in here | there:
            if here.get(leaf) != there.get(leaf):
                space = (f"entry {path_name(leaf)!r} of the " if leaf else "the ") + f"{name} space"
                raise ValueError(
                    f"{owner} must have the same spaces as the saved buffer, but {space} is "
                    f"{there.get(leaf, 'missing')} in {owner} and {here.get(leaf, 'missing')} in the saved "
                    "buffer; use the environment with which the saved buffer was recorded"
                )


def _make_buffer(
    cls: Any, spaces: Any, env: AnyEnv | None, arguments: dict[str, Any], functions: set[str]
) -> Any:
    """Return an empty buffer. Without ``env`` and without functions in ``arguments``, it cannot relabel.

    ``functions`` names the options that were functions when the buffer was saved.
    """
    if not goal_mixture(arguments).components:
        return cls(*spaces, **arguments)
    defaults, missing = cls.__init__.__kwdefaults__, functions - arguments.keys()
    if env is None and all(arguments.get(name) is None for name in FUNCTIONS):
        unknown = arguments.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"load() got the argument {min(unknown)!r}, which {cls.__name__} does not have")
        buffer = cls.__new__(cls)
        buffer._set_up(*spaces, defaults | arguments, missing)
        return buffer
    for name in missing:
        raise ValueError(
            f"the buffer had a function as {name}, which its file does not contain; pass {name}= to load()"
        )
    return cls(*spaces, **arguments) if env is None else cls.for_env(env, **arguments)
