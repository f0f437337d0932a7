"""Hand-picked cases of indexing by lists of tensors, and of the ops that place or order values.
SPDX-License-Identifier: MIT"""
import torch

from picks import ALL, pick, r, stepped, turned, values

i = torch.tensor
MASK = i([[True, False, True], [False, False, True]])


def lists():
    """indices and their places in the list, for an input of [2, 3, 4]"""
    yield [i([1, 0, -1])], [0]
    yield [i([1, -3])], [1]
    yield [i([[3, 0], [-4, 1]])], [2]
    yield [i([1, 0]), i([-1, 2])], [0, 1]
    yield [i([1, 0]), i([-1, 2])], [1, 2]
    yield [i([1, 0]), i([-1, 2])], [0, 2]
    yield [i([[1], [0]]), i([2, 0, 1])], [0, 1]
    yield [i([[1], [0]]), i([2, 0, 1])], [0, 2]
    yield [i(1), i(2)], [1, 2]
    yield [i(1), i([2, 0]), i([[0], [3]])], [0, 1, 2]
    yield [MASK], [0]
    yield [MASK, i([0, 3, 1])], [0, 1]
    yield [i([True, False, True])], [1]
    yield [i([1, 0]), i([True, False, True, False])], [0, 2]
    yield [torch.zeros(0, dtype=torch.int64)], [1]
    yield [torch.zeros(2, 3, dtype=torch.bool)], [0]


def indexing():
    reading()
    writing()
    along()


def reading():
    for indices, at in lists():
        for form, x in (("plain", r(2, 3, 4)), ("turned", turned(r(2, 3, 4))), ("stepped", stepped(r(2, 3, 4)))):
            pick("index", x, indices, at, variant=form)
    for dtype in ALL:
        pick("index", values(2, 3, dtype=dtype), [i([1, 0]), i([-1, 2])], [0, 1], variant="dtype")
    pick("index", r(2, 3), [i([1, 0], dtype=torch.int32)], [1], variant="index dtype")
    pick("index", r(0, 3), [i([1, 0])], [1], variant="empty")
    pick("index", r(2, 3), [stepped(i([1, 0, 1])), turned(i([[0, 1, 2], [1, 0, 2]]))], [0, 1], variant="strided index")


def writing():
    for indices, at in lists():
        x = r(2, 3, 4)
        part = torch.ops.aten.index(x, [indices[at.index(k)] if k in at else None for k in range(max(at) + 1)])
        for accumulate in (False, True):
            for form, y in (("plain", x), ("turned", turned(x))):
                pick("index_put", y, indices, torch.randn(part.shape), accumulate, at=at, variant=form)
            pick("index_put", x, indices, r(), accumulate, at=at, variant="one value")
            pick("index_put_", turned(x), indices, torch.randn(part.shape), accumulate, at=at, variant="turned",
                 grad=False)
            pick("index_put_", x, indices, torch.randn(part.shape), accumulate, at=at)
    twice = [i([1, 1, 0]), i([2, 2, 0])]
    pick("index_put", r(2, 3), twice, r(3), True, at=[0, 1], variant="collisions")
    pick("index_put_", r(2, 3), twice, r(3), True, at=[0, 1], variant="collisions")
    for dtype in ALL:
        for accumulate in (False, True):
            pick("index_put", values(2, 3, dtype=dtype), [i([1, 0]), i([-1, 2])], values(2, dtype=dtype), accumulate,
                 at=[0, 1], variant="dtype")


def along():
    k = i([2, 0])
    for name in ("index_copy", "index_copy_"):
        for form, y in (("plain", r(3, 4)), ("turned", turned(r(3, 4))), ("stepped", stepped(r(3, 4)))):
            pick(name, y, 0, k, r(2, 4), variant=form)
            pick(name, y, -1, k, turned(r(3, 2)), variant=form)
        pick(name, r(3), 0, k, r(2), variant="1-d")
        pick(name, r(3, 4), 0, k[:0], r(0, 4), variant="empty")
    for name in ("index_fill", "index_fill_"):
        for form, y in (("plain", r(3, 4)), ("turned", turned(r(3, 4))), ("stepped", stepped(r(3, 4)))):
            pick(name, y, 0, k, 2.5, variant=form)
            pick(name, y, -1, i([1, 1]), -1.5, variant=form)
        pick(name, r(3, 4), 0, k[:0], 1.5, variant="empty")
    for dtype in ALL:
        pick("index_copy", values(3, 4, dtype=dtype), 0, k, values(2, 4, dtype=dtype), variant="dtype")
        pick("index_fill", values(3, 4, dtype=dtype), 0, k, 1, variant="dtype")
