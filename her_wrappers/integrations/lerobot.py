"""LeRobot: write and read episodes as datasets of LeRobot's format v3.

LeRobot's own code writes and reads all other files than ``meta/her_toolkit``, an `EpisodeArchive` of the last
step of each episode: the last state, flags, reset infos, and the structure and dtypes of all arrays.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.data.arrays import as_corrupt
from her_wrappers.data.trees import NUMBERS, leaves_by_path, map_tree, path_name
from her_wrappers.goals.success_flag import flag_name
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.dataset import EpisodeErrors, numbered
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.support.user_warning import warn_user

try:
    import av
    from lerobot.datasets import lerobot_dataset, utils
    from lerobot.datasets.video_utils import decode_video_frames
    from lerobot.utils.utils import SuppressProgressBars
    from PIL import Image
except ImportError as error:
    raise ImportError('LeRobot is not installed; run: pip install "her-toolkit[lerobot]"') from error

OURS = "meta/her_toolkit"
FEATURES = {"observations": "observation", "actions": "action", "rewards": "next.reward", "infos": "info"}
BLOCK = 64  # pictures of a video that are decoded at once, since LeRobot returns them as float32


def to_lerobot(
    episodes: Iterable[Episode],
    folder: str | os.PathLike[str],
    *,
    fps: int = 10,
    task: str = "",
    use_videos: bool = True,
) -> None:
    """Write episodes as a new LeRobot dataset of format v3; ``docs/archives.md`` lists the features.

    Args:
        episodes: Iterable of episodes with the same keys, shapes and dtypes, such as an `EpisodeArchive`.
        folder: Folder of the new dataset. The folder must be empty or not exist.
        fps: Steps per second.
        task: Description of the task in natural language.
        use_videos: Whether to store images as videos (H.264), which changes them slightly. If False, or if
            the height or width is odd, images are stored as PNG, without changes.

    Raises:
        OSError: A file cannot be written.
        TypeError: ``episodes`` is a single episode or yields other objects.
        ValueError: The folder is not empty, there are no episodes, an episode differs from the first one, or
            LeRobot cannot store a part of an episode. The incomplete dataset is deleted.
    """
    root, dataset = Path(folder), None
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ValueError(f"folder must be new or empty, got {str(root)!r}; choose another folder")
    av.logging.set_libav_level(av.logging.ERROR)  # the encoder prints 20 lines per episode otherwise
    try:
        with EpisodeArchive(root / OURS) as last_steps, SuppressProgressBars():
            for number, episode in numbered(episodes):
                try:
                    columns, last_step = _split(episode)
                    if dataset is None:
                        shutil.rmtree(root, ignore_errors=True)  # LeRobot creates the folder
                        features = {name: _describe(rows, use_videos) for name, rows in columns.items()}
                        dataset = lerobot_dataset.LeRobotDataset.create(
                            "local/dataset", fps, features, root, vcodec="h264", video_backend="pyav"
                        )
                    for values in zip(*columns.values(), strict=True):
                        dataset.add_frame(dict(zip(columns, values, strict=True), task=task))
                    dataset.save_episode(parallel_encoding=False)
                    last_steps.add_episode(last_step)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"episode {number} cannot be stored: {error}") from error
        if dataset is None:
            raise ValueError("episodes must contain at least one episode, got none")  # noqa: TRY301 - as above
        dataset.finalize()
    except BaseException:
        if dataset is not None:
            dataset.meta.metadata_buffer.clear()  # LeRobot would write it when Python deletes the object
            dataset.finalize()
        shutil.rmtree(root, ignore_errors=True)
        raise


def from_lerobot(
    folder: str | os.PathLike[str],
    *,
    episodes: Iterable[int] | None = None,
    achieved_goal: Callable[[Any], Any] | None = None,
    compute_reward: Callable[[Any, Any, Any], Any] | None = None,
    on_error: str = "raise",
) -> Iterator[Episode]:
    """Yield the episodes of a local LeRobot dataset of format v3, in the order of their numbers.

    Episodes that `to_lerobot` wrote are returned exactly, except for images in videos. Datasets of other
    programs have no state after the last action: the last frame of an episode becomes the last state, its
    action is not used, and the last step has ``truncated`` set. Their observations are dicts of the
    features ``observation.KEY`` or ``observation.images.KEY``; the key of ``observation.state`` is
    ``observation``. Files are read, and errors are raised, only while you iterate.

    Args:
        folder: Folder of the dataset.
        episodes: Numbers (``episode_index``) of the episodes to return. None returns all listed episodes.
        achieved_goal: Function from the dict of (F, ...) observations in the F frames of an episode to (F, G)
            achieved goals, for datasets of other programs. The last achieved goal becomes the desired goal.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the rewards of all steps
            of an episode, for datasets of other programs; the infos are empty. None uses ``next.reward``.
        on_error: ``"raise"``, or ``"skip"`` to leave out episodes that are not valid, with a warning.

    Raises:
        CorruptFileError: The folder is not a dataset of format v3, a file is missing or damaged, or an
            episode is not listed, or its frames do not fit its length.
        ValueError: An episode is not valid, or lacks actions, rewards or goals that are needed;
            ``on_error`` is not valid; or all episodes were skipped.
    """
    root, errors = Path(folder), EpisodeErrors(on_error)
    with as_corrupt(f"{root} cannot be read", Exception):
        # LeRobotDataset itself would download missing files, read float64 as float32, and take the videos of
        # other episodes if the numbers of the episodes have gaps.
        info = utils.load_info(root)
        if not (version := str(info["codebase_version"])).startswith("v3."):
            raise ValueError(f"the dataset must have format v3, got {version}; convert it with LeRobot")
        listed = {row["episode_index"]: row for row in utils.load_episodes(root)}
        features = utils.get_hf_features_from_features(info["features"])
        data = utils.load_nested_dataset(root / "data", features).with_format("arrow")
        index = data.select_columns(["episode_index", "frame_index"])[:].to_pandas()
        places = index.sort_values("frame_index").groupby("episode_index").groups  # rows of each episode
        ours = EpisodeArchive(root / OURS) if (root / OURS).exists() else None
        unlisted, total = sorted(places.keys() - listed.keys()), info["total_episodes"]
    if unlisted or len(listed) != total:
        left_out = f"; the frames of the episodes {unlisted} are left out" if unlisted else ""
        warn_user(f"{root}/meta/episodes lists {len(listed)} of {total} episodes{left_out}")
    if ours is None:
        warn_user(
            f"{root} does not contain the observations after the last actions. So the last frame of each "
            "episode is used as its last observation; the action and the reward of this frame are left out. "
            "All episodes count as truncated."
        )
    numbers = set(listed if episodes is None else episodes)
    last_steps = (last for number, last in enumerate(() if ours is None else ours) if number in numbers)
    for number in sorted(numbers):
        try:
            with as_corrupt(f"{root}, episode {number}, cannot be read", Exception):
                last = next(last_steps, None)
                if not {number} <= places.keys() & listed.keys() or (ours is not None and last is None):
                    raise ValueError(f"meta/episodes or {OURS} does not list it, or it has no frames")  # noqa: TRY301 - `as_corrupt` names the file
                table = data.select(places[number])[:].to_pandas()
                frames = _read_frames(root, info, table, listed[number])
                episode = None if last is None else _own_episode(frames, last)
            if episode is None:  # calls functions of the user, whose errors are not those of a file
                episode = _other_episode(frames, achieved_goal, compute_reward)
        except (TypeError, ValueError) as error:
            errors.handle(error)
        else:
            yield episode
            errors.number += 1
    errors.finish()


def _split(episode: Episode) -> tuple[dict[str, np.ndarray], Episode]:
    """Return the features, with T rows each, and an episode of the last step with its two states."""
    steps, trees = len(episode), {name: getattr(episode, name) for name in FEATURES}
    is_last = np.arange(steps)[:, None] == steps - 1
    columns = {f"next.{name}": is_last & getattr(episode, name) for name in ("terminated", "truncated")}
    columns["next.done"] = columns["next.terminated"] | columns["next.truncated"]
    if flag := flag_name(episode.infos):
        columns["next.success"] = episode.infos[flag].reshape(steps, -1)[:, :1].astype(bool)
    for path, rows in leaves_by_path(trees).items():
        name, is_text = _feature(path, rows), rows.dtype.kind == "U" and rows.ndim == 1
        if name in columns or 0 in rows.shape or not (is_text or rows.dtype.kind in NUMBERS):
            raise ValueError(
                f"{path_name(path)} must be numbers or one string per step, and the only entry with the "
                f"feature {name!r}, got {rows.dtype} of shape {rows.shape[1:]}; rename or remove it"
            )
        if steps == 1 and rows.ndim > 2 and not _is_picture(rows):
            raise ValueError(f"LeRobot cannot store {path_name(path)}, with several axes, of a single step")
        columns[name] = rows[:steps, None] if rows.ndim == 1 and not is_text else rows[:steps]
    return columns, replace(episode, **map_tree(lambda rows: rows[steps - 1 :], trees))


def _feature(path: tuple[Any, ...], rows: np.ndarray) -> str:
    """Return the name of the feature for the array at ``path`` in an episode."""
    name = ".".join([FEATURES[path[0]], *map(str, path[1:])]).replace("/", ".")
    if _is_picture(rows):
        return name.replace("observation", "observation.images", 1)
    if name in {"observation", "observation.observation"}:
        return "observation.state"
    return name.replace("image", "img")  # LeRobot requires three color channels under names with "image"


def _is_picture(rows: np.ndarray) -> bool:
    return rows.dtype == np.uint8 and rows.ndim == 4 and rows.shape[3] == 3


def _describe(rows: np.ndarray, use_videos: bool) -> dict[str, Any]:
    """Return LeRobot's description of a feature."""
    shape, names = rows.shape[1:] or (1,), None
    kind = "string" if rows.dtype.kind == "U" else rows.dtype.name
    if _is_picture(rows):
        kind = "video" if use_videos and shape[0] % 2 == shape[1] % 2 == 0 else "image"
        names = ["height", "width", "channels"]
    return {"dtype": kind, "shape": shape, "names": names}


