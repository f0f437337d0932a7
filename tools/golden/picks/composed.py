"""Hand-picked cases of the ops that situ makes of others.
SPDX-License-Identifier: MIT"""
import torch

from picks import ALL, ints, maybe, pick, r, stepped, t, turned, values
from picks.shape import every_form


def arrange():
    moves()
    diagonals()
    joins()
    contractions()
    creation()


def moves():
    for source, destination in (([0], [2]), ([0, 1], [2, 0]), ([-1], [0]), ([], []), ([2, 0, 1], [0, 1, 2])):
        every_form("movedim", source, destination) if source == [0] else pick("movedim", r(2, 3, 4), source, destination)
    pick("movedim", r(), [], [], variant="scalar")
    every_form("swapaxes", 0, -1)
    for dim, sizes in ((1, [3, 1]), (-1, [2, -1]), (0, [2]), (2, [2, 1, 2])):
        every_form("unflatten", dim, sizes) if dim == -1 else pick("unflatten", r(2, 3, 4), dim, sizes)
    for k in (-5, -1, 0, 1, 2, 3, 4):
        every_form("rot90", k, [0, 2]) if k == 1 else pick("rot90", r(2, 3, 4), k, [1, -1])
    every_form("fliplr")
    every_form("flipud")
    pick("flipud", r(3), variant="1-d")
    for dims in ([2], [2, 1], [1, 1, 1], [2, 1, 1, 2], [], [0, 2]):
        every_form("tile", dims) if dims == [2, 1] else pick("tile", r(2, 3, 4), dims)
    pick("tile", r(), [2], variant="scalar")
    for repeats, dim in ((2, 0), (3, 1), (2, -1), (1, 1), (0, 1), (2, None)):
        every_form("repeat_interleave", repeats, dim) if dim == 1 else pick("repeat_interleave", r(2, 3, 4), repeats,
                                                                           dim)
    pick("repeat_interleave", r(), 3, variant="scalar")
    pick("repeat_interleave", r(1), 3, 0, variant="one")
    for shape in ((4, 2, 3), (2, 8, 1, 3), (2, 1, 4, 2, 2), (0, 4, 2, 2)):
        pick("pixel_shuffle", r(*shape), 2, grad=shape[0] > 0)  # torch has no gradient of an empty batch
    for shape in ((1, 2, 6), (2, 3, 4, 2), (2, 1, 1, 2, 2)):  # torch gives an empty batch back as it is
        pick("pixel_unshuffle", r(*shape), 2)
    for name in ("pixel_shuffle", "pixel_unshuffle"):
        pick(name, r(2, 2, 2), 1, variant="one")
        pick(name, turned(r(9, 3, 6)), 3, variant="turned")
        for dtype in ALL[1:]:
            maybe(name, values(1, 4, 2, 2, dtype=dtype), 2, variant="dtype")


def diagonals():
    for offset, dims in ((0, (0, 1)), (1, (0, 2)), (-1, (1, 2)), (2, (-1, 0)), (-2, (2, 1)), (9, (0, 1)), (-9, (0, 2))):
        every_form("diagonal", offset, *dims) if dims == (0, 2) else pick("diagonal", r(2, 3, 4), offset, *dims)
    pick("diagonal", r(0, 3), variant="empty")
    for offset, dims in ((0, (-2, -1)), (1, (0, 1)), (-2, (0, -1)), (1, (2, 0))):
        every_form("diag_embed", offset, 0, 1) if dims == (0, 1) else pick("diag_embed", r(2, 3), offset, *dims)
    pick("diag_embed", r(0), variant="empty")
    pick("diag_embed", r(3, 0), 1, variant="empty")
    for diagonal in (0, 1, -1, 5):
        pick("diag", r(3), diagonal)
        pick("diag", r(3, 4), diagonal)
        pick("diag", turned(r(3, 4)), diagonal, variant="turned")
    pick("trace", r(3, 4))
    pick("trace", turned(r(4, 3)), variant="turned")
    pick("trace", r(0, 3), variant="empty")
    for dtype in ALL[1:]:
        pick("diag", values(3, 3, dtype=dtype), variant="dtype")
        maybe("trace", values(3, 3, dtype=dtype), variant="dtype")


def joins():
    for name in ("hstack", "vstack", "dstack"):
        pick(name, [r(2, 3), r(2, 3)])
        pick(name, [r(3), r(3), r(3)], variant="1-d")
        pick(name, [r(), r()], variant="scalars")
        pick(name, [r(2, 3, 2), r(2, 3, 2)], variant="3-d")
        pick(name, [turned(r(2, 3)), stepped(r(2, 3))], variant="strided")
        pick(name, [values(2, 2, dtype=torch.int32), r(2, 2)], variant="promote", grad=False)
        pick(name, [r(0), r(0)], variant="empty")
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for shape in ((), (3, ), (2, 3), (2, 1, 3), (0, )):
            pick(name, r(*shape))
        pick(name, turned(r(3, 4)), variant="turned")
    pick("block_diag", [r(2, 3), r(1, 2), r(3, 1)])
    pick("block_diag", [r(), r(3), r(2, 2)], variant="ranks")
    pick("block_diag", [r(0), r(2, 2), r(2, 0)], variant="empty", grad=False)  # torch forgets the row of [0] there
    pick("block_diag", [turned(r(2, 3)), stepped(r(2, 2))], variant="strided")
    pick("block_diag", [r(2, 2)], variant="one")
    pick("block_diag", [values(2, 2, dtype=torch.int32), r(2, 2)], variant="promote", grad=False)
    for dtype in ALL[1:]:
        pick("block_diag", [values(2, 2, dtype=dtype), values(1, 2, dtype=dtype)], variant="dtype")
    for indexing in ("ij", "xy"):
        pick("meshgrid", [r(2), r(3)], indexing=indexing)
        pick("meshgrid", [r(2), r(3), r(2)], indexing=indexing)
        pick("meshgrid", [r(), r(3)], indexing=indexing, variant="scalar")
        pick("meshgrid", [r(3)], indexing=indexing, variant="one")
        pick("meshgrid", [r(0), r(2)], indexing=indexing, variant="empty")


