"""LeRobot: write and read episodes as datasets of LeRobot's format v3, with LeRobot's own code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from her_wrappers.data.arrays import as_corrupt
from her_wrappers.data.trees import leaves_by_path, map_tree, path_name
from her_wrappers.goals.success_flag import flag_name
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.dataset import EpisodeErrors, numbered
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.support.user_warning import warn_user

try:
    import av
    import datasets
    from lerobot.datasets import lerobot_dataset, utils, video_utils
    from lerobot.utils.utils import SuppressProgressBars
except ImportError as error:
    raise ImportError('LeRobot is not installed; run: pip install "her-toolkit[lerobot]"') from error

OURS = "meta/her_toolkit"  # an archive of each last step: its states, flags, reset infos, and all structures
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
            LeRobot cannot store a part of an episode. Then no dataset is written.
    """
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ValueError(f"folder must be new or empty, got {str(root)!r}; choose another folder")
    root.parent.mkdir(parents=True, exist_ok=True)
    av.logging.set_libav_level(av.logging.ERROR)  # the encoder prints 20 lines per episode otherwise
    with TemporaryDirectory(prefix=root.name, dir=root.parent) as temporary:
        new = Path(temporary) / "dataset"
        with SuppressProgressBars(), ExitStack() as closing:
            for number, episode in numbered(episodes):
                try:
                    columns, last_step = _split(episode)
                    if number == 0:
                        features = {name: _describe(rows, use_videos) for name, rows in columns.items()}
                        dataset = lerobot_dataset.LeRobotDataset.create(
                            "local/dataset", fps, features, new, vcodec="h264", video_backend="pyav"
                        )
                        closing.callback(dataset.finalize)
                        last_steps = closing.enter_context(EpisodeArchive(new / OURS))
                    for values in zip(*columns.values(), strict=True):
                        dataset.add_frame(dict(zip(columns, values, strict=True), task=task))
                    dataset.save_episode(parallel_encoding=False)
                    last_steps.add_episode(last_step)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"episode {number} cannot be stored: {error}") from error
        if not new.exists():
            raise ValueError("episodes must contain at least one episode, got none")
        new.replace(root)


def from_lerobot(
    folder: str | os.PathLike[str],
    *,
    episodes: Iterable[int] | None = None,
    achieved_goal: Callable[[Any], Any] | None = None,
    compute_reward: Callable[[Any, Any, Any], Any] | None = None,
    on_error: str = "raise",
) -> Iterator[Episode]:
    """Yield the episodes of a local LeRobot dataset of format v3, in the order of their numbers.

    Episodes that `to_lerobot` wrote are returned exactly, except for images in videos. In datasets of other
    programs, episodes are truncated at their last frame, whose action is not used; the observations are the
    features ``observation.KEY`` (``observation`` for ``observation.state``) and ``observation.images.KEY``.

    Args:
        folder: Folder of the dataset.
        episodes: Numbers (``episode_index``) of the episodes to return. None returns all episodes.
        achieved_goal: Function from the dict of (F, ...) observations in the F frames of an episode to (F, G)
            achieved goals, for datasets of other programs. The last achieved goal becomes the desired goal.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the rewards of all steps
            of an episode, for datasets of other programs; the infos are empty. None uses ``next.reward``.
        on_error: ``"raise"``, or ``"skip"`` to leave out episodes that are not valid, with a warning.

    Raises:
        CorruptFileError: No dataset of format v3, or a file, an episode or a frame is missing or damaged.
        ValueError: An episode is not valid, or lacks actions, rewards or goals that are needed.
    """
    root, errors = Path(folder), EpisodeErrors(on_error)
    with as_corrupt(f"{root} cannot be read", Exception):
        info = utils.load_info(root)  # LeRobotDataset would download files, and read float64 as float32
        if not (version := str(info["codebase_version"])).startswith("v3."):
            raise ValueError(f"the dataset must have format v3, got {version}; convert it with LeRobot")
        listed = {row["episode_index"]: row for row in utils.load_episodes(root)}
        features = utils.get_hf_features_from_features(info["features"])
        data = utils.load_nested_dataset(root / "data", features).with_format("arrow")
        index = data.select_columns(["episode_index", "frame_index"])[:].to_pandas()
        places = index.sort_values("frame_index").groupby("episode_index").groups  # rows of each episode
        ours = EpisodeArchive(root / OURS) if (root / OURS).exists() else ()
    if len(ours) < info["total_episodes"]:
        warn_user(f"{root} lacks observations after the last actions: episodes are truncated before them")
    numbers = set(listed if episodes is None else episodes)
    last_steps = (last for number, last in enumerate(ours) if number in numbers)

    def read(number: int) -> Episode:
        last = next(last_steps, None)
        with as_corrupt(f"{root}, episode {number}, cannot be read", Exception):
            if last is None and number < len(ours):
                raise ValueError(f"{OURS} is damaged; remove this folder")
            frames = _read_frames(root, info, data.select(places[number])[:].to_pandas(), listed[number])
            if last is not None:
                return _own_episode(frames, last)
        return _other_episode(frames, achieved_goal, compute_reward)  # may raise errors of the user

    yield from errors.counted(errors.converted(read, sorted(numbers)))


