"""EpisodeLayout: what the episodes of one archive have in common, so that they can stand end to end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from her_wrappers.recording.episodes import Episodes
from her_wrappers.spaces import leaf_spaces
from her_wrappers.trees import STRINGS, as_leaf, concatenate_trees, copy_tree, leaf_arrays, path_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from gymnasium import spaces

    from her_wrappers.trees import Path, Tree

Leaves: TypeAlias = "dict[Path, tuple[tuple[int, ...], np.dtype[Any]]]"
"""Shape and dtype of a row, by path."""


@dataclass(frozen=True)
class EpisodeLayout:
    """Shapes and dtypes of observations and actions."""

    observations: Leaves
    actions: Leaves

    @classmethod
    def of_spaces(
        cls, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> EpisodeLayout:
        """Return that of an environment's episodes."""
        return cls(_leaves_of_space(observation_space), _leaves_of_space(action_space))

    @classmethod
    def of_episodes(cls, episodes: Episodes) -> EpisodeLayout:
        """Return that of some episodes."""
        return cls(leaves_of_tree(episodes.observations), leaves_of_tree(episodes.actions))

    def fit(self, episodes: Episodes) -> Episodes:
        """Return a copy that has this layout.

        Raises:
            ValueError: The episodes have other parts or shapes, or values that would change.
        """
        states = episodes.num_steps + len(episodes)
        return replace(
            episodes,
            observations=_fit("observations", episodes.observations, self.observations, states),
            actions=_fit("actions", episodes.actions, self.actions, episodes.num_steps),
            **{
                name: copy_tree(getattr(episodes, name))
                for name in ("rewards", "lengths", "terminated", "truncated", "infos", "reset_infos")
            },
        )


def _leaves_of_space(space: spaces.Space[Any]) -> Leaves:
    return {
        path: (tuple(leaf.shape or ()), np.dtype(leaf.dtype)) for path, leaf in leaf_spaces(space).items()
    }


def leaves_of_tree(tree: Tree, path: Path = ()) -> Leaves:
    """Return shape and dtype of the rows of each array."""
    if isinstance(tree, dict | tuple):
        parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {
            leaf_path: leaf
            for key, part in parts
            for leaf_path, leaf in leaves_of_tree(part, (*path, key)).items()
        }
    array = np.asarray(tree)
    return {path: (array.shape[1:], array.dtype)}


def _fit(name: str, tree: Tree, leaves: Leaves, rows: int) -> Tree:
    """Return a copy of a tree with the given leaves.

    Raises:
        ValueError: It has others.
    """
    found = leaves_of_tree(tree)
    if found.keys() != leaves.keys():
        expected, got = (sorted(path_name((name, *path)) for path in paths) for paths in (leaves, found))
        raise ValueError(f"expected episodes with {', '.join(expected)}, got {', '.join(got)}")
    return _fit_part(name, tree, leaves, rows, ())


def _fit_part(name: str, tree: Tree, leaves: Leaves, rows: int, path: Path) -> Tree:
    if isinstance(tree, dict):
        return {key: _fit_part(name, part, leaves, rows, (*path, key)) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_fit_part(name, part, leaves, rows, (*path, i)) for i, part in enumerate(tree))
    shape, dtype = leaves[path]
    rounding = name == "actions"  # as recorders do: policies compute in doubles
    return np.array(as_leaf(path_name((name, *path)), tree, (rows, *shape), dtype, rounding=rounding))


def kind_of(episodes: Episodes) -> Hashable:
    """Return what episodes must have alike to stand end to end unchanged; strings may differ in length."""
    infos = leaves_of_tree(episodes.infos)
    return episodes.rewards.dtype, frozenset(
        (path, shape, dtype.kind if dtype.kind in STRINGS else dtype)
        for path, (shape, dtype) in infos.items()
    )


def joined(parts: Sequence[Episodes]) -> Episodes:
    """Put episodes of one layout and kind end to end."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        name: concatenate_trees(name, [getattr(part, name) for part in parts])
        for name in ("observations", "actions", "infos", "rewards", "lengths", "terminated", "truncated")
    }
    resets = [info for part in parts for info in part.reset_infos or [{}] * len(part)]
    return Episodes(**columns, reset_infos=resets)


def nbytes(episodes: Episodes) -> int:
    """Return the bytes of the arrays."""
    trees = (episodes.observations, episodes.actions, episodes.infos, episodes.rewards)
    return sum(leaf.nbytes for tree in trees for leaf in leaf_arrays(tree))
