"""SpaceLayout: the fields that observations, goals or actions take in a NumPy record.

With all fields of a step in one record, a batch of steps is one ``take`` that copies whole rows, and its
fields are views of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.spaces import build_tree, leaf_spaces
from her_wrappers.trees import as_leaf, leaf_at, path_name

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from her_wrappers.replay.storage.steps import Records
    from her_wrappers.trees import Path, Tree


class SpaceLayout:
    """The fields that the elements of one space take in a record.

    Args:
        name: What the elements are; prefix of the field names.
        space: Their space.

    Attributes:
        leaves: The spaces at the leaves, by path.
        alone: The field of the one leaf, if the space itself is a leaf.
        top_level: Keys and fields, if the space is a dict of leaves.
    """

    def __init__(self, name: str, space: spaces.Space[Any]) -> None:
        self._space = space
        self.leaves = leaf_spaces(space)
        self._looks = {path: (leaf.shape or (), np.dtype(leaf.dtype)) for path, leaf in self.leaves.items()}
        # Numbered: keys may hold anything, slashes too.
        self._fields = {path: f"{name} {i}" for i, path in enumerate(self.leaves)}
        # Most spaces are one leaf or a dict of leaves; reading them is the inner loop of sampling.
        self.alone = self._fields.get(())
        flat = isinstance(space, spaces.Dict) and not any(
            isinstance(part, spaces.Dict | spaces.Tuple) for part in space.values()
        )
        self.top_level = [(path[0], field) for path, field in self._fields.items()] if flat else None

    def fields(self, *, without: Container[Path] = ()) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
        """Return name, dtype and shape of each field, as `numpy.dtype` takes them."""
        return [
            (self._fields[path], dtype, shape)
            for path, (shape, dtype) in self._looks.items()
            if path not in without
        ]

    def dtypes(self, label: str) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the leaves by their names, which begin with ``label``."""
        return {path_name((label, *path)): dtype for path, (_, dtype) in self._looks.items()}

    def check(self, tree: Tree, rows: int, label: str, *, rounding: bool = False) -> dict[Path, np.ndarray]:
        """Return the leaves of a tree of arrays, with the space's shapes and dtypes.

        Args:
            tree: Values in the structure of the space, with a leading axis.
            rows: Length of that axis.
            label: What they are, for messages.
            rounding: Whether floats may be rounded to shorter ones.

        Raises:
            ValueError: A leaf is missing, or has another shape or dtype than the space.
        """
        checked = {}
        for path, (row_shape, dtype) in self._looks.items():
            value = leaf_at(tree, path, label, "in the episode")
            shape = (rows, *row_shape)
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                name = f"{path_name((label, *path))} of the episode"  # only now: writing it takes the longest
                value = as_leaf(name, value, shape, dtype, rounding=rounding)
            checked[path] = value
        return checked

    def columns(self, leaves: Mapping[Path, np.ndarray]) -> list[tuple[str, np.ndarray]]:
        """Return the names of fields with the leaves that they hold."""
        return [(self._fields[path], leaf) for path, leaf in leaves.items()]

    def write(self, records: Records, leaves: Mapping[Path, Any]) -> None:
        """Write leaves to the fields of records."""
        for path, value in leaves.items():
            records[self._fields[path]] = value

    def read(self, records: Records, elsewhere: Mapping[Path, Any] | None = None) -> Tree:
        """Return the tree of views into records; some leaves may stand elsewhere."""
        if self.alone is not None:
            return records[self.alone]
        if not elsewhere and self.top_level is not None:
            return {key: records[field] for key, field in self.top_level}
        elsewhere = elsewhere or {}
        leaves = {
            path: elsewhere[path] if path in elsewhere else records[field]
            for path, field in self._fields.items()
        }
        return build_tree(self._space, leaves)
