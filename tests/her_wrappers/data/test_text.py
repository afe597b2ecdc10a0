"""The log of a run, read without her_agents."""

import pytest

from her_wrappers.data.arrays import CorruptFileError
from her_wrappers.data.text import read_progress


def test_rows_have_the_numbers_of_the_cells_that_are_not_empty(tmp_path):
    (tmp_path / "progress.csv").write_text("epoch,success_rate,q_mean\n1,0.5,\n2,1,-3\n")
    assert read_progress(tmp_path / "progress.csv") == [
        {"epoch": 1, "success_rate": 0.5},
        {"epoch": 2, "success_rate": 1, "q_mean": -3},
    ]


@pytest.mark.parametrize("content", [b"success_rate\nx\n", b"epoch\n1\n", b"\xff\n"])
def test_other_files_are_damaged(content, tmp_path):
    (tmp_path / "progress.csv").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"progress\.csv"):
        read_progress(tmp_path / "progress.csv")
