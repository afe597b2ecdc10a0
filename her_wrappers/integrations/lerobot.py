"""LeRobot: write and read episodes as datasets of LeRobot's format v3, without the package lerobot.

pyarrow writes and reads the Parquet files, PyAV the videos. ``docs/archives.md`` lists the differences
between the formats. A dataset has these files; each episode has its own files in her_toolkit, data, videos::

    meta/info.json                              features, numbers of episodes and frames
    meta/stats.json, meta/tasks.parquet
    meta/episodes/chunk-000/file-000.parquet    a row per episode, with the places of its files
    meta/her_toolkit/chunk-000/file-000.npz     added by us: last state, reset info, array names and dtypes
    data/chunk-000/file-000.parquet             a row (frame) per step
    videos/KEY/chunk-000/file-000.mp4
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from her_wrappers.data.arrays import ArrayFile, as_corrupt, write_arrays
from her_wrappers.data.trees import NUMBERS, as_leaf
from her_wrappers.goals.success_flag import flag_name
from her_wrappers.recording.dataset import EpisodeErrors
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.shards import TREES, build_tree, flatten_tree
from her_wrappers.support.user_warning import warn_user

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

INFO, EPISODES = "meta/info.json", "meta/episodes"
PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA, VIDEO = f"data/{PLACE}.parquet", f"videos/{{video_key}}/{PLACE}.mp4"
OURS, KIND = f"meta/her_toolkit/{PLACE}.npz", "LeRobot"
CHUNK_FILES = 1000  # files in a folder
STATE, ACTION, REWARD = "observation.state", "action", "next.reward"
DONE, TERMINATED, TRUNCATED, SUCCESS = "next.done", "next.terminated", "next.truncated", "next.success"
QUANTILES = (1, 10, 50, 90, 99)  # percent, in ``stats.json``
PIXELS = 1000  # random pixels of each episode, from which the statistics of images are computed


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
    ``next.terminated``, ``next.truncated`` and ``info.KEY``. KEY is the key in the observations or infos. The
    arrays keep their dtypes.

    Args:
        episodes: Iterable of episodes of the same structure, such as a list or an `EpisodeArchive`. Only
            one episode at a time is in memory. At the end, statistics are computed for one feature at a time;
            all values of this feature are then in memory, unless it is an image.
        folder: Folder of the new dataset. The folder must be empty or not exist.
        fps: Steps per second.
        task: Description of the task in natural language.
        use_videos: Whether to store images as videos (H.264), which changes them slightly. If False, or if
            the height or width is odd, images are stored as PNG, without changes.

    Raises:
        ImportError: pyarrow, PyAV or Pillow is not installed.
        OSError: A file cannot be written.
        TypeError: ``episodes`` is a single episode or yields other objects.
        ValueError: The folder is not empty, there are no episodes, an episode differs in structure from the
            first one, or the format cannot store a part of an episode. The incomplete dataset is deleted.

    Example:
        >>> to_lerobot(archive, "datasets/push", fps=25, task="Push the cube")  # doctest: +SKIP
    """
    if not isinstance(episodes, Iterable):
        fix = "; write [episode]" if isinstance(episodes, Episode) else ""
        got = type(episodes).__name__
        raise TypeError(f"episodes must be a list of Episode objects or an EpisodeArchive, got {got}{fix}")
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        problem = "is not empty" if root.is_dir() else "is not a folder"
        raise ValueError(f"folder must be new or empty, but {str(root)!r} {problem}; choose another folder")
    writer = _Writer(root, fps, task, use_videos)
    try:
        for number, episode in enumerate(episodes):
            if not isinstance(episode, Episode):
                got = f"got {type(episode).__name__} at position {number}"
                raise TypeError(f"each element of episodes must be an Episode, {got}")  # noqa: TRY301 - deletes the files
            try:
                writer.add(episode)
            except (TypeError, ValueError) as error:
                raise ValueError(f"episode {number} cannot be stored: {error}") from error
        writer.finish()
    except BaseException:
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

    Episodes that `to_lerobot` wrote are returned exactly, except for images in videos. Datasets that
    other programs wrote have no state after the last action. Therefore the last frame of an episode only
    gives the last state; its action and reward are left out, and the episode is truncated. The observations
    of such datasets are dicts with the features whose names begin with ``observation.``. The keys are these
    names without ``observation.``; the key of ``observation.state`` is ``observation``. The only info of such
    datasets is ``is_success``, from ``next.success``.

    Files are read, and errors are raised, only while you iterate over the returned episodes.

    Args:
        folder: Folder of the dataset.
        achieved_goal: Function from the dict of (F, ...) observations in the F frames of an episode to (F, G)
            achieved goals, for datasets that other programs wrote without goals. The last achieved goal of an
            episode becomes its desired goal. None adds no goals.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the rewards of all steps
            of an episode, for datasets that other programs wrote; the infos are empty dicts. None uses
            ``next.reward``.
        on_error: ``"raise"``, or ``"skip"`` to leave out episodes that are not valid, with a warning.

    Raises:
        CorruptFileError: The folder is not a dataset of format v3, or a file is missing or damaged.
        ImportError: pyarrow, PyAV or Pillow is not installed.
        ValueError: An episode is not valid, or has no rewards.

    Example:
        >>> buffer.extend(from_lerobot("datasets/push"))  # doctest: +SKIP
    """
    errors = EpisodeErrors(on_error)
    yield from errors.counted(_read_episodes(Path(folder), errors, achieved_goal, compute_reward))


class _Writer:
    """Writes a dataset episode by episode; the first episode determines the features."""

    def __init__(self, root: Path, fps: int, task: str, use_videos: bool) -> None:
        self._root, self._fps, self._task, self._use_videos = root, fps, task, use_videos
        self._structure: Any = None  # of the trees, from `flatten_tree`
        self._like: dict[str, np.ndarray] = {}  # the arrays of the first episode, without rows
        self._names: dict[str, str] = {}  # feature of each array
        self._features: dict[str, dict[str, Any]] = {}  # as in ``info.json``
        self._pixels: dict[str, list[np.ndarray]] = {}  # random pixels of each episode, by feature
        self._rows: list[dict[str, Any]] = []  # rows of the table of episodes
        self._rng = np.random.default_rng(0)  # so that equal episodes give equal files

    def add(self, episode: Episode) -> None:
        """Write an episode."""
        arrays = {"rewards": episode.rewards}
        structure = {name: flatten_tree(getattr(episode, name), name, arrays) for name in TREES}
        if not self._rows:
            self._structure, self._like = structure, {name: rows[:0] for name, rows in arrays.items()}
            for name, rows in arrays.items():
                feature, described = _describe(name, rows, use_videos=self._use_videos)
                if feature in self._features:
                    other = next(each for each, known in self._names.items() if known == feature)
                    raise ValueError(
                        f"{other} and {name} would both be stored as {feature!r}; rename one of these keys"
                    )
                self._names[name], self._features[feature] = feature, described
        if structure != self._structure:
            raise ValueError("its observations, actions and infos must have the same keys as in episode 0")
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
        for feature, rows in frames.items():
            self._features[feature] = {"dtype": rows.dtype.name, "shape": [1], "names": None}
        ours = {f"reset_info/{key}": np.asarray(value) for key, value in episode.reset_info.items()}
        for name, rows in arrays.items():
            like = self._like[name]
            if like.dtype.kind != "U":
                rows = as_leaf(name, rows, (len(rows), *like.shape[1:]), like.dtype)  # noqa: PLW2901
            frames[self._names[name]], ours[name] = rows[:steps], rows[-1:]
        row = {"episode_index": number, "tasks": [self._task], "length": steps}
        row |= {"dataset_from_index": begin, "dataset_to_index": begin + steps}
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        self._rows.append(row | self._write_frames(frames, ours))

    def _write_frames(self, frames: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> dict[str, Any]:
        """Write the files of an episode; return its entries for the table of episodes.

        The entries are the numbers of the files, and the start and end of the episode in each video.
        ``frames``, arrays by feature, are written to the data and video files. ``ours``, the arrays that the
        format of LeRobot has no place for, are written to a file in the folder ``her_toolkit``.
        """
        number = len(self._rows)
        place = {"chunk_index": number // CHUNK_FILES, "file_index": number % CHUNK_FILES}
        table: dict[str, Any] = {}
        row: dict[str, Any] = {f"data/{name}": value for name, value in place.items()}
        for feature, rows in frames.items():
            kind = self._features[feature]["dtype"]
            if kind in {"image", "video"}:
                pixels = self._rng.choice(rows.reshape(-1, 3), PIXELS)
                self._pixels.setdefault(feature, []).append(pixels)
            if kind == "video":
                _write_video(_new(self._root / VIDEO.format(video_key=feature, **place)), rows, self._fps)
                times = {"from_timestamp": 0.0, "to_timestamp": len(rows) / self._fps}
                row |= {f"videos/{feature}/{name}": value for name, value in {**place, **times}.items()}
            else:
                table[feature] = _to_arrow(kind, rows)
        pq.write_table(pa.table(table), _new(self._root / DATA.format(**place)))
        header = {"structure": self._structure, "names": self._names}
        write_arrays(_new(self._root / OURS.format(**place)), ours, header, kind=KIND, version=1)
        return row

    def finish(self) -> None:
        """Write the files that describe the whole dataset, in the folder ``meta``."""
        if not self._rows:
            raise ValueError("episodes must contain at least one episode, got none")
        pq.write_table(
            pa.Table.from_pylist(self._rows), _new(self._root / EPISODES / "chunk-000/file-000.parquet")
        )
        # Metadata of pandas, which make the texts the index of the table
        index = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode"}
        index |= {"numpy_type": "object", "metadata": None}
        described = {"index_columns": [index["field_name"]], "column_indexes": [], "columns": [index]}
        tasks = pa.table({"task_index": [0], "__index_level_0__": [self._task]})
        tasks = tasks.replace_schema_metadata({"pandas": json.dumps(described)})
        pq.write_table(tasks, self._root / "meta/tasks.parquet")
        frames, statistics = self._rows[-1]["dataset_to_index"], {}
        for feature, entry in self._features.items():
            if feature in self._pixels:
                values = np.concatenate(self._pixels[feature])[:, :, None, None] / 255
            elif entry["dtype"] != "string":
                column = pq.read_table(self._root / "data", columns=[feature])[feature]
                values = _from_arrow(column).reshape(frames, *entry["shape"]).astype(np.float64)
            else:
                continue
            statistics[feature] = _statistics(values) | {"count": [frames]}
        kinds = {entry["dtype"] for entry in self._features.values()}
        info = {
            "codebase_version": "v3.0",
            "robot_type": None,
            "total_episodes": len(self._rows),
            "total_frames": frames,
            "total_tasks": 1,
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 100,
            "fps": self._fps,
            "splits": {"train": f"0:{len(self._rows)}"},
            "data_path": DATA,
            "video_path": VIDEO if "video" in kinds else None,
            "features": self._features,
        }
        for name, content in (("meta/stats.json", statistics), (INFO, info)):
            (self._root / name).write_text(json.dumps(content, indent=1), encoding="utf-8")


def _describe(name: str, rows: np.ndarray, *, use_videos: bool) -> tuple[str, dict[str, Any]]:
    """Return the LeRobot name and the ``info.json`` entry of an array that `flatten_tree` named ``name``."""
    shape, kind, names = rows.shape[1:], rows.dtype.name, None
    if rows.dtype == np.uint8 and len(shape) == 3 and shape[2] == 3:
        kind = "video" if use_videos and shape[0] % 2 == shape[1] % 2 == 0 else "image"
        names = ["height", "width", "channels"]
    elif rows.dtype.kind == "U" and shape == ():
        kind = "string"
    elif rows.dtype.kind not in NUMBERS or 0 in shape:
        raise ValueError(
            f"LeRobot stores at least one number or exactly one string per step, but {name} has dtype "
            f"{rows.dtype} and shape {shape} per step; remove {name} from the episodes"
        )
    tree, *keys = [unquote(part).replace("/", ".") for part in name.split("/")]
    renamed = {"observations": "observation", "actions": ACTION, "rewards": REWARD, "infos": "info"}
    feature = ".".join([renamed[tree], *keys])
    if names:
        feature = feature.replace("observation", "observation.images" if keys else "observation.image", 1)
    elif feature in {"observation", "observation.observation"}:
        feature = STATE
    return feature, {"dtype": kind, "shape": list(shape or (1,)), "names": names}


def _to_arrow(kind: str, rows: np.ndarray) -> Any:
    """Return ``rows`` as an Arrow array of numbers, strings, (nested) lists of numbers, or PNG files."""
    if kind == "image":
        files = [io.BytesIO() for _ in rows]
        for file, picture in zip(files, rows, strict=True):
            Image.fromarray(picture).save(file, "PNG")
        content = [{"bytes": file.getvalue(), "path": None} for file in files]
        return pa.array(content, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    if kind == "string":
        return pa.array(rows.tolist(), pa.string())
    values = pa.array(rows.ravel().astype(rows.dtype.newbyteorder("=")))
    for size in () if rows.shape[1:] == (1,) else reversed(rows.shape[1:]):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def _from_arrow(column: Any) -> np.ndarray:
    """Return a column as an array: (n, H, W, 3) if it contains image files, else all its values flattened."""
    values = column.combine_chunks()
    if pa.types.is_struct(values.type):
        files = [io.BytesIO(each["bytes"]) for each in values.to_pylist()]
        return np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    while pa.types.is_nested(values.type):
        values = values.flatten()
    elements: np.ndarray = values.to_numpy(zero_copy_only=False)
    return elements


def _write_video(path: Path, pictures: np.ndarray, fps: int) -> None:
    with av.open(str(path), "w") as container:
        # Every second frame is a key frame, as in LeRobot, so that a single frame is read quickly.
        stream = container.add_stream("libx264", rate=fps, options={"g": "2", "bf": "0", "crf": "18"})
        stream.height, stream.width = pictures.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())


def _new(path: Path) -> Path:
    """Create the folder that will contain the file ``path``, and return ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _statistics(values: np.ndarray) -> dict[str, Any]:
    """Return statistics over the first axis of (n, ...) values, in the form of ``stats.json``."""
    with np.errstate(all="ignore"):  # rewards may be infinite
        found = {name: getattr(values, name)(axis=0) for name in ("min", "max", "mean", "std")}
        quantiles = np.percentile(values, QUANTILES, axis=0)
    found |= {f"q{percent:02d}": each for percent, each in zip(QUANTILES, quantiles, strict=True)}
    return {name: each.tolist() for name, each in found.items()}


