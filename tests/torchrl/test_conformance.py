"""`HindsightTensorDictReplayBuffer` passes the conformance suite through the interface of TorchRL."""

import pytest

from her_wrappers.conformance import check_replay

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("torchrl", reason="torchrl is missing: the extra torchrl")


def test_our_buffer_in_torchrl_has_no_findings():
    from her_wrappers.conformance.adapters.torchrl import OursForTorchRL  # noqa: PLC0415 - needs torchrl

    report = check_replay(OursForTorchRL, max_seconds=600)
    assert not report.findings, report.text()
