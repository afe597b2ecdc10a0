"""Snapshots: buffers in files, whole or not at all, read without trust, in no layout but their own.

A file holds the episodes, in parts, each with the arrays of `EpisodeColumns`; the priorities; what was drawn
ahead; the open episode of ``add``; and as JSON what else it takes to go on as if nothing had been: spaces,
options, what was learned from episodes, the number of the next transition, the state of the generator.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.files.reading import ArrayFile, CorruptFileError
from her_wrappers.files.writing import write_arrays
from her_wrappers.goal_interface import goal_spaces
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.space_json import space_from_json, space_to_json
from her_wrappers.replay.priorities.stored import SavedPriorities
from her_wrappers.replay.refusal import require_fit
from her_wrappers.replay.sampling.draws import Ahead
from her_wrappers.replay.saving.episode_columns import EpisodeColumns
from her_wrappers.replay.saving.saved_options import options_from_json, options_to_json
from her_wrappers.replay.saving.state import State
from her_wrappers.replay.storage.contents import StoredEpisodes
from her_wrappers.replay.storage.step_layout import GOALS
from her_wrappers.spaces import leaf_spaces
from her_wrappers.trees import path_name

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator, Mapping

    from her_wrappers.files import Json
    from her_wrappers.goal_interface import AnyEnv
    from her_wrappers.replay.priorities.priority import Priority
    from her_wrappers.replay.storage.contents import Contents
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.trees import Path

KIND = "replay buffer"
VERSION = 1

MOST_INDEX = 2**62
"""No buffer gets that far: indices are int64, and one a nanosecond would take 146 years."""

LEARNED = ("rule", "values", "episodes_to_check")

AHEAD = ("numbers", "part", "goal_index")

MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""What content that is no buffer's may raise when it is taken for one."""


def write_snapshot(path: str | os.PathLike[str], state: State, contents: Contents) -> None:
    """Write a buffer to a file, whole or not at all.

    Raises:
        OSError: The file cannot be written.
        TypeError: JSON cannot describe the spaces.
    """
    header = {
        "observation_space": space_to_json(state.observation_space),
        "action_space": space_to_json(state.action_space),
        "options": options_to_json(state.options),
        "shared": [list(leaf) for leaf in state.shared],
        "first_index": state.first_index,
        "learned": state.learned,
        "generator": state.generator,
        "largest_priority": None if state.priorities is None else state.priorities.largest,
        "ahead": [state.ahead.batch_size, state.ahead.batches, state.ahead.used],
        "has_open_episode": state.open_episode is not None,
        "parts": len(contents),
    }
    write_arrays(path, _arrays(state, contents), header, kind=KIND, version=VERSION)


def _arrays(state: State, contents: Contents) -> Iterator[tuple[str, np.ndarray]]:
    columns = _columns(state, state.shared)
    for number in range(len(contents)):
        part = contents.read(number)
        if part is not None:
            yield from _prefixed(f"{number}/", columns.take_apart(part))
    if state.priorities is not None:
        yield "priorities", state.priorities.scaled
    yield from _prefixed("ahead/", {name: getattr(state.ahead, name) for name in AHEAD})
    if state.open_episode is not None:
        part = StoredEpisodes(Episodes.of([state.open_episode]), np.array([False]))
        yield from _prefixed("open/", _columns(state).take_apart(part))


def _columns(state: State, shared: Collection[Path] = ()) -> EpisodeColumns:
    return EpisodeColumns(state.observation_space, state.action_space, state.options.info_keys, shared)


def _prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    for name, array in arrays.items():
        yield prefix + name, array


