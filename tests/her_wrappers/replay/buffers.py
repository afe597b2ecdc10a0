"""Buffers of counting episodes, what they hand out, and what they are given step by step."""

from __future__ import annotations

from tests.counting import counting_buffer, counting_episode


def filled(**options):
    """A buffer with three episodes of 4, 1 and 7 steps."""
    buffer = counting_buffer(**options)
    for number, length in enumerate([4, 1, 7]):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def arrays_of(batch):
    """All arrays of a batch."""
    return [
        *batch.observations.values(),
        *batch.next_observations.values(),
        batch.actions,
        batch.rewards,
        batch.terminations,
        batch.truncations,
        batch.weights,
        batch.relabeled,
        batch.index,
    ]


def transitions(episode):
    """An episode as arguments of `add`."""
    for t in range(len(episode)):
        here, there = ({key: rows[i] for key, rows in episode.observations.items()} for i in (t, t + 1))
        last = t == len(episode) - 1
        yield (
            here,
            episode.actions[t],
            episode.rewards[t],
            there,
            episode.terminated and last,
            episode.truncated and last,
            {},
        )
