/* Functions that a program hands to the library: each that returns a tensor returns one that was freed, or none without an
   error; each that a backward pass calls goes backward on the loss of that pass. Arrays of results that overlap those of
   operands. All are refused by an error, and no gradient changes. */
/* test-devices: cpu sim:0 */
#include <stdio.h>

#include "situ/situ.h"
#include "support/test.h"

/* ---- what is returned ---- */

enum { DEAD, MISSING, NONSENSE };
static int nonsense;   /* what the functions below return */
static int good_calls; /* calls that are right before */

static situ_tensor *returned(situ_tensor *right) {
  if (good_calls-- > 0) return right;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *t = situ_mul_scalar(right, 3);
  SITU_IGNORE(situ_scope_end(&s));
  return nonsense == DEAD ? t : NULL;
}

static situ_tensor *loss_of(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return returned(situ_sum(situ_square(in[0]), NULL));
}
static situ_status losses_of(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload) {
  for (int k = 0; k < outs; k++) out[k] = loss_of(in, count, payload);
  return SITU_OK;
}
static situ_status squares(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs, (void)payload;
  out[0] = returned(situ_square(in[0]));
  return SITU_OK;
}
static situ_status squares_back(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                                situ_tensor *const *grad, situ_tensor **dx, void *payload) {
  (void)ins, (void)out, (void)outs, (void)payload;
  dx[0] = returned(situ_mul(grad[0], situ_mul_scalar(in[0], 2)));
  return SITU_OK;
}
static const situ_function square = { .name = "own_square", .forward = squares, .backward = squares_back };
static situ_tensor *changed(situ_tensor *grad, void *payload) {
  (void)payload;
  return returned(grad);
}
static void *kept(situ_tensor *t, void *payload) {
  (void)payload;
  return t;
}
static situ_tensor *unpacked(void *packed, void *payload) {
  (void)payload;
  return returned(packed);
}
static const situ_saved_tensors_hooks saved_hooks = { .pack = kept, .unpack = unpacked };
static situ_tensor *evaluated(void *payload) {
  situ_tensor *loss = situ_sum(situ_square(payload), NULL);
  return situ_backward(loss, NULL) == SITU_OK ? returned(loss) : NULL;
}
static situ_tensor *module_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return returned(x);
}
static situ_tree *module_call(situ_nn_module *self, const situ_tree *in) {
  (void)self;
  return SITU_TREE(returned(situ_tree_value(in)));
}
static const situ_nn_type forwards = { .name = "Own", .size = sizeof(situ_nn_module), .forward = module_forward },
                          calls = { .name = "Own", .size = sizeof(situ_nn_module), .call = module_call };

/* ---- who calls them: each returns whether the call has succeeded ---- */

