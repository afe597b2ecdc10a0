"""The CSV file of a study: only complete results are read."""

from benchmarks.studies import bitflip
from benchmarks.studies.results_file import ResultsFile
from benchmarks.studies.runs import execute


def test_reads_complete_results_of_truncated_damaged_and_other_files(tmp_path):
    study, path = bitflip.make_study(1, quick=True), tmp_path / "bitflip.csv"
    file = ResultsFile(path, study.runs)
    for run in study.runs:
        file.append(execute(run))
    text = path.read_text()
    assert ResultsFile(path, study.runs).results == file.results
    ends = [i for i in range(len(text)) if text[: i + 1].count(",final,") and text[i] == "\n"]
    for length in [*range(0, len(text), 37), *ends, *(end + 1 for end in ends)]:
        path.write_text(text[:length])
        torn = ResultsFile(path, study.runs)
        complete = [line for line in text[:length].splitlines(keepends=True) if line.endswith("\n")]
        assert torn.results == file.results[: sum(",final," in line for line in complete)]
        assert ResultsFile(path, study.runs).removed_rows == 0, "the truncated row is removed"

    lines = text.splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1].replace("0.", "nought.", 1))
    assert ResultsFile(path, study.runs).results == file.results[:-1]
    path.write_text("a,b\n1,2\n")
    other = ResultsFile(path, study.runs)
    assert (other.results, other.removed_rows) == ([], 1)
    assert (tmp_path / "bitflip.csv.old").read_text() == "a,b\n1,2\n"
