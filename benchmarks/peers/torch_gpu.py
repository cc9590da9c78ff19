"""The works of gpu_step in PyTorch: eager, by torch.compile, or both, as suits a model."""

import functools

import gpu_turns
import torch
import torch_convolutions
import torch_dlrm
import torch_gpt
import torch_recurrent
import torch_step
import torch_training
import torch_transformers
import work


def mlp_batches(about, device):
    _, images, labels = work.data_of(about["batch"])
    batches = iter(zip(torch.from_numpy(images), torch.from_numpy(labels)))
    return torch_training.batches_of(lambda: next(batches), device)


def mlp(about, device):
    weights, _, _ = work.data_of(about["batch"])
    model = torch_step.make_model(weights).to(device)

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(model(x), y.long())

    return loss_of, [torch_gpt.adam_of(model.parameters())]


EAGER, COMPILED, BY_GRAPHS = {}, {"mode": "default"}, {"mode": "reduce-overhead"}
# By model: what makes its batches, and the ways in which it is trained: the end of the name, what makes the model, and how
# it is compiled.
MODELS = {
    "mlp": (mlp_batches, [("", mlp, EAGER), ("/compiled", mlp, BY_GRAPHS)]),
    "cnn": (
        torch_convolutions.digits,
        [("", torch_convolutions.cnn, EAGER), ("/compiled", torch_convolutions.cnn, BY_GRAPHS)],
    ),
    "resnet50": (
        torch_convolutions.images_and_labels,
        [("", torch_convolutions.resnet50, EAGER), ("/compiled", torch_convolutions.resnet50, COMPILED)],
    ),
    "unet": (
        torch_convolutions.images_and_classes,
        [("", torch_convolutions.unet, EAGER), ("/compiled", torch_convolutions.unet, COMPILED)],
    ),
    "lstm": (torch_recurrent.tokens_and_targets, [("", torch_recurrent.language_model, EAGER)]),
    "gru": (torch_recurrent.tokens_and_targets, [("", torch_recurrent.language_model, EAGER)]),
    "bilstm": (torch_recurrent.tokens_and_targets, [("", torch_recurrent.language_model, EAGER)]),
    "dlrm": (
        torch_dlrm.examples,
        [("", torch_dlrm.dlrm, EAGER), ("/one_table", torch_dlrm.dlrm_of_one_table, EAGER)],
    ),
    "gpt": (torch_transformers.tokens_and_targets, [("/compiled", torch_transformers.gpt, COMPILED)]),
    "llama": (torch_transformers.tokens_and_targets, [("/compiled", torch_transformers.llama, COMPILED)]),
    "vit": (torch_convolutions.images_and_labels, [("/compiled", torch_transformers.vit, COMPILED)]),
    "bert": (torch_transformers.masked_tokens, [("/compiled", torch_transformers.bert, COMPILED)]),
}


def begin(make, how, about, device, batches):
    loss_of, optimizers = make(about, device)
    if how:
        loss_of = torch.compile(loss_of, **how)
    return torch_training.step_of(loss_of, optimizers, batches, about["precision"], device)


def main():
    asked, device = gpu_turns.parse()
    torch.backends.cudnn.benchmark = True
    works = {}
    for name, about in asked.items():
        make_batches, ways = MODELS[about["model"]]
        for end, make, how in ways:
            works[name + end] = gpu_turns.Work(
                functools.partial(make_batches, about, device), functools.partial(begin, make, how, about, device)
            )
    gpu_turns.serve(f"PyTorch {torch.__version__}", works)


if __name__ == "__main__":
    main()
