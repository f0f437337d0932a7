/* A program with a LAPACK of its own, and situ, which has another: both must compute as if alone.
   usage: program phys|situ PHYS SITU    (which of them begins; PHYS, SITU: "linked", or how the library is opened)
   OPENS_PHYS, OPENS_SITU: not linked. Returns 77 where situ finds no LAPACK.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <situ/situ.h>

enum { MOST = 8 };
int phys(int n);

/* Each function by a pointer, however the library came here. */
#define FUNCTIONS(_)          \
  _(situ_scope_begin_no_grad) \
  _(situ_scope_end)           \
  _(situ_from_host)           \
  _(situ_copy_to_host)        \
  _(situ_error_message)       \
  _(situ_linalg_solve)        \
  _(situ_linalg_inv)          \
  _(situ_linalg_cholesky)     \
  _(situ_linalg_eigvalsh)     \
  _(situ_linalg_det)          \
  _(situ_linalg_lu_factor)    \
  _(situ_linalg_lu_solve)     \
  _(situ_linalg_lstsq)        \
  _(situ_linalg_svdvals)
#define MEMBER(name) __typeof__(name) *name##_p;
static struct { FUNCTIONS(MEMBER) } s;
static int (*phys_p)(int n);

static void *opened(const char *file, const char *how) {
  const int flags = !strcmp(how, "global") ? RTLD_GLOBAL
                    : !strcmp(how, "deep") ? RTLD_LOCAL | RTLD_DEEPBIND
                                           : RTLD_LOCAL;
  void *library = dlopen(file, RTLD_NOW | flags);
  if (!library) puts(dlerror()), exit(2);
  return library;
}

static void get_phys(const char *how) {
#ifdef OPENS_PHYS
  *(void **)&phys_p = dlsym(opened("libphys.so", how), "phys");
#else
  (void)how, phys_p = phys;
#endif
}
static void get_situ(const char *how) {
#ifdef OPENS_SITU
  void *library = opened("libsitu.so.0", how);
#define GET(name) *(void **)&s.name##_p = dlsym(library, #name);
#else
  (void)how;
#define GET(name) s.name##_p = name;
#endif
  FUNCTIONS(GET)
}

static int wrong;
static void expect(const char *what, int n, const double *x, const double *wanted, int count) {
  for (int i = 0; i < count; i++)
    if (!(fabs(x[i] - wanted[i]) <= 1e-10 * (1 + fabs(wanted[i])))) {
      printf("situ: %s of %d equations: element %d is %.17g, not %.17g\n", what, n, i, x[i], wanted[i]);
      wrong++;
      return;
    }
}

static situ_tensor *tensor(const double *values, int rows, int columns) {
  return s.situ_from_host_p(values, sizeof(double) * (size_t)(rows * columns), SITU_SHAPE(rows, columns),
                            &(situ_options){ .dtype = SITU_F64 });
}
static void values(const char *what, situ_tensor *x, void *y, size_t bytes) {
  if (x && s.situ_copy_to_host_p(x, y, bytes) == SITU_OK) return;
  const char *message = s.situ_error_message_p();
  printf("situ: %s: %s\n", what, message);
  exit(strstr(message, "needs LAPACK") ? 77 : 3);
}
#define VALUES(what, x) values(what, x, y, sizeof(double) * (size_t)count)

static void solve(int n) {
  double a[MOST * MOST], b[MOST], x[MOST], y[MOST * MOST], z[MOST * MOST], trace = 0, squares = 0, sum = 0;
  for (int i = 0; i < n; i++) x[i] = i + 1, b[i] = 0;
  for (int i = 0; i < n * n; i++) {
    a[i] = (i / n == i % n) * n + 1.0 / (1 + abs(i / n - i % n));
    b[i / n] += a[i] * x[i % n];
    trace += i / n == i % n ? a[i] : 0, squares += a[i] * a[i];
  }
  situ_tensor *t = tensor(a, n, n), *right = tensor(b, n, 1);
  int count = n;
  VALUES("solve", s.situ_linalg_solve_p(t, right, true));
  expect("solve", n, y, x, n);
  VALUES("lstsq", s.situ_linalg_lstsq_p(t, right, 0, NULL));
  expect("lstsq", n, y, x, n);
  VALUES("eigvalsh", s.situ_linalg_eigvalsh_p(t, false));
  for (int i = 0; i < n; i++) sum += y[i];
  expect("eigvalsh", n, &sum, &trace, 1);
  VALUES("svdvals", s.situ_linalg_svdvals_p(t));
  sum = 0;
  for (int i = 0; i < n; i++) sum += y[i] * y[i];
  expect("svdvals", n, &sum, &squares, 1);
  count = n * n;
  VALUES("cholesky", s.situ_linalg_cholesky_p(t, false));
  for (int i = 0; i < n * n; i++) {
    z[i] = 0;
    for (int k = 0; k < n; k++) z[i] += y[i / n * n + k] * y[i % n * n + k];
  }
  expect("cholesky", n, z, a, n * n);
  VALUES("inv", s.situ_linalg_inv_p(t));
  for (int i = 0; i < n; i++) {
    z[i] = 0;
    for (int k = 0; k < n; k++) z[i] += y[i * n + k] * b[k];
  }
  expect("inv", n, z, x, n);
}

/* A matrix whose rows are all exchanged. */
static void exchange(int n) {
  double a[MOST * MOST], b[MOST], x[MOST], y[MOST];
  int32_t pivots[MOST];
  for (int i = 0; i < n * n; i++) a[i] = (i / n == n - 1 - i % n) * 2.0;
  for (int i = 0; i < n; i++) x[i] = i + 1, b[n - 1 - i] = 2 * x[i];
  const double det = pow(2, n) * (n / 2 % 2 ? -1 : 1);
  situ_tensor *t = tensor(a, n, n), *pivot = NULL;
  int count = 1;
  VALUES("det", s.situ_linalg_det_p(t));
  expect("det", n, y, &det, 1);
  situ_tensor *lu = s.situ_linalg_lu_factor_p(t, &pivot);
  values("pivots", pivot, pivots, sizeof *pivots * (size_t)n);
  for (int i = 0; i < n; i++) {
    const double p = pivots[i], wanted = i < n / 2 ? n - i : i + 1;
    expect("lu_factor", n, &p, &wanted, 1);
  }
  count = n;
  VALUES("lu_solve", s.situ_linalg_lu_solve_p(lu, pivot, tensor(b, n, 1), true, false));
  expect("lu_solve", n, y, x, n);
}

static void of_situ(void) {
  static const int size[] = { 1, 6, MOST };
  situ_scope scope;
  s.situ_scope_begin_no_grad_p(&scope);
  for (int i = 0; i < 3; i++) solve(size[i]), exchange(size[i]);
  if (s.situ_scope_end_p(&scope) != SITU_OK) exit(4);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  const int situ_begins = !strcmp(argv[1], "situ");
  if (situ_begins) get_situ(argv[3]), of_situ();
  get_phys(argv[2]);
  wrong += phys_p(MOST);
  if (!situ_begins) get_situ(argv[3]);
  of_situ();
  wrong += phys_p(MOST);
  of_situ();
  return wrong != 0;
}
