"""Files by the names of the model's own variables, as another run of the same architecture leaves them."""

from typing import Any, Callable, Tuple

from .layout import Layout, as_it_is, by_name


def _translate(name: str) -> Tuple[str, Callable[..., Any]]:
    return name, as_it_is


LAYOUT = Layout(title="the model's own names", sign=r".*", sources=by_name(_translate))
