"""State: all of a buffer but its episodes, taken from its parts and given back to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from her_wrappers.replay.saving.saved_options import draws_alike

if TYPE_CHECKING:
    from collections.abc import Container

    from gymnasium import spaces

    from her_wrappers.files import Json
    from her_wrappers.recording.episode import Episode
    from her_wrappers.replay.assembly import Parts
    from her_wrappers.replay.options import Options
    from her_wrappers.replay.priorities.stored import SavedPriorities
    from her_wrappers.replay.sampling.draws import Ahead
    from her_wrappers.replay.saving.snapshot import Snapshot
    from her_wrappers.trees import Path


@dataclass(frozen=True)
class State:
    """All of a buffer but its episodes.

    Attributes:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        options: Arguments that the buffer was made with, less functions and spaces.
        shared: Leaves of observations that are the achieved goal in all episodes.
        first_index: Index of the oldest transition.
        learned: What was learned from episodes, as JSON.
        generator: State of the generator, as JSON.
        priorities: Of the transitions, if they have any.
        ahead: What was drawn ahead.
        open_episode: The open episode of ``add``, if there is one.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    options: Options
    shared: set[Path]
    first_index: int
    learned: Json
    generator: Json
    priorities: SavedPriorities | None
    ahead: Ahead
    open_episode: Episode | None

    @classmethod
    def of(cls, parts: Parts, options: Options) -> State:
        """Return the state of a buffer, which must not change until it is written."""
        open_episode = parts.intake.open_episode
        return cls(
            observation_space=parts.layout.observation_space,
            action_space=parts.layout.action_space,
            options=options,
            shared=parts.layout.shared,
            first_index=parts.backend.storage.first_index,
            learned=parts.relabeling.learned(),
            generator=parts.draws.rng.bit_generator.state,
            priorities=parts.priorities.saved(),
            ahead=parts.draws.ahead(),
            open_episode=open_episode.copy() if open_episode.length > 0 else None,
        )


def restore(snapshot: Snapshot, parts: Parts, options: Options, given: Container[str]) -> None:
    """Bring what a file holds into the parts of an empty buffer that was made for it.

    Args:
        snapshot: The file.
        parts: Of the buffer.
        options: Of the buffer.
        given: Names of the arguments that were given, rather than taken from the file.

    Raises:
        CorruptFileError: The file is damaged.
        MemoryError: There is not so much memory.
        ValueError: An episode is longer than the buffer, or a function answers wrongly.
    """
    state, storage = snapshot.state, parts.backend.storage
    with snapshot.blamed():
        known = parts.relabeling.recall(state.learned, anew="termination" in given)
    snapshot.fill(storage, parts.layout, None if known else parts.relabeling.learn, options.buffer_size)
    with snapshot.blamed():
        if state.priorities is not None:
            parts.priorities.restore(state.priorities, state.first_index, state.options.prioritized)
        if "seed" not in given:
            parts.draws.rng.bit_generator.state = state.generator
            if draws_alike(state.options, options) and storage.first_index == state.first_index:
                parts.draws.restore(state.ahead)
        if state.open_episode is not None:
            parts.intake.open_episode.resume(state.open_episode)
