"""A training step of the MNIST MLP, or a CNN, in meshwork beside JAX, TensorFlow DTensor and PyTorch, on this machine.

Each peer (work.py says what it does) runs in a process of its own, right after meshwork's benchmarks/mlp_step (or
cnn_step) on the same mesh, again and again. Shown are the medians of milliseconds per step, and of each peer's ratio to meshwork's run
before it. On the first run peers are installed from PyPI into build/peers; one that cannot be installed, fails, or
does not end in time is a line that says so.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Name, what to install, script and arguments, mesh.
PEERS = [
    ("JAX", "jax", ["jax_step.py"], "batch=1"),
    ("JAX", "jax", ["jax_step.py"], "batch=8"),
    ("JAX", "jax", ["jax_step.py"], "batch=4,model=2"),
    ("TensorFlow DTensor", "tensorflow", ["tensorflow_step.py"], "batch=8"),
    ("PyTorch", "torch", ["torch_step.py"], "batch=1"),
    ("PyTorch DDP", "torch", ["torch_step.py"], "batch=8"),
    ("PyTorch DTensor", "torch", ["torch_step.py", "--dtensor"], "batch=8"),
]
# Those that have the CNN, too, which is no more than its examples sharded.
CNN_PEERS = [PEERS[0], PEERS[1], PEERS[4]]
# Of the losses after a few steps, which all peers take on the same data.
TOLERANCE = 1e-3


class Failure(Exception):
    pass


def end(process):
    """Ends a process and what it has started: launchers end their processes when they are asked to."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def output_of(command, timeout):
    """What a command prints to standard output."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        raise Failure(f"stopped after {timeout} s, as in a deadlock") from None
    except KeyboardInterrupt:
        end(process)
        raise
    if process.returncode != 0:
        lines = err.strip().splitlines() or [f"exit code {process.returncode}"]
        raise Failure("failed: " + lines[-1][:160])
    return out


class Row:
    """What the runs of a peer, or of meshwork on a mesh, gave."""

    def __init__(self, name, mesh, peer=None, script=()):
        self.name, self.mesh, self.peer, self.script = name, mesh, peer, list(script)
        self.ms, self.ratios, self.losses = {}, {}, {}  # by batch
        self.failures, self.given_up = [], False

    def add(self, results, ours=None):
        for batch, result in results.items():
            batch = int(batch)
            self.ms.setdefault(batch, []).append(result["ms"])
            if ours is not None:
                self.ratios.setdefault(batch, []).append(result["ms"] / ours[batch]["ms"])
                self.losses[batch] = result["loss"]

    def notes(self, expected):
        """Failures, and losses that are not the expected ones, which the other peers have."""
        notes = [f"{self.failures.count(f)} x {f}" for f in dict.fromkeys(self.failures)]
        for batch, loss in self.losses.items():
            if abs(loss - expected[batch]) > TOLERANCE * abs(expected[batch]):
                notes.append(f"batch {batch}: its loss is {loss:.4f}, not {expected[batch]:.4f}")
        return notes


def run_meshwork(binary, mesh, batches, timeout):
    command = [binary, "--only", mesh, "--batch", batches, "--repeats=3", "--json=-"]
    report = json.loads(output_of(command, timeout))
    return {entry["batch"]: {"ms": entry["variants"][0]["ms"]} for entry in report["batches"]}


def cells_of(row, batches):
    cells = []
    for batch in batches:
        ms, ratios = row.ms.get(batch), row.ratios.get(batch)
        cells.append(f"{statistics.median(ms):9.2f}" if ms else " " * 9)
        cells.append(f"{statistics.median(ratios):7.2f}" if ratios else " " * 7)
    return "".join(cells)


def print_table(rows, batches):
    losses = {b: [row.losses[b] for row in rows if b in row.losses] for b in batches}
    expected = {b: statistics.median(values) for b, values in losses.items() if values}
    print("ms per step, and how many times that of meshwork on the same mesh\n")
    print(f"{'':22}{'':18}" + "".join(f"{'batch ' + str(batch):>16}" for batch in batches))
    for row in rows:
        print(f"{row.name:22}{row.mesh:18}{cells_of(row, batches)}".rstrip())
        for note in row.notes(expected):
            print(f"    {note}")


def compare(peers, batches, options, flags, run_ours):
    """Runs each row of `peers`, with `flags`, beside meshwork on its mesh, options.repeats times, and prints the table."""
    pythons = {}
    for peer in dict.fromkeys(row.peer for row in peers):
        try:
            pythons[peer] = output_of([os.path.join(HERE, "python"), peer], None).strip()
        except Failure as failure:
            for row in peers:
                if row.peer == peer:
                    row.failures, row.given_up = [str(failure)], True
    ours = {row.mesh: Row("meshwork", row.mesh) for row in peers}
    for repeat in range(options.repeats):
        for row in peers:
            if row.given_up:
                continue
            print(f"run {repeat + 1} of {options.repeats}: {row.name}, {row.mesh}", file=sys.stderr)
            beside = run_ours(row.mesh)
            ours[row.mesh].add(beside)
            command = [pythons[row.peer], *row.script, "--mesh", row.mesh, *flags]
            command[1] = os.path.join(HERE, command[1])
            try:
                row.add(json.loads(output_of(command, options.timeout).splitlines()[-1])["batches"], beside)
            except Failure as failure:
                row.failures.append(str(failure))
                row.given_up = not row.ms
    print_table([*ours.values(), *peers], batches)


def add_run_arguments(parser, peers):
    """What every comparison takes."""
    parser.add_argument("--peers", default=peers, help="a list with commas")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")


def check_run_arguments(parser, options, known, names):
    """`known`: the peers, each with what to install in its second place; `names`: these in words."""
    if options.repeats < 1 or options.timeout < 1:
        parser.error("--repeats and --timeout are at least 1")
    if unknown := set(options.peers.split(",")) - {peer[1] for peer in known}:
        parser.error(f"--peers: there is no {', '.join(sorted(unknown))}; peers are {names}")


def batches_of(parser, text, devices):
    """The batches of a list with commas."""
    try:
        batches = [int(batch) for batch in text.split(",")]
    except ValueError:
        parser.error(f"--batch: {text} is not a list of whole numbers")
    if min(batches) < devices or any(batch % devices for batch in batches):
        parser.error(f"--batch: the peers divide the examples among {devices} devices; give multiples of {devices}")
    return batches


def run(main):
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"peers: meshwork {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp", help="what is trained")
    parser.add_argument("--batch", help="examples per step, a list with commas; 128,1024,4096, of the CNN 64")
    add_run_arguments(parser, "jax,tensorflow,torch")
    parser.add_argument("--binaries", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    is_cnn = options.model == "cnn"
    options.batch = options.batch or ("64" if is_cnn else "128,1024,4096")
    check_run_arguments(parser, options, PEERS, "jax, tensorflow and torch")
    batches = batches_of(parser, options.batch, 8)

    known = CNN_PEERS if is_cnn else PEERS
    binary = os.path.join(options.binaries, f"{options.model}_step")
    peers = [Row(name, mesh, peer, script) for name, peer, script, mesh in known if peer in options.peers.split(",")]
    flags = ["--batch", options.batch, "--model", options.model]
    compare(peers, batches, options, flags, lambda mesh: run_meshwork(binary, mesh, options.batch, options.timeout))
    return 0


if __name__ == "__main__":
    run(main)
