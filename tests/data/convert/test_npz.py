"""Arrays in .npz files, stored or compressed, and those that cannot be converted."""

import numpy as np
import pytest

from tpuloop.errors import UsageError

X = np.arange(24, dtype=np.float64).reshape(4, 3, 2)
Y = np.array([2, 0, 1, 1])


@pytest.fixture(params=[np.savez, np.savez_compressed], ids=["stored", "compressed"])
def save(request, tmp_path):
    def write(name="t", **arrays):
        path = tmp_path / f"{name}.npz"
        request.param(path, **arrays)
        return path

    return write


def test_arrays_become_features(save, scan, read):
    data = scan("npz", save(x=X, y=Y))
    assert [(f.name, f.dtype, f.shape) for f in data.contents.features] == [
        ("x", "float32", (3, 2)),
        ("y", "int64", ()),
    ]
    assert (data.contents.units, data.contents.label, data.contents.classes) == (4, "y", None)
    numbers, columns = read(data)
    assert numbers == [0, 1, 2, 3] and columns["x"].dtype == np.float32
    np.testing.assert_array_equal(columns["x"], X)
    np.testing.assert_array_equal(columns["y"], Y)


@pytest.mark.parametrize("dtype", ["bool", "uint8", ">i2", "int32", "uint32", "float16", "float32", "float64"])
def test_dtypes(save, scan, read, dtype):
    values = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    data = scan("npz", save(a=values), keep_float64=True)
    (found,) = read(data)[1].values()
    np.testing.assert_array_equal(found, values)
    assert found.dtype == {"uint32": "int64", ">i2": "int16"}.get(dtype, dtype)


def test_ranges_in_any_order(save, scan, read, monkeypatch):
    monkeypatch.setattr("tpuloop.data.convert.npz_input._BATCH_BYTES", 1000)
    values = np.arange(10_000, dtype=np.int64).reshape(-1, 2)
    data = scan("npz", save(a=values))
    for start, stop in [(0, 5), (700, 2000), (2000, 2001), (100, 300), (4999, 5000)]:
        numbers, columns = read(data, start, stop)
        assert numbers == list(range(start, stop))
        np.testing.assert_array_equal(columns["a"], values[start:stop])


def test_several_files(save, scan, read):
    one, two = save("1", x=X, y=Y), save("2", x=-X[:2], y=Y[:2])
    numbers, columns = read(scan("npz", one, two), 3, 6)
    assert numbers == [3, 4, 5] and columns["y"].tolist() == [1, 2, 0]
    np.testing.assert_array_equal(columns["x"], [X[3], -X[0], -X[1]])
    with pytest.raises(UsageError, match=r"3.npz: the array 'x' is float64\[3\], and in .*1.npz it is float64\[3, 2\]"):
        scan("npz", one, save("3", x=X[:, :, 0], y=Y))


def test_labels_of_text(save, scan, read):
    data = scan("npz", save(x=X, kind=np.array(["pear", "apple", "pear", "fig"])), label="kind")
    assert data.contents.classes == ("apple", "fig", "pear") and data.contents.label == "kind"
    assert read(data)[1]["kind"].tolist() == [2, 0, 2, 1]


@pytest.mark.parametrize(
    "arrays, options, message",
    [
        ({"x": X, "o": np.array([{}, 1, 2, 3], object)}, {}, "the array 'o' holds Python objects"),
        ({"x": X, "t": np.array(list("abcd"))}, {}, "'t': values of the type str32 cannot be packed: .*--drop=t"),
        ({"x": X, "n": np.float32(3)}, {}, "the array 'n' is one value and has no examples: leave it out .--drop=n"),
        ({"x": np.asfortranarray(X)}, {}, "'x' is stored column by column: save np.ascontiguousarray.x."),
        ({"x": X, "y": Y[:3]}, {}, "different first dimensions .x 4, y 3."),
        ({"x": X[:0]}, {}, "holds no examples"),
        ({"x": X}, {"label": "z"}, "--label=z: there is no such array: the arrays are x"),
        ({"x": X}, {"drop": ["x"]}, "holds no arrays to convert"),
    ],
)
def test_what_cannot_be_converted(save, scan, arrays, options, message):
    path = save(**arrays)
    with pytest.raises(UsageError, match=message) as caught:
        scan("npz", path, **options)
    assert "\n" not in str(caught.value)


def test_values_that_float32_does_not_hold(save, scan, read):
    path = save(x=np.array([1.0, 1e300]))
    with pytest.raises(UsageError, match="'x' holds 1e.300 in example 1, which float32 does not: give --keep_float64"):
        read(scan("npz", path))
    assert read(scan("npz", path, keep_float64=True))[1]["x"].tolist() == [1.0, 1e300]


def test_files_that_are_damaged(save, scan, read, tmp_path):
    path = save(x=np.random.default_rng(0).normal(size=10_000))
    whole = path.read_bytes()
    path.write_bytes(whole[:5000])
    with pytest.raises(UsageError, match="is no .npz file"):
        scan("npz", path)
    path.write_bytes(whole[:3000] + bytes(3000) + whole[6000:])
    if b"\x08" in whole[8:10]:  # Compressed.
        with pytest.raises(UsageError, match="'x' is damaged|'x' ends before"):
            read(scan("npz", path))
    path.write_text("no zip")
    with pytest.raises(UsageError, match="is no .npz file"):
        scan("npz", path)
    with pytest.raises(UsageError, match="there is no such file"):
        scan("npz", tmp_path / "absent.npz")
