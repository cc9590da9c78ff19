"""Training steps on a GPU in meshwork beside PyTorch and JAX, on this machine, each step from host memory to the loss on
the host: the MNIST MLP (f32) and a transformer of the size of GPT-2 (bf16), or the models that --works names, as
`gpu_step --help` lists them. JAX has these two alone.

Each peer is a process of its own and trains the models that meshwork has described to it; other flags are meshwork's,
such as --resnet-batch 128. They take turns on the GPU, again and again. Shown are the medians of milliseconds per step, and
of each one's ratio to meshwork's round before it; and the seconds until the first step had ended, from a process that had
started and data that were made.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import mlp_step
from mlp_step import HERE, Failure

PEERS = [("PyTorch", "torch", "torch_gpu.py"), ("JAX", "jax", "jax_gpu.py")]


class Turns:
    """A process that takes turns."""

    def __init__(self, name, command):
        self.name, self.works, self.ms = name, {}, {}
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{self.name} ended with exit code {self.process.wait()}")
        return json.loads(line)

    def ready(self):
        answer = self.answer()
        self.name, self.works = answer["version"], answer["works"]

    def take(self, work):
        self.process.stdin.write(work + "\n")
        self.process.stdin.flush()
        ms = self.answer()["ms"]
        self.ms.setdefault(work, []).append(ms)
        return ms

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()


def print_table(ours, rows):
    """`rows`: peer, work, how many times each of meshwork's times of the same round, by its work."""
    print(f"{'':34}{'':28}{'ms':>10}{'ratio':>9}{'loss':>10}{'first step s':>14}")
    for work, about in ours.works.items():
        if "error" in about:
            continue
        flops = f"  {about['flops'] / statistics.median(ours.ms[work]) / 1e9:7.1f} TFLOP/s"
        ms, first = statistics.median(ours.ms[work]), about["first_step_s"]
        print(f"{'meshwork':34}{work:28}{ms:10.4f}{'':9}{about['loss']:10.4f}{first:14.2f}{flops}")
    for peer, work, beside in rows:
        ms, about = statistics.median(peer.ms[work]), peer.works[work]
        for our, ratios in beside.items():
            ratio = f"{statistics.median(ratios):9.2f}"
            print(f"{peer.name:34}{work:28}{ms:10.4f}{ratio}{about['loss']:10.4f}{about['first_step_s']:14.2f}  to {our}")


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench peers gpu_step", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", default="torch,jax", help="a list with commas")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each")
    parser.add_argument("--works", default="mlp gpt", help="a list with spaces")
    parser.add_argument("--python", help="a Python that has the peers; otherwise they are installed from PyPI")
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)  # cpu: to try small sizes
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    options, ours_only = parser.parse_known_args()
    wanted = options.peers.split(",")
    if options.repeats < 1:
        parser.error("--repeats is at least 1")
    if unknown := set(wanted) - {peer for _, peer, _ in PEERS}:
        parser.error(f"--peers: there is no {', '.join(sorted(unknown))}; peers are torch and jax")

    command = [options.binary, "--turns", "--works", options.works, "--meshes", "batch=1", "--devices", options.device]
    ours = Turns("meshwork", [*command, *ours_only])
    planned = ours.answer()["works"]
    models = {}  # by what peers call a model: those of ours that train it
    for work, about in planned.items():
        if about:
            models.setdefault(f"{about['model']}/{about['batch']}", []).append(work)
    asked = json.dumps({model: planned[works[0]] for model, works in models.items()})
    peers, rows = [], []
    for name, peer, script in PEERS:
        if peer in wanted:
            python = options.python or mlp_step.output_of([os.path.join(HERE, "python"), peer], None).strip()
            peers.append(Turns(name, [python, os.path.join(HERE, script), "--works", asked, "--device", options.device]))
    try:
        ours.ready()
        for work, about in ours.works.items():
            if "error" in about:
                print(f"{ours.name}, {about['error']}")
        for peer in list(peers):
            try:
                peer.ready()
                print(f"{peer.name} is ready", file=sys.stderr)
            except Failure as failure:
                print(failure)
                peer.end()
                peers.remove(peer)
        pairs = {}  # peer and work to ratios, by ours
        for repeat in range(options.repeats):
            print(f"round {repeat + 1} of {options.repeats}", file=sys.stderr)
            for model, works in models.items():
                beside = {work: ours.take(work) for work in works if "error" not in ours.works[work]}
                for peer in peers:
                    for other, about in peer.works.items():
                        if (other == model or other.startswith(model + "/")) and "error" not in about:
                            ms = peer.take(other)
                            for work, our_ms in beside.items():
                                pairs.setdefault((peer, other), {}).setdefault(work, []).append(ms / our_ms)
        rows = [(peer, work, by_ours) for (peer, work), by_ours in pairs.items()]
        print_table(ours, rows)
        for peer in peers:
            for work, about in peer.works.items():
                if "error" in about:
                    print(f"{peer.name}, {work}: {about['error']}")
    finally:
        for one in (ours, *peers):
            one.end()
    return 0


if __name__ == "__main__":
    mlp_step.run(main)
