"""The recipe file of --config, and what --config.FIELD=VALUE sets in it."""

import sys

import pytest

from tpuloop.commands.config_file import fields_of, load_config
from tpuloop.errors import UsageError


@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        ("1e-3", 1e-3),
        ("true", True),
        ("False", False),
        ("none", None),
        ("(128, 64)", (128, 64)),
        ("128,64", (128, 64)),
        ("[1]", [1]),
        ("mlp", "mlp"),
        ("a=b", "a=b"),
        ("own:net", "own:net"),
        ("'3'", "3"),
        ("", ""),
        ("007", "007"),
    ],
)
def test_values(text, value):
    fields = fields_of([f"field={text}"])
    assert fields == {"field": value} and type(fields["field"]) is type(value)


def test_fields_are_nested_and_later_ones_count():
    assert fields_of(["model.name=mlp", "model.block.width=3", "steps=1", "steps=2"]) == {
        "model": {"name": "mlp", "block": {"width": 3}},
        "steps": 2,
    }
    assert fields_of(["model=mlp", "model.name=bert"]) == {"model": {"name": "bert"}}


def test_a_field_needs_a_value():
    with pytest.raises(UsageError, match="--config.steps has no value: give --config.steps=VALUE"):
        fields_of(["steps"])


def test_the_shipped_recipe():
    assert load_config("mlp_digits")["steps"] == 1500


def test_a_file_may_take_an_argument_have_any_name_and_import_its_neighbours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_a_recipe.py").write_text("STEPS = 7\n")
    (tmp_path / "my recipe").write_text(
        "import dataclasses\n"
        "from ml_collections import ConfigDict\n"
        "from neighbour_of_a_recipe import STEPS\n"
        "@dataclasses.dataclass\n"
        "class Own:\n"
        "    steps: int = STEPS\n"
        "def get_config(seed='0'):\n"
        "    return ConfigDict({'steps': Own().steps, 'seed': int(seed)})\n"
    )
    assert load_config("my recipe") == {"steps": 7, "seed": 0}
    assert load_config("my recipe:3") == {"steps": 7, "seed": 3}
    assert not (tmp_path / "__pycache__" / "my recipe.cpython-310.pyc").exists()


def test_an_edited_file_is_read_again(tmp_path):
    path = tmp_path / "recipe.py"
    text = "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict({'steps': 1})\n"
    for steps in "12":  # Of one length, and within the second that a compiled file's time is rounded to.
        path.write_text(text.replace("1", steps))
        assert load_config(str(path)) == {"steps": int(steps)}


def test_the_line_that_fails_is_the_last_one_in_the_file(tmp_path):
    path = tmp_path / "recipe.py"
    path.write_text("import json\n\ndef get_config():\n    return json.loads('{')\n")
    with pytest.raises(UsageError, match=r"recipe.py fails in line 4: JSONDecodeError: "):
        load_config(str(path))
