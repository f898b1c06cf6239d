"""The journal of a conversion that is killed again and again, and what is said of a difference."""

from tpuloop.data.convert.journal import Finished, Journal, difference
from tpuloop.data.records.manifest import ShardFile


def test_lines_cut_by_a_kill_do_no_harm(tmp_path):
    shards = [ShardFile(f"s{index}", 1, 2, 3, 4) for index in range(3)]
    for shard in shards:
        (tmp_path / shard.file).write_bytes(b"123")
    path = tmp_path / ".conversion.jsonl"
    for index, shard in enumerate(shards):
        with Journal(folder=str(tmp_path), identity={"a": [1, 2]}) as journal:
            assert sorted(journal.finished()) == list(range(index))
            journal.add(Finished(index, {"train": shard}, bad=index))
        with open(path, "a") as file:
            file.write('{"index": 7, "sh')
    with Journal(folder=str(tmp_path), identity={"a": (1, 2)}) as journal:
        assert journal.finished()[2] == Finished(2, {"train": shards[2]}, 2)
        journal.close_for_good()
    assert not path.exists()


def test_the_first_line_may_be_cut_too(tmp_path):
    (tmp_path / ".conversion.jsonl").write_text('{"a"')
    with Journal(folder=str(tmp_path), identity={"a": 1}) as journal:
        assert journal.finished() == {}
    assert (tmp_path / ".conversion.jsonl").read_text() == '{"a": 1}\n'


def test_differences_in_words():
    assert difference({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [1]}}) == ""
    assert difference({"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": None}}) == (
        'a was 1 and is 2; b.c was "x" and is not given'
    )
    files = [{"file": "a", "changed": 1}, {"file": "b", "changed": 2}]
    assert difference({"files": files}, {"files": [files[0], {"file": "b", "changed": 3}]}) == (
        "files[1].changed was 2 and is 3"
    )
    assert len(difference({"a": "x" * 1000}, {"a": 1})) < 100
