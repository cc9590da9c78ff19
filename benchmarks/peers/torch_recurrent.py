"""The recurrent networks of gpu_step in PyTorch, whose layers are cuDNN's."""

import torch
import torch.nn.functional as F
import torch_training
from torch import nn


def tokens_and_targets(about, device):
    shape = (about["batch"], about["steps"])

    def batch():
        return tuple(torch.randint(about["vocabulary"], shape, dtype=torch.int32) for _ in range(2))

    return torch_training.batches_of(batch, device)


class LanguageModel(nn.Module):
    def __init__(self, about):
        super().__init__()
        units, vocabulary = about["units"], about["vocabulary"]
        both = about["model"] == "bilstm"
        kind = nn.GRU if about["model"] == "gru" else nn.LSTM
        self.embedding = nn.Embedding(vocabulary, units)
        self.layers = kind(units, units, num_layers=2, batch_first=True, bidirectional=both)
        self.logits = nn.Linear(2 * units if both else units, vocabulary)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens):
        return self.logits(self.layers(self.embedding(tokens))[0])


def language_model(about, device):
    model = LanguageModel(about).to(device)

    def loss_of(tokens, targets):
        return F.cross_entropy(model(tokens).flatten(0, 1), targets.long().flatten())

    return loss_of, [torch_training.adam_of(model.parameters(), 1e-3)]
