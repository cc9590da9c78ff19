"""Writes what other programs than meshwork compute with published models.

    references.py FOLDER

FOLDER/silero, FOLDER/minilm and FOLDER/smollm2 each have model.safetensors and the files named below. Into each of them goes
expected.safetensors, with the inputs and the outputs: by NumPy in float64, written from the papers; of Silero VAD also by ONNX
Runtime on the package's ONNX file, whose weights go into onnx.safetensors. Needs the packages that are imported here.
"""

import json
import math
import pathlib
import sys

import gguf
import numpy as np
import onnx
import onnxruntime
import tokenizers
from safetensors.numpy import load_file, save_file

SENTENCES = [
    "A man is eating food.",
    "The girl is carrying a baby, and nobody on the whole crowded platform seems to mind that she has no ticket.",
    "Meshes of devices share one program.",
    "Wie spät ist es?",
    "x",
]
# Two texts, which are cut to 20 tokens.
PROMPTS = [
    "The quick brown fox jumps over the lazy dog, and then it goes back home to sleep for a long, long time in the sun.",
    "def mean(numbers):\n    return sum(numbers) / len(numbers)\n\nprint(mean([1, 2, 3, 4]))\n# prints 2.5, as it should\n",
]


def save(folder, tensors):
    save_file({name: np.ascontiguousarray(x) for name, x in tensors.items()}, str(folder / "expected.safetensors"))


def sounds(chunks, rows):
    """Sounds of 16 kHz: a voice-like buzz through formants, noise, tones, silence; each swells and fades."""
    rng = np.random.default_rng(3)
    t = np.arange(chunks * 512) / 16000
    made = []
    for row in range(rows):
        pitch = 110 + 30 * row + 20 * np.sin(2 * np.pi * 3 * t)
        phase = 2 * np.pi * np.cumsum(pitch) / 16000
        buzz = np.zeros_like(t)
        for k in range(1, 30):
            hz = k * pitch
            gain = sum(np.exp(-((hz - center) / 120) ** 2) for center in (500 + 100 * row, 1500, 2500)) + 0.02
            buzz += gain * np.sin(k * phase)
        swell = np.clip(np.sin(2 * np.pi * (2.5 + row) * t), 0, 1)
        noise = rng.standard_normal(t.size) * (0.3 if row % 3 == 2 else 0.003)
        made.append(0.2 * buzz * swell * (row % 3 != 2) + noise)
    return np.stack(made).astype(np.float32)


# What the package's safetensors call the weights of its ONNX files.
ONNX_NAMES = {"stft_conv.weight": "stft.forward_basis_buffer",
              **{f"conv{i + 1}.{part}": f"encoder.{i}.reparam_conv.{part}" for i in range(4) for part in ("weight", "bias")},
              **{f"lstm_cell.{part}": f"decoder.rnn.{part}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")},
              **{f"final_conv.{part}": f"decoder.decoder.2.{part}" for part in ("weight", "bias")}}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silero_by_numpy(w, audio):
    """As the package's tinygrad_model.py says."""
    def conv(x, name, stride, pad):
        x, kernel = np.pad(x, [(0, 0), (0, 0), (pad, pad)]), w[name + ".weight"]
        begins = range(0, x.shape[2] - kernel.shape[2] + 1, stride)
        return np.stack([np.einsum("bcw,ocw->bo", x[:, :, i:i + kernel.shape[2]], kernel) for i in begins], 2)

    h = cell = np.zeros((len(audio), 128))
    speech = []
    for begin in range(64, audio.shape[1], 512):
        x = np.pad(audio[:, begin - 64:begin + 512], [(0, 0), (0, 64)], mode="reflect")[:, None]
        real, imaginary = np.split(conv(x, "stft_conv", 128, 0), 2, 1)
        x = np.hypot(real, imaginary)
        for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)):
            x = np.maximum(conv(x, name, stride, 1) + w[name + ".bias"][:, None], 0)
        z = x[:, :, 0] @ w["lstm_cell.weight_ih"].T + w["lstm_cell.bias_ih"]
        i, f, g, o = np.split(z + h @ w["lstm_cell.weight_hh"].T + w["lstm_cell.bias_hh"], 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        speech.append(sigmoid(np.maximum(h, 0) @ w["final_conv.weight"][0, :, 0] + w["final_conv.bias"]))
    return np.stack(speech, 1), h, cell


def silero_by_onnx(session, audio):
    state, speech = np.zeros((2, len(audio), 128), np.float32), []
    for begin in range(64, audio.shape[1], 512):
        chunk = audio[:, begin - 64:begin + 512]
        out, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(16000)})
        speech.append(out[:, 0])
    return np.stack(speech, 1), *state