class Snapshot:
    """A file that `write_snapshot` wrote, open for reading; use it in a ``with`` block.

    Args:
        path: The file.

    Attributes:
        state: What it says of the buffer.

    Raises:
        CorruptFileError: The file is damaged, something else, or of a later version.
        OSError: There is no such file, or it cannot be read.
    """

    state: State

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = ArrayFile(path, kind=KIND, version=VERSION)
        try:
            with self.blamed():
                self.state = self._read_state(self._file.header)
                self._num_parts = require_count("parts", self._file.header["parts"], at_least=0)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Blame the file where its content turns out to be no buffer's.

        Raises:
            CorruptFileError: It does.
        """
        try:
            yield
        except CorruptFileError:
            raise
        except MALFORMED as error:
            raise CorruptFileError(
                f"{self._file.path} is damaged: it holds no replay buffer ({error})"
            ) from error

    @property
    def rule(self) -> str | None:
        """Kind of the rule for terminations that the buffer had, if it had one."""
        return None if self.state.learned is None else self.state.learned["rule"]

    def require_spaces_of(self, env: AnyEnv) -> None:
        """Refuse an environment that is not of the saved spaces.

        Raises:
            TypeError: It is no environment.
            ValueError: It is no goal environment, or of other spaces.
        """
        saved = self.state.observation_space, self.state.action_space
        for name, here, there in zip(("observation", "action"), saved, goal_spaces(env), strict=True):
            leaves, others = leaf_spaces(here), leaf_spaces(there)
            for path in leaves | others:
                leaf, other = leaves.get(path, "missing"), others.get(path, "missing")
                if leaf != other:
                    raise ValueError(
                        f"env must have the spaces of the buffer in {self._file.path}: "
                        f"{path_name((name, *path))} is {leaf} there, and {other} in env"
                    )

    def fill(
        self,
        storage: EpisodeStorage,
        layout: StepLayout,
        learn: Callable[[EncodedEpisodes], None] | None,
        buffer_size: int,
    ) -> None:
        """Bring the episodes into an empty storage.

        Args:
            storage: It.
            layout: Of the storage.
            learn: What episodes are shown to first, to find out why they terminated; None where the file
                tells.
            buffer_size: Steps that the storage holds; of more the oldest episodes are left out.

        Raises:
            CorruptFileError: The file is damaged.
            MemoryError: There is not so much memory.
            ValueError: An episode is longer than ``buffer_size``, or ``learn`` fails.
        """
        storage.start(self.state.first_index, self.state.shared)
        for episodes, other_reason in self._parts():
            require_fit(episodes, buffer_size, "raise buffer_size")
            begin = 0
            for piece in episodes.split(buffer_size):
                with self.blamed():
                    encoded = layout.encode(piece)
                if learn is None:
                    encoded.other_reason[encoded.last_steps] = other_reason[begin : begin + len(piece)]
                else:
                    learn(encoded)
                storage.append(encoded)
                begin += len(piece)

    def _parts(self) -> Iterator[StoredEpisodes]:
        columns = _columns(self.state, self.state.shared)
        for number in range(self._num_parts):
            with self.blamed():
                part = columns.read(self._file, f"{number}/")
            yield part

    def _read_state(self, header: dict[str, Json]) -> State:
        batch_size, batches, used = map(int, header["ahead"])
        options = options_from_json(header["options"])
        state = State(
            observation_space=space_from_json(header["observation_space"]),
            action_space=space_from_json(header["action_space"]),
            options=options,
            shared={tuple(leaf) for leaf in header["shared"]},
            first_index=_require_index(header["first_index"]),
            learned=None if header["learned"] is None else {key: header["learned"][key] for key in LEARNED},
            generator=header["generator"],
            priorities=self._read_priorities(options.prioritized, header["largest_priority"]),
            ahead=Ahead(batch_size, batches, used, *(self._file.read(f"ahead/{name}") for name in AHEAD)),
            open_episode=None,
        )
        np.random.default_rng().bit_generator.state = state.generator
        _require_like_goal(state)
        if not header["has_open_episode"]:
            return state
        [episode] = _columns(state).read(self._file, "open/").episodes
        return replace(state, open_episode=episode)

    def _read_priorities(self, priority: Priority | None, largest: Json) -> SavedPriorities | None:
        return None if priority is None else SavedPriorities(float(largest), self._file.read("priorities"))


def _require_index(index: Json) -> int:
    """Return the index of a transition, if it leaves enough for those to come.

    Raises:
        ValueError: It does not, or is none.
    """
    number = require_count("first_index", index, at_least=0)
    if number > MOST_INDEX:
        raise ValueError(f"first_index must be <= {MOST_INDEX}, got {number}")
    return number


def _require_like_goal(state: State) -> None:
    """Refuse leaves that cannot be the achieved goal.

    Raises:
        KeyError: There is no such leaf.
        ValueError: It has another shape or dtype.
    """
    leaves = leaf_spaces(state.observation_space)
    for path in state.shared:
        leaf, goal = leaves[path], leaves["achieved_goal",]
        if (leaf.shape, leaf.dtype) != (goal.shape, goal.dtype) or path[0] in GOALS:
            raise ValueError(f"{path_name(path)} cannot be the achieved goal")
