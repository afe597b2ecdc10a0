"""DeviceReplayBuffer: content, distributions, errors, files, and that no step waits for the device."""

import contextlib
import copy
from collections import Counter

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from her_wrappers import CorruptFileError, DeviceReplayBuffer, Geometric, Mixture, SimulatorStep
from her_wrappers.replay.goal_selection import STRATEGIES, uniform_below
from tests.support.chi_square import assert_proportional
from tests.support.device_programs import DeviceProgram
from tests.support.programs import random_tape
from tests.support.waiting import NothingWaits

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
]
BOX = spaces.Box(-np.inf, np.inf, (2,))
SPACE = spaces.Dict(observation=BOX, achieved_goal=BOX, desired_goal=BOX)


def compute_reward(achieved_goal, desired_goal, info):
    return (achieved_goal == desired_goal).all(-1).float() - 1


def make(num_envs=3, **options):
    options = {"steps_per_env": 50, "compute_reward": compute_reward, "seed": 0} | options
    return DeviceReplayBuffer(SPACE, BOX, num_envs, **options)


class Simulation:
    """N counting environments: state t of episode e in lane n is (1000 n + e, t)."""

    def __init__(self, num_envs, lengths, device="cpu"):
        self.lane, self.lengths, self.device = torch.arange(num_envs), lengths, device
        self.episode, self.t, self.is_new = torch.zeros(num_envs), torch.zeros(num_envs), True

    def observe(self):
        state = torch.stack((1000.0 * self.lane + self.episode, self.t), 1).float()
        goal = torch.stack((state[:, 0], torch.full_like(self.t, -1)), 1)
        parts = {"observation": state, "achieved_goal": state.clone(), "desired_goal": goal}
        return {key: part.to(self.device) for key, part in parts.items()}

    def step(self, **changes):
        first = self.observe() if self.is_new else None
        self.is_new, action = False, self.observe()["observation"]
        self.t += 1
        last, ended = self.observe(), self.t >= self.lengths[self.lane % len(self.lengths)]
        self.episode += ended
        self.t[ended] = 0
        flags = torch.zeros_like(ended).to(self.device), ended.to(self.device)
        step = SimulatorStep(self.observe(), action, flags[0].float() - 1, *flags, last, {}, first)
        return step._replace(**changes)


def filled(num_envs=3, steps=80, lengths=(7.0, 11.0, 30.0), device="cpu", **options):
    buffer = make(num_envs, device=device, **options)
    simulation = Simulation(num_envs, torch.tensor(lengths), device)
    for _ in range(steps):
        buffer.add(simulation.step())
    return buffer, simulation


# --- content --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # seeds are not shrunk
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=10)  # with demonstrations, priorities, infos, a mixture and several steps
def test_any_program_gives_correct_rows(device, seed):
    DeviceProgram(random_tape(seed, 120), device).run()


@pytest.mark.parametrize(
    "block", [pytest.param(i, marks=pytest.mark.campaign if i else pytest.mark.slow) for i in range(70)]
)
def test_long_programs_give_correct_rows(block):
    for seed in range(30 * block, 30 * block + 30):
        DeviceProgram(random_tape(seed, 200)).run()


def test_steps_of_all_lanes_are_equally_likely():
    buffer, _ = filled()
    stored = len(buffer)
    counts = Counter(torch.cat([buffer.sample(1000).index for _ in range(40)]).tolist())
    assert len(counts) == stored
    assert_proportional(counts, dict.fromkeys(counts, 1.0))


S = np.arange(1, 13)
"""The states of an episode, which may supply the goal of its step 4."""


@pytest.mark.parametrize(
    ("strategy", "odds"),
    [
        ("future", 1.0 * (S > 4)),
        ("episode", np.ones(12)),
        ("geometric", (S > 4) * 0.99**S),
        (Geometric(0.5), (S > 4) * 0.5**S),
    ],
    ids=str,
)
def test_strategies_have_their_distributions(strategy, odds):
    buffer, _ = filled(1, 12, (12.0,), goal_selection_strategy=strategy)
    batch = buffer.sample(60_000)
    is_row = batch.relabeled & (batch.observations["observation"][:, 1] == 4)
    goals = batch.observations["desired_goal"][is_row, 1].long()
    assert_proportional(Counter(goals.tolist()), {s: odd for s, odd in zip(S, odds, strict=True) if odd})


def test_a_function_of_the_table_of_strategies_selects_goals_on_the_device_too(monkeypatch):
    last = lambda t, length, rng: length - uniform_below(length - t, len(t), rng)  # noqa: E731
    monkeypatch.setitem(STRATEGIES, "new", last)
    batch = filled(1, 12, (12.0,), goal_selection_strategy="new")[0].sample(5_000)
    is_row = batch.relabeled & (batch.observations["observation"][:, 1] == 4)
    assert set(batch.observations["desired_goal"][is_row, 1].tolist()) == set(range(5, 13))


