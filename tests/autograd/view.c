/* In-place writes and views: who sees a write, what its gradient is, what is refused. Expected gradients are those of torch 2.15. */
/* test-devices: cpu sim:0 opencl:0 */
#include "situ/sys/alloc.h"
#include "support/test.h"

static situ_tensor *leaf(int64_t n) {
  return situ_requires_grad_(situ_ones(SITU_SHAPE(n), &(situ_options){ .dtype = SITU_F64, .device = test_device() }),
                             true);
}
static situ_tensor *zeros(situ_shape shape) {
  return situ_zeros(shape, &(situ_options){ .dtype = SITU_F64, .device = test_device() });
}
static void back(situ_tensor *t) {
  assert_int_equal(situ_backward(situ_sum(t, NULL), &(situ_backward_options){ .retain_graph = true }), SITU_OK);
}
static situ_tensor *part(situ_tensor *t, int64_t from, int64_t n) { return situ_narrow(t, 0, from, n); }

#define NO_GRAD(statement)                               \
  do {                                                   \
    situ_scope no_grad;                                  \
    situ_scope_begin_no_grad(&no_grad);                  \
    statement;                                           \
    assert_int_equal(situ_scope_end(&no_grad), SITU_OK); \
  } while (0)

/* ---- right ---- */

static situ_tensor *copy(situ_tensor *v, situ_tensor *x) { return situ_copy_(v, x); }
static situ_tensor *add(situ_tensor *v, situ_tensor *x) { return situ_add_(v, x); }
static situ_tensor *addcmul(situ_tensor *v, situ_tensor *x) { return situ_addcmul_(v, x, x, 1); }
static situ_tensor *scatter(situ_tensor *v, situ_tensor *x) {
  return situ_scatter_(v, 0, TI64(SITU_SHAPE(2), 1, 0), x);
}
static situ_tensor *index_add(situ_tensor *v, situ_tensor *x) {
  return situ_index_add_(v, 0, TI64(SITU_SHAPE(2), 0, 1), x, 1);
}

static void a_value_written_into_a_view_of_a_buffer(void **state) {
  (void)state;
  situ_tensor *(*const write[])(situ_tensor *, situ_tensor *) = { copy, add, addcmul, scatter, index_add };
  const double want[] = { 3, 3, 18, 3, 3 };
  for (int k = 0; k < 5; k++) {
    situ_tensor *w = leaf(2), *buffer = zeros(SITU_SHAPE(2, 2)), *other = situ_select(buffer, 0, 0),
                *view = situ_select(buffer, 0, 0);
    assert_ptr_equal(write[k](view, situ_mul_scalar(w, 3)), view);
    assert_true(situ_requires_grad(buffer) && situ_requires_grad(view) && situ_requires_grad(other));
    assert_false(situ_is_leaf(buffer) || situ_is_leaf(view) || situ_is_leaf(other));
    back(buffer);
    back(view);
    back(other);
    expect_exact(situ_grad(w), SITU_SHAPE(2), 3 * want[k], 3 * want[k]);
  }
}

/* The idiom: a result that is filled step by step. */
static void an_output_filled_step_by_step(void **state) {
  (void)state;
  situ_tensor *u = leaf(2), *out = zeros(SITU_SHAPE(3, 2));
  for (int t = 0; t < 3; t++) assert_non_null(situ_copy_(situ_select(out, 0, t), situ_mul_scalar(u, t + 1)));
  back(out);
  back(u);
  expect_exact(situ_grad(u), SITU_SHAPE(2), 7, 7);
}

static void a_base_written_after_its_view_was_made(void **state) {
  (void)state;
  situ_tensor *w = leaf(4), *a = zeros(SITU_SHAPE(4)), *v = situ_view(a, SITU_SHAPE(2, 2)),
              *wide = situ_expand(part(a, 0, 1), SITU_SHAPE(3));
  assert_non_null(situ_add_(a, w));
  back(v);
  back(wide);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 4, 1, 1, 1);
}

/* Views of values with history, written; the base, another view and the view itself are right afterwards. */
static void a_view_with_history_written(void **state) {
  (void)state;
  situ_tensor *w = leaf(4), *b = situ_mul_scalar(w, 2), *v = part(b, 0, 2), *other = part(b, 1, 2),
              *tail = part(v, 1, 1);
  assert_non_null(situ_mul_scalar_(v, 3));
  back(b);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 6, 6, 2, 2);
  back(v);
  back(other);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 12, 18, 4, 2);
  assert_non_null(situ_zero_(tail)); /* a view of a view: its base is b */
  back(b);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 18, 18, 6, 4);
  assert_non_null(situ_add_(v, situ_square(w = leaf(2))));
  back(situ_transpose(situ_view(b, SITU_SHAPE(2, 2)), 0, 1));
  expect_exact(situ_grad(w), SITU_SHAPE(2), 2, 2);
}

