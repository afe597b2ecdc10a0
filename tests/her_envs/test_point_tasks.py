"""PointPush: its rules."""

import numpy as np

from her_envs import PointPush, TaskVectorEnv
from her_envs.point_push import AGENT_RADIUS, PUCK_RADIUS, RAIL

CONTACT = AGENT_RADIUS + PUCK_RADIUS


def test_agent_and_puck_never_overlap_and_the_puck_stays_inside_the_rail():
    env = TaskVectorEnv(PointPush(), 500)
    rng = np.random.default_rng(0)
    observations, _ = env.reset(seed=0)
    touched = np.zeros(500, bool)
    for _ in range(100):
        agent, puck = np.split(observations["observation"].astype(float), 2, axis=1)
        distance = np.hypot(*(agent - puck).T)
        assert (distance >= CONTACT - 1e-6).all()
        assert ((puck >= RAIL - 1e-6) & (puck <= 1 - RAIL + 1e-6)).all()
        assert ((agent >= 0) & (agent <= 1)).all()
        touched |= distance < CONTACT + 1e-4
        # The agents move towards the puck from all sides, and into all corners.
        noise = rng.normal(scale=0.5, size=agent.shape)
        observations, *_ = env.step(np.sign(puck - agent) * rng.random((500, 1)) + noise)
    assert touched.all()


def test_puck_moves_only_if_touched_and_away_from_the_agent():
    env = TaskVectorEnv(PointPush(), 500)
    rng = np.random.default_rng(1)
    before, _ = env.reset(seed=1)
    for _ in range(50):
        agent, puck = np.split(before["observation"], 2, axis=1)
        after, *_ = env.step(np.sign(puck - agent) + rng.normal(scale=0.7, size=agent.shape))
        moved = (after["achieved_goal"] != before["achieved_goal"]).any(1)
        reach = np.hypot(*(agent - puck).T) <= CONTACT + 0.0708
        assert not (moved & ~reach).any()
        push = (after["achieved_goal"] - before["achieved_goal"]) * (puck - after["observation"][:, :2])
        assert (push.sum(1)[moved] > 0).all()
        before = after


def test_agent_at_rest_does_not_move_a_touching_puck():
    env = TaskVectorEnv(PointPush(), 400)
    angles = np.linspace(0, 2 * np.pi, 400)
    beside = 0.5 + 0.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    env.reset(options={"goal": [0.8, 0.8], "state": {"agent": beside, "puck": [0.5, 0.5]}})
    pushed, *_ = env.step((0.5 - beside) / 0.1)
    assert (pushed["achieved_goal"] != 0.5).any(axis=1).all()
    for _ in range(20):
        later, *_ = env.step(np.zeros((400, 2)))
        np.testing.assert_array_equal(later["achieved_goal"], pushed["achieved_goal"])
