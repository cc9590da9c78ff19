"""Reads what tests/oracle/write_summaries.cc writes with TensorBoard's own reader, and compares every value.

    tensorboard_oracle.py DIR

DIR holds the runs global/ and local/. Prints a line per kind of summary; exit code 1 if a value differs.
"""

import io
import math
import pathlib
import shutil
import sys

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing import plugin_event_accumulator  # what the server uses
from tensorboard.util import tensor_util

STEPS, THREADS, BUCKETS = 100, 4, 30


def expect(holds, what):
    if not holds:
        print(f"tensorboard_oracle: {what}: FAILED")
        sys.exit(1)


def same(a, b):
    """Bit by bit, all NaN alike."""
    a, b = np.float32(a), np.float32(b)
    return (np.isnan(a) and np.isnan(b)) or a.tobytes() == b.tobytes()


def load(path):
    return event_accumulator.EventAccumulator(
        str(path), size_guidance=event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE).Reload()


def array_of(event):
    return tensor_util.make_ndarray(event.tensor_proto)


def plugin_tags(run, plugin):
    return set(run.PluginTagToContent(plugin))


def check_scalars(run):
    steps = range(1, STEPS + 1)
    expected = {
        "train/loss": [(step, 2.5 / math.sqrt(step)) for step in steps],
        "train/accuracy": [(step, 1 - 1 / step) for step in steps],
        "unusual/numbers": list(enumerate([0.0, -0.0, 1e-40, 3.4e38, math.inf, -math.inf, math.nan])),
        "unusual/steps": [(1 << 40, 1.0)],
        "unusual/not_finite/not_finite": [(7, 3.0)],
    }
    expect(set(run.Tags()["scalars"]) == set(expected), f"the tags of scalars are {run.Tags()['scalars']}")
    for tag, values in expected.items():
        read = [(event.step, event.value) for event in run.Scalars(tag)]
        expect(len(read) == len(values), f"{tag} has {len(read)} of {len(values)} values")
        for (step, value), (wanted_step, wanted) in zip(read, values):
            expect(step == wanted_step and same(value, wanted), f"{tag} at step {step} is {value}")
    times = [event.wall_time for event in run.Scalars("train/loss")]
    expect(times == sorted(times) and times[0] > 1.6e9, "wall times")
    print(f"scalars: {sum(map(len, expected.values()))} values in {len(expected)} tags agree")


def expected_buckets(data):
    data = np.asarray(data, np.float64)
    data = data[np.isfinite(data)]
    if data.size == 0:
        return np.zeros((BUCKETS, 3))
    if data.min() == data.max():
        rows = np.full((BUCKETS, 3), data.max())
        rows[:, 2] = [0] * (BUCKETS - 1) + [data.size]
        return rows
    counts, edges = np.histogram(data, BUCKETS)
    return np.stack([edges[:-1], edges[1:], counts], axis=1)


def check_histograms(run):
    waves = np.sin(np.arange(480))
    expected = {
        "dense1/kernel": [(step, waves * (1 + step)) for step in range(5)],
        "unusual/one_number": [(0, [2.5] * 3)],
        "unusual/empty": [(0, [])],
        "unusual/whole_numbers": [(0, [-7, 0, 3, 23])],
        "unusual/not_finite": [(7, [1, 31])],
    }
    expect(plugin_tags(run, "histograms") == set(expected), "the tags of histograms")
    for tag, values in expected.items():
        events = run.Tensors(tag)
        expect([event.step for event in events] == [step for step, _ in values], f"{tag}: its steps")
        for event, (step, data) in zip(events, values):
            wanted = expected_buckets(data)
            read = array_of(event)
            expect(read.shape == wanted.shape and read.dtype == np.float64, f"{tag} is {read.dtype}{read.shape}")
            expect(np.allclose(read, wanted, rtol=1e-14, atol=1e-14), f"{tag} at step {step}: {read}")
    print(f"histograms: {sum(map(len, expected.values()))} in {len(expected)} tags agree")


def ramp(*shape):
    n = int(np.prod(shape))
    levels = (np.arange(n) / n).astype(np.float32)
    return np.floor(levels.astype(np.float64) * 255 + 0.5).astype(np.uint8).reshape(shape)


def check_images(run):
    expected = {
        "images/grey": ("L", [ramp(16, 24)]),
        "images/grey_alpha": ("LA", [ramp(8, 8, 2)]),
        "images/rgb": ("RGB", [ramp(20, 30, 3)]),
        "images/rgba": ("RGBA", [ramp(5, 7, 4)]),
        "images/three": ("L", list(ramp(3, 6, 9))),
        "images/beyond": ("L", [np.array([[0, 255, 0, 128]], np.uint8)]),
    }
    expect(plugin_tags(run, "images") == set(expected), "the tags of images")
    for tag, (mode, images) in expected.items():
        (event,) = run.Tensors(tag)
        width, height, *files = array_of(event)
        expect((int(height), int(width)) == images[0].shape[:2], f"{tag} is {width} by {height}")
        expect(len(files) == len(images), f"{tag} has {len(files)} images")
        for file, image in zip(files, images):
            picture = Image.open(io.BytesIO(file))
            expect(picture.mode == mode and np.array_equal(np.asarray(picture), image), f"{tag}: its pixels")
    print(f"images: {sum(len(images) for _, images in expected.values())} in {len(expected)} tags agree")


