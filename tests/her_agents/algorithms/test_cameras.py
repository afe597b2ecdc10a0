"""Observations of several vectors and images, random shifts of images, and keys that only critics read."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from her_agents.algorithms.iql import IQL
from her_agents.algorithms.networks import GoalInputs
from her_agents.algorithms.registry import ALGORITHMS
from her_wrappers.data.trees import map_tree
from tests.support.cameras import CameraMoves, CameraReach, TupleMoves, TupleReach, batch_from, image_space
from tests.support.short_runs import same
from tests.support.specimens.reach import SQUARE, goal_dict

WITH_ACTOR = [algo for algo in ALGORITHMS if algo != "dqn"]


BATCHES = {kind: batch_from(kind()) for kind in (CameraReach, TupleReach, CameraMoves, TupleMoves)}


def make(kind, algo="sac", **options):
    env = kind()
    options = {"hidden": (8,), "seed": 0} | options
    return ALGORITHMS[algo](env.observation_space, env.action_space, **options)


def outputs(agent, observations):
    """Return the output of the network that acts, and of a critic, if there is one."""
    inputs = agent.inputs(observations)
    acting = getattr(agent, agent._acting_network)(inputs)
    if not hasattr(agent, "critics"):
        return acting, acting
    return acting, agent.critics(inputs, torch.zeros(len(acting), 2))


def changed_by(agent, observations, key, part=None):
    """Return whether the acting network and the critics read a part of the observations."""
    other = map_tree(np.copy, observations)
    leaf = other[key] if part is None else other[key][part]
    leaf[...] = leaf // 2 + 1
    pairs = zip(outputs(agent, observations), outputs(agent, other), strict=True)
    return tuple(not torch.equal(before, after) for before, after in pairs)


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("kinds", [(CameraReach, CameraMoves), (TupleReach, TupleMoves)])
def test_agents_learn_from_vectors_and_images_of_several_sizes(algo, kinds):
    kind = kinds[algo == "dqn"]
    agent, batch = make(kind, algo, use_keys=["wrist"]), BATCHES[kind]
    before = [each.clone() for each in getattr(agent, agent._acting_network).parameters()]
    losses = agent.update(batch)
    assert all(torch.isfinite(loss) for loss in losses.values())
    after = getattr(agent, agent._acting_network).parameters()
    if algo not in {"td3"}:  # whose actor is updated every second time
        assert not any(torch.equal(*pair) for pair in zip(before, after, strict=True)), "all encoders learn"
    parts = [0, 1] if kind in {TupleReach, TupleMoves} else ["joints", "camera"]
    for key, part in [*(("observation", part) for part in parts), ("wrist", None), ("desired_goal", None)]:
        assert changed_by(agent, batch.observations, key, part) == (True, True), (key, part)
    assert changed_by(agent, batch.observations, "exact") == (False, False)


@pytest.mark.parametrize("kind", [CameraReach, TupleReach])
def test_acts_on_one_observation_on_many_and_on_tensors(kind):
    agent, observations = make(kind, "ddpg", use_keys=["wrist"]), BATCHES[kind].observations
    actions = agent.act(observations)
    assert actions.shape == (16, 2)
    one = agent.act(map_tree(lambda rows: rows[3], observations))
    np.testing.assert_allclose(one, actions[3], rtol=1e-4, atol=1e-5)
    tensors = map_tree(torch.from_numpy, observations)
    with torch.no_grad():
        assert np.array_equal(agent.choose(agent.inputs(tensors), explore=False), actions)


def test_an_image_of_the_goal_is_stacked_on_the_image_of_the_observation_of_the_same_size():
    def shapes(observation, goal, **more):
        return GoalInputs(goal_dict(goal, observation, **more), keys=["observation", *more, "desired_goal"])

    same_size, other = image_space(24, 22, 3), image_space(24, 20, 3)
    assert shapes(same_size, same_size).image_shapes == [(6, 24, 22)]
    assert shapes(same_size, other).image_shapes == [(3, 24, 22), (3, 24, 20)]
    cameras = spaces.Dict(left=same_size, right=same_size)
    assert shapes(cameras, cameras).image_shapes == [(6, 24, 22), (6, 24, 22)]
    assert shapes(cameras, same_size).image_shapes == [(3, 24, 22)] * 3
    assert shapes(SQUARE, same_size, wrist=same_size).image_shapes == [(3, 24, 22)] * 2


def test_random_shifts_are_crops_of_the_padded_image_that_the_seed_determines():
    space = goal_dict(SQUARE, image_space(20, 24, 2))
    space.seed(0)
    image = space.sample()["observation"]
    rows = {"observation": np.stack([image] * 200), "desired_goal": np.zeros((200, 2), np.float32)}

    def shifted(seed):
        generator = torch.Generator().manual_seed(seed)
        return GoalInputs(space, random_shift=2, generator=generator)(rows, shift=True).images[0]

    padded = np.pad(image.transpose(2, 0, 1), ((0, 0), (2, 2), (2, 2)), mode="edge") / np.float32(127.5) - 1
    crops = [padded[:, y : y + 20, x : x + 24] for y in range(5) for x in range(5)]
    found = {
        next(i for i, crop in enumerate(crops) if np.allclose(crop, each, atol=1e-6)) for each in shifted(0)
    }
    assert found == set(range(25)), "all shifts in both directions occur"
    assert torch.equal(shifted(0), shifted(0))
    assert not torch.equal(shifted(0), shifted(1))
    unchanged = GoalInputs(space, random_shift=2)(rows).images[0]
    assert torch.equal(unchanged[0], unchanged[1]), "for actions, images are not shifted"


@pytest.mark.parametrize("algo", ["dqn", "iql"])
def test_agents_shift_the_images_of_batches_only_if_asked(algo):
    kind = CameraMoves if algo == "dqn" else CameraReach

    def updated(**options):
        agent = make(kind, algo, **options)
        policy_batch = [BATCHES[kind]] if algo == "iql" else []
        agent.update(BATCHES[kind], *policy_batch)
        return agent.state_dict()

    first = updated(random_shift=3)
    assert same(first, updated(random_shift=3))
    assert not same(first, updated())
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(updated()["generator"], generator.get_state()), "no random number is drawn by default"


@pytest.mark.parametrize("algo", WITH_ACTOR)
@pytest.mark.parametrize("critic_keys", [["exact"], ["wrist", "exact"]])
def test_only_critics_read_their_keys(algo, critic_keys):
    agent, batch = make(CameraReach, algo, critic_keys=critic_keys), BATCHES[CameraReach]
    agent.update(batch)
    for key in critic_keys:
        assert changed_by(agent, batch.observations, key) == (False, True)
    kept = {key: part for key, part in batch.observations.items() if key not in critic_keys}
    assert np.array_equal(agent.act(kept), agent.act(batch.observations))
    with pytest.raises(ValueError, match="critic_keys"):
        outputs(agent, kept)
    again = make(CameraReach, algo, critic_keys=critic_keys, seed=1)
    again.load_state_dict(agent.state_dict())
    assert same(again.state_dict(), agent.state_dict())
    pairs = zip(outputs(again, batch.observations), outputs(agent, batch.observations), strict=True)
    assert all(torch.equal(*pair) for pair in pairs), "the statistics of the critics' keys are restored"


def test_the_state_value_of_iql_reads_the_keys_of_critics():
    class Own(IQL):  # an own network needs the parameter is_critic only with critic_keys
        def make_network(self, num_outputs, num_actions=0):
            return super().make_network(num_outputs, num_actions)

    agent, observations = make(CameraReach, "iql", critic_keys=["exact"]), BATCHES[CameraReach].observations
    other = observations | {"exact": observations["exact"] + 1}
    values = [agent.value(agent.inputs(each)) for each in (observations, other)]
    assert not torch.equal(*values)
    Own(CameraReach().observation_space, CameraReach().action_space, hidden=(8,))


def test_dqn_has_no_critic_of_its_own():
    with pytest.raises(TypeError, match=r"critic_keys must be empty for dqn.*got \('exact',\)"):
        make(CameraMoves, "dqn", critic_keys=["exact"])


def test_errors_name_the_key_and_the_fix():
    with pytest.raises(ValueError, match=r"reads 'elbow' .* has only .*'wrist'.* correct use_keys"):
        make(CameraReach, use_keys=["elbow"])
    with pytest.raises(TypeError, match="critic_keys must be a list of strings, got the string 'exact'"):
        make(CameraReach, critic_keys="exact")
    agent, seen = make(CameraReach, use_keys=["wrist"]), CameraReach().reset(seed=0)[0]
    with pytest.raises(ValueError, match=r"must have the keys 'observation', .* lacks 'wrist'"):
        agent.act({key: seen[key] for key in ("observation", "desired_goal")})
    with pytest.raises(ValueError, match="must have 'observation/camera'"):
        agent.act(seen | {"observation": {"joints": seen["observation"]["joints"]}})


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (spaces.Discrete(3), r"'observation/grip' must be a vector .*Discrete\(3\); .*ObservationWrapper"),
        (SQUARE.__class__(-1, 1, (4, 4)), "'observation/grip' must be a vector"),
        (image_space(9, 30, 3), "images of 'observation/grip' must have at least 20 x 20 pixels"),
        (spaces.Box(0, 255, (24, 24, 3), np.float32), "'observation/grip' must be a vector .*uint8 Box"),
        (spaces.Text(5), "'observation/grip' must contain arrays of a fixed shape"),
    ],
)
def test_other_parts_of_an_observation_raise_an_error(part, message):
    observation = spaces.Dict(camera=image_space(24, 24, 3), grip=part)
    with pytest.raises(TypeError, match=message):
        GoalInputs(goal_dict(SQUARE, observation))


def test_only_observations_without_images_are_flattened_by_a_wrapper():
    observation = spaces.Dict(joints=SQUARE, grip=spaces.Discrete(3))
    with pytest.raises(TypeError, match=r"'observation/grip' .*FlattenGoalObservation"):
        GoalInputs(goal_dict(SQUARE, observation))
    with pytest.raises(TypeError, match=r"'grip' .*ObservationWrapper"):  # the wrapper removes other keys
        GoalInputs(goal_dict(SQUARE, grip=spaces.Discrete(3)), keys=["observation", "grip", "desired_goal"])
