/* A CUDA device against its limits, measured in the same run: memory bandwidth for element-wise work, a raw pinned copy
   for copies in, and the host's cost of an op. Without a GPU it prints that and measures nothing.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <string.h>

#include "support/measure.h"

enum { ROUNDS = 31, SIDE = 8192 };

static situ_device device;

/* ---- kernels, beside a copy of as much memory ------------------------------------------------- */

typedef situ_tensor *(*op_fn)(situ_tensor *const *x);
static situ_tensor *copied(situ_tensor *const *x) { return situ_clone(x[0]); }
static situ_tensor *add(situ_tensor *const *x) { return situ_add(x[0], x[1]); }
static situ_tensor *relu(situ_tensor *const *x) { return situ_relu(x[0]); }
static situ_tensor *exponential(situ_tensor *const *x) { return situ_exp(x[0]); }
static situ_tensor *softmax(situ_tensor *const *x) { return situ_softmax(x[0], 1); }
static situ_tensor *layer_norm(situ_tensor *const *x) {
  return situ_layer_norm(x[0], SITU_SHAPE(SIDE), NULL, NULL, 1e-5);
}
static situ_tensor *cross_entropy(situ_tensor *const *x) { return situ_cross_entropy(x[0], x[2], NULL); }
static situ_tensor *product(situ_tensor *const *x) { return situ_matmul(x[0], x[1]); }

static const struct row {
  const char *name;
  op_fn op;
  double passes; /* over the memory of one operand */
  double must;
} rows[] = {
  { "a + b", add, 3, 0.9 },
  { "relu", relu, 2, 0.9 },
  { "exp", exponential, 2, 0.9 },
  { "softmax of rows", softmax, 2, 0.9 },
  { "layer norm of rows", layer_norm, 2, 0.9 },
  { "cross entropy", cross_entropy, 1, 0.9 },
};

static double time_of(op_fn op, situ_tensor *const *x) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  double begin = seconds();
  situ_tensor *y = op(x);
  need(y ? situ_synchronize(device) : situ_error());
  double taken = seconds() - begin;
  need(situ_scope_end(&s));
  return taken;
}

static void measure_kernels(situ_dtype dtype) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x[3];
  for (int k = 0; k < 2; k++)
    x[k] = situ_randn(SITU_SHAPE(SIDE, SIDE), &(situ_options){ .device = device, .dtype = dtype });
  x[2] = situ_zeros(SITU_SHAPE(SIDE), &(situ_options){ .device = device, .dtype = SITU_I64 });
  need(situ_error());
  const double bytes = (double)SIDE * SIDE * (dtype == SITU_F32 ? 4 : 2);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    double copy[ROUNDS], op[ROUNDS], ratio[ROUNDS];
    char what[64], ours[32], theirs[32];
    (void)time_of(rows[k].op, x);
    (void)time_of(copied, x);
    for (int r = 0; r < ROUNDS; r++) {
      copy[r] = 2 * bytes / time_of(copied, x);
      op[r] = rows[k].passes * bytes / time_of(rows[k].op, x);
      ratio[r] = op[r] / copy[r];
    }
    (void)snprintf(what, sizeof what, "%s, %s", rows[k].name, situ_dtype_name(dtype));
    (void)snprintf(ours, sizeof ours, "%.0f GB/s", 1e-9 * median(op, ROUNDS));
    (void)snprintf(theirs, sizeof theirs, "copy %.0f GB/s", 1e-9 * median(copy, ROUNDS));
    tell("cuda", what, ours, theirs, median(ratio, ROUNDS), rows[k].must, false);
  }
  double each[ROUNDS];
  (void)time_of(product, x);
  for (int r = 0; r < ROUNDS; r++) each[r] = 2.0 * SIDE * SIDE * SIDE / time_of(product, x);
  printf("     matmul %d, %s: %.1f TF/s\n", SIDE, situ_dtype_name(dtype), 1e-12 * median(each, ROUNDS));
  need(situ_scope_end(&s));
}

/* ---- copies in, beside a raw pinned copy ------------------------------------------------------ */

/* What of CUDA's runtime the raw copy needs. */
typedef struct runtime {
  int (*host_alloc)(void **, size_t, unsigned);
  int (*free_host)(void *);
  int (*malloc)(void **, size_t);
  int (*free)(void *);
  int (*copy)(void *, const void *, size_t, int);
  int (*set_device)(int);
} runtime;

