"""Files that are no pictures, found among those that are."""

import numpy as np

from tpuloop.data.images import faults
from tpuloop.data.images.faults import bad_pictures, check_image_file


def test_names_bad_files_in_order(tmp_path, pictures, monkeypatch):
    monkeypatch.setattr(faults, "_AT_ONCE", 4)
    good = pictures.jpeg(np.random.default_rng(0).integers(0, 256, [20, 20, 3], np.uint8))
    files = [tmp_path / f"{number}.jpg" for number in range(11)]
    for number, file in enumerate(files):
        file.write_bytes({3: b"", 9: good[:-40]}.get(number, good))
    files.append(tmp_path / "absent.jpg")
    (_, empty), (_, cut), (_, absent) = found = list(bad_pictures(map(str, files)))
    assert [path for path, _ in found] == [str(files[3]), str(files[9]), str(files[11])]
    assert empty == "it is empty (0 bytes)"
    assert cut == f"it is a truncated JPEG: its {len(good) - 40} bytes lack the end marker"
    assert absent.startswith("it cannot be read: ") and "No such file" in absent
    assert check_image_file(str(files[0])) is None


def test_finds_the_first_before_it_has_read_all(tmp_path):
    (tmp_path / "page.jpg").write_bytes(b"<html>")

    def endless():
        while True:
            yield str(tmp_path / "page.jpg")

    assert next(bad_pictures(endless())) == (
        str(tmp_path / "page.jpg"),
        "it is no JPEG, PNG, GIF or BMP: it begins with b'<html>'",
    )
