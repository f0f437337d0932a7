"""A writer of safetensors files, as small as the format: a length, a JSON header, the bytes.
SPDX-License-Identifier: MIT"""
import json
import struct

import torch

NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def write(path, tensors, metadata):
    header, body = {"__metadata__": {k: str(v) for k, v in metadata.items()}}, b""
    for name in sorted(tensors, key=lambda n: (-tensors[n].element_size(), n)):  # so that all are aligned
        t = tensors[name].detach().contiguous()
        data = t.numpy().tobytes()
        header[name] = {
            "dtype": NAMES[t.dtype], "shape": list(t.shape),
            "data_offsets": [len(body), len(body) + len(data)]
        }
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)
