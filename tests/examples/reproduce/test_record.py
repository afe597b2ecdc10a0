"""The CSV file of a study: what is whole in it is read, and nothing else."""

from __future__ import annotations

from examples.reproduce import bitflip
from examples.reproduce.record import Record
from examples.reproduce.runs import execute


def some_outcomes(tmp_path):
    study = bitflip.make_study(1, quick=True)
    record = Record(tmp_path / "bitflip.csv", study.runs)
    for run in study.runs:
        record.append(execute(run))
    return study, record


def test_a_record_reads_what_it_wrote_and_of_a_torn_file_what_is_whole(tmp_path):
    study, record = some_outcomes(tmp_path)
    path = tmp_path / "bitflip.csv"
    text = path.read_text()
    assert Record(path, study.runs).outcomes == record.outcomes
    ends = [i for i in range(len(text)) if text[: i + 1].count(",final,") and text[i] == "\n"]
    for length in [*range(0, len(text), 37), *ends, *(end + 1 for end in ends)]:
        path.write_text(text[:length])
        torn = Record(path, study.runs)
        assert torn.outcomes == record.outcomes[: len(torn.outcomes)]
        assert len(torn.outcomes) == len([
            1 for line in text[:length].splitlines(keepends=True) if ",final," in line and line.endswith("\n")
        ])
        assert Record(path, study.runs).left_out == 0, "what was torn is gone"


def test_a_record_takes_no_foreign_file_and_no_nonsense_for_its_own(tmp_path):
    study, record = some_outcomes(tmp_path)
    path = tmp_path / "bitflip.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1].replace("0.", "nought.", 1))
    assert Record(path, study.runs).outcomes == record.outcomes[:-1]
    path.write_text("a,b\n1,2\n")
    other = Record(path, study.runs)
    assert (other.outcomes, other.left_out) == ([], 1)
    assert (tmp_path / "bitflip.csv.old").read_text() == "a,b\n1,2\n"
