"""The fixture parameter ``device`` of tests in which the device matters."""

import pytest

from tests.support.buffers import DEVICES


@pytest.fixture(params=[each for each in DEVICES if each != "cpu"], ids=str)
def device(request):
    """Return None for arrays, or the name of a GPU. On "cpu", batches share the memory of the arrays."""
    return request.param
