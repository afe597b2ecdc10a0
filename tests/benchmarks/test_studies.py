"""Studies: their options are valid, and a study trains and compares its variants."""

import json

import pytest

from benchmarks import studies
from her_agents.recipes import read_recipe
from her_agents.training.config import make_config
from tests.support.short_runs import TASKS, TINY


@pytest.mark.parametrize("name", studies.STUDIES)
def test_the_options_of_all_variants_are_valid_and_differ(name, monkeypatch):
    monkeypatch.setattr(type(read_recipe("fetch_push")), "require_installed", lambda _: None)
    for variants in studies.STUDIES[name]().values():
        configs = [make_config(options).as_dict() for options in variants.values()]
        assert all(one != other for i, one in enumerate(configs) for other in configs[:i])


def test_a_study_trains_each_variant_once_and_compares_the_variants(tmp_path, monkeypatch, capsys):
    options = TINY | TASKS["dqn"] | {"algo": "dqn", "steps": 200}
    tiny = {"5 bits": {"with HER": options, "without HER": {**options, "her": False}}}
    monkeypatch.setitem(studies.STUDIES, "bitflip", lambda: tiny)
    for _ in range(2):
        assert studies.main(["bitflip", "--quick", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("$ her train") == 2
    assert not json.loads((tmp_path / "5_bits" / "without_HER" / "config.json").read_text())["her"]
    assert "with HER" in (tmp_path / "5_bits.md").read_text()
    assert (tmp_path / "5_bits.svg").exists()
