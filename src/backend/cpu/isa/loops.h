/* What the loops of isa/ have in common.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_LOOPS_H
#define SITU_BACKEND_CPU_ISA_LOOPS_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* No element depends on another, also where the result overwrites an operand: without it, an in-place call would
   take the loop that compilers keep for overlapping memory, which is not vectorised. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
/* It has no vector variants of the library's functions: loops that call them stay as they are, and that is known. */
#pragma clang diagnostic ignored "-Wpass-failed"
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

#endif
