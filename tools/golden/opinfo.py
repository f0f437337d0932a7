"""Cases from PyTorch's own OpInfo samples.
SPDX-License-Identifier: MIT"""
import collections
import itertools
import sys
import types
import unittest

_stub = types.ModuleType("expecttest")  # op_db's module asks for it and needs nothing of it
_stub.TestCase, _stub.ACCEPT, _stub.assert_expected_inline = unittest.TestCase, False, None
sys.modules.setdefault("expecttest", _stub)

import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import cases  # noqa: E402
import gold  # noqa: E402
from table import HALVES, ROWS, Skip  # noqa: E402

EXACT_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
MOST_ELEMENTS = 4000
MOST_SAMPLES = 300  # of one op and dtype; max_pool2d alone has 1440

INFOS = collections.defaultdict(list)
for _info in op_db:
    INFOS[_info.name].append(_info)


def infos(row):
    names = row.opinfo if row.opinfo is not None else (row.name, "nn.functional." + row.name)
    return [info for name in names for info in INFOS.get(name, ())]


def change(value, function):
    """function of every tensor in value."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if cases.is_tensors(value):
        return [function(t) for t in value]
    return value


def strided(t, how):
    """The same values with other strides: transposed, or every second element of a wider storage."""
    if how == 0 and t.dim() > 1:
        return t.transpose(-1, -2).contiguous().transpose(-1, -2)
    if t.dim() == 0:
        return t
    wide = t.new_full(t.shape[:-1] + (2 * t.shape[-1] + 1, ), 1)
    wide[..., 1::2] = t
    return wide[..., 1::2]


def samples(row, info, dtype, full):
    half = dtype in HALVES
    source = torch.float32 if half else dtype
    if source not in info.dtypes:
        return
    source_of = info.reference_inputs if full else info.sample_inputs
    made = list(source_of("cpu", source, requires_grad=False))
    step = max(1, len(made) // MOST_SAMPLES)
    for sample in made[::step]:
        args, kwargs = (sample.input, ) + tuple(sample.args), dict(sample.kwargs)
        args = tuple(args[i] for i in row.order) + args[len(row.order):]
        if half:
            lower = lambda t: t.to(dtype) if t.dtype == torch.float32 else t
            args = tuple(change(a, lower) for a in args)
            kwargs = {
                k: lower(v) if isinstance(v, torch.Tensor) else dtype if v is torch.float32 else v
                for k, v in kwargs.items()
            }
        yield args, kwargs


def all_cases(row, dropped, full):
    """Every case that op_db has for the row (its wider "reference inputs" for the full set); dropped[reason] counts those that do not fit."""
    dtypes = row.dtypes if isinstance(row.dtypes, tuple) else (
        torch.float32, torch.float64) + HALVES + EXACT_DTYPES if row.dtypes else (torch.float32, )
    for info, dtype in itertools.product(infos(row), dtypes):
        torch.manual_seed(1234)
        variant = "/".join(v for v in (info.variant_test_name, gold.DTYPE_NAMES.get(dtype, str(dtype)[6:])) if v)
        for number, (args, kwargs) in enumerate(samples(row, info, dtype, full)):
            if row.operand:
                try:
                    args = tuple(change(a, row.operand) for a in args)
                    kwargs = {k: change(v, row.operand) for k, v in kwargs.items()}
                except Skip as reason:
                    dropped[str(reason)] += 1
                    continue
            flat = [
                t for a in args + tuple(kwargs.values())
                for t in ([a] if isinstance(a, torch.Tensor) else a if cases.is_tensors(a) else [])
            ]
            if sum(t.numel() for t in flat) > MOST_ELEMENTS:
                dropped["more than %d elements" % MOST_ELEMENTS] += 1
                continue
            forms = [("", args, kwargs)]
            if dtype in (torch.float32, torch.complex64) and any(t.dim() for t in flat):
                for how, word in ((0, "transposed"), (1, "stepped")):
                    view = lambda t, how=how: strided(t, how)
                    forms.append((word, tuple(change(a, view)
                                              for a in args), {k: change(v, view)
                                                               for k, v in kwargs.items()}))
            for word, a, k in forms:
                try:
                    yield cases.make(row.name, *a, variant="%s/%d%s" % (variant, number, word), **k)
                except Skip as reason:
                    dropped[str(reason)] += 1
                except (RuntimeError, TypeError, IndexError, ValueError, AssertionError) as reason:
                    dropped["torch refuses: " + str(reason).split("\n")[0][:60]] += 1
