"""Minari: write and read episodes as datasets of the Farama Foundation's format for offline data.

All files are written and read by Minari. ``docs/archives.md`` lists the differences between the formats.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from her_wrappers.data.spaces import SpaceSpec, leaf_spaces
from her_wrappers.data.trees import as_leaf
from her_wrappers.recording.dataset import Dataset, EpisodeErrors, episodes_of, numbered
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes


def to_minari(
    episodes: Iterable[Episode], dataset_id: str, env: gym.Env[Any, Any] | str | EnvSpec, **metadata: Any
) -> Any:
    """Write episodes as a new Minari dataset.

    Images are stored without loss: Minari's default compression, JPEG, is switched off.

    Args:
        episodes: Iterable of episodes, such as a list or an `EpisodeArchive`. Only one episode at a time is
            in memory.
        dataset_id: Minari's id of the dataset, with a version, such as ``"reach/random-v0"``.
        env: Environment of the episodes, or its id or spec. Minari stores the spaces of the environment; the
            arrays of the episodes are cast to the dtypes of these spaces.
        **metadata: Other arguments of ``minari.create_dataset_from_buffers``, such as ``author``,
            ``description``, ``code_permalink``. Minari warns about missing arguments.

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        ImportError: Minari is not installed.
        TypeError: ``episodes`` is a single episode or yields other objects, or ``env`` is not an environment.
        ValueError: ``dataset_id`` is not valid, the dataset exists already, an episode does not fit the
            spaces of ``env``, or Minari cannot store a part of an episode. The incomplete dataset is deleted.
    """
    minari = _minari()
    from minari.data_collector import EpisodeBuffer  # noqa: PLC0415 - an extra
    from minari.dataset.minari_dataset import parse_dataset_id  # noqa: PLC0415

    try:
        parse_dataset_id(dataset_id)
    except (TypeError, ValueError) as error:  # Minari could write other ids, but not read them
        raise ValueError(
            f'dataset_id must have the form "namespace/name-v0", got {dataset_id!r}; the '
            "namespace can be left out, or must have at least two letters"
        ) from error
    observations, actions = _specs_of(env)
    begun = False

    def buffers() -> Iterator[Any]:
        nonlocal begun
        begun = True
        for number, episode in numbered(episodes):
            try:
                cast = Episodes.of([episode]).cast(observations, actions)[0]
            except ValueError as error:
                raise ValueError(f"episode {number} does not fit env: {error}") from error
            last = np.arange(len(cast)) == len(cast) - 1
            yield EpisodeBuffer(
                observations=cast.observations,
                actions=cast.actions,
                rewards=cast.rewards,
                terminations=last & cast.terminated,
                truncations=last & cast.truncated,
                infos=_as_minari_infos(cast, number),
            )

    try:
        return minari.create_dataset_from_buffers(
            dataset_id, buffers(), env, data_format="hdf5", jpeg_encoding=False, **metadata
        )
    except BaseException:
        if begun:  # otherwise this is the id of an older dataset
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                minari.delete_dataset(dataset_id)
        raise


def from_minari(dataset: Any, *, on_error: str = "raise") -> Iterator[Episode]:
    """Return an iterator over the episodes of a Minari dataset.

    The dataset is opened at once. Its episodes are read while you iterate, and their errors are raised then.

    Args:
        dataset: A ``minari.MinariDataset``, or the id of a local dataset.
        on_error: ``"raise"``, or ``"skip"`` to leave out episodes that are not valid, with a warning.

    Raises:
        ImportError: Minari is not installed.
        TypeError: ``dataset`` is neither a dataset nor an id.
        ValueError: An episode is not valid, or an info has neither T nor T + 1 rows for T steps.
    """
    if isinstance(dataset, str):
        dataset = _minari().load_dataset(dataset)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"dataset must be a minari.MinariDataset or its id, got {type(dataset).__name__}")
    errors = EpisodeErrors(on_error)
    return errors.counted(episodes_of(dataset, errors))


def _minari() -> Any:
    """Import and return Minari, or raise ImportError with the command that installs it."""
    try:
        import h5py  # noqa: F401, PLC0415 - Minari imports it later, with an unclear error
        import minari  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(
            'her_wrappers.integrations.minari needs Minari; run: pip install "her-toolkit[minari]"'
        ) from error
    return minari


def _specs_of(env: gym.Env[Any, Any] | str | EnvSpec) -> tuple[SpaceSpec, SpaceSpec]:
    # Minari could write keys with a slash but not read them, since a slash separates the groups of HDF5.
    if isinstance(env, str | EnvSpec):
        with gym.make(env) as made:
            return _specs_of(made)
    if not isinstance(env, gym.Env):
        raise TypeError(f"env must be a gymnasium Env, an id or a spec, got {type(env).__name__}")
    for name in ("observation_space", "action_space"):
        for path in leaf_spaces(getattr(env, name)):
            if bad := [key for key in path if "/" in str(key)]:
                raise ValueError(
                    f"keys in the {name} of env must not contain a slash, which Minari cannot store, got the "
                    f"key {bad[0]!r}; rename it in the environment"
                )
    return SpaceSpec.of("observations", env.observation_space), SpaceSpec.of("actions", env.action_space)


def _as_minari_infos(episode: Episode, number: int) -> dict[str, Any]:
    """Return the infos as Minari stores them: T rows, or T + 1 rows for keys that ``reset_info`` has too."""
    if only_at_reset := episode.reset_info.keys() - episode.infos.keys():
        raise ValueError(
            f"episode {number} has the key {min(only_at_reset)!r} in reset_info but not in infos, which "
            "Minari cannot store; remove the key from reset_info, or add it to infos"
        )
    infos: dict[str, Any] = {}
    for key, rows in episode.infos.items():
        if key in episode.reset_info:
            first = episode.reset_info[key]
            if not rows.dtype.kind == first.dtype.kind == "U" or first.shape != rows.shape[1:]:
                name = f"reset_info/{key} of episode {number}"
                first = as_leaf(name, first, rows.shape[1:], rows.dtype)
            rows = np.concatenate([first[None], rows])  # noqa: PLW2901 - rows of all states
        infos[key] = rows.tolist() if rows.dtype.kind == "U" else rows  # h5py cannot store arrays of str
    return infos