def test_shares_hold_for_every_batch_size():
    shares = {"future": 0.5, "random": 0.2, "desired": 0.1, "original": 0.2}
    buffer, _ = filled(goal_selection_strategy=Mixture(shares))
    for size in (1, 3, 10):
        names = np.concatenate([buffer.sample(size).strategy for _ in range(200 // size)])
        assert_proportional(Counter(names.tolist()), shares)


def test_a_reset_in_the_middle_truncates_all_episodes():
    buffer, simulation = filled(2, 3, (50.0, 50.0))
    simulation.t[:], simulation.is_new = 0, True
    simulation.episode += 1
    buffer.add(simulation.step())
    batch = buffer.sample(500)
    t, number = batch.observations["observation"][:, 1], batch.observations["observation"][:, 0] % 1000
    assert torch.equal(batch.truncations, (t == 2) & (number == 0))


def test_statistics_describe_the_content():
    buffer, _ = filled(2, 20, (5.0, 5.0))
    before = buffer.generator.get_state()
    found = buffer.statistics(4000)
    assert torch.equal(buffer.generator.get_state(), before)
    assert (found.num_transitions, found.num_episodes, found.mean_length) == (40, 8, 5)
    assert found.relabeled_share == 0.8
    assert found.original_reward == -1
    assert 1 < found.mean_ahead < 3
    assert found.trivial_share == 0


def test_max_bytes_limits_the_memory():
    buffer = make(4, steps_per_env=None, max_bytes=100_000)
    assert 80_000 < buffer.nbytes <= 100_000 + 8 * 4 * 8
    with pytest.raises(ValueError, match="max_bytes must be at least"):
        make(4, steps_per_env=None, max_bytes=100)
    with pytest.raises(ValueError, match="max_bytes"):
        make(4, max_bytes=100_000)


def test_states_of_short_episodes_take_room_of_steps():
    """With a state for each step, and one more, all steps fit."""
    assert len(filled(1, 200, (1.0,), steps_per_env=50)[0]) == 25
    assert len(filled(1, 200, (1.0,), steps_per_env=50, states_per_env=101)[0]) == 50


# --- nothing waits --------------------------------------------------------------------------------


def other_half(t, length, generator):
    return (t + length) // 2 + 1


def reward_of_batch(batch):
    achieved, desired = batch.next_observations["achieved_goal"], batch.observations["desired_goal"]
    return compute_reward(achieved, desired, {})


@pytest.mark.parametrize(
    "options",
    [
        {"n_steps": 3, "goal_selection_strategy": "episode"},
        {"termination": "success", "goal_selection_strategy": "final"},
        {"termination": lambda a, d, info: (a == d).all(-1), "goal_selection_strategy": "geometric"},
        {"termination": "never", "n_steps": 2, "goal_selection_strategy": "desired"},
        {"goal_selection_strategy": other_half},
        {"n_sampled_goal": 0},
        {"compute_reward": None, "reward_fn": reward_of_batch},
    ],
)  # fmt: skip
def test_neither_add_nor_sample_waits(options):
    buffer, simulation = filled(**options)
    buffer.sample(5)  # the first call inspects the data
    steps = [simulation.step() for _ in range(3)]
    with NothingWaits():
        for step in steps:
            buffer.add(step)
            buffer.sample(7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_cuda_does_not_wait_and_gives_the_same_in_a_graph():
    torch.cuda.set_sync_debug_mode("error")
    try:
        buffer, simulation = filled(device="cuda")
        buffer._num_samples = 2000
        buffer.sample(64)
        buffer.add(simulation.step())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    twin = copy.deepcopy(buffer)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(buffer.generator)
    with torch.cuda.graph(graph):
        batch = buffer.sample(64)
    graph.replay()
    assert torch.equal(batch.index, twin.sample(64).index)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "names"),
    [
        ({"action": np.zeros((3, 2))}, TypeError, "step/action.*ndarray"),
        ({"action": torch.zeros(3, 1)}, ValueError, r"step/action.*\(3, 2\).*\(3, 1\)"),
        ({"reward": torch.zeros(3, 1)}, ValueError, r"step/reward.*\(3,\)"),
        ({"terminated": torch.zeros(3)}, TypeError, "step/terminated.*bool"),
        ({"observation": {"observation": torch.zeros(3, 2)}}, ValueError, "achieved_goal is missing"),
        ({"first_observation": None}, ValueError, "first_observation"),
    ],
)
def test_a_wrong_step_is_an_error_and_nothing_is_added(changes, error, names):
    buffer = make()
    with pytest.raises(error, match=names):
        buffer.add(Simulation(3, torch.tensor([5.0])).step(**changes))
    assert len(buffer) == 0
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(3)


def test_an_info_that_changes_its_shape_is_an_error_and_nothing_is_added():
    buffer, simulation = make(info_keys=["force"]), Simulation(3, torch.tensor([5.0]))
    buffer.add(simulation.step(info={"force": torch.zeros(3, 2)}))
    with pytest.raises(ValueError, match=r"info 'force'.*\(3, 2\).*\(3, 4\)"):
        buffer.add(simulation.step(info={"force": torch.zeros(3, 4)}))
    assert len(buffer) == 3


@pytest.mark.parametrize("key", ["observation", "desired_goal", "reward", "action"])
def test_nan_is_an_error_of_the_next_call_that_waits(key):
    buffer, simulation = filled()
    step = simulation.step()
    values = step.last_observation.get(key) if key in SPACE.spaces else getattr(step, key)
    values[1] = torch.nan
    buffer.add(step)
    for call in (buffer.statistics, lambda: buffer.sample(4)):
        with pytest.raises(ValueError, match="step 80 of environment 1"):
            call()


BATCH_REWARD = {"compute_reward": None, "reward_fn": lambda batch: batch.rewards.sub_(1)}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"compute_reward": lambda a, d, i: np.zeros(len(a))}, "ndarray"),
        ({"compute_reward": lambda a, d, i: -(a - d).abs()}, r"compute_reward must return shape"),
        ({"compute_reward": lambda a, d, i: i["force"]}, "info_keys"),
        ({"compute_reward": lambda a, d, i: None}, "compute_reward must return .* got None; add a return"),
        ({"compute_reward": lambda a, d, i: a.sub_(d).abs().sum(-1)}, "compute_reward changed .* in place"),
        ({"termination": lambda a, d, i: None}, "termination must return .* got None; add a return"),
        (BATCH_REWARD, "reward_fn changed"),
    ],
)
def test_wrong_results_of_functions_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        filled(**options)[0].sample(10)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"compute_reward": lambda a, d, i: -((a - d) ** 2).sum(-1)}, "compute_reward returns"),
        (BATCH_REWARD | {"reward_fn": lambda batch: batch.rewards + 0}, "reward_fn returns batch.rewards"),
    ],
)
def test_rewards_that_disagree_or_are_the_recorded_ones_are_a_warning(options, match):
    with pytest.warns(UserWarning, match=match):
        filled(**options)[0].sample(10)


