"""DLRM as gpu_step trains it, in PyTorch: tables with sparse gradients, each a table of its own as in the authors' code,
or all of them one.
"""

import torch
import torch.nn.functional as F
import torch_training
from torch import nn

MEASURED = 13


def examples(about, device):
    shape = (about["batch"], about["tables"])

    def batch():
        clicks = torch.randint(2, shape[:1]).float()
        return torch.rand(about["batch"], MEASURED), torch.randint(about["rows"], shape, dtype=torch.int32), clicks

    return torch_training.batches_of(batch, device)


def perceptron(*units):
    layers = []
    for inputs, outputs in zip(units, units[1:]):
        linear = nn.Linear(inputs, outputs)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers)


class Tables(nn.Module):
    def __init__(self, about):
        super().__init__()
        sizes = (about["rows"], about["units"])
        self.bags = nn.ModuleList(nn.EmbeddingBag(*sizes, mode="sum", sparse=True) for _ in range(about["tables"]))

    def forward(self, ids):
        return torch.stack([bag(ids[:, t : t + 1]) for t, bag in enumerate(self.bags)], 1)


class OneTable(nn.Module):
    def __init__(self, about):
        super().__init__()
        self.table = nn.Embedding(about["tables"] * about["rows"], about["units"], sparse=True)
        self.register_buffer("first", about["rows"] * torch.arange(about["tables"]))

    def forward(self, ids):
        return self.table(ids + self.first)


class Dlrm(nn.Module):
    def __init__(self, about, tables):
        super().__init__()
        units, features = about["units"], about["tables"] + 1
        self.tables = tables
        for table in tables.parameters():
            nn.init.normal_(table, std=0.02)
        self.bottom = perceptron(MEASURED, 512, 256, units)
        self.top = perceptron(units + features * (features - 1) // 2, 512, 256)
        self.click = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.tril_indices(features, features, -1))

    def forward(self, measured, ids):
        bottom = self.bottom(measured)
        features = torch.cat((bottom[:, None], self.tables(ids)), 1)
        products = torch.bmm(features, features.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.click(self.top(torch.cat((bottom, products), 1)))[:, 0]


def dlrm(about, device, kind=Tables):
    model = Dlrm(about, kind(about)).to(device)
    tables = list(model.tables.parameters())
    others = [p for module in (model.bottom, model.top, model.click) for p in module.parameters()]
    if about["optimizer"] == "sgd":
        optimizers = [torch.optim.SGD(tables, lr=0.1), torch.optim.SGD(others, lr=0.1, fused=True)]
    else:
        optimizers = [torch.optim.Adagrad(tables, lr=0.01), torch.optim.Adagrad(others, lr=0.01, foreach=True)]

    def loss_of(measured, ids, clicks):
        return F.binary_cross_entropy_with_logits(model(measured, ids), clicks)

    return loss_of, optimizers


def dlrm_of_one_table(about, device):
    return dlrm(about, device, OneTable)
