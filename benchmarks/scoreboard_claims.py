"""Features of each library, with quotations from its documentation, and reasons for absent features."""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """A quotation from the documentation of a library, which claims features.

    Attributes:
        offers: Keys of ``OFFERS`` that the sentence claims.
        quote: Part of the docstring, in which all white space is replaced by single spaces.
        source: Object whose docstring is quoted, as ``module:name``.
    """

    offers: tuple[str, ...]
    quote: str
    source: str


IN_EPISODE = ("future", "final", "episode")

SB3_BUFFER = "stable_baselines3:HerReplayBuffer"
CPPRB_BUFFER = "cpprb:HindsightReplayBuffer"
TIANSHOU_BUFFER = "tianshou.data:HERReplayBuffer"
TORCHRL_BUFFER = "torchrl.data:HERReplayBuffer"

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "sb3:StableBaselines3": (
        Claim(IN_EPISODE, "One of ['episode', 'final', 'future']", SB3_BUFFER),
        Claim(("several environments",), "Number of parallel environments", SB3_BUFFER),
        Claim(
            ("infos",),
            "Whether to copy the info dictionary and pass it to ``compute_reward()`` method.",
            SB3_BUFFER,
        ),
        Claim(
            ("end episode",),
            "we assume that the last trajectory in the replay buffer was finished (and truncate it)",
            f"{SB3_BUFFER}.truncate_last_trajectory",
        ),
        Claim(
            ("images", "discrete"),
            "Extends the ReplayBuffer to use dictionary observations",
            "stable_baselines3.common.buffers:DictReplayBuffer",
        ),
        Claim(
            ("save",),
            "Save the replay buffer as a pickle file.",
            "stable_baselines3.common.off_policy_algorithm:OffPolicyAlgorithm.save_replay_buffer",
        ),
    ),
    "cpprb:Cpprb": (
        Claim(
            ("future",),
            '``"future"`` selects one of the future states in the same episode.',
            f"{CPPRB_BUFFER}.__init__",
        ),
        Claim(("episode",), '``"episode"`` selects states in the same episode.', f"{CPPRB_BUFFER}.__init__"),
        Claim(
            ("random",),
            '``"random"`` selects from the all states in replay buffer.',
            f"{CPPRB_BUFFER}.__init__",
        ),
        Claim(
            ("end episode",),
            "Terminate the current episode and set hindsight goal",
            f"{CPPRB_BUFFER}.on_episode_end",
        ),
        Claim(
            ("priorities",),
            "Whether use Prioritized Experience Replay. The default is ``True``.",
            f"{CPPRB_BUFFER}.__init__",
        ),
    ),
    "tianshou:Tianshou": (
        Claim(("future",), "Currently support only HER's future strategy, online sampling.", TIANSHOU_BUFFER),
        Claim(
            ("several environments",),
            "It is used for storing transition from different environments yet keeping the order of time.",
            "tianshou.data:HERVectorReplayBuffer",
        ),
        Claim(
            ("images", "discrete"),
            "The two arguments are of shape (batch_size, ...original_shape)",
            TIANSHOU_BUFFER,
        ),
        Claim(("save",), "Save replay buffer to HDF5 file.", "tianshou.data:ReplayBuffer.save_hdf5"),
    ),
    "torchrl:TorchRL": (
        Claim(
            (*IN_EPISODE, "random"),
            'one of ``"future"``, ``"final"``, ``"episode"``, ``"random"``.',
            TORCHRL_BUFFER,
        ),
        Claim(
            ("infos", "images", "discrete"),
            "receives a tensordict containing the *relabeled* transition",
            TORCHRL_BUFFER,
        ),
        Claim(
            ("save",),
            "Saves the replay buffer on disk at the specified path.",
            "torchrl.data:ReplayBuffer.dumps",
        ),
    ),
}
"""Quotations by adapter; a test in ``benchmarks/peers`` looks them up in the installed libraries."""

OF_THE_INTERFACE = ("changing goals", "recorded rewards")
"""Features that need no quotation, since a buffer has them if it stores desired goals and rewards."""

NO_GENERATOR = "random numbers come from a global generator, which the buffer neither seeds nor saves"
NO_OPTION = "the class documents no such option"

NOT_OFFERED: dict[str, dict[tuple[str, ...], str]] = {
    "sb3:StableBaselines3": {
        ("random", "geometric"): "not in the documented list of strategies",
        ("seed", "save generator"): NO_GENERATOR,
        ("n-step", "priorities"): NO_OPTION,
    },
    "cpprb:Cpprb": {
        ("geometric",): "not in the documented list of strategies",
        ("final",): '“For ``"final"`` strategy, ``additional_goals`` is ignored”: the share is one half',
        ("changing goals",): "`on_episode_end` takes one goal, the “original goal state of this episode”",
        ("recorded rewards", "infos"): "`reward_func` computes all rewards from next state, action and goal",
        ("images", "discrete"): "goals are parts of the state array of the adapter",
        ("several environments",): "the buffer has one open episode",
        ("seed", "save generator"): "the generator of the goals has no seed, and the buffer cannot be saved",
        ("save",): "the class has no method for it",
        ("n-step",): "the class documents no such option; it passes undocumented arguments to `ReplayBuffer`",
    },
    "tianshou:Tianshou": {
        ("final", "episode", "random", "geometric"): "only the strategy future is supported",
        ("infos",): "`compute_reward_fn` “takes 2 `np.array` arguments”",
        ("end episode",): "the class documents no method for it",
        ("seed", "save generator"): "goals come from the global generator of NumPy",
        ("n-step", "priorities"): NO_OPTION,
    },
    "torchrl:TorchRL": {
        ("geometric",): "not in the documented list of strategies",
        ("several environments",): "“Episode-boundary detection currently assumes a 1D storage.”",
        ("end episode",): "the class documents no method for it",
        ("seed", "save generator"): NO_GENERATOR,
        ("n-step",): NO_OPTION,
        ("priorities",): "`PrioritizedSampler` raises an error with the pinned version of torch",
    },
}
"""Features that each library does not offer, with the reason, by adapter."""


def offers_of(adapter: str) -> frozenset[str]:
    """Return the keys of ``OFFERS`` that a library offers: with a quotation, or in `OF_THE_INTERFACE`."""
    quoted = {offer for claim in CLAIMS[adapter] for offer in claim.offers}
    return frozenset(quoted | set(OF_THE_INTERFACE).difference(*NOT_OFFERED[adapter]))
