#!/usr/bin/env python3
"""Draws calls with random sizes and options, runs each by libsitu.so and by PyTorch, and compares values and gradients.
SPDX-License-Identifier: MIT

  python3 tools/golden/draw.py LIBSITU.SO [--count N] [--seed S] [--dtype f32] [--only max_pool2d,fold]

What one side refuses and the other computes is counted and, with --only, printed; values that differ are an error. A
call's options come from a few values each, among them those at the edge of what is allowed: that is where a library of
this kind is wrong without saying so. Where sums are long, PyTorch computes in f64, from the operands as they are."""
import argparse
import collections
import ctypes as C
import random
import sys

import torch

import drawn
import drawn.sizes
import drawn.training  # noqa: F401, its families
from drawn import FAMILIES, Backward, P, Refused, by, here, there

# Of equal elements any may be the one that is picked, and get the gradient.
TIES = ("picked", "quantile", "sorted_")
# torch keeps ASGD's eta and NAdam's mu_product in f32.
LOOSER = {"optimisers": 1e-6}
# By which a value may be off, beside the largest of its tensor and 1; a gradient by ten times as much.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 3e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
NAMED = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def message():
    return C.cast(drawn.lib.situ_error_message, C.CFUNCTYPE(C.c_char_p))().decode()


reckoned = torch.float64  # what PyTorch computes in


def ours_of(dtype):
    """situ's dtype where PyTorch has this one."""
    return drawn.dtype if dtype == reckoned else dtype


def compare_gradients(wanted, leaves, y, handles, tolerance):
    if not wanted.requires_grad:
        return
    up = torch.randn(wanted.shape, dtype=wanted.dtype).to(ours_of(wanted.dtype))
    try:
        theirs = torch.autograd.grad(wanted, leaves, up.to(wanted.dtype), allow_unused=True)
    except RuntimeError:
        return  # torch has no derivative
    if drawn.lib.situ_backward(y, by(Backward(gradient=there(up)))):
        raise Refused("backward: " + message())
    for handle, leaf, their in zip(handles, leaves, theirs):
        found = drawn.lib.situ_grad(handle)
        own = here(P(found), ours_of(leaf.dtype)).to(leaf.dtype) if found else torch.zeros_like(leaf)
        their = torch.zeros_like(leaf) if their is None else their
        torch.testing.assert_close(own, their, rtol=10 * tolerance, atol=10 * tolerance * scale(their), equal_nan=True)


def scale(t):
    """The size of what is finite: sums that cancel are as exact as their terms."""
    finite = t[t.isfinite()].abs() if t.is_floating_point() else t
    return 1 + (finite.max().item() if finite.numel() and t.is_floating_point() else 0)


def compare(tensors, theirs, ours, name):
    """same, tied, DIFFERS, "only torch", "only situ" or neither; and what it was."""
    tolerance = max(TOLERANCE[drawn.dtype], LOOSER.get(name, 0))
    leaves = [t.to(reckoned, copy=True).requires_grad_() for t in tensors if t.is_floating_point()]
    given = iter(leaves)
    try:
        wanted, why = theirs(*[next(given) if t.is_floating_point() else t for t in tensors]), ""
    except (RuntimeError, ValueError, IndexError) as problem:
        wanted, why = None, str(problem)
    scope, what = (C.c_char * 64)(), "value"
    drawn.lib.situ_scope_begin(scope)
    try:
        handles = [there(t, t.is_floating_point()) for t in tensors]
        y = ours(*handles)
        if wanted is None:
            return "only situ", why
        distinct = name not in TIES or all(leaf.unique().numel() == leaf.numel() for leaf in leaves)
        if not distinct and not wanted.is_floating_point():
            return "tied", ""
        value = wanted.detach()
        own = here(y, ours_of(value.dtype)).to(value.dtype)
        torch.testing.assert_close(own, value, rtol=tolerance, atol=tolerance * scale(value), equal_nan=True)
        what = "gradient"
        # A NaN spreads in the gradient by the way that it is computed.
        if distinct and all(leaf.isfinite().all() for leaf in leaves):
            compare_gradients(wanted, leaves, y, [h for h, t in zip(handles, tensors) if t.is_floating_point()], tolerance)
    except AssertionError as problem:
        return "DIFFERS", f"{what}: {problem}"
    except Refused as problem:
        return ("neither", "") if wanted is None else ("only torch", str(problem))
    finally:
        drawn.lib.situ_scope_end(scope)
        drawn.lib.situ_error_clear()
    return "same", ""


def main():
    global reckoned
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=200, help="calls of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", choices=NAMED, default="f64", help="f16 and bf16: families of drawn/sizes.py")
    parser.add_argument("--device", default="cpu", help="as situ_dev names it")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    drawn.lib = C.CDLL(options.library)
    drawn.lib.situ_error_mode(1)  # SITU_ERROR_QUIET
    drawn.lib.situ_grad.restype = P
    drawn.lib.situ_dev.restype = C.c_uint32  # a struct of two u16
    where = drawn.lib.situ_dev(options.device.encode())
    drawn.device = (C.c_uint16 * 2)(where & 0xffff, where >> 16)
    drawn.dtype = NAMED[options.dtype]
    total = collections.Counter()
    for name, draw in FAMILIES.items():
        if options.only and name not in options.only.split(","):
            continue
        large = draw.__module__ == drawn.sizes.__name__  # whose sums are long
        if drawn.dtype in (torch.float16, torch.bfloat16) and not large:
            continue
        reckoned = torch.float64 if large else drawn.dtype
        seen, shown = collections.Counter(), set()
        for k in range(options.count):
            random.seed(options.seed * 1000003 + k)
            torch.manual_seed(options.seed * 1000003 + k)
            kind, why = compare(*draw(), name)
            seen[kind] += 1
            wanted = kind == "DIFFERS" or (options.only and kind.startswith("only"))
            if wanted and why[:40] not in shown and len(shown) < 8:
                shown.add(why[:40])
                print(f"{name}, draw {k}: {kind}: {' '.join(why.split())[:300]}")
        total += seen
        print(f"{name:20s}", "  ".join(f"{kind} {count}" for kind, count in sorted(seen.items())), flush=True)
    print("all                 ", "  ".join(f"{kind} {count}" for kind, count in sorted(total.items())))
    return 1 if total["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main())
