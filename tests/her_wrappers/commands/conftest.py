"""A run that several files of this folder use, and must not change."""

import pytest

from tests.support.commands import train_reach


@pytest.fixture(scope="session")
def reach(tmp_path_factory):
    """The folder of a very short run on PointReach, and the output of its command."""
    return train_reach(tmp_path_factory.mktemp("reach"))
