"""Runs a command, or a research script of the user's own, with the flags, messages and exit statuses of all others."""

import errno
import importlib
import logging
import os
import re
import sys
import textwrap
import traceback
from types import ModuleType
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence

from absl import flags

from tpuloop.commands import common_flags, quiet, streams
from tpuloop.errors import UsageError, suggestion

FLAGS = flags.FLAGS

DONE, FAILED, WRONG_INPUT, STOPPED = 0, 1, 2, 75
INTERRUPTED = 130  # As a shell says of a process that SIGINT ended.

_DISK_IS_FULL = os.strerror(errno.ENOSPC)  # TensorFlow's errors say it in the same words.

# What absl adds to the help of a flag that can be given several times.
_OF_MULTI_FLAGS = ";\n    repeat this option to specify a list of values"


class CommandFailed(Exception):
    """A command could not do its work through no fault of what it was given. One line, exit status 1."""


def run_command(module: ModuleType, name: str, argv: Sequence[str]) -> int:
    """Runs a command's module on its arguments and returns the exit status.

    Args:
      module: has `SUMMARY`, `define_flags()` and `run() -> int`; or `TOPICS`, the names of its submodules that do.
        One with `POSITIONAL`, the name of what it takes without a flag, has `run(arguments) -> int` instead.
      name: of the command.
      argv: the arguments after the command's name.
    """
    program = f"tpuloop {name}"
    topics = getattr(module, "TOPICS", ())
    if topics:
        if argv and argv[0] in topics:
            topic = importlib.import_module(f"{module.__name__}.{argv[0]}")
            return run_command(topic, f"{name} {argv[0]}", argv[1:])
        return _no_topic(program, topics, argv)
    known = set(FLAGS)
    module.define_flags()
    named = getattr(module, "POSITIONAL", None)
    if wants_help(argv):
        usage = f"usage: {program} {f'{named}... ' if named else ''}--flag=value"
        print(_help(usage, module.SUMMARY, sorted(set(FLAGS) - known)))
        return DONE
    return _parse_and_run(program, argv, module.run, positional=named is not None)


def run(
    loop: Any = None,
    *,
    model: Callable[..., Any],
    data: Callable[..., Any],
    defaults: Optional[Mapping[str, Any]] = None,
    callbacks: Callable[[], Iterable[Any]] = tuple,
    argv: Optional[Sequence[str]] = None,
) -> None:
    """Turns a script into a training program with the flags, run folder, resume and exit statuses of `tpuloop train`.

    ```python
    if __name__ == "__main__":
        tpuloop.run(MyLoop, model=build_model, data=load_data, defaults={"steps": 500})
    ```

    Flags that the script defines with absl are parsed along. Ends the process: status 0 when the run is done, 75 when a
    signal stopped it with its state saved (run the same command again), 2 for wrong flags or data, 1 for anything else.

    Args:
      loop: a subclass of `TrainLoop`, or None for itself. It is made as `loop(model, runtime=..., workdir=...,
        settings=...)`.
      model: called as `model(recipe)` in the strategy's scope; returns a Keras model. One that is not compiled gets
        the optimizer of the flags.
      data: called as `data(recipe)`; returns `(train, evaluation)` or a `DataSets`.
      defaults: fields of `Recipe` that differ from its own defaults.
      callbacks: called once; further callbacks of the run.
      argv: the command line without the program's name; `sys.argv[1:]` if None.
    """
    from tpuloop.commands import train

    argv = sys.argv[1:] if argv is None else argv
    program = sys.argv[0]
    own_flags = [flag.name for flag in FLAGS.flags_by_module_dict().get(program, [])]
    known = set(FLAGS)
    common_flags.define_workdir_flag("Folder of the run; the same command again continues it.")
    common_flags.define_recipe_flags()
    common_flags.define_runtime_flags()
    if wants_help(argv):
        summary = (sys.modules["__main__"].__doc__ or "").strip()
        print(_help(f"usage: {program} --flag=value", summary, own_flags + sorted(set(FLAGS) - known)))
        sys.exit(DONE)
    sys.exit(
        _parse_and_run(
            program,
            argv,
            lambda: train.train(
                common_flags.recipe_from_flags(defaults),
                program=program,
                loop_class=loop,
                model=model,
                data=data,
                callbacks=callbacks,
            ),
        )
    )


