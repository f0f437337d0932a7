/* Table of element-wise functions of two tensors: the only place where each formula is written.
   SPDX-License-Identifier: MIT

   FLOAT(name, y)         floating types only
   WIDE(name, y)          the same, for functions that are seldom called, with calls of library functions: devices have
                          kernels of f32 and f64 alone, and cast 16 bits to f32
   BOTH(name, y, whole y) integers too
   MATH(name, y, whole y) the same, with calls of library functions
   WHOLE(name, whole y)   integers only
   TEST(name, y)          any type; y is bool

   a and b are the elements. The including file defines the six macros; this file undefines them at its end. The names
   are those of SITU_BINARY_NAMES. */
/* clang-format would parse a * b as a declaration. */
/* clang-format off */

BOTH(add, a + b, whole_add(a, b))
BOTH(sub, a - b, whole_sub(a, b))
BOTH(mul, a * b, whole_mul(a, b))
FLOAT(div, a / b)
BOTH(div_trunc, trunc(a / b), whole_div(a, b))
BOTH(div_floor, FN(floor_quotient)(a, b), whole_floor_div(a, b))
MATH(pow, pow(a, b), whole_pow(a, b))
BOTH(fmod, fmod(a, b), whole_rem(a, b))
BOTH(remainder, FN(modulo)(a, b), whole_modulo(a, b))
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

WHOLE(bitwise_and, a & b)
WHOLE(bitwise_or, a | b)
WHOLE(bitwise_xor, a ^ b)
WHOLE(bitwise_left_shift, whole_left_shift(a, b))
WHOLE(bitwise_right_shift, whole_right_shift(a, b))
WHOLE(gcd, whole_gcd(a, b))
WHOLE(lcm, whole_lcm(a, b))

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
#undef WHOLE
#undef TEST
