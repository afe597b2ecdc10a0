"""Files that cannot be used, of every kind and in every command: one sentence, a documented exit code."""

import os
import shutil
import signal

import pytest
import torch

from her_agents import export_policy
from her_agents.training.checkpoints import save_checkpoint
from tests.support.archived_episodes import forge_manifest
from tests.support.commands import her, train_reach

SECONDS = 60
"""Longest time of a command; a command that waits for a writer of a pipe would need longer."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a file of every kind that the commands read."""
    folder = tmp_path_factory.mktemp("original")
    run, _ = train_reach(folder)
    export_policy(run, folder / "reach.policy")
    for _ in range(2):  # two shards: a missing last shard is not noticed
        recorded = her("record", "her_envs/PointReach-v0", "--episodes", 1, "--out", folder / "archive")
        assert recorded.exit_code == 0, recorded.output
    shutil.copy(next(run.glob("buffer-*.replay")), folder / "saved.replay")
    shutil.copy(run / "config.json", folder / "options.json")
    (folder / "options.toml").write_text('env = "her_envs/PointReach-v0"\nalgo = "sac"\n')
    (folder / "module.py").write_text("from her_envs import PointReach\n\ndef make(): pass\n")
    return folder


@pytest.fixture
def folder(original, tmp_path, monkeypatch):
    """A copy of the folder of all files, where the commands run; slow commands fail."""
    shutil.copytree(original, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")

    def stop(number, frame):
        pytest.fail(f"the command takes more than {SECONDS} seconds")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield tmp_path / "files"
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


def be_huge(path):
    path.touch()
    os.truncate(path, 2**40)  # without data on the disk


KINDS = {
    "missing": lambda path: None,
    "empty": lambda path: path.touch(),
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "endless link": lambda path: path.symlink_to(path),
    "huge": be_huge,
    "picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
    "nested JSON": lambda path: path.write_text("[" * 200_000),
    "nested TOML": lambda path: path.write_text("a = " + "[" * 100_000),
    "Latin-1": lambda path: path.write_bytes("größe = 1".encode("latin-1")),
    "control characters": lambda path: path.write_text('{"\x1b]0;owned\x07": 1}'),
    "digits": lambda path: path.write_text("9" * 10_000),
    "null": lambda path: path.write_text("null"),
    "tensor": lambda path: torch.save({"format": torch.zeros(3)}, path),
}

OFFLINE = ["train", "her_envs/PointReach-v0", "--algo", "sac", "--no-check", "--offline"]

READERS = [
    ("archive/manifest.json", ["inspect", "archive"]),
    ("archive/shard-000000.npz", ["inspect", "archive"]),
    ("options.json", ["train", "--config", "options.json", "--steps", "50"]),
    ("options.toml", ["train", "--config", "options.toml", "--steps", "50"]),
    ("reach/best.pt", ["watch", "reach", "--no-show"]),
    ("module.py", ["check", "module.py:PointReach"]),
]
"""For each function that reads files, a file and a command: text, arrays, options, checkpoints, modules."""

OTHERS = [
    ("archive/manifest.json", ["doctor", "archive"]),
    ("archive/shard-000000.npz", ["doctor", "archive"]),
    ("archive/manifest.json", ["record", "her_envs/PointReach-v0", "--episodes", "1", "--out", "archive"]),
    ("archive/manifest.json", [*OFFLINE, "archive"]),
    ("saved.replay", ["doctor", "saved.replay"]),
    ("saved.replay", [*OFFLINE, "saved.replay"]),
    ("reach/config.json", ["doctor", "reach"]),
    ("reach/latest.pt", ["train", "--resume", "reach", "--steps", "300"]),
    ("reach/best.pt", ["watch", "reach/best.pt", "--no-show"]),
    ("reach/best.pt", ["watch", "her_envs/PointReach-v0", "--policy", "reach/best.pt", "--no-show"]),
    ("reach.policy", ["watch", "reach.policy", "--no-show"]),
    ("module.py", ["record", "module.py:PointReach", "--out", "out"]),
    ("module.py", ["record", "her_envs/PointReach-v0", "--policy", "module.py:make", "--out", "out"]),
    ("module.py", ["doctor", "module.py:PointReach"]),
    ("module.py", ["train", "module.py:PointReach"]),
    ("module.py", ["check-replay", "module.py:make"]),
]


def assert_one_sentence(result, exit_codes):
    assert result.exit_code in exit_codes, result.output
    assert result.stderr.startswith("Error: "), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(result.stderr) < 5000
    assert not set("\x1b\x07") & set(result.output)


CASES = [(*each, kind) for each in READERS for kind in KINDS]
CASES += [(*each, kind) for each in OTHERS for kind in ("missing", "device")]


@pytest.mark.parametrize(("name", "command", "kind"), CASES, ids=str)
def test_a_file_that_cannot_be_used_is_one_sentence(name, command, kind, folder):
    """Each function that reads files gets each kind of file, and each command at least two kinds.

    A command that reads the file by another function does not end: it reads the device for ever.
    """
    (folder / name).unlink()
    KINDS[kind](folder / name)
    # A module without the environment is wrong usage, and an empty TOML file names no environment.
    is_usage = name == "module.py" or (name, kind) == ("options.toml", "empty")
    assert_one_sentence(her(*command), {2, 3} if is_usage else {3})


@pytest.mark.parametrize(
    ("part", "kind", "exit_code"),
    [
        ("progress.csv", "missing", 1),
        ("progress.csv", "empty", 1),
        ("progress.csv", "device", 3),
        ("progress.csv", "picture", 3),
        ("buffer", "missing", 0),
        ("buffer", "device", 3),
    ],
)
def test_doctor_reads_the_other_files_of_a_run_with_a_bad_one(part, kind, exit_code, folder):
    path = next((folder / "reach").glob(f"{part}*"))
    path.unlink()
    KINDS[kind](path)
    result = her("doctor", "reach")
    if exit_code == 3:
        assert_one_sentence(result, {3})
    else:
        assert result.exit_code == exit_code, result.output


@pytest.mark.parametrize(
    "entry", ["config", "spaces", "counts", "history", "agent", "buffer", "counts/env_steps", "config/algo"]
)
@pytest.mark.parametrize("wrong", [None, {"\x1b]0;owned\x07": 1}])
def test_a_checkpoint_with_a_missing_or_wrong_entry_cannot_be_resumed(entry, wrong, folder):
    content = torch.load(folder / "reach" / "latest.pt", weights_only=True)
    name, _, key = entry.partition("/")
    owner, key = (content[name], key) if key else (content, name)
    if wrong is None:
        del owner[key]
    else:
        owner[key] = wrong
    save_checkpoint(folder / "reach" / "latest.pt", content)
    assert_one_sentence(her("train", "--resume", "reach", "--steps", "300", "--no-tensorboard"), {3})


@pytest.mark.parametrize("name", ["../saved.replay", "/etc/passwd", "", "none"])
def test_a_buffer_outside_of_the_folder_of_its_checkpoint_is_not_read(name, folder):
    content = torch.load(folder / "reach" / "latest.pt", weights_only=True)
    save_checkpoint(folder / "reach" / "latest.pt", content | {"buffer": name})
    assert_one_sentence(her("train", "--resume", "reach", "--steps", "300", "--no-tensorboard"), {3})


def test_a_run_replaces_pipes_in_its_folder(folder):
    for name in ("config.json", "progress.csv"):
        (folder / "reach" / name).unlink()
        os.mkfifo(folder / "reach" / name)
    result = her("train", "--resume", "reach", "--steps", "300", "--no-tensorboard")
    assert result.exit_code == 0, result.output
    assert all((folder / "reach" / name).is_file() for name in ("config.json", "progress.csv"))


HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"


def test_texts_of_an_archive_cannot_control_the_terminal(folder):
    forge_manifest(folder / "archive", lambda content: content["source"].update(env_id=HOSTILE))
    for command in (["inspect", "archive"], ["inspect", "archive", "--json"], ["doctor", "archive"]):
        assert not set("\x1b\x07\x9b") & set(her(*command).output)
    result = her("train", "--offline", "archive", "--algo", "sac", "--out", "new", "--no-tensorboard")
    assert not set("\x1b\x07\x9b") & set(result.output)
    assert result.exit_code in {2, 3}
