"""Trains the examples on a PJRT plugin and on the CPU backend, and compares the losses of each step.

usage: compare_trainings.py [--quick] BUILD_DIR PLUGIN...

--quick: one of them.
"""
import json
import os
import subprocess
import sys
import tempfile

STEPS = 5
MESHES = ("batch=8", "batch=4,model=2")
# Of a loss. What XLA does differently – the order of sums, its own exp – goes through five updates.
TOLERANCES = {"f32": 1e-5, "f64": 1e-9}
EXAMPLES = {
    "mlp_mnist": ["--train-examples", "1000", "--test-examples", "200", "--data-dir", "synthetic"],
    "cnn_mnist": ["--train-examples", "1000", "--test-examples", "200", "--data-dir", "synthetic"],
    "gpt": ["--sample-bytes", "8"],
    "moe": ["--sample-bytes", "8"],
}


def losses(build, example, arguments):
    """Of each step; None, and the output, if the training failed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "training.json")
        command = [os.path.join(build, "examples", example), "--json", path, "--steps", str(STEPS), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if ended.returncode != 0:
            return None, ended.stdout + ended.stderr
        return json.load(open(path))["step_losses"], ""


# Of --quick.
QUICK = (("mlp_mnist", "batch=4,model=2", "f64"),)


def main():
    arguments = sys.argv[1:]
    cases = [(example, mesh, dtype) for example in EXAMPLES for mesh in MESHES for dtype in TOLERANCES]
    if arguments[0] == "--quick":
        cases, arguments = QUICK, arguments[1:]
    build, plugins = arguments[0], arguments[1:]
    wrong = 0
    for example, mesh, dtype in cases:
        flags = [*EXAMPLES[example], "--mesh", mesh, "--dtype", dtype]
        expected, output = losses(build, example, flags)
        if expected is None or len(expected) != STEPS:
            sys.exit(f"{example} {mesh} {dtype} on the CPU: {expected} {output}")
        for plugin in plugins:
            name = f"{example} {mesh} {dtype} on {os.path.basename(plugin)}"
            found, output = losses(build, example, [*flags, "--devices", f"pjrt:{plugin}:cpu_device_count=8"])
            if found is None or len(found) != len(expected):
                wrong += 1
                print(f"{name}: {found} {output[-2000:]}")
                continue
            worst = max(abs(a - b) / abs(a) for a, b in zip(expected, found))
            is_wrong = not worst <= TOLERANCES[dtype]
            print(f"{name}: losses differ by {worst:.1e} at most" + (": WRONG" if is_wrong else ""), flush=True)
            wrong += is_wrong
    sys.exit(1 if wrong else 0)


main()