static bool open_runtime(runtime *r) {
  void *library = dlopen("libcudart.so.13", RTLD_NOW);
  if (!library) library = dlopen("/usr/local/cuda/lib64/libcudart.so.13", RTLD_NOW);
  if (!library) return false;
  *(void **)&r->host_alloc = dlsym(library, "cudaHostAlloc");
  *(void **)&r->free_host = dlsym(library, "cudaFreeHost");
  *(void **)&r->malloc = dlsym(library, "cudaMalloc");
  *(void **)&r->free = dlsym(library, "cudaFree");
  *(void **)&r->copy = dlsym(library, "cudaMemcpy");
  *(void **)&r->set_device = dlsym(library, "cudaSetDevice");
  return r->host_alloc && r->free_host && r->malloc && r->free && r->copy && r->set_device;
}

/* Into memory that is there already, as a training loop does; waited for. */
static double time_of_copy(situ_tensor *to, const void *from, size_t bytes) {
  double begin = seconds();
  need(situ_copy_from_host(to, from, bytes) == SITU_OK ? situ_synchronize(device) : situ_error());
  return seconds() - begin;
}

static void measure_copies(void) {
  enum { BYTES = 1 << 30, TIMES = 7 };
  runtime r;
  void *pinned = NULL, *raw_memory = NULL, *pageable = malloc(BYTES);
  if (!pageable || !open_runtime(&r) || r.set_device(device.index) || r.host_alloc(&pinned, BYTES, 0) ||
      r.malloc(&raw_memory, BYTES)) {
    printf("     copies in: SKIPPED, there is no pinned memory to compare with\n");
    free(pageable);
    return;
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  memset(pinned, 0, BYTES);
  memset(pageable, 1, BYTES); /* pages that nothing has written share one page of zeros */
  situ_tensor *there = situ_zeros(SITU_SHAPE(BYTES / 4), &(situ_options){ .device = device });
  need(situ_error());
  double raw[TIMES], paged[TIMES], straight[TIMES], ratio[TIMES], share[TIMES];
  (void)time_of_copy(there, pageable, BYTES);
  for (int k = 0; k < TIMES; k++) {
    double begin = seconds();
    (void)r.copy(raw_memory, pinned, BYTES, 1);
    raw[k] = BYTES / (seconds() - begin);
    paged[k] = BYTES / time_of_copy(there, pageable, BYTES);
    straight[k] = BYTES / time_of_copy(there, pinned, BYTES);
    ratio[k] = straight[k] / raw[k];
    share[k] = paged[k] / raw[k];
  }
  char ours[32], theirs[32];
  (void)snprintf(theirs, sizeof theirs, "raw %.1f GB/s", 1e-9 * median(raw, TIMES));
  (void)snprintf(ours, sizeof ours, "%.1f GB/s", 1e-9 * median(straight, TIMES));
  tell("cuda", "1 GiB in, pinned", ours, theirs, median(ratio, TIMES), 0.9, false);
  (void)snprintf(ours, sizeof ours, "%.1f GB/s", 1e-9 * median(paged, TIMES));
  tell("cuda", "1 GiB in, pageable", ours, theirs, median(share, TIMES), 0.5, false);
  need(situ_scope_end(&s));
  (void)r.free(raw_memory);
  (void)r.free_host(pinned);
  free(pageable);
}

int main(void) {
#ifdef SITU_MODULES
  (void)setenv("SITU_MODULE_DIR", SITU_MODULES, 0);
#endif
  const char *name = getenv("SITU_BENCH_DEVICE");
  device = situ_dev(name && strncmp(name, "cuda", 4) == 0 ? name : "cuda:0");
  situ_device_properties p;
  if (!situ_device_is_available(device)) {
    printf("SKIPPED: no %s: %s\n", name ? name : "cuda:0", situ_device_status("cuda"));
    return 0;
  }
  need(situ_device_info(device, &p));
  if (strstr(p.name, "no GPU")) {
    printf("SKIPPED: %s: its figures would be the host's\n", p.name);
    return 0;
  }
  printf("%s (%s)\n", p.name, p.driver);
  measure_enqueue("cuda", device);
  measure_kernels(SITU_F32);
  measure_kernels(SITU_BF16);
  measure_copies();
  return 0;
}
