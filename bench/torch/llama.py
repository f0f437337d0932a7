# Decoding with GGUF weights beside llama.cpp (PyPI's llama-cpp-python, with gguf and numpy), one thread, taking turns.
# A model of random weights in TinyLlama's shape, but of 4 layers and 4096 tokens; processor time of one token, medians
# of the rounds. llama.cpp rounds the input of each product to 8 bits, situ does not.
# Usage: llama.py LIBSITU.SO [ROUNDS [TYPE...]]     (bench/llama is looked for beside the library)
# SPDX-License-Identifier: MIT
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import gguf
    import llama_cpp
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(0)

program = os.path.abspath(os.path.join(os.path.dirname(sys.argv[1]), "bench", "llama"))
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
asked = sys.argv[3:]
WIDTH, HIDDEN, HEADS, GROUPS, LAYERS, VOCABULARY = 2048, 5632, 32, 4, 4, 4096
TOKENS = 16
TYPES = {"Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
         "Q4_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_S}


def write_model(path):
    random = np.random.default_rng(0)
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(LAYERS)
    w.add_context_length(512)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(HIDDEN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(GROUPS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(WIDTH // HEADS)
    w.add_vocab_size(VOCABULARY)
    w.add_tokenizer_model("no_vocab")

    def add(name, rows, columns):
        numbers = random.standard_normal((rows, columns), np.float32) / np.float32(columns**0.5)
        w.add_tensor(f"{name}.weight", numbers.astype(np.float16))

    add("token_embd", VOCABULARY, WIDTH)
    add("output", VOCABULARY, WIDTH)
    w.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{i}.{name}.weight", np.ones(WIDTH, np.float32))
        for name, rows, columns in (("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH * GROUPS // HEADS, WIDTH),
                                    ("attn_v", WIDTH * GROUPS // HEADS, WIDTH), ("attn_output", WIDTH, WIDTH),
                                    ("ffn_gate", HIDDEN, WIDTH), ("ffn_up", HIDDEN, WIDTH),
                                    ("ffn_down", WIDTH, HIDDEN)):
            add(f"blk.{i}.{name}", rows, columns)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def quantise(path, to, kind):
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.nthread, options.pure = TYPES[kind], 1, True
    options.output_tensor_type = options.token_embedding_type = getattr(llama_cpp, f"GGML_TYPE_{kind}")
    if llama_cpp.llama_model_quantize(path.encode(), to.encode(), ctypes.byref(options)) != 0:
        raise SystemExit(f"llama.cpp does not quantise to {kind}")


class Theirs:
    def __init__(self, path):
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_threads, options.n_threads_batch = 512, 1, 1
        self.context = llama_cpp.llama_init_from_model(self.model, options)

    def decode(self, tokens, given):
        """Scores after the last one; each token is the most probable one unless they are given."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        token = 1
        for at in range(tokens):
            batch = llama_cpp.llama_batch_get_one((llama_cpp.llama_token * 1)(token), 1)
            if llama_cpp.llama_decode(self.context, batch) != 0:
                raise SystemExit("llama.cpp does not decode")
            scores = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.context, -1), (VOCABULARY,))
            token = at + 2 if given else int(scores.argmax())
        return scores.copy()

    def ask(self, tokens):
        began = time.process_time()
        self.decode(tokens, False)
        return (time.process_time() - began) / tokens

    def end(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


class Ours:
    def __init__(self, path, directory):
        environment = dict(os.environ, SITU_NUM_THREADS="1")
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        cwd=directory, env=environment)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(kind, whole, directory):
    path = os.path.join(directory, f"{kind}.gguf")
    quantise(whole, path, kind)
    size = os.path.getsize(path)
    theirs, ours = Theirs(path), Ours(path, directory)
    ours.ask("save")
    got, want = np.load(os.path.join(directory, "out.npy")).reshape(-1), theirs.decode(8, True)
    error = float(np.abs(got - want).max() / np.abs(want).max())
    theirs.ask(TOKENS), ours.ask(TOKENS)
    pairs = [(theirs.ask(TOKENS), ours.ask(TOKENS)) for _ in range(rounds)]
    theirs.end(), ours.end()
    a, b = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    ratio = statistics.median(p[0] / p[1] for p in pairs)
    print(f"{kind:5} {size / 1e6:6.1f} MB   llama.cpp {1 / a:6.1f} tokens/s {size / a / 1e9:5.1f} GB/s   "
          f"situ {1 / b:6.1f} tokens/s {size / b / 1e9:5.1f} GB/s   ratio {ratio:5.2f}   difference {error:.1e}",
          flush=True)
    print(json.dumps({"decode": kind, "llama_cpp_s": a, "situ_s": b, "ratio": ratio, "difference": error}), flush=True)
    os.remove(path)


log = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()
print("llama-cpp-python", llama_cpp.__version__, llama_cpp.llama_print_system_info().decode())
with tempfile.TemporaryDirectory() as place:
    model = os.path.join(place, "model.gguf")
    write_model(model)
    for kind in TYPES:
        if not asked or kind in asked:
            compare(kind, model, place)
