"""Tests of the buffer run with arrays and with tensors on the CPU, unless slow or marked arrays_only."""

from __future__ import annotations

import pytest

from her_wrappers import HindsightReplayBuffer


def pytest_generate_tests(metafunc):
    """Parametrize tests with both backends; tests marked ``arrays_only`` run with arrays only."""
    arrays_only = metafunc.definition.get_closest_marker("arrays_only")
    metafunc.parametrize("backend", ["arrays"] + ["tensors"] * (arrays_only is None), indirect=True)


@pytest.fixture(autouse=True)
def backend(request, monkeypatch):
    """Use the device ``"cpu"`` by default with the backend ``tensors``, and convert batches to arrays."""
    if request.param == "tensors" and request.node.get_closest_marker("slow"):
        pytest.skip("CI has little room for slow tests")
    if request.param == "tensors":
        sample = HindsightReplayBuffer.sample

        def sample_arrays(*arguments, **options):
            return sample(*arguments, **options).to_numpy()

        monkeypatch.setitem(HindsightReplayBuffer.__init__.__wrapped__.__kwdefaults__, "device", "cpu")
        monkeypatch.setattr(HindsightReplayBuffer, "sample", sample_arrays)
    return request.param
