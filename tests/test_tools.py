"""The programs in tools: generated texts and sizes."""

from tools import size
from tools.generate import generate


def test_a_generated_number_is_replaced():
    page = "of <!-- generated: count GE -->0<!-- end --> rules"
    assert generate(page) != page
    assert generate(generate(page)) == generate(page)


def test_sizes_count_lines_docstrings_and_comments():
    assert size.count('"""One\n\ntwo."""\n\nx = 1  # why\n') == (5, 3, 1)
    assert size.part_of("her_wrappers/checker/rules/rewards.py") == "her_wrappers/checker"
    assert size.part_of("her_wrappers/cli.py") == "her_wrappers/commands + her_wrappers/cli.py"
