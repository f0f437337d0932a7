"""Runs an op in torch and keeps what went in and came out as a gold.Case.
SPDX-License-Identifier: MIT"""
import inspect
import warnings

import torch

import gold
from table import HALVES, RANDOM, ROWS, Skip

warnings.filterwarnings("ignore")
SCALAR_FORMS = "add sub rsub mul div fmod remainder eq ne lt le gt ge add_ sub_ mul_ div_".split()
NUMBERS = {("pow", "input")} | {(name, "other") for name in SCALAR_FORMS}  # who takes a number for a tensor


def is_tensors(value):
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], torch.Tensor)


def leaf(t, grad, dtype=None):
    """A copy of t with t's strides, to differentiate by."""
    if t.is_contiguous() or t.numel() == 0:
        copy = t.detach().clone(memory_format=torch.contiguous_format)
    else:
        copy = gold.footprint(t)[0].as_strided(t.shape, t.stride(), 0)
    copy = copy.to(dtype) if dtype and copy.is_floating_point() else copy
    return copy.requires_grad_(grad and copy.is_floating_point())


def bind(row, args, kwargs):
    """The arguments by name, in situ's words; Skip if there are none for them."""
    bound = dict(inspect.signature(row.call).bind(*args, **kwargs).arguments)
    bound = {k: v for k, v in bound.items() if v is not None and not k.startswith("_")}
    for k in ("input", "self", "end", "other"):
        if row.family == "binary" and isinstance(bound.get(k), (int, float)) and (row.name, k) not in NUMBERS:
            raise Skip("a number as operand: " + k)
    if row.fit:
        row.fit(bound)
    return bound


def flatten(bound):
    """The tensors by name (those of lists as name.0, name.1, ...) and the attributes."""
    tensors, attrs = [], []
    for name, value in bound.items():
        if isinstance(value, torch.Tensor):
            tensors.append((name, value))
        elif is_tensors(value):
            tensors += [("%s.%d" % (name, i), t) for i, t in enumerate(value)]
        else:
            attrs.append((name, value))
    return tensors, attrs


def rebuild(bound, leaves):
    at = iter(leaves)
    return {
        name: next(at)
        if isinstance(value, torch.Tensor) else [next(at) for _ in value] if is_tensors(value) else value
        for name, value in bound.items()
    }


def like_half(t, half):
    """f32 results rounded to the half dtype that the inputs had."""
    return t.to(half) if t is not None and t.dtype == torch.float32 else t


def half_of(tensors, attrs):
    """The 16-bit dtype of the floating inputs, if they are all of one. Such a case is computed in f32 and its results
    rounded once: torch's CPU lacks many f16 kernels and rounds between the steps of its composed ones."""
    kinds = {t.dtype for _, t in tensors if t.is_floating_point()}
    stated = any(isinstance(v, torch.dtype) for _, v in attrs)
    return next(iter(kinds)) if len(kinds) == 1 and not stated and kinds <= set(HALVES) else None


def finite(tensors):
    return all(bool(torch.isfinite(t).all()) for t in tensors)


def make(name, *args, variant="", picked=False, flags=0, grad=True, **kwargs):
    """Calls ROWS[name] and returns the Case. Raises Skip, or what torch raises."""
    row = ROWS[name]
    bound = bind(row, args, kwargs)
    tensors, attrs = flatten(bound)
    if any(t.dim() > 8 for _, t in tensors):
        raise Skip("more than 8 dimensions")
    if any(isinstance(v, complex) for _, v in attrs) or any(t.is_complex() for _, t in tensors):
        raise Skip("complex numbers")
    if row.no_grad and row.no_grad([t for _, t in tensors]):
        grad = False
    half = None if row.native else half_of(tensors, attrs)
    leaves = [leaf(t, grad and n not in row.fixed, torch.float32 if half else None) for n, t in tensors]
    arguments = rebuild(bound, leaves)
    if row.inplace:  # in-place writes go to a copy: a leaf refuses them
        first = next(iter(arguments))
        arguments[first] = arguments[first].clone(memory_format=torch.preserve_format)
    torch.manual_seed(len(attrs) + 7 * len(tensors))
    # what backward keeps of the forward is kept in 16 bits, as a 16-bit kernel keeps it
    keep = lambda t: t.to(half).to(t.dtype) if half and t.dtype == torch.float32 else t
    with torch.set_grad_enabled(grad), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        result = row.call(**arguments)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if row.view and results and results[0].numel():
        attrs = attrs + view_attrs(results, leaves[0])
    if name in RANDOM:
        flags |= gold.SHAPE_ONLY
        results = [torch.zeros_like(r) for r in results]
    seeds = [
        torch.randn(r.shape, dtype=torch.float64).to(half or r.dtype).to(r.dtype) if r.requires_grad else None
        for r in results
    ]
    grads = []
    wanted = [i for i, r in enumerate(results) if seeds[i] is not None]
    if wanted:
        targets = [i for i, l in enumerate(leaves) if l.requires_grad]
        found = torch.autograd.grad([results[i] for i in wanted], [leaves[i] for i in targets],
                                    [seeds[i] for i in wanted], allow_unused=True)
        grads = [(tensors[i][0], like_half(g, half).detach()) for i, g in zip(targets, found)
                 if g is not None]
    if half and finite(t for _, t in tensors) and not finite(like_half(r, half) for r in results):
        raise Skip("overflows in 16 bits")
    # where a 16-bit gradient comes near to the end of the range, it hangs on the order of a formula's steps
    if half and any(g.nan_to_num(0).abs().max() > 4096 for _, g in grads if g.numel()):
        grads = []
    if not grads:  # torch calls the result differentiable, but has no gradient (norm with p = 0)
        seeds = [None] * len(results)
    names = row.outputs if len(
        row.outputs) >= len(results) else ["output.%d" % i for i in range(len(results))]
    inputs = [t.detach().clone() if t.is_contiguous() else t.detach() for _, t in tensors]
    return gold.Case(name, variant, [(n, t) for (n, _), t in zip(tensors, inputs)], attrs,
                     [(n, like_half(r, half).detach(), like_half(s, half))
                      for n, r, s in zip(names, results, seeds)], grads, flags, picked)


def view_attrs(results, source):
    """Where each view looks: its offset from the input's first element, then its strides."""
    if not all(r.storage().data_ptr() == source.storage().data_ptr() for r in results):
        return []
    return [("view.%d" % i, [r.storage_offset() - source.storage_offset()] + list(r.stride()))
            for i, r in enumerate(results)]
