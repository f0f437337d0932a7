/* Chooses the process's instruction set: the best of processor, build and SITU_ISA.
   SPDX-License-Identifier: MIT */
#include "isa.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(SITU_HAVE_ISA_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Features of x86-64-v3 besides AVX2, FMA, BMI: a hypervisor may hide each of them, and compilers differ in the names
   that __builtin_cpu_supports knows. */
static bool has_v3_extras(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C) || !(c & bit_MOVBE)) return false;
  return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & bit_LZCNT);
}

/* Every processor with AVX512_BF16 has AVX512_VNNI, but a hypervisor may hide it. */
static bool has_bf16(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & 1u << 11)) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 5;
}

/* The system saves tiles for a process that has asked for them, once. The request fails on a processor that has none,
   on kernels before Linux 5.16, and if a thread's signal stack is too small for them. */
static bool has_tiles(void) {
#if defined(SITU_HAVE_ISA_AMX)
  enum { TILE = 1 << 24, TILE_BF16 = 1 << 22, REQUEST = 0x1023, TILE_DATA = 18 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & TILE) || !(d & TILE_BF16)) return false;
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return false;
#endif
}

static situ__isa best(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2") || !has_v3_extras())
    return SITU__ISA_BASE;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return SITU__ISA_V3;
  if (!has_bf16()) return SITU__ISA_V4;
  return has_tiles() ? SITU__ISA_AMX : SITU__ISA_BF16;
}
#else
static situ__isa best(void) { return SITU__ISA_BASE; }
#endif

/* The best one up to `isa` that is in the build and that SITU_ISA allows. */
static situ__isa lowered(situ__isa isa) {
  static const char *const names[] = { "base", "v3", "v4", "bf16" };
#ifndef SITU_HAVE_ISA_AMX
  if (isa > SITU__ISA_BF16) isa = SITU__ISA_BF16;
#endif
#ifndef SITU_HAVE_ISA_BF16
  if (isa == SITU__ISA_BF16) isa = SITU__ISA_V4;
#endif
#ifndef SITU_HAVE_ISA_V4
  if (isa > SITU__ISA_V3) isa = SITU__ISA_V3;
#endif
#ifndef SITU_HAVE_ISA_V3
  if (isa > SITU__ISA_BASE) isa = SITU__ISA_BASE;
#endif
  const char *setting = getenv("SITU_ISA");
  for (int i = 0; setting && i < SITU__ISA_AMX && i < (int)isa; i++)
    if (!strcmp(setting, names[i])) return (situ__isa)i;
  return isa;
}

int situ__cpu_isa_chosen;

situ__isa situ__cpu_isa_choose(void) {
  situ__isa isa = lowered(best());
  __atomic_store_n(&situ__cpu_isa_chosen, 1 + (int)isa, __ATOMIC_RELAXED);
  return isa;
}
