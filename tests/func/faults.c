/* Functions of functions where an allocation fails: for every op of the table, one of the ways to differentiate it or to
   map it over samples gives what it gives undisturbed, or no result and SITU_E_NOMEM.
   SITU_TEST_ALL: every op in every way, at each of its allocations; else at some 24 of one way. */
/* test-devices: cpu sim:0 */
#include <stdlib.h>
#include <string.h>

#include "situ/func.h"
#include "situ/sys/alloc.h"
#include "support/domains.h"

enum { MOST_RESULTS = PARITY_OPERANDS + 1 };

typedef struct subject {
  const parity_row *row;
  int count, argnum; /* a floating operand */
  situ_tensor *in[PARITY_OPERANDS], *direction[PARITY_OPERANDS];
} subject;

/* What an op writes to its operands must not stay. */
static situ_tensor *apply(situ_tensor *const *in, int count, void *payload) {
  const parity_row *row = payload;
  situ_tensor *copy[PARITY_OPERANDS] = { NULL }, *also = NULL;
  situ_manual_seed(3);
  for (int i = 0; i < count; i++)
    if (!(copy[i] = situ_dtype_is_floating(situ_dtype_of(in[i])) ? situ_clone(in[i]) : in[i])) return NULL;
  return row->call(copy, &also);
}
static situ_tensor *summed(situ_tensor *const *in, int count, void *payload) {
  return situ_sum(apply(in, count, payload), NULL);
}
static situ_status applied_twice(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload) {
  for (int k = 0; k < outs; k++)
    if (!(out[k] = apply(in, count, payload))) return situ_error();
  return SITU_OK;
}

/* ---- the ways: each sets out[], where NULL counts as none, and returns whether the call has succeeded ---- */

#define WAY(name) static bool name(const subject *s, situ_tensor **out)
#define ROW (void *)(uintptr_t)s->row

WAY(jvp) { return (out[0] = situ_func_jvp(apply, ROW, s->count, s->in, s->direction, &out[1])) != NULL; }
WAY(vjp) { return (out[0] = situ_func_vjp(summed, ROW, s->count, s->in, NULL, true, out + 1)) != NULL; }
WAY(jacrev) { return (out[0] = situ_func_jacrev(apply, ROW, s->count, s->in, s->argnum)) != NULL; }
WAY(jacfwd) { return (out[0] = situ_func_jacfwd(apply, ROW, s->count, s->in, s->argnum)) != NULL; }
WAY(hvp) { return (out[0] = situ_func_hvp(summed, ROW, s->count, s->in, s->argnum, s->direction[s->argnum])) != NULL; }
WAY(hessian) { return (out[0] = situ_func_hessian(summed, ROW, s->count, s->in, s->argnum)) != NULL; }
/* Over two samples of one operand, which the others are beside. */
static situ_tensor *samples(const subject *s, situ_tensor **in, int *in_dims) {
  for (int i = 0; i < s->count; i++) {
    in[i] = s->in[i];
    in_dims[i] = SITU_FUNC_WHOLE;
  }
  situ_tensor *const twice[2] = { s->in[s->argnum], s->in[s->argnum] };
  in_dims[s->argnum] = 0;
  return in[s->argnum] = situ_stack(twice, 2, 0);
}
WAY(vmap) {
  situ_tensor *in[PARITY_OPERANDS];
  int in_dims[PARITY_OPERANDS];
  return samples(s, in, in_dims) && (out[0] = situ_func_vmap(apply, ROW, s->count, in, in_dims, 0));
}
WAY(vmap_many) {
  situ_tensor *in[PARITY_OPERANDS];
  int in_dims[PARITY_OPERANDS];
  return samples(s, in, in_dims) &&
         situ_func_vmap_many(applied_twice, ROW, s->count, in, in_dims, 0, 2, out) == SITU_OK;
}
WAY(recompute) {
  situ_tensor *in[PARITY_OPERANDS];
  for (int i = 0; i < s->count; i++) in[i] = s->in[i];
  situ_tensor *x = situ_detach(s->in[s->argnum]);
  in[s->argnum] = x = x ? situ_requires_grad_(x, true) : NULL;
  out[0] = x ? situ_recompute(summed, ROW, s->count, in) : NULL;
  return out[0] &&
         situ_autograd_grad(out[0], 1, &x, &out[1], &(situ_backward_options){ .create_graph = true }) == SITU_OK;
}

