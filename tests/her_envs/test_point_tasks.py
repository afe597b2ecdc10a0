"""PointMaze and PointPush: their rules; a policy solves them, random actions do not."""

import numpy as np
import pytest

from her_envs import PointMaze, PointPush, TaskEnv, TaskVectorEnv
from her_envs.floor_plan import LAYOUTS
from her_envs.point_push import AGENT_RADIUS, PUCK_RADIUS, RAIL

CONTACT = AGENT_RADIUS + PUCK_RADIUS


def grid_distances(free, goal):
    """Return the number of grid steps from each cell to the goal's cell."""
    steps = np.where(free, np.inf, -1.0)
    ring = [goal]
    for count in range(free.size):
        for row, column in ring:
            steps[row, column] = count
        around = {(r + a, c + b) for r, c in ring for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))}
        rows, columns = free.shape
        ring = [(r, c) for r, c in around if 0 <= r < rows and 0 <= c < columns and np.isinf(steps[r, c])]
    return steps


def maze_policy(task, steps, observation):
    """Return the action of a policy that follows a shortest path of cells, given the `grid_distances`."""
    position, goal = observation["achieved_goal"], observation["desired_goal"]
    row, column = np.floor(position[::-1]).astype(int)
    target = goal
    if steps[row, column] > 0:
        padded = np.pad(np.where(steps < 0, np.inf, steps), 1, constant_values=np.inf)
        around = [(row + a, column + b) for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        nearer = min(around, key=lambda cell: padded[cell[0] + 1, cell[1] + 1])
        target = np.array(nearer[::-1]) + 0.5
        # First move to the center line of the path, so that the point does not touch a corner.
        across = 0 if nearer[1] == column else 1
        middle = np.array([column, row]) + 0.5
        if abs(position[across] - middle[across]) > 0.3:
            target = middle
    return np.clip((target - position) / task._step_size, -1, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_can_be_solved_within_max_steps(layout):
    env = TaskEnv(PointMaze(layout=layout))
    for seed in range(15):
        observation, _ = env.reset(seed=seed)
        cell = tuple(np.floor(observation["desired_goal"][::-1]).astype(int))
        steps = grid_distances(env.task._plan.free, cell)
        truncated = False
        while not truncated:
            observation, _, _, truncated, info = env.step(maze_policy(env.task, steps, observation))
        assert info["is_success"]


def push_policy(observation):
    """Return the action of a policy that moves behind the puck, and pushes it to the goal."""
    agent, puck = np.split(observation["observation"].astype(float), 2)
    goal = observation["desired_goal"]
    push = (goal - puck) / max(np.hypot(*(goal - puck)), 1e-9)
    to_puck = (puck - agent) / np.hypot(*(puck - agent))
    if np.hypot(*(goal - puck)) < 0.03:
        way = np.zeros(2)
    elif to_puck @ push > 0.97:
        sideways = (puck - agent) - (puck - agent) @ push * push
        way = goal - push * CONTACT - agent + 2 * sideways
    else:
        way = puck - push * (CONTACT + 0.03) - agent
        if np.hypot(*(puck - agent)) < CONTACT + 0.08 and way @ to_puck > 0:
            # Move around the puck, on the shorter side.
            way -= way @ to_puck * to_puck
            tangent = np.array([-to_puck[1], to_puck[0]])
            way = 0.05 * np.sign(way @ tangent or 1.0) * tangent - 0.01 * to_puck
    return np.clip(way / 0.05, -1, 1)


def test_puck_can_be_pushed_to_its_goal():
    env = TaskEnv(PointPush())
    successes = []
    for seed in range(60):
        observation, _ = env.reset(seed=seed)
        truncated = False
        while not truncated:
            observation, _, _, truncated, info = env.step(push_policy(observation))
        successes.append(info["is_success"])
    assert np.mean(successes) >= 0.95


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
