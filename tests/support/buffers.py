"""Buffers of counting episodes on every device, and episodes as arguments of `add`."""

import numpy as np
import torch

from her_wrappers import HindsightReplayBuffer, Priority
from her_wrappers.data.trees import map_tree
from tests.support.counting import ACTIONS, FUNCTIONS, SPACE, counting_buffer, counting_episode


def filled(device=None, lengths=(4, 1, 7), **options):
    """Return a buffer with episodes of these lengths."""
    buffer = make_buffer(device, **options)
    buffer.add_episodes([counting_episode(number, length) for number, length in enumerate(lengths)])
    return buffer


def step_of(episode, t):
    """Return step t of an episode as arguments of `add`."""
    here, there = (map_tree(lambda leaf, s=s: leaf[s], episode.observations) for s in (t, t + 1))
    ends, info = t == len(episode) - 1, {key: column[t] for key, column in episode.infos.items()}
    flags = episode.terminated and ends, episode.truncated and ends
    return here, map_tree(lambda leaf: leaf[t], episode.actions), episode.rewards[t], there, *flags, info


def transitions(episode):
    """Yield the transitions of an episode as arguments of `add`."""
    return (step_of(episode, t) for t in range(len(episode)))


def stacked(trees):
    """Return N trees of arrays as one tree of arrays with a leading axis."""
    if isinstance(trees[0], dict):
        return {key: stacked([tree[key] for tree in trees]) for key in trees[0]}
    return tuple(map(stacked, zip(*trees, strict=True))) if isinstance(trees[0], tuple) else np.stack(trees)


def rows(*episodes):
    """Yield the steps of N episodes of equal length as arguments of `add` with a leading axis, but infos."""
    for steps in zip(*map(transitions, episodes), strict=True):
        yield tuple(stacked(column) for column in list(zip(*steps, strict=True))[:-1])


def wrapped(device=None, **options):
    """Return a buffer whose ring has wrapped, with terminated episodes, and with goals that change."""
    buffer = make_buffer(device, **{"buffer_size": 60} | options)
    for number, length in enumerate([9, 1, 30, 4, 17, 25, 1, 1, 13, 6]):
        episode = counting_episode(number, length, terminated=number % 3 == 0)
        if number % 2:
            episode.observations["desired_goal"][length // 2 :, 1] = -2
        buffer.add_episode(episode)
    return buffer


def plain_buffer(size, space=SPACE, **options):
    return HindsightReplayBuffer(space, ACTIONS, buffer_size=size, n_sampled_goal=0, **options)


def example():
    """Return a small buffer with priorities, an open episode and prefetched batches."""
    buffer = wrapped(buffer_size=40, prioritized=Priority())
    buffer.update_priorities(np.arange(90, 100), np.arange(10.0))
    for transition in list(transitions(counting_episode(20, 3)))[:2]:
        buffer.add(*transition)
    for _ in range(4):
        buffer.sample(5)
    return buffer


# --- devices --------------------------------------------------------------------------------------

DEVICES = [None, "cpu"] + ["cuda:0"] * torch.cuda.is_available()
"""Values of the fixture parameter ``device``: None for arrays."""


def device_options(device, options):
    """Return options with a device."""
    return options if device is None else {"device": device} | options


def make_buffer(device, world=None, **options):
    """Return an empty buffer on a device, for counting episodes or those of a `World`."""
    if world is None:
        return counting_buffer(**device_options(device, options))
    return HindsightReplayBuffer(world.space, world.action_space, **device_options(device, options))


def load_buffer(path, device, **options):
    """Load a buffer to a device; ``options`` are arguments of `load`, FUNCTIONS by default."""
    return HindsightReplayBuffer.load(path, **device_options(device, options or FUNCTIONS))
