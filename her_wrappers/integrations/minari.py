"""Episodes to and from Minari, the Farama Foundation's format of offline datasets.

Everything goes through Minari's own API. What both sides have comes back exactly; ``docs/archives.md`` tells
what only one of them has.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from her_wrappers.recording.dataset import Dataset, episodes_of
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.spaces import SpaceSpec, leaf_spaces
from her_wrappers.trees import as_leaf, path_name


def to_minari(
    episodes: Iterable[Episode], dataset_id: str, env: gym.Env[Any, Any] | str | EnvSpec, **metadata: Any
) -> Any:
    """Write episodes as a new Minari dataset.

    Pictures are stored as they are; Minari by itself would turn them into JPEG, which changes them.

    Args:
        episodes: A list, an `EpisodeArchive`, or anything else that yields them; one is in memory at a time.
        dataset_id: Minari's name for it, with a version, such as ``"reach/random-v0"``.
        env: The environment that they come from, or its id or spec: Minari stores its spaces, and the
            episodes get their dtypes.
        **metadata: Other arguments of ``minari.create_dataset_from_buffers``, such as ``author``,
            ``description``, ``code_permalink``. Minari warns of those that are missing.

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        ImportError: Minari is not installed.
        TypeError: ``episodes`` is a single one or yields what is no `Episode`, or ``env`` is no environment.
        ValueError: The id is none, there is such a dataset already, an episode does not fit the spaces of
            ``env``, or Minari has no place for something that it holds. No dataset is left behind.

    Example:
        >>> dataset = to_minari(archive, "reach/random-v0", env)  # doctest: +SKIP
    """
    minari = _minari()
    _require_several(episodes)
    _require_id(dataset_id)
    specs = _specs_of(env)
    begun = False

    def buffers() -> Iterator[Any]:
        nonlocal begun
        begun = True
        for number, episode in enumerate(episodes):
            if not isinstance(episode, Episode):
                raise TypeError(f"expected an Episode, got {type(episode).__name__}")
            yield _as_buffer(_fitting(episode, number, *specs), number)

    try:
        return minari.create_dataset_from_buffers(
            dataset_id, buffers(), env, data_format="hdf5", jpeg_encoding=False, **metadata
        )
    except BaseException:
        if begun:  # else it is somebody else's dataset of that name
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                minari.delete_dataset(dataset_id)
        raise


def from_minari(dataset: Any) -> Iterator[Episode]:
    """Read the episodes of a Minari dataset, one at a time.

    Nothing is read, and no error raised, before the first episode is asked for.

    Args:
        dataset: A ``minari.MinariDataset``, or the id of one that is on this machine.

    Raises:
        ImportError: Minari is not installed.
        TypeError: ``dataset`` is none.
        ValueError: An episode is none by our terms, or an info has neither a row a step nor a row a state.

    Example:
        >>> buffer.extend(from_minari("D4RL/pointmaze/umaze-v2"))  # doctest: +SKIP
    """
    if isinstance(dataset, str):
        dataset = _minari().load_dataset(dataset)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"dataset must be a minari.MinariDataset or its id, got {type(dataset).__name__}")
    yield from episodes_of(dataset)


def _minari() -> Any:
    """Import Minari.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import h5py  # noqa: F401, PLC0415 - Minari imports it only when it is too late for a clear message
        import minari  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(
            'her_wrappers.integrations.minari needs Minari; run: pip install "her-toolkit[minari]"'
        ) from error
    return minari


def _require_several(episodes: object) -> None:
    """Refuse what yields no episodes, such as a single one.

    Raises:
        TypeError: It is such.
    """
    if not isinstance(episodes, Iterable):
        fix = "; write [episode]" if isinstance(episodes, Episode) else ""
        got = type(episodes).__name__
        raise TypeError(f"episodes must be a list of Episodes or an EpisodeArchive, got {got}{fix}")


def _require_id(dataset_id: str) -> None:
    """Refuse an id that Minari would write to but not read from, or that leads out of its folder.

    Raises:
        ValueError: It is one.
    """
    from minari.dataset.minari_dataset import parse_dataset_id  # noqa: PLC0415 - an extra

    try:
        parse_dataset_id(dataset_id)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'dataset_id must be of the form "namespace/name-v0", got {dataset_id!r}; the version must be '
            "there, the namespace may be missing, and has at least two letters"
        ) from error


def _specs_of(env: gym.Env[Any, Any] | str | EnvSpec) -> tuple[SpaceSpec, SpaceSpec]:
    """Return the leaves of observations and actions of an environment.

    Raises:
        TypeError: It is none.
        ValueError: A key has a slash, which in HDF5 leads into another group: Minari could write but not
            read it.
    """
    if isinstance(env, str | EnvSpec):
        with gym.make(env) as made:
            return _specs_of(made)
    if not isinstance(env, gym.Env):
        raise TypeError(f"env must be a gymnasium Env, an id or a spec, got {type(env).__name__}")
    for name in ("observation_space", "action_space"):
        for path in leaf_spaces(getattr(env, name)):
            if any("/" in str(key) for key in path):
                raise ValueError(
                    f"Minari cannot store keys with a slash, got {path_name((name, *path))!r}; rename it"
                )
    observations = SpaceSpec.of("observations", env.observation_space)
    return observations, SpaceSpec.of("actions", env.action_space)


def _fitting(episode: Episode, number: int, observations: SpaceSpec, actions: SpaceSpec) -> Episode:
    """Return a copy with the shapes and dtypes of the environment's spaces.

    Raises:
        ValueError: The episode has others.
    """
    try:
        return Episodes.of([episode]).cast(observations, actions)[0]
    except ValueError as error:
        raise ValueError(f"episode {number} does not fit env: {error}") from error


def _as_buffer(episode: Episode, number: int) -> Any:
    from minari.data_collector import EpisodeBuffer  # noqa: PLC0415 - an extra

    last = np.arange(len(episode)) == len(episode) - 1
    return EpisodeBuffer(
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards,
        terminations=last & episode.terminated,
        truncations=last & episode.truncated,
        infos=_as_minari_infos(episode, number),
    )


def _as_minari_infos(episode: Episode, number: int) -> dict[str, Any]:
    """Return infos with a row a state where the reset has them too, else with a row a step.

    Raises:
        ValueError: The reset has an info that the steps have not, or has it of another shape.
    """
    lonely = episode.reset_info.keys() - episode.infos.keys()
    if lonely:
        raise ValueError(
            f"Minari has no place for a reset info that no step has, got {min(lonely)!r} in episode "
            f"{number}; remove it from reset_info"
        )
    infos: dict[str, Any] = {}
    for key, rows in episode.infos.items():
        if key in episode.reset_info:
            first = _as_row(f"reset_info/{key} of episode {number}", episode.reset_info[key], rows)
            rows = np.concatenate([first[None], rows])  # noqa: PLW2901 - the rows of all states
        infos[key] = rows.tolist() if rows.dtype.kind == "U" else rows  # HDF5 has strings of its own
    return infos


def _as_row(name: str, value: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if rows.dtype.kind == "U" and value.dtype.kind == "U" and value.shape == rows.shape[1:]:
        return value
    return as_leaf(name, value, rows.shape[1:], rows.dtype)