def _read_frames(root: Path, info: Any, table: Any, row: Any) -> dict[str, np.ndarray]:
    """Return the arrays of an episode by feature; raise ValueError unless it has all frames."""
    index, fps = np.arange(row["length"]), info["fps"]
    if not np.array_equal(table["frame_index"], index):
        absent = sorted({*index.tolist()} - {*table["frame_index"]})
        found = f"{len(table)} frames, without {absent}" if absent else f"{len(table)} frames"
        raise ValueError(f"frame_index must be 0 to {len(index) - 1} in order, got {found}")
    if not np.allclose(table["timestamp"], index / fps, rtol=1e-6, atol=0.5 / fps):
        raise ValueError(f"the timestamps must be frame_index / {fps}, got {table['timestamp'].tolist()}")
    frames = {}
    for name, feature in info["features"].items():
        if feature["dtype"] == "video":
            place = {each: row[f"videos/{name}/{each}"] for each in ("chunk_index", "file_index")}
            path = root / info["video_path"].format(video_key=name, **place)
            times = row[f"videos/{name}/from_timestamp"] + index / fps
            blocks = np.split(times, range(BLOCK, len(times), BLOCK))
            parts = [decode_video_frames(path, each.tolist(), 0.5 / fps, "pyav") for each in blocks]
            frames[name] = np.concatenate([(255 * part).round().byte().permute(0, 2, 3, 1) for part in parts])
        elif feature["dtype"] == "image":
            files = [io.BytesIO(each["bytes"]) for each in table[name]]
            frames[name] = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
        else:
            rows = np.array(list(table[name]), feature["dtype"].replace("string", "str"))
            frames[name] = rows.reshape(-1, *feature["shape"])
    return frames


