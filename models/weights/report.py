"""What was done with a file of weights, in words."""

import dataclasses
from typing import List, Optional, Tuple

# What a task has of its own and a file of another task need not have: heads, and what only some heads stand on.
HEADS = ("logits/", "span_logits/", "cls/", "bert/pooler/")


def is_of_head(name: str) -> bool:
    """Whether one of our variables' names is that of a head."""
    return name.startswith(HEADS)


@dataclasses.dataclass(frozen=True)
class Report:
    """What was done with a file.

    Attributes:
      layout: what people call the file's layout.
      loaded: names of variables that took their values from the file.
      new: names of variables that the file does not have, or has for another number of classes; as initialised.
      unused: names in the file that the model has no variable for.
      foreign: those of `unused` that are of no head.
      head_classes: where the file's head was for another number of classes, that number.
      remark: what else is to be known of files of this layout.
    """

    layout: str
    loaded: Tuple[str, ...]
    new: Tuple[str, ...]
    unused: Tuple[str, ...]
    foreign: Tuple[str, ...] = ()
    head_classes: Optional[int] = None
    remark: Optional[str] = None

    @property
    def missing(self) -> Tuple[str, ...]:
        """Those of `new` that are of no head, so that the file should have had them."""
        return tuple(name for name in self.new if not is_of_head(name))

    def summary(self, path: str) -> str:
        """All of it in one line, with every name of a head; the names of the rest are in `warnings`."""
        total = len(self.loaded) + len(self.new)
        parts = [f"{len(self.loaded)} of {total} variables from {path} ({self.layout})"]
        new = [name for name in self.new if is_of_head(name)]
        if new:
            why = f" (the file's logits are for {self.head_classes} classes)" if self.head_classes is not None else ""
            parts.append(f"new: {', '.join(new)}{why}")
        if self.missing:
            parts.append(f"missing in the file: {len(self.missing)}")
        unused = [name for name in self.unused if name not in self.foreign]
        if unused:
            parts.append(f"not used: {', '.join(unused)}")
        if self.foreign:
            parts.append(f"unknown to the model: {len(self.foreign)}")
        if self.remark is not None:
            parts.append(self.remark)
        return "; ".join(parts)

    def warnings(self, path: str) -> List[str]:
        """A line for each of `missing` and `foreign` where there are some, with every name."""
        lines = []
        if self.missing:
            lines.append(f"{path} has no {', '.join(self.missing)}: they start from initial values")
        if self.foreign:
            lines.append(f"the model has no place for {', '.join(self.foreign)} of {path}: they are not used")
        return lines
