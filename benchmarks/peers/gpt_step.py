"""A training step of a transformer in meshwork beside JAX and PyTorch, on this machine.

Each peer (gpt_work.py says what it does) runs in a process of its own, right after meshwork's benchmarks/gpt_step on the
same mesh, again and again; mlp_step.py says the rest.
"""

import argparse
import json

import mlp_step
from mlp_step import Row, output_of

BATCH = 16  # that of gpt_work.py, which needs NumPy and runs in the environments of the peers
# Name, what to install, script, mesh.
PEERS = [
    ("JAX", "jax", "jax_gpt.py", "batch=1"),
    ("JAX", "jax", "jax_gpt.py", "batch=8"),
    ("JAX", "jax", "jax_gpt.py", "batch=4,model=2"),
    ("PyTorch", "torch", "torch_gpt.py", "batch=1"),
]


def run_meshwork(binary, mesh, timeout):
    report = json.loads(output_of([binary, "--only", mesh, "--repeats=3", "--json=-"], timeout))
    return {BATCH: {"ms": report["variants"][0]["ms"]}}


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench peers gpt_step", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mlp_step.add_run_arguments(parser, "jax,torch")
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = options.peers.split(",")
    mlp_step.check_run_arguments(parser, options, PEERS, "jax and torch")
    peers = [Row(name, mesh, peer, [script]) for name, peer, script, mesh in PEERS if peer in wanted]
    mlp_step.compare(peers, [BATCH], options, [], lambda mesh: run_meshwork(options.binary, mesh, options.timeout))
    return 0


if __name__ == "__main__":
    mlp_step.run(main)
