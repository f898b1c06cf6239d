"""How long the command line takes to answer."""

import subprocess
import sys
import time
from typing import Dict, List

# What is started, and the most seconds it should take.
STARTS = {
    "tpuloop --help": (["-m", "tpuloop", "--help"], 0.5),
    "tpuloop train --help": (["-m", "tpuloop", "train", "--help"], 0.5),
    "import tpuloop": (["-c", "import tpuloop"], 0.3),
}


def startup_seconds(*, repeats: int) -> Dict[str, List[float]]:
    """The seconds that each of STARTS takes in a new process, Python's own start among them."""
    seconds: Dict[str, List[float]] = {name: [] for name in STARTS}
    for _ in range(repeats):
        for name, (arguments, _) in STARTS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    return seconds