def _read_episodes(
    root: Path,
    errors: EpisodeErrors,
    achieved_goal: Callable[[Any], Any] | None,
    compute_reward: Callable[[Any, Any, Any], Any] | None,
) -> Iterator[Episode]:
    """Yield the episodes of the dataset in ``root``; the caller counts them with ``errors.counted``."""
    with _reading(root / INFO):
        info = json.loads((root / INFO).read_text(encoding="utf-8"))
        version = str(info["codebase_version"])
        if not version.startswith("v3."):
            raise ValueError(f"the dataset must have format v3, got {version}; convert it with LeRobot")
        tables = [_read_table(path) for path in sorted((root / EPISODES).glob("*/*.parquet"))]
        rows = {row["episode_index"]: row for table in tables for row in table.to_pylist()}
        if len(rows) != info["total_episodes"]:
            raise ValueError(
                f"it declares {info['total_episodes']} episodes, but {EPISODES} has {len(rows)}; copy or "
                "download the dataset again"
            )
        files = sorted({(row["data/chunk_index"], row["data/file_index"]) for row in rows.values()})
        others = [
            name
            for name in info["features"]
            if name.startswith("observation.") or name in {ACTION, REWARD, SUCCESS}
        ]
    is_ours = (root / OURS).parents[1].exists()
    if not is_ours:
        warn_user(
            f"{root} has no states after the last actions: the last frame of each episode is used only for "
            "the last state, its action and reward are left out, and all episodes count as truncated"
        )
    for chunk, file in files:
        path = root / DATA.format(chunk_index=chunk, file_index=file)
        table = _read_table(path)
        with _reading(path):
            numbers = table["episode_index"].to_numpy()
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        for begin, end in pairwise([*begins, len(numbers)]):
            try:
                with _reading(path):
                    row = rows[int(numbers[begin])]
                frames = _Frames(root, info, table.slice(begin, end - begin), row)
                if is_ours:
                    episode = _own_episode(frames)
                else:
                    with _reading(path):
                        arrays = {name: frames.read(name) for name in others}
                    episode = _other_episode(arrays, achieved_goal, compute_reward)
            except (TypeError, ValueError) as error:
                errors.handle(error)
            else:
                yield episode


