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
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import gymnasium as gym

EnvFactory: TypeAlias = Callable[..., Any]
"""Makes an environment from keyword arguments."""

FORMS = "an id, module:id, module:Class, module:function or path/to/file.py:Class"


class BrokenModuleError(ValueError):
    """A module raised an error while it was imported."""


@contextlib.contextmanager
def present_folder() -> Iterator[None]:
    """Let modules be imported from the current folder, as ``python -m`` does."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path.remove("")


def find_env(name: str) -> str | EnvFactory:
    """Find an environment by its name.

    Args:
        name: A registered id, ``module:id``, ``module:Class``, ``module:function``, or the same with
            ``path/to/file.py`` in the place of the module. Modules are found in the current folder too.

    Returns:
        The id for `gymnasium.make`, or the class or function.

    Raises:
        BrokenModuleError: The module raises an error.
        ValueError: The module does not exist, or has neither such an id nor such a class or function.
    """
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        return name
    module = import_origin(origin, name)
    if attribute in gym.registry:
        return attribute
    found = getattr(module, attribute, None)
    if found is None:
        raise ValueError(_not_found(module, origin, attribute))
    is_other_class = inspect.isclass(found) and not issubclass(found, gym.Env | gym.vector.VectorEnv)
    if is_other_class or not callable(found):
        raise ValueError(
            f"cannot make {name}: expected an id, a subclass of gymnasium.Env, or a function, got {found!r}"
        )
    return found  # type: ignore[no-any-return] # any callable


def make_env(name: str, /, *, disable_env_checker: bool | None = None, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment.

    Args:
        name: The environment, see `find_env`.
        disable_env_checker: For `gymnasium.make`, where the name is an id.
        **options: Arguments of the environment.

    Raises:
        ValueError: The environment does not exist, does not take the options, or is not a `gymnasium.Env`.
    """
    with present_folder():
        found = find_env(name)
        if isinstance(found, str):
            found = partial(gym.make, found, disable_env_checker=disable_env_checker)
        try:
            env = found(**options)
        except (gym.error.Error, ImportError, TypeError, ValueError) as error:
            reason = str(error).rstrip(".")
            raise ValueError(
                f"cannot make {name}: {reason}; `her envs` lists the bundled ones and their options"
            ) from error
    if not isinstance(env, gym.Env):
        raise ValueError(f"cannot make {name}: expected a gymnasium.Env, got {type(env).__name__}")  # noqa: TRY004 - a name's value
    return env


def make_vector_env(name: str, num_envs: int, /, **options: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make several environments in one process: by the id's own vector environment where it has one.

    Args:
        name: The environment, see `find_env`.
        num_envs: Number of environments, N.
        **options: Arguments of each environment.

    Raises:
        ValueError: The environment does not exist, or does not take the options.
    """
    with present_folder():
        found = find_env(name)
        try:
            if not isinstance(found, str):
                return gym.vector.SyncVectorEnv([partial(found, **options)] * num_envs)
            native = gym.spec(found).vector_entry_point is not None
            checker: dict[str, Any] = {} if native else {"disable_env_checker": True}
            return gym.make_vec(found, num_envs, **checker, **options)
        except (gym.error.Error, ImportError, TypeError, ValueError) as error:
            raise ValueError(f"cannot make {num_envs} {name} together: {error}") from error


def import_origin(origin: str, name: str, forms: str = FORMS) -> ModuleType:
    """Import a module by its name or its file.

    Args:
        origin: Name of a module, or path of a Python file.
        name: What the user typed, for messages.
        forms: What the user may type, for messages.

    Raises:
        BrokenModuleError: The module raises an error.
        ValueError: The module does not exist.
    """
    try:
        with present_folder():
            return _import_file(Path(origin)) if origin.endswith(".py") else importlib.import_module(origin)
    except Exception as error:  # anything that the module's own code raises
        if isinstance(error, ModuleNotFoundError) and error.name == origin.partition(".")[0]:
            reason = f"{error}, neither in this folder nor installed"
        elif isinstance(error, FileNotFoundError) and error.filename == str(Path(origin).resolve()):
            reason = f"there is no file {origin}"
        elif isinstance(error, SyntaxError):
            raise BrokenModuleError(
                f"cannot import {error.filename}, line {error.lineno}: {error.msg}"
            ) from error
        else:
            raise BrokenModuleError(
                f"cannot make {name}: {origin} raised {type(error).__name__}: {error}"
            ) from error
        raise ValueError(f"cannot make {name}: {reason}; expected {forms}") from error


def _import_file(path: Path) -> ModuleType:
    """Import a file once; its neighbours can be imported by it."""
    path = path.resolve()
    key = str(path)  # as the name of the module, since the stem may be the name of another one
    if key in sys.modules:
        return sys.modules[key]
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
    """Say which environments a module has, first the one that was probably meant."""
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
    return f"{message}, and no class or function of that name; it has {known or 'no environment'}"


def _module_of(entry_point: Any) -> str:
    return entry_point.partition(":")[0] if isinstance(entry_point, str) else str(entry_point.__module__)
