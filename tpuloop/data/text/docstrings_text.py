"""English text with labels that every CPython has: what the docstrings of its standard library say, by package.

The packages are in every distribution of Python 3.8 to 3.10, which have some 1,700 different docstrings in them.
"""

import ast
import os
import sysconfig
from typing import Iterator, List, Tuple

from tpuloop.errors import UsageError

PACKAGES = ("asyncio", "email", "http", "importlib", "logging", "multiprocessing", "unittest", "xml")

_FEWEST_WORDS = 5
_TESTS = ("test", "tests")


def labelled_docstrings() -> Tuple[List[str], List[int]]:
    """Docstrings of at least five words, each in one line and none twice, and the number of each one's package.

    The source files are parsed, not imported.

    Raises:
      UsageError: where a package's files are missing.
    """
    library = sysconfig.get_paths()["stdlib"]
    texts: List[str] = []
    labels: List[int] = []
    seen = set()
    for label, package in enumerate(PACKAGES):
        folder = os.path.join(library, package)
        if not os.path.isdir(folder):
            raise UsageError(f"the standard library of this Python has no files of {package!r} in {library}")
        for path in _python_files(folder):
            for text in _docstrings(path):
                if text not in seen and len(text.split()) >= _FEWEST_WORDS:
                    seen.add(text)
                    texts.append(text)
                    labels.append(label)
    return texts, labels


def _python_files(folder: str) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _TESTS)
        yield from (os.path.join(root, name) for name in sorted(files) if name.endswith(".py"))


def _docstrings(path: str) -> Iterator[str]:
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Module)):
            text = ast.get_docstring(node)
            if text:
                yield " ".join(text.split())
