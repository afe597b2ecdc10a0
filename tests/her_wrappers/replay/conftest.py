"""The fixture parameter ``device`` of tests in which the device matters."""

import pytest

from tests.support.buffers import DEVICES


@pytest.fixture(params=DEVICES, ids=str)
def device(request):
    """Return None for arrays, or the name of a torch device."""
    return request.param
