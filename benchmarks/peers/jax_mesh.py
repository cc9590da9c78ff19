"""JAX on the meshes of its peers' scripts: of virtual CPU devices where there are several, batch=2 of two processes."""

import os
import socket
import subprocess
import sys

MESHES = {
    "batch=1": {"batch": 1},
    "batch=2": {"batch": 2},
    "batch=8": {"batch": 8},
    "batch=4,model=2": {"batch": 4, "model": 2},
}
PROCESSES = {"batch=2": 2}


def run_in_processes(name):
    """This process's number among those of the mesh. Where there are several, the first call starts this script as each
    of them, and ends when they have ended."""
    count = PROCESSES.get(name, 1)
    if count == 1 or "PEER_PROCESS" in os.environ:
        return int(os.environ.get("PEER_PROCESS", 0))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    processes = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "PEER_PROCESS": str(p), "PEER_ADDRESS": address})
        for p in range(count)
    ]
    sys.exit(1 if any([process.wait() for process in processes]) else 0)


def jax_mesh(name):
    """The mesh of MESHES, to be made before anything else of JAX."""
    sizes = MESHES[name]
    devices = 1
    for size in sizes.values():
        devices *= size
    os.environ["JAX_PLATFORMS"] = "cpu"
    if name in PROCESSES:
        import jax

        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(os.environ["PEER_ADDRESS"], PROCESSES[name], int(os.environ["PEER_PROCESS"]))
    elif devices > 1:
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import jax
    import numpy as np

    return jax.sharding.Mesh(np.array(jax.devices()[:devices]).reshape(list(sizes.values())), tuple(sizes))
