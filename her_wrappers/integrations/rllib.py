"""RLlib: DQN and SAC of the new API stack with hindsight replay, based on `HindsightReplayBuffer`.

``docs/rllib.md`` lists the differences from RLlib's own replay buffers.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from her_wrappers.goals.success_flag import flag_of
from her_wrappers.replay.buffer import HindsightReplayBuffer

try:
    from ray.rllib.algorithms import Algorithm, AlgorithmConfig
    from ray.rllib.algorithms.dqn import DQN, DQNConfig
    from ray.rllib.algorithms.sac import SAC, SACConfig
    from ray.rllib.connectors.common import AddObservationsFromEpisodesToBatch
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.connectors.learner import LearnerConnectorPipeline, NumpyToTensor
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.columns import Columns
    from ray.rllib.env.env_context import EnvContext
    from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
    from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS
except ImportError as error:
    raise ImportError(
        'her_wrappers.integrations.rllib needs RLlib; run: pip install "her-toolkit[rllib]"'
    ) from error

from her_wrappers.integrations.rllib_buffer import HerEpisodeReplayBuffer, NetworkInputs, joined

if TYPE_CHECKING:
    from gymnasium import spaces
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    from her_wrappers.integrations.rllib_buffer import SampledTransitions

BUFFER_TYPE = "EpisodeReplayBuffer"
"""Value of ``replay_buffer_config["type"]``: a name of RLlib's, since SACConfig accepts no other names."""

GIVEN_BY_RLLIB = {"observation_space", "action_space", "buffer_size", "n_steps", "gamma", "device"}
OPTIONS = inspect.signature(HindsightReplayBuffer).parameters.keys() - GIVEN_BY_RLLIB
"""Arguments of `HindsightReplayBuffer` that are allowed as keys of ``replay_buffer_config``."""

STATE_KEY = "replay_buffer"  # key of the replay buffer in the state dict of an algorithm


