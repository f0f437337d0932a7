#!/usr/bin/env python3
"""Exports the programs whose ONNX form once computed something else, with PyTorch's results, for tests/program/onnx/written.
SPDX-License-Identifier: MIT

  python3 tools/exchange/written_kept.py DIRECTORY

What tools/exchange/onnx_written.py finds is added here. A program whose name begins with "refused" has no form."""
import copy
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import written_programs
from thin import thin, thin_archive

INF, NAN = float("inf"), float("nan")
REAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, INF, -INF, NAN, 1e-30, -1e-10, 1e10, -1e4, 88.5, -104.0, 3.0])
TINY = torch.tensor([1e-3, -1e-3, 1e-6, -1e-6, 1e-8, 1e-12, -1e-20, 0.3, -0.3, 2.5, -9.0, 20.0])
INTEGER = torch.tensor([0, 1, -1, 7, -7, 2, 3, -5])
PAIRS = torch.cartesian_prod(REAL[:9], REAL[:9]).t()


def kept():
    """name: function, inputs, inputs of the second run."""
    wide = REAL.double()
    yield "small_and_large", lambda x: (x.expm1(), x.log1p(), x.erfc(), x.sign(), torch.special.erfc(x), x.neg(), x.square()), [
        TINY], [REAL[[0, 1, 2, 3, 4, 5, 9, 10, 12, 13, 14, 15]]]
    yield "specials", lambda x: (
        x.expm1(), x.sign(), F.softshrink(x), F.hardshrink(x), x.clamp(max=2), x.clamp(min=-2), F.threshold(x, 0.5, 7.0),
        x.isinf(), x.isfinite(), x.isnan(), x.trunc(), x.round(), F.celu(x, 1.5), F.elu(x, 0.5), F.leaky_relu(x, 0.3)), [
        REAL], [REAL.flip(0)]
    yield "specials_of_f64", lambda x: (F.hardsigmoid(x), F.hardswish(x), F.leaky_relu(x, 0.3), F.elu(x, 0.7), F.celu(x, 0.7),
                                        F.selu(x)), [wide], [TINY.double()[:8].repeat(2)]
    yield "pairs", lambda a, b: (torch.remainder(a, b), torch.div(a, b, rounding_mode="floor"), torch.atan2(a, b),
                                 torch.fmod(a, b), torch.minimum(a, b), torch.maximum(a, b), torch.lerp(a, b, -2.0)), [
        PAIRS[0].clone(), PAIRS[1].clone()], [PAIRS[1].clone(), PAIRS[0].clone()]
    yield "whole_numbers", lambda x, u: (
        x.ceil(), x.floor(), x.round(), x.trunc(), x**2, x**5, x.isnan(), x.isinf(), x.isfinite(), torch.sign(x), u.relu(), -u,
        u > -2, u == 300, u.clamp(-1, 2), u.sum(dtype=torch.int16), u.prod(0, dtype=torch.bool), F.one_hot(x[3], 9)), [
        INTEGER, torch.tensor([0, 1, 2, 255, 128, 7, 9, 3], dtype=torch.uint8)], [
        torch.tensor([2**53 + 1, -2**40, 0, 5, -3, 9, 11, -12]), torch.tensor([1, 1, 2, 5, 8, 7, 9, 3], dtype=torch.uint8)]
    bools = torch.tensor([[True, False, True], [False, False, True]])
    yield "bools", lambda p, q: (p >= q, p < q, torch.minimum(p, q), torch.maximum(p, q), p.any(), p.all(1), p.max(), p.min(),
                                 p.max(1)[1], p.sum(0)), [bools, bools.flip(1)], [~bools, bools.flip(0)]
    some = torch.tensor([[1.5, -2.0, 4.0], [0.25, 3.0, -1.0]])
    yield "reductions", lambda x: (
        x.argmax(keepdim=True), x.argmin(None, True), x.std([0], correction=1), x[:1].std([0], correction=1), x.var([0], correction=3),
        x[0, 0].cumsum(0), torch.linalg.vector_norm(x[0, 0], float("inf")), x.amin(1), x.to(torch.int16).amin(1)), [some], [-some]
    yield "nothing", lambda x: (x[:0].any(), x[:0].all(), x[:0].sum(), x[:0].prod(1), x[:, :0].flatten(-2, 0)), [some], [some * 2]
    yield "shapes", lambda x: (
        x.narrow(1, -2, 2), x.narrow(1, -2, 1), x.roll(-7, 1), x.roll(9), x[-1], x.expand(-1, -1),
        x[:, :1].expand(2, 4), torch.diff(x, prepend=x[:, :1].double()),
        torch.diff(x, n=0, prepend=x), torch.arange(2**53, 2**53 + 4, dtype=torch.float32)), [
        some], [some * 3]
    image = torch.arange(16.0).reshape(1, 1, 4, 4) ** 2
    yield "resized_to_one", lambda x: (
        F.interpolate(x, 1, mode="bilinear"), F.interpolate(x, (1, 3), mode="bicubic"), F.interpolate(x[0], 1, mode="linear"),
        F.interpolate(x, (1, 7), mode="bilinear", align_corners=True), F.interpolate(x, (1, 3))), [image], [image.flip(2)]
    yield "one_infinity", lambda x: (F.adaptive_avg_pool2d(x, (2, 2)), F.adaptive_avg_pool2d(x, (3, 2)),
                                     F.adaptive_avg_pool1d(x[0], 3)), [image.masked_fill(image == 225, INF)], [
        image.masked_fill(image == 0, NAN)]
    q, mask = torch.randn(1, 2, 2, generator=torch.Generator().manual_seed(3)), torch.zeros(2, 2, dtype=torch.bool)
    yield "attention_with_masked_rows", lambda q, m, f: (
        F.scaled_dot_product_attention(q, q, q, m), F.scaled_dot_product_attention(q, q, q, f)), [
        q, mask, torch.full((2, 2), -INF)], [q + 1, torch.tensor([[True, False], [False, False]]), torch.tensor([[0, -INF], [-INF] * 2])]
    yield "prelu_of_a_number", lambda x, w: F.prelu(x, w), [torch.tensor(-2.0), torch.tensor([0.25])], [
        torch.tensor(3.0), torch.tensor([0.5])]

    def in_place(x):
        return (x.clone().gt_(0) + 1, x.clone().eq_(x.flip(0)) * 2, x.clone().logical_not_() + 0.5,
                x.half().add_(x * 1e-3), x.half().remainder_(x + 1e-9))

    yield "in_place", in_place, [TINY], [TINY * 3]


    one, other = PAIRS[0].clone(), PAIRS[1].clone()
    yield "formulas", lambda a, b: (
        torch.hypot(a, b), torch.xlogy(a, b), torch.xlogy(a, 2.5), torch.copysign(a, b), torch.logaddexp(a, b),
        torch.heaviside(a, b), torch.fmax(a, b), torch.fmin(a, b), a.nan_to_num(), a.nan_to_num(1.5, 2, -3), a.isclose(b),
        a.isclose(b, equal_nan=True), a.frac(), F.smooth_l1_loss(a, b, reduction="none"), torch.lerp(a, b, b),
        F.huber_loss(a, b, reduction="none", delta=2), a.double().atan(), torch.atan2(a.double(), b.double())), [one, other], [
        other, one]
    yield "losses", lambda a, b: (F.mse_loss(a, b), F.l1_loss(a, b, reduction="sum"), F.smooth_l1_loss(a, b, beta=0.5),
                                  F.huber_loss(a, b), torch.cdist(a, b), torch.cdist(a, b, p=1), torch.cdist(a, b, p=INF),
                                  F.glu(torch.cat([a, b], 1))), [some, some.flip(0)], [some * 2, some]
    yield "powers", lambda x, e, u: (
        2**e, x**e, x**0, x << 2, x >> 1, x & 6, x | 1, x ^ 3, torch.remainder(7, x.clamp(min=1)), x.floor_divide(3),
        u * u, u.clone().add_(200), u // 3, u << 1), [
        INTEGER, torch.tensor([0, 1, 2, 3, 9, 40, -1, -2]), INTEGER.abs().to(torch.uint8) * 30], [
        INTEGER.flip(0), torch.tensor([5, 1, 62, 0, 4, 4, 7, 2]), INTEGER.abs().to(torch.uint8)]
    rows = torch.stack([REAL[:6], REAL[6:12], REAL[2:8], REAL[10:16]])
    yield "up_to_each", lambda x, i: (*x.cummax(0), *x.cummin(1), x[0, 2:6].cumprod(0), *i.cummax(0), *i.cummin(0), i.cumprod(0)), [
        rows, INTEGER], [rows.flip(0, 1), INTEGER.flip(0)]
    yield "some_elements", lambda x, i: (
        x.masked_select(x > 0), x.nonzero(), x.index_fill(1, i, 2.5), x.count_nonzero(), x.count_nonzero(1),
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True),
        x.nansum(), x.nansum(1), x.nan_to_num().scatter_reduce(0, torch.zeros_like(x, dtype=torch.int64), x.nan_to_num(), "amax"),
        torch.linspace(-1, 1, 5), torch.hann_window(6), torch.eye(3, 2)), [some, torch.tensor([0, 2])], [
        some.masked_fill(some > 2, NAN), torch.tensor([1, 1])]


