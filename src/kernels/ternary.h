/* Table of element-wise functions of three tensors: the only place where each formula is written.
   SPDX-License-Identifier: MIT

   FLOAT(name, y)         floating types only
   BOTH(name, y, integer y) integers too
   SELECT(name, y)        any type; a is bool

   a, b and c are the elements, p0 the call's parameter. The including file defines the three macros; this file
   undefines them at its end. The names are those of situ_ternary. */
/* clang-format would parse a * b as a declaration. */
/* clang-format off */

SELECT(WHERE, a != 0 ? b : c)
/* Computes from the nearer end, so that c = 1 gives b exactly. */
FLOAT(LERP, fabs(c) < (T)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c))
BOTH(ADDCMUL, a + p0 * b * c, integer_add(a, integer_mul(integer_mul(p0, b), c)))
FLOAT(ADDCDIV, a + p0 * b / c)

#undef FLOAT
#undef BOTH
#undef SELECT
