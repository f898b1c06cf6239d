"""The registry of architectures."""

import inspect
import subprocess
import sys

import pytest
from tpuloop.models.tasks import TASKS

from tpuloop import models

NAMES = sorted(models.REGISTRY)


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_leads_to_a_builder_with_keyword_arguments_only(name):
    entry = models.REGISTRY[name]
    builder = entry.builder()
    assert builder.func.__module__.startswith(f"tpuloop.models.{entry.module}")
    assert set(entry.preset) <= set(inspect.signature(builder.func).parameters)
    kinds = {parameter.kind for parameter in inspect.signature(builder).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    assert entry.task in TASKS
    assert entry.summary and "\n" not in entry.summary


def test_names_are_listed_without_tensorflow_and_models_know_nothing_of_the_loop():
    program = (
        "import sys\n"
        "from tpuloop import models\n"
        "assert 'mlp' in models.REGISTRY and 'tensorflow' not in sys.modules\n"
        "for entry in models.REGISTRY.values():\n"
        "    entry.builder()\n"
        "from tpuloop.models import tasks\n"
        "ours = {name for name in sys.modules if name.split('.')[0] == 'tpuloop'}\n"
        "print(*sorted(name for name in ours if not name.startswith('tpuloop.models')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, encoding="utf-8")
    assert done.returncode == 0
    assert done.stdout.split() == ["tpuloop"]