static const struct {
  const char *name;
  bool (*run)(const subject *s, situ_tensor **out);
} ways[] = {
  { "jvp", jvp },         { "vjp", vjp },   { "jacrev", jacrev },       { "jacfwd", jacfwd },      { "hvp", hvp },
  { "hessian", hessian }, { "vmap", vmap }, { "vmap_many", vmap_many }, { "recompute", recompute }
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- one subject in one way ---- */

static bool same_bits(situ_tensor *a, situ_tensor *b) { return a && b ? test_same_bits(a, b) : a == b; }

/* Returns whether there was something to compare; *points: how many calls failed. */
static bool check(const subject *s, int way, int *points) {
  situ_tensor *want[MOST_RESULTS] = { NULL };
  situ_fail_allocation(0, false);
  const bool runs = ways[way].run(s, want) && situ_synchronize(test_device()) == SITU_OK;
  const uint64_t count = situ_allocation_count();
  situ_error_clear();
  if (!runs) return false; /* refused: without a second derivative, as an example */
  const uint64_t apart = getenv("SITU_TEST_ALL") || count < 24 ? 1 : count / 24;
  for (uint64_t nth = 1; nth <= count; nth += apart) {
    const int64_t before = situ_live_tensors();
    situ_tensor *got[MOST_RESULTS] = { NULL };
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_fail_allocation(nth, false);
    const bool good = ways[way].run(s, got) && situ_synchronize(test_device()) == SITU_OK; /* a queue may fail later */
    situ_fail_allocation(0, false);
    if (good ? situ_error() != SITU_OK : situ_error() != SITU_E_NOMEM)
      fail_msg("%s of %s, allocation %llu: %s", ways[way].name, s->row->op, (unsigned long long)nth,
               good ? "a result and an error" : situ_error_message());
    for (int k = 0; good && k < MOST_RESULTS; k++)
      if (!same_bits(got[k], want[k]))
        fail_msg("%s of %s, allocation %llu: another result %d, without an error", ways[way].name, s->row->op,
                 (unsigned long long)nth, k);
    *points += !good;
    situ_error_clear();
    SITU_IGNORE(situ_scope_end(&scope));
    if (situ_live_tensors() != before)
      fail_msg("%s of %s, allocation %llu: %d tensors stay alive", ways[way].name, s->row->op, (unsigned long long)nth,
               (int)(situ_live_tensors() - before));
  }
  return true;
}

static bool set_subject(subject *s, const parity_row *row, const struct domain *d) {
  *s = (subject){ .row = row, .argnum = -1 };
  for (; row->operands[s->count]; s->count++) {
    situ_tensor *x = s->in[s->count] = domain_operand(row->operands[s->count], d, false);
    if (!situ_dtype_is_floating(situ_dtype_of(x)) || parity_is_constant(row->operands[s->count])) continue;
    s->direction[s->count] = test_random(situ_shape_of(x), 0.5, 1.5, false);
    if (s->argnum < 0) s->argnum = s->count;
  }
  return s->argnum >= 0;
}

static void every_op_without_memory(void **state) {
  (void)state;
  int compared = 0, points = 0;
  for (size_t r = 0; r < parity_row_count; r++) {
    const parity_row *row = &parity_rows[r];
    if (row->backward == NO_GRAD || domain_is_missing(row)) continue;
    for (int k = 0; k < (getenv("SITU_TEST_ALL") ? WAYS : 1); k++) {
      subject s;
      situ_scope scope;
      situ_scope_begin(&scope);
      if (set_subject(&s, row, &domains[r % DOMAINS])) compared += check(&s, (int)(r + (size_t)k) % WAYS, &points);
      SITU_IGNORE(situ_scope_end(&scope));
    }
  }
  print_message("%d pairs of an op and a way to differentiate it, %d calls without memory\n", compared, points);
  assert_true(compared > 100 && points > 2000);
}

/* ---- checks of gradients, and modules as functions ---- */

static situ_tensor *smooth(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_sum(situ_mul(situ_sin(in[0]), situ_tanh(in[1])), NULL);
}

typedef struct scene {
  situ_tensor *in[2];
  situ_nn_module *module;
} scene;

static situ_status first_check(const scene *s) { return situ_autograd_gradcheck(smooth, NULL, 2, s->in, NULL); }
static situ_status forward_check(const scene *s) {
  return situ_autograd_gradcheck(smooth, NULL, 2, s->in, OPTIONS_AT(situ_gradcheck, with.check_forward_ad = true));
}
static situ_status second_check(const scene *s) { return situ_autograd_gradgradcheck(smooth, NULL, 2, s->in, NULL); }
static situ_status call_of_module(const scene *s) {
  situ_tree *own = situ_tree_dict();
  situ_tensor *y = NULL;
  if (situ_tree_put(own, "weight", situ_tree_tensor(situ_zeros(SITU_SHAPE(3, 3), NULL))))
    y = situ_func_functional_call(s->module, own, situ_ones(SITU_SHAPE(2, 3), NULL), NULL);
  situ_tree_free(own);
  return y ? SITU_OK : situ_error();
}
static situ_status tree_of_module(const scene *s) {
  situ_tree *own = situ_tree_dict(), *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 3), NULL)), *y = NULL;
  if (in && situ_tree_put(own, "bias", situ_tree_tensor(situ_zeros(SITU_SHAPE(3), NULL))))
    y = situ_func_functional_call_tree(s->module, own, in, NULL);
  situ_tree_free(own);
  situ_tree_free(in);
  const bool good = y != NULL;
  situ_tree_free(y);
  return good ? SITU_OK : situ_error();
}

