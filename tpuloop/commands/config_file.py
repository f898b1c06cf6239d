"""The recipe file of --config, and the fields that --config.FIELD=VALUE sets.

Not `ml_collections.config_flags`: it can set only the fields that the file itself gives, and reads `sys.argv` whatever
arguments it is handed.
"""

import ast
import sys
import traceback
from types import ModuleType
from typing import Any, Dict, Iterable

from tpuloop.commands.named import search_working_directory
from tpuloop.commands.recipe import resolve_config_path
from tpuloop.errors import UsageError, suggestion

_MODULE = "tpuloop_config"


def load_config(path: str) -> Dict[str, Any]:
    """The fields that `get_config()` of a recipe file gives.

    Args:
      path: of a file, or the name of a recipe that ships; `path:argument` calls `get_config(argument)`.

    Raises:
      UsageError: where there is no such file, or running it gives no ConfigDict.
    """
    file, argument = resolve_config_path(path)
    search_working_directory()
    try:
        module = _run_file(file)
        if not callable(getattr(module, "get_config", None)):
            raise UsageError(f"--config={path} has no function get_config(){suggestion('get_config', vars(module))}")
        config = module.get_config() if argument is None else module.get_config(argument)
        if hasattr(config, "to_dict"):
            return config.to_dict()
    except UsageError:
        raise
    except Exception as error:  # The file is the user's, so anything may come.
        raise UsageError(f"--config={path} fails{_place(error, file)}: {type(error).__name__}: {error}") from error
    raise UsageError(f"get_config() of --config={path} must return a ConfigDict, not {type(config).__name__}")


def fields_of(settings: Iterable[str]) -> Dict[str, Any]:
    """Settings such as "optimizer.learning_rate=0.1" as nested fields; later ones count.

    A value is read as a Python literal, and as a string where it is none.

    Raises:
      UsageError: for a setting without a value.
    """
    fields: Dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--config.{path} has no value: give --config.{path}=VALUE")
        *parents, name = path.split(".")
        inner = fields
        for parent in parents:
            if not isinstance(inner.get(parent), dict):
                inner[parent] = {}
            inner = inner[parent]
        inner[name] = _value(text)
    return fields


def _value(text: str) -> Any:
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text, text))
    except (ValueError, SyntaxError):
        return text


def _run_file(path: str) -> ModuleType:
    with open(path, "rb") as file:
        source = file.read()
    module = ModuleType(_MODULE)
    module.__file__ = path
    sys.modules[_MODULE] = module  # Where dataclasses look for it.
    exec(compile(source, path, "exec"), vars(module))
    return module


def _place(error: Exception, path: str) -> str:
    """ " in line N", the last line of the file that ran; nothing for a syntax error, which says its line itself."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" in line {lines[-1]}" if lines else ""
