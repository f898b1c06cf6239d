"""BERT as Hugging Face transformers name it, with and without "bert." before the encoder's names."""

import dataclasses
import re
from typing import Any, Callable, Collection, Dict, List, Optional, Tuple

from .layout import Layout, Source, as_it_is, by_name, transposed

# The file's name without its last part -> our name without its last part. "." in ours: as in the file, with slashes.
_DENSE = (
    r"encoder\.layer\.\d+\.(attention\.self\.(query|key|value)|attention\.output\.dense|(intermediate|output)\.dense)"
)
_NORM = r"embeddings\.LayerNorm|encoder\.layer\.\d+\.(attention\.)?output\.LayerNorm"
_TABLE = r"embeddings\.(word|position|token_type)_embeddings"
_OUTPUT_BIAS = "cls/predictions/output_bias"
_HEADS = {
    "cls.predictions.transform.dense.weight": ("cls/predictions/transform/dense/kernel", transposed),
    "cls.predictions.transform.dense.bias": ("cls/predictions/transform/dense/bias", as_it_is),
    "cls.predictions.bias": (_OUTPUT_BIAS, as_it_is),
    "cls.seq_relationship.weight": ("cls/seq_relationship/output_weights", as_it_is),
    "cls.seq_relationship.bias": ("cls/seq_relationship/output_bias", as_it_is),
    "classifier.weight": ("logits/kernel", transposed),
    "classifier.bias": ("logits/bias", as_it_is),
    "qa_outputs.weight": ("span_logits/kernel", transposed),
    "qa_outputs.bias": ("span_logits/bias", as_it_is),
}
# Newer files have the first two names, older ones the others.
_NORM_PARTS = {"weight": "gamma", "bias": "beta", "gamma": "gamma", "beta": "beta"}
# The same tensors as others have; a file that keeps each tensor once may have kept these.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": _OUTPUT_BIAS,
}


def _translate(name: str) -> Optional[Tuple[str, Callable[..., Any]]]:
    if name in _HEADS:
        return _HEADS[name]
    path, _, part = name.rpartition(".")
    if path == "cls.predictions.transform.LayerNorm" and part in _NORM_PARTS:
        return f"cls/predictions/transform/LayerNorm/{_NORM_PARTS[part]}", as_it_is
    path = path[len("bert.") :] if path.startswith("bert.") else path
    ours = "bert/" + path.replace("layer.", "layer_").replace(".", "/")
    if re.fullmatch(_TABLE, path) and part == "weight":
        return ours, as_it_is
    if re.fullmatch(_NORM, path) and part in _NORM_PARTS:
        return f"{ours}/{_NORM_PARTS[part]}", as_it_is
    if re.fullmatch(rf"{_DENSE}|pooler\.dense", path) and part in ("weight", "bias"):
        return (f"{ours}/kernel", transposed) if part == "weight" else (f"{ours}/bias", as_it_is)
    return None


def _sources(names: Collection[str], model: Any) -> Dict[str, Source]:
    found = by_name(_translate)(names, model)
    pairs: List[Tuple[str, str]] = []
    for name, ours in _TIED.items():
        if name not in names:
            continue
        if ours in found:
            pairs.append((name, found[ours].names[0]))
        else:
            found[ours] = Source((name,))
    if _OUTPUT_BIAS in found:  # Only a model with that head has to have them tied.
        found[_OUTPUT_BIAS] = dataclasses.replace(found[_OUTPUT_BIAS], tied=tuple(pairs))
    return found


LAYOUT = Layout(
    title="Hugging Face BERT",
    sign=r"(bert\.)?encoder\.layer\.0\.attention\.self\.query\.weight",
    sources=_sources,
    ignored=r"(bert\.)?embeddings\.position_ids|cls\.predictions\.decoder\.(weight|bias)",
)
