"""BERT: `bert` builds the model; the other files each hold one idea of it."""

from .model import bert
from .settings import BertSettings

__all__ = ["BertSettings", "bert"]
