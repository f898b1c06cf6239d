"""Which columns of a table make which feature."""

import dataclasses
import re
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.records.manifest import Feature
from tpuloop.data.records.packing import DTYPES
from tpuloop.errors import UsageError, suggestion

X, Y = "x", "y"


@dataclasses.dataclass(frozen=True)
class ColumnGroup:
    """Columns that make one feature.

    Attributes:
      feature: their name, dtype and shape.
      columns: the numbers of the columns, as many as the feature has values.
    """

    feature: Feature
    columns: Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns of a table.

    Attributes:
      names: of all columns.
      groups: the features of numbers, in order.
      label: the column of the label, if any.
      classes: the label's values in sorted order, where they are text.
      label_dtype: "int64", or "float32" for a label of numbers that are not whole.
    """

    names: Tuple[str, ...]
    groups: Tuple[ColumnGroup, ...]
    label: Optional[int] = None
    classes: Optional[Tuple[str, ...]] = None
    label_dtype: str = "int64"

    @property
    def features(self) -> Tuple[Feature, ...]:
        """Of the records, in order."""
        features = tuple(group.feature for group in self.groups)
        return features if self.label is None else (*features, Feature(Y, self.label_dtype))


def named_column(names: Sequence[str], name: str, flag: str) -> int:
    """The number of a column.

    Raises:
      UsageError: where there is no such column, or two.
    """
    count = list(names).count(name)
    if count > 1:
        raise UsageError(f"--{flag}={name}: {count} columns have that name: rename them")
    if not count:
        listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise UsageError(f"--{flag}={name}: there is no such column{suggestion(name, names)}: the columns are {listed}")
    return list(names).index(name)


def grouped(
    names: Sequence[str], *, label: Optional[int], dropped: Sequence[int], spec: Optional[str]
) -> Tuple[ColumnGroup, ...]:
    """Columns by feature: those of `spec`, and all others as one float32 feature x.

    Args:
      names: of all columns.
      label: is in no group.
      dropped: neither are these.
      spec: such as "ids:int32[128],mask:bool[128],age:float32": a name, a dtype, and how many columns NAME_0, NAME_1
        and so on make it; without a number, the column of that name does.

    Raises:
      UsageError: for a spec that fits no columns.
    """
    left = [index for index in range(len(names)) if index != label and index not in dropped]
    groups: List[ColumnGroup] = []
    for name, dtype, count in _parsed(spec or ""):
        members = [name] if count is None else [f"{name}_{index}" for index in range(count)]
        columns = tuple(named_column(names, member, "columns") for member in members)
        for column in columns:
            if column not in left:
                raise UsageError(f"--columns: {names[column]!r} is the label, left out, or in two features")
            left.remove(column)
        groups.append(ColumnGroup(Feature(name, dtype, () if count is None else (count,)), columns))
    if left:
        groups.append(ColumnGroup(Feature(X, "float32", (len(left),)), tuple(left)))
    if not groups:
        raise UsageError("no column is left to learn from: leave out fewer")
    taken: Dict[str, int] = {}
    for group in groups:
        taken[group.feature.name] = taken.get(group.feature.name, 0) + 1
    if label is not None:
        taken[Y] = taken.get(Y, 0) + 1
    for name, times in taken.items():
        if times > 1:
            raise UsageError(f"--columns: two features are called {name!r}: rename one (x is the rest, y the label)")
    return tuple(groups)


def _parsed(spec: str) -> List[Tuple[str, str, Optional[int]]]:
    found = []
    for item in filter(None, (part.strip() for part in spec.split(","))):
        match = re.fullmatch(r"(.+):(\w+?)(?:\[(\d+)\])?", item)
        if not match or match[2] not in DTYPES or match[3] == "0":
            raise UsageError(
                f"--columns: {item!r} is no NAME:DTYPE[COLUMNS], such as ids:int32[128]; the dtypes are "
                f"{', '.join(DTYPES)}"
            )
        found.append((match[1], match[2], int(match[3]) if match[3] else None))
    return found


def limits(dtype: str) -> Tuple[int, int]:
    """The smallest and largest whole number of a dtype of whole numbers."""
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
