"""Equal seeds give the batches of version 0.1, and its saved buffers can be loaded."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from her_wrappers import HindsightReplayBuffer
from her_wrappers.trees import leaf_arrays
from tests.support.reference_batches import (
    CONFIGURATIONS,
    DATA,
    DIGESTS,
    SAVED,
    digests_of,
    saved_buffer,
    steps_of,
)

pytestmark = pytest.mark.arrays_only("the configurations name their devices")


@pytest.fixture(scope="module")
def reference():
    return json.loads(DIGESTS.read_text())


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_batches_are_those_of_version_0_1(name, reference):
    now, then = digests_of(CONFIGURATIONS[name].batches()), reference[name]
    differing = [field for field, digest in then["fields"].items() if now["fields"][field] != digest]
    batches = [i for i, digest in enumerate(then["batches"]) if now["batches"][i] != digest]
    assert not differing, f"{', '.join(differing)} differ in batches {batches} of {len(then['batches'])}"
    assert now == then


def test_each_configuration_has_its_reference(reference):
    assert reference.keys() == CONFIGURATIONS.keys()


@pytest.mark.parametrize("name", SAVED)
def test_a_buffer_saved_by_version_0_1_is_loaded(name):
    """The loaded buffer has the same episodes and batches, and continues its open episode."""
    configuration = SAVED[name]
    expected = saved_buffer(configuration)
    buffer = HindsightReplayBuffer.load(DATA / name, **configuration.functions())
    buffer.verify()
    assert len(buffer) == len(expected) > 40
    last = next(itertools.islice(configuration.episodes(), len(configuration.lengths), None))
    for each in (buffer, expected):
        for transition in steps_of(last, range(5, len(last))):
            each.add(*transition)
        assert each.num_episodes > 3
    for episode, twin in zip(buffer.episodes(), expected.episodes(), strict=True):
        assert (episode.terminated, episode.truncated) == (twin.terminated, twin.truncated)
        for part in ("observations", "actions", "rewards", "infos"):
            arrays, twins = (list(leaf_arrays(getattr(one, part))) for one in (episode, twin))
            for array, other in zip(arrays, twins, strict=True):
                np.testing.assert_array_equal(array, other, strict=True)
    batch = buffer.sample(200)
    assert 100 < batch.relabeled.sum() < 200
    assert np.isin(batch.index, expected.sample(5_000).index).all()
    if "prioritized" in configuration.options:
        assert 0 < batch.weights.min() < batch.weights.max() <= 1
