"""Which layout a file has, by its names."""

from typing import Collection

from . import hugging_face_bert, keras_applications_resnet, original_bert, own_names, torchvision_resnet
from .layout import Layout

LAYOUTS = (
    torchvision_resnet.LAYOUT,
    keras_applications_resnet.LAYOUT,
    hugging_face_bert.LAYOUT,
    original_bert.LAYOUT,
)

_SHOWN = 5


def recognise(names: Collection[str], *, variables: Collection[str]) -> Layout:
    """The layout of a file.

    Args:
      names: in the file.
      variables: the names of the model's variables; a file that has one of them and no other sign is by own names.

    Raises:
      ValueError: where it is none that is known, showing some of the names.
    """
    for layout in LAYOUTS:
        if layout.is_layout_of(names):
            return layout
    if not set(names).isdisjoint(variables):
        return own_names.LAYOUT
    if not names:
        raise ValueError("it holds nothing: save or download it again")
    shown = sorted(names)[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    raise ValueError(
        f"its names ({', '.join(shown)}{more}) are of no layout that is known here: "
        f"{', '.join(layout.title for layout in LAYOUTS)}, or the model's own ({', '.join(sorted(variables)[:2])})"
    )
