/* Internal header of the cpu backend: its kernels, and the blocks through which they see any dtype and any strides.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_H
#define SITU_BACKEND_CPU_H

#include "base/dtype.h"
#include "situ/sys/backend.h"

/* One kernel for each verb, in the file of the verb's family. */
situ_status situ__cpu_copy(int index, const situ_work *work);
situ_status situ__cpu_pack(int index, const situ_work *work);
situ_status situ__cpu_fill(int index, const situ_work *work);
situ_status situ__cpu_range(int index, const situ_work *work);
situ_status situ__cpu_random(int index, const situ_work *work);
situ_status situ__cpu_triangle(int index, const situ_work *work);
situ_status situ__cpu_unary(int index, const situ_work *work);
situ_status situ__cpu_unary_grad(int index, const situ_work *work);
situ_status situ__cpu_binary(int index, const situ_work *work);
situ_status situ__cpu_ternary(int index, const situ_work *work);
situ_status situ__cpu_reduce(int index, const situ_work *work);
situ_status situ__cpu_arg_reduce(int index, const situ_work *work);
situ_status situ__cpu_scan(int index, const situ_work *work);
situ_status situ__cpu_sort(int index, const situ_work *work);
situ_status situ__cpu_gather(int index, const situ_work *work);
situ_status situ__cpu_scatter(int index, const situ_work *work);
situ_status situ__cpu_nonzero(int index, const situ_work *work);
situ_status situ__cpu_matmul(int index, const situ_work *work);
situ_status situ__cpu_prepack(int index, const situ_work *work);
situ_status situ__cpu_conv(int index, const situ_work *work);
situ_status situ__cpu_pool(int index, const situ_work *work);
situ_status situ__cpu_resample(int index, const situ_work *work);
situ_status situ__cpu_fft(int index, const situ_work *work);
situ_status situ__cpu_linalg(int index, const situ_work *work);
situ_status situ__cpu_softmax(int index, const situ_work *work);
situ_status situ__cpu_norm(int index, const situ_work *work);
situ_status situ__cpu_batch_norm(int index, const situ_work *work);
situ_status situ__cpu_group_norm(int index, const situ_work *work);
situ_status situ__cpu_nll(int index, const situ_work *work);
situ_status situ__cpu_cell(int index, const situ_work *work);
situ_status situ__cpu_attention(int index, const situ_work *work);
situ_status situ__cpu_blocks(int index, const situ_work *work);
situ_status situ__cpu_integer(int index, const situ_work *work);
situ_status situ__cpu_offers(int index, const situ_work *work);
situ_status situ__cpu_offers_conv(const situ_work *work);
situ_status situ__cpu_offers_attention(const situ_work *work);
situ_status situ__cpu_offers_matmul_prepack(const situ_work *work);
situ_status situ__cpu_offers_linalg(void); /* without LAPACK it records why */
situ_status situ__cpu_offers_conv_prepack(const situ_work *work);
situ_status situ__cpu_conv_prepack(const situ_work *work);
situ_status situ__cpu_integer_conv(const situ_work *work);
situ_status situ__cpu_bytes_conv_prepack(const situ_work *work);
situ_status situ__cpu_bytes_prepack(const situ_work *work);
situ_status situ__cpu_matmul_prepack(const situ_work *work);
situ_status situ__cpu_optimizer(int index, const situ_work *work);

/* ---- blocks (block.c) ----
   Kernels compute in one of three compute types (situ__compute). Operands of other dtypes, or with strides, pass
   through a block in L1: load, compute, store. So one formula serves ten dtypes and any view; contiguous rows of f32,
   f64 and i64 are used in place. */
typedef enum situ__compute { SITU__F32, SITU__F64, SITU__I64 } situ__compute;
enum { SITU__BLOCK = 1024 };     /* elements of a block: 8 KiB of doubles */
enum { SITU__BLOCKS_ROWS = 16 }; /* rows of x of a linear with quantised blocks that has no product of its own */

/* f16, bf16, f32 -> F32; f64 -> F64; bool and the integers -> I64. */
static inline situ__compute situ__cpu_compute(situ_dtype dtype) {
  return dtype < SITU_F16 ? SITU__I64 : dtype == SITU_F64 ? SITU__F64 : SITU__F32;
}
size_t situ__compute_size(situ__compute compute);

/* Converts elements [first, first + count) of v, in row-major order of its sizes, to the compute type. */
void situ__cpu_load(const situ_view_desc *v, int64_t first, int64_t count, situ__compute compute, void *dst);
/* Converts back and stores: integers wrap, floats to integers truncate and saturate, bool is "not 0". */
void situ__cpu_store(const situ_view_desc *v, int64_t first, int64_t count, situ__compute compute, const void *src);
/* The same from and to contiguous memory of a dtype. */
void situ__cpu_widen(const void *src, situ_dtype dtype, int64_t count, situ__compute compute, void *dst);
void situ__cpu_narrow(const void *src, situ__compute compute, int64_t count, situ_dtype dtype, void *dst);

/* Bytes of an element. */
static inline int64_t situ__cpu_size(int dtype) { return situ__dtypes[dtype].size; }

/* Stands in for a storage of no bytes, which has no address: a kernel that has nothing to do may still add 0 to it. */
extern char situ__cpu_nothing[1];
/* Address of element 0 of a view. Computed as an integer: with negative steps it may lie outside the storage for a
   while. */
static inline char *situ__cpu_data(const situ_view_desc *v) {
  char *data = v->storage->data;
  return (char *)((uintptr_t)(data ? data : situ__cpu_nothing) + (uintptr_t)(v->offset * situ__cpu_size(v->dtype)));
}

/* ---- instruction sets (isa.c) ---- files in isa/ are compiled for the first three; the others use v4's, and isa_bf16/
   or isa_amx/ besides, for processors that add up products of bf16, or multiply tiles of them */
typedef enum situ__isa { SITU__ISA_BASE, SITU__ISA_V3, SITU__ISA_V4, SITU__ISA_BF16, SITU__ISA_AMX } situ__isa;
/* The best one that this build, this processor and the system support; SITU_ISA in the environment, base|v3|v4|bf16,
   lowers it. */
situ__isa situ__cpu_isa_choose(void);
/* 0: not chosen yet, else the set + 1. A race is harmless, as all threads choose the same. */
extern int situ__cpu_isa_chosen;
static inline situ__isa situ__cpu_isa(void) {
  const int chosen = __atomic_load_n(&situ__cpu_isa_chosen, __ATOMIC_RELAXED);
  return __builtin_expect(chosen, 1) ? (situ__isa)(chosen - 1) : situ__cpu_isa_choose();
}

#endif
