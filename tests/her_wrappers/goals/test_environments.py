"""Environments by name: ids, classes, functions and files, and errors that list the available names."""

import re
import sys

import gymnasium as gym
import pytest

from her_wrappers.goals.environments import BrokenModuleError, make_env, make_vector_env

ARM = """
import gymnasium as gym
from her_envs import PointReach, TaskEnv
import arm_parts

class ArmReach(TaskEnv):
    def __init__(self, **options):
        super().__init__(PointReach(), **options)

class Tool:
    pass

class Task(PointReach):
    pass

def make_task():
    return Task()

def make_arm(**options):
    return ArmReach(**options)

def make_nothing():
    return 3

gym.register("her-test/ArmReach-v1", ArmReach)
"""


@pytest.fixture(autouse=True)
def arm(tmp_path, monkeypatch):
    registry, modules = dict(gym.registry), set(sys.modules)
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path, tmp_path / "inner"):
        (folder / "arm2.py").write_text(ARM)
        (folder / "arm_parts.py").write_text("")
    monkeypatch.chdir(tmp_path)
    yield
    gym.registry.clear()
    gym.registry.update(registry)
    for name in set(sys.modules) - modules:
        if "arm" in name:
            del sys.modules[name]


NAMES = [
    "arm2:her-test/ArmReach-v1",
    "arm2:ArmReach",
    "arm2:make_arm",
    "arm2.py:ArmReach",
    "inner/arm2.py:make_arm",
    "inner/arm2.py:her-test/ArmReach-v1",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_form_of_a_name_makes_the_environment(name):
    env = make_env(name, max_steps=7)
    assert type(env.unwrapped).__name__ == "ArmReach"
    assert env.unwrapped.max_steps == 7
    envs = make_vector_env(name, 3, max_steps=7)
    assert envs.reset(seed=0)[0]["observation"].shape == (3, 2)


def test_a_file_is_imported_once():
    assert type(make_env("arm2.py:ArmReach")) is type(make_env("inner/../arm2.py:ArmReach"))


MISTAKES = [
    ("arm2:Other", "it has arm2:her-test/ArmReach-v1, arm2:ArmReach"),
    ("arm2:Tool", "arm2:Tool must be a registered id, a subclass of gymnasium.Env, or a function that"),
    ("arm2:make_nothing", "arm2:make_nothing must make a single gymnasium.Env, got int"),
    ("arm2:ArmReach", "unexpected keyword argument 'wrong'"),
    ("no/Such-v0", "cannot make no/Such-v0"),
    ("arm2.py", "followed by the name of an environment, as in path/to/file.py:Class; it has arm2.py:"),
    ("none.py", "there is no file none.py"),
    ("arm2:make_task", "must make a single gymnasium.Env, got Task"),
    ("FetchNothing-v4", "belongs to the package gymnasium_robotics"),
]


@pytest.mark.parametrize(("name", "message"), MISTAKES)
def test_an_error_lists_the_existing_environments(name, message):
    options = {"wrong": 1} if name == "arm2:ArmReach" else {}
    with pytest.raises(ValueError, match=re.escape(message)):
        make_env(name, **options)


def test_an_error_of_the_module_is_shown_with_its_line(tmp_path):
    (tmp_path / "arm4.py").write_text("import nothing_such")
    message = r"ModuleNotFoundError: No module named 'nothing_such'; raised in arm4\.py, line 1"
    with pytest.raises(BrokenModuleError, match=f"cannot import arm4: {message}"):
        make_env("arm4:X")
    with pytest.raises(BrokenModuleError, match=rf"cannot import arm4\.py: {message}"):
        make_env("arm4.py:X")
