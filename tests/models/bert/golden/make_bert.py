"""Makes the golden files of this folder: a small BERT of Hugging Face, and what it computes.

Not a test, and not run by them: it needs torch 2.14.1, transformers 5.24.0 and safetensors 0.8.0 (later ones should
do), in an environment of their own, apart from TensorFlow's:

    python -m venv golden-env && golden-env/bin/pip install torch transformers safetensors
    golden-env/bin/python tests/models/bert/golden/make_bert.py

It writes, beside itself:
  model.safetensors, config.json  BertForPreTraining by `save_pretrained`, with random weights
  heads.npz    weights of a span and of a tagging head over the same encoder: kernels as torch has them, [out, in]
  golden.npz   inputs, and for each activation ("gelu", exact, and "gelu_tanh") the outputs, the loss of masked words
               (mean over weighted positions) and its gradients for some variables, under Hugging Face's names
"""

import pathlib

import numpy as np
import torch
from transformers import BertConfig, BertForPreTraining

HERE = pathlib.Path(__file__).parent
BATCH, LENGTH, PREDICTIONS, TAGS = 3, 16, 4, 5
GRADIENTS = (
    "bert.embeddings.word_embeddings.weight",
    "bert.embeddings.position_embeddings.weight",
    "bert.embeddings.token_type_embeddings.weight",
    "bert.embeddings.LayerNorm.weight",
    "bert.encoder.layer.0.attention.self.query.weight",
    "bert.encoder.layer.0.attention.self.key.bias",
    "bert.encoder.layer.0.attention.output.LayerNorm.bias",
    "bert.encoder.layer.1.attention.self.value.weight",
    "bert.encoder.layer.1.intermediate.dense.weight",
    "bert.encoder.layer.1.output.dense.weight",
    "bert.encoder.layer.1.output.LayerNorm.weight",
    "cls.predictions.transform.dense.weight",
    "cls.predictions.transform.LayerNorm.bias",
    "cls.predictions.bias",
)


def config(activation):
    return BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
        type_vocab_size=2,
        hidden_act=activation,
    )


def weights():
    """Larger than at the start of training, so that an error anywhere shows in the outputs; norms and biases too."""
    torch.manual_seed(1)
    model = BertForPreTraining(config("gelu"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm.weight" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.2 if name.endswith("bias") else 0.15)
    model.save_pretrained(HERE, safe_serialization=True)
    return model.state_dict()


def inputs():
    numbers = np.random.RandomState(2)
    lengths = np.array([16, 11, 5])
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    return {
        "input_ids": numbers.randint(1, 100, [BATCH, LENGTH]).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": ((np.arange(LENGTH) >= lengths[:, None] // 2) * mask).astype(np.int32),
        # The third example has two predictions, and then padding.
        "masked_lm_positions": np.array([[1, 5, 9, 15], [0, 2, 7, 10], [1, 4, 0, 0]], np.int32),
        "masked_lm_ids": numbers.randint(1, 100, [BATCH, PREDICTIONS]).astype(np.int32),
        "masked_lm_weights": np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]], np.float32),
    }


def run(activation, state, x, heads):
    model = BertForPreTraining(config(activation)).eval()
    model.load_state_dict(state)
    ids, mask, segments, positions, labels = (
        torch.tensor(x[name]).long()
        for name in ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
    )
    encoded = model.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    sequence, pooled = encoded.last_hidden_state, encoded.pooler_output
    words, next_sentence = model.cls(sequence, pooled)
    masked = torch.gather(words, 1, positions[:, :, None].expand(-1, -1, words.shape[-1]))
    losses = torch.nn.functional.cross_entropy(masked.transpose(1, 2), labels, reduction="none")
    kept = torch.tensor(x["masked_lm_weights"])
    loss = (losses * kept).sum() / kept.sum()
    loss.backward()
    parameters = dict(model.named_parameters())
    outputs = {
        "sequence": sequence,
        "pooled": pooled,
        "masked_lm": masked,
        "next_sentence": next_sentence,
        "loss": loss,
    }
    for head in ("span", "tagging"):
        outputs[head] = sequence @ torch.tensor(heads[f"{head}.weight"]).T + torch.tensor(heads[f"{head}.bias"])
    found = {name: tensor.detach().numpy() for name, tensor in outputs.items()}
    return {**found, **{f"gradient:{name}": parameters[name].grad.numpy() for name in GRADIENTS}}


def main():
    state = weights()
    x = inputs()
    numbers = np.random.RandomState(3)
    heads = {}
    for head, classes in (("span", 2), ("tagging", TAGS)):
        heads[f"{head}.weight"] = numbers.normal(0, 0.2, [classes, 32]).astype(np.float32)
        heads[f"{head}.bias"] = numbers.normal(0, 0.2, [classes]).astype(np.float32)
    np.savez_compressed(HERE / "heads.npz", **heads)
    golden = dict(x)
    for ours, theirs in (("gelu", "gelu"), ("gelu_tanh", "gelu_new")):
        golden.update({f"{ours}/{name}": value for name, value in run(theirs, state, x, heads).items()})
    np.savez_compressed(HERE / "golden.npz", **golden)


if __name__ == "__main__":
    main()
