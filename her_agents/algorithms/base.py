"""Agent: base class of all agents, and functions that the algorithms share."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from her_agents.algorithms.networks import GoalInputs, Network
from her_wrappers.replay.tensors import find_device, is_capturing
from her_wrappers.support.arguments import require_gamma, require_keys

if TYPE_CHECKING:
    from her_agents.algorithms.networks import NetworkInput
    from her_agents.algorithms.options import AgentOptions
    from her_wrappers import Batch

_ModuleT = TypeVar("_ModuleT", bound=nn.Module)

LOSS_INTERVAL = 100  # `Agent.gradient_step` tests once in this number of updates whether the loss is finite


class Agent:
    """Base class of agents. An agent is a policy for single and vector environments, trained on batches.

    A new algorithm sets ``options_type`` to the class of its options, makes its networks and optimizers in
    `build`, where ``self.actor`` must be the network that chooses actions, and implements `choose` and
    `update`. A variant of an algorithm overrides some of the methods `make_network`, `choose` (for another
    kind of exploration), `target_values`, `critic_loss`, `actor_loss` and others.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal`` and ``desired_goal``: vectors, images,
            or Dicts or Tuples of these.
        action_space: Action space of one environment.
        gamma: Discount per step; must equal ``gamma`` of the replay buffer. Determines the range of clipped
            targets.
        clip_targets: Whether to clip targets to [-1 / (1 - gamma), 0], the range of returns if all rewards
            lie in [-1, 0].
        seed: Seed of the initial weights, the exploration and the noise in targets.
        device: Torch device of networks, statistics and updates, such as ``"cpu"`` or ``"cuda"``. Initial
            weights do not depend on the device.
        use_keys: Further keys of the observations that the agent reads.
        critic_keys: Further keys of the observations that only the critics read, such as a value that a
            simulator provides, but a robot cannot measure. Actions do not need these keys.
        **options: Options of the algorithm: the fields of its options class, such as
            `her_agents.SACOptions` for `SAC`.

    Attributes:
        options: Options of the algorithm, an instance of ``options_type``.
        device: Torch device of the agent.
        inputs: Converts observations to the inputs of the networks.
        updates: Number of updates so far.
        generator: Random generator of the exploration and of the noise in targets, on the device.
        modules: Networks, optimizers and input statistics by name. A checkpoint contains their states.

    Raises:
        TypeError: A part of an observation or a goal is neither a vector nor an image, the algorithm does not
            support the action space or ``critic_keys``, or an option is unknown or has a wrong type.
        ValueError: ``gamma`` or an option is out of range, the observation space lacks a key, or torch cannot
            use ``device``.
    """

    options_type: type[AgentOptions]
    options: Any
    _acting_network = "actor"  # the attribute with the network that chooses actions

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        gamma: float = 0.98,
        clip_targets: bool = True,
        seed: int = 0,
        device: str | torch.device = "cpu",
        use_keys: Sequence[str] = (),
        critic_keys: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.options = self.options_type(**options)
        lowest = -1 / (1 - gamma) if require_gamma(gamma) < 1 else -math.inf
        self._bounds = (lowest, 0.0) if clip_targets else (-math.inf, math.inf)
        self.updates = 0
        self._target_update_interval = self.options.target_update_interval
        self._target_parameters: list[torch.Tensor] = []
        self._online_parameters: list[torch.Tensor] = []
        self._errors = torch.zeros(0)  # TD errors of the latest update, (..., B)
        self.device = find_device(device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self._random: dict[str, Any] = {"generator": self.generator, "device": self.device}
        use_keys, critic_keys = require_keys("use_keys", use_keys), require_keys("critic_keys", critic_keys)
        keys = dict.fromkeys(("observation", *use_keys, "desired_goal"))
        dtype = torch.get_default_dtype()
        with torch.random.fork_rng(devices=[]):  # torch's global generator is unchanged
            torch.default_generator.manual_seed(seed)
            torch.set_default_dtype(torch.float32)  # of all networks
            try:
                self.inputs = GoalInputs(
                    observation_space,
                    self.device,
                    keys=list(keys),
                    critic_keys=[key for key in critic_keys if key not in keys],
                    num_actions=int(action_space.n) if isinstance(action_space, spaces.Discrete) else 0,
                    random_shift=self.options.random_shift,
                    generator=self.generator,
                )
                self.modules: dict[str, Any] = {"normalizer": self.inputs.normalizer}
                if self.inputs.critic is not None:
                    self.modules["critic_normalizer"] = self.inputs.critic.normalizer
                self.build(action_space)
            finally:
                torch.set_default_dtype(dtype)

    @property
    def algo(self) -> str:
        """Name of the algorithm, for error messages."""
        return type(self).__name__.lower()

    @property
    def update_cycle(self) -> int:
        """Number of updates after which the sequence of operations in `update` repeats.

        A run on a GPU uses one CUDA graph for each update of this cycle. A class must override the property
        if its `update` depends on the number of updates, other than by ``policy_delay`` and
        ``target_update_interval``.
        """
        return math.lcm(getattr(self.options, "policy_delay", 1), self._target_update_interval)

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the networks and optimizers, and add them to ``modules``.

        Raise TypeError if the algorithm does not support ``action_space``, that of a single environment.
        """
        raise NotImplementedError

    @property
    def td_errors(self) -> np.ndarray:
        """Absolute TD errors of the latest update, (B,) float32, averaged over the critics."""
        errors = self._errors.detach().abs()
        return errors.reshape(-1, errors.shape[-1]).mean(dim=0).cpu().numpy()

    @torch.no_grad()
    def act(self, observation: Mapping[str, Any], *, explore: bool = False) -> Any:
        """Return the action for one observation, or N actions for N observations.

        Args:
            observation: Observation of one environment, or observations of N environments with a leading
                axis N. Observations of tensors must have this axis.
            explore: Whether to explore.

        Returns:
            One action of the action space, or N actions along a leading axis; a tensor on the device for
            an observation of tensors.

        Raises:
            ValueError: An action is not finite, though the observation is: the agent diverged.
        """
        goal: Any = observation.get("desired_goal") if isinstance(observation, Mapping) else None
        while isinstance(goal, dict | tuple) and goal:
            goal = next(iter(goal.values())) if isinstance(goal, dict) else goal[0]
        if isinstance(goal, torch.Tensor):
            return self.choose(self.inputs(observation), explore)
        observations, is_single = self.inputs.as_batch(observation)
        inputs = self.inputs(observations)
        actions = self.choose(inputs, explore).cpu().numpy()
        if not math.isfinite(total := float(actions.sum())) and torch.isfinite(inputs.vectors).all():
            require_finite(f"an action of {self.algo}", total, self.updates)
        return actions[0] if is_single else actions

    def choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        """Return N actions of the environment's action space, a tensor on the device, for N inputs.

        Without exploration, an implementation of this method must use only operations that ONNX supports,
        since `export_onnx` exports it.
        """
        raise NotImplementedError

    def update(self, batch: Batch, imitate: Any = None) -> dict[str, torch.Tensor]:
        """Take one gradient step.

        A class whose agents never imitate actions may omit the parameter ``imitate``.

        Args:
            batch: B transitions, as NumPy arrays or tensors.
            imitate: (B,) bool, whether the agent may imitate the action of each transition: True for
                demonstrations, for actions of a person who intervened, and in an offline run. None if it may
                imitate none. Use this array as a factor in a loss, not as an index.

        Returns:
            The losses and the mean Q value, by name, as 0-d tensors on the device.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state of networks, optimizers, statistics and random generator, for ``torch.save``."""
        state = {name: module.state_dict() for name, module in self.modules.items()}
        return state | {"generator": self.generator.get_state(), "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict` of an agent with equal options and spaces."""
        for name, module in self.modules.items():
            module.load_state_dict(state[name])
            for group in getattr(module, "param_groups", ()):  # of a run with CUDA graphs, on another device
                group.update(lr=float(group["lr"]), capturable=False)
        if self.generator.get_state().shape == state["generator"].shape:  # else of another kind of device
            self.generator.set_state(state["generator"])
        self.updates = state["updates"]

    def make_network(
        self, num_outputs: int, num_actions: int = 0, *, is_critic: bool | None = None
    ) -> nn.Module:
        """Return a new network on the device, with the hidden layers that the options specify.

        The arguments of the network are a `NetworkInput` of B observations and, for a critic, actions of
        shape (B, num_actions). Its result is (B, num_outputs) float32. ``is_critic`` is whether the network
        also reads ``critic_keys``; by default, if ``num_actions`` is above 0. Agents without ``critic_keys``
        do not pass this argument.
        """
        network = Network(
            self.inputs,
            self.options.hidden,
            num_outputs,
            num_actions=num_actions,
            is_critic=is_critic,
            layer_norm=self.options.layer_norm,
        )
        return network.to(self.device)  # made on the CPU, so that all devices get the same initial weights

    def make_optimizer(self, *modules: nn.Module) -> torch.optim.Optimizer:
        """Return an Adam optimizer for the parameters of one or more modules."""
        parameters = [each for module in modules for each in module.parameters()]
        return torch.optim.Adam(parameters, self.options.learning_rate, fused=True)

    def make_target(self, online: _ModuleT) -> _ModuleT:
        """Return a copy of ``online`` as target network, which `update_targets` moves towards ``online``."""
        target = copy.deepcopy(online).requires_grad_(False)
        # Listing the parameters once saves time.
        self._target_parameters += list(target.parameters())
        self._online_parameters += list(online.parameters())
        return target

    @torch.no_grad()
    def update_targets(self) -> None:
        """Set target = (1 - tau) * target + tau * online, in every ``target_update_interval``-th call only.

        Each call of `update` must call this method once, since this method also counts the updates.
        """
        self.updates += 1
        if self.updates % self._target_update_interval == 0:
            torch._foreach_lerp_(self._target_parameters, self._online_parameters, self.options.tau)

    def bellman_target(self, batch: Batch, next_value: torch.Tensor) -> torch.Tensor:
        """Return ``rewards + discounts * next_value``, (..., B), clipped if ``clip_targets`` is True."""
        target = self.as_tensor(batch.rewards) + self.as_tensor(batch.discounts) * next_value
        return target.clamp(*self._bounds)

    def critic_loss(self, batch: Batch, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the mean of weights * (values - target)**2, 0-d; store the TD errors for `td_errors`."""
        self._errors = values - target
        return (self.as_tensor(batch.weights) * self._errors.square()).mean()

    def gradient_step(
        self,
        optimizer: torch.optim.Optimizer,
        loss: torch.Tensor,
        *,
        inputs: list[nn.Parameter] | None = None,
    ) -> None:
        """Take one optimizer step on ``loss`` for the parameters ``inputs``; None means all parameters.

        Once in `LOSS_INTERVAL` updates, raise ValueError if the loss is not finite.
        """
        optimizer.zero_grad()
        loss.backward(inputs=inputs)  # type: ignore[no-untyped-call] # torch does not annotate it
        optimizer.step()
        # Rarely, since it waits for a GPU
        if self.updates % LOSS_INTERVAL == LOSS_INTERVAL - 1 and not is_capturing(self.device):
            require_finite(f"the loss of {self.algo}", float(loss.detach()), self.updates)

    def as_tensor(self, values: Any) -> torch.Tensor:
        """Return an array or a tensor as a tensor on the device."""
        return torch.as_tensor(values, device=self.device)

    def scale_learning_rates(self, factor: float) -> None:
        """Set the learning rate of each optimizer to ``factor`` times its initial learning rate."""
        for module in self.modules.values():
            if isinstance(module, torch.optim.Optimizer):
                for group in module.param_groups:
                    if isinstance(group["lr"], torch.Tensor):  # which the CUDA graph of an update reads
                        group["lr"].fill_(factor * module.defaults["lr"])
                    else:
                        group["lr"] = factor * module.defaults["lr"]

    def seed(self, seed: int) -> None:
        """Seed the random generator of the exploration and of the noise in targets."""
        self.generator.manual_seed(seed)

    def policy_state(self) -> dict[str, Any]:
        """Return the weights and the input statistics with which `act` computes actions, as CPU tensors."""
        network = getattr(self, self._acting_network).state_dict()
        normalizer = self.inputs.normalizer.state_dict()
        return {
            "network": {name: tensor.cpu() for name, tensor in network.items()},
            "normalizer": normalizer | {"sums": normalizer["sums"].cpu()},
        }

    def load_policy_state(self, state: Mapping[str, Any]) -> None:
        """Load the result of `policy_state` of an agent with equal options and spaces."""
        getattr(self, self._acting_network).load_state_dict(state["network"])
        self.inputs.normalizer.load_state_dict(state["normalizer"])


def require_finite(name: str, value: float, updates: int) -> None:
    """Raise ValueError if ``value`` is not finite; the message contains ``name`` and ``updates``."""
    if not math.isfinite(value):
        raise ValueError(
            f"{name} is {value} after {updates} updates: the agent diverged; lower learning_rate, pass "
            "clip_targets=True if all rewards lie in [-1, 0], and look for very large observations and "
            "rewards (her check, her doctor)"
        )


def cloning_loss(
    imitate: torch.Tensor, taken: torch.Tensor, proposed: torch.Tensor, is_better: torch.Tensor
) -> torch.Tensor:
    """Return the loss that makes the actor imitate demonstrations: the mean squared difference of actions.

    Args:
        imitate: (B,) bool, whether each transition of a batch may be imitated.
        taken: (B, A) actions of the batch, scaled to [-1, 1].
        proposed: (B, A) actions of the actor, scaled to [-1, 1].
        is_better: (B,) bool, whether the critic gives the taken action a higher value than the proposed
            action. Only transitions with True contribute (Q-filter); other transitions count as 0.
    """
    return ((proposed - taken).square().mean(dim=1) * (imitate & is_better)).mean()


class BoxActions:
    """Converts actions between a Box and the range [-1, 1] of the networks.

    ``algo`` is used in error messages only. TypeError is raised if the space is not a Box with finite bounds.

    Attributes:
        count: Length of an action vector, A.
    """

    def __init__(self, space: spaces.Space[Any], algo: str, device: torch.device) -> None:
        if not isinstance(space, spaces.Box):
            raise TypeError(f"{algo} needs a Box action space, got {space}; use dqn for Discrete actions")
        if not space.is_bounded():
            raise TypeError(
                f"{algo} needs an action space with finite bounds, got {space}; set bounds with "
                f"gymnasium.wrappers.TransformAction(env, lambda action: action, Box(-1, 1, {space.shape})), "
                "or action_space= of GoalSimulator"
            )
        self.count = math.prod(space.shape)
        self._shape = space.shape
        self._low, high = (
            torch.tensor(bound.reshape(-1), dtype=torch.float32, device=device)
            for bound in (space.low, space.high)
        )
        half = (high - self._low) / 2
        # Above 0 also for components with low == high, since `from_env` divides by it.
        self._half = half.clamp(min=torch.finfo(torch.float32).tiny)
        self._bounds = [torch.as_tensor(bound, device=device) for bound in (space.low, space.high)]

    def to_env(self, actions: torch.Tensor) -> torch.Tensor:
        """Convert (B, A) actions of a network to actions of the environment."""
        scaled = (self._low + (actions + 1) * self._half).reshape(-1, *self._shape)
        low, high = self._bounds
        if not low.is_floating_point():
            scaled = scaled.round()
        # Rounding can move an action beyond a bound, which some environments reject.
        return scaled.to(low.dtype).clamp(low, high)

    def from_env(self, actions: Any) -> torch.Tensor:
        """Convert B actions of the environment, an array or a tensor, to (B, A) actions of a network."""
        vectors = torch.as_tensor(actions, device=self._low.device).reshape(len(actions), -1).float()
        return (vectors - self._low) / self._half - 1