static bool tensor_hook(situ_tensor *x) {
  situ_tensor *y = situ_exp(x);
  if (situ_register_hook(y, changed, NULL) != SITU_OK) return false;
  return situ_backward(situ_sum(y, NULL), NULL) == SITU_OK;
}
static bool leaf_hook(situ_tensor *x) {
  if (situ_register_hook(x, changed, NULL) != SITU_OK) return false;
  const bool good = situ_backward(situ_sum(situ_exp(x), NULL), NULL) == SITU_OK;
  situ_remove_hooks(x, NULL);
  return good;
}
static bool function_forward(situ_tensor *x) {
  situ_tensor *y;
  return situ_function_apply(&square, &x, 1, &y, 1, NULL) == SITU_OK;
}
static bool function_backward(situ_tensor *x) {
  situ_tensor *y;
  good_calls = 1;
  return situ_function_apply(&square, &x, 1, &y, 1, NULL) == SITU_OK &&
         situ_backward(situ_sum(y, NULL), NULL) == SITU_OK;
}
static bool unpack(situ_tensor *x) {
  if (situ_autograd_graph_saved_tensors_hooks_begin(&saved_hooks) != SITU_OK) return false;
  situ_tensor *y = situ_sum(situ_square(situ_exp(x)), NULL);
  SITU_IGNORE(situ_autograd_graph_saved_tensors_hooks_end());
  return situ_backward(y, NULL) == SITU_OK;
}
static bool recompute(situ_tensor *x) { return situ_recompute(loss_of, NULL, 1, &x) != NULL; }
static bool recompute_again(situ_tensor *x) {
  good_calls = 1;
  return situ_backward(situ_recompute(loss_of, NULL, 1, &x), NULL) == SITU_OK;
}
static bool jvp(situ_tensor *x) {
  situ_tensor *along, *t = situ_ones_like(x, NULL);
  return situ_func_jvp(loss_of, NULL, 1, &x, &t, &along) != NULL;
}
static bool vjp(situ_tensor *x) {
  situ_tensor *grad;
  return situ_func_vjp(loss_of, NULL, 1, &x, NULL, false, &grad) != NULL;
}
static bool jacrev(situ_tensor *x) { return situ_func_jacrev(loss_of, NULL, 1, &x, 0) != NULL; }
static bool jacfwd(situ_tensor *x) { return situ_func_jacfwd(loss_of, NULL, 1, &x, 0) != NULL; }
static bool hvp(situ_tensor *x) { return situ_func_hvp(loss_of, NULL, 1, &x, 0, situ_ones_like(x, NULL)) != NULL; }
static bool hessian(situ_tensor *x) { return situ_func_hessian(loss_of, NULL, 1, &x, 0) != NULL; }
static bool vmap(situ_tensor *x) { return situ_func_vmap(loss_of, NULL, 1, &x, NULL, 0) != NULL; }
static bool vmap_many(situ_tensor *x) {
  situ_tensor *y;
  return situ_func_vmap_many(losses_of, NULL, 1, &x, NULL, 0, 1, &y) == SITU_OK;
}
static bool first_check(situ_tensor *x) { return situ_autograd_gradcheck(loss_of, NULL, 1, &x, NULL) == SITU_OK; }
static bool later_check(situ_tensor *x) {
  good_calls = 3;
  return first_check(x);
}
static bool second_check(situ_tensor *x) { return situ_autograd_gradgradcheck(loss_of, NULL, 1, &x, NULL) == SITU_OK; }
static bool closure(situ_tensor *x) {
  situ_optim *o = situ_optim_lbfgs(SITU_TREE(x), 1, NULL);
  const bool good = situ_optim_step_closure(o, evaluated, x, NULL) == SITU_OK;
  situ_optim_free(o);
  SITU_IGNORE(situ_set_grad(x, NULL));
  return good;
}
static bool forward_of(const situ_nn_type *type, situ_tensor *x) {
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(type));
  const bool good = situ_nn_forward(m, x) != NULL;
  situ_nn_free(m);
  return good;
}
static bool forward_of_a_module(situ_tensor *x) { return forward_of(&forwards, x); }
static bool call_of_a_module(situ_tensor *x) { return forward_of(&calls, x); }
static bool tree_map(situ_tensor *x) {
  situ_tree *tree = SITU_TREE(x), *mapped = situ_tree_map(tree, changed, NULL);
  situ_tree_free(tree);
  situ_tree_free(mapped);
  return mapped != NULL;
}

static const struct caller {
  const char *name;
  bool (*run)(situ_tensor *x);
  bool may_miss; /* NULL has a meaning */
} callers[] = {
  { .name = "a hook", .run = tensor_hook, .may_miss = true },
  { .name = "a leaf's hook", .run = leaf_hook, .may_miss = true },
  { .name = "a function's forward", .run = function_forward },
  { .name = "a function's backward", .run = function_backward },
  { .name = "unpack", .run = unpack },
  { .name = "recompute", .run = recompute },
  { .name = "recompute, in backward", .run = recompute_again },
  { .name = "jvp", .run = jvp },
  { .name = "vjp", .run = vjp },
  { .name = "jacrev", .run = jacrev },
  { .name = "jacfwd", .run = jacfwd },
  { .name = "hvp", .run = hvp },
  { .name = "hessian", .run = hessian },
  { .name = "vmap", .run = vmap },
  { .name = "vmap_many", .run = vmap_many },
  { .name = "gradcheck", .run = first_check },
  { .name = "gradcheck, at a moved point", .run = later_check },
  { .name = "gradgradcheck", .run = second_check },
  { .name = "a closure", .run = closure },
  { .name = "a module's forward", .run = forward_of_a_module },
  { .name = "a module's call", .run = call_of_a_module },
  { .name = "a tree's map", .run = tree_map },
};

