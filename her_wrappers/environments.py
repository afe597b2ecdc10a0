"""Environments by name: a registered id, or a class or function of a module or a file."""

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

from her_wrappers.episode_limit import limit_episodes
from her_wrappers.exceptions import describe, raised_at
from her_wrappers.files.atomic import open_regular

EnvFactory: TypeAlias = Callable[..., Any]
"""Function that returns an environment, called with the options as keyword arguments."""

PACKAGES = {
    "gymnasium_robotics": ("Fetch|Hand|AntMaze|PointMaze_", 'pip install "her-toolkit[fetch]"'),
    "panda_gym": ("Panda", "pip install panda-gym"),
    "highway_env": ("parking-", "pip install highway-env"),
}
"""Packages with goal environments: a pattern for the beginnings of ids, and the command to install them."""

FORMS = "an id, module:id, module:Class, module:function or path/to/file.py:Class"


class BrokenModuleError(RuntimeError):
    """An error was raised while a module was imported or an environment was made."""


class EnvNameError(ValueError):
    """No environment has the given name, or the environment does not take the given options."""


@contextlib.contextmanager
def present_folder() -> Iterator[None]:
    """Make the modules of the current folder importable during the block, as ``python -m`` does."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path.remove("")


def find_env(name: str) -> str | EnvFactory:
    """Return the environment that ``name`` refers to: an id for `gymnasium.make`, a class or a function.

    The name has one of the `FORMS`. Modules are also searched in the current folder. The function does not
    check whether an id without a module exists.
    Raise BrokenModuleError if the import raises, and EnvNameError if the module or the environment is
    missing.
    """
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        if not name.endswith(".py"):
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
            f"cannot make {name}: expected an id, a subclass of gymnasium.Env, or a function, got {found!r}"
            f"{_task_hint(found)}"
        )
    return found  # type: ignore[no-any-return] # any callable


def absolute_name(name: str) -> str:
    """Return the name of an environment or a function, with the absolute path of its file if it has one."""
    origin, colon, attribute = name.rpartition(":")
    return f"{Path(origin).resolve()}{colon}{attribute}" if origin.endswith(".py") else name


def make_env(name: str, /, *, disable_env_checker: bool | None = None, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment from its name and options; see `find_env` and `call_factory` for errors.

    ``disable_env_checker`` is an argument of `gymnasium.make`, used if the name is an id.
    """
    env = call_factory(name, env_factory(name, disable_env_checker=disable_env_checker), options)
    if not isinstance(env, gym.Env):
        raise EnvNameError(
            f"cannot make {name}: expected a gymnasium.Env, got {type(env).__name__}{_task_hint(type(env))}"
        )
    return env


def env_factory(name: str, *, disable_env_checker: bool | None = None) -> EnvFactory:
    """Return the function that makes an environment from its options; see `make_env`."""
    found = find_env(name)
    if isinstance(found, str):
        return partial(gym.make, found, disable_env_checker=disable_env_checker)
    return found


def call_factory(name: str, factory: EnvFactory, options: dict[str, Any]) -> Any:
    """Return the environment that a factory makes from its options; messages call it ``name``.

    Raise EnvNameError if the environment does not exist or does not take the options, and BrokenModuleError,
    with file and line, if its code raises or if a package is missing.
    """
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
        package = name.partition("/")[0]  # usually, the namespace is the name of the package
        if isinstance(error, gym.error.NamespaceNotFound) and find_spec(package):
            raise EnvNameError(f"cannot make {name}: import {package}, or use {package}:{name}") from error
        for package, (ids, install) in PACKAGES.items():
            if re.match(ids, name) and isinstance(error, gym.error.NameNotFound):
                before = "" if find_spec(package) else f"run: {install}, then "
                raise EnvNameError(f"cannot make {name}: {before}use {package}:{name}") from error
        raise EnvNameError(
            f"cannot make {name}: {reason}; `her envs` lists the bundled environments and their options"
        ) from error


def make_vector_env(
    name: str, num_envs: int, max_episode_steps: int | None = None, /, **options: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make a vector environment of ``num_envs`` environments.

    If a vector environment is registered for the id, it is used; otherwise, and always if
    ``max_episode_steps`` is given (see `limit_episodes`), the result is a `gymnasium.vector.SyncVectorEnv`.
    ``options`` are passed to each environment. The errors are those of `make_env`.
    """
    found = find_env(name)
    spec = gym.registry.get(found) if isinstance(found, str) else None
    if max_episode_steps is None and spec is not None and spec.vector_entry_point is not None:
        return call_factory(name, partial(gym.make_vec, str(found), num_envs), options)  # type: ignore[no-any-return]
    factory = env_factory(name, disable_env_checker=True)

    def make_one() -> gym.Env[Any, Any]:
        return limit_episodes(factory(**options), max_episode_steps)

    return call_factory(name, partial(gym.vector.SyncVectorEnv, [make_one] * num_envs), {})  # type: ignore[no-any-return]


def import_module(origin: str, name: str, forms: str) -> ModuleType:
    """Import a module or a ``.py`` file and return the module.

    ``name`` is the text that the user gave, and ``forms`` describes the valid texts; both are for messages.
    Raise BrokenModuleError, with file and line, if the code of the module raises, and EnvNameError if the
    module does not exist.
    """
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
        raise EnvNameError(f"cannot import {origin!r} for {name}: {reason}; expected {forms}") from error


def import_callable(name: str, argument: str, forms: str = "module:function") -> Any:
    """Return the function or class that ``name`` refers to: ``module:name`` or ``path/to/file.py:name``.

    ``argument`` is the option or parameter that error messages name. The errors are those of `import_module`,
    and EnvNameError if the name has another form or does not exist.
    """
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        raise EnvNameError(f"{argument} must be {forms}, got {name!r}")
    module = import_module(origin, f"{argument} {name}", forms)
    found = getattr(module, attribute, None)
    if not callable(found):
        got = repr(found) if hasattr(module, attribute) else f"a module without {attribute!r}"
        raise EnvNameError(f"{argument} must be {forms}, got {got} for {name}")
    return found  # the first call shows whether the signature fits


def _import_file(path: Path) -> ModuleType:
    """Import a file, unless it was imported before; the file can import the modules of its folder."""
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
    """Return a message with the environments of a module, or only the one that the user probably meant."""
    message = f"{'file' if origin.endswith('.py') else 'module'} {origin} has no registered id {attribute!r}"
    classes = [
        each.__name__
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, gym.Env) and each.__module__ == module.__name__
    ]
    meant = re.sub(r"-v\d+$", "", attribute.rpartition("/")[2])
    if meant in classes:
        return f"{message}; it defines a class of that name: use {origin}:{meant}"
    ids = [key for key, spec in gym.registry.items() if _module_of(spec.entry_point) == module.__name__]
    known = ", ".join(f"{origin}:{each}" for each in [*ids, *classes])
    if not attribute:
        return f"expected path/to/file.py:Class, got {origin}; it has {known or 'no environment'}"
    return f"{message}, and no class or function of that name; it has {known or 'no environment'}"


def _task_hint(found: Any) -> str:
    """Return advice for a class `her_envs.GoalTask`, which this package does not import."""
    is_task = any(each.__name__ == "GoalTask" for each in getattr(found, "__mro__", ()))
    return "; wrap it in her_envs.TaskEnv, in a function that returns this environment" if is_task else ""


def _module_of(entry_point: Any) -> str:
    return entry_point.partition(":")[0] if isinstance(entry_point, str) else str(entry_point.__module__)
