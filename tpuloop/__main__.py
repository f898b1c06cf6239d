"""`tpuloop COMMAND --flag=value`, also as `python -m tpuloop COMMAND`."""

import importlib
import sys
from typing import List, Optional

COMMANDS = ("train", "evaluate", "predict", "export", "data", "bench")


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command that `argv` names and returns its exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        from tpuloop import __version__

        print(f"tpuloop {__version__}")
        return 0
    name = argv[0]
    if name not in COMMANDS:
        from tpuloop.errors import suggestion

        listed = ", ".join(COMMANDS)
        print(
            f"tpuloop: error: unknown command {name!r}: the commands are {listed}{suggestion(name, COMMANDS)}",
            file=sys.stderr,
        )
        return 2
    from tpuloop.commands import program

    return program.run_command(importlib.import_module(f"tpuloop.commands.{name}"), name, argv[1:])


def _overview() -> str:
    lines = ["usage: tpuloop COMMAND --flag=value", ""]
    for name in COMMANDS:
        lines.append(f"  {name:<10} {importlib.import_module(f'tpuloop.commands.{name}').SUMMARY}")
    return "\n".join([*lines, "", "tpuloop COMMAND --help lists the flags of a command."])


if __name__ == "__main__":
    sys.exit(main())
