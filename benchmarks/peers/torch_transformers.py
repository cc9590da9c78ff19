"""The transformers of gpu_step in PyTorch. Weights are f32, of which each step casts copies to bf16 if that is asked for;
norms and losses are computed in f32.
"""

import gpt_work
import torch
import torch.nn.functional as F
import torch_gpt
import torch_training
from torch import nn

CLASSES, PATCH, NOT_MASKED = 1000, 16, -1


def tokens_and_targets(about, device):
    shape = (about["batch"], about["sequence"])

    def batch():
        return tuple(torch.randint(about["vocabulary"], shape, dtype=torch.int32) for _ in range(2))

    return torch_training.batches_of(batch, device)


def masked_tokens(about, device):
    """Behind its length a sequence is padding."""
    shape, sequence = (about["batch"], about["sequence"]), about["sequence"]

    def batch():
        tokens = torch.randint(about["vocabulary"], shape, dtype=torch.int32)
        lengths = torch.randint((sequence + 1) // 2, sequence + 1, (shape[0], 1))
        is_token = torch.arange(sequence) < lengths
        targets = torch.where(is_token & (torch.rand(shape) < 0.15), tokens, NOT_MASKED)
        return tokens, torch.randint(2, shape, dtype=torch.int32), is_token, targets

    return torch_training.batches_of(batch, device)


class Attention(nn.Module):
    def __init__(self, about, bias, causal=False, rotary=False):
        super().__init__()
        dim = about["dim"]
        self.heads, self.causal, self.rotary = about["heads"], causal, rotary
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias), nn.Linear(dim, dim, bias)

    def forward(self, x, mask=None):
        b, s, dim = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = rotated(q), rotated(k)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, s, dim))


def rotated(x):
    """x: [b,h,s,d]."""
    s, half = x.shape[2], x.shape[3] // 2
    frequencies = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(s, device=x.device)[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Gated(nn.Module):
    def __init__(self, dim):
        super().__init__()
        hidden = 8 * dim // 3
        self.gate, self.up = nn.Linear(dim, hidden, False), nn.Linear(dim, hidden, False)
        self.down = nn.Linear(hidden, dim, False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """With norms before each part, or behind."""

    def __init__(self, about, norm, attention, feed_forward, norms_behind=False):
        super().__init__()
        self.norm1, self.attention = norm(about["dim"], eps=1e-5), attention
        self.norm2, self.feed_forward = norm(about["dim"], eps=1e-5), feed_forward(about["dim"])
        self.norms_behind = norms_behind

    def forward(self, x, mask=None):
        if self.norms_behind:
            x = self.norm1(x + self.attention(x, mask))
            return self.norm2(x + self.feed_forward(x))
        x = x + self.attention(self.norm1(x), mask)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, about):
        super().__init__()
        self.embedding = nn.Embedding(about["vocabulary"], about["dim"])
        self.blocks = nn.ModuleList(
            Block(about, nn.RMSNorm, Attention(about, bias=False, causal=True, rotary=True), Gated)
            for _ in range(about["layers"])
        )
        self.norm = nn.RMSNorm(about["dim"], eps=1e-5)
        self.head = nn.Linear(about["dim"], about["vocabulary"], False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Vit(nn.Module):
    def __init__(self, about):
        super().__init__()
        dim, patches = about["dim"], (about["image"] // PATCH) ** 2
        self.patches = nn.Conv2d(3, dim, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, patches + 1, dim))
        self.blocks = nn.ModuleList(
            Block(about, nn.LayerNorm, Attention(about, bias=True), FeedForward) for _ in range(about["layers"])
        )
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, CLASSES)

    def forward(self, images):
        x = self.patches(images.permute(0, 3, 1, 2).to(self.token.dtype)).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class Bert(nn.Module):
    def __init__(self, about):
        super().__init__()
        dim, vocabulary = about["dim"], about["vocabulary"]
        self.embedding, self.segments = nn.Embedding(vocabulary, dim), nn.Embedding(2, dim)
        self.positions = nn.Parameter(torch.zeros(about["sequence"], dim))
        self.norm, self.head_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.blocks = nn.ModuleList(
            Block(about, nn.LayerNorm, Attention(about, bias=True), FeedForward, norms_behind=True)
            for _ in range(about["layers"])
        )
        self.head, self.head_bias = nn.Linear(dim, dim), nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens, segments, is_token):
        x = self.norm(self.embedding(tokens) + self.positions + self.segments(segments))
        for block in self.blocks:
            x = block(x, is_token[:, None, None, :])
        x = self.head_norm(F.gelu(self.head(x)))
        return F.linear(x, self.embedding.weight, self.head_bias)


def training(make, about, device, learning_rate):
    """Of a model whose last input is what its logits are compared with."""
    model = make(about)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    model = model.to(device)
    parameters = dict(model.named_parameters())

    def loss_of(*batch):
        copies = parameters
        if about["precision"] == "bf16":
            copies = {name: parameter.to(torch.bfloat16) for name, parameter in parameters.items()}
        logits = torch.func.functional_call(model, copies, batch[:-1])
        logits, targets = logits.view(-1, logits.shape[-1]), batch[-1].long().view(-1)
        return F.cross_entropy(logits.float(), targets, ignore_index=NOT_MASKED)

    return loss_of, [torch_training.adam_of(model.parameters(), learning_rate)]


def llama(about, device):
    return training(Llama, about, device, 1e-3)


def vit(about, device):
    return training(Vit, about, device, 1e-4)


def bert(about, device):
    return training(Bert, about, device, 1e-4)


def gpt(about, device):
    gpt_work.use(about)
    weights = torch_gpt.mapped(gpt_work.weights(), lambda w: torch.from_numpy(w).to(device).requires_grad_())

    def loss_of(tokens, targets):
        copies = weights
        if about["precision"] == "bf16":
            copies = torch_gpt.mapped(weights, lambda w: w.to(torch.bfloat16))
        return torch_gpt.loss_of(copies, tokens, targets.long())

    return loss_of, [torch_gpt.adam_of(torch_gpt.leaves(weights))]
