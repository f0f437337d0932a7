/* Table of element-wise functions of two tensors: the only place where each formula is written.
   SPDX-License-Identifier: MIT

   FLOAT(name, y)         floating types only
   WIDE(name, y)          the same, for functions that are seldom called, with calls of library functions: devices have
                          kernels of f32 and f64 alone, and cast 16 bits to f32
   BOTH(name, y, integer y) integers too
   MATH(name, y, integer y) the same, with calls of library functions
   INTEGER(name, integer y)   integers only
   TEST(name, y)          any type; y is bool

   a and b are the elements. The including file defines the six macros; this file undefines them at its end. The names
   are those of SITU_BINARY_NAMES. */
/* clang-format would parse a * b as a declaration. */
/* clang-format off */

BOTH(add, a + b, integer_add(a, b))
BOTH(sub, a - b, integer_sub(a, b))
BOTH(mul, a * b, integer_mul(a, b))
FLOAT(div, a / b)
BOTH(div_trunc, trunc(a / b), integer_div(a, b))
BOTH(div_floor, FN(floor_quotient)(a, b), integer_floor_div(a, b))
MATH(pow, pow(a, b), integer_pow(a, b))
BOTH(fmod, fmod(a, b), integer_rem(a, b))
BOTH(remainder, FN(modulo)(a, b), integer_modulo(a, b))
BOTH(maximum, FN(larger)(a, b), a > b ? a : b)
BOTH(minimum, FN(smaller)(a, b), a < b ? a : b)

TEST(eq, a == b)
TEST(ne, a != b)
TEST(lt, a < b)
TEST(le, a <= b)
TEST(gt, a > b)
TEST(ge, a >= b)
TEST(logical_and, (a != 0) & (b != 0))
TEST(logical_or, (a != 0) | (b != 0))
TEST(logical_xor, (a != 0) != (b != 0))

INTEGER(bitwise_and, a & b)
INTEGER(bitwise_or, a | b)
INTEGER(bitwise_xor, a ^ b)
INTEGER(bitwise_left_shift, integer_left_shift(a, b))
INTEGER(bitwise_right_shift, integer_right_shift(a, b))
INTEGER(gcd, integer_gcd(a, b))
INTEGER(lcm, integer_lcm(a, b))

WIDE(atan2, atan2(a, b))
WIDE(hypot, hypot(a, b))
WIDE(copysign, copysign(a, b))
WIDE(nextafter, nextafter(a, b))
WIDE(xlogy, b != b ? b : a == 0 ? 0 : a * log(b))
WIDE(xlog1py, b != b ? b : a == 0 ? 0 : a * log1p(b))
WIDE(logaddexp, FN(log_add_exp)(a, b))
WIDE(logaddexp2, FN(log_add_exp2)(a, b))

#undef FLOAT
#undef WIDE
#undef BOTH
#undef MATH
#undef INTEGER
#undef TEST