EQUATIONS = (("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 2), (2, 2, 4)),
             ("i,i->", (5, ), (5, )), ("i,i->i", (5, ), (5, )), ("i,j->ij", (3, ), (4, )), ("ij->ji", (2, 3)),
             ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("iij->ji", (3, 3, 2)),
             ("iii->", (2, 2, 2)), ("...ij->...ji", (2, 1, 3, 2)), ("...ij,...jk->...ik", (2, 1, 3, 2), (3, 2, 2)),
             ("...i,i", (2, 3, 4), (4, )), ("...ij->ij", (3, 2, 2)), ("i...,j...->ij...", (2, 3), (4, 1)),
             ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ab,cd,be->ade", (2, 3), (2, 2), (3, 4)),
             ("i,ij,j->", (3, ), (3, 4), (4, )), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 2, 4)),
             ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)), ("ij,ij->i", (2, 3), (2, 3)), ("ij,ij->i", (1, 3), (2, 3)),
             ("ij,jk->ik", (2, 1), (3, 4)), ("Ab,bC", (2, 3), (3, 4)), ("ba", (2, 3)), (" i j , j k -> k i ", (2, 3), (3, 4)),
             ("", ()), (",", (), ()), (",ij->ji", (), (2, 3)), ("ij,jk->ik", (2, 0), (0, 4)), ("ij->i", (0, 3)),
             ("abcd,efgh->abcdefgh", (1, 2, 1, 2), (2, 1, 2, 1)), ("ii,ij->j", (3, 3), (3, 2)))


def contractions():
    for equation, *shapes in EQUATIONS:
        pick("einsum", [r(*shape) for shape in shapes], equation, variant=equation)
    pick("einsum", [turned(r(2, 3)), stepped(r(3, 4))], "ij,jk->ki", variant="strided")
    for dtype in ALL[1:]:
        maybe("einsum", [values(2, 3, dtype=dtype), values(3, 2, dtype=dtype)], "ij,jk->ik", variant="dtype")
        maybe("einsum", [values(3, dtype=dtype), values(2, dtype=dtype)], "i,j->ij", variant="dtype")
    for a, b, dims in (((2, 3, 4), (4, 3, 2), ([1, 2], [1, 0])), ((2, 3), (3, 4), 1), ((2, 3), (2, 3), 2),
                       ((2, 3), (4, ), 0), ((3, ), (3, ), 1), ((2, 3, 4), (4, 2), ([-1, 0], [0, -1])),
                       ((2, 0), (0, 3), 1), ((), (2, ), 0), ((2, 1), (3, 2), ([1], [0]))):
        pick("tensordot", r(*a), r(*b), dims)
    pick("tensordot", turned(r(2, 3)), stepped(r(3, 4)), 1, variant="strided")
    for dtype in ALL[1:]:
        maybe("tensordot", values(2, 3, dtype=dtype), values(3, 2, dtype=dtype), 1, variant="dtype")
    for a, b in (((2, 3), (3, 2)), ((2, ), (3, )), ((), (2, 2)), ((2, 2), (3, )), ((2, 1, 3), (2, 2)), ((0, 2), (2, 2)),
                 ((), ())):
        pick("kron", r(*a), r(*b))
    pick("kron", r(2, 3), stepped(r(2, 2)), variant="strided")
    pick("kron", ints(2, 2), r(2, 2), variant="promote", grad=False)
    for dtype in ALL[1:]:
        pick("kron", values(2, 2, dtype=dtype), values(2, dtype=dtype), variant="dtype")


def creation():
    for dtype in ALL:
        for name in ("new_empty", "new_zeros", "new_ones"):
            pick(name, values(2, dtype=dtype), [2, 3], grad=False)
            pick(name, values(2, dtype=dtype), [3], dtype=torch.float64, grad=False)
        pick("new_full", values(2, dtype=dtype), [2, 3], 1, grad=False)
        maybe("logspace", 0, 2, 3, dtype=dtype)
    pick("new_zeros", r(2, 2), [], grad=False, variant="scalar")
    pick("new_ones", r(2, 2), [0, 2], grad=False, variant="empty")
    for args in ((0.0, 1.0, 5), (-2.0, 2.0, 3, 2.0), (1.0, 0.0, 4, 0.5), (0.0, 3.0, 4, -2.0), (0.0, 2.0, 3, 0.0),
                 (1.0, 1.0, 1), (0.0, 1.0, 0)):
        pick("logspace", *args)
    for name in ("tril_indices", "triu_indices"):
        for args in ((3, 3), (2, 4, 1), (4, 2, -1), (3, 3, -5), (3, 3, 5), (0, 3), (3, 0), (5, 3, 2), (3, 5, -2), (1, 1)):
            pick(name, *args)
        pick(name, 3, 4, dtype=torch.int32)
