"""Buffers with a torch device, and functions for arrays and tensors."""

from __future__ import annotations

import numpy as np
import torch

from her_wrappers.trees import leaf_arrays
from tests.support.counting import (
    counting_buffer,
    counting_episode,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


PARTS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminations",
    "truncations",
    "discounts",
    "weights",
    "relabeled",
    "index",
    "episode",
    "goal_index",
    "strategy",
)


def assert_equal(batch, other):
    """Assert that two batches of arrays or tensors are equal; floats of batches up to rounding."""
    assert len(batch) == len(other)
    for name in PARTS:
        leaves, others = (leaf_arrays(getattr(each.to_numpy(), name)) for each in (batch, other))
        for leaf, other_leaf in zip(leaves, others, strict=True):
            assert (leaf.dtype, leaf.shape) == (other_leaf.dtype, other_leaf.shape), name
            if name in {"rewards", "discounts", "weights"}:
                np.testing.assert_allclose(leaf, other_leaf, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(leaf, other_leaf, err_msg=name)


def goals_equal(achieved, desired):
    """Return whether goals are equal, (B,) bool; goals are arrays, tensors, or dicts of two of them."""
    if isinstance(achieved, dict):
        return goals_equal(achieved["a"], desired["a"]) & goals_equal(achieved["b"], desired["b"])
    return (achieved == desired).reshape(len(achieved), -1).all(-1)


def sparse(achieved, desired, info):
    return -1.0 + goals_equal(achieved, desired)


def ended(achieved, desired, info):
    return goals_equal(achieved, desired)


def cpu_buffer(**options):
    buffer = counting_buffer(**{"device": "cpu", **options})
    for number, length in enumerate([4, 1, 7]):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def with_numpy(achieved, desired, info):
    return np.isclose(np.linalg.norm(achieved - desired, axis=-1), 0.0) - 1.0


def as_float32(achieved, desired, info):
    return (achieved == desired).all(-1).astype(np.float32) - 1
