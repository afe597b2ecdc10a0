"""The time of one update of each agent, compared with the bare torch operations on the same networks.

For example:

    python -m benchmarks.agents --quick          a short test
    python -m benchmarks.agents                  about two minutes

The bare steps are only the torch operations: forward passes of the networks and the target networks, losses
with the weights of the batch, backward passes, and optimizer steps; their inputs are tensors. An update also
converts the batch, updates the statistics of the inputs, normalizes the inputs, updates the target networks,
and returns the losses. Networks and optimizers are those of each agent's defaults. A batch has 128
transitions: of BitFlipping with 10 bits for DQN, of PointPush for the other agents. Numbers are processor
time on one thread. The table shows the lowest of all turns, since other programs use the machine too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import torch
from torch import nn

import her_envs
from benchmarks.result_page import Benchmark, Grid, at_most, requirement_grid
from benchmarks.timing import Timing, Workload, measure
from her_agents import DDPG, DQN, SAC, TD3, TQC, Agent
from her_agents.networks import GoalInputs, Network, NetworkInput, TwinCritics
from her_agents.tqc import QuantileCritics
from her_wrappers import Batch, EpisodeRecorder, HindsightReplayBuffer

gym.register_envs(her_envs)

BENCHMARK = Benchmark("agents", "The cost of an update of an agent", __doc__)
BATCH_SIZE = 128
STEPS = 3_000
FULL, QUICK = Timing(turns=100, seconds=0.05), Timing(turns=2, seconds=0.02)
ENVS = {"dqn": "her_envs/BitFlipping-v0"} | dict.fromkeys(
    ("ddpg", "td3", "sac", "tqc"), "her_envs/PointPush-v0"
)
AGENTS: dict[str, Callable[..., Agent]] = {"dqn": DQN, "ddpg": DDPG, "td3": TD3, "sac": SAC, "tqc": TQC}


def sample_batch(env: gym.Env[Any, Any]) -> Batch:
    """Return a batch from episodes of random actions."""
    buffer = HindsightReplayBuffer.for_env(env, gamma=0.98, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(STEPS):
        if any(recorder.step(env.action_space.sample())[2:4]):
            recorder.reset()
    return buffer.sample(BATCH_SIZE)


class BareSteps:
    """The torch operations of an update, on tensors that are made before the measurement.

    Args:
        env: Goal environment of the batch.
        batch: B transitions.
        hidden: Units of each hidden layer.
    """

    def __init__(self, env: gym.Env[Any, Any], batch: Batch, hidden: Sequence[int]) -> None:
        assert isinstance(env.observation_space, gym.spaces.Dict)  # noqa: S101 - our own environments
        self.inputs, self.hidden = GoalInputs(env.observation_space), hidden
        self.current, self.next = self.inputs.of_batch(batch)
        batch = batch.to_torch()
        self.actions, self.rewards = batch.actions, batch.rewards
        self.discounts, self.weights = batch.discounts, batch.weights

    def network(self, outputs: int, num_actions: int = 0) -> Network:
        """Return a new network; its inputs are observations and ``num_actions`` components of an action."""
        return Network(self.inputs, self.hidden, outputs, num_actions=num_actions)

    def target(self, value: torch.Tensor) -> torch.Tensor:
        """Return clipped Bellman targets, (B,)."""
        target: torch.Tensor = self.rewards + self.discounts * value
        return target.clamp(-50, 0)

    def loss(self, errors: torch.Tensor) -> torch.Tensor:
        """Return the weighted mean of the squared errors."""
        loss: torch.Tensor = (self.weights * errors.square()).mean()
        return loss


def adam(network: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that all agents use."""
    return torch.optim.Adam(network.parameters(), 1e-3, fused=True)


