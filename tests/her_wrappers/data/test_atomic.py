"""Atomic writing: a file is complete or absent."""

import errno
import os
import time
from pathlib import Path

import pytest

from her_wrappers.data.atomic import LEFTOVER_AGE, replacement
from tests.support.archived_episodes import files


def write(path, content):
    with replacement(path) as file:
        file.write(content)


def test_a_new_file_replaces_the_old_one_when_it_is_complete(tmp_path):
    path = tmp_path / "file"
    write(path, b"old")
    with replacement(path) as file:
        file.write(b"first")
        assert path.read_bytes() == b"old"
        write(path, b"the second of two writers")
        assert path.read_bytes() == b"the second of two writers"
    assert path.read_bytes() == b"first"
    assert files(tmp_path) == ["file"]


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
    assert files(tmp_path) == ["file"]


def test_the_unfinished_file_of_a_killed_writer_is_deleted_after_an_hour(tmp_path):
    write(tmp_path / "file", b"old")
    names = ["file.0123abcd.her-part", "file.4567abcd.her-part", "other.0123abcd.her-part", "file.part"]
    for name in names:
        (tmp_path / name).write_bytes(b"much that was written before a kill")
        if name != names[1]:
            os.utime(tmp_path / name, (time.time() - LEFTOVER_AGE - 10,) * 2)
    write(tmp_path / "file", b"new")
    assert files(tmp_path) == ["file", *sorted(names[1:])]


def test_a_link_is_followed_and_a_folder_is_an_error(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"")


def test_errors_name_the_file_and_not_the_unfinished_one(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"'.*none/a'$"), replacement(tmp_path / "none" / "a"):
        pass
    with pytest.raises(OSError, match=r"No space left on device: '.*/b'$"), replacement(tmp_path / "b"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_device_is_never_replaced():
    """Root could replace /dev/null by a file, which breaks the whole system."""
    with pytest.raises(OSError, match="cannot write /dev/null"):
        write(Path("/dev/null"), b"a")