static void checks_and_modules_without_memory(void **state) {
  (void)state;
  static const struct {
    const char *name;
    situ_status (*run)(const scene *s);
  } calls[] = { { "gradcheck", first_check },
                { "gradcheck, forward mode", forward_check },
                { "gradgradcheck", second_check },
                { "functional_call", call_of_module },
                { "functional_call_tree", tree_of_module } };
  scene s = { .in = { test_random(SITU_SHAPE(2), 0.5, 1.5, true), test_random(SITU_SHAPE(2), 0.5, 1.5, true) },
              .module = situ_nn_linear(3, 3, NULL) };
  int points = 0;
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
    for (uint64_t nth = 1, most = 1; nth <= most; nth += 1 + most / 200) {
      const int64_t before = situ_live_tensors();
      situ_scope scope;
      situ_scope_begin(&scope);
      situ_fail_allocation(nth == 1 ? 0 : nth - 1, false); /* the first run fails nowhere, and counts */
      const situ_status status = calls[c].run(&s);
      if (nth == 1) most = situ_allocation_count() + 1;
      situ_fail_allocation(0, false);
      if (status != SITU_OK && (nth == 1 || status != SITU_E_NOMEM))
        fail_msg("%s, allocation %d: %s", calls[c].name, (int)nth - 1, situ_error_message());
      points += status != SITU_OK;
      situ_error_clear();
      SITU_IGNORE(situ_scope_end(&scope));
      if (situ_live_tensors() != before)
        fail_msg("%s, allocation %d: %d tensors stay alive", calls[c].name, (int)nth - 1,
                 (int)(situ_live_tensors() - before));
    }
  situ_nn_free(s.module);
  assert_true(points > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op_without_memory), TEST(checks_and_modules_without_memory) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
