"""Episodes to and from Minari, the Farama Foundation's format of offline datasets.

Everything goes through Minari's own API. What both sides have comes back exactly; ``docs/archives.md`` tells
what only one of them has.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.recording.episode import Episode
from her_wrappers.trees import as_leaf, leaf_spaces, map_tree, path_name

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


def to_minari(
    episodes: Iterable[Episode], dataset_id: str, env: gym.Env[Any, Any] | str | EnvSpec, **metadata: Any
) -> Any:
    """Write episodes as a new Minari dataset.

    Pictures are stored as they are; Minari by itself would turn them into JPEG, which changes them.

    Args:
        episodes: A list, an `EpisodeArchive`, or anything else that yields them; one is in memory at a time.
        dataset_id: Minari's name for it, such as ``"reach/random-v0"``.
        env: The environment that they come from, or its id or spec: Minari stores its spaces.
        **metadata: Other arguments of ``minari.create_dataset_from_buffers``, such as ``author``,
            ``description``, ``code_permalink``. Minari warns of those that are missing.

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        ImportError: Minari is not installed.
        TypeError: One is no `Episode`.
        ValueError: There is such a dataset already, or Minari has no place for something that an episode
            holds. No dataset is left behind.

    Example:
        >>> dataset = to_minari(archive, "reach/random-v0", env)  # doctest: +SKIP
    """
    minari = _minari()
    _require_names(env)
    begun = False

    def buffers() -> Iterator[Any]:
        nonlocal begun
        begun = True
        for number, episode in enumerate(episodes):
            if not isinstance(episode, Episode):
                raise TypeError(f"expected an Episode, got {type(episode).__name__}")
            yield _as_buffer(episode, number)

    try:
        return minari.create_dataset_from_buffers(
            dataset_id, buffers(), env, data_format="hdf5", jpeg_encoding=False, **metadata
        )
    except BaseException:
        if begun:  # else it is somebody else's dataset of that name
            with contextlib.redirect_stdout(io.StringIO()):
                minari.delete_dataset(dataset_id)
        raise


def from_minari(dataset: Any) -> Iterator[Episode]:
    """Read the episodes of a Minari dataset, one at a time.

    Args:
        dataset: A ``minari.MinariDataset``, or the id of one that is on this machine.

    Raises:
        ImportError: Minari is not installed.
        ValueError: An episode is none by our terms, or an info has neither a row a step nor a row a state.

    Example:
        >>> buffer.extend(from_minari("D4RL/pointmaze/umaze-v2"))  # doctest: +SKIP
    """
    if isinstance(dataset, str):
        dataset = _minari().load_dataset(dataset)
    for data in dataset.iterate_episodes():
        yield _as_episode(data)


def _minari() -> Any:
    """Import Minari.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import h5py  # noqa: F401, PLC0415 - Minari imports it only when it is too late for a clear message
        import minari  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError('Minari is missing; run: pip install "her-toolkit[minari]"') from error
    return minari


def _require_names(env: gym.Env[Any, Any] | str | EnvSpec) -> None:
    """Refuse an environment whose observations or actions Minari could write but not read.

    Raises:
        ValueError: A key has a slash, which in HDF5 leads into another group.
    """
    if not isinstance(env, gym.Env):
        with gym.make(env) as made:
            return _require_names(made)
    for name in ("observation_space", "action_space"):
        for path in leaf_spaces(getattr(env, name)):
            if any("/" in str(key) for key in path):
                raise ValueError(
                    f"Minari cannot store keys with a slash, got {path_name((name, *path))!r}; rename it"
                )
    return None


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


def _as_episode(data: Any) -> Episode:
    steps = len(data.rewards)
    infos: dict[str, np.ndarray] = {}
    resets: dict[str, np.ndarray] = {}
    for key, rows in _flat(data.infos or {}).items():
        if len(rows) not in {steps, steps + 1}:
            raise ValueError(
                f"info {key!r} of episode {data.id} must have {steps} or {steps + 1} rows, got {len(rows)}"
            )
        infos[key] = rows[-steps:]
        if len(rows) == steps + 1:
            resets[key] = np.asarray(rows[0])
    return Episode(
        observations=map_tree(np.asarray, data.observations),
        actions=map_tree(np.asarray, data.actions),
        rewards=np.asarray(data.rewards),
        terminated=bool(data.terminations[-1]),
        truncated=bool(data.truncations[-1]),
        infos=infos,
        reset_info=resets,
    )


def _flat(infos: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return nested infos as one dict, whose keys have slashes."""
    flat: dict[str, np.ndarray] = {}
    for key, value in infos.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}/")
        else:
            flat[prefix + key] = _decoded(np.asarray(value))
    return flat


def _decoded(rows: np.ndarray) -> np.ndarray:
    """Return strings, which HDF5 gives back as bytes in an array of objects, as an array of strings."""
    if rows.dtype != object:
        return rows
    texts = [part.decode() if isinstance(part, bytes) else str(part) for part in rows.ravel()]
    return np.array(texts).reshape(rows.shape)
