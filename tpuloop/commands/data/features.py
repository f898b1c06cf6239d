"""What the features of many examples have in common, and where they differ. Memory does not grow with their number."""

import collections
from typing import Any, Counter, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.convert.image_header import BadImage, read_header

BYTES = "bytes"

_LABELS = ("label", "labels", "image/class/label", "y", "target", "class")
_SHOWN = 60  # Characters of a value.
_SHAPES = 64  # Different ones that are told apart.
_PICTURE = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


class FeatureSummary:
    """One feature of all examples.

    Args:
      name: of the feature.
    """

    def __init__(self, name: str):
        self.name = name
        self.seen = 0  # Examples that have it.
        self._dtypes: Counter[str] = collections.Counter()
        self._shapes: Dict[Tuple[int, ...], str] = {}  # Each with where it was seen first.
        self._low: Optional[float] = None
        self._high: Optional[float] = None
        self._not_finite: Tuple[int, str] = (0, "")  # Examples, and the first.
        self._pictures = self._bad_pictures = 0
        self._bad_picture = ""

    def add(self, values: Any, *, where: str) -> None:
        """Takes the value of one example: a list of bytes, or an array."""
        self.seen += 1
        if isinstance(values, list):
            self._take(BYTES, (len(values),), where)
            for value in values:
                self._range(len(value), len(value))
                self._look_at_picture(value, where)
            return
        self._take(values.dtype.name, values.shape, where)
        self._numbers(values[np.newaxis], where)

    def add_rows(self, values: np.ndarray, *, where: str) -> None:
        """Takes the values of many examples, [examples, ...]."""
        self.seen += len(values)
        self._take(values.dtype.name, values.shape[1:], where, count=len(values))
        self._numbers(values, where)

    def row(self, examples: int) -> str:
        """A line of a table, of so many examples."""
        dtype = "/".join(sorted(self._dtypes))
        found = "all" if self.seen == examples else f"{self.seen:,} of {examples:,}"
        values = ""
        if self._pictures:
            values = f"{self._pictures:,} pictures, "
        if self._low is not None and self._high is not None:
            low, high = (
                f"{value:,g}" if value != int(value) else f"{int(value):,}" for value in (self._low, self._high)
            )
            unit = " bytes" if BYTES in self._dtypes else ""
            values += f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
        return f"  {self.name:<28} {dtype:<10} {self._shape_text():<16} {found:<18} {values}".rstrip()

    def troubles(self, examples: int, *, label: bool, classes: Optional[int]) -> List[str]:
        """What a training run would stumble over, each as a sentence."""
        found = []
        if self.seen < examples:
            found.append(f"is missing in {examples - self.seen:,} of {examples:,} examples")
        if len(self._dtypes) > 1:
            found.append(f"is {' in some and '.join(sorted(self._dtypes))} in others")
        if len(self._shapes) > 1:
            (one, first), (other, second) = list(self._shapes.items())[:2]
            found.append(
                f"differs in shape: {list(one)} in {first}, {list(other)} in {second}: pad it, or parse it as ragged"
            )
        count, first = self._not_finite
        if count:
            found.append(f"holds NaN or infinity in {count:,} examples, first in {first}")
        if "float64" in self._dtypes:
            found.append("is float64: models compute in float32, which takes half the bytes (data convert stores it)")
        if self._bad_pictures:
            found.append(f"holds {self._bad_pictures:,} damaged pictures, first {self._bad_picture}")
        if BYTES in self._dtypes and not self._pictures:
            found.append("holds strings, which no accelerator takes: decode or tokenize them in the pipeline")
        if label:
            found += self._label_troubles(classes)
        return [f"{self.name} {text}" for text in found]

    def _label_troubles(self, classes: Optional[int]) -> List[str]:
        if self._low is None or self._high is None or not all("int" in dtype for dtype in self._dtypes):
            return []
        low, high = int(self._low), int(self._high)
        if low < 0:
            return [f"has labels down to {low}: classes count from 0"]
        if classes is not None and high >= classes:
            return [f"has the label {high}, out of range for {classes} classes, 0 to {classes - 1}"]
        if low > 0:
            return [f"begins at {low} and not at 0: subtract {low}, or make the model that much wider"]
        return []

    def _take(self, dtype: str, shape: Sequence[int], where: str, *, count: int = 1) -> None:
        self._dtypes[dtype] += count
        if len(self._shapes) < _SHAPES:
            self._shapes.setdefault(tuple(shape), where)

    def _numbers(self, values: np.ndarray, where: str) -> None:
        if values.dtype.kind not in "biuf" or not values.size:
            return
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                count, first = self._not_finite
                rows = int((~finite.reshape([len(values), -1])).any(axis=1).sum())
                self._not_finite = count + rows, first or where
                values = values[finite]
                if not values.size:
                    return
        self._range(values.min(), values.max())

    def _range(self, low: Any, high: Any) -> None:
        self._low = float(low) if self._low is None else min(self._low, float(low))
        self._high = float(high) if self._high is None else max(self._high, float(high))

    def _look_at_picture(self, value: bytes, where: str) -> None:
        if not value.startswith(_PICTURE):
            return
        self._pictures += 1
        try:
            read_header(value)
        except BadImage as error:
            self._bad_pictures += 1
            self._bad_picture = self._bad_picture or f"in {where}: {error}"

    def _shape_text(self) -> str:
        shapes = list(self._shapes)
        if len(shapes) == 1:
            return str(list(shapes[0]))
        if all(len(shape) == 1 for shape in shapes):
            return f"[{min(shapes)[0]} to {max(shapes)[0]}]"
        return f"{len(shapes)} shapes" if len(shapes) < _SHAPES else f"{_SHAPES} shapes or more"