def wants_help(argv: Sequence[str]) -> bool:
    """Whether the arguments ask for help."""
    return any(argument in ("--help", "-help", "-h", "--helpfull", "-?") for argument in argv)


def _no_topic(program: str, topics: Sequence[str], argv: Sequence[str]) -> int:
    """What a command says that needs a topic after its name."""
    listed = ", ".join(topics)
    if argv and wants_help(argv[:1]):
        print(f"usage: {program} TOPIC --flag=value\n")
        print(f"The topics are {listed}; {program} TOPIC --help lists the flags.")
        return DONE
    problem = f"unknown topic {argv[0]!r}{suggestion(argv[0], topics)}" if argv else "name a topic"
    print(f"{program}: error: {problem}: the topics are {listed}", file=sys.stderr)
    return WRONG_INPUT


def _parse_and_run(program: str, argv: Sequence[str], work: Callable[..., int], *, positional: bool = False) -> int:
    """Parses the flags, runs `work`, and turns what goes wrong into one line and an exit status."""
    quiet.set_log_level()
    streams.keep_open()
    _log_to_stderr()
    try:
        rest = _parse(program, argv, positional=positional)
        status = work(rest) if positional else work()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        known = _status_of(error)
        if known is None:
            raise
        if _debugging(argv):
            traceback.print_exc()
        print(f"{program}: error: {_one_line(error)}", file=sys.stderr)
        return known


def _debugging(argv: Sequence[str]) -> bool:
    """Whether --debug is among the arguments, also where they cannot be parsed."""
    return any(re.match("--?debug(=true|=1)?$", argument, re.IGNORECASE) for argument in argv)


def _parse(program: str, argv: Sequence[str], *, positional: bool) -> List[str]:
    """Parses the flags, and returns what stands between them, if `positional` allows that."""
    FLAGS.set_gnu_getopt(positional)  # Flags may follow what is none.
    try:
        rest = FLAGS([program, *common_flags.with_one_field_flag(argv)])[1:]
    except flags.UnrecognizedFlagError as error:
        raise UsageError(f"there is no flag --{error.flagname}{suggestion(error.flagname, set(FLAGS))}") from error
    except flags.Error as error:
        raise UsageError(_one_line(error)) from error
    if rest and not positional:
        raise UsageError(f"unexpected argument {rest[0]!r}: give everything as --flag=value")
    return rest


def _status_of(error: Exception) -> Optional[int]:
    """The exit status of an error that needs no traceback, or None for one that does."""
    if isinstance(error, UsageError):
        return WRONG_INPUT
    if isinstance(error, CommandFailed):
        return FAILED
    if type(error).__module__.startswith("tpuloop."):
        from tpuloop.checkpoint.commit import CheckpointError
        from tpuloop.runtime import RuntimeUnavailable

        if isinstance(error, RuntimeUnavailable):
            return WRONG_INPUT
        if isinstance(error, CheckpointError):
            return FAILED
    return FAILED if _DISK_IS_FULL in str(error) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _log_to_stderr() -> None:
    """What tpuloop says goes to standard error, each a plain line; results go to standard output."""
    logger = logging.getLogger("tpuloop")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.StreamHandler()
    handler.setFormatter(_Plain())
    logger.handlers[:] = [handler]


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        return message if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {message}"


def _help(usage: str, summary: str, names: List[str]) -> str:
    lines = [usage, "", summary, ""]
    for name in names:
        flag = FLAGS[name]
        default = "" if flag.default in (None, False, []) else f" Default: {flag.default}."
        lines.append(f"  --{name}")
        lines.append(
            textwrap.fill(
                (flag.help or "").replace(_OF_MULTI_FLAGS, "") + default,
                100,
                initial_indent="      ",
                subsequent_indent="      ",
            )
        )
    return "\n".join(lines)
