"""The convolutional networks of gpu_step in PyTorch: channels last, and autocast to bf16 where that is asked for."""

import torch
import torch.nn.functional as F
import torch_step
import torch_training
import work
from torch import nn

IMAGE_CLASSES, PIXEL_CLASSES = 1000, 2


def images_and_labels(about, device):
    shape = (about["batch"], about["image"], about["image"])

    def batch():
        return torch.rand(*shape, 3), torch.randint(IMAGE_CLASSES, shape[:1], dtype=torch.int32)

    return torch_training.batches_of(batch, device)


def images_and_classes(about, device):
    shape = (about["batch"], about["image"], about["image"])

    def batch():
        return torch.rand(*shape, 3), torch.randint(PIXEL_CLASSES, shape, dtype=torch.int32)

    return torch_training.batches_of(batch, device)


def digits(about, device):
    def batch():
        return torch.rand(about["batch"], 28, 28, 1), torch.randint(10, (about["batch"],), dtype=torch.int32)

    return torch_training.batches_of(batch, device)


def he_normal(model):
    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


class Convolution(nn.Module):
    """A convolution and its batch norm."""

    def __init__(self, inputs, filters, size, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, filters, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, x):
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    def __init__(self, inputs, filters, stride, projects):
        super().__init__()
        self.a = Convolution(inputs, filters, 1, 1)
        self.b = Convolution(filters, filters, 3, stride)
        self.c = Convolution(filters, 4 * filters, 1, 1)
        self.shortcut = Convolution(inputs, 4 * filters, 1, stride) if projects else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.shortcut(x))


def make_resnet50():
    layers, inputs = [Convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            filters = 64 << stage
            layers.append(Bottleneck(inputs, filters, 2 if stage > 0 and block == 0 else 1, block == 0))
            inputs = 4 * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, IMAGE_CLASSES))


class UNet(nn.Module):
    LEVELS = 4

    def __init__(self, channels):
        super().__init__()

        def two(inputs, filters):
            convs = (nn.Conv2d(inputs, filters, 3, padding=1), nn.Conv2d(filters, filters, 3, padding=1))
            return nn.Sequential(convs[0], nn.ReLU(), convs[1], nn.ReLU())

        sizes = [channels << level for level in range(self.LEVELS + 1)]
        self.down = nn.ModuleList(two(a, b) for a, b in zip([3, *sizes], sizes))
        self.transposed = nn.ModuleList(nn.ConvTranspose2d(2 * s, s, 2, 2) for s in sizes[:-1])
        self.up = nn.ModuleList(two(2 * s, s) for s in sizes[:-1])
        self.logits = nn.Conv2d(channels, PIXEL_CLASSES, 1)

    def forward(self, x):
        skipped = []
        for level in range(self.LEVELS):
            skipped.append(self.down[level](x))
            x = F.max_pool2d(skipped[-1], 2)
        x = self.down[self.LEVELS](x)
        for level in reversed(range(self.LEVELS)):
            x = self.up[level](torch.cat((skipped[level], self.transposed[level](x)), 1))
        return self.logits(x)


def loss_by(model, about, device):
    """Of images [b,h,w,c], which are the same bytes as channels-last [b,c,h,w]."""

    def loss_of(x, labels):
        with torch.autocast(device, torch.bfloat16, enabled=about["precision"] == "bf16"):
            logits = model(x.permute(0, 3, 1, 2))
        return F.cross_entropy(logits.float(), labels.long())

    return loss_of


def resnet50(about, device):
    model = he_normal(make_resnet50()).to(device, memory_format=torch.channels_last)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    return loss_by(model, about, device), [sgd]


def unet(about, device):
    model = he_normal(UNet(about["channels"])).to(device, memory_format=torch.channels_last)
    return loss_by(model, about, device), [torch_training.adam_of(model.parameters(), 1e-4)]


def cnn(about, device):
    weights, _, _ = work.data_of(about["batch"], "cnn")
    model = torch_step.make_cnn(weights).to(device, memory_format=torch.channels_last)
    return loss_by(model, about, device), [torch_training.adam_of(model.parameters(), 1e-3)]
