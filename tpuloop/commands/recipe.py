"""What a run is: a recipe, checked before anything is built."""

import dataclasses
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from tpuloop.counts import check_count
from tpuloop.errors import UsageError, suggestion
from tpuloop.optimizers import OPTIMIZERS
from tpuloop.optimizers.schedule_settings import ScheduleSettings

PRECISIONS = ("float32", "bfloat16", "float16")

LARGEST_FLOAT32 = 3.4e38

# What may change between two calls for one run, since it does not change what is computed.
HOW_NOT_WHAT = ("steps_per_loop", "save_every", "keep", "eager")

# What stays of a mapping when another layer names something else in it: a learning rate belongs to the run rather than
# to one optimizer, and a warm-up to any schedule.
_KEPT = {"optimizer": ("learning_rate", "rate_per_batch", "schedule"), "schedule": ("warmup_steps",)}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One run, completely: the same recipe gives the same run.

    Attributes:
      model: "name" is one of the registry or `module:function`; the rest are arguments of its builder.
      data: "name" is a data set's or `module:function`; the rest are its arguments.
      optimizer: "name" is one of `optimizers.OPTIMIZERS`; the rest, with learning_rate, are its arguments, but for two:
        "rate_per_batch", the global batch that the learning rate is meant for, so that it is scaled in proportion to
        the run's own (arXiv:1706.02677); and "schedule", what the learning rate is the peak of: a mapping with the
        fields of `ScheduleSettings`.
      loss: arguments of the loss of the model's task, such as label_smoothing.
      steps: the step to reach.
      global_batch: examples a step, over all replicas.
      eval_every: steps between evaluations; None for the end of each epoch.
      save_every: steps between checkpoints; None for only one at the end.
      keep: checkpoints that stay.
      seed: of initial weights, the data's order and random layers.
      steps_per_loop: the most steps in one compiled call, or "auto".
      mixed_precision: "float32", "bfloat16" or "float16": what the layers compute in; variables stay float32.
      clip_norm: the largest global norm of the gradient, or None.
      accumulate_steps: parts each replica's batch is split into.
      init_from: weights that a new run starts from: a file or folder of published ones, or another run; None for the
        model's own initial values. A run that continues does not look at it.
      ema_decay: decay of a moving average of the weights, which is what is evaluated and exported then; or None.
      eager: run step by step from Python, for debugging.

    Raises:
      UsageError: naming the field, its value and what it may be.
    """

    model: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "mlp"})
    data: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "digits"})
    optimizer: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "adam", "learning_rate": 1e-3})
    loss: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    steps: int = 1000
    global_batch: int = 64
    eval_every: Optional[int] = None
    save_every: Optional[int] = None
    keep: int = 3
    seed: int = 0
    steps_per_loop: Union[int, str] = "auto"
    mixed_precision: str = "float32"
    clip_norm: Optional[float] = None
    accumulate_steps: int = 1
    init_from: Optional[str] = None
    ema_decay: Optional[float] = None
    eager: bool = False

    def __post_init__(self):
        for name in ("steps", "global_batch", "keep", "accumulate_steps"):
            _check_count(name, getattr(self, name))
        for name in ("eval_every", "save_every"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name))
        if self.steps_per_loop != "auto":
            _check_count("steps_per_loop", self.steps_per_loop, or_else=", or auto")
        if not _is_int(self.seed) or not 0 <= self.seed < 2**32:
            raise UsageError(f"seed must be an integer from 0 to 2**32 - 1; it is {self.seed!r}")
        if self.global_batch >= 2**31:
            raise UsageError(f"global_batch must be below 2**31, as shapes are 32 bits; it is {self.global_batch!r}")
        if not isinstance(self.eager, bool):
            raise UsageError(f"eager must be True or False; it is {self.eager!r}")
        check_choice("mixed_precision", self.mixed_precision, PRECISIONS)
        if self.clip_norm is not None and not (is_number(self.clip_norm) and self.clip_norm > 0):
            raise UsageError(f"clip_norm must be a positive number or None; it is {self.clip_norm!r}")
        if self.init_from is not None and not (isinstance(self.init_from, str) and self.init_from):
            raise UsageError(f"init_from must be a path or None; it is {self.init_from!r}")
        if self.ema_decay is not None and not (is_number(self.ema_decay) and 0 < self.ema_decay < 1):
            raise UsageError(f"ema_decay must be a number above 0 and below 1, or None; it is {self.ema_decay!r}")
        for name in ("model", "data", "optimizer"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not value["name"]:
                raise UsageError(f"{name} must be a mapping with a name, such as {{'name': ...}}; it is {value!r}")
        if not isinstance(self.loss, Mapping):
            raise UsageError(
                f"loss must be a mapping of arguments, such as {{'label_smoothing': 0.1}}; it is {self.loss!r}"
            )
        check_choice("optimizer", self.optimizer["name"], OPTIMIZERS)
        self._check_learning_rate()

    @property
    def schedule(self) -> Optional[ScheduleSettings]:
        """How the learning rate goes over the run; None where it stays as it is."""
        fields = self.optimizer.get("schedule")
        return None if fields is None else ScheduleSettings.of(fields)

    def _check_learning_rate(self) -> None:
        schedule, per_batch = self.schedule, self.optimizer.get("rate_per_batch")
        if per_batch is not None:
            _check_count("rate_per_batch", per_batch, or_else=", or None")
        if "learning_rate" in self.optimizer:
            rate = self.optimizer["learning_rate"]
            if not (is_number(rate) and rate > 0):
                raise UsageError(f"learning_rate must be a positive number; it is {rate!r}")
            if rate >= LARGEST_FLOAT32:
                raise UsageError(f"learning_rate must be below 3.4e38, as it is held in 32 bits; it is {rate!r}")
        elif schedule is not None or per_batch is not None:
            raise UsageError("learning_rate is missing: a schedule and rate_per_batch say what becomes of it")

    def to_json(self) -> Dict[str, Any]:
        """The recipe as plain JSON.

        Raises:
          UsageError: naming a value that JSON cannot hold, so that the run could not be continued.
        """
        return {field.name: _plain(getattr(self, field.name), field.name) for field in dataclasses.fields(self)}


def make_recipe(*layers: Mapping[str, Any]) -> Recipe:
    """A recipe from its defaults and `layers` of fields, later ones first in rank.

    A nested field is merged key by key, unless the layer names another model, data set, optimizer or schedule: then the
    arguments of the earlier one go with it, and with a model those of the loss.

    Raises:
      UsageError: for a field that no recipe has, with the name that was probably meant.
    """
    fields: Dict[str, Any] = {field.name: getattr(Recipe(), field.name) for field in dataclasses.fields(Recipe)}
    for layer in layers:
        model = layer.get("model")
        if isinstance(model, Mapping) and model.get("name", fields["model"]["name"]) != fields["model"]["name"]:
            fields["loss"] = {}  # It was that of the other model's task.
        for name, value in layer.items():
            if name not in fields:
                raise UsageError(f"a recipe has no field {name!r}{suggestion(name, fields)}")
            if isinstance(fields[name], Mapping) and isinstance(value, Mapping):
                value = _merged(fields[name], value, name)
            fields[name] = value
    return Recipe(**fields)


def _merged(old: Mapping[str, Any], new: Mapping[str, Any], field: str) -> Dict[str, Any]:
    kept = dict(old)
    if new.get("name", kept.get("name")) != kept.get("name"):
        kept = {key: kept[key] for key in _KEPT.get(field, ()) if key in kept}
    merged = {**kept, **new}
    if field == "optimizer":
        before, now = kept.get("schedule"), new.get("schedule")
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            merged["schedule"] = _merged(before, now, "schedule")
    return merged


def recipe_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> List[str]:
    """What of two recipes (as plain JSON) computes something else, one phrase a field."""
    differences = []
    for name in sorted({*old, *new} - set(HOW_NOT_WHAT)):
        before, now = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            keys = sorted({*before, *now})
            pairs = [(f"{name}.{key}", before.get(key), now.get(key)) for key in keys]
        else:
            pairs = [(name, before, now)]
        differences += [f"{label} was {was!r} and is {is_!r}" for label, was, is_ in pairs if was != is_]
    return differences


def resolve_config_path(path: str) -> Tuple[str, Optional[str]]:
    """The file that a --config flag means, and what stands behind its colon.

    The file is the one named, or the recipe of that name that ships with the package.

    Raises:
      UsageError: where there is neither.
    """
    if os.path.isfile(path):
        return path, None
    file, colon, rest = path.partition(":")
    argument = rest if colon else None
    if os.path.isfile(file):
        return file, argument
    # Beside the package in a checkout, inside it once installed.
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    shipped: Dict[str, str] = {}
    for folder in (os.path.join(here, "configs"), os.path.join(os.path.dirname(here), "configs")):
        if os.path.isdir(folder):
            for entry in sorted(os.listdir(folder)):
                if entry.endswith(".py") and not entry.startswith("_"):
                    shipped.setdefault(entry[:-3], os.path.join(folder, entry))
    name = os.path.splitext(os.path.basename(file))[0]
    if name in shipped and os.path.dirname(file) in ("", "configs"):
        return shipped[name], argument
    raise UsageError(f"--config={path}: there is no such file{suggestion(name, shipped)}")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raises a UsageError that suggests the nearest of `choices` where `value` is none of them."""
    if value not in choices:
        listed = ", ".join(sorted(str(choice) for choice in choices))
        raise UsageError(f"{name} {value!r} is unknown: use one of {listed}{suggestion(value, choices)}")


def is_number(value: Any) -> bool:
    """Whether `value` is a number that a float can hold; True and False are none."""
    # A comparison and not math.isfinite, which cannot take an integer of any size.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _check_count(name: str, value: Any, or_else: str = "") -> None:
    if check_count(name, value, or_else=or_else) >= 2**62:
        raise UsageError(f"{name} must be below 2**62, as steps are counted in 64 bits; it is {value!r}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item, name) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise UsageError(
        f"{name} is {value!r}: a recipe is written down, so it holds numbers, text, lists and dicts with text keys"
    )
