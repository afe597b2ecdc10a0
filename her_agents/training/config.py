"""Config: all options of a run, from the command line, a file, or a program."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from her_agents.algorithms.options import AGENT_OPTIONS, agent_options, count, ranged, require_values
from her_wrappers import EpisodeArchive
from her_wrappers.data.text import parse_file
from her_wrappers.goals.environments import absolute_name
from her_wrappers.replay.goal_selection import DEFAULT_SAMPLED_GOALS, ORIGINAL, GoalMixture, Mixture
from her_wrappers.support.arguments import removed_arguments, require_keys

REMOVED: dict[str, tuple[Container[Any], str]] = {
    "tensor_functions": ((False,), "functions get NumPy arrays, and batches are copied to the device"),
    "precision": (("float32", "bf16"), "call torch.set_float32_matmul_precision before the run"),
    "history_every": (range(1000), "copy best.pt or latest.pt in on_epoch of train()"),
}
"""Removed options: values that are ignored, since saved configs contain them, and advice for the error."""

FILE_OPTIONS = ("env", "algo", "termination", "goal_selection_strategy", "start_state")
"""Options whose value can be ``path/to/file.py:name``."""


@dataclass(frozen=True)
class Config:
    """All options of a run. On one machine, with the same packages, equal configs give equal agents.

    ``her train`` has an option for each field.

    Raises:
        TypeError: An option has a wrong type.
        ValueError: An option is out of range.
    """

    env: str
    """The goal environment: an id, module:id, module:Class, module:function or path/to/file.py:Class."""
    algo: str = None  # type: ignore[assignment] # chosen when the environment is known
    """The algorithm, such as dqn, sac or tqc; docs/training.md lists all. Or an agent of your own, as
    module:Class or path/to/file.py:Class. By default dqn for Discrete actions, else sac."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    her: bool = True
    """Whether to relabel goals."""
    goal_selection_strategy: str | dict[str, float] = "future"
    """How new goals are chosen: the name of a strategy; names and shares of several strategies, such as
    future 0.5 desired 0.3 original 0.2 (in a config file, a table of shares by name); or a function of
    HindsightReplayBuffer, given as module:function or path/to/file.py:function."""
    n_sampled_goal: int = DEFAULT_SAMPLED_GOALS
    """Number of relabeled transitions for each original transition. Omit this option if
    goal_selection_strategy has a share of original."""
    termination: str | None = None
    """How termination flags of relabeled transitions are set: recompute, success, keep or never, as in
    HindsightReplayBuffer; or by a function like compute_terminated, given as module:function or
    path/to/file.py:function. By default recompute if the environment has compute_terminated, else keep."""
    prioritized: bool = False
    """Whether transitions with larger TD errors are sampled more often."""
    num_envs: int = 16
    """Number of environments that are stepped together. A function that makes a simulator gets this number
    and the device if it has the parameters num_envs and device."""
    on_device: bool = False
    """Whether environments, replay buffer and agent exchange tensors on the device, as in a simulator. Set
    this option for environments whose vector form takes device=, such as those of her_envs; it is always True
    if env makes a GoalSimulator."""
    steps: int = None  # type: ignore[assignment] # chosen when the environment is known
    """Length of the run: steps of all environments together. By default 4,000 times the time limit of an
    episode, or 100,000 without a time limit; with a simulator, 200 times the time limit per environment."""
    max_episode_steps: int | None = None
    """Steps after which episodes are truncated; by default, only the environment ends episodes."""
    seed: int = count(0)
    """Seed of environments, buffer and agent."""
    gamma: float = ranged(0.98, "[0, 1]")
    """Discount per step."""
    n_steps: int = count(1, at_least=1, usual=(1, 20))
    """Number of rewards in an n-step return. Returns near the end of an episode have fewer rewards."""
    clip_targets: bool = None  # type: ignore[assignment] # chosen when the environment is known
    """Whether to clip targets to [-1 / (1 - gamma), 0], the range of returns if all rewards lie in [-1, 0].
    By default only if all rewards of a random episode are -1 or 0, and not for a real robot."""
    updates_per_step: float = ranged(None, "(0, inf)", (0.005, 20))
    """Number of updates of the agent for each step of one environment. By default 0.25; for simulators, 2
    updates for each step of all environments."""
    batch_size: int = count(128, at_least=1, usual=(16, 32_768))
    """Number of transitions in the batch of each update."""
    buffer_size: int = count(1_000_000, at_least=1, usual=(5_000, 1e12))
    """Capacity of the replay buffer in transitions. The capacity is reduced if the run has fewer steps,
    except with a simulator. There, each environment has an equal share of the capacity."""
    learning_starts: int = count(1_000, usual=(0, 100_000))
    """Steps before the first update, in which the untrained agent explores."""
    real: bool = False
    """Whether the environment moves a real robot. The run then makes only one instance of the environment,
    takes no random actions to check it, updates the agent in a thread while the robot moves, and saves all
    episodes even if the environment fails. num_envs must be 1; her train --real sets it to 1."""
    steps_per_epoch: int = None  # type: ignore[assignment] # chosen when the environment is known
    """Steps of an epoch, by default 4,000. At the end of an epoch, the unfinished episodes are played to
    their ends, and the agent is evaluated. With a simulator, unfinished episodes are truncated, and the
    default is four times the time limit of an episode per environment."""
    evaluation_episodes: int = 50
    """Number of episodes in each evaluation; with a simulator, at least one in each environment."""
    evaluate_every: int = count(None)
    """Epochs between evaluations; 0 for none. By default 1, and 0 for a real robot."""
    save_every: int = 1
    """Epochs between writes of latest.pt, the checkpoint for resuming."""
    info_keys: tuple[str, ...] = ()
    """Keys of the infos that compute_reward and compute_terminated read."""
    use_keys: tuple[str, ...] = ()
    """Further keys of the observations that the agent reads, such as that of a second camera."""
    critic_keys: tuple[str, ...] = ()
    """Further keys of the observations that only the critics read, such as a value that a simulator provides,
    but a robot cannot measure. The trained policy does not need these keys."""
    agent: dict[str, Any] = field(default_factory=dict)
    """Options of the algorithm by name, such as learning_rate."""
    workers: int = count(0)
    """Number of workers that collect episodes while the agent learns, each with num_envs environments. With
    0, the process of the learner collects the episodes between its updates."""
    fresh_envs: bool = False
    """Whether workers make new environments for each round; needed if reset does not restore the whole
    state of an environment."""
    deterministic: bool = True
    """Whether workers check that the same seed and actions give the same episode. Some simulators do not
    have this property; disable the check for them."""
    device: str = "cpu"
    """Torch device of the agent: cpu, cuda, or auto, which uses a GPU if it is likely to be faster."""
    updates_in_graph: str = "auto"
    """Whether updates run as CUDA graphs, which launch all operations of an update at once: always; never; or
    auto: on CUDA devices, unless the agent or a function waits for the device, which causes a warning."""
    threads: int = 1
    """Number of torch threads of the learner, the process that updates the agent. Two threads are faster for
    layers of 256 units or more if two cores are idle, and many times slower on a busy machine."""
    linear_schedule: bool = False
    """Whether learning rates decrease linearly and reach 0 at the end of the run; otherwise they are
    constant."""
    offline: str | None = None
    """Recorded episodes from which the agent learns without stepping the environment, except in evaluations:
    the folder of an archive or a LeRobot dataset, the file of a saved buffer, or the id of a Minari dataset.
    steps and steps_per_epoch then count updates."""

    demos: str | None = None
    """Demonstrations, which are never evicted and are relabeled like the other episodes: the folder of an
    archive or a LeRobot dataset, the file of a saved buffer, or the id of a Minari dataset. A policy is
    also accepted, module:function or path/to/file.py:function; its successful episodes are recorded when
    the run begins."""
    demo_episodes: int = 25
    """Number of successful episodes to record if demos is a policy."""
    demo_noise: float = ranged(0.1, "[0, inf)")
    """Noise on the actions of the policy in demos: the standard deviation, relative to half of the range of
    a Box action; for other action spaces, the probability of a random action."""
    demo_share: float = ranged(0.25, "(0, 1)", (0.02, 0.9))
    """Share of demonstrations in the batch of each update."""
    start_share: float = ranged(0.0, "[0, 1]")
    """Share of training episodes that begin in recorded states; not with workers or a simulator."""
    start_source: str = "curriculum"
    """Recorded states for start_share: curriculum, at first states near the ends of successful
    demonstrations, then earlier and earlier states as episodes succeed; demos, all states of demonstrations;
    or run, states of the run itself."""
    start_state: str = "state"
    """How episodes of start_share begin. A key of the observations or of info_keys: by reset with the options
    "state", the recorded value of the key, and "goal" if the state is from a demonstration. Or a function
    start(env, episode, t), given as module:function or path/to/file.py:function, which is called after a
    reset, sets state t of a recorded episode, and returns observation and info."""

    def __post_init__(self) -> None:
        require_values(self)
        # Absolute, since a run can be resumed from another working directory.
        for name in FILE_OPTIONS:
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, absolute_name(value))
        for name in ("offline", "demos"):
            path = getattr(self, name)
            if path is not None and Path(path).exists():
                object.__setattr__(self, name, str(Path(path).resolve()))
        object.__setattr__(self, "info_keys", require_keys("info_keys", self.info_keys))
        object.__setattr__(self, "use_keys", require_keys("use_keys", self.use_keys))
        object.__setattr__(self, "critic_keys", require_keys("critic_keys", self.critic_keys))
        if self.offline is None and self.algo == "iql":
            raise ValueError(
                "algo='iql' learns only from recorded episodes, got offline=None; pass offline=, for example "
                "the folder of an archive (`her train`: --offline FOLDER)"
            )
        if self.offline is not None and self.workers:
            raise ValueError(
                f"workers must be 0 in offline training (offline={self.offline!r}), got {self.workers}; omit "
                "workers=, or omit offline= to collect new episodes"
            )
        if self.offline is None and self.steps is not None and self.learning_starts >= self.steps:
            raise ValueError(
                f"learning_starts must be below steps={self.steps}, got {self.learning_starts}; with these "
                "values, the agent is never updated"
            )
        self._apply_real()
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, got {self.seed}")
        if self.fresh_envs and not self.workers:
            raise ValueError("fresh_envs=True needs workers, got workers=0; set workers to 1 or more")
        if self.updates_in_graph not in {"auto", "always", "never"}:
            raise ValueError(
                f"updates_in_graph must be 'auto', 'always' or 'never', got {self.updates_in_graph!r}"
            )
        # The module of the user's own agent is imported when the agent is made.
        if self.algo is not None and ":" not in self.algo:
            agent_options(self.algo, self.agent)
        self._require_goal_selection()
        self._require_starts()

    def _apply_real(self) -> None:
        """Choose options that depend on ``real``; raise ValueError for options that conflict with it."""
        if self.evaluate_every is None:
            object.__setattr__(self, "evaluate_every", int(not self.real))
        if not self.real:
            return
        if self.updates_in_graph == "auto":
            object.__setattr__(self, "updates_in_graph", "never")
        needed: dict[str, Any] = {
            "num_envs": 1, "workers": 0, "offline": None,
            "on_device": False, "start_share": 0.0, "updates_in_graph": "never",
        }  # fmt: skip
        for name, value in needed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"real=True needs {name}={value!r}, got {getattr(self, name)!r}; the process of "
                    "the run has one instance of the robot, and makes updates in a thread"
                )

    def _require_goal_selection(self) -> None:
        """Raise TypeError or ValueError for strategies and shares that are not valid."""
        chosen = self._goal_selection()
        strategy = chosen["goal_selection_strategy"]
        if isinstance(strategy, str) and ":" in strategy:
            return  # the module of a function is imported when the buffer is made
        GoalMixture(strategy, None)
        if chosen["n_sampled_goal"] is None and self.n_sampled_goal != DEFAULT_SAMPLED_GOALS:
            raise ValueError(
                f"n_sampled_goal must be left out if goal_selection_strategy has a share of {ORIGINAL!r}, "
                f"got n_sampled_goal={self.n_sampled_goal}"
            )

    def _require_starts(self) -> None:
        """Raise ValueError if the options of starts do not fit each other."""
        sources, given = ("curriculum", "demos", "run"), f"start_share={self.start_share}"
        if self.start_source not in sources:
            raise ValueError(f"start_source must be one of {sources}, got {self.start_source!r}")
        if self.start_share and (self.workers or self.offline):
            got = f"got workers={self.workers} and offline={self.offline!r}"
            raise ValueError(f"{given} needs workers=0 and offline=None, {got}; omit start_share")
        if self.start_share and self.start_source != "run" and self.demos is None:
            raise ValueError(f"{given} needs demonstrations, got None; pass demos=, or start_source='run'")

    def goal_options(self) -> dict[str, Any]:
        """Return the arguments of the replay buffer that determine how new goals are chosen."""
        return self._goal_selection() if self.her else {"n_sampled_goal": 0}

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name, as plain values that a JSON file can contain."""
        return asdict(self)

    def _goal_selection(self) -> dict[str, Any]:
        strategy = self.goal_selection_strategy
        if isinstance(strategy, str):
            return {"goal_selection_strategy": strategy, "n_sampled_goal": self.n_sampled_goal}
        # Sorted, since the order of the shares must not change the sampled goals.
        mixture = Mixture(dict(sorted(strategy.items())))
        n_sampled_goal = None if ORIGINAL in strategy else self.n_sampled_goal
        return {"goal_selection_strategy": mixture, "n_sampled_goal": n_sampled_goal}


_reject = removed_arguments("Config", {name: advice for name, (_, advice) in REMOVED.items()})
Config.__init__ = _reject(Config.__init__)  # type: ignore[method-assign]


def make_config(*sources: Mapping[str, Any]) -> Config:
    """Make a config from options by name; later sources override earlier ones.

    The ``agent`` dicts of several sources are merged, but if a source also has ``algo``, its ``agent``
    replaces the earlier dict. Likewise, the ``env_kwargs`` dicts are merged, but if a source also has
    ``env``, its ``env_kwargs`` replaces the earlier dict.
    If ``env`` is missing and ``offline`` is an archive, the environment of the archive is used.

    Args:
        *sources: Values of the fields of `Config`, by name.

    Raises:
        TypeError: An option has a wrong type, or was removed.
        ValueError: An option is unknown or out of range, or ``env`` is missing.
    """
    options = merge_options(*sources)
    for name in [name for name, (ignored, _) in REMOVED.items() if options.get(name) in ignored]:
        options.pop(name)
    known = [each.name for each in fields(Config)]
    for name in options.keys() - {*known, *REMOVED}:
        raise ValueError(f"unknown option {name!r}; choose from {', '.join(map(repr, known))}")
    if "env" not in options:
        raise ValueError("the option 'env' is missing; make_config() needs it")
    return Config(**options)


def with_defaults(options: Mapping[str, Any]) -> dict[str, tuple[Any, Any, tuple[float, float] | None]]:
    """Return value, default and usual range of each option of a run whose config contains ``options``.

    Options of the agent have names such as ``"agent.tau"``; those of an agent of your own are left out.
    """
    tables: list[tuple[str, Any, Any]] = [("", Config, options)]
    if (agent := AGENT_OPTIONS.get(options.get("algo", ""))) is not None:
        tables.append(("agent.", agent, options.get("agent", {})))
    return {
        prefix + each.name: (values.get(each.name, each.default), each.default, each.metadata.get("usual"))
        for prefix, kind, values in tables
        for each in fields(kind)
    }


def merge_options(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options of several sources into one dict, as `make_config` does, without validation."""
    options: dict[str, Any] = {}
    for source in sources:
        tables = {}
        for name, owner in (("agent", "algo"), ("env_kwargs", "env")):
            old, new = options.get(name), source.get(name)
            if owner not in source and isinstance(old, Mapping) and isinstance(new, Mapping):
                tables[name] = {**old, **new}
        options |= {**source, **tables}
    for name in ("env", "algo"):
        if not isinstance(options.get(name), str | None):
            raise TypeError(f"{name} must be of type str, got {options[name]!r}")
    if "env" not in options and isinstance(folder := options.get("offline"), str) and Path(folder).is_dir():
        recorded = EpisodeArchive(folder).source
        if recorded is not None and recorded.env_id is not None:
            options |= {"env": recorded.env_id, "env_kwargs": recorded.kwargs}
    return options


def read_options(path: Path) -> dict[str, Any]:
    """Read options by name from a TOML or JSON file; `make_config` validates them."""
    read = {".toml": tomllib.loads, ".json": json.loads}.get(path.suffix)
    if read is None:
        raise ValueError(f"the config file must have the suffix .toml or .json, got {str(path)!r}")
    try:
        return parse_file(path, lambda text: {**read(text)}, "a table of options")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
