"""What the golden cases send by meshwork and by Shardy, XLA's partitioner, with the same pins: writes shardy.json.

usage: shardy.py TOOL CASES_DIR [OUT [FLAG...]]

TOOL is the program meshwork, which compiles with these flags; CASES_DIR is tests/spmd/cases, or what random_pins_report --programs
has written. Shardy's program is compiled by JAX's CPU plugin for as many virtual
devices as the mesh has; collectives are counted as in tests/random_pins/random_pins.py. An entry is [meshwork, Shardy], bytes on
the wire per device; cases that cannot be written, compiled or counted are named with the reason.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=32"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "random_pins"))
import jax
import numpy as np
from jax._src.lib import xla_client as xc
from random_pins import wire_bytes


def by_meshwork(tool, path, flags):
    stats = json.loads(subprocess.run([tool, "compile", path, "--emit=stats", *flags], check=True, capture_output=True, text=True).stdout)
    return sum(collective["wire_bytes_per_device"] for collective in stats["collectives"])


def by_shardy(tool, path, devices):
    written = subprocess.run([tool, "compile", path, "--emit=shardy"], capture_output=True, text=True)
    if written.returncode != 0:
        raise ValueError(written.stderr.strip().splitlines()[-1])
    text = written.stdout
    count = int(re.search(r"mhlo.num_partitions = (\d+)", text)[1])
    options = xc.CompileOptions()
    options.num_partitions = count
    options.device_assignment = xc.DeviceAssignment.create(np.arange(count).reshape(1, -1))
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = True
    program = devices[0].client.compile_and_load(text, xc.DeviceList(tuple(devices[:count])), options)
    try:
        return wire_bytes(program.hlo_modules()[0].to_string())
    except SystemExit as uncounted:
        raise ValueError(str(uncounted)) from None


def main():
    jax.config.update("jax_enable_x64", True)
    tool, folder = sys.argv[1:3]
    devices = jax.devices("cpu")
    counted, left_out = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "case.mw")
        for case in sorted(glob.glob(os.path.join(folder, "*.mw"))):
            name = os.path.basename(case)[:-3]
            with open(case) as file, open(path, "w") as out:
                out.write(file.read().split("----\n")[0])
            try:
                counted[name] = [by_meshwork(tool, path, sys.argv[4:]), by_shardy(tool, path, devices)]
            except Exception as error:  # whatever the compiler says
                left_out[name] = str(error).splitlines()[0][:160]
    more = {name: pair for name, pair in counted.items() if pair[0] > pair[1]}
    less = sum(pair[0] < pair[1] for pair in counted.values())
    print(f"{len(counted)} cases: meshwork sends less in {less}, as much in {len(counted) - less - len(more)}, more in {len(more)}")
    for name, (ours, theirs) in more.items():
        print(f"  {name}: {ours} B, Shardy {theirs} B")
    for name, why in left_out.items():
        print(f"  left out, {name}: {why}")
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as out:
            lines = ",\n".join(f'"{name}": [{ours}, {theirs}]' for name, (ours, theirs) in counted.items())
            out.write("{\n" + lines + "\n}\n")


main()