def check_text(run):
    expect(plugin_tags(run, "text") == {"notes"}, "the tags of texts")
    (event,) = run.Tensors("notes")
    text = array_of(event).item().decode()
    expect((event.step, text) == (3, "a network of **two** layers, größer als eine"), f"the text is {text}")
    print("text: 1 agrees")


def nodes_of(run):
    """The nodes by name, once every input is the result of one."""
    graph = run.Graph()
    nodes = {node.name: node for node in graph.node}
    expect(len(nodes) == len(graph.node), "names of nodes are given twice")
    for node in graph.node:
        for operand in node.input:
            expect(operand.rsplit(":", 1)[0] in nodes or operand in nodes, f"{node.name} reads {operand}, which is missing")
    return nodes


def shape_of(node):
    (shape, *_) = node.attr["_output_shapes"].list.shape
    return [dim.size for dim in shape.dim]


def check_graphs(program, local):
    nodes = nodes_of(program)
    kernel = nodes["dense1/kernel"]
    expect(kernel.op == "variable" and shape_of(kernel) == [30, 16], "dense1/kernel")
    expect(kernel.attr["layout"].s == b"{_,model}" and kernel.attr["type"].s == b"f32[30,16]", "its layout and type")
    expect(nodes["images"].op == "input" and shape_of(nodes["images"]) == [64, 30], "images")
    expect(nodes["outputs/loss"].op == "output", "outputs/loss")
    product = [node for node in nodes.values() if node.op == "matmul" and list(node.input) == ["images", "dense1/kernel"]]
    expect(len(product) == 1 and shape_of(product[0]) == [64, 16], "the first product")
    expect(product[0].name.startswith("dense1/matmul_"), f"its name, {product[0].name}")
    expect(any(name.startswith("write_summaries.cc:") for name in nodes), "names of ops outside of layers")
    update = nodes["dense1/kernel/update"]
    expect(update.op == "update" and len(update.input) == 1, "dense1/kernel/update")
    print(f"graph: {len(nodes)} nodes of the program agree")

    # On the device: a quarter of the rows, half of the columns; collectives carry the axes they run over.
    nodes = nodes_of(local)
    kernel = nodes["dense1/kernel"]
    expect(shape_of(kernel) == [30, 8] and kernel.attr["whole"].s == b"f32[30,16]", "dense1/kernel on a device")
    sums = [node for node in nodes.values() if node.op == "all_reduce"]
    expect(sums and {node.device for node in sums} <= {"(batch)", "(model)", "(batch,model)"}, "the axes of all_reduces")
    expect(all(node.device == "" for node in nodes.values() if node.op == "matmul"), "products have no axes")
    print(f"graph: {len(nodes)} nodes of the local program agree")


def check_threads(run):
    for thread in range(THREADS):
        read = [(event.step, event.value) for event in run.Scalars(f"thread/{thread}")]
        expect(read == [(step, float(thread * step)) for step in range(STEPS)], f"thread/{thread}")
    print(f"threads: {THREADS} agree")


def check_killed(path, work):
    """A file whose writer was killed within a record gives all records before it."""
    folder = work / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / path.name).write_bytes(path.read_bytes()[:-5])
    tags = load(folder).Tags()["scalars"]
    expect(len(tags) == THREADS, f"of a file that was cut short, {tags}")
    values = sum(len(load(folder).Scalars(tag)) for tag in tags)
    expect(values == THREADS * STEPS - 1, f"of a file that was cut short, {values} values")
    shutil.rmtree(folder)
    print("a file that was cut short: all but the last value")


def check_resumed(run):
    read = [(event.step, event.value) for event in run.Scalars("train/resumed")]
    expect(read == [(step, 1.0 if step < 5 else 2.0) for step in range(1, 7)], f"a training that goes on is {read}")
    print("a training that goes on: each step once")


def check_server(path):
    """The loader of TensorBoard's server, which brings older forms into that of plugins, knows each tag's plugin."""
    run = plugin_event_accumulator.EventAccumulator(str(path)).Reload()
    for plugin in ("scalars", "histograms", "images", "text"):
        expect(plugin_tags(run, plugin), f"the server sees no {plugin}")
    expect(run.Tags()["graph"], "the server sees no graph")
    print("TensorBoard's server sees scalars, histograms, images, text and the graph")


def main():
    work = pathlib.Path(sys.argv[1])
    files = {run: list((work / run).iterdir()) for run in ("global", "local")}
    expect(all(len(found) == 1 and found[0].name.startswith("events.out.tfevents.") for found in files.values()),
           f"the files are {files}")
    run = load(work / "global")
    expect(run.file_version == 2.0, f"the version is {run.file_version}")
    check_scalars(run)
    check_histograms(run)
    check_images(run)
    check_text(run)
    local = load(work / "local")
    check_graphs(run, local)
    check_threads(local)
    check_resumed(load(work / "resumed"))
    check_killed(files["local"][0], work)
    check_server(work / "global")


if __name__ == "__main__":
    main()