/* A base with gaps: detach of a slice is a base of its own. */
static void a_base_with_gaps(void **state) {
  (void)state;
  situ_tensor *w = leaf(2), *memory = zeros(SITU_SHAPE(3, 4)),
              *base = situ_detach(situ_transpose(situ_narrow(memory, 1, 1, 2), 0, 1)), *row = situ_select(base, 1, 2);
  assert_non_null(situ_copy_(row, w));
  assert_non_null(situ_mul_scalar_(situ_select(base, 0, 0), 5));
  assert_false(situ_requires_grad(memory)); /* as torch: what is detached is cut off */
  back(row);
  back(base);
  expect_exact(situ_grad(w), SITU_SHAPE(2), 10, 2);
}

/* A write where nothing is recorded changes values, not histories. */
static void writes_without_recording(void **state) {
  (void)state;
  situ_tensor *w = leaf(4), *b = situ_mul_scalar(w, 2), *v = part(b, 0, 2), *of_leaf = part(w, 0, 2);
  NO_GRAD(assert_non_null(situ_mul_scalar_(v, 5)));
  back(v);
  back(b);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 4, 4, 2, 2);
  NO_GRAD(
      assert_non_null(situ_add_scalar_(w, 1))); /* an optimiser's step: a view that was made before it still serves */
  back(situ_mul(of_leaf, of_leaf));
  expect_exact(situ_grad(w), SITU_SHAPE(4), 8, 8, 2, 2);
}

/* An operand that is what is written, through another handle. */
static void the_written_value_is_an_operand_too(void **state) {
  (void)state;
  situ_tensor *w = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 5), true), *b = situ_mul_scalar(w, 1);
  assert_non_null(situ_mul_(b, situ_view(b, SITU_SHAPE(2))));
  back(b);
  expect_exact(situ_grad(w), SITU_SHAPE(2), 6, 10);
  situ_tensor *c = situ_mul_scalar(w, 1),
              *square = situ_view(situ_cat((situ_tensor *[]){ c, c }, 2, 0), SITU_SHAPE(2, 2));
  expect_refused(situ_add_(situ_narrow(square, 1, 0, 2), situ_transpose(square, 0, 1)), SITU_E_ALIAS, "add_",
                 "overlap");
  expect_refused(situ_index_add_(square, 0, TI64(SITU_SHAPE(2), 1, 0), square, 1), SITU_E_ALIAS, "index_add_",
                 "overlap"); /* not element by element */
  expect_refused(situ_scatter_(b, 0, TI64(SITU_SHAPE(2), 1, 0), situ_view(b, SITU_SHAPE(2))), SITU_E_ALIAS, "scatter_",
                 "overlap");
  assert_non_null(situ_add_(situ_select(square, 0, 0), situ_select(square, 0, 1))); /* apart */
  assert_int_equal(situ_set_grad(w, NULL), SITU_OK);
  back(square);
  expect_exact(situ_grad(w), SITU_SHAPE(2), 3, 3);
}

static situ_tensor *count(situ_tensor *grad, void *calls) { return (void)grad, ++*(int *)calls, NULL; }

/* Hooks stay with the value that they were given for; that a gradient is retained stays with the tensor. */
static void hooks_and_retained_gradients(void **state) {
  (void)state;
  int of_b = 0, of_v = 0;
  situ_tensor *w = leaf(4), *b = situ_mul_scalar(w, 2), *v = part(b, 0, 2);
  assert_int_equal(situ_register_hook(b, count, &of_b), SITU_OK);
  assert_int_equal(situ_register_hook(v, count, &of_v), SITU_OK);
  assert_int_equal(situ_retain_grad(b), SITU_OK);
  assert_int_equal(situ_retain_grad(v), SITU_OK);
  assert_non_null(situ_mul_scalar_(b, 3));
  back(v);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 6, 6, 0, 0);
  expect_exact(situ_grad(v), SITU_SHAPE(2), 1, 1);
  expect_exact(situ_grad(b), SITU_SHAPE(4), 1, 1, 0, 0);
  assert_int_equal(of_b, 1);
  assert_int_equal(of_v, 0);
  assert_int_equal(situ_register_hook(v, count, &of_v), SITU_OK);
  assert_non_null(situ_add_scalar_(part(b, 3, 1), 1));
  back(part(v, 0, 1));
  assert_int_equal(of_v, 0); /* that v has gone; this one is a new view of b */
}

