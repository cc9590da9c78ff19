#!/usr/bin/env python3
"""Prints how far two files of numbers are apart: |a - b| / |b| in the Euclidean norm, per tensor.

The files are safetensors files, or JSON files: a list of numbers (losses), or an object that has such a
list as "step_losses". b is the reference.
Exit codes: 0; 1 where a tensor is above --tolerance, not finite, missing or of another shape; 2 where
an argument or a file is wrong.
"""

import argparse
import json
import sys

import numpy as np

from tensor_file import FileError, read_safetensors


def read(path):
    if not path.endswith(".json"):
        return read_safetensors(path)
    with open(path, encoding="utf-8") as file:
        try:
            losses = json.load(file)
            if isinstance(losses, dict):
                losses = losses["step_losses"]
            return {"losses": np.array(losses, dtype=np.float64)}
        except (ValueError, TypeError, KeyError) as error:
            raise FileError(f"{path}: no JSON list of numbers in it: {error}") from error


def distance(a, b):
    """|a - b| / |b|, computed in float64; 0 where both are 0. Not finite where a or b is not."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    difference, norm = np.linalg.norm(a - b), np.linalg.norm(b)
    if norm == 0:
        return 0.0 if difference == 0 else float("inf")
    return float(difference / norm)


def compare(a, b, tolerance):
    """Prints one line per tensor of a or b; returns whether all are within the tolerance."""
    good = True
    for name in [*b, *(name for name in a if name not in b)]:
        if name not in a or name not in b:
            verdict, is_good = f"only in {'a' if name in a else 'b'}", False
        elif a[name].shape != b[name].shape:
            verdict, is_good = f"shapes {a[name].shape} and {b[name].shape}", False
        else:
            value = distance(a[name], b[name])
            is_good = value <= tolerance
            verdict = f"{value:.3e}"
        print(f"{name:<24} {verdict}{'' if is_good else '   TOO FAR'}")
        good = good and is_good
    return good


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a")
    parser.add_argument("b", help="the reference")
    parser.add_argument("--tolerance", type=float, default=1e-9)
    arguments = parser.parse_args()
    return 0 if compare(read(arguments.a), read(arguments.b), arguments.tolerance) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FileError, OSError) as error:
        print(f"compare: {error}", file=sys.stderr)
        sys.exit(2)