class _Frames(NamedTuple):
    """Reads the frames of one episode."""

    root: Path
    info: dict[str, Any]  # of ``info.json``
    table: Any  # the T rows of Parquet
    row: dict[str, Any]  # of the table of episodes

    def read(self, feature: str) -> np.ndarray:
        """Return the T rows of a feature."""
        entry, count = self.info["features"][feature], len(self.table)
        if entry["dtype"] == "video":
            return self._read_video(feature)
        rows = _from_arrow(self.table[feature])
        if entry["dtype"] == "image":
            return rows
        return rows.reshape(count, *entry["shape"]).astype(entry["dtype"].replace("string", "str"))

    def _read_video(self, feature: str) -> np.ndarray:
        place = {name: self.row[f"videos/{feature}/{name}"] for name in ("chunk_index", "file_index")}
        path = self.root / VIDEO.format(video_key=feature, **place)
        begin = self.row[f"videos/{feature}/from_timestamp"]
        pictures: list[np.ndarray] = []
        with _reading(path), av.open(str(path)) as container:
            stream = container.streams.video[0]
            container.seek(int(begin / stream.time_base), stream=stream)  # to the key frame before `begin`
            for frame in container.decode(stream):
                if frame.time > begin - 0.5 / self.info["fps"]:
                    pictures.append(frame.to_ndarray(format="rgb24"))
                if len(pictures) == len(self.table):
                    return np.stack(pictures)
            raise ValueError(f"the video has only {len(pictures)} of {len(self.table)} frames of an episode")


