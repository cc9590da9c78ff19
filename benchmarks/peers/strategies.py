"""Strategies beside TensorFlow's of the same names: the MNIST MLP from the same weights on the same batches, 40 steps of
gradient descent. Shown are the largest relative difference of a loss, and how many times a step of ours a step of TensorFlow
takes, the median of the runs, which take turns. TensorFlow is installed from PyPI into build/peers on the first run.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

import mlp_step
from mlp_step import Failure, output_of

LAUNCHER = os.path.join(os.path.dirname(os.path.dirname(mlp_step.HERE)), "examples", "multi_worker", "by_tf_config.sh")
# Name, --strategy, devices of each process, processes.
CASES = [
    ("MirroredStrategy, 2 virtual CPUs", "mirrored", 2, 1),
    ("MirroredStrategy, 8 virtual CPUs", "mirrored", 8, 1),
    ("MultiWorkerMirroredStrategy, 2 processes", "multi_worker", 1, 2),
]
TOLERANCE = 1e-5


def write_data(python, path, batch):
    """Weights and batches, by the interpreter that has NumPy."""
    code = (
        "import sys, numpy as np, work\n"
        "weights, images, labels = work.data_of(int(sys.argv[2]))\n"
        "names = [k + str(layer) for layer in range(3) for k in 'wb']\n"
        "np.savez(sys.argv[1], images=images, labels=labels, **dict(zip(names, weights)))\n"
    )
    os.environ["PYTHONPATH"] = mlp_step.HERE
    output_of([python, "-c", code, path, str(batch)], 300)


def run_one(command, processes, timeout):
    if processes > 1:
        os.environ["PROCESSES"] = str(processes)
        command = [LAUNCHER, *command]
    lines = [line for line in output_of(command, timeout).splitlines() if line.startswith("{")]
    if not lines:
        raise Failure("printed no result")
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench peers strategies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=128, help="examples per step")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.batch, options.steps, options.repeats, options.timeout) < 1:
        parser.error("--batch, --steps, --repeats and --timeout are at least 1")
    python = output_of([os.path.join(mlp_step.HERE, "python"), "tensorflow"], None).strip()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.npz")
        write_data(python, data, options.batch)
        print(f"{'':44}{'largest difference':>20}{'our ms':>10}{'ms':>10}{'ratio':>8}")
        for name, strategy, devices, processes in CASES:
            flags = ["--strategy", strategy, "--devices", str(devices), "--data", data, "--steps", str(options.steps)]
            ours, theirs, ratios, difference = [], [], [], 0.0
            for repeat in range(options.repeats):
                print(f"run {repeat + 1} of {options.repeats}: {name}", file=sys.stderr)
                mine = run_one([options.binary, *flags], processes, options.timeout)
                peer = run_one(
                    [python, os.path.join(mlp_step.HERE, "tensorflow_strategies.py"), *flags], processes, options.timeout
                )
                ours.append(mine["ms"])
                theirs.append(peer["ms"])
                ratios.append(peer["ms"] / mine["ms"])
                for a, b in zip(mine["losses"], peer["losses"], strict=True):
                    difference = max(difference, abs(a - b) / abs(b))
            print(
                f"{name:44}{difference:20.1e}{statistics.median(ours):10.2f}{statistics.median(theirs):10.2f}"
                f"{statistics.median(ratios):8.2f}"
            )
            if not difference <= TOLERANCE:
                print(f"    the losses differ by more than {TOLERANCE}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    mlp_step.run(main)
