"""Refusal: which of many episodes is the one that cannot be stored, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from her_wrappers.recording.episodes import Episodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.recording.episode import Episode
    from her_wrappers.replay.storage.step_layout import StepLayout

WAY_OUT = "raise buffer_size or cut episodes with EpisodeRecorder(max_episode_steps=)"


def require_fit(episodes: Episodes, buffer_size: int, way_out: str = WAY_OUT) -> None:
    """Refuse an episode that is longer than the buffer; the message ends with the way out.

    Raises:
        ValueError: There is one.
    """
    if episodes.num_steps <= buffer_size:  # all together, as they mostly are
        return
    longest = int(episodes.lengths.max())
    if longest > buffer_size:
        raise ValueError(
            f"an episode must fit the buffer of {buffer_size} transitions, got {longest} steps; {way_out}"
        )


def require_each(episodes: Sequence[Episode], layout: StepLayout, buffer_size: int) -> None:
    """Refuse the first of many episodes that cannot be stored by itself, by its place among them.

    Args:
        episodes: What was refused together; perhaps for their differences alone.
        layout: Of the buffer's steps.
        buffer_size: Of the buffer.

    Raises:
        ValueError: There is one.
    """
    first, end = 0, len(episodes)
    if end == 1:
        return
    while end - first > 1:
        middle = (first + end) // 2
        if _refusal(episodes[first:middle], layout, buffer_size) is not None:
            end = middle
        else:
            first = middle
    refusal = _refusal(episodes[first:end], layout, buffer_size)
    if refusal is not None:
        raise ValueError(f"episodes[{first}]: {refusal}") from refusal


def _refusal(episodes: Sequence[Episode], layout: StepLayout, buffer_size: int) -> ValueError | None:
    try:
        together = Episodes.of(episodes)
        require_fit(together, buffer_size)
        layout.encode(together)
    except ValueError as error:
        return error
    return None
