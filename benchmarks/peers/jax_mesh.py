"""JAX on the meshes of its peers' scripts, of virtual CPU devices where there are several."""

import os

MESHES = {"batch=1": {"batch": 1}, "batch=8": {"batch": 8}, "batch=4,model=2": {"batch": 4, "model": 2}}


def jax_mesh(name):
    """The mesh of MESHES, to be made before anything else of JAX."""
    sizes = MESHES[name]
    devices = 1
    for size in sizes.values():
        devices *= size
    os.environ["JAX_PLATFORMS"] = "cpu"
    if devices > 1:
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import jax
    import numpy as np

    return jax.sharding.Mesh(np.array(jax.devices()[:devices]).reshape(list(sizes.values())), tuple(sizes))