static void what_a_function_returns_is_looked_at(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true);
  for (size_t i = 0; i < sizeof callers / sizeof *callers; i++)
    for (nonsense = DEAD; nonsense < NONSENSE; nonsense++) {
      if (nonsense == MISSING && callers[i].may_miss) continue;
      situ_scope s;
      situ_scope_begin(&s);
      good_calls = 0;
      const bool good = callers[i].run(x);
      if (good || situ_error() == SITU_OK)
        fail_msg("%s: %s tensor was taken%s", callers[i].name, nonsense == DEAD ? "a freed" : "no",
                 good ? "" : " without an error");
      if (nonsense == DEAD) expect_error(SITU_E_ARG, "", "freed");
      situ_error_clear();
      SITU_IGNORE(situ_scope_end(&s));
      assert_null(situ_grad(x));
      expect_exact(x, SITU_SHAPE(2), 1, 2);
    }
}

/* ---- what goes backward ---- */

typedef struct again {
  situ_tensor *loss;
  int calls;
} again;

static situ_status go_back(again *a) {
  a->calls++;
  return situ_backward(a->loss, &(situ_backward_options){ .retain_graph = true });
}
static situ_tensor *back_in_hook(situ_tensor *grad, void *payload) {
  (void)grad;
  SITU_IGNORE(go_back(payload));
  return NULL;
}
static situ_status back_after(situ_tensor *leaf, void *payload) {
  (void)leaf;
  return go_back(payload);
}
static situ_status back_when_ready(situ_tensor *leaf, situ_tensor *grad, void *payload) {
  (void)grad;
  return back_after(leaf, payload);
}
static situ_status back_at_the_end(void *payload) { return go_back(payload); }
static situ_status queue_back(situ_tensor *leaf, void *payload) {
  (void)leaf;
  return situ_autograd_queue_callback(back_at_the_end, payload);
}
static situ_status same(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs, (void)payload;
  return (out[0] = situ_clone(in[0])) ? SITU_OK : situ_error();
}
static situ_status back_in_backward(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                                    situ_tensor *const *grad, situ_tensor **dx, void *payload) {
  (void)in, (void)ins, (void)out, (void)outs;
  dx[0] = grad[0];
  return go_back(payload);
}
static const situ_function goes_back = { .name = "goes_back", .forward = same, .backward = back_in_backward };

static void going_backward_for_ever_is_refused(void **state) {
  (void)state;
  enum { HOOK, LEAF_HOOK, AFTER, READY, CALLBACK, FUNCTION, KINDS };
  const situ_backward_options retain = { .retain_graph = true };
  for (int kind = 0; kind < KINDS; kind++) {
    situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true), *y = situ_square(x), *out[1] = { y };
    again a = { 0 };
    situ_status status = SITU_OK;
    if (kind == HOOK) status = situ_register_hook(y, back_in_hook, &a);
    if (kind == LEAF_HOOK) status = situ_register_hook(x, back_in_hook, &a);
    if (kind == AFTER) status = situ_register_post_accumulate_grad_hook(x, back_after, &a);
    if (kind == READY) status = situ_register_grad_ready_hook(x, back_when_ready, &a);
    if (kind == CALLBACK) status = situ_register_post_accumulate_grad_hook(x, queue_back, &a);
    if (kind == FUNCTION) status = situ_function_apply(&goes_back, &y, 1, out, 1, &a);
    assert_int_equal(status, SITU_OK);
    a.loss = situ_sum(out[0], NULL);
    assert_int_equal(situ_backward(a.loss, &retain), SITU_E_STATE);
    expect_error(SITU_E_STATE, "backward", "each in a hook of the one before");
    assert_in_range(a.calls, 8, 100);
    if (kind == AFTER || kind == CALLBACK) { /* these see gradients that were added */
      situ_remove_hooks(x, &a);
      continue;
    }
    assert_null(situ_grad(x));
    if (kind == FUNCTION) continue;
    situ_remove_hooks(kind == HOOK ? y : x, &a);
    assert_int_equal(situ_backward(a.loss, &retain), SITU_OK);
    expect_exact(situ_grad(x), SITU_SHAPE(2), 2, 4);
  }
}