def gradient_step(optimizer: torch.optim.Optimizer, loss: torch.Tensor, inputs: Any = None) -> None:
    """Reset the gradients, backpropagate the loss (only to ``inputs``, if given), and step the optimizer."""
    optimizer.zero_grad()
    loss.backward(inputs=inputs)  # type: ignore[no-untyped-call] # torch does not annotate it
    optimizer.step()


def bare_dqn(bare: BareSteps) -> Callable[[], None]:
    """Return a function that does the torch operations of one update of double DQN."""
    online, target = bare.network(10), bare.network(10)
    optimizer = adam(online)

    def update() -> None:
        with torch.no_grad():
            best = online(bare.next).argmax(dim=1, keepdim=True)
            targets = bare.target(target(bare.next).gather(1, best).squeeze(1))
        value = online(bare.current).gather(1, bare.actions.long().unsqueeze(1)).squeeze(1)
        gradient_step(optimizer, bare.loss(value - targets))

    return update


def bare_ddpg(bare: BareSteps) -> Callable[[], None]:
    """Return a function that does the torch operations of one update of DDPG."""
    actor, target_actor = (nn.Sequential(bare.network(2), nn.Tanh()) for _ in range(2))
    critic, target_critic = (bare.network(1, 2) for _ in range(2))
    actor_optimizer, critic_optimizer = adam(actor), adam(critic)
    parameters = list(actor.parameters())

    def update() -> None:
        with torch.no_grad():
            targets = bare.target(target_critic(bare.next, target_actor(bare.next)).squeeze(1))
        gradient_step(critic_optimizer, bare.loss(critic(bare.current, bare.actions).squeeze(1) - targets))
        actions = actor(bare.current)
        loss = actions.square().mean() - critic(bare.current, actions).mean()
        gradient_step(actor_optimizer, loss, parameters)

    return update


def bare_td3(bare: BareSteps) -> Callable[[], None]:
    """Return a function that does the torch operations of TD3; every second call updates the actor."""
    actor, target_actor = (nn.Sequential(bare.network(2), nn.Tanh()) for _ in range(2))
    critics, target_critics = (TwinCritics(bare.inputs, bare.hidden, 2) for _ in range(2))
    actor_optimizer, critic_optimizer = adam(actor), adam(critics)
    parameters = list(actor.parameters())
    updates = 0

    def update() -> None:
        nonlocal updates
        updates += 1
        with torch.no_grad():
            actions = target_actor(bare.next)
            actions = actions + (0.2 * torch.randn(actions.shape)).clamp(-0.5, 0.5)
            targets = bare.target(target_critics(bare.next, actions.clamp(-1, 1)).amin(dim=0))
        gradient_step(critic_optimizer, bare.loss(critics(bare.current, bare.actions) - targets))
        if updates % 2 == 0:
            actions = actor(bare.current)
            loss = actions.square().mean() - critics.first(bare.current, actions).mean()
            gradient_step(actor_optimizer, loss, parameters)

    return update


