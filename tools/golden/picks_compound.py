"""Hand-picked cases of ops that situ makes of others.
SPDX-License-Identifier: MIT"""
from picks import FLOATS, pick, r


def compound():
    for dtype in FLOATS:
        pick("multinomial", r(3, 4, dtype=dtype, lo=0, hi=1), 5, True)
    pick("multinomial", r(4, lo=0, hi=1), 3)
    pick("multinomial", r(0, 4), 3)
