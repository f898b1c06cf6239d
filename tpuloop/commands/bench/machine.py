"""What was measured on."""

import importlib.metadata
import os
import platform
from typing import Any, Dict

from tpuloop.commands.cores import cores


def machine() -> Dict[str, Any]:
    """Plain data: the processor, its cores, versions, and what else keeps it busy."""
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "load": os.getloadavg()[0],
        "tensorflow": importlib.metadata.version("tensorflow"),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
