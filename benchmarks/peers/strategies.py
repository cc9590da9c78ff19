"""Strategies beside TensorFlow's of the same names: an MLP for MNIST, small as in TensorFlow's quickstart and large,
from the same weights on the same batches, 40 steps of gradient descent. Shown are the largest relative difference of a loss, and how many times a step of ours a step of TensorFlow
takes, the median of the runs, which take turns. Processes of ours exchange gradients by MPI or by Gloo, TensorFlow's by
gRPC. TensorFlow is installed from PyPI into build/peers on the first run.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile

import mlp_step
from mlp_step import Failure, output_of
from processes import LAUNCHERS, MULTI_WORKER

# Name, --strategy, devices of each process, and what starts ours: by what two workers reach each other; "servers": a chief,
# two workers and a server.
CASES = [
    ("MirroredStrategy, 2 virtual CPUs", "mirrored", 2, None),
    ("MirroredStrategy, 8 virtual CPUs", "mirrored", 8, None),
    ("MultiWorkerMirroredStrategy, 2 processes, MPI", "multi_worker", 1, "mpi"),
    ("MultiWorkerMirroredStrategy, 2 processes, Gloo", "multi_worker", 1, "gloo"),
    ("ParameterServerStrategy, 2 workers, 1 server", "parameter_server", 1, "servers"),
]
TOLERANCE = 1e-5


def write_data(python, path, hidden, batch):
    """Weights and batches, by the interpreter that has NumPy."""
    code = (
        "import sys, numpy as np, work\n"
        "sizes = [784, *map(int, sys.argv[3].split(',')), 10]\n"
        "weights, images, labels = work.data_of(int(sys.argv[2]), sizes=sizes)\n"
        "names = [k + str(layer) for layer in range(len(sizes) - 1) for k in 'wb']\n"
        "np.savez(sys.argv[1], images=images, labels=labels, **dict(zip(names, weights)))\n"
    )
    os.environ["PYTHONPATH"] = mlp_step.HERE
    output_of([python, "-c", code, path, str(batch), hidden], 300)


def run_one(command, transport, timeout):
    """`transport`: None for one process that starts nothing or starts others itself."""
    if transport == "servers":
        command = [os.path.join(MULTI_WORKER, "launch"), "--chief", "--servers", "1", "3", *command]
    elif transport:
        os.environ["PROCESSES"] = "2"
        command = [os.path.join(MULTI_WORKER, LAUNCHERS[transport]), *command]
    lines = [line.removeprefix("[0] ") for line in output_of(command, timeout).splitlines()]
    lines = [line for line in lines if line.startswith("{")]
    if not lines:
        raise Failure("printed no result")
    return json.loads(lines[-1])


def compare(case, data, python, options):
    """Prints a line of the table. Returns whether the losses agree."""
    name, strategy, devices, transport = case
    flags = ["--strategy", strategy, "--num-devices", str(devices), "--data", data, "--steps", str(options.steps)]
    peer_command = [python, os.path.join(mlp_step.HERE, "tensorflow_strategies.py"), *flags]
    ours, theirs, difference = [], [], 0.0
    for repeat in range(options.repeats):
        print(f"run {repeat + 1} of {options.repeats}: {name}", file=sys.stderr)
        mine = run_one([options.binary, *flags], transport, options.timeout)
        peer = run_one(peer_command, "gloo" if strategy == "multi_worker" else None, options.timeout)
        ours.append(mine["ms"])
        theirs.append(peer["ms"])
        for a, b in zip(mine["losses"], peer["losses"], strict=True):
            difference = max(difference, abs(a - b) / abs(b))
    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
    print(f"{name:48}{difference:20.1e}{statistics.median(ours):10.2f}{statistics.median(theirs):10.2f}{ratio:8.2f}", flush=True)
    if difference <= TOLERANCE:
        return True
    print(f"    the losses differ by more than {TOLERANCE}")
    return False


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench peers strategies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", default="16,128", help="examples per step, a list with commas")
    parser.add_argument(
        "--hidden", nargs="+", default=["128", "700,500"], help="units of the hidden layers of each model, a list with commas"
    )
    parser.add_argument("--only", default="", help="the strategies whose names have this text")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.steps, options.repeats, options.timeout) < 1:
        parser.error("--steps, --repeats and --timeout are at least 1")
    if not all(units.isdecimal() and int(units) for hidden in options.hidden for units in hidden.split(",")):
        parser.error("--hidden: each is a list of numbers of units, such as 700,500")
    batches = mlp_step.batches_of(parser, options.batch, 2)
    cases = [case for case in CASES if options.only in case[0]]
    if not cases:
        parser.error(f"--only: no strategy has {options.only} in its name; there are {', '.join(case[0] for case in CASES)}")
    python = output_of([os.path.join(mlp_step.HERE, "python"), "tensorflow"], None).strip()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.npz")
        for hidden, batch in itertools.product(options.hidden, batches):
            write_data(python, data, hidden, batch)
            print(f"{f'784,{hidden},10; batch {batch}':48}{'largest difference':>20}{'our ms':>10}{'ms':>10}{'ratio':>8}")
            for case in cases:
                failed |= not compare(case, data, python, options)
    return 1 if failed else 0


if __name__ == "__main__":
    mlp_step.run(main)
