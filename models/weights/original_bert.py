"""BERT as the original release names it (google-research/bert), which are the names of our own BERT too."""

from typing import Any, Callable, Dict, Optional, Tuple

from .layout import Layout, as_it_is, by_name, transposed

# What the release's scripts for fine-tuning call their heads: of a classifier, and of SQuAD.
_HEADS: Dict[str, Tuple[str, Callable[..., Any]]] = {
    "output_weights": ("logits/kernel", transposed),
    "output_bias": ("logits/bias", as_it_is),
    "cls/squad/output_weights": ("span_logits/kernel", transposed),
    "cls/squad/output_bias": ("span_logits/bias", as_it_is),
}


def _translate(name: str) -> Optional[Tuple[str, Callable[..., Any]]]:
    return _HEADS.get(name, (name, as_it_is))


def _remark(model: Any) -> Optional[str]:
    # Only our blocks call their activation by a name; Keras's layers have a function there.
    if any(getattr(layer, "activation", None) == "gelu" for layer in model.layers):
        return (
            "the original release computes GELU by tanh, the model exactly: "
            "build it with activation='gelu_tanh' for the same"
        )
    return None


LAYOUT = Layout(
    title="original BERT",
    sign=r"bert/embeddings/word_embeddings",
    sources=by_name(_translate),
    remark=_remark,
    ignored=r".*/(adam_m|adam_v)|signal_early_stopping/.*|(beta1|beta2)_power",
)