def sized():
    """Programs whose sizes are free, at two sizes."""
    for name in ("size in full", "size in full, half", "size in new_full", "size in full_like", "size as a fill", "size as a factor",
                 "size as a term", "size as a divisor", "roll of few",
                 "writes through views", "shapes of a size", "slice to a floored negative", "expand with -1", "expand more with -1", "view of two sizes"):
        yield name


def stateful():
    """Programs that write a buffer, whose next value is one more result."""
    return [name for name in written_programs.PROGRAMS if name.startswith("buffer")]


def refused():
    yield "size as a bound"
    yield "size as a root"


class Module(torch.nn.Module):
    def __init__(self, fn, state=None):
        super().__init__()
        self.fn = fn
        for name, value in (state or {}).items():
            self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.fn(self, *inputs) if self._buffers else self.fn(*inputs)


def save(directory, name, module, first, second, dynamic=None):
    program = torch.export.export(module.eval(), tuple(first), strict=False, dynamic_shapes=dynamic)
    thin(program)
    torch.export.save(program, f"{directory}/{name}.pt2")
    thin_archive(f"{directory}/{name}.pt2")
    if second is None:
        return
    tensors = {}
    for k, inputs in enumerate((first, second)):
        own = copy.deepcopy(module)
        results = own(*[t.clone() for t in inputs])
        names = program.graph_signature.user_inputs
        tensors |= {f"in.{k}.{n}": t.clone() for n, t in zip(names, inputs)}
        results = results if isinstance(results, tuple) else (results,)
        results += tuple(own.buffers()) if name.startswith("buffer") else ()
        tensors |= {f"out.{k}.{i}": r.clone().contiguous() for i, r in enumerate(results)}
    save_file(tensors, f"{directory}/{name}.safetensors")


def main(directory):
    torch.manual_seed(1)
    for name, fn, first, second in kept():
        save(directory, name, Module(fn), first, second)
    for name in sized():
        fn, maker, state = written_programs.PROGRAMS[name]()
        inputs = maker(4)
        dynamic = tuple({d: torch.export.Dim.AUTO for d, (s, o) in enumerate(zip(a.shape, b.shape)) if s != o}
                        for a, b in zip(inputs, maker(5)))
        save(directory, name.replace(" ", "_").replace(",", ""), Module(fn, state), inputs, maker(7), (dynamic,))
    for name in stateful():
        fn, maker, state = written_programs.PROGRAMS[name]()
        save(directory, name.replace(" ", "_").replace("+=", "iadd"), Module(fn, state), maker(4), maker(4))
    for name in refused():
        fn, maker, state = written_programs.PROGRAMS[name]()
        save(directory, "refused_" + name.replace(" ", "_"), Module(fn, state), maker(4), None, (({0: torch.export.Dim.AUTO},),))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