def silero(folder):
    """The package has two models of one form: that of its safetensors, and that of its ONNX files, whose weights are newer."""
    audio = np.pad(sounds(chunks=24, rows=6), [(0, 0), (64, 0)])
    weights = {name: x.astype(np.float64) for name, x in load_file(str(folder / "model.safetensors")).items()}
    stored = {x.name: onnx.numpy_helper.to_array(x) for x in onnx.load(str(folder / "model.onnx")).graph.initializer}
    save_file({name: stored["model." + theirs] for name, theirs in ONNX_NAMES.items()}, str(folder / "onnx.safetensors"))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    tensors = {"audio": audio}
    for of, made in (("model", silero_by_numpy(weights, audio.astype(np.float64))), ("onnx", silero_by_onnx(session, audio))):
        tensors.update(zip((f"{of}/speech", f"{of}/state", f"{of}/cell"), made))
        print(f"silero: speech by {of} is from {made[0].min():.4f} to {made[0].max():.4f}, in the mean {made[0].mean():.4f}")
    save(folder, tensors)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ERF = np.frompyfunc(math.erf, 1, 1)


def minilm(folder):
    """BERT (Devlin et al., arXiv 1810.04805), then the mean of the states as in Sentence-BERT (arXiv 1908.10084)."""
    w = {name: x.astype(np.float64) for name, x in load_file(str(folder / "model.safetensors")).items()}
    config = json.loads((folder / "config.json").read_text())
    heads, units = config["num_attention_heads"], config["hidden_size"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["layer_norm_eps"]) * w[name + ".weight"] + w[name + ".bias"]

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def states(ids):
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:len(ids)]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for i in range(config["num_hidden_layers"]):
            of = f"encoder.layer.{i}."
            q, k, v = (dense(x, f"{of}attention.self.{n}").reshape(len(ids), heads, -1) for n in ("query", "key", "value"))
            shares = softmax(np.einsum("shd,thd->hst", q, k) / np.sqrt(units / heads))
            y = np.einsum("hst,thd->shd", shares, v).reshape(len(ids), units)
            x = norm(x + dense(y, of + "attention.output.dense"), of + "attention.output.LayerNorm")
            h = dense(x, of + "intermediate.dense")
            h = h * 0.5 * (1 + ERF(h / np.sqrt(2)).astype(np.float64))
            x = norm(x + dense(h, of + "output.dense"), of + "output.LayerNorm")
        return x

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    texts = [tokenizer.encode(sentence).ids for sentence in SENTENCES]
    longest = max(map(len, texts))
    # What pads a text is a token like others: it must not matter which.
    tokens = np.full((len(texts), longest), 1037, np.int32)
    all_states, embeddings = np.zeros((len(texts), longest, units)), []
    for row, ids in enumerate(texts):
        tokens[row, :len(ids)] = ids
        all_states[row, :len(ids)] = states(np.array(ids))
        mean = all_states[row, :len(ids)].mean(0)
        embeddings.append(mean / np.linalg.norm(mean))
    embeddings = np.stack(embeddings)
    print(f"minilm: texts of {[len(ids) for ids in texts]} tokens; cosines {np.round(embeddings[0] @ embeddings.T, 3)}")
    save(folder, {"tokens": tokens, "lengths": np.array([len(ids) for ids in texts], np.int32),
                  "states": all_states, "embedding": embeddings})


