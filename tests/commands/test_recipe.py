"""Recipes are merged, checked and compared before TensorFlow loads."""

import os

import pytest

from tpuloop.commands.recipe import (
    Recipe,
    check_choice,
    make_recipe,
    recipe_differences,
    resolve_config_path,
)
from tpuloop.errors import UsageError, suggestion
from tpuloop.optimizers.schedule_settings import ScheduleSettings


def test_later_layers_count_and_nested_fields_are_merged():
    recipe = make_recipe(
        {"steps": 10, "model": {"name": "mlp", "hidden": (8,)}},
        {"steps": 20, "model": {"dropout": 0.5}, "optimizer": {"learning_rate": 0.1}},
    )
    assert recipe.steps == 20
    assert recipe.model == {"name": "mlp", "hidden": (8,), "dropout": 0.5}
    assert recipe.optimizer == {"name": "adam", "learning_rate": 0.1}


def test_another_name_drops_the_arguments_of_the_earlier_one_but_not_the_learning_rate():
    recipe = make_recipe(
        {"model": {"name": "mlp", "hidden": (8,)}, "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9}},
        {"model": {"name": "mine:net"}, "optimizer": {"name": "adamw", "weight_decay": 0.01}},
    )
    assert recipe.model == {"name": "mine:net"}
    assert recipe.optimizer == {"name": "adamw", "learning_rate": 0.1, "weight_decay": 0.01}


def test_the_schedule_stays_with_the_learning_rate_and_is_merged_like_the_rest():
    cosine = {"name": "cosine", "warmup_steps": 10, "end_factor": 0.1}
    layer = {"optimizer": {"name": "lars", "learning_rate": 9.0, "rate_per_batch": 4096, "eeta": 1, "schedule": cosine}}
    assert make_recipe(layer, {"optimizer": {"name": "sgd", "schedule": {"warmup_steps": 2}}}).optimizer == {
        "name": "sgd",
        "learning_rate": 9.0,
        "rate_per_batch": 4096,
        "schedule": {"name": "cosine", "warmup_steps": 2, "end_factor": 0.1},
    }
    linear = make_recipe(layer, {"optimizer": {"schedule": {"name": "linear"}}})
    assert linear.schedule == ScheduleSettings("linear", warmup_steps=10)
    assert make_recipe(layer, {"optimizer": {"schedule": None}}).schedule is None
    assert cosine["warmup_steps"] == 10


def test_the_same_name_again_keeps_the_arguments():
    recipe = make_recipe({"model": {"name": "mlp", "hidden": (8,)}}, {"model": {"name": "mlp"}})
    assert recipe.model == {"name": "mlp", "hidden": (8,)}


def test_layers_are_left_as_they_are():
    layer = {"model": {"name": "mlp", "hidden": (8,)}}
    make_recipe(layer, {"model": {"dropout": 0.5}})
    assert layer == {"model": {"name": "mlp", "hidden": (8,)}}


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"setps": 3}, "a recipe has no field 'setps'; did you mean 'steps'?"),
        ({"xyzzy": 3}, "a recipe has no field 'xyzzy'"),
        ({"steps": True}, "steps must be an integer of at least 1; it is True"),
        ({"steps": 1.0}, "steps must be an integer of at least 1; it is 1.0"),
        ({"steps": 2**62}, "steps must be below 2**62"),
        ({"keep": 0}, "keep must be an integer of at least 1; it is 0"),
        ({"eval_every": 0}, "eval_every must be an integer of at least 1; it is 0"),
        ({"steps_per_loop": "all"}, "steps_per_loop must be an integer of at least 1, or auto; it is 'all'"),
        ({"seed": 2**32}, "seed must be an integer from 0 to 2**32 - 1; it is 4294967296"),
        ({"init_from": ""}, "init_from must be a path or None; it is ''"),
        ({"init_from": 3}, "init_from must be a path or None; it is 3"),
        ({"clip_norm": 0}, "clip_norm must be a positive number or None; it is 0"),
        ({"clip_norm": float("inf")}, "clip_norm must be a positive number or None; it is inf"),
        ({"ema_decay": 1.0}, "ema_decay must be a number above 0 and below 1, or None; it is 1.0"),
        ({"mixed_precision": "fp16"}, "mixed_precision 'fp16' is unknown"),
        ({"model": "mlp"}, "model must be a mapping with a name, such as {'name': ...}; it is 'mlp'"),
        ({"data": {"name": ""}}, "data must be a mapping with a name"),
        ({"optimizer": {"learning_rate": 0}}, "learning_rate must be a positive number; it is 0"),
        ({"optimizer": {"name": "sdg"}}, "optimizer 'sdg' is unknown: use one of adam, adamw, lamb"),
        ({"optimizer": {"schedule": "cosine"}}, "schedule must be a mapping with a name"),
        ({"optimizer": {"schedule": {"name": "cosine", "power": 2}}}, "schedule 'cosine' takes no argument 'power'"),
        ({"optimizer": {"rate_per_batch": 0}}, "rate_per_batch must be an integer of at least 1, or None; it is 0"),
    ],
)
def test_a_field_that_makes_no_recipe_is_named_with_its_value(fields, message):
    with pytest.raises(UsageError) as error:
        make_recipe(fields)
    assert message in str(error.value)


