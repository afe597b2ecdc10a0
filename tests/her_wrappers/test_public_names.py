"""Names of her_wrappers, of which some are imported at their first use."""

import subprocess
import sys

import her_wrappers
from her_wrappers.collecting import Collector
from her_wrappers.conformance import ReplayAdapter, check_replay
from her_wrappers.diagnosis import diagnose


def test_every_public_name_can_be_imported_and_is_listed():
    names = {}
    exec("from her_wrappers import *", names)
    assert set(her_wrappers.__all__) <= names.keys() & set(dir(her_wrappers))
    lazy = {"Collector": Collector, "ReplayAdapter": ReplayAdapter, "diagnose": diagnose}
    assert (lazy | {"check_replay": check_replay}).items() <= names.items()


def test_modules_that_most_programs_do_not_use_are_imported_at_the_first_use():
    lazy = {"her_wrappers.collecting", "her_wrappers.conformance", "her_wrappers.diagnosis"}
    code = f"import sys, her_wrappers; sys.exit(bool({lazy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
