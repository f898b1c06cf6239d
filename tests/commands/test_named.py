"""Functions that a recipe names, and their arguments."""

import sys

import pytest

from tpuloop.commands.named import checked_arguments, load_function
from tpuloop.errors import UsageError


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])


def test_a_function_of_the_working_directory(tmp_path):
    (tmp_path / "package_of_mine").mkdir()
    (tmp_path / "package_of_mine" / "nets.py").write_text("def net():\n    return 'mine'\n")
    assert load_function("package_of_mine.nets:net", what="model")() == "mine"


@pytest.mark.parametrize(
    "reference, message",
    [
        (":net", "model ':net': '' is no module's name"),
        ("nets.py/x:net", "'nets.py/x' is no module's name"),
        (".relative:net", "'.relative' is no module's name"),
        ("module_not_there:net", "the module cannot be imported: No module named 'module_not_there'"),
        ("json:laods", "the module 'json' has no function 'laods'; did you mean 'loads'?"),
        ("json:", "the module 'json' has no function ''"),
        ("json:__name__", "the module 'json' has no function '__name__'"),
    ],
)
def test_what_is_no_function_is_named(reference, message):
    with pytest.raises(UsageError) as error:
        load_function(reference, what="model")
    assert message in str(error.value)


def two(first, *, second=2):
    return first, second


def anything(first, **more):
    return first, more


def test_given_arguments_and_those_of_the_offered_that_are_taken():
    assert checked_arguments(two, {"first": 1}, what="two") == {"first": 1}
    assert checked_arguments(two, {"first": 1}, what="two", offered={"first": 5, "second": 6, "third": 7}) == {
        "first": 1,
        "second": 6,
    }


def test_an_argument_that_is_not_taken_or_missing():
    with pytest.raises(UsageError, match="two takes no argument 'secnd'; did you mean 'second'?"):
        checked_arguments(two, {"first": 1, "secnd": 2}, what="two")
    with pytest.raises(UsageError, match="two needs the argument 'first', which neither the recipe nor the data gives"):
        checked_arguments(two, {}, what="two")


def test_a_function_of_any_arguments_takes_what_the_recipe_gives_and_not_what_data_offers():
    assert checked_arguments(anything, {"first": 1, "other": 2}, what="f", offered={"shape": 3}) == {
        "first": 1,
        "other": 2,
    }
    with pytest.raises(UsageError, match="f takes no argument 'other'"):
        checked_arguments(anything, {"first": 1, "other": 2}, what="f", hidden=False)


@pytest.mark.parametrize("function", [dict, min])
def test_a_function_that_hides_its_arguments_cannot_be_named(function):
    with pytest.raises(UsageError, match="model 'x' does not say which arguments it takes: name a Python function"):
        checked_arguments(function, {}, what="model 'x'")