def _own_episode(frames: dict[str, np.ndarray], last: Episode) -> Episode:
    """Return an episode that `to_lerobot` wrote, given its last step."""
    arrays, trees = [], {name: getattr(last, name) for name in FEATURES}
    for path, ends in leaves_by_path(trees).items():
        rows = frames[_feature(path, ends)].reshape(-1, *ends.shape[1:])
        if not _is_picture(ends) and rows[-1:].astype(ends.dtype).tobytes() != ends[:1].tobytes():
            raise ValueError(f"{path_name(path)} of its last frame differs from {OURS}; remove that folder")
        arrays.append(np.concatenate([rows, ends[1:]], dtype=None if ends.dtype.kind == "U" else ends.dtype))
    in_order = iter(arrays)
    return replace(last, **map_tree(lambda _: next(in_order), trees))


def _other_episode(frames: dict[str, np.ndarray], achieved_goal: Any, compute_reward: Any) -> Episode:
    """Return an episode of a dataset of another program, without the action and reward of its last frame."""
    observations: dict[str, np.ndarray] = {}
    for name in [name for name in frames if name.startswith("observation.")]:
        key = name.removeprefix("observation.").removeprefix("images.")
        key = "observation" if name == "observation.state" else key
        if key in observations:
            raise ValueError(f"two features have the key {key!r}; rename {name}")
        observations[key] = frames[name]
    if achieved_goal is not None:
        achieved = np.asarray(achieved_goal(observations))
        desired = np.broadcast_to(achieved[-1], achieved.shape)
        observations |= {"achieved_goal": achieved, "desired_goal": desired}
    elif compute_reward is not None and "achieved_goal" not in observations:
        raise ValueError("compute_reward needs goals, but the dataset has none; pass achieved_goal= too")
    rewards = compute_reward or frames.get("next.reward")
    if "action" not in frames or rewards is None:
        absent = "'action'" if "action" not in frames else "'next.reward'; pass compute_reward="
        raise ValueError(f"the dataset must have the feature {absent}, got only {list(frames)}")
    episode = Episodes.from_arrays(observations, frames["action"], rewards)[0]
    success = frames.get("next.success")
    return episode if success is None else replace(episode, infos={"is_success": success.reshape(-1)[:-1]})
