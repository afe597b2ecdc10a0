"""Make environments by name: a registered id, or a class or function in a module or file."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import gymnasium as gym

from her_wrappers.data.atomic import open_regular
from her_wrappers.goals.episode_limit import limit_episodes
from her_wrappers.support.error_texts import describe, raised_at

EnvFactory: TypeAlias = Callable[..., Any]
"""Function that returns an environment, called with the options as keyword arguments."""

PACKAGES = {
    "gymnasium_robotics": ("Fetch|Hand|AntMaze|PointMaze_", 'pip install "her-toolkit[fetch]"'),
    "panda_gym": ("Panda", "pip install panda-gym"),
    "highway_env": ("parking-", "pip install highway-env"),
}
"""For each package of goal environments: a pattern for the beginning of its ids, and how to install it."""

FORMS = "an id, module:id, module:Class, module:function or path/to/file.py:Class"


class BrokenModuleError(RuntimeError):
    """The code of a module or an environment raised an error."""


class EnvNameError(ValueError):
    """No environment has the given name, or the environment does not take the given options."""


@contextlib.contextmanager
def present_folder() -> Iterator[None]:
    """Make modules in the current folder importable in the ``with`` block, as ``python -m`` does."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path.remove("")


def find_env(name: str) -> str | EnvFactory:
    """Return the class, function or id that ``name`` refers to; an id without a module is not checked."""
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        if not name.endswith(".py"):
            for package, (ids, _) in PACKAGES.items():  # installed packages register their ids when imported
                if name not in gym.registry and re.match(ids, name) and find_spec(package):
                    import_module(package, name, FORMS)
            return name
        origin, attribute = name, ""
    module = import_module(origin, name, FORMS)
    if attribute in gym.registry:
        return attribute
    found = getattr(module, attribute, None)
    if found is None:
        raise EnvNameError(_not_found(module, origin, attribute))
    is_other_class = inspect.isclass(found) and not issubclass(found, gym.Env | gym.vector.VectorEnv)
    if is_other_class or not callable(found):
        raise EnvNameError(
            f"{name} must be a registered id, a subclass of gymnasium.Env, or a function that returns an "
            f"environment, got {found!r}"
        )
    return found  # type: ignore[no-any-return] # any callable


def absolute_name(name: str) -> str:
    """Return ``name`` with an absolute path if it has the form ``path/to/file.py:Class``, else unchanged."""
    origin, colon, attribute = name.rpartition(":")
    return f"{Path(origin).resolve()}{colon}{attribute}" if origin.endswith(".py") else name