def llama(weight, tokens, *, layers, heads, kv_heads, epsilon, base, neighbours):
    """Logits [s,vocabulary] of Llama (Touvron et al., arXiv 2302.13971; grouped queries: arXiv 2305.13245). `weight` gives the
    weights by Hugging Face's names; dims 2i and 2i + 1 turn together if `neighbours`, else dims i and i + d/2."""
    table, s = weight("model.embed_tokens"), len(tokens)
    x = table[tokens]

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight(name)

    def turned(x):
        d = x.shape[-1]
        angle = np.arange(s)[:, None, None] * base ** (-2 * np.arange(d // 2) / d)
        z = x[..., 0::2] + 1j * x[..., 1::2] if neighbours else x[..., :d // 2] + 1j * x[..., d // 2:]
        z = z * np.exp(1j * angle)
        # The order within a head does not matter to products of queries and keys.
        return np.concatenate([z.real, z.imag], -1)

    for i in range(layers):
        of = f"model.layers.{i}."
        h = norm(x, of + "input_layernorm")
        q = turned((h @ weight(of + "self_attn.q_proj").T).reshape(s, heads, -1))
        k = turned((h @ weight(of + "self_attn.k_proj").T).reshape(s, kv_heads, -1))
        v = (h @ weight(of + "self_attn.v_proj").T).reshape(s, kv_heads, -1)
        grouped = q.reshape(s, kv_heads, heads // kv_heads, -1)
        scores = np.einsum("shgd,thd->hgst", grouped, k) / np.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones((s, s), bool)), scores, -np.inf)
        y = np.einsum("hgst,thd->shgd", softmax(scores), v).reshape(s, -1)
        x = x + y @ weight(of + "self_attn.o_proj").T
        h = norm(x, of + "post_attention_layernorm")
        gate = h @ weight(of + "mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weight(of + "mlp.up_proj").T)) @ weight(of + "mlp.down_proj").T
    return norm(x, "model.norm") @ table.T


# GGUF's names of what Hugging Face calls otherwise.
GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def smollm2(folder):
    """Twice: from the GGUF file, which the package gguf reads, and from the safetensors that meshwork made of it."""
    reader = gguf.GGUFReader(str(folder / "model.gguf"))
    stored = {tensor.name: tensor for tensor in reader.tensors}
    field = lambda name: reader.fields["llama." + name].contents()
    shape = {"layers": field("block_count"), "heads": field("attention.head_count"),
             "kv_heads": field("attention.head_count_kv"), "epsilon": field("attention.layer_norm_rms_epsilon"),
             "base": field("rope.freq_base")}
    assert "output.weight" not in stored, "the embedding is not the last weight, too"

    def from_gguf(name):
        parts = name.split(".")
        short = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}.get(name)
        short = short or f"blk.{parts[2]}.{GGUF_NAMES['.'.join(parts[3:])]}"
        tensor = stored[short + ".weight"]
        return gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    imported = load_file(str(folder / "model.safetensors"))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = np.array([tokenizer.encode(prompt).ids[:20] for prompt in PROMPTS], np.int32)
    assert tokens.shape == (len(PROMPTS), 20), tokens.shape
    logits = np.stack([llama(from_gguf, row, neighbours=True, **shape) for row in tokens])
    again = np.stack([llama(lambda name: imported[name + ".weight"].astype(np.float64), row, neighbours=False, **shape)
                      for row in tokens])
    difference = np.abs(logits - again).max() / np.abs(logits).max()
    print(f"smollm2: logits are up to {np.abs(logits).max():.3f}; from the imported weights they differ by {difference:.1e} of that")
    assert difference < 1e-9, "the import has changed the weights"
    save(folder, {"tokens": tokens, "logits": logits})


if __name__ == "__main__":
    for make in (silero, minilm, smollm2):
        make(pathlib.Path(sys.argv[1]) / make.__name__)
