"""Buffers in files. A file is written as a whole or not at all, and validated when it is read.

A file has the episodes, block by block, as the arrays of `EpisodeArrays`; the priorities; and the open
episodes of `add`. The rest is JSON, such as the spaces, the options, the state of the relabeler, the serial
number of the oldest transition, the state of the generator, and the state of the prefetched batches.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.files.reading import ArrayFile, CorruptFileError
from her_wrappers.files.writing import write_arrays
from her_wrappers.goal_interface import goal_spaces, require_goal_space
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.space_json import space_from_json, space_to_json
from her_wrappers.replay.layout import GOALS
from her_wrappers.replay.options import (
    FUNCTIONS,
    MAX_SIZE,
    FunctionName,
    Options,
    relabels,
    require_no_names,
)
from her_wrappers.replay.prioritized import SavedPriorities
from her_wrappers.replay.sampling import BatchSampler, PrefetchState
from her_wrappers.replay.stored_episodes import EpisodeArrays, EpisodeReader, StoredEpisodes
from her_wrappers.spaces import SpaceSpec, leaf_spaces
from her_wrappers.trees import path_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from gymnasium import spaces

    from her_wrappers.files import Json
    from her_wrappers.goal_interface import AnyEnv
    from her_wrappers.replay.episode_buffer import EpisodeBuffer
    from her_wrappers.trees import Path

KIND = "replay buffer"

VERSION = 2
"""Version of the format. Files of version 1, of her-toolkit 0.1, are read without prefetched batches."""

RELABELER_STATE = ("rule", "values", "episodes_to_check")

MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of reading a file that does not have the content of a buffer."""


def save_buffer(path: str | os.PathLike[str], buffer: EpisodeBuffer, sampler: BatchSampler) -> None:
    """Write a buffer to a file; see `HindsightReplayBuffer.save`.

    Args:
        path: The file to write or replace.
        buffer: The buffer. The caller must prevent other threads from changing it meanwhile.
        sampler: Sampler of the buffer's batches.

    Raises:
        OSError: The file cannot be written.
        TypeError: JSON cannot describe the spaces.
    """
    storage, priorities = buffer._storage, buffer._priorities
    relabeler = buffer._relabeler
    episode, vector = buffer._open_episodes.single, buffer._open_episodes.vector
    reader, saved = EpisodeReader(storage), None if priorities is None else priorities.saved()
    prefetch, layout = sampler.prefetch_state(), storage.memory.layout
    header = {
        "observation_space": space_to_json(buffer.observation_space),
        "action_space": space_to_json(buffer.action_space),
        "options": buffer._options.to_json(),
        "deduplicated": [list(path) for path in sorted(layout.deduplicated, key=repr)],
        "first_index": storage.memory.index.first.step,
        "relabeler": buffer._unused_state if relabeler is None else relabeler.state_dict(),
        "generator": sampler.rng.bit_generator.state,
        "prefetch": None if prefetch is None else prefetch._asdict(),
        "largest_priority": None if saved is None else saved.largest,
        "has_open_episode": episode.length > 0,
        "open_lengths": [] if vector is None else vector.lengths.clip(0).tolist(),
        "blocks": len(reader),
    }

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        codec = EpisodeArrays(layout.observations, layout.actions, layout.info_keys, layout.deduplicated)
        for block in range(len(reader)):
            stored = reader.read(block)
            if stored is not None:
                yield from _prefixed(f"{block}/", codec.from_episodes(stored))
        if saved is not None:
            yield "priorities", saved.scaled
        codec = EpisodeArrays(layout.observations, layout.actions, layout.info_keys)
        if episode.length > 0:
            yield from _prefixed("open/", codec.from_episodes(_unfinished(Episodes.of([episode.copy()]))))
        if vector is not None and (episodes := vector.copy()) is not None:
            yield from _prefixed("open_rows/", codec.from_episodes(_unfinished(episodes)))

    write_arrays(path, arrays(), header, kind=KIND, version=VERSION)


