"""Assertions that batches, episodes and trees of arrays are bit-identical."""

import numpy as np


def assert_same_tree(tree, other):
    """Assert that two trees have bit-identical arrays."""
    if isinstance(tree, dict):
        assert tree.keys() == other.keys()
        for key, part in tree.items():
            assert_same_tree(part, other[key])
    elif isinstance(tree, tuple):
        for part, twin in zip(tree, other, strict=True):
            assert_same_tree(part, twin)
    else:
        assert (tree.dtype, tree.shape) == (other.dtype, other.shape)
        if tree.tobytes() != other.tobytes():
            np.testing.assert_array_equal(tree, other)
            raise AssertionError("the numbers are equal, but their bits differ")


def assert_same_batches(buffer, twin, sizes=(16,) * 40):
    """Assert that two buffers return bit-identical batches."""
    for size in sizes:
        batch, other = buffer.sample(size).to_numpy(), twin.sample(size).to_numpy()
        for name in (
            "observations", "actions", "rewards", "next_observations", "terminations", "truncations",
            "discounts", "weights", "relabeled", "index", "episode", "goal_index", "strategy",
        ):  # fmt: skip
            assert_same_tree(getattr(batch, name), getattr(other, name))


def assert_same_episodes(some, others):
    """Assert that two sequences of episodes are bit-identical, apart from reset infos."""
    for one, other in zip(some, others, strict=True):
        assert (one.terminated, one.truncated) == (other.terminated, other.truncated)
        for name in ("observations", "actions", "rewards", "infos"):
            assert_same_tree(getattr(one, name), getattr(other, name))
