"""How a peer of gpu_step takes turns with the others: each is a process that prepares all its works, says so by a line of
JSON, and then times what standard input names, one work a line, when nobody else uses the GPU.
"""

import json
import sys
import time

MLP_BATCHES, GPT_BATCH = (128, 8192), 8
WARM_UP = 8
SECONDS = 0.3  # of a round


def serve(version, works):
    """`works`: by name, a function that makes a step on the next batch, from host memory to the loss on the host."""
    ready = {"version": version, "works": {}}
    for name, step in list(works.items()):
        try:
            for _ in range(WARM_UP):
                loss = step()
            ready["works"][name] = {"loss": loss}
        except Exception as error:  # of a library, of any kind
            del works[name]
            ready["works"][name] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        step, start, steps = works[line.strip()], time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - start < SECONDS:
            loss = step()
            steps += 1
        print(json.dumps({"ms": 1e3 * (time.perf_counter() - start) / steps, "loss": loss}), flush=True)
