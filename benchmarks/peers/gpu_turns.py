"""How a peer of gpu_step takes turns with the others: each is a process that prepares the works that --works describes,
says so by a line of JSON, and then times what standard input names, one work a line, when nobody else uses the GPU.
"""

import argparse
import json
import sys
import time
from typing import Any, Callable, NamedTuple

WARM_UP = 8
SECONDS = 0.3  # of a round


class Work(NamedTuple):
    make_data: Callable[[], Any]
    # Of the data, a function that makes a step on the next batch, from host memory to the loss on the host.
    begin: Callable[[Any], Callable[[], float]]


def parse():
    """By name, what meshwork says of each work (GpuWorkPlan::about); and the device."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--works", type=json.loads, required=True)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    return options.works, options.device


def prepared(work):
    """A step, and what is known of it after the warm-up."""
    data = work.make_data()
    start = time.perf_counter()
    step = work.begin(data)
    loss = step()
    first_step_s = time.perf_counter() - start
    for _ in range(WARM_UP - 1):
        loss = step()
    return step, {"loss": loss, "first_step_s": first_step_s}


def serve(version, works):
    """`works`: by name."""
    steps, ready = {}, {"version": version, "works": {}}
    for name, work in works.items():
        try:
            steps[name], ready["works"][name] = prepared(work)
        except Exception as error:  # of a library, of any kind
            about = (str(error).splitlines() or [""])[0][:200]
            ready["works"][name] = {"error": f"{type(error).__name__}: {about}"}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        step, start, count = steps[line.strip()], time.perf_counter(), 0
        while count == 0 or time.perf_counter() - start < SECONDS:
            loss = step()
            count += 1
        print(json.dumps({"ms": 1e3 * (time.perf_counter() - start) / count, "loss": loss}), flush=True)
