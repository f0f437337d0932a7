"""A writer and a reader of safetensors files, as small as the format: a length, a JSON header, the bytes.
SPDX-License-Identifier: MIT"""
import json
import pathlib
import struct

import torch

NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL",
         torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.float16: "F16", torch.bfloat16: "BF16"}


def write(path, tensors, metadata={}):
    header, body = {"__metadata__": {k: str(v) for k, v in metadata.items()}}, b""
    for name in sorted(tensors, key=lambda n: (-tensors[n].element_size(), n)):  # so that all are aligned
        t = tensors[name].detach().contiguous()
        data = t.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": NAMES[t.dtype], "shape": list(t.shape),
            "data_offsets": [len(body), len(body) + len(data)]
        }
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def read(path):
    blob = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    kinds = {name: dtype for dtype, name in NAMES.items()}
    values = {}
    for name, e in json.loads(blob[8:8 + size]).items():
        if name != "__metadata__":
            first, end = e["data_offsets"]
            data, dtype = bytearray(blob[8 + size + first:8 + size + end]), kinds[e["dtype"]]
            # torch.frombuffer refuses no bytes
            values[name] = (torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)).reshape(e["shape"])
    return values
