"""`tpuloop bench TOPIC`: measurements, one topic a file. A topic's module is a command's module (see `program.py`)."""

SUMMARY = "measures on this machine: bench loop, bench input, bench models"
TOPICS = ("loop", "input", "models")
