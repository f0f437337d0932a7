/* The floating-point environment that situ computes in: it rounds to nearest, keeps subnormal numbers and traps
   nothing. A host program may have set another one (-ffast-math, fesetround, -ffpe-trap). Entries of situ set the
   default one for as long as they run, and then the caller's again; threads of situ set it when they start. Flags of
   exceptions are not kept apart.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FPU_H
#define SITU_BASE_FPU_H

#include <fenv.h>
#include <stdint.h>

/* Reading a control word takes less than a nanosecond; writing one takes longer, and is done only where it differs. */
#if defined(__SSE__)
/* MXCSR, and in the upper half x87's control word where MXCSR is not the default: gcc 14 has fmod computed by x87. What
   sets one sets both (fenv.h). */
typedef uint32_t situ__fpu;
enum { SITU__FPU_CONTROL = 0xffc0, SITU__FPU_DEFAULT = 0x1f80, SITU__X87_DEFAULT = 0x37f }; /* other bits are flags */
static inline situ__fpu situ__fpu_enter(void) {
  situ__fpu before = __builtin_ia32_stmxcsr();
  if (__builtin_expect((before & SITU__FPU_CONTROL) != SITU__FPU_DEFAULT, 0)) {
    uint16_t x87;
    const uint16_t plain = SITU__X87_DEFAULT;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(plain)); /* a flag of before the caller let it trap would trap here */
    __builtin_ia32_ldmxcsr(SITU__FPU_DEFAULT);
    before = (before & UINT16_MAX) | (situ__fpu)x87 << 16;
  }
  return before;
}
static inline void situ__fpu_leave(situ__fpu before) {
  if (__builtin_expect((before & SITU__FPU_CONTROL) != SITU__FPU_DEFAULT, 0)) {
    const uint16_t x87 = (uint16_t)(before >> 16);
    __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(x87)); /* a flag would trap as soon as it may */
    __builtin_ia32_ldmxcsr(before & UINT16_MAX);
  }
}
#elif defined(__aarch64__)
typedef uint64_t situ__fpu; /* FPCR, whose default is 0 */
static inline situ__fpu situ__fpu_enter(void) {
  situ__fpu before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  if (__builtin_expect(before != 0, 0)) __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0)) : "memory");
  return before;
}
static inline void situ__fpu_leave(situ__fpu before) {
  if (__builtin_expect(before != 0, 0)) __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory");
}
#else
typedef fenv_t situ__fpu;
static inline situ__fpu situ__fpu_enter(void) {
  situ__fpu before;
  (void)fegetenv(&before), (void)fesetenv(FE_DFL_ENV);
  return before;
}
static inline void situ__fpu_leave(situ__fpu before) { (void)fesetenv(&before); }
#endif

static inline void situ__fpu_end(const situ__fpu *before) { situ__fpu_leave(*before); }
/* Put first in a block: the default environment until its end. Not for calls of some nanoseconds, as the variable has
   an address, and thus the stack's protector. */
#define SITU__DEFAULT_FPU __attribute__((cleanup(situ__fpu_end), unused)) const situ__fpu fpu_before = situ__fpu_enter()

#endif
