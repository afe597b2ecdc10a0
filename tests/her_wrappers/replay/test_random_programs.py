"""Random programs of calls, spaces and options, judged by the oracle in plain Python."""

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.support.buffers import DEVICES
from tests.support.programs import Program, assert_same_goals, random_tape


@pytest.mark.parametrize("device", DEVICES[1:])
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # seeds are not shrunk
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=10)  # with demonstrations, priorities, infos, a mixture and several steps
def test_any_program_gives_correct_rows_and_the_same_rows_on_a_device(device, seed):
    tape = random_tape(seed, 120)
    assert_same_goals(Program(tape, None).run(), Program(tape, device).run())


@pytest.mark.parametrize(
    "block", [pytest.param(i, marks=pytest.mark.slow if i < 2 else pytest.mark.campaign) for i in range(10)]
)
def test_long_programs_give_correct_rows(block):
    for seed in range(20 * block, 20 * block + 20):
        batches = [Program(random_tape(seed, 120), device).run() for device in DEVICES]
        for others in batches[1:]:
            assert_same_goals(batches[0], others)
