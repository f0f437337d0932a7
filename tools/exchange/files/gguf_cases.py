#!/usr/bin/env python3
"""Writes the GGUF files of the tests with llama.cpp's gguf package (PyPI: gguf).
SPDX-License-Identifier: MIT

usage: gguf_cases.py DIRECTORY      (tests/io/gguf)

blocks.gguf   a tensor of each type of blocks, and as NAME.values what the package dequantises it to, in f32
model.gguf    tensors and metadata of a small Llama-shaped model, the metadata of every type
"""
import pathlib
import sys

import gguf
import numpy
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type

random = numpy.random.default_rng(7)
# Each type and the places of its f16 numbers.
BLOCKS = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
          Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.IQ4_NL: [0]}


def halves(count):
    """Finite f16 numbers: normal, negative, subnormal, zero."""
    values = random.normal(0, 0.05, count).astype(numpy.float16)
    values[::5] = numpy.float16(5e-7)
    values[3::7] = 0
    return values


def random_blocks(rows, columns, kind):
    """Blocks of random bits: the package quantises only some of the types."""
    elements, size = GGML_QUANT_SIZES[kind]
    count = rows * columns // elements
    blocks = random.integers(0, 256, (count, size), dtype=numpy.uint8)
    for at in BLOCKS[kind]:
        blocks[:, at:at + 2] = halves(count).reshape(count, 1).view(numpy.uint8)
    return blocks.reshape(rows, -1)


def write(path, arch, fill):
    writer = gguf.GGUFWriter(path, arch)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def blocks(writer):
    for kind in BLOCKS:
        data = random_blocks(6, 256, kind)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        writer.add_tensor(kind.name + '.values', gguf.dequantize(data, kind).astype(numpy.float32))
    weight = random.normal(0, 1, (2, 64)).astype(numpy.float32)
    for kind in (Type.Q8_0, Type.Q4_0):
        data = gguf.quantize(weight, kind)
        writer.add_tensor(kind.name + '.quantized', data, raw_dtype=kind)
        writer.add_tensor(kind.name + '.quantized.values', gguf.dequantize(data, kind).astype(numpy.float32))
    writer.add_tensor('experts', random_blocks(4, 32, Type.Q8_0).reshape(2, 2, 34), raw_dtype=Type.Q8_0)
    writer.add_tensor('other', numpy.zeros((1, 84), numpy.uint8), raw_dtype=Type.Q2_K)


def model(writer):
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(['a', 'bc', '', '\u00e9', 'e', 'f', 'g', 'h'])
    writer.add_token_scores([0.5, -1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    writer.add_bool('test.yes', True)
    writer.add_uint8('test.u8', 255)
    writer.add_int8('test.i8', -128)
    writer.add_uint16('test.u16', 65535)
    writer.add_int16('test.i16', -32768)
    writer.add_int32('test.i32', -2 ** 31)
    writer.add_uint64('test.u64', 2 ** 64 - 1)
    writer.add_int64('test.i64', -2 ** 63)
    writer.add_float64('test.f64', 1 / 3)

    def quantized(name, rows, columns, kind):
        weight = random.normal(0, 0.3, (rows, columns)).astype(numpy.float32)
        writer.add_tensor(name, gguf.quantize(weight, kind), raw_dtype=kind)

    def plain(name, *shape):
        writer.add_tensor(name, random.normal(0, 1, shape).astype(numpy.float32))

    quantized('token_embd.weight', 8, 32, Type.Q8_0)
    plain('output_norm.weight', 32)
    quantized('output.weight', 8, 32, Type.Q8_0)
    plain('blk.0.attn_norm.weight', 32)
    plain('blk.0.ffn_norm.weight', 32)
    for name, rows in (('attn_q', 32), ('attn_k', 16), ('attn_v', 16), ('attn_output', 32)):
        quantized(f'blk.0.{name}.weight', rows, 32, Type.Q4_0)
    quantized('blk.0.ffn_gate.weight', 64, 32, Type.Q8_0)
    quantized('blk.0.ffn_up.weight', 64, 32, Type.Q8_0)
    quantized('blk.0.ffn_down.weight', 32, 64, Type.Q8_0)
    writer.add_tensor('half', random.normal(0, 1, (2, 3)).astype(numpy.float16))
    writer.add_tensor('whole', numpy.arange(6, dtype=numpy.int32).reshape(2, 3))


if __name__ == '__main__':
    to = pathlib.Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    write(to / 'blocks.gguf', 'test', blocks)
    write(to / 'model.gguf', 'llama', model)