class Features:
    """The features of the examples that were looked at, and the first few whole."""

    def __init__(self, *, keep: int):
        self.examples = 0
        self.kept: List[Dict[str, Any]] = []
        self._keep = keep
        self._summaries: Dict[str, FeatureSummary] = {}

    def add(self, example: Mapping[str, Any], *, where: str) -> None:
        """Takes an example: by feature a list of bytes, or an array."""
        self.examples += 1
        for name, values in example.items():
            self._of(name).add(values, where=where)
        if len(self.kept) < self._keep:
            self.kept.append(dict(example))

    def add_rows(self, columns: Mapping[str, np.ndarray], *, where: str) -> None:
        """Takes many examples: by feature an array [examples, ...]."""
        count = len(next(iter(columns.values())))
        self.examples += count
        for name, values in columns.items():
            self._of(name).add_rows(values, where=where)
        for row in range(min(count, self._keep - len(self.kept))):
            self.kept.append({name: values[row] for name, values in columns.items()})

    def table(self) -> List[str]:
        """A line for each feature, under a heading."""
        heading = f"  {'feature':<28} {'dtype':<10} {'shape':<16} {'in examples':<18} values"
        return [heading, *(summary.row(self.examples) for summary in self._summaries.values())]

    def troubles(self, *, label: Optional[str] = None, classes: Optional[int] = None) -> List[str]:
        """What a training run would stumble over.

        Args:
          label: the feature to predict; else one with a usual name, if there is one.
          classes: how many there are, where that is known.
        """
        if label is None:
            label = next((name for name in _LABELS if name in self._summaries), None)
        found = []
        for name, summary in self._summaries.items():
            found += summary.troubles(self.examples, label=name == label, classes=classes)
        return found

    def _of(self, name: str) -> FeatureSummary:
        return self._summaries.setdefault(name, FeatureSummary(name))


def shown(values: Any) -> str:
    """A value in a few characters."""
    if isinstance(values, list):
        return ", ".join(_bytes_shown(value) for value in values[:3]) + (", ..." if len(values) > 3 else "")
    flat = np.ravel(values)
    text = " ".join(f"{value:g}" if flat.dtype.kind == "f" else str(value) for value in flat[:12])
    return text + (f" ... ({flat.size} values)" if flat.size > 12 else "")


def first_picture(example: Mapping[str, Any]) -> Optional[Any]:
    """Its first JPEG or PNG as bytes, or its first array that can be a picture as uint8; None without one."""
    for values in example.values():
        if isinstance(values, list) and values and values[0].startswith(_PICTURE):
            return values[0]
        if isinstance(values, np.ndarray) and values.ndim in (2, 3) and min(values.shape[:2]) > 1:
            if values.ndim == 3 and values.shape[-1] not in (1, 3):
                continue
            return _as_pixels(values)
    return None


def _as_pixels(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint8 and values.max() > 16:
        return values
    # Whatever the range is, dark to light.
    spread = values.astype(np.float64) - float(values.min())
    return np.rint(spread * (255 / max(float(spread.max()), 1e-9))).astype(np.uint8)


def _bytes_shown(value: bytes) -> str:
    if value.startswith(_PICTURE):
        try:
            header = read_header(value)
        except BadImage as error:
            return f"a picture of which {error}"
        return f"{header.format} of {header.width} x {header.height}, {header.colorspace}, {len(value):,} bytes"
    try:
        text = value[: 4 * _SHOWN].decode("utf-8", "strict" if len(value) <= 4 * _SHOWN else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if any(not character.isprintable() and not character.isspace() for character in text):
        return (
            f"{len(value):,} bytes, {' '.join(f'{byte:02x}' for byte in value[:8])}{' ...' if len(value) > 8 else ''}"
        )
    return repr(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")
