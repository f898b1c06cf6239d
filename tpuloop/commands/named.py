"""Functions that a recipe names, and the arguments it gives them."""

import importlib
import inspect
import os
import sys
from typing import Any, Callable, Dict, Mapping

from tpuloop.errors import UsageError, suggestion


def load_function(reference: str, *, what: str) -> Callable[..., Any]:
    """The function that `module:function` names; the module may lie in the working directory.

    Raises:
      UsageError: where there is no such module or function.
    """
    module_name, _, function_name = reference.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(f"{what} {reference!r}: {module_name!r} is no module's name; give package.module:function")
    search_working_directory()
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise UsageError(f"{what} {reference!r}: the module cannot be imported: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(
            f"{what} {reference!r}: the module {module_name!r} has no function {function_name!r}"
            f"{suggestion(function_name, vars(module))}"
        )
    return function


def search_working_directory() -> None:
    """Lets modules be imported from the working directory, as they are where Python runs a file of it."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def checked_arguments(
    function: Callable[..., Any],
    given: Mapping[str, Any],
    *,
    what: str,
    offered: Mapping[str, Any] = {},
    hidden: bool = True,
) -> Dict[str, Any]:
    """The keyword arguments for `function`: all of `given`, and of `offered` those it takes.

    Args:
      hidden: whether to give it what its signature does not name, where it has **kwargs.

    Raises:
      UsageError: for an argument it does not take, with the one probably meant, or one that is missing; for a function
        whose arguments cannot be known.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError) as error:  # Such as built-in types.
        raise UsageError(
            f"{what} does not say which arguments it takes: name a Python function that calls it"
        ) from error
    takes_any = hidden and any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values())
    names = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    for name in given:
        if name not in names and not (takes_any and name not in offered):
            raise UsageError(f"{what} takes no argument {name!r}{suggestion(name, names)}")
    arguments = {name: value for name, value in offered.items() if name in names}
    arguments.update(given)
    for name in names:
        if parameters[name].default is inspect.Parameter.empty and name not in arguments:
            raise UsageError(f"{what} needs the argument {name!r}, which neither the recipe nor the data gives")
    return arguments