class GoalsToInputs(ConnectorV2):  # type: ignore[misc] # RLlib has no annotations
    """Env-to-module connector that gives the networks observations as vectors, and logs the success rate.

    Unlike RLlib's ``FlattenObservations``, this connector does not replace the observations in the episodes
    by vectors. The replay buffer needs the dict observations in the episodes, since they contain the goals.
    """

    def recompute_output_observation_space(
        self, input_observation_space: spaces.Space[Any], input_action_space: spaces.Space[Any]
    ) -> spaces.Box:
        """Return the space of the vectors that the networks get."""
        self._inputs = NetworkInputs(input_observation_space)
        return self._inputs.space

    def __call__(
        self,
        *,
        batch: dict[str, Any],
        episodes: list[Any],
        metrics: MetricsLogger | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Add the latest observation of each episode to the batch; log the success of ended episodes."""
        for episode in self.single_agent_episode_iterator(episodes):
            vector = self._inputs(episode.get_observations(-1), 1)[0]
            self.add_batch_item(batch, Columns.OBS, item_to_add=vector, single_agent_episode=episode)
            if metrics is not None and episode.is_done:
                success = flag_of(episode.get_infos(-1))
                if success is not None:
                    metrics.log_value("success_rate", float(success), window=100)
        return batch


class ColumnsFromBuffer(ConnectorV2):  # type: ignore[misc] # RLlib has no annotations
    """Learner connector that returns the columns of a sampled batch; it does not build them from episodes."""

    def __call__(self, *, episodes: list[SampledTransitions], **kwargs: Any) -> dict[str, Any]:
        """Return all columns of the batch; the connectors that follow only add columns that are missing."""
        columns = [part.columns for part in episodes]
        return dict(columns[0]) if len(columns) == 1 else joined(columns)


class ModuleTensors(NumpyToTensor):  # type: ignore[misc] # RLlib has no annotations
    """Learner connector that converts the columns of a batch to tensors, for a learner with one RLModule."""

    def __call__(self, *, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return ``{id: batch}``: the id of the only RLModule, and the columns of ``batch`` as tensors."""
        tensors: dict[str, Any] = super().__call__(batch={DEFAULT_MODULE_ID: batch}, **kwargs)
        return tensors


class _HerConfig(AlgorithmConfig):  # type: ignore[misc] # RLlib has no annotations
    """Mixin for `HerDQNConfig` and `HerSACConfig`: connectors, checks of settings, buffer defaults."""

    def __init__(self, algo_class: type) -> None:
        super().__init__(algo_class)
        self.replay_buffer_config: dict[str, Any] = {"type": BUFFER_TYPE, "capacity": 1_000_000}
        self.store_buffer_in_checkpoints = True

    def validate(self) -> None:
        """Raise ValueError if a setting is not valid, or does not work with hindsight."""
        config, name = self.replay_buffer_config, type(self).__name__
        if config.get("type") != BUFFER_TYPE:
            raise ValueError(
                f'replay_buffer_config["type"] must be left out, got {config.get("type")!r}; {name} always '
                "uses her_wrappers.integrations.rllib.HerEpisodeReplayBuffer"
            )
        if unknown := sorted(config.keys() - OPTIONS - {"type", "capacity"}):
            choices = f"choose from 'capacity', which is the size of the buffer, and {sorted(OPTIONS)}"
            is_of_training = unknown[0] in {"n_step", "n_steps", "gamma"}
            fix = "pass n_step= and gamma= to training()" if is_of_training else choices
            raise ValueError(f"replay_buffer_config has the unknown key {unknown[0]!r}; {fix}")
        if not self.enable_env_runner_and_connector_v2:
            raise ValueError(f"{name} needs the new API stack, got the old one; remove api_stack(...)")
        if self.is_multi_agent:
            raise ValueError(f"{name} needs a single agent, got several; remove multi_agent(...)")
        for key in ("env_to_module_connector", "learner_connector"):
            if getattr(self, f"_{key}") is not None:
                raise ValueError(
                    f"{key} must be None, got a function; {name} sets this connector itself, so remove "
                    f"{key}=, and change observations in a wrapper of the environment instead"
                )
        if not isinstance(self.n_step, int):
            raise ValueError(  # noqa: TRY004 - a setting, as in the checks above
                f"n_step must be an int, got {self.n_step!r}; write, for example, training(n_step=3)"
            )
        models = [self.model_config, self.rl_module_spec.model_config or {}]
        if any((each if isinstance(each, dict) else vars(each)).get("use_lstm") for each in models):
            reason = f"because the buffer of {name} samples single steps, not sequences"
            raise ValueError(f"use_lstm must be False, {reason}; remove use_lstm=True from model_config")
        super().validate()

    def build_env_to_module_connector(
        self, env: Any = None, spaces: Any = None, device: Any = None
    ) -> ConnectorV2:
        """Return RLlib's pipeline with `GoalsToInputs` as its first connector."""
        pipeline = super().build_env_to_module_connector(env=env, spaces=spaces, device=device)
        pipeline.prepend(GoalsToInputs())
        return pipeline

    def build_learner_connector(
        self, input_observation_space: Any, input_action_space: Any, device: Any = None
    ) -> ConnectorV2:
        """Return a pipeline that turns the columns of a batch from the buffer into tensors."""
        return LearnerConnectorPipeline(
            connectors=[
                ColumnsFromBuffer(),
                # The learners insert a connector after this one; both find their columns in the batch.
                AddObservationsFromEpisodesToBatch(as_learner_connector=True),
                ModuleTensors(as_learner_connector=True, device=device),
            ],
            input_observation_space=input_observation_space,
            input_action_space=input_action_space,
        )


class _HerAlgorithm(Algorithm):  # type: ignore[misc] # RLlib has no annotations
    """Mixin for `HerDQN` and `HerSAC`: makes the replay buffer, and saves it in checkpoints."""

    def _create_local_replay_buffer_if_necessary(self, config: Any) -> HerEpisodeReplayBuffer:
        """Return a new buffer; RLlib calls this method when it builds the algorithm."""
        settings = self.config
        options = {name: value for name, value in settings.replay_buffer_config.items() if name != "type"}
        return HerEpisodeReplayBuffer(
            self.env_creator(EnvContext(settings.env_config or {}, worker_index=0)),
            num_envs=max(settings.num_env_runners, 1) * settings.num_envs_per_env_runner,
            n_step=settings.n_step,
            gamma=settings.gamma,
            **{"seed": settings.seed, **options},
        )

    def setup(self, config: Any) -> None:
        """Build the algorithm; raise ValueError if its networks are recurrent."""
        super().setup(config)
        if self._module_is_stateful:
            fix = "use an RLModule without get_initial_state()"
            raise ValueError(
                f"{type(self).__name__} samples single steps, but the RLModule is recurrent; {fix}"
            )

    def training_step(self) -> None:
        """Collect steps until the buffer has at least one episode; then run the training step of RLlib."""
        while not len(self.local_replay_buffer):
            episodes, results = synchronous_parallel_sample(
                worker_set=self.env_runner_group,
                concat=True,
                sample_timeout_s=self.config.sample_timeout_s,
                _uses_new_env_runners=True,
                _return_metrics=True,
            )
            self.metrics.aggregate(results, key=ENV_RUNNER_RESULTS)
            self.local_replay_buffer.add(episodes)
        super().training_step()

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> Any:
        """Return the state of the algorithm, with the buffer if ``store_buffer_in_checkpoints`` is True."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        is_wanted = self._check_component(STATE_KEY, components, not_components)
        if is_wanted and self.config.store_buffer_in_checkpoints:
            state[STATE_KEY] = self.local_replay_buffer.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the algorithm, and the buffer if ``state`` contains one."""
        super().set_state(state)
        if STATE_KEY in state:
            self.local_replay_buffer.set_state(state[STATE_KEY])

    def cleanup(self) -> None:
        """Stop all workers, and close the environment of the buffer."""
        if self.local_replay_buffer is not None:
            self.local_replay_buffer.close()
        super().cleanup()


class HerDQN(_HerAlgorithm, DQN):  # type: ignore[misc] # RLlib has no annotations
    """RLlib's DQN with `HerEpisodeReplayBuffer`; build it with `HerDQNConfig`."""

    @classmethod
    def get_default_config(cls) -> HerDQNConfig:
        """Return the configuration with all defaults."""
        return HerDQNConfig()


class HerSAC(_HerAlgorithm, SAC):  # type: ignore[misc] # RLlib has no annotations
    """RLlib's SAC with `HerEpisodeReplayBuffer`; build it with `HerSACConfig`."""

    @classmethod
    def get_default_config(cls) -> HerSACConfig:
        """Return the configuration with all defaults."""
        return HerSACConfig()


class HerDQNConfig(_HerConfig, DQNConfig):  # type: ignore[misc] # RLlib has no annotations
    """Configuration of RLlib's DQN with hindsight, for goal environments with Discrete actions.

    The methods are the same as in ``DQNConfig``. ``training(replay_buffer_config=...)`` takes a dict with
    the ``capacity`` of the buffer and other arguments of `HindsightReplayBuffer`. Checkpoints contain the
    buffer unless ``store_buffer_in_checkpoints`` is False.

    Example:
        >>> config = HerDQNConfig().environment("her_envs:her_envs/BitFlipping-v0")
        >>> config = config.training(replay_buffer_config={"n_sampled_goal": 4})
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class or HerDQN)


class HerSACConfig(_HerConfig, SACConfig):  # type: ignore[misc] # RLlib has no annotations
    """Configuration of RLlib's SAC with hindsight; see `HerDQNConfig`.

    Example:
        >>> config = HerSACConfig().environment("her_envs:her_envs/PointReach-v0")
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class or HerSAC)
