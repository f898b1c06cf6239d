"""Tables that are read into memory: what is said of them names the fields of a run."""

import pytest

from tpuloop.data.sets.files import csv, jsonl
from tpuloop.errors import UsageError


def test_remedies_name_fields_that_exist(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,name,y\n1,foo,0\n2,bar,1\n")
    with pytest.raises(UsageError, match="leave it out with --config.data.drop=name, or"):
        csv(path=str(table), label="y", held_out=0)
    for drop in ("name", ["name"]):
        assert csv(path=str(table), label="y", held_out=0, drop=drop).train.size == 2
    assert csv(path=str(table), label="y", held_out=0, drop="name").model_arguments["input_shape"] == (1,)
    table.write_text("a,y\n1,0\nx,1\n")
    with pytest.raises(UsageError, match=r"row 3, .*leave such rows out \(tpuloop data convert --on_bad_record=skip\)"):
        csv(path=str(table), label="y", held_out=0)


def test_text_without_a_vocabulary(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "one", "label": 0}\n')
    with pytest.raises(UsageError, match="give --config.data.vocab=FILE, or --config.data.vocab_size=8000"):
        jsonl(path=str(tmp_path / "t.jsonl"))
