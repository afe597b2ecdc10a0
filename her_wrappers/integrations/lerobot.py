"""LeRobot: write and read episodes as datasets of LeRobot's format v3, without the package lerobot.

pyarrow writes and reads the Parquet files, PyAV the videos. ``docs/archives.md`` lists the differences
between the formats. The files of a dataset are::

    meta/info.json                              features, numbers of episodes and frames
    meta/stats.json, meta/tasks.parquet
    meta/episodes/chunk-000/file-000.parquet    a row per episode: its files, and its rows there
    meta/her_toolkit.parquet                    ours: a row per episode with its last state and reset info
    data/chunk-000/file-000.parquet             a row (frame) per step
    videos/KEY/chunk-000/file-000.mp4
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from her_wrappers.files.arrays import as_corrupt
from her_wrappers.recording.dataset import EpisodeErrors
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.shards import build_tree, flatten_tree
from her_wrappers.success_flag import flag_name
from her_wrappers.trees import NUMBERS, as_leaf
from her_wrappers.user_warning import warn_user

try:
    import av
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image
except ImportError as error:
    raise ImportError(
        "her_wrappers.integrations.lerobot needs pyarrow, av and pillow; run: "
        'pip install "her-toolkit[lerobot]"'
    ) from error

VERSION = 1  # of our part of the format
INFO, EPISODES = "meta/info.json", "meta/episodes"
OURS, OURS_KEY = "meta/her_toolkit.parquet", b"her_toolkit"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
CHUNK_FILES = 1000  # files in a folder
FILE_BYTES = 100 * 2**20  # size at which the next files begin
STATE, ACTION, REWARD = "observation.state", "action", "next.reward"
DONE, TERMINATED, TRUNCATED, SUCCESS = "next.done", "next.terminated", "next.truncated", "next.success"


def to_lerobot(
    episodes: Iterable[Episode],
    folder: str | os.PathLike[str],
    *,
    fps: int = 10,
    task: str = "",
    use_videos: bool = True,
) -> None:
    """Write episodes as a new LeRobot dataset of format v3.

    The features are ``observation.state`` (the key ``observation``), ``observation.achieved_goal``,
    ``observation.desired_goal``, ``observation.images.KEY`` (uint8 arrays with three color channels),
    ``action``, ``next.reward``, ``next.done``, ``next.success`` (if the infos have a success flag),
    ``next.terminated``, ``next.truncated`` and ``info.KEY``. They keep their dtypes.

    Args:
        episodes: Iterable of episodes of the same structure, such as a list or an `EpisodeArchive`; one
            episode at a time is in memory.
        folder: Folder of the dataset, which must be empty or not exist.
        fps: Steps per second.
        task: Description of the task in natural language.
        use_videos: Whether images are stored as videos (H.264), which changes them slightly. Otherwise, and
            if their height or width is odd, they are stored exactly, as PNG.

    Raises:
        ImportError: pyarrow, PyAV or Pillow is not installed.
        OSError: A file cannot be written.
        TypeError: ``episodes`` is a single episode or yields other objects.
        ValueError: The folder is not empty, there are no episodes, an episode does not fit the first one,
            or the format cannot store a part of an episode. The incomplete dataset is deleted.

    Example:
        >>> to_lerobot(archive, "datasets/push", fps=25, task="Push the cube")  # doctest: +SKIP
    """
    if not isinstance(episodes, Iterable):
        fix = "; write [episode]" if isinstance(episodes, Episode) else ""
        got = type(episodes).__name__
        raise TypeError(f"episodes must be a list of Episode objects or an EpisodeArchive, got {got}{fix}")
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ValueError(f"folder must be empty or not exist, got {root}; choose another folder")
    writer = _Writer(root, fps, task, use_videos)
    try:
        for number, episode in enumerate(episodes):
            if not isinstance(episode, Episode):
                got = type(episode).__name__
                raise TypeError(f"episodes must yield Episode objects, got {got}")  # noqa: TRY301 - deletes the files
            try:
                writer.add(episode)
            except ValueError as error:
                raise ValueError(f"episode {number} cannot be stored: {error}") from error
        writer.finish()
    except BaseException:
        with contextlib.suppress(Exception):  # of an incomplete video
            writer.close_files()
        shutil.rmtree(root, ignore_errors=True)
        raise


def from_lerobot(
    folder: str | os.PathLike[str],
    *,
    achieved_goal: Callable[[Any], Any] | None = None,
    compute_reward: Callable[[Any, Any, Any], Any] | None = None,
    on_error: str = "raise",
) -> Iterator[Episode]:
    """Yield the episodes of a local LeRobot dataset of format v3.

    Episodes of `to_lerobot` come back exactly, except for images in videos. Other datasets have no state
    after the last action, so the last frame of an episode becomes its last state, and the last action is left
    out; all episodes count as truncated. Their observations are a dict with the key ``observation`` for
    ``observation.state``, and the names of the other features without ``observation.``. The only info is
    ``is_success``, from ``next.success``. Reading starts, and errors are raised, when the first episode is
    requested.

    Args:
        folder: Folder of the dataset.
        achieved_goal: Only for datasets of other programs without goals: function from the dict of (T, ...)
            observations to (T, G) goals. The desired goal of an episode is its last achieved goal.
        compute_reward: Only for datasets of other programs: function of (T, G) achieved goals, (T, G) desired
            goals and T infos that returns (T,) rewards; by default ``next.reward``.
        on_error: ``"raise"``, or ``"skip"`` to leave out episodes that are not valid, with a warning.

    Raises:
        CorruptFileError: The folder is not a dataset of format v3, or a file is damaged.
        ImportError: pyarrow, PyAV or Pillow is not installed.
        ValueError: An episode is not valid, or has no rewards.

    Example:
        >>> buffer.extend(from_lerobot("datasets/push"))  # doctest: +SKIP
    """
    errors = EpisodeErrors(on_error)
    yield from errors.counted(_Reader(Path(folder), achieved_goal, compute_reward).episodes(errors))


class _Column(NamedTuple):
    """A feature of the dataset, for an array of (rows, ...) elements."""

    feature: str
    dtype: str  # "str" for texts
    shape: tuple[int, ...]  # of one row
    kind: str = ""  # "video" or "image"

    @classmethod
    def of(cls, name: str, rows: np.ndarray, *, use_videos: bool) -> _Column:
        """Return the feature for an array of `flatten_tree`, such as ``observations/achieved_goal``."""
        shape, is_text = rows.shape[1:], rows.dtype.kind == "U"
        if not (rows.dtype.kind in NUMBERS or (is_text and shape == ())) or 0 in shape:
            raise ValueError(f"{name} must have numbers, or a text per step, got {rows.dtype}, shape {shape}")
        kind = ""
        if rows.dtype == np.uint8 and len(shape) == 3 and shape[2] == 3:
            kind = "video" if use_videos and shape[0] % 2 == shape[1] % 2 == 0 else "image"
        tree, *keys = [unquote(part).replace("/", ".") for part in name.split("/")]
        names = {"observations": "observation", "actions": ACTION, "rewards": REWARD, "infos": "info"}
        if tree == "observations" and kind:
            tree = "observation.images" if keys else "observation.image"
        elif tree == "observations" and keys in ([], ["observation"]):
            tree, keys = STATE, []
        feature = ".".join([names.get(tree, tree), *keys])
        return cls(feature, "str" if is_text else rows.dtype.str, shape, kind)

    def describe(self) -> dict[str, Any]:
        """Return the entry of the feature in ``info.json``."""
        dtype = "string" if self.dtype == "str" else np.dtype(self.dtype).name
        names = ["height", "width", "channels"] if self.kind else None
        return {"dtype": self.kind or dtype, "shape": list(self.shape or (1,)), "names": names}

    @classmethod
    def of_info(cls, name: str, entry: dict[str, Any]) -> _Column:
        """Return a feature of ``info.json``; images are read with their channels last."""
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        kind = dtype if dtype in {"video", "image"} else ""
        return cls(name, "|u1" if kind else dtype.replace("string", "str"), shape, kind)

    def to_arrow(self, rows: np.ndarray) -> Any:
        """Return a Parquet column: a number, a text, (nested) lists or a PNG file per row."""
        if self.kind:
            files = [io.BytesIO() for _ in rows]
            for file, picture in zip(files, rows, strict=True):
                Image.fromarray(picture).save(file, "PNG")
            content = [{"bytes": file.getvalue(), "path": None} for file in files]
            return pa.array(content, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
        flat = rows.ravel()
        is_text = self.dtype == "str"
        values = pa.array(flat.tolist() if is_text else flat.astype(flat.dtype.newbyteorder("=")))
        for size in () if self.shape == (1,) else reversed(self.shape):
            values = pa.FixedSizeListArray.from_arrays(values, size)
        return values

    def from_arrow(self, column: Any) -> np.ndarray:
        """Return the rows of a Parquet column."""
        values = column.combine_chunks()
        if self.kind:
            files = [io.BytesIO(each["bytes"]) for each in values.to_pylist()]
            return np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        while pa.types.is_nested(values.type):
            values = values.flatten()
        if self.dtype == "str":
            return np.array(values.to_pylist()).reshape(len(column), *self.shape)
        rows: np.ndarray = values.to_numpy(zero_copy_only=False).reshape(len(column), *self.shape)
        return rows.astype(self.dtype)


class _Writer:
    """Writes a dataset episode by episode; the first one determines the features."""

    def __init__(self, root: Path, fps: int, task: str, use_videos: bool) -> None:
        self._root, self._fps, self._task, self._use_videos = root, fps, task, use_videos
        self._structure: Any = None  # of the trees, from `flatten_tree`
        self._columns: dict[str, _Column] = {}  # by name of the array
        self._features: dict[str, Any] = {}
        self._statistics: dict[str, _Statistics] = {}
        self._rows: list[dict[str, Any]] = []  # of the table of episodes
        self._tables: dict[Path, Any] = {}  # open Parquet files
        self._videos: dict[Path, tuple[Any, Any]] = {}  # open videos, with their streams
        self._file = 0
        self._first_frame = 0  # of the current files

    def add(self, episode: Episode) -> None:
        """Write an episode."""
        arrays = {"rewards": episode.rewards}
        names = ("observations", "actions", "infos")
        structure = {name: flatten_tree(getattr(episode, name), name, arrays) for name in names}
        resets = {f"reset_info/{key}": np.asarray(value)[None] for key, value in episode.reset_info.items()}
        if not self._rows:  # the first episode determines the features
            self._structure = structure
            for name, rows in (arrays | resets).items():
                self._columns[name] = _Column.of(name, rows, use_videos=self._use_videos)
            features = [column.feature for column in self._columns.values()]
            if repeated := [feature for feature in features if features.count(feature) > 1]:
                raise ValueError(f"two arrays have the name {repeated[0]!r} in the dataset; rename a key")
        if structure != self._structure:
            raise ValueError("all episodes must have the same keys of observations, actions and infos")
        if new := resets.keys() - self._columns.keys():
            raise ValueError(f"the first episode must have all keys of reset infos, got {min(new)!r} later")
        steps, number = len(episode), len(self._rows)
        begin = self._rows[-1]["dataset_to_index"] if self._rows else 0
        is_last = np.arange(steps) == steps - 1
        frames = {
            DONE: is_last & (episode.terminated | episode.truncated),
            TERMINATED: is_last & episode.terminated,
            TRUNCATED: is_last & episode.truncated,
            "timestamp": (np.arange(steps) / self._fps).astype(np.float32),
            "frame_index": np.arange(steps),
            "episode_index": np.full(steps, number),
            "index": np.arange(begin, begin + steps),
            "task_index": np.zeros(steps, np.int64),
        }
        if flag := flag_name(episode.infos):
            frames[SUCCESS] = episode.infos[flag].reshape(steps, -1)[:, 0].astype(bool)
        written = [(_Column(name, rows.dtype.str, ()), rows) for name, rows in frames.items()]
        ours = [(_Column("episode_index", "<i8", ()), np.array([number]))]
        for name, rows in (arrays | resets).items():
            column = self._columns[name]
            if column.dtype != "str":
                rows = as_leaf(name, rows, (len(rows), *column.shape), np.dtype(column.dtype))  # noqa: PLW2901
            if name in arrays:
                written.append((column, rows[:steps]))
            if name in resets or name.startswith("observations"):
                ours.append((column._replace(feature=name, kind=""), rows[-1:]))
        self._write_frames(written, begin, steps)
        self._write_table(self._root / OURS, ours)

    def _write_frames(self, frames: list[tuple[_Column, np.ndarray]], begin: int, steps: int) -> None:
        """Write the frames of an episode to the current files, and add it to the table of episodes."""
        current = [path for path in (*self._tables, *self._videos) if path != self._root / OURS]
        # A short video is still in the memory of the encoder.
        if any(path.exists() and path.stat().st_size > FILE_BYTES for path in current):
            self.close_files(current)
            self._file, self._first_frame = self._file + 1, begin
        place = {"chunk_index": self._file // CHUNK_FILES, "file_index": self._file % CHUNK_FILES}
        row = {"episode_index": len(self._rows), "tasks": [self._task], "length": steps}
        row |= {"dataset_from_index": begin, "dataset_to_index": begin + steps}
        row |= {f"data/{name}": number for name, number in place.items()}
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        for column, rows in frames:
            self._features.setdefault(column.feature, column.describe())
            if column.dtype != "str":
                self._statistics.setdefault(column.feature, _Statistics()).add(column, rows)
            if column.kind == "video":
                path = self._root / VIDEO.format(video_key=column.feature, **place)
                self._write_video(path, rows)
                row |= {f"videos/{column.feature}/{name}": number for name, number in place.items()}
                row[f"videos/{column.feature}/from_timestamp"] = (begin - self._first_frame) / self._fps
                row[f"videos/{column.feature}/to_timestamp"] = (begin + steps - self._first_frame) / self._fps
        stored = [(column, rows) for column, rows in frames if column.kind != "video"]
        self._write_table(self._root / DATA.format(**place), stored)
        self._rows.append(row)

    def _write_table(self, path: Path, columns: list[tuple[_Column, np.ndarray]]) -> None:
        """Add rows to a Parquet file. Columns of its first rows that are missing here are null."""
        arrays = {column.feature: column.to_arrow(rows) for column, rows in columns}
        if path not in self._tables:
            header = {"version": VERSION, "structure": self._structure, "columns": self._columns}
            schema = pa.table(arrays).schema
            if path == self._root / OURS:
                schema = schema.with_metadata({OURS_KEY: json.dumps(header)})
            path.parent.mkdir(parents=True, exist_ok=True)
            self._tables[path] = pq.ParquetWriter(path, schema)
        schema, rows = self._tables[path].schema, len(columns[0][1])
        ordered = [arrays[each.name] if each.name in arrays else pa.nulls(rows, each.type) for each in schema]
        self._tables[path].write_table(pa.Table.from_arrays(ordered, schema=schema))

    def _write_video(self, path: Path, pictures: np.ndarray) -> None:
        """Add pictures to a video."""
        if path not in self._videos:
            path.parent.mkdir(parents=True, exist_ok=True)
            container = av.open(str(path), "w")
            # Every second frame is a key frame, as in LeRobot, so that a single frame is read quickly.
            options = {"g": "2", "bf": "0", "crf": "18"}
            stream = container.add_stream("libx264", rate=self._fps, options=options)
            stream.height, stream.width = pictures.shape[1:3]
            stream.pix_fmt = "yuv420p"
            self._videos[path] = container, stream
        container, stream = self._videos[path]
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))

    def close_files(self, paths: Sequence[Path] | None = None) -> None:
        """Complete these open files, or all."""
        for path in [*self._tables, *self._videos] if paths is None else paths:
            if path in self._tables:
                self._tables.pop(path).close()
            else:
                container, stream = self._videos.pop(path)
                container.mux(stream.encode())
                container.close()

    def finish(self) -> None:
        """Write the files that describe the dataset."""
        if not self._rows:
            raise ValueError("expected at least one episode, got none")
        self.close_files()
        episodes = self._root / EPISODES / "chunk-000"
        episodes.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._rows), episodes / "file-000.parquet")
        # A table of pandas, whose index has the texts
        index = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode"}
        index |= {"numpy_type": "object", "metadata": None}
        described = {"index_columns": [index["field_name"]], "column_indexes": [], "columns": [index]}
        tasks = pa.table({"task_index": [0], "__index_level_0__": [self._task]})
        tasks = tasks.replace_schema_metadata({"pandas": json.dumps(described)})
        pq.write_table(tasks, self._root / "meta/tasks.parquet")
        has_videos = any(feature["dtype"] == "video" for feature in self._features.values())
        info = {
            "codebase_version": "v3.0",
            "robot_type": None,
            "total_episodes": len(self._rows),
            "total_frames": self._rows[-1]["dataset_to_index"],
            "total_tasks": 1,
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": FILE_BYTES // 2**20,
            "video_files_size_in_mb": FILE_BYTES // 2**20,
            "fps": self._fps,
            "splits": {"train": f"0:{len(self._rows)}"},
            "data_path": DATA,
            "video_path": VIDEO if has_videos else None,
            "features": self._features,
        }
        statistics = {feature: each.summary() for feature, each in self._statistics.items()}
        for name, content in (("meta/stats.json", statistics), (INFO, info)):
            (self._root / name).write_text(json.dumps(content, indent=1), encoding="utf-8")


class _Statistics:
    """Statistics of a feature: of each component, or of each color channel in [0, 1]."""

    def __init__(self) -> None:
        self._rows, self._values = 0, 0
        self._sums: Any = 0.0
        self._squares: Any = 0.0
        self._low, self._high = np.inf, -np.inf

    def add(self, column: _Column, rows: np.ndarray) -> None:
        """Add rows."""
        self._rows += len(rows)
        shape = (-1, 3, 1, 1) if column.kind else (len(rows), *(column.shape or (1,)))
        with np.errstate(all="ignore"):  # rewards may be infinite
            for part in rows if column.kind else [rows]:
                values = part.reshape(shape).astype(np.float64) / (255 if column.kind else 1)
                self._values += len(values)
                self._sums, self._squares = self._sums + values.sum(0), self._squares + (values**2).sum(0)
                self._low = np.minimum(self._low, values.min(0))
                self._high = np.maximum(self._high, values.max(0))

    def summary(self) -> dict[str, Any]:
        """Return the statistics in the form of ``stats.json``."""
        with np.errstate(all="ignore"):
            mean = self._sums / self._values
            deviation = np.sqrt(np.maximum(self._squares / self._values - mean**2, 0))
        found = {"min": self._low, "max": self._high, "mean": mean, "std": deviation}
        return {name: np.asarray(each).tolist() for name, each in found.items()} | {"count": [self._rows]}


class _Reader:
    """Reads the episodes of a dataset."""

    def __init__(
        self,
        root: Path,
        achieved_goal: Callable[[Any], Any] | None,
        compute_reward: Callable[[Any, Any, Any], Any] | None,
    ) -> None:
        self._root, self._achieved_goal, self._compute_reward = root, achieved_goal, compute_reward
        with _reading(root / INFO):
            info = json.loads((root / INFO).read_text(encoding="utf-8"))
            version = str(info["codebase_version"])
            if not version.startswith("v3."):
                raise ValueError(f"expected format v3 of LeRobot, got {version}; convert it with LeRobot")
            self._fps = info["fps"]
            self._columns = {  # of other datasets, by feature
                name: _Column.of_info(name, each)
                for name, each in info["features"].items()
                if name.startswith("observation.") or name in {ACTION, REWARD, SUCCESS}
            }
            paths = sorted((root / EPISODES).glob("*/*.parquet"))
            rows = [row for path in paths for row in _read_table(path).to_pylist()]
            if len(rows) != info["total_episodes"]:
                raise ValueError(f"{EPISODES} has {len(rows)} episodes, not {info['total_episodes']}")
            self._rows = {row["episode_index"]: row for row in rows}
            files = {(row["data/chunk_index"], row["data/file_index"]) for row in rows}
            self._paths = [root / DATA.format(chunk_index=i, file_index=j) for i, j in sorted(files)]
        self._ours: Any = _read_table(root / OURS) if (root / OURS).exists() else None
        if self._ours is not None:
            with _reading(root / OURS):
                header = json.loads(self._ours.schema.metadata[OURS_KEY])
                if header["version"] != VERSION:
                    raise ValueError(f"expected version {VERSION}, got {header['version']}")
                self._structure, columns = header["structure"], header["columns"].items()
                self._columns = {name: _Column(a, b, tuple(shape), d) for name, (a, b, shape, d) in columns}
                numbers = self._ours["episode_index"].to_pylist()
                self._last = {number: row for row, number in enumerate(numbers)}

    def episodes(self, errors: EpisodeErrors) -> Iterator[Episode]:
        """Yield the episodes; the caller increments ``errors.number`` after each."""
        if self._ours is None:
            warn_user(
                f"{self._root} has no states after the last actions: the last frame of each episode is its "
                "last state, the last action and its reward are left out, and all episodes count as truncated"
            )
        for path in self._paths:
            table = _read_table(path)
            with _reading(path):
                numbers = table["episode_index"].to_numpy()
            begins = np.flatnonzero(np.diff(numbers, prepend=-1))
            for begin, end in pairwise([*begins, len(numbers)]):
                frames, number = table.slice(begin, end - begin), int(numbers[begin])
                try:
                    with _reading(path):
                        arrays = self._arrays(frames, number)
                        if self._ours is not None:
                            episode = self._own_episode(arrays, frames, number)
                    if self._ours is None:
                        episode = self._other_episode(arrays)
                except (TypeError, ValueError) as error:
                    errors.handle(error)
                else:
                    yield episode

    def _arrays(self, frames: Any, number: int) -> dict[str, np.ndarray]:
        """Return the T rows of an episode for each column, except those of reset infos."""
        arrays = {}
        for name, column in self._columns.items():
            if column.kind == "video":
                arrays[name] = self._read_video(column, number, len(frames))
            elif not name.startswith("reset_info/"):
                arrays[name] = column.from_arrow(frames[column.feature])
        return arrays

    def _read_video(self, column: _Column, number: int, count: int) -> np.ndarray:
        """Return the pictures of an episode."""
        place = f"videos/{column.feature}/"
        row = {name.removeprefix(place): value for name, value in self._rows[number].items()}
        path = self._root / VIDEO.format(
            video_key=column.feature, **{name: row[name] for name in ("chunk_index", "file_index")}
        )
        begin = row["from_timestamp"]
        pictures: list[np.ndarray] = []
        with _reading(path), av.open(str(path)) as container:
            stream = container.streams.video[0]
            container.seek(int(begin / stream.time_base), stream=stream)  # to the key frame before it
            for frame in container.decode(stream):
                if frame.time > begin - 0.5 / self._fps and len(pictures) < count:
                    pictures.append(frame.to_ndarray(format="rgb24"))
                if len(pictures) == count:
                    return np.stack(pictures)
            raise ValueError(f"episode {number} must have {count} frames, got {len(pictures)}")

    def _own_episode(self, arrays: dict[str, np.ndarray], frames: Any, number: int) -> Episode:
        """Return an episode of `to_lerobot`."""
        row = self._ours.slice(self._last[number], 1)
        resets = {}
        for name, column in self._columns.items():
            if name not in row.column_names or not row[name].is_valid()[0].as_py():
                continue
            value = column._replace(kind="").from_arrow(row[name])
            if name.startswith("reset_info/"):
                resets[name.removeprefix("reset_info/")] = np.asarray(value[0])
            else:
                arrays[name] = np.concatenate([arrays[name], value])
        rewards = arrays.pop("rewards")
        trees = {name: build_tree(part, arrays) for name, part in self._structure.items()}
        terminated, truncated = (bool(frames[name][-1].as_py()) for name in (TERMINATED, TRUNCATED))
        return Episode(
            rewards=rewards, terminated=terminated, truncated=truncated, reset_info=resets, **trees
        )

    def _other_episode(self, arrays: dict[str, np.ndarray]) -> Episode:
        """Return an episode of another program: T frames, of which the last one is the last state."""
        names = {
            name: name.removeprefix("observation.") for name in arrays if name.startswith("observation.")
        }
        names |= {STATE: "observation"} if STATE in names else {}
        observations = {key: arrays[name] for name, key in names.items()}
        if self._achieved_goal is not None:
            achieved = np.asarray(self._achieved_goal(observations))
            desired = np.broadcast_to(achieved[-1], achieved.shape)
            observations |= {"achieved_goal": achieved, "desired_goal": desired}
        if ACTION not in arrays:
            raise ValueError(f"the dataset must have the feature {ACTION!r}, got {', '.join(arrays)}")
        actions = arrays[ACTION][:-1]
        if self._compute_reward is not None:
            if "achieved_goal" not in observations:
                raise ValueError("compute_reward needs goals, and the dataset has none; pass achieved_goal")
            goals = observations["achieved_goal"][1:], observations["desired_goal"][:-1]
            rewards = np.asarray(self._compute_reward(*goals, [{} for _ in actions]))
        elif REWARD in arrays:
            rewards = arrays[REWARD].reshape(-1)[:-1]
        else:
            raise ValueError(f"the dataset has no {REWARD}; pass compute_reward")
        infos = {"is_success": arrays[SUCCESS].reshape(-1)[:-1]} if SUCCESS in arrays else {}
        return Episode(observations, actions, rewards, False, True, infos)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise CorruptFileError instead of the errors of a file that is damaged or missing."""
    with as_corrupt(f"{path} is missing or damaged"):
        try:
            yield
        except (OSError, av.FFmpegError) as error:
            raise ValueError(error.strerror or str(error)) from error


def _read_table(path: Path) -> Any:
    """Read a Parquet file."""
    with _reading(path):
        return pq.ParquetFile(path).read()