/* ---- arrays of operands and results ---- */

enum { OPERANDS = 2, ROOM = 3 };
static situ_tensor *product(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_sum(situ_mul(in[0], in[1]), NULL);
}
static situ_status both(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload) {
  (void)payload;
  for (int k = 0; k < outs; k++) out[k] = situ_mul_scalar(in[k % count], 2);
  return SITU_OK;
}
static const situ_function twice = { .name = "twice", .forward = both };

static situ_status grads_of(situ_tensor **in, situ_tensor **out) {
  return situ_autograd_grad(product(in, OPERANDS, NULL), OPERANDS, in, out, NULL);
}
static situ_status vjp_of(situ_tensor **in, situ_tensor **out) {
  return situ_func_vjp(product, NULL, OPERANDS, in, NULL, false, out) ? SITU_OK : situ_error();
}
static situ_status jvp_of(situ_tensor **in, situ_tensor **out) {
  return situ_func_jvp(product, NULL, OPERANDS, in, in, &out[0]) ? SITU_OK : situ_error();
}
static situ_status many_of(situ_tensor **in, situ_tensor **out) {
  return situ_func_vmap_many(both, NULL, OPERANDS, in, NULL, 0, OPERANDS, out);
}
static situ_status function_of(situ_tensor **in, situ_tensor **out) {
  return situ_function_apply(&twice, in, OPERANDS, out, OPERANDS, NULL);
}
static situ_status grid_of(situ_tensor **in, situ_tensor **out) {
  return situ_meshgrid(in, OPERANDS, SITU_INDEXING_IJ, out);
}
static situ_status broadcast_of(situ_tensor **in, situ_tensor **out) {
  return situ_broadcast_tensors(in, OPERANDS, out);
}

static const struct {
  const char *name;
  situ_status (*run)(situ_tensor **in, situ_tensor **out);
  int results;
} with_arrays[] = { { "autograd_grad", grads_of, OPERANDS },
                    { "func_vjp", vjp_of, OPERANDS },
                    { "func_jvp", jvp_of, 1 },
                    { "func_vmap_many", many_of, OPERANDS },
                    { "function_apply", function_of, OPERANDS },
                    { "meshgrid", grid_of, OPERANDS },
                    { "broadcast_tensors", broadcast_of, OPERANDS } };

/* in at array[1 - at], out at array[at]: the same, or one is moved by an element. */
static void arrays_that_overlap(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true),
              *y = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 5), true);
  for (size_t i = 0; i < sizeof with_arrays / sizeof *with_arrays; i++)
    for (int from = 0; from < 2; from++)
      for (int to = 0; to < 2; to++) {
        situ_tensor *apart[OPERANDS] = { x, y }, *want[OPERANDS], *array[ROOM] = { NULL };
        for (int k = 0; k < OPERANDS; k++) array[from + k] = apart[k];
        assert_int_equal(with_arrays[i].run(apart, want), SITU_OK);
        const situ_status status = with_arrays[i].run(array + from, array + to);
        for (int k = 0; status == SITU_OK && k < with_arrays[i].results; k++) expect_same(array[to + k], want[k], 0, 0);
        if (status == SITU_OK) continue;
        expect_error(SITU_E_ALIAS, "", "overlap");
        for (int k = 0; k < OPERANDS; k++) assert_ptr_equal(array[from + k], apart[k]);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(what_a_function_returns_is_looked_at),
                                      TEST(going_backward_for_ever_is_refused), TEST(arrays_that_overlap) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
