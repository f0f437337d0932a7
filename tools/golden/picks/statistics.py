"""Hand-picked cases of searching, counting, ranks and statistics.
SPDX-License-Identifier: MIT"""
import torch

from picks import ALL, NAN, INF, ints, maybe, pick, r, t, turned, values

i = torch.tensor


def statistics():
    ranks()
    reductions()
    searching()


def forms(name, *args, **rest):
    pick(name, r(2, 3, 4), *args, **rest)
    pick(name, turned(r(2, 3, 4)), *args, variant="turned", **rest)


def ranks():
    for dim in (0, 1, -1):
        for keepdim in (False, True):
            forms("kthvalue", 2, dim, keepdim)
            for name in ("median", "nanmedian", "mode"):
                forms(name, dim, keepdim)
        forms("cummax", dim)
        forms("cummin", dim)
    holes = t(3.0, NAN, 1.0, 2.0, NAN, NAN, NAN, NAN, 5.0, -INF, INF, 0.0).reshape(3, 4)
    for name in ("median", "nanmedian"):
        forms(name)
        pick(name, r(), variant="scalar")
        for dim in (None, 0, 1):
            pick(name, holes, dim, variant="nan", grad=False)
    for name in ("cummax", "cummin"):
        pick(name, holes, 1, variant="nan", grad=False)
        pick(name, r(), 0, variant="scalar")
        pick(name, r(0, 3), 0, variant="empty", grad=False)
        pick(name, i([1, 3, 3, 2, 3, 1, 1]), 0, variant="equal")
    pick("mode", i([[3, 1, 3, 1, 2], [5, 5, 5, 0, 0]]), 1, variant="equal")
    pick("mode", t(1.0, 2.0, 2.0, 1.0), 0, variant="equal", grad=False)
    pick("kthvalue", r(), 1, variant="scalar")
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        for name in ("quantile", "nanquantile"):
            for q in (0.0, 0.3, 0.5, 1.0):
                pick(name, r(5, 3), q, 0, False, interpolation=how)
            pick(name, turned(r(2, 3, 4)), 0.4, 1, True, interpolation=how, variant="turned")
            pick(name, r(3, 3), 0.9, interpolation=how, variant="whole")
            pick(name, holes, 0.5, 1, interpolation=how, variant="nan", grad=False)
            pick(name, r(4, 3, dtype=torch.float64), 0.7, -1, interpolation=how, variant="f64")
    forms("msort")
    for dtype in ALL:
        for name, args in (("kthvalue", (2, 1)), ("median", ()), ("mode", (1, )), ("cummax", (0, )), ("cummin", (0, ))):
            maybe(name, values(3, 3, dtype=dtype), *args, variant="dtype", grad=False)


def reductions():
    holes = t(3.0, NAN, 1.0, 2.0, NAN, NAN).reshape(2, 3)
    for dim in (None, [0], [0, 2]):
        pick("count_nonzero", ints(2, 3, 4), dim)
        for keepdim in (False, True):
            for name in ("nansum", "nanmean", "var_mean", "std_mean"):
                forms(name, dim, keepdim=keepdim)
    for size in ([3, 4], [2, 1, 4], [1, 1], [2, 3, 4], []):
        forms("sum_to_size", size)
    for name in ("nansum", "nanmean"):
        for dim in (None, [0], [1]):
            pick(name, holes, dim, variant="nan", grad=dim != [0])  # torch's gradient where all are NaN is NaN
    for dim in (None, 0, -1):
        forms("aminmax", dim=dim)
        forms("aminmax", dim=dim, keepdim=True)
    for n in (0, 1, 2, 9):
        for dim in (0, -1):
            forms("diff", n, dim)
    for p in (0.0, 1.0, 2.0, 3.0, INF):
        pick("cdist", r(3, 4), r(2, 4), p)
        pick("cdist", r(2, 3, 4), r(5, 4), p, variant="broadcast")
    for p in (1.0, 2.0, 3.0):
        for dim in (0, 1):
            forms("renorm", p, dim, 1.0)
    for dtype in ALL:
        for name in ("count_nonzero", "nansum", "aminmax", "diff"):
            maybe(name, values(2, 3, dtype=dtype), variant="dtype", grad=False)
        maybe("sum_to_size", values(2, 3, dtype=dtype), [2, 1], variant="dtype", grad=False)


def searching():
    line = t(-2.0, -1.0, 0.5, 0.5, 0.5, 3.0, 7.0)
    for right in (False, True):
        for x in (t(0.5, -3.0, 7.0, 8.0, 0.6, NAN, INF), r(2, 3), r(), turned(r(3, 2)), r(0)):
            pick("searchsorted", line, x, right, grad=False)
            pick("bucketize", x, line, right, grad=False)
        pick("searchsorted", torch.sort(r(2, 5))[0], r(2, 3), right, grad=False, variant="lines")
        pick("searchsorted", line[:0], r(3), right, grad=False, variant="empty")
        pick("searchsorted", i([1, 2, 2, 4]), i([2, 0, 5, 4]), right, variant="i64")
    for invert in (False, True):
        pick("isin", ints(3, 4), i([0, 2, -1]), invert, variant="i64")
        pick("isin", t(1.0, NAN, 2.0), t(2.0, NAN), invert, variant="nan", grad=False)
        pick("isin", ints(2, 3), i([], dtype=torch.int64), invert, variant="empty")
        pick("isin", ints(2, 3), t(1.0, 2.0), invert, variant="promote", grad=False)
    for x in (i([3, 1, 1, 2, 3]), i([[2, 2, 1], [1, 1, 2]]), i([5]), i([], dtype=torch.int64), i(4),
              t(0.5, -1.0, 0.5, INF), i([True, False, True])):
        pick("unique", x, grad=False)
        pick("unique_consecutive", x, grad=False)
    counted = i([1, 3, 1, 0, 5])
    pick("bincount", counted)
    pick("bincount", counted, None, 9)
    pick("bincount", counted.to(torch.uint8), None, 2)
    pick("bincount", counted[:0], None, 3, variant="empty")
    pick("bincount", counted, r(5), grad=False, variant="weights")
    pick("bincount", counted, r(5, dtype=torch.float64), 7, grad=False, variant="weights")
    for bins, low, high in ((4, 0, 0), (5, -1, 1), (3, 0, 2), (1, 0, 0), (10, -2, 3)):
        pick("histc", r(4, 5), bins, low, high, grad=False)
    pick("histc", torch.ones(4), 3, 0, 0, grad=False, variant="equal")
    pick("histc", t(0.0, 1.0, 2.0, 3.0, 4.0, NAN), 4, 0, 4, grad=False, variant="bounds")
