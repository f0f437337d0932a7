/* Functions that formulas share, for integers. They wrap, and do not trap on any operand: the CPU backend refuses
   division by zero before it starts; a device that cannot check first gets 0.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_INTEGER_H
#define SITU_KERNELS_INTEGER_H

DEVICE I64 integer_add(I64 a, I64 b) { return (I64)((U64)a + (U64)b); }
DEVICE I64 integer_sub(I64 a, I64 b) { return (I64)((U64)a - (U64)b); }
DEVICE I64 integer_mul(I64 a, I64 b) { return (I64)((U64)a * (U64)b); }
DEVICE I64 integer_neg(I64 a) { return (I64)(0 - (U64)a); }

DEVICE I64 integer_div(I64 a, I64 b) { return b == 0 ? 0 : b == -1 ? integer_neg(a) : a / b; }
DEVICE I64 integer_rem(I64 a, I64 b) { return b == 0 || b == -1 ? 0 : a % b; }
DEVICE I64 integer_floor_div(I64 a, I64 b) {
  I64 r = integer_rem(a, b);
  return integer_div(a, b) - (r != 0 && (b < 0) != (r < 0));
}
DEVICE I64 integer_modulo(I64 a, I64 b) {
  I64 r = integer_rem(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

/* a to the power of b, wrapped; b < 0 gives the fraction, truncated: 1, -1 or 0. */
DEVICE I64 integer_pow(I64 a, I64 b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  I64 power = 1;
  for (; b; b >>= 1) {
    if (b & 1) power = integer_mul(power, a);
    a = integer_mul(a, a);
  }
  return power;
}

/* The bits that a shift by any number leaves, as if the integer were infinitely long: none, or the sign. */
DEVICE I64 integer_left_shift(I64 a, I64 b) { return b < 0 || b > 63 ? 0 : (I64)((U64)a << b); }
DEVICE I64 integer_right_shift(I64 a, I64 b) { return a >> (b < 0 || b > 63 ? 63 : b); }

/* Not negative, but for the least number, which has no positive. */
DEVICE I64 integer_gcd(I64 a, I64 b) {
  while (b != 0) {
    const I64 rest = integer_rem(a, b);
    a = b;
    b = rest;
  }
  return a < 0 ? integer_neg(a) : a;
}
DEVICE I64 integer_lcm(I64 a, I64 b) {
  const I64 product = integer_mul(integer_div(a, integer_gcd(a, b)), b);
  return product < 0 ? integer_neg(product) : product;
}

#endif
