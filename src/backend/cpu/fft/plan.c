/* Plans of Fourier transforms: how a length is transformed, its tables, and a cache of the plans of recent calls.
   SPDX-License-Identifier: MIT */
#include "fft.h"
#include "base/mutex.h"
#include "backend/cpu/common/isa.h"

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/dialect.h"

#include <string.h>

#define T double
#define TNAME f64
#include "kernels/fft.h"
#undef T
#undef TNAME

enum {
  LARGEST = 61,     /* the largest factor with a pass of its own */
  LONGEST = 1 << 11 /* longer lines are split, as FFT_LANES of them side by side would not stay in the cache */
};

SITU__ISA_DECLARE(situ__fft_kernels, situ__fft_kernels_f32);
SITU__ISA_DECLARE(situ__fft_kernels, situ__fft_kernels_f64);

/* isa/fft.c names its objects name_f32_v3. */
const situ__fft_kernels *situ__fft_kernels_for(situ_dtype dtype) {
  return dtype == SITU_F64 ? SITU__ISA_PICK(situ__cpu_isa(), situ__fft_kernels_f64)
                           : SITU__ISA_PICK(situ__cpu_isa(), situ__fft_kernels_f32);
}

/* ---- tables: real parts, then imaginary parts ---- */

static void *new_table(int64_t count, situ_dtype dtype) {
  size_t bytes;
  return situ__mul_size((size_t)count * 2, (size_t)situ__cpu_size(dtype), &bytes) ? situ__alloc_uncounted(bytes) : NULL;
}

static void put(void *table, situ_dtype dtype, int64_t count, int64_t at, double re, double im) {
  if (dtype == SITU_F64) ((double *)table)[at] = re, ((double *)table)[count + at] = im;
  else ((float *)table)[at] = (float)re, ((float *)table)[count + at] = (float)im;
}

/* The first `count` roots of n. */
static void *roots(int64_t n, int64_t count, situ_dtype dtype) {
  void *table = new_table(count, dtype);
  for (int64_t k = 0; table && k < count; k++) {
    double re, im;
    root_f64(k, n, &re, &im);
    put(table, dtype, count, k, re, im);
  }
  return table;
}

/* Root j k of n at [j, k]. */
static void *products(int64_t n, int64_t width, situ_dtype dtype) {
  void *table = new_table(n, dtype);
  for (int64_t at = 0; table && at < n; at++) {
    double re, im;
    root_f64(at / width * (at % width), n, &re, &im);
    put(table, dtype, n, at, re, im);
  }
  return table;
}

/* ---- plans ---- */

static situ__fft_plan *new_plan(int64_t n, int64_t lanes, situ_dtype dtype);

static void drop(situ__fft_plan *p) {
  if (!p) return;
  drop(p->first);
  drop(p->second);
  situ__free(p->root);
  situ__free(p->chirp);
  situ__free(p->filter);
  situ__free(p);
}

/* Finds n's factors, 8 and 4 before 2. Returns false if one is too large. */
static bool find_radices(situ__fft_plan *p) {
  static const uint8_t powers[] = { 8, 4, 2 };
  int64_t left = p->n;
  for (int k = 0; k < 3; k++)
    for (; left % powers[k] == 0; left /= powers[k]) p->radix[p->radices++] = powers[k];
  for (int64_t r = 3; left > 1 && r <= LARGEST; r += 2)
    for (; left % r == 0; left /= r) p->radix[p->radices++] = (uint8_t)r;
  return left == 1;
}

static bool plan_radix(situ__fft_plan *p, situ_dtype dtype) {
  p->way = SITU__FFT_RADIX;
  p->scratch = (size_t)(2 * p->n * p->lanes);
  return (p->root = roots(p->n, p->n, dtype)) != NULL;
}

/* The largest factor of n up to its square root. */
static int64_t near_root(int64_t n) {
  int64_t best = 1;
  for (int64_t r = 2; r * r <= n; r++)
    if (n % r == 0) best = r;
  return best;
}

static bool plan_split(situ__fft_plan *p, int64_t first, situ_dtype dtype) {
  p->way = SITU__FFT_SPLIT;
  p->first = new_plan(first, SITU__FFT_LANES, dtype);
  p->second = new_plan(p->n / first, SITU__FFT_LANES, dtype);
  p->root = products(p->n, p->n / first, dtype);
  if (!p->first || !p->second || !p->root) return false;
  const size_t columns = (size_t)(2 * first * SITU__FFT_LANES) + p->first->scratch,
               rows = (size_t)(2 * p->second->n * SITU__FFT_LANES) + p->second->scratch;
  p->scratch = (size_t)(2 * p->n) + (columns > rows ? columns : rows);
  return true;
}

/* The smallest length of the form 2^a, 3 2^a or 5 2^a that is not below `least`. */
static int64_t smooth(int64_t least) {
  int64_t best = 1;
  while (best < least) best *= 2;
  for (int64_t of = 3; of <= 5; of += 2) {
    int64_t m = of;
    while (m < least) m *= 2;
    best = situ__min_i64(best, m);
  }
  return best;
}