def _split(episode: Episode) -> tuple[dict[str, np.ndarray], Episode]:
    """Return the features, with T rows each, and an episode of the last step with its two states."""
    steps, trees = len(episode), {name: getattr(episode, name) for name in FEATURES}
    is_last = np.arange(steps)[:, None] == steps - 1
    columns = {f"next.{name}": is_last & getattr(episode, name) for name in ("terminated", "truncated")}
    columns["next.done"] = columns["next.terminated"] | columns["next.truncated"]
    if flag := flag_name(episode.infos):
        columns["next.success"] = episode.infos[flag].reshape(steps, -1)[:, :1].astype(bool)
    for name, rows in _by_feature(trees).items():
        columns[name] = rows[:steps, None] if rows.ndim == 1 and rows.dtype.kind != "U" else rows[:steps]
    return columns, replace(episode, **map_tree(lambda rows: rows[steps - 1 :], trees))


def _by_feature(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of an episode, or of its last step, by the names of their features, in order."""
    arrays: dict[str, np.ndarray] = {}
    for path, rows in leaves_by_path(trees).items():
        name = ".".join([FEATURES[str(path[0])], *map(str, path[1:])]).replace("/", ".")
        if _describe(rows)["dtype"] == "image":
            name = name.replace("observation", "observation.images", 1)
        else:  # LeRobot requires three color channels under names with "image"
            is_state = name in {"observation", "observation.observation"}
            name = "observation.state" if is_state else name.replace("image", "img")
        if name in arrays:
            raise ValueError(f"two arrays have the feature {name!r}; rename {path_name(path)}")
        arrays[name] = rows
    return arrays


def _describe(rows: np.ndarray, use_videos: bool = False) -> dict[str, Any]:
    """Return LeRobot's description of a feature."""
    shape, kind, names = rows.shape[1:] or (1,), rows.dtype.name, None
    if kind == "uint8" and len(shape) == 3 and shape[2] == 3:
        kind = "video" if use_videos and shape[0] % 2 == shape[1] % 2 == 0 else "image"
        names = ["height", "width", "channels"]
    return {"dtype": "string" if rows.dtype.kind == "U" else kind, "shape": shape, "names": names}


def _read_frames(root: Path, info: Any, table: Any, row: Any) -> dict[str, np.ndarray]:
    """Return the arrays of an episode by feature; ``row`` describes the episode in meta/episodes."""
    index, times = (table[name].to_numpy(np.float64) for name in ("frame_index", "timestamp"))
    expected, fps = np.arange(row["length"]), info["fps"]
    if not np.array_equal(index, expected) or not np.allclose(times, expected / fps, atol=0.5 / fps):
        raise ValueError(f"frames must be 0 to {row['length'] - 1}, {fps} per second, got {index} at {times}")
    frames = {}
    for name, feature in info["features"].items():
        if feature["dtype"] == "video":
            place = {each: row[f"videos/{name}/{each}"] for each in ("chunk_index", "file_index")}
            path = root / info["video_path"].format(video_key=name, **place)
            blocks = np.split(row[f"videos/{name}/from_timestamp"] + times, range(BLOCK, len(times), BLOCK))
            parts = [video_utils.decode_video_frames(path, t.tolist(), 0.5 / fps, "pyav") for t in blocks]
            frames[name] = np.concatenate([(255 * part).round().byte().permute(0, 2, 3, 1) for part in parts])
        elif feature["dtype"] == "image":
            pictures = map(datasets.Image().decode_example, table[name])
            frames[name] = np.stack([np.asarray(each.convert("RGB")) for each in pictures])
        else:
            rows = np.array(list(table[name]), feature["dtype"].replace("string", "str"))
            frames[name] = rows.reshape(-1, *feature["shape"])
    return frames


def _own_episode(frames: dict[str, np.ndarray], last: Episode) -> Episode:
    """Return an episode that `to_lerobot` wrote, given its last step."""
    trees = {name: getattr(last, name) for name in FEATURES}
    named = _by_feature(trees).items()
    arrays = (np.concatenate([frames[name].reshape(-1, *ends.shape[1:]), ends[1:]]) for name, ends in named)
    return replace(last, **map_tree(lambda _: next(arrays), trees))


def _other_episode(frames: dict[str, np.ndarray], achieved_goal: Any, compute_reward: Any) -> Episode:
    """Return an episode of a dataset of another program, without the action and reward of its last frame."""
    observations: dict[str, np.ndarray] = {}
    for name in [name for name in frames if name.startswith("observation.")]:
        key = name.removeprefix("observation.").removeprefix("images.")
        observations["observation" if name == "observation.state" else key] = frames[name]
    if achieved_goal is not None:
        achieved = np.asarray(achieved_goal(observations))
        observations |= {"achieved_goal": achieved, "desired_goal": np.full_like(achieved, achieved[-1])}
    rewards = compute_reward or frames.get("next.reward")
    if rewards is None or "action" not in frames or (compute_reward and "achieved_goal" not in observations):
        fix = "pass compute_reward=, and achieved_goal= if there are no goals"
        raise ValueError(f"actions, rewards or goals are missing, got only {list(frames)}; {fix}")
    episode = Episodes.from_arrays(observations, frames["action"], rewards)[0]
    success = frames.get("next.success")
    return episode if success is None else replace(episode, infos={"is_success": success.reshape(-1)[:-1]})
