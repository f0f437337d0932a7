/* Operands without elements: an op that takes them has gradients, and gradients of these, wherever it has them for others;
   of the operands' shapes. So has a write in place through a view. */
/* test-devices: cpu sim:0 */
#include <string.h>

#include "support/domains.h"

static const situ_backward_options create = { .create_graph = true };

typedef struct subject {
  const parity_row *row;
  situ_tensor *in[PARITY_OPERANDS], *leaf[PARITY_OPERANDS];
  int operands, leaves;
} subject;

static bool set_subject(subject *s, const parity_row *row, situ_shape base) {
  *s = (subject){ .row = row };
  for (; row->operands[s->operands]; s->operands++) {
    const char letter = row->operands[s->operands];
    const situ_shape shape = parity_shape(letter, base, 0);
    situ_tensor *x = parity_is_index(letter) ? situ_to_dtype(test_random(shape, 0, 0.9, false), SITU_I64)
                     : letter == 'z'         ? situ_gt_scalar(test_random(shape, -1, 1, false), 0)
                                             : test_random(shape, 0.3, 0.8, !parity_is_constant(letter));
    if (!x) return false;
    s->in[s->operands] = x;
    if (situ_requires_grad(x)) s->leaf[s->leaves++] = x;
  }
  return s->leaves > 0;
}

/* The first and the second derivatives. 0: the call refuses its operands; else how far it came: 1 to 3. */
static int derivatives(subject *s) {
  situ_tensor *copy[PARITY_OPERANDS], *also = NULL, *g[PARITY_OPERANDS], *h[PARITY_OPERANDS], *sum = NULL;
  situ_manual_seed(3);
  for (int i = 0; i < s->operands; i++)
    copy[i] = situ_dtype_is_floating(situ_dtype_of(s->in[i])) ? situ_clone(s->in[i]) : s->in[i];
  situ_tensor *y = s->row->call(copy, &also);
  if (!y || !situ_requires_grad(y)) return 0;
  if (situ_autograd_grad(situ_sum(y, NULL), s->leaves, s->leaf, g, &create) != SITU_OK) return 1;
  for (int k = 0; k < s->leaves; k++) {
    if (!g[k]) continue;
    const situ_shape want = situ_shape_of(s->leaf[k]), got = situ_shape_of(g[k]);
    if (!situ_shape_equal(&want, &got)) fail_msg("%s: the gradient has another shape", s->row->op);
    situ_tensor *part = situ_sum(situ_square(g[k]), NULL);
    sum = sum ? situ_add(sum, part) : part;
  }
  if (!sum || !situ_requires_grad(sum)) return 3;
  return situ_autograd_grad(sum, s->leaves, s->leaf, h, NULL) == SITU_OK ? 3 : 2;
}

static void every_op(void **state) {
  (void)state;
  const situ_shape full = SITU_SHAPE(2, 3, 4),
                   empty[] = { SITU_SHAPE(0, 3, 4), SITU_SHAPE(2, 0, 4), SITU_SHAPE(2, 3, 0) };
  int taken = 0, bad = 0;
  for (size_t r = 0; r < parity_row_count; r++) {
    const parity_row *row = &parity_rows[r];
    if (row->backward == NO_GRAD || domain_is_missing(row)) continue;
    for (size_t k = 0; k < sizeof empty / sizeof *empty; k++) {
      situ_scope scope;
      situ_scope_begin(&scope);
      subject s;
      const int usual = set_subject(&s, row, full) ? derivatives(&s) : 0;
      situ_error_clear();
      const int here = usual && set_subject(&s, row, empty[k]) ? derivatives(&s) : 0;
      taken += here > 0;
      if (here && here < usual) {
        print_error("%s, operands %s, shape %d: %s derivative: %s\n", row->op, row->operands, (int)k,
                    here == 1 ? "no first" : "no second", situ_error_message());
        bad++;
      }
      situ_error_clear();
      SITU_IGNORE(situ_scope_end(&scope));
    }
  }
  print_message("%d calls of ops with empty operands were differentiated twice\n", taken);
  assert_int_equal(bad, 0);
  assert_true(taken > 300);
}

/* ---- writes in place through views ---- */

static situ_tensor *last(situ_tensor *x) { return situ_select(x, -1, situ_size(x, -1) - 1); }
static situ_tensor *rest(situ_tensor *x) { return situ_narrow(x, -1, 1, situ_size(x, -1) - 1); }
static situ_tensor *turned(situ_tensor *x) { return situ_transpose(x, 0, -1); }
static situ_tensor *flat(situ_tensor *x) { return situ_view(x, SITU_SHAPE(situ_numel(x))); }
static situ_tensor *diagonal(situ_tensor *x) { return situ_diagonal(x, 1, 1, 2); }
static situ_tensor *steps(situ_tensor *x) { return situ_slice(x, -1, 1, situ_size(x, -1), 2); }
static situ_tensor *several(situ_tensor *x) { return last(situ_unsqueeze(situ_slice(rest(x), -1, 0, 3, 2), 1)); }
static situ_tensor *wider(situ_tensor *x) { return situ_unsqueeze(rest(x), 1); }

static void writes_through_views(void **state) {
  (void)state;
  static const struct {
    const char *name;
    situ_tensor *(*view)(situ_tensor *x);
  } views[] = { { "select", last },       { "narrow", rest }, { "transpose", turned }, { "view", flat },
                { "diagonal", diagonal }, { "slice", steps }, { "several", several },  { "unsqueeze", wider } };
  const situ_shape shapes[] = { SITU_SHAPE(0, 3, 4), SITU_SHAPE(2, 0, 4) };
  for (size_t v = 0; v < sizeof views / sizeof *views; v++)
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
      situ_tensor *x = test_random(shapes[k], 0, 1, true), *y = situ_clone(x), *g, *h;
      situ_tensor *part = views[v].view(y);
      if (!part || !situ_mul_(part, part))
        fail_msg("%s of shape %d cannot be written: %s", views[v].name, (int)k, situ_error_message());
      situ_tensor *sum = situ_add(situ_sum(situ_square(y), NULL), situ_sum(situ_square(part), NULL));
      if (situ_autograd_grad(sum, 1, &x, &g, &create) != SITU_OK ||
          situ_autograd_grad(situ_sum(situ_square(g), NULL), 1, &x, &h, NULL) != SITU_OK)
        fail_msg("%s of shape %d: %s", views[v].name, (int)k, situ_error_message());
      const situ_shape first = situ_shape_of(g), second = situ_shape_of(h);
      assert_true(situ_shape_equal(&first, &shapes[k]) && situ_shape_equal(&second, &shapes[k]));
    }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op), TEST(writes_through_views) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
