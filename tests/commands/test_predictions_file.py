"""What `tpuloop predict` writes can be read back as it was, or is refused."""

import csv
import io

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.commands.predictions_file import contents, named_arrays
from tpuloop.errors import UsageError

ONE, TWO = np.zeros([2]), np.ones([2, 3], np.float32)


def npz(arrays):
    with np.load(io.BytesIO(contents(arrays, ".npz")), allow_pickle=False) as file:
        return dict(file)


def table(arrays):
    header, *rows = csv.reader(io.StringIO(contents(arrays, ".csv").decode("utf-8"), newline=""))
    return {name: [row[index] for row in rows] for index, name in enumerate(header)}


@pytest.mark.parametrize(
    "outputs, labels, names",
    [
        (ONE, None, ["predictions"]),
        (ONE, TWO, ["predictions", "labels"]),
        ([ONE, TWO], ONE, ["predictions_0", "predictions_1", "labels"]),
        ({"left": ONE, "right": TWO}, {"left": TWO, "right": ONE}, ["left", "right", "labels_left", "labels_right"]),
        ({"box": {"x": ONE, "y": [ONE, TWO]}}, (ONE, TWO), ["box_x", "box_y_0", "box_y_1", "labels_0", "labels_1"]),
        # Whoever has an output of that name keeps both.
        ({"labels": ONE}, TWO, ["labels", "true_labels"]),
        ({"labels_a": ONE}, {"a": TWO, "b": TWO}, ["labels_a", "true_labels_a", "true_labels_b"]),
    ],
)
def test_everything_has_a_name_of_its_own(outputs, labels, names):
    arrays = named_arrays(outputs, labels)
    assert list(arrays) == names
    given = tf.nest.flatten([outputs, [] if labels is None else labels])
    assert [array is one for array, one in zip(arrays.values(), given)] == [True] * len(names)


NUMBERS = [
    np.array([2**53 + 1, -(2**63), 1234567891], np.int64),
    np.array([2**64 - 1, 0, 7], np.uint64),
    np.array([0.1, 1 / 3, 1e-300], np.float64),
    np.array([0.1, 1 / 3, np.inf], np.float32),
    np.array([0.1, 1 / 3, np.nan], np.float16),
    np.array([True, False, True]),
]


@pytest.mark.parametrize("array", NUMBERS, ids=[array.dtype.name for array in NUMBERS])
def test_numbers_are_exact(array):
    np.testing.assert_array_equal(npz({"a": array})["a"], array)
    assert npz({"a": array})["a"].dtype == array.dtype
    column = table({"a": array})["a"]
    whole = array.dtype.kind in "biu"
    back = np.array([int(text) for text in column] if whole else column, dtype=None if whole else array.dtype)
    np.testing.assert_array_equal(back, array)
    assert not {"True", "False"} & set(column)  # So that a table of numbers can be read as one.


def test_bfloat16_which_no_file_holds_becomes_float32():
    array = tf.constant([0.5, 3.0], tf.bfloat16).numpy()
    arrays = named_arrays(array, None)
    assert npz(arrays)["predictions"].dtype == np.float32
    assert table(arrays) == {"predictions": ["0.5", "3.0"]}


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a, b", 'say "c"', "d\ne"]),
        np.array(["a, b", 'say "c"', "d\ne"], object),
        np.array([b"a, b", b'say "c"', b"d\ne"]),
        np.array([b"a, b", b'say "c"', b"d\ne"], object),
    ],
)
def test_text_stays_text(array):
    arrays = named_arrays(ONE, array)
    assert npz(arrays)["labels"].tolist() == ["a, b", 'say "c"', "d\ne"]
    assert table({"labels": arrays["labels"]})["labels"] == ["a, b", 'say "c"', "d\ne"]


def test_columns():
    arrays = {"a": TWO, "b, c": ONE, "d": np.zeros([2, 1]), "e": np.zeros([2, 1, 2]), "f": np.zeros([2, 0])}
    assert list(table(arrays)) == ["a_0", "a_1", "a_2", "b, c", "d_0", "e_0", "e_1"]


def test_any_name_may_stand_in_an_archive():
    assert sorted(npz({"file": ONE, "scope/a": TWO})) == ["file", "scope/a"]


@pytest.mark.parametrize(
    "work, message",
    [
        (lambda: named_arrays({"a": {"b": ONE}, "a_b": TWO}, None), "two outputs are called 'a_b'"),
        (
            lambda: named_arrays(ONE, np.array([{}, {}], object)),
            "'labels' holds a dict: only numbers and text can be written",
        ),
        (lambda: named_arrays({"a": np.array([b"\xff", b"b"])}, None), "'a' holds bytes that are no UTF-8 text"),
        (lambda: contents({"a": TWO, "a_1": ONE}, ".csv"), "two columns would be called 'a_1': write a .npz file"),
        (
            lambda: contents({"a": ONE, "b": np.zeros([3])}, ".csv"),
            "a .csv file needs as many rows of each, and there are 2 of 'a' and 3 of 'b': write a .npz file",
        ),
    ],
)
def test_what_no_file_holds_is_refused(work, message):
    with pytest.raises(UsageError) as error:
        work()
    assert message in str(error.value) and "\n" not in str(error.value)


def test_outputs_and_labels_by_name(quick_tpuloop, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "import tensorflow as tf\n"
        "def net():\n"
        "    inputs = tf.keras.Input([3])\n"
        "    outputs = {name: tf.keras.layers.Dense(1, name=name)(inputs) for name in ('labels', 'other')}\n"
        "    model = tf.keras.Model(inputs, outputs)\n"
        "    model.compile('sgd', 'mse')\n"
        "    return model\n"
        "def data():\n"
        "    x, y = np.ones([5, 3], np.float32), np.arange(5, dtype=np.float32)\n"
        "    return (x, {'labels': y, 'other': y}), (x, {'labels': y, 'other': -y})\n"
    )
    flags = ("--model=mine:net", "--data=mine:data", "--global_batch=5", "--steps=1", "--eager", "--workdir=run")
    trained = quick_tpuloop("train", *flags, cwd=tmp_path)
    assert trained.status == 0, trained.err
    for ending in ("npz", "csv"):
        result = quick_tpuloop("predict", "--workdir=run", f"--output=out.{ending}", cwd=tmp_path)
        assert result.status == 0, result.err
        assert result.out == f"wrote 5 predictions at step 1 to out.{ending}\n"
    with np.load(tmp_path / "out.npz") as arrays:
        assert sorted(arrays) == ["labels", "labels_labels", "labels_other", "other"]
        np.testing.assert_array_equal(arrays["labels_other"], -np.arange(5))
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    assert header == "labels_0,other_0,labels_labels,labels_other"