def sample_actions(actor: nn.Module, inputs: NetworkInput) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sampled actions, (B, A), and the negative logarithms of their densities, (B,)."""
    mean, log_deviation = actor(inputs).chunk(2, dim=1)
    log_deviation = log_deviation.clamp(-5, 2)
    noise = torch.randn(mean.shape)
    raw = mean + log_deviation.exp() * noise
    density = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
    density = density - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
    return raw.tanh(), -density.sum(dim=1)


def bare_sac(bare: BareSteps) -> Callable[[], None]:
    """Return a function that does the torch operations of one update of SAC with a learned temperature."""
    actor = bare.network(4)
    critics, target_critics = (TwinCritics(bare.inputs, bare.hidden, 2) for _ in range(2))
    log_temperature = nn.ParameterDict({"log": torch.tensor(math.log(0.1))})
    optimizers = adam(critics), adam(actor), adam(log_temperature)
    parameters = list(actor.parameters())

    def update() -> None:
        temperature = log_temperature["log"].exp().detach()
        with torch.no_grad():
            actions, entropy = sample_actions(actor, bare.next)
            targets = bare.target(target_critics(bare.next, actions).amin(dim=0) + temperature * entropy)
        gradient_step(optimizers[0], bare.loss(critics(bare.current, bare.actions) - targets))
        actions, entropy = sample_actions(actor, bare.current)
        loss = -(critics(bare.current, actions).amin(dim=0) + temperature * entropy).mean()
        gradient_step(optimizers[1], loss, parameters)
        gradient_step(optimizers[2], log_temperature["log"] * (entropy.detach().mean() + 2))

    return update


def bare_tqc(bare: BareSteps) -> Callable[[], None]:
    """Return a function that does the torch operations of one update of TQC with a learned temperature."""
    actor = bare.network(4)
    critics, targets = (
        QuantileCritics(bare.inputs, bare.hidden, 2, n_critics=2, n_quantiles=25, layer_norm=False)
        for _ in range(2)
    )
    log_temperature = nn.ParameterDict({"log": torch.tensor(math.log(0.1))})
    optimizers = adam(critics), adam(actor), adam(log_temperature)
    parameters = list(actor.parameters())
    levels = ((torch.arange(25) + 0.5) / 25).view(-1, 1, 1)

    def update() -> None:
        temperature = log_temperature["log"].exp().detach()
        with torch.no_grad():
            actions, entropy = sample_actions(actor, bare.next)
            quantiles = targets(bare.next, actions).flatten(0, 1).sort(dim=0).values[:46]
            target = bare.target(quantiles + temperature * entropy)
        errors = target - critics(bare.current, bare.actions).unsqueeze(2)
        huber = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
        gradient_step(optimizers[0], ((levels - (errors.detach() < 0).float()).abs() * huber).mean())
        actions, entropy = sample_actions(actor, bare.current)
        loss = -(critics(bare.current, actions).mean(dim=(0, 1)) + temperature * entropy).mean()
        gradient_step(optimizers[1], loss, parameters)
        gradient_step(optimizers[2], log_temperature["log"] * (entropy.detach().mean() + 2))

    return update


BARE = {"dqn": bare_dqn, "ddpg": bare_ddpg, "td3": bare_td3, "sac": bare_sac, "tqc": bare_tqc}


def repeat(function: Callable[[], Any]) -> Workload:
    """Return a workload that calls a function."""

    def run(calls: int) -> None:
        for _ in range(calls):
            function()

    return Workload(run)


def make_works(algo: str) -> dict[tuple[str, str], Workload]:
    """Return two workloads of an algorithm: the update of its agent, and the bare torch operations."""
    env = gym.make(ENVS[algo])
    batch = sample_batch(env)
    agent = AGENTS[algo](env.observation_space, env.action_space)
    hidden = (256,) if algo == "dqn" else (64, 64, 64)
    bare = BARE[algo](BareSteps(env, batch, hidden))
    return {(algo, "update"): repeat(lambda: agent.update(batch)), (algo, "bare"): repeat(bare)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="two short turns")
    torch.set_num_threads(1)
    timing = QUICK if options.quick else FULL
    rows, requirements = [], []
    for algo in AGENTS:
        seconds = measure(make_works(algo), timing, time.thread_time)
        update, bare = (1e6 * seconds[algo, name].min() for name in ("update", "bare"))
        rows.append([algo, f"{update:.0f}", f"{bare:.0f}", f"{update / bare:.2f}"])
        requirements.append(
            at_most(f"{algo}: time of an update / time of the bare steps", 1.3, update / bare)
        )
    grids = [
        requirement_grid(requirements, quick=options.quick),
        Grid("Microseconds", ["agent", "update", "bare steps", "ratio"], rows),
    ]
    BENCHMARK.publish(
        options, grids, {"run": f"lowest of {timing.turns} turns of about {timing.seconds:g} s each"}
    )


if __name__ == "__main__":
    main()