def _own_episode(frames: _Frames) -> Episode:
    """Return an episode that `to_lerobot` wrote."""
    place = {name: frames.row[f"data/{name}"] for name in ("chunk_index", "file_index")}
    path = frames.root / OURS.format(**place)
    with _reading(path), ArrayFile(path, kind=KIND, version=1) as file:
        header: Any = file.header
        arrays = {}
        for name, feature in header["names"].items():
            last = file.read(name)
            rows = frames.read(feature).reshape(-1, *last.shape[1:]).astype(last.dtype)
            arrays[name] = np.concatenate([rows, last]) if name.startswith("observations") else rows
        resets = [name for name in file.arrays if name.startswith("reset_info/")]
        reset_info = {name.removeprefix("reset_info/"): file.read(name) for name in resets}
        trees = {name: build_tree(part, arrays) for name, part in header["structure"].items()}
        flags = [bool(frames.read(name)[-1, 0]) for name in (TERMINATED, TRUNCATED)]
        return Episode(
            rewards=arrays["rewards"], terminated=flags[0], truncated=flags[1], reset_info=reset_info, **trees
        )


def _other_episode(
    arrays: dict[str, np.ndarray],
    achieved_goal: Callable[[Any], Any] | None,
    compute_reward: Callable[[Any, Any, Any], Any] | None,
) -> Episode:
    """Return an episode that `to_lerobot` did not write; ignore action and reward of its last frame."""
    names = {name: name.removeprefix("observation.") for name in arrays if name.startswith("observation.")}
    names |= {STATE: "observation"} if STATE in names else {}
    observations = {key: arrays[name] for name, key in names.items()}
    if achieved_goal is not None:
        achieved = np.asarray(achieved_goal(observations))
        desired = np.broadcast_to(achieved[-1], achieved.shape)
        observations |= {"achieved_goal": achieved, "desired_goal": desired}
    if ACTION not in arrays:
        raise ValueError(f"the dataset must have the feature {ACTION!r}, got only {list(arrays)}")
    actions = arrays[ACTION][:-1]
    if compute_reward is not None:
        if "achieved_goal" not in observations:
            raise ValueError("compute_reward needs goals, but the dataset has none; pass achieved_goal= too")
        goals = observations["achieved_goal"][1:], observations["desired_goal"][:-1]
        rewards = np.asarray(compute_reward(*goals, [{} for _ in actions]))
    elif REWARD in arrays:
        rewards = arrays[REWARD].reshape(-1)[:-1]
    else:
        raise ValueError(f"the dataset has no feature {REWARD!r}; pass compute_reward=")
    infos = {"is_success": arrays[SUCCESS].reshape(-1)[:-1]} if SUCCESS in arrays else {}
    return Episode(observations, actions, rewards, False, True, infos)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise CorruptFileError instead of the errors that a damaged or missing file causes."""
    with as_corrupt(f"{path} is missing or damaged"):
        try:
            yield
        except (OSError, av.FFmpegError) as error:
            raise ValueError(error.strerror or str(error)) from error


def _read_table(path: Path) -> Any:
    with _reading(path):
        return pq.ParquetFile(path).read()