class SavedBuffer:
    """A file that `save_buffer` wrote, open for reading; use it in a ``with`` block.

    Args:
        path: The file.

    Attributes:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        options: Options of the buffer, with the names of functions instead of the functions.

    Raises:
        CorruptFileError: The file is damaged, not a buffer, or of a later version.
        OSError: The file does not exist, or cannot be read.
    """

    observation_space: spaces.Dict
    action_space: spaces.Space[Any]
    options: Options

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = ArrayFile(path, kind=KIND, version=VERSION)
        try:
            with self.reraise_as_corrupt():
                self._read_header(self._file.header)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> SavedBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextlib.contextmanager
    def reraise_as_corrupt(self) -> Iterator[None]:
        """Raise CorruptFileError instead of an error that invalid content of the file causes.

        Raises:
            CorruptFileError: The content is not that of a buffer.
        """
        try:
            yield
        except CorruptFileError:
            raise
        except MALFORMED as error:
            raise CorruptFileError(
                f"{self._file.path} is damaged: its content is not a replay buffer ({error})"
            ) from error

    def load(self, cls: Any, env: AnyEnv | None, given: Mapping[str, Any]) -> Any:
        """Return the buffer; see `HindsightReplayBuffer.load`.

        Args:
            cls: `HindsightReplayBuffer`, which this module cannot import, since its module imports this one.
            env: The environment whose functions are used, or None.
            given: Options that have precedence over the saved ones.

        Raises:
            CorruptFileError: The file is damaged.
            MemoryError: Not enough memory.
            TypeError: ``env`` is not an environment, or an option is unknown.
            ValueError: ``env`` has other spaces, or an option has a wrong value or is missing.
        """
        if env is not None:
            self.require_spaces_of(env)
        merged = self.options.merged_with(given)
        buffer = self._make_empty(cls, env, merged)
        buffer._options = Options.of(merged)  # with the names of functions that are missing
        self._restore(buffer, buffer._sampler, given)
        return buffer

    def require_spaces_of(self, env: AnyEnv) -> None:
        """Check that an environment has the saved spaces.

        Raises:
            TypeError: ``env`` is not an environment.
            ValueError: ``env`` is not a goal environment, or has other spaces.
        """
        saved = self.observation_space, self.action_space
        for name, here, there in zip(("observation", "action"), saved, goal_spaces(env), strict=True):
            leaves, others = leaf_spaces(here), leaf_spaces(there)
            for path in leaves | others:
                leaf, other = leaves.get(path, "missing"), others.get(path, "missing")
                if leaf != other:
                    raise ValueError(
                        f"env must have the spaces of the buffer in {self._file.path}: "
                        f"{path_name((name, *path))} is {leaf} there, and {other} in env"
                    )

    def _make_empty(self, cls: Any, env: AnyEnv | None, merged: Mapping[str, Any]) -> Any:
        """Return an empty buffer with these options, with or without functions."""
        options = dict(merged)
        if not relabels(**options):
            if isinstance(options["termination"], FunctionName):
                options["termination"] = None
        elif env is None and all(options.get(name) is None for name in FUNCTIONS):
            seed, device = options.get("seed"), options.get("device")
            buffer = cls.__new__(cls)
            buffer._set_up(
                self.observation_space, self.action_space, Options.of(options), None, seed=seed, device=device
            )
            return buffer
        else:
            require_no_names("termination", options["termination"])
            # Terminations that were recomputed by default are not silently kept from now on.
            if options["termination"] is None and self._rule == "recompute":
                options["termination"] = "recompute"
        if env is not None:
            return cls.for_env(env, **options)
        return cls(self.observation_space, self.action_space, **options)

    def _restore(self, buffer: EpisodeBuffer, sampler: BatchSampler, given: Mapping[str, Any]) -> None:
        """Restore the saved content in an empty buffer."""
        self._restore_episodes(buffer, is_new_rule="termination" in given)
        with self.reraise_as_corrupt():
            if self._priorities is not None and buffer._priorities is not None:
                buffer._priorities.restore(self._priorities, self._first_index, self.options.prioritized)
            if "seed" not in given:
                unchanged = buffer._storage.memory.index.first.step == self._first_index
                if self._prefetch is not None and unchanged and self.options.same_sampling(buffer._options):
                    sampler.restore_prefetch(self._prefetch)
                sampler.rng.bit_generator.state = self._generator
            if self._has_open_episode:
                [episode] = self._arrays(frozenset()).read(self._file, "open/").episodes
                buffer._open_episodes.single.resume(episode)
            if self._open_lengths.any():
                stored = self._arrays(frozenset()).read(self._file, "open_rows/")
                buffer._open_episodes.resume_rows(self._open_lengths, stored.episodes)

    def blocks(self) -> Iterator[StoredEpisodes]:
        """Iterate over the complete episodes of the file, oldest first, in blocks.

        Raises:
            CorruptFileError: The file is damaged.
        """  # noqa: DOC501 - reraise_as_corrupt converts the ValueError
        for block in range(self._num_blocks):
            with self.reraise_as_corrupt():
                stored = self._arrays(self._deduplicated).read(self._file, f"{block}/")
                if stored.episodes.lengths.max() > self.options.buffer_size:
                    raise ValueError("an episode is longer than buffer_size")
            yield stored

    def _restore_episodes(self, buffer: EpisodeBuffer, *, is_new_rule: bool) -> None:
        """Store the saved episodes; a termination rule other than the saved one inspects them first."""
        storage, relabeler = buffer._storage, buffer._relabeler
        state = self._relabeler_state
        is_fitted = state is not None and not is_new_rule
        if relabeler is None:
            if state is not None and relabels(**vars(buffer._options)):
                buffer._unused_state = {**state, "rule": None if is_new_rule else state["rule"]}
        elif state is not None:
            with self.reraise_as_corrupt():
                buffer._relabeler = relabeler.with_state(state)
            is_fitted = is_fitted and relabeler.rule.kind == state["rule"]
        storage.start_at(self._first_index)
        for episodes, saved_flags in self.blocks():
            goal_independent = saved_flags
            buffer._require_fit(episodes, "raise buffer_size")
            with self.reraise_as_corrupt():
                validated = storage.memory.layout.validate(episodes)
            if not is_fitted and relabeler is not None:
                goal_independent = buffer._inspect(validated)
            storage.add(validated, goal_independent)

    def _read_header(self, header: dict[str, Json]) -> None:
        is_first_version = self._file.version == 1
        self.observation_space = require_goal_space(space_from_json(header["observation_space"]))
        self.action_space = space_from_json(header["action_space"])
        self.options = Options.from_json(header["options"])
        self._deduplicated = frozenset(
            tuple(path) for path in header["shared" if is_first_version else "deduplicated"]
        )
        self._require_like_goal()
        self._first_index = require_count("first_index", header["first_index"], at_least=0)
        if self._first_index > MAX_SIZE:
            raise ValueError(f"first_index must be <= {MAX_SIZE}, got {self._first_index}")
        state = header["learned" if is_first_version else "relabeler"]
        self._relabeler_state = None if state is None else {key: state[key] for key in RELABELER_STATE}
        self._rule = None if state is None else state["rule"]
        self._generator = header["generator"]
        np.random.default_rng().bit_generator.state = self._generator
        prefetch = None if is_first_version else header["prefetch"]
        self._prefetch = None if prefetch is None else PrefetchState(**prefetch)
        self._priorities = None
        if self.options.prioritized is not None:
            largest = float(header["largest_priority"])
            self._priorities = SavedPriorities(largest, self._file.read("priorities"))
        self._has_open_episode = bool(header["has_open_episode"])
        lengths = header.get("open_lengths") or []
        self._open_lengths = np.array([require_count("open_lengths", each, at_least=0) for each in lengths])
        self._num_blocks = require_count(
            "blocks", header["parts" if is_first_version else "blocks"], at_least=0
        )

    def _arrays(self, deduplicated: frozenset[Path]) -> EpisodeArrays:
        observations = SpaceSpec.of("observations", self.observation_space)
        actions = SpaceSpec.of("actions", self.action_space)
        return EpisodeArrays(observations, actions, tuple(self.options.info_keys), deduplicated)

    def _require_like_goal(self) -> None:
        """Check that observations saved as equal to the achieved goal have its shape and dtype."""
        leaves = leaf_spaces(self.observation_space)
        for path in self._deduplicated:
            leaf, goal = leaves[path], leaves["achieved_goal",]
            if (leaf.shape, leaf.dtype) != (goal.shape, goal.dtype) or path[0] in GOALS:
                raise ValueError(
                    f"{path_name(path)} must be an observation with the shape and dtype of achieved_goal, "
                    f"{goal.shape} {goal.dtype}, got {leaf.shape} {leaf.dtype}"
                )


def _unfinished(episodes: Episodes) -> StoredEpisodes:
    return StoredEpisodes(episodes, np.zeros(len(episodes), np.bool_))


def _prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    for name, array in arrays.items():
        yield prefix + name, array
