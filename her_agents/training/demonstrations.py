"""Demonstrations of a run: existing recordings, or episodes that a policy plays when the run begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from her_agents.training.evaluation import play_episode
from her_agents.training.starts import START
from her_wrappers import Demonstrations, EpisodeRecorder
from her_wrappers.goals.environments import BrokenModuleError, import_callable
from her_wrappers.goals.real_robot import INTERVENED
from her_wrappers.integrations.recordings import open_episodes
from her_wrappers.support.policies import add_noise, choose_action

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_agents.training.config import Config
    from her_wrappers import Episode

ATTEMPTS = 10  # largest number of episodes to play for each successful episode to record


def read_demonstrations(config: Config, env: Any, info_keys: Sequence[str]) -> Demonstrations | None:
    """Return the demonstrations that ``config.demos`` names, or None; a policy plays them in ``env``."""
    name = config.demos
    if name is None:
        return None
    try:
        if ":" in name and not Path(name).exists():
            policy = import_callable(name, "demos")
            rng = np.random.default_rng((config.seed, 1))
            count, noise = config.demo_episodes, config.demo_noise
            keys = [key for key in info_keys if key != START]  # of the environment
            episodes = record_successes(env, policy, count=count, noise=noise, rng=rng, info_keys=keys)
        else:
            episodes = list(open_episodes(name))
        # The buffer needs the same infos of all episodes, also those that only runs record.
        added = {key: value for key, value in ((START, -1), (INTERVENED, False)) if key in info_keys}
        for number, each in enumerate(episodes):
            columns = {key: np.full(len(each), value) for key, value in added.items()}
            episodes[number] = replace(each, infos=columns | dict(each.infos))
        return Demonstrations(episodes, config.demo_share)
    except (BrokenModuleError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"demos={name!r} cannot be used: {error}") from error


def record_successes(
    env: Any,
    policy: Callable[[Any], Any],
    *,
    count: int,
    noise: float,
    rng: np.random.Generator,
    info_keys: Sequence[str] = (),
) -> list[Episode]:
    """Play episodes with a policy, and return the first ``count`` episodes that succeed at their last step.

    Args:
        env: The environment.
        policy: ``policy(observation) -> action``. If the policy has a method ``reset``, this method is called
            before each episode.
        count: Number of successful episodes to record.
        noise: Standard deviation of the noise on Box actions, relative to half of their range; for other
            action spaces, the probability of a random action. See `her_wrappers.support.policies.add_noise`.
        rng: Random generator of the noise and of the seeds of the episodes.
        info_keys: Keys of the infos to record.

    Raises:
        ValueError: ``ATTEMPTS * count`` episodes had fewer than ``count`` successes, or an info has no
            success flag.
    """
    episodes: list[Episode] = []
    attempts = 0
    recorder = EpisodeRecorder(env, episodes.append, info_keys=info_keys)

    def act(observation: Any) -> Any:
        action = choose_action(policy, observation, env.action_space)
        return add_noise(action, env.action_space, noise, rng)

    while len(episodes) < count:
        if attempts == ATTEMPTS * count:
            raise ValueError(
                f"the policy must succeed in at least {1 / ATTEMPTS:.0%} of the episodes, got "
                f"{len(episodes)} successes in {attempts} episodes; lower demo_noise, or improve the policy"
            )
        attempts += 1
        getattr(policy, "reset", lambda: None)()
        if not play_episode(recorder, act, int(rng.integers(2**31))).success:
            episodes.pop()
    return episodes