def make_env(name: str, /, *, disable_env_checker: bool | None = None, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment from its name and options; see `find_env` and `call_factory` for errors."""
    factory = env_factory(name, disable_env_checker=disable_env_checker)
    env = call_factory(name, factory, batch_options(name, num_envs=1) | options)
    if (simulator := getattr(env, "simulator", None)) is not None:
        env = simulator.as_env()
    if not isinstance(env, gym.Env):
        raise EnvNameError(f"{name} must make a single gymnasium.Env, got {type(env).__name__}")
    return env


def env_factory(name: str, *, disable_env_checker: bool | None = None) -> EnvFactory:
    """Return the function that makes the environment ``name`` from keyword options; see `make_env`."""
    found = find_env(name)
    if isinstance(found, str):
        return partial(gym.make, found, disable_env_checker=disable_env_checker)
    return partial(_make, found)


def batch_options(name: str, **options: Any) -> dict[str, Any]:
    """Return the ``options`` that the function ``name`` takes if it has a parameter ``num_envs``, else {}."""
    function = find_env(name)
    if isinstance(function, str) or inspect.isclass(function):
        return {}
    known = inspect.signature(function).parameters.keys()
    return {key: options[key] for key in known & options.keys()} if "num_envs" in known else {}


def _make(function: EnvFactory, /, **options: Any) -> Any:
    """Call a user's function; return the result or, if it is a `GoalSimulator`, its vector environment."""
    made = function(**options)
    return made.as_vector_env() if hasattr(made, "as_vector_env") else made


def call_factory(name: str, factory: EnvFactory, options: dict[str, Any]) -> Any:
    """Return ``factory(**options)``, or raise EnvNameError or BrokenModuleError about ``name``."""
    try:
        with present_folder():
            return factory(**options)
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise BrokenModuleError(f"cannot make {name}: {error}") from error
    except Exception as error:
        place = raised_at(error)
        if place and "unexpected keyword argument" not in str(error):
            raise BrokenModuleError(f"cannot make {name}: {describe(error)}; {place}") from error
        if not isinstance(error, gym.error.Error | TypeError | ValueError):
            raise
        reason = str(error).rstrip(".")
        for package, (ids, install) in PACKAGES.items():
            if re.match(ids, name) and isinstance(error, gym.error.NameNotFound):
                reason = f"it belongs to the package {package}, which "
                reason += "has no such id" if find_spec(package) else f"is missing; run `{install}`"
                raise EnvNameError(f"cannot make {name}: {reason}") from error
        raise EnvNameError(
            f"cannot make {name}: {reason}; `her envs` lists the bundled environments and their options"
        ) from error


def make_vector_env(
    name: str, num_envs: int, max_episode_steps: int | None = None, /, **options: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make the registered vector environment or, without one or with a time limit, a SyncVectorEnv."""
    found = find_env(name)
    spec = gym.registry.get(found) if isinstance(found, str) else None
    if max_episode_steps is None and spec is not None and spec.vector_entry_point is not None:
        return call_factory(name, partial(gym.make_vec, str(found), num_envs), options)  # type: ignore[no-any-return]
    factory = env_factory(name, disable_env_checker=True)

    def make_one() -> gym.Env[Any, Any]:
        return limit_episodes(factory(**options), max_episode_steps)

    return call_factory(name, partial(gym.vector.SyncVectorEnv, [make_one] * num_envs), {})  # type: ignore[no-any-return]


def import_module(origin: str, name: str, forms: str) -> ModuleType:
    """Import the module or ``.py`` file ``origin``; ``name``, the user's text, and ``forms`` for errors."""
    try:
        with present_folder():
            return _import_file(Path(origin)) if origin.endswith(".py") else importlib.import_module(origin)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == origin.partition(".")[0]:
            reason = f"{error}, neither in this folder nor installed"
            if origin in PACKAGES:
                raise EnvNameError(f"{name} needs {origin}; run: {PACKAGES[origin][1]}") from error
        elif isinstance(error, FileNotFoundError) and error.filename == str(Path(origin).resolve()):
            reason = f"there is no file {origin}"
        elif isinstance(error, SyntaxError):
            place = f"{error.filename}, line {error.lineno}"
            raise BrokenModuleError(f"cannot import {place}: {error.msg}") from error
        elif place := raised_at(error):
            raise BrokenModuleError(f"cannot import {origin}: {describe(error)}; {place}") from error
        else:  # not the name of a module
            reason = describe(error)
        raise EnvNameError(f"cannot load {name}: {reason}; expected {forms}") from error


def import_callable(name: str, argument: str, forms: str = "module:function") -> Any:
    """Return the function or class ``module:name`` or ``file.py:name``, the value of option ``argument``."""
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        raise EnvNameError(f"{argument} must be {forms}, got {name!r}")
    module = import_module(origin, f"{argument} {name}", forms)
    found = getattr(module, attribute, None)
    if not callable(found):
        got = f"which is {found!r}" if hasattr(module, attribute) else f"but {origin} has no {attribute!r}"
        raise EnvNameError(f"{argument} must be {forms}, got {name}, {got}")
    return found  # the first call shows whether the signature fits


def _import_file(path: Path) -> ModuleType:
    """Import a ``.py`` file at most once; return its module. The file can import modules in its folder."""
    path = path.resolve()
    key = str(path)  # the module is named by its path, since the stem may be the name of another module
    if key in sys.modules:
        return sys.modules[key]
    open_regular(path).close()  # the import of a pipe would wait for a writer
    sys.modules[key] = module = ModuleType(key)
    module.__file__ = key
    sys.path.insert(0, str(path.parent))
    try:
        SourceFileLoader(key, key).exec_module(module)
    except BaseException:
        del sys.modules[key]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def _not_found(module: ModuleType, origin: str, attribute: str) -> str:
    message = f"{origin} has no registered id, class or function {attribute!r}"
    if not attribute:
        message = f"{origin} must be followed by the name of an environment, as in path/to/file.py:Class"
    classes = [
        each.__name__
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, gym.Env) and each.__module__ == module.__name__
    ]
    ids = [key for key, spec in gym.registry.items() if _module_of(spec.entry_point) == module.__name__]
    known = ", ".join(f"{origin}:{each}" for each in [*ids, *classes])
    return f"{message}; it has {known or 'no environment'}"


def _module_of(entry_point: Any) -> str:
    return entry_point.partition(":")[0] if isinstance(entry_point, str) else str(entry_point.__module__)