/* The transform of the chirp's conjugate, computed in f64: conj(chirp[|k|]) at k = -n + 1 .. n - 1, modulo m. */
static void *filter_of(int64_t n, int64_t m, situ_dtype dtype) {
  situ__fft_plan *plan = new_plan(m, 1, SITU_F64);
  double *planes = new_table(m, SITU_F64);
  void *memory = plan ? situ__alloc_uncounted(plan->scratch * sizeof(double) + 1) : NULL, *table = new_table(m, dtype);
  if (planes && memory && table) {
    memset(planes, 0, 2 * (size_t)m * sizeof *planes);
    for (int64_t k = 0; k < n; k++) {
      double re, im;
      root_f64((int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * n)), 2 * n, &re, &im);
      put(planes, SITU_F64, m, k, re, -im);
      if (k) put(planes, SITU_F64, m, m - k, re, -im);
    }
    situ__fft_kernels_for(SITU_F64)->once(plan, planes, memory);
    for (int64_t k = 0; k < m; k++) put(table, dtype, m, k, planes[k] / (double)m, planes[m + k] / (double)m);
  } else {
    situ__free(table);
    table = NULL;
  }
  drop(plan);
  situ__free(planes);
  situ__free(memory);
  return table;
}

static bool plan_chirp(situ__fft_plan *p, situ_dtype dtype) {
  const int64_t n = p->n, m = smooth(2 * n - 1);
  p->way = SITU__FFT_CHIRP;
  p->first = new_plan(m, p->lanes, dtype);
  p->filter = filter_of(n, m, dtype);
  p->chirp = new_table(n, dtype);
  if (!p->first || !p->filter || !p->chirp) return false;
  for (int64_t k = 0; k < n; k++) {
    double re, im;
    root_f64((int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * n)), 2 * n, &re, &im);
    put(p->chirp, dtype, n, k, re, im);
  }
  p->scratch = (size_t)(2 * m * p->lanes) + p->first->scratch;
  return true;
}

static situ__fft_plan *new_plan(int64_t n, int64_t lanes, situ_dtype dtype) {
  enum { SHORTEST = 8 }; /* of the parts of a line that is split */
  situ__fft_plan *p = situ__alloc_uncounted(sizeof *p);
  if (!p) return NULL;
  *p = (situ__fft_plan){ .n = n, .lanes = lanes };
  const bool factors = find_radices(p);
  const int64_t first = lanes == 1 ? near_root(n) : 1;
  if (first >= SHORTEST ? plan_split(p, first, dtype) : factors ? plan_radix(p, dtype) : plan_chirp(p, dtype)) return p;
  drop(p);
  return NULL;
}

/* ---- the cache ---- */

enum { CACHED = 16 };
static situ__fft *cache[CACHED];
static uint64_t moment;
static situ__mutex lock = SITU__MUTEX_INIT;

static void destroy(situ__fft *f) {
  if (!f) return;
  drop(f->plan);
  situ__free(f->half);
  situ__free(f);
}

static situ__fft *make(int op, int64_t length, situ_dtype dtype, bool alone) {
  situ__fft *f = situ__alloc_uncounted(sizeof *f);
  if (!f) return NULL;
  const bool halves = op != SITU_FFT_COMPLEX && length % 2 == 0;
  const int64_t n = halves ? length / 2 : length;
  *f = (situ__fft){ .op = op, .length = length, .dtype = dtype };
  f->plan = new_plan(n, alone ? 1 : SITU__FFT_LANES, dtype);
  if (halves) f->half = roots(length, n + 1, dtype);
  if (f->plan && (f->half || !halves)) return f;
  destroy(f);
  return NULL;
}

situ__fft *situ__fft_open(int op, int64_t length, situ_dtype dtype, bool few) {
  const bool alone = few || length > LONGEST;
  situ__fft *f = NULL;
  situ__mutex_lock(&lock);
  int slot = -1; /* a free one, or else the least recently used */
  for (int i = 0; i < CACHED && !f; i++) {
    situ__fft *at = cache[i];
    if (at && at->op == op && at->length == length && at->dtype == (int)dtype && (at->plan->lanes == 1) == alone)
      f = at;
    else if (!at ? slot < 0 || cache[slot] : !at->users && (slot < 0 || (cache[slot] && at->used < cache[slot]->used)))
      slot = i;
  }
  if (!f && (f = make(op, length, dtype, alone)) && slot >= 0) {
    destroy(cache[slot]);
    cache[slot] = f;
  }
  if (f) f->users++, f->used = ++moment;
  situ__mutex_unlock(&lock);
  return f;
}

void situ__fft_close(situ__fft *f) {
  situ__mutex_lock(&lock);
  f->users--;
  bool cached = false;
  for (int i = 0; i < CACHED; i++) cached |= cache[i] == f;
  situ__mutex_unlock(&lock);
  if (!cached) destroy(f); /* every entry was in use when it was made */
}
