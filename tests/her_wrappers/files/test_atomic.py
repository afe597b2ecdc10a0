"""Atomic writing: a file is complete or absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from her_wrappers.files.atomic import InUseError, lock, replacement


def names(folder):
    return [path.name for path in folder.iterdir()]


def write(path, content):
    with replacement(path) as file:
        file.write(content)


def test_a_new_file_replaces_the_old_one(tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"", b"a longer one"):
        write(path, content)
        assert path.read_bytes() == content
        assert names(tmp_path) == ["file"]


def test_the_file_appears_when_it_is_complete(tmp_path):
    with replacement(tmp_path / "file") as file:
        file.write(b"content")
        file.flush()
        assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "file"
    write(path, b"whole")

    def fail():
        with replacement(path) as file:
            file.write(b"hal")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["file"]


def test_the_file_of_a_killed_process_is_replaced(tmp_path):
    (tmp_path / "file.her-part").write_bytes(b"much that was written before a kill")
    write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    with replacement(tmp_path / "file") as file:
        file.write(b"the first")
        with pytest.raises(InUseError, match=r"file\.her-part is being written by another process or thread"):
            write(tmp_path / "file", b"the second")
    assert (tmp_path / "file").read_bytes() == b"the first"
    write(tmp_path / "file", b"the second")


def test_a_link_is_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_link_with_the_name_of_the_unfinished_file_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file.her-part").symlink_to(victim)
    with pytest.raises(
        OSError, match=r"file\.her-part must be a regular file or must not exist, got .*; delete it"
    ):
        write(tmp_path / "file", b"new")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "file").exists()


def test_a_hard_link_with_the_name_of_the_unfinished_file_is_not_written_to(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "file.her-part").hardlink_to(tmp_path / "victim")
    write(tmp_path / "file", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_files_with_a_similar_name_do_not_change(tmp_path):
    (tmp_path / "file.part").write_bytes(b"a download of the user's")
    write(tmp_path / "file", b"new")
    assert (tmp_path / "file.part").read_bytes() == b"a download of the user's"


def test_a_folder_as_the_path_is_an_error(tmp_path):
    with pytest.raises(IsADirectoryError, match="expected the path of a file, got the folder"):
        write(tmp_path, b"")


def test_the_lock_of_a_process_ends_with_it(tmp_path):
    path = tmp_path / "lock"
    code = f"""
import sys
from her_wrappers.files.atomic import lock
file = open({str(path)!r}, "w")
print(lock(file), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "True\n"
        with path.open("w") as file:
            assert not lock(file)
        process.kill()
        process.wait()
        with path.open("w") as file:
            assert lock(file)
