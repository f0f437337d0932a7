# ONNX programs beside onnxruntime, one thread, f32, taking turns. Processor time, medians of the rounds. Loading: the
# processor time and the growth of the peak of resident memory of one process that loads the model (situ maps it).
# H7, with random weights. Usage: programs.py LIBSITU.SO [ROUNDS [NAME...]]     (bench/programs is looked for beside the library)
# A NAME may be a file of one input: MODEL.onnx, or MODEL.onnx:1x3x224x224 for free sizes.
# SPDX-License-Identifier: MIT
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

from support.turns import Server, in_turn, say

try:
    import numpy as np
    import onnxruntime
    import torch
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(0)
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
os.environ["SITU_NUM_THREADS"] = "1"
program = os.path.abspath(os.path.join(os.path.dirname(sys.argv[1]), "bench", "programs"))
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
asked = sys.argv[3:]


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 64, 2, batch_first=True), nn.Linear(64, 8)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 10))


def resnet():
    import torchvision
    return torchvision.models.resnet18()


def efficientnet():
    import torchvision
    return torchvision.models.efficientnet_b0()


def mobilenet():
    import torchvision
    return torchvision.models.mobilenet_v3_large()


def llama():
    """One block of 1024 features and 16 heads, of which 4 have keys."""
    from transformers import LlamaConfig, LlamaModel

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = LlamaModel(LlamaConfig(vocab_size=1000, hidden_size=1024, intermediate_size=2816,
                                              num_hidden_layers=1, num_attention_heads=16, num_key_value_heads=4,
                                              attn_implementation="eager", use_cache=False))

        def forward(self, ids):
            return self.net(ids).last_hidden_state

    return Block()


def bert(**sizes):
    from transformers import BertConfig, BertModel

    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = BertModel(BertConfig(attn_implementation="eager", **sizes), add_pooling_layer=False)

        def forward(self, ids):
            return self.net(ids, attention_mask=torch.ones_like(ids)).last_hidden_state

    return Hidden()


def minilm():
    """all-MiniLM-L6, with random weights."""
    return bert(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)


def images(*shape):
    return lambda batch: torch.randn(batch, *shape)


jobs = {
    "mlp": (mlp, images(64), (1, 32)),
    "lstm": (Lstm, images(32, 32), (1, 32)),
    "cnn": (cnn, images(1, 28, 28), (1, 32)),
    "minilm": (minilm, lambda batch: torch.randint(0, 30000, (batch, 128)), (1, 4, 8, 32)),
    "resnet18": (resnet, images(3, 224, 224), (1, 16)),
    "efficientnet_b0": (efficientnet, images(3, 224, 224), (1,)),
    "mobilenet_v3": (mobilenet, images(3, 224, 224), (1, 8)),
    "llama": (llama, lambda batch: torch.randint(0, 1000, (batch, 64)), (1,)),
    "bert_base": (bert, lambda batch: torch.randint(0, 30000, (batch, 128)), (1,)),
}


def export(make, inputs, path):
    with torch.no_grad():
        torch.onnx.export(make().eval(), (inputs,), path, dynamo=True, verbose=False)


def open_runtime(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def time_runtime(session, feed, calls):
    began = time.process_time()
    for _ in range(calls):
        session.run(None, feed)
    return (time.process_time() - began) / calls


LOAD_RUNTIME = """
import sys, time
import onnxruntime
def peak():
    return [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
before, began = peak(), time.process_time()
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(time.process_time() - began, peak() - before)
"""


def compare_loading(name, path):
    """Seconds and KiB of a process that loads the model, for both."""
    commands = {"onnxruntime": [sys.executable, "-c", LOAD_RUNTIME, path], "situ": [program, "--load", path]}
    seen = {who: [] for who in commands}
    for _ in range(5):
        for who, command in commands.items():
            seconds, kib = subprocess.run(command, capture_output=True, text=True).stdout.split()
            seen[who].append((float(seconds), int(kib)))
    middle = {who: [statistics.median(s[k] for s in seen[who]) for k in (0, 1)] for who in seen}
    print(f"{name:10} loading     " + "   ".join(f"{who} {1e3 * t:8.1f} ms, {kib / 1024:7.1f} MiB"
                                                 for who, (t, kib) in middle.items()), flush=True)
    print(json.dumps({"loading": name, **{who: {"seconds": t, "kib": kib} for who, (t, kib) in middle.items()}}),
          flush=True)


def compare(name, make, inputs, batch, directory):
    path = os.path.join(directory, "model.onnx")
    export(make, inputs, path)
    compare_file(name, path, inputs.numpy(), batch, directory)


def compare_given(name, directory):
    path, _, shape = name.partition(":")
    first = open_runtime(path).get_inputs()[0]
    size = [int(n) for n in shape.split("x")] if shape else [n if isinstance(n, int) else 1 for n in first.shape]
    drawn = np.random.default_rng(0).integers(0, 256, size)
    kind = "float32" if "float" in first.type else first.type[len("tensor("):-1]
    compare_file(os.path.basename(path), path, drawn.astype(kind), size[0], directory)


def compare_file(name, path, inputs, batch, directory):
    np.save(os.path.join(directory, "in.npy"), inputs)
    if batch == 1:
        compare_loading(name, path)
    session = open_runtime(path)
    feed = {session.get_inputs()[0].name: inputs}
    situ = Server(sys.argv[1], "programs", path, os.path.join(directory, "in.npy"), os.path.join(directory, "out"))
    situ.ask("save")
    want, got = session.run(None, feed)[0], np.load(os.path.join(directory, "out.0.npy"))
    error = float(np.abs(want - got).max() / np.abs(want).max())
    calls = max(1, int(0.05 / max(situ.ask(3)[0], time_runtime(session, feed, 3))))
    pairs = in_turn(lambda: situ.ask(calls)[0], lambda: time_runtime(session, feed, calls), rounds, 6, 5)
    situ.end()
    say("H7", f"{name}, batch {batch}", pairs, 1, "onnxruntime", error=error)


print("onnxruntime", onnxruntime.__version__)
for job, (builder, make_inputs, batches) in jobs.items():
    for size in batches if not asked or job in asked else ():
        with tempfile.TemporaryDirectory() as place:
            try:
                compare(job, builder, make_inputs(size), size, place)
            except ImportError as lacking:
                print(f"{job}: SKIPPED: {lacking}", flush=True)
for given in asked:
    if ".onnx" in given:
        with tempfile.TemporaryDirectory() as place:
            compare_given(given, place)
