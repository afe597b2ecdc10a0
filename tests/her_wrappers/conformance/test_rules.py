"""Rules on replay buffers explain themselves; the report counts episodes; statistics have their limit."""

import numpy as np

from her_wrappers.conformance import REPLAY_RULES, check_replay
from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.scenarios import SCENARIOS, run_scenario
from her_wrappers.conformance.uniformity import LIMIT, dependence, share_z
from tests.support.replay_specimens.reference import Reference


def test_every_rule_explains_itself():
    for rule in REPLAY_RULES.values():
        assert rule.meaning.endswith(".")
        assert not (rule.fix + rule.source).endswith(".")
        assert rule.source
        assert set(rule.needs) <= OFFERS.keys()
        assert set(rule.inconclusive_without) <= SCENARIOS.keys()
    assert SCENARIOS.keys().isdisjoint(OFFERS)  # a need of a rule is one or the other


def test_a_report_counts_the_episodes_that_its_scenarios_added():
    report = check_replay(Reference, select=["HB401", "HB402"], seed=3)
    assert (report.target, report.seed) == ("reference", 3)
    assert (report.episodes, report.steps, report.successes) == (200 + 60 + 36, 1200 + 300 + 36 * 8, 24)


def test_a_scenario_runs_outside_of_a_check():
    (rows,) = run_scenario("image goals", Reference).rows
    assert not any(wrong.any() for wrong in rows.wrong.values())


def test_a_share_is_accepted_within_its_deviation():
    def z(count, total, probability):
        return share_z(np.arange(total) < count, probability, np.arange(total))

    assert z(800, 1000, 0.8) < 1e-6
    assert z(0, 8, 0.8) < LIMIT  # occurs once in 400,000 times
    assert z(640, 1000, 0.8) > LIMIT
    assert z(50, 1000, 0.0025) < z(80, 1000, 0.0025)
    assert z(0, 0, 0.8) == 0


def test_a_share_of_rows_that_are_chosen_by_batch_has_the_deviation_of_batches():
    rng, batch = np.random.default_rng(0), np.repeat(np.arange(20), 100)
    for _ in range(200):
        assert share_z(np.repeat(rng.random(20) < 0.5, 100), 0.5, batch) < LIMIT
    assert share_z(rng.random(2000) < 0.4, 0.5, batch) > LIMIT


def test_independent_values_are_accepted_in_few_and_in_many_clusters_and_equal_ones_are_not():
    rng = np.random.default_rng(0)
    for clusters in (4, 40, 400):
        cluster = np.arange(1200) % clusters
        assert max(dependence(rng.random(1200), cluster)[0] for _ in range(300)) < LIMIT
        z, correlation = dependence(rng.random(clusters)[cluster], cluster)
        assert z > LIMIT
        assert correlation > 0.9
    assert dependence(np.ones(9), np.arange(9) % 3) == (0, 0)
