"""A simulated robot: it moves in real time in its own process, loses readings of its sensor, and fails."""

import multiprocessing
import signal
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces

TICK = 0.002  # seconds of a step of the physics
SPEED = 0.2  # largest movement in a step
RADIUS = 0.2


def _move(pipe, speed):
    """Move a point with the latest velocity, and answer each message with its position."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    position, velocity, latest = np.zeros(2), np.zeros(2), time.perf_counter()
    while True:
        waits = not pipe.poll(TICK)
        now = time.perf_counter()
        position, latest = np.clip(position + (now - latest) * speed * velocity, -1, 1), now
        if waits:
            continue
        name, value = pipe.recv()
        if name == "stop":
            pipe.send("stopped")
            return
        if name == "hang":
            time.sleep(value)
        if name == "reset":
            position, velocity = value, np.zeros(2)
        if name == "move":
            velocity = value
        pipe.send(position.copy())


class Robot(gym.Env):
    """Reach a goal in a square; ``faults`` are the failures by the number of the step (of all episodes).

    ``"raise"`` raises ConnectionError, ``"kill"`` ends the process of the robot, and a number of seconds is a
    pause. In every tenth step on average, the sensor returns its latest reading again.
    """

    instances = 0

    def __init__(self, hz=100, max_steps=10, faults=(), intervened=()):
        type(self).instances += 1
        self.steps, self.resets, self.is_stopped = 0, 0, False
        self.executed = []  # the actions of a person
        self._period, self._max_steps = 1 / hz, max_steps
        self._faults, self._intervened = dict(faults), intervened
        box = spaces.Box(-1, 1, (2,), np.float64)
        self.observation_space = spaces.Dict(observation=box, achieved_goal=box, desired_goal=box)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_move, args=(theirs, SPEED * hz), daemon=True)
        self.process.start()
        theirs.close()

    def _ask(self, name, value):
        self._pipe.send((name, value))
        return self._pipe.recv()

    def _observe(self):
        return {"observation": self._position, "achieved_goal": self._position, "desired_goal": self._goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        self._goal, start = self.np_random.uniform(-1, 1, (2, 2))
        self._position, self.time = self._ask("reset", start), 0
        self._next = time.perf_counter()
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        self.time += 1
        fault = self._faults.get(self.steps)
        if fault == "raise":
            raise ConnectionError("the robot does not answer")
        if fault == "kill":
            self.process.terminate()
            self.process.join()
        elif fault is not None:
            self._ask("hang", fault)
        info = {}
        if self.steps in self._intervened:
            action = np.clip(self._goal - self._position, -1, 1).astype(np.float32)
            info["intervene_action"] = action
            self.executed.append(action)
        self._ask("move", action)
        self._next = max(self._next + self._period, time.perf_counter())
        time.sleep(max(0.0, self._next - time.perf_counter()))
        reading = self._ask("read", None)
        if self.np_random.random() > 0.1:
            self._position = reading
        info["is_success"] = bool(self._distance(self._position, self._goal) < RADIUS)
        reward = float(info["is_success"]) - 1
        return self._observe(), reward, False, self.time == self._max_steps, info

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (self._distance(achieved_goal, desired_goal) < RADIUS) - 1.0

    @staticmethod
    def _distance(a, b):
        return np.linalg.norm(a - b, axis=-1)

    def close(self):
        if self.process.is_alive() and not self.is_stopped:
            self.is_stopped = self._ask("stop", None) == "stopped"
            self.process.join()
