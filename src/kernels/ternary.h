/* The table of element-wise functions of three tensors: each formula is written here and nowhere else.
   SPDX-License-Identifier: MIT

   FLOAT(name, y)         floating types only
   BOTH(name, y, whole y) whole numbers too
   SELECT(name, y)        any type; a is bool

   a, b and c are the elements, p0 the call's parameter. The reader defines the three macros; they are undefined
   again at the end. Names are those of situ_ternary. */
/* clang-format takes a * b for a declaration. */
/* clang-format off */

SELECT(WHERE, a != 0 ? b : c)
/* From the end that is nearer, so that c = 1 gives b exactly. */
FLOAT(LERP, fabs(c) < (T)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c))
BOTH(ADDCMUL, a + p0 * b * c, whole_add(a, whole_mul(whole_mul(p0, b), c)))
FLOAT(ADDCDIV, a + p0 * b / c)

#undef FLOAT
#undef BOTH
#undef SELECT
