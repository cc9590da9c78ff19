"""A training step of the MNIST MLP by two processes on this machine: meshwork beside PyTorch's DistributedDataParallel and
JAX, which exchange gradients by Gloo.

Each peer (work.py says what it does) runs right after meshwork's benchmarks/processes, again and again; mlp_step.py says
the rest.
"""

import argparse
import json
import os

import mlp_step
from mlp_step import Row, output_of

MULTI_WORKER = os.path.join(os.path.dirname(os.path.dirname(mlp_step.HERE)), "examples", "multi_worker")
LAUNCHERS = {"mpi": "by_mpirun.sh", "gloo": "by_tf_config.sh"}
# Name, what to install, script, mesh: a device in each process.
PEERS = [
    ("PyTorch DDP", "torch", "torch_step.py", "batch=2"),
    ("JAX", "jax", "jax_step.py", "batch=2"),
]


def run_meshwork(binary, transport, mesh, batches, timeout):
    command = [os.path.join(MULTI_WORKER, LAUNCHERS[transport]), binary, "--mesh", mesh, "--sizes", "", "--batches"]
    command += [" ".join(map(str, batches)), "--rounds=3", "--json=-"]
    report = json.loads(output_of(command, timeout))
    return {entry["examples"]: {"ms": entry["ms"]} for entry in report["steps"]}


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench peers processes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", default="128,1024,4096", help="examples per step, a list with commas")
    parser.add_argument("--transport", choices=sorted(LAUNCHERS), default="gloo", help="of meshwork")
    mlp_step.add_run_arguments(parser, "torch,jax")
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    mlp_step.check_run_arguments(parser, options, PEERS, "torch and jax")
    batches = mlp_step.batches_of(parser, options.batch, 2)
    wanted = options.peers.split(",")
    peers = [Row(name, mesh, peer, [script]) for name, peer, script, mesh in PEERS if peer in wanted]

    def run_ours(mesh):
        return run_meshwork(options.binary, options.transport, mesh, batches, options.timeout)

    mlp_step.compare(peers, batches, options, ["--batch", options.batch], run_ours)
    return 0


if __name__ == "__main__":
    mlp_step.run(main)