/* ---- refused by name ---- */

static void what_torch_refuses(void **state) {
  (void)state;
  situ_tensor *w = leaf(4), *b = situ_mul_scalar(w, 2), *plain = zeros(SITU_SHAPE(4)), *v, *two[2];
  expect_refused(situ_add_scalar_(part(w, 0, 2), 1), SITU_E_STATE, "add_scalar_",
                 "a view of a leaf that requires a gradient");
  v = part(plain, 0, 2);
  assert_ptr_equal(situ_requires_grad_(plain, true), plain); /* after the view was made */
  expect_refused(situ_add_scalar_(v, 1), SITU_E_STATE, "add_scalar_", "a view of a leaf that requires a gradient");

  NO_GRAD(v = situ_retain(part(b, 0, 2)));
  expect_refused(situ_add_scalar_(v, 1), SITU_E_STATE, "add_scalar_", "made in a no_grad scope");
  assert_non_null(situ_mul_scalar(v, 2)); /* a constant */
  assert_non_null(situ_add_scalar_(b, 1));
  expect_refused(situ_mul_scalar(v, 2), SITU_E_STATE, "mul_scalar", "used after its base was written in place");
  expect_refused(situ_mul_scalar(part(v, 0, 1), 2), SITU_E_STATE, "narrow", "no_grad");
  assert_int_equal(situ_backward(v, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "no_grad");
  NO_GRAD(assert_non_null(situ_mul_scalar(v, 2)));
  situ_release(v);

  plain = zeros(SITU_SHAPE(4));
  NO_GRAD(v = situ_retain(part(plain, 0, 2)));
  assert_non_null(situ_add_scalar_(v, 1)); /* nothing to record */
  expect_refused(situ_copy_(v, part(w, 0, 2)), SITU_E_STATE, "copy_", "made in a no_grad scope");
  assert_non_null(situ_copy_(plain, w));
  expect_refused(situ_mul_scalar(v, 2), SITU_E_STATE, "mul_scalar", "no_grad");
  situ_release(v);

  assert_int_equal(situ_split(b, 2, 0, two, 2), 2);
  expect_refused(situ_add_scalar_(two[0], 1), SITU_E_STATE, "add_scalar_", "one of several views");
  assert_int_equal(situ_unbind(zeros(SITU_SHAPE(2, 2)), 0, two, 2), 2);
  assert_non_null(situ_add_scalar_(two[0], 1));
  expect_refused(situ_add_(two[0], part(w, 0, 2)), SITU_E_STATE, "add_", "one of several views");
  expect_exact(two[0], SITU_SHAPE(2), 1, 1);
}

static void what_cannot_be_right(void **state) {
  (void)state;
  situ_tensor *w = leaf(4), *memory = zeros(SITU_SHAPE(4)), *half = situ_detach(part(memory, 0, 2));
  situ_tensor *outside = situ_as_strided(half, SITU_SHAPE(3), SITU_SHAPE(1), 1);
  expect_refused(situ_copy_(outside, part(w, 0, 3)), SITU_E_STATE, "copy_", "elements which its base does not have");
  situ_tensor *shared = situ_detach(situ_expand(part(memory, 0, 1), SITU_SHAPE(3)));
  expect_refused(situ_copy_(part(shared, 0, 1), part(w, 0, 1)), SITU_E_ALIAS, "copy_", "share memory");
  situ_tensor *leaf_view = situ_requires_grad_(part(memory, 0, 2), true);
  expect_refused(situ_copy_(part(memory, 2, 2), part(w, 0, 2)), SITU_E_STATE, "copy_",
                 "a leaf that requires a gradient is a view");
  back(leaf_view);
  expect_exact(situ_grad(leaf_view), SITU_SHAPE(2), 1, 1);
  situ_tensor *written = zeros(SITU_SHAPE(4)), *early = part(written, 0, 2);
  assert_non_null(situ_add_(written, w)); /* early has a history now, which only its next use would find */
  expect_refused(situ_requires_grad_(early, false), SITU_E_STATE, "requires_grad_", "only a leaf");
  situ_tensor *h = situ_mul_scalar(w, 2);
  assert_int_equal(situ_copy_from_host(h, (double[4]){ 0 }, 32), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_from_host", "history");
  NO_GRAD(assert_int_equal(situ_copy_from_host(h, (double[4]){ 0 }, 32), SITU_OK));
}

/* ---- gradients in a loss ---- */

static void gradients_are_constants_only_by_word(void **state) {
  (void)state;
  situ_tensor *w = leaf(1), *t = situ_requires_grad_(T64(SITU_SHAPE(1), 2), true), *u = situ_mul(w, situ_square(t)),
              *du, *norm;
  const situ_backward_options retain = { .retain_graph = true };
  assert_int_equal(situ_autograd_grad(u, 1, &t, &du, &retain), SITU_OK);
  expect_refused(situ_mul(w, du), SITU_E_UNSUPPORTED, "mul", "operand 1 is a gradient");
  norm = situ_sum(situ_square(du), NULL); /* of its own: to print it */
  expect_exact(norm, SITU_SCALAR, 16);
  expect_refused(situ_add(situ_square(u), norm), SITU_E_UNSUPPORTED, "add", "create_graph");
  situ_tensor *buffer = zeros(SITU_SHAPE(2)), *view = part(buffer, 0, 1), *other = part(buffer, 1, 1);
  assert_non_null(situ_copy_(view, du));
  expect_refused(situ_mul(w, other), SITU_E_UNSUPPORTED, "mul", "gradient");
  expect_refused(situ_cat((situ_tensor *[]){ w, buffer }, 2, 0), SITU_E_UNSUPPORTED, "cat", "operand 1");
  expect_exact(situ_mul(w, situ_detach(du)), SITU_SHAPE(1), 4);
  expect_exact(situ_eq(u, du), SITU_SHAPE(1), 1);
  situ_tensor *order; /* whole numbers have no derivative */
  assert_non_null(situ_sort(du, 0, false, &order));
  expect_exact(situ_index_select(w, 0, order), SITU_SHAPE(1), 1);
  NO_GRAD(assert_non_null(situ_mul(w, du)));
  assert_int_equal(situ_backward(u, &retain), SITU_OK);
  expect_refused(situ_mul(w, situ_grad(w)), SITU_E_UNSUPPORTED, "mul", "gradient");
  situ_tensor *next =
      situ_requires_grad_(situ_sub(situ_detach(w), situ_mul_scalar(situ_grad(w), .5)), true); /* a new leaf */
  expect_exact(situ_mul(next, w), SITU_SHAPE(1), -1);
}

/* What a no_grad scope makes of a gradient is a constant until its memory is written from a gradient where gradients are
   recorded, through whichever tensor. */
static void a_constant_that_a_gradient_is_written_into_is_one(void **state) {
  (void)state;
  situ_tensor *w = leaf(1), *g, *constant, *later;
  assert_int_equal(situ_autograd_grad(situ_square(w), 1, &w, &g, NULL), SITU_OK);
  NO_GRAD(constant = situ_retain(part(g, 0, 1)));
  expect_exact(situ_mul(w, constant), SITU_SHAPE(1), 2);
  assert_non_null(situ_mul_(g, g));
  expect_refused(situ_mul(w, constant), SITU_E_UNSUPPORTED, "mul", "operand 1 is a gradient");
  NO_GRAD(later = situ_retain(part(g, 0, 1)));
  expect_exact(situ_mul(w, later), SITU_SHAPE(1), 4);
  situ_drop(&constant);
  situ_drop(&later);
}

static situ_tensor *keep(situ_tensor *grad, void *slot) { return (void)situ_set(slot, grad), NULL; }

static void gradients_that_hooks_keep_are_marked(void **state) {
  (void)state;
  situ_tensor *w = leaf(1), *h = situ_mul_scalar(w, 2), *kept = NULL, *given = situ_ones_like(h, NULL);
  assert_int_equal(situ_register_hook(h, keep, &kept), SITU_OK);
  assert_int_equal(situ_backward(h, &(situ_backward_options){ .gradient = given }), SITU_OK);
  expect_refused(situ_mul(w, kept), SITU_E_UNSUPPORTED, "mul", "gradient");
  assert_non_null(situ_mul(w, given)); /* the caller's own */
  situ_drop(&kept);
}

/* What a hook keeps is not written when the gradient of a written part is taken out of it. */
static void a_gradient_that_is_kept_is_not_written(void **state) {
  (void)state;
  situ_tensor *w = leaf(4), *b = situ_mul_scalar(w, 2), *kept = NULL;
  assert_non_null(situ_mul_scalar_(part(b, 0, 2), 3));
  assert_int_equal(situ_register_hook(b, keep, &kept), SITU_OK);
  back(situ_mul(b, T64(SITU_SHAPE(4), 1, 2, 3, 4)));
  expect_exact(kept, SITU_SHAPE(4), 1, 2, 3, 4);
  expect_exact(situ_grad(w), SITU_SHAPE(4), 6, 12, 6, 8);
  situ_drop(&kept);
}

/* ---- memory ---- */

/* What is saved is written with what was computed from it: no cycle of owners (the fixture counts tensors). */
static void a_saved_value_that_is_overwritten_is_freed(void **state) {
  (void)state;
  situ_tensor *w = leaf(2), *b = situ_mul_scalar(w, 2), *v = situ_set_name(part(b, 0, 1), "part"),
              *plain = zeros(SITU_SHAPE(2));
  assert_non_null(situ_add_(b, situ_mul(b, b)));
  assert_non_null(situ_add_(part(b, 1, 1), situ_square(v)));
  assert_non_null(situ_add_(plain, situ_mul(w, plain)));
  assert_int_equal(situ_backward(situ_sum(b, NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "square needs its operand 0 part ([1]");
}

/* A view of a parameter made without gradients, then a leaf of its own: owned once where a product saves it. */
static void a_leaf_that_is_a_view_is_freed(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *parameter = leaf(4), *view = NULL;
  NO_GRAD(view = situ_retain(part(parameter, 1, 2)));
  assert_non_null(situ_requires_grad_(view, true));
  assert_int_equal(situ_backward(situ_sum(situ_mul(view, view), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(view), SITU_SHAPE(2), 2, 2);
  assert_null(situ_grad(parameter));
  situ_release(view);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_live_tensors(), before);
}

/* A write that fails has changed neither values nor histories. */
static void a_write_that_fails_changes_nothing(void **state) {
  (void)state;
  int points = 0;
  for (uint64_t nth = 1;; nth++) {
    situ_tensor *w = leaf(4), *b = situ_mul_scalar(w, 2), *v = part(b, 0, 2), *x = situ_mul_scalar(part(w, 2, 2), 3);
    assert_int_equal(situ_retain_grad(v), SITU_OK);
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, true);
    situ_tensor *wrote = situ_mul_(v, x);
    situ_fail_allocation(0, false);
    if (wrote) break;
    points++;
    expect_error(SITU_E_NOMEM, "mul_", "");
    expect_exact(b, SITU_SHAPE(4), 2, 2, 2, 2);
    back(b);
    back(v);
    expect_exact(situ_grad(w), SITU_SHAPE(4), 4, 4, 2, 2);
    assert_non_null(situ_mul_(v, x));
    back(b);
    expect_exact(situ_grad(w), SITU_SHAPE(4), 10, 10, 10, 10);
  }
  assert_true(points > 2);
}

/* torch: the copy that reshape makes is no view. */
static void a_copy_that_reshape_made_is_written(void **state) {
  (void)state;
  situ_tensor *w = leaf(6), *y, *part_of_y;
  NO_GRAD(y = situ_retain(situ_reshape(situ_transpose(zeros(SITU_SHAPE(3, 2)), 0, 1), SITU_SHAPE(6)));
          part_of_y = situ_retain(part(y, 0, 2)));
  assert_ptr_equal(situ_copy_(y, situ_mul_scalar(w, 2)), y);
  back(y);
  expect_exact(situ_grad(w), SITU_SHAPE(6), 2, 2, 2, 2, 2, 2);
  assert_null(situ_add_scalar_(part_of_y, 1));
  expect_error(SITU_E_STATE, "add_scalar_", "a view that was made in a no_grad scope");
  situ_release(part_of_y);
  situ_release(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_value_written_into_a_view_of_a_buffer),
    TEST(an_output_filled_step_by_step),
    TEST(a_base_written_after_its_view_was_made),
    TEST(a_view_with_history_written),
    TEST(a_base_with_gaps),
    TEST(writes_without_recording),
    TEST(the_written_value_is_an_operand_too),
    TEST(hooks_and_retained_gradients),
    TEST(what_torch_refuses),
    TEST(what_cannot_be_right),
    TEST(gradients_are_constants_only_by_word),
    TEST(a_constant_that_a_gradient_is_written_into_is_one),
    TEST(gradients_that_hooks_keep_are_marked),
    TEST(a_saved_value_that_is_overwritten_is_freed),
    TEST(a_gradient_that_is_kept_is_not_written),
    TEST(a_leaf_that_is_a_view_is_freed),
    TEST(a_write_that_fails_changes_nothing),
    TEST(a_copy_that_reshape_made_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
