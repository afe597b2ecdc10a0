"""Files that cannot be used, of every kind and in every command: one sentence, a documented exit code."""

import os
import shutil
import signal

import pytest
import torch

from her_agents import export_policy
from her_agents.training.checkpoints import save_checkpoint
from tests.support.archived_episodes import forge_manifest
from tests.support.commands import her

SECONDS = 60
"""Longest time of a command; a command that waits for a writer of a pipe would need longer."""


@pytest.fixture(scope="module")
def original(reach, tmp_path_factory):
    """A folder with a file of every kind that the commands read."""
    folder = tmp_path_factory.mktemp("original")
    run = shutil.copytree(reach[0], folder / "reach")
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


KINDS = {
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "empty": lambda path: path.touch(),
    "picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
    "nested JSON": lambda path: path.write_text("[" * 200_000),
    "nested TOML": lambda path: path.write_text("a = " + "[" * 100_000),
    "Latin-1": lambda path: path.write_bytes("größe = 1".encode("latin-1")),
    "control characters": lambda path: path.write_text('{"\x1b]0;owned\x07": 1}'),
    "tensor": lambda path: torch.save({"format": torch.zeros(3)}, path),
}
NO_FILE = [*KINDS][:4]
TEXT = ["nested JSON", "Latin-1", "control characters"]
OFFLINE = ["train", "her_envs/PointReach-v0", "--algo", "sac", "--no-check", "--offline"]

READERS = [
    ("archive/manifest.json", ["inspect", "archive"], [*NO_FILE, "empty", "picture", *TEXT]),
    ("archive/shard-000000.npz", ["inspect", "archive"], [*NO_FILE, "empty", "picture"]),
    ("options.json", ["train", "--config", "options.json"], ["pipe", "device", "picture", *TEXT]),
    ("options.toml", ["train", "--config", "options.toml"], ["device", "empty", "nested TOML", "Latin-1"]),
    ("reach/best.pt", ["watch", "reach", "--no-show"], [*NO_FILE, "empty", "picture", "tensor"]),
    ("module.py", ["check", "module.py:PointReach"], [*NO_FILE, "picture", "nested JSON", "Latin-1"]),
]
"""For each function that reads files, a file, a command, and kinds of bad files."""

OTHERS = [
    ("archive/manifest.json", ["doctor", "archive"]),
    ("archive/shard-000000.npz", ["doctor", "archive"]),
    ("archive/manifest.json", ["record", "her_envs/PointReach-v0", "--episodes", "1", "--out", "archive"]),
    ("archive/manifest.json", [*OFFLINE, "archive"]),
    ("saved.replay", ["doctor", "saved.replay"]),
    ("saved.replay", [*OFFLINE, "saved.replay"]),
    ("reach/config.json", ["doctor", "reach"]),
    ("reach/latest.pt", ["train", "--resume", "reach", "--steps", "300"]),
    ("reach/best.pt", ["watch", "her_envs/PointReach-v0", "--policy", "reach/best.pt", "--no-show"]),
    ("reach.policy", ["watch", "reach.policy", "--no-show"]),
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


CASES = [(name, command, kind) for name, command, kinds in READERS for kind in kinds]
CASES += [(*each, "device") for each in OTHERS]


@pytest.mark.parametrize(("name", "command", "kind"), CASES, ids=str)
def test_a_file_that_cannot_be_used_is_one_sentence(name, command, kind, folder):
    """Each function that reads files gets many kinds of files, and each command an endless device.

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
        ("progress.csv", "empty", 1),
        ("progress.csv", "device", 3),
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


def test_a_checkpoint_with_a_bad_entry_cannot_be_resumed(folder):
    """Entries are missing or wrong; a buffer outside of the folder is not read."""
    latest = folder / "reach" / "latest.pt"
    content = torch.load(latest, weights_only=True)
    names = "config", "spaces", "counts", "history", "agent", "buffer"
    bad = [{key: value for key, value in content.items() if key != name} for name in names]
    bad += [content | {name: {"\x1b]0;owned\x07": 1}} for name in names]
    for name, key in (("counts", "env_steps"), ("config", "algo")):
        without = {each: value for each, value in content[name].items() if each != key}
        bad += [content | {name: without}, content | {name: without | {key: {"\x07": 1}}}]
    bad += [content | {"buffer": name} for name in ("../saved.replay", "/etc/passwd", "", "none")]
    for each in bad:
        save_checkpoint(latest, each)
        assert_one_sentence(her("train", "--resume", "reach", "--steps", "300", "--no-tensorboard"), {3})


HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"


def test_texts_of_an_archive_cannot_control_the_terminal(folder):
    forge_manifest(folder / "archive", lambda content: content["source"].update(env_id=HOSTILE))
    for command in (["inspect", "archive"], ["doctor", "archive"], ["doctor", "archive", "--format", "json"]):
        assert not set("\x1b\x07\x9b") & set(her(*command).output)
    result = her("train", "--offline", "archive", "--algo", "sac", "--out", "new", "--no-tensorboard")
    assert not set("\x1b\x07\x9b") & set(result.output)
    assert result.exit_code in {2, 3}