@pytest.mark.parametrize("fields", [{"rate_per_batch": 8}, {"schedule": {"name": "constant"}}])
def test_a_schedule_needs_a_learning_rate(fields):
    with pytest.raises(UsageError, match="learning_rate is missing"):
        Recipe(optimizer={"name": "sgd", **fields})


def test_a_recipe_as_json_makes_the_same_recipe():
    schedule = {"name": "piecewise", "boundaries": (3, 4), "factors": (0.5, 0.25)}
    recipe = make_recipe(
        {"model": {"name": "mlp", "hidden": (8, 4)}, "clip_norm": 1.0, "optimizer": {"schedule": schedule}}
    )
    plain = recipe.to_json()
    assert plain["model"]["hidden"] == [8, 4]
    assert make_recipe(plain).to_json() == plain


@pytest.mark.parametrize("value", [{0: 1.0}, {"x": object()}, len, {1, 2}, b"bytes"])
def test_a_value_that_cannot_be_written_down_is_refused(value):
    recipe = make_recipe({"model": {"name": "mlp", "hidden": [value]}})
    with pytest.raises(UsageError, match="^model.hidden.* a recipe is written down"):
        recipe.to_json()


def test_differences_name_the_field_and_both_values():
    old = make_recipe({"model": {"name": "mlp", "hidden": (8,)}, "steps": 10}).to_json()
    new = make_recipe({"model": {"name": "mlp", "dropout": 0.1}, "steps": 20}).to_json()
    assert recipe_differences(old, new) == [
        "model.dropout was None and is 0.1",
        "model.hidden was [8] and is None",
        "steps was 10 and is 20",
    ]


def test_what_does_not_change_the_result_is_no_difference():
    old = Recipe().to_json()
    new = make_recipe({"steps_per_loop": 10, "save_every": 5, "keep": 1, "eager": True}).to_json()
    assert recipe_differences(old, new) == []


def test_suggestions():
    assert suggestion("moel", ["model", "data"]) == "; did you mean 'model'?"
    assert suggestion("xyzzy", ["model", "data"]) == ""
    with pytest.raises(UsageError, match="^thing 'dta' is unknown: use one of data, model; did you mean 'data'[?]$"):
        check_choice("thing", "dta", ["model", "data"])
    check_choice("thing", "data", ["model", "data"])


def test_the_file_of_a_config_flag(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped, argument = resolve_config_path("mlp_digits")
    assert os.path.isfile(shipped) and os.path.basename(shipped) == "mlp_digits.py" and argument is None
    for name in ("mlp_digits.py", "configs/mlp_digits.py", "configs/mlp_digits"):
        assert resolve_config_path(name) == (shipped, None)
    assert resolve_config_path("mlp_digits:small") == (shipped, "small")
    assert resolve_config_path("mlp_digits:") == (shipped, "")


def test_a_file_of_the_users_goes_before_one_that_ships(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp_digits.py").write_text("")
    (tmp_path / "with:colon.py").write_text("")
    assert resolve_config_path("mlp_digits.py") == ("mlp_digits.py", None)
    assert resolve_config_path("mlp_digits.py:a:b") == ("mlp_digits.py", "a:b")
    assert resolve_config_path("with:colon.py") == ("with:colon.py", None)


@pytest.mark.parametrize("path", ["other/mlp_digits.py", "/configs/mlp_digits.py", "", ":", "mlp_digits.json.py"])
def test_a_path_elsewhere_is_not_a_recipe_that_ships(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no such file"):
        resolve_config_path(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eager": "no"}, "eager must be True or False; it is 'no'"),
        ({"eager": 1}, "eager must be True or False; it is 1"),
        ({"global_batch": 99_999_999_999_999}, r"global_batch must be below 2\*\*31"),
        ({"optimizer": {"learning_rate": 1e300}}, "learning_rate must be below 3.4e38"),
    ],
)
def test_what_would_fail_late_or_mean_the_opposite_is_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        make_recipe(fields)


def test_the_loss_goes_with_another_model_and_stays_with_the_same():
    smoothed = {"model": {"name": "resnet18"}, "loss": {"label_smoothing": 0.1}}
    assert make_recipe(smoothed, {"model": {"name": "bert_tiny"}}).loss == {}
    assert make_recipe(smoothed, {"model": {"name": "resnet18", "stem": "small"}}).loss == {"label_smoothing": 0.1}
    assert make_recipe(smoothed, {"model": {"name": "mlp"}, "loss": {"a": 1}}).loss == {"a": 1}
