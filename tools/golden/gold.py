"""Writes golden cases in the .gold format that tests/golden/README.md lays out.
SPDX-License-Identifier: MIT"""
import dataclasses
import struct

import torch

MAGIC = b"SITUGOLD"
VERSION = 1

# The numbers of situ_dtype, so that the reader needs no table.
DTYPES = {
    torch.bool: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 4, torch.int32: 5, torch.int64: 6,
    torch.float16: 7, torch.bfloat16: 8, torch.float32: 9, torch.float64: 10
}
DTYPE_NAMES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32",
    torch.float64: "f64"
}

SHAPE_ONLY = 1  # the values are random or undefined: compare shape and dtype
SIGNED_ZERO = 2  # -0 and +0 differ


@dataclasses.dataclass
class Case:
    op: str
    variant: str
    inputs: list  # (name, tensor); strides and storage are kept as they are
    attrs: list  # (name, value)
    outputs: list  # (name, tensor, grad_output or None)
    grads: list  # (input name, tensor)
    flags: int = 0
    picked: bool = False  # hand-picked: never thinned away

    def tensors(self):
        for _, t in self.inputs:
            yield t
        for _, t, g in self.outputs:
            yield t
            if g is not None:
                yield g
        for _, t in self.grads:
            yield t

    def weight(self):
        """About the bytes it takes in a file."""
        return 40 + sum(16 + 4 * t.dim() + t.numel() * t.element_size() for t in self.tensors())

    def key(self):
        """What the case is about, values apart: the thinning keeps one of each."""
        def seen(value):
            return value if isinstance(value, (bool, str)) else type(value).__name__

        return (tuple((n, str(t.dtype), t.dim(), t.numel() == 0, t.is_contiguous()) for n, t in self.inputs),
                tuple((n, seen(v)) for n, v in self.attrs if not n.startswith("view.")))


def raw_bytes(flat):
    """The bytes of a contiguous 1-d tensor."""
    if flat.numel() == 0:
        return b""
    if flat.dtype == torch.bfloat16:
        flat = flat.view(torch.int16)
    return flat.numpy(force=True).tobytes()  # force: PyTorch's tensors of zeros without memory


def footprint(t):
    """The part of t's storage that t can reach, as a 1-d tensor, and t's offset in it."""
    if t.numel() == 0:
        return t.new_empty(0), 0
    reach = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    return t.detach().as_strided((reach, ), (1, ), t.storage_offset()).clone(), 0


class Writer:
    """Collects cases; equal element data and equal names are stored once."""
    def __init__(self):
        self.pool = bytearray()
        self.at = {}
        self.cases = bytearray()
        self.count = 0

    def blob(self, data, align=8):
        if data not in self.at:
            self.pool.extend(b"\0" * (-len(self.pool) % align))
            self.at[data] = len(self.pool)
            self.pool.extend(data)
        return self.at[data]

    def string(self, text):
        data = text.encode() + b"\0"
        self.cases += struct.pack("<I", self.blob(data, 1))

    def tensor(self, t, keep_strides=False):
        plain = t.is_contiguous() or t.numel() == 0 or not keep_strides
        flat = t.detach().contiguous().reshape(-1) if plain else footprint(t)[0]
        self.cases += struct.pack("<BBB", DTYPES[t.dtype], t.dim(), 0 if plain else 1)
        self.cases += struct.pack("<%dI" % t.dim(), *t.shape)
        if not plain:
            self.cases += struct.pack("<%dI" % t.dim(), *t.stride())
        self.cases += struct.pack("<II", flat.numel(), self.blob(raw_bytes(flat)))

    def attr(self, name, value):
        self.string(name)
        if isinstance(value, bool):
            self.cases += struct.pack("<Bq", ord("b"), value)
        elif isinstance(value, int):
            self.cases += struct.pack("<Bq", ord("i"), value)
        elif isinstance(value, float):
            self.cases += struct.pack("<Bd", ord("f"), value)
        elif isinstance(value, torch.dtype):
            self.cases += struct.pack("<Bq", ord("d"), DTYPES[value])
        elif isinstance(value, str):
            self.cases += struct.pack("<B", ord("s"))
            self.string(value)
        else:
            ints = [int(v) for v in value]
            self.cases += struct.pack("<BB%dq" % len(ints), ord("l"), len(ints), *ints)

    def add(self, case):
        self.string(case.op)
        self.string(case.variant)
        self.cases += struct.pack("<5B", case.flags, len(case.inputs), len(case.attrs), len(case.outputs),
                                  len(case.grads))
        for name, t in case.inputs:
            self.string(name)
            self.tensor(t, keep_strides=True)
        for name, value in case.attrs:
            self.attr(name, value)
        for name, t, grad in case.outputs:
            self.string(name)
            self.tensor(t)
            self.cases += struct.pack("<B", grad is not None)
            if grad is not None:
                self.tensor(grad)
        for name, t in case.grads:
            self.string(name)
            self.tensor(t)
        self.count += 1

    def bytes(self):
        pool = bytes(self.pool) + b"\0" * (-len(self.pool) % 8)
        head = MAGIC + struct.pack("<IIII", VERSION, self.count, len(pool), len(self.cases))
        return head + pool + bytes(self.cases)


def write(path, cases):
    """One file, one copy of each case."""
    writer, seen = Writer(), set()
    for case in cases:
        start, count = len(writer.cases), writer.count
        writer.add(case)
        record = bytes(writer.cases[start:])
        unnamed = record[:4] + record[8:]  # the same case under another variant's name is no news
        if unnamed in seen:
            del writer.cases[start:]
            writer.count = count
        seen.add(unnamed)
    with open(path, "wb") as f:
        f.write(writer.bytes())
    return writer.count
