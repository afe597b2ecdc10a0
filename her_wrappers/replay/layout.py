"""Layout: how one step, or one goal, becomes one NumPy record.

With all fields of a step in one record, a batch of steps is one ``take`` that copies whole rows, and its
fields are views of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import as_leaf, build_tree, leaf_at, leaf_spaces, path_name

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.trees import Path, Tree


class SpaceLayout:
    """The fields that the elements of one space take in a record.

    Args:
        name: What the elements are; prefix of the field names.
        space: Their space.

    Attributes:
        fields: Name, dtype and shape of each field, as `numpy.dtype` takes them.
    """

    def __init__(self, name: str, space: spaces.Space[Any]) -> None:
        self._space = space
        self._paths: dict[Path, str] = {}
        self.fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
        for path, leaf in leaf_spaces(space).items():
            self._paths[path] = path_name((name, *path))
            self.fields.append((self._paths[path], np.dtype(leaf.dtype), leaf.shape or ()))

    def dtype(self) -> np.dtype[Any]:
        """Return the dtype of a record of these fields alone."""
        return np.dtype(self.fields, align=True)

    def write(self, records: np.ndarray, tree: Tree, label: str) -> None:
        """Write a tree of (n, ...) arrays to n records.

        Args:
            records: Where to.
            tree: Values in the structure of the space.
            label: What they are, for messages.

        Raises:
            ValueError: A leaf is missing, or has another shape or dtype than the space.
        """
        for path, (name, dtype, shape) in zip(self._paths, self.fields, strict=True):
            try:
                value = leaf_at(tree, path)
            except (KeyError, IndexError, TypeError) as error:
                raise ValueError(f"{path_name((label, *path))} is missing in the episode") from error
            where = f"{path_name((label, *path))} of the episode"
            records[name] = as_leaf(where, value, (len(records), *shape), dtype)

    def read(self, records: np.ndarray) -> Tree:
        """Return the tree of (n, ...) views into n records."""
        if len(self._paths) == 1 and () in self._paths:
            return records[self._paths[()]]
        return build_tree(self._space, {path: records[name] for path, name in self._paths.items()})
