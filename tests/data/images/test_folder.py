"""Folders of pictures by class, and what is said of those that are none."""

import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.images.folder import ImageFolder, list_image_folder


@pytest.fixture
def folder(tmp_path):
    """`folder(*files)`: a folder with these empty files, or folders where a name ends in a slash."""

    def make(*files):
        for file in files:
            path = tmp_path / "images" / file
            (path if file.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
            if not file.endswith("/"):
                path.touch()
        return str(tmp_path / "images")

    return make


def test_classes_are_numbered_by_name(folder):
    path = folder("dog/2.png", "dog/1.JPEG", "cat/x.jpg", "ant/y.gif", "ant/z.bmp")
    listed = list_image_folder(path)
    assert listed == ImageFolder(
        files=tuple(f"{path}/{file}" for file in ("ant/y.gif", "ant/z.bmp", "cat/x.jpg", "dog/1.JPEG", "dog/2.png")),
        labels=(0, 0, 1, 2, 2),
        classes=("ant", "cat", "dog"),
    )
    assert list_image_folder(path + "/") == listed


def test_says_what_it_leaves_out_but_for_hidden_names(folder):
    path = folder("cat/1.jpg", "cat/notes.txt", "cat/more/2.jpg", "cat/.DS_Store", "dog/", ".git/a.jpg", "README.md")
    listed = list_image_folder(path)
    assert listed.files == (f"{path}/cat/1.jpg",) and listed.classes == ("cat", "dog")
    assert listed.notes == (
        "1 classes have no pictures, such as 'dog': their numbers stay unused",
        "2 entries are no pictures and left out, such as cat/more",
    )


@pytest.mark.parametrize(
    "files, said",
    [
        (["1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg"], "{path} has no subfolders, and must have one with the pictures "
         "of each class; it has 1.jpg, 2.jpg, 3.jpg and 2 more"),
        (["./"], "{path} has no subfolders, and must have one with the pictures of each class; it is empty"),
        ([".hidden/1.jpg"], "{path} has no subfolders, and must have one with the pictures of each class; it is empty"),
        (["cat/1.webp", "dog/"], "{path} holds no pictures (.jpg, .jpeg, .png, .gif, .bmp) in its 2 subfolders; "
         "it has cat/1.webp"),
        (["cat/", "dog/"], "{path} holds no pictures (.jpg, .jpeg, .png, .gif, .bmp) in its 2 subfolders; it is empty"),
    ],
)  # fmt: skip
def test_folders_without_classes_or_pictures(files, said, folder):
    path = folder(*files)
    with pytest.raises(DataError) as error:
        list_image_folder(path)
    assert str(error.value) == said.format(path=path)


def test_no_folder(tmp_path, folder):
    with pytest.raises(DataError, match="there is no folder .*/absent"):
        list_image_folder(str(tmp_path / "absent"))
    file = folder("a.jpg") + "/a.jpg"
    with pytest.raises(DataError, match="a.jpg"):
        list_image_folder(file)


def test_an_object_store_is_asked_once_a_folder(monkeypatch):
    store = {
        "gs://b/pics": ["cat/", "dog/", "1.jpg", ".x/"],
        "gs://b/pics/cat": ["1.jpg"],
        "gs://b/pics/dog": ["2.jpg"],
    }
    asked = []
    monkeypatch.setattr(tf.io.gfile, "listdir", lambda path: asked.append(path) or store[path])
    monkeypatch.setattr(tf.io.gfile, "isdir", lambda path: pytest.fail(f"asked for {path}"))
    listed = list_image_folder("gs://b/pics")
    assert listed.files == ("gs://b/pics/cat/1.jpg", "gs://b/pics/dog/2.jpg") and listed.classes == ("cat", "dog")
    assert asked == list(store)


def test_numbers_of_another_folder(folder):
    path = folder("cat/1.jpg", "eel/2.jpg")
    listed = list_image_folder(path, classes=("ant", "cat", "dog", "eel"))
    assert listed.labels == (1, 3) and listed.classes == ("ant", "cat", "dog", "eel")
    assert listed.notes == ("2 classes have no pictures, such as 'ant': their numbers stay unused",)
    with pytest.raises(DataError, match=r"has a folder 'eel', which is not among the 2 classes to train on \(ant, cat"):
        list_image_folder(path, classes=("ant", "cat"))


def test_what_cannot_be_a_folder_of_pictures():
    with pytest.raises(ValueError, match="1 files have 2 labels"):
        ImageFolder(files=("a",), labels=(0, 1), classes=("x", "y"))
    with pytest.raises(ValueError, match="labels from 0 to 2 for 2 classes"):
        ImageFolder(files=("a", "b"), labels=(0, 2), classes=("x", "y"))