def test_for_env_needs_a_simulator():
    with pytest.raises(TypeError, match="GoalSimulator"):
        DeviceReplayBuffer.for_env(object())


# --- files ----------------------------------------------------------------------------------------


def test_a_loaded_buffer_continues(tmp_path):
    buffer, simulation = filled()
    buffer.save(tmp_path / "buffer")
    loaded = DeviceReplayBuffer.load(tmp_path / "buffer", compute_reward=compute_reward)
    for each in (buffer, loaded):
        assert len(each) == len(buffer)
    step = simulation.step()
    for _ in range(3):
        batches = [each.sample(20) for each in (buffer, loaded)]
        assert torch.equal(batches[0].index, batches[1].index)
        assert torch.equal(batches[0].rewards, batches[1].rewards)
        for each in (buffer, loaded):
            each.add(step)


def test_bad_files_and_options_are_errors(tmp_path):
    buffer, _ = filled(goal_selection_strategy=other_half)
    buffer.save(tmp_path / "buffer")
    with pytest.raises(ValueError, match="goal_selection_strategy"):
        DeviceReplayBuffer.load(tmp_path / "buffer", compute_reward=compute_reward)
    with pytest.raises(ValueError, match="steps_per_env"):
        DeviceReplayBuffer.load(tmp_path / "buffer", steps_per_env=3)
    without = DeviceReplayBuffer.load(tmp_path / "buffer", goal_selection_strategy="future")
    with pytest.raises(ValueError, match="loaded without functions"):
        without.sample(5)
    content = bytearray((tmp_path / "buffer").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(CorruptFileError):
        DeviceReplayBuffer.load(tmp_path / "damaged", goal_selection_strategy="future")


# --- mistakes of new users ------------------------------------------------------------------------


def test_values_are_stored_without_their_graphs():
    buffer, simulation = make(), Simulation(3, torch.tensor([7.0]))
    for _ in range(5):
        action = torch.zeros(3, 2, requires_grad=True)
        buffer.add(simulation.step(action=action * 2))
    assert not buffer.sample(4).actions.requires_grad


def steps_at_goals(*, terminates):
    """Yield steps whose states from 2 on are at the desired goal; they end the episode if ``terminates``."""
    simulation = Simulation(3, torch.tensor([4.0]))
    for _ in range(30):
        step = simulation.step()
        for state in (step.last_observation, step.observation, step.first_observation or {}):
            if state:
                state["achieved_goal"] = state["observation"][:, [1, 1]].clamp(max=2)
                state["desired_goal"] = torch.full((3, 2), 2.0)
        last = step.last_observation
        reward = compute_reward(last["achieved_goal"], last["desired_goal"], {})
        yield step._replace(reward=reward, terminated=(reward == 0) & terminates)


@pytest.mark.parametrize(
    ("terminates", "options", "message"),
    [
        (True, {}, "episodes end at their goal"),
        (False, {"termination": "success"}, "leave termination= out"),
        (
            False,
            {"termination": "success", "goal_selection_strategy": Mixture({"final": 1, "original": 0})},
            "",
        ),
    ],
)
def test_terminations_that_contradict_the_rule_are_a_warning(terminates, options, message):
    buffer = make(**options)
    for step in steps_at_goals(terminates=terminates):
        buffer.add(step)
    with pytest.warns(UserWarning, match=message) if message else contextlib.nullcontext():
        buffer.sample(10)
