"""Writes bert/, a tiny BERT as transformers save it, and what it computes.

pip install torch transformers safetensors   # here: torch 2.14.1, transformers 5.24.0
python tests/models/weights/golden/make_hugging_face.py
"""

import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
IDS = [[2, 7, 19, 4, 3, 0], [2, 5, 3, 11, 3, 1]]
MASK = [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
SEGMENTS = [[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]]

torch.manual_seed(0)
settings = transformers.BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
    initializer_range=0.5,
)
model = transformers.BertForPreTraining(settings).eval()
with torch.no_grad():
    for parameter in model.parameters():  # Biases and norms that are not all 0 and 1.
        if parameter.ndim == 1:
            parameter.add_(0.3 * torch.randn(parameter.shape))
    outputs = model(
        input_ids=torch.tensor(IDS), attention_mask=torch.tensor(MASK), token_type_ids=torch.tensor(SEGMENTS)
    )
model.save_pretrained(HERE / "bert")
(HERE / "bert/config.json").unlink()
golden = {
    "input_ids": IDS,
    "input_mask": MASK,
    "segment_ids": SEGMENTS,
    "masked_lm": outputs.prediction_logits.tolist(),
    "next_sentence": outputs.seq_relationship_logits.tolist(),
}
(HERE / "bert/outputs.json").write_text(json.dumps(golden) + "\n")
