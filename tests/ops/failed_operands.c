/* An operand that is NULL because the call that was to make it failed: the call returns NULL, also where the operand may
   be left out. When an error counts: the rule of docs/errors.md. */
/* test-devices: cpu sim:0 */
#include <pthread.h>

#include "situ/amp.h"
#include "situ/nn.h"
#include "support/domains.h"

static situ_tensor *failed_call(void) {
  situ_tensor *t = situ_reshape(situ_ones(SITU_SHAPE(9), NULL), SITU_SHAPE(2, 2));
  assert_null(t);
  return t;
}

/* Without operand k (negative: with all of them); *operands gets their number. */
static situ_tensor *call_without(const parity_row *row, int k, int *operands) {
  situ_tensor *t[PARITY_OPERANDS] = { NULL }, *also = NULL;
  for (*operands = 0; row->operands[*operands]; ++*operands)
    t[*operands] = situ_to(domain_operand(row->operands[*operands], &domains[1], false), test_device());
  if (k >= 0) t[k] = failed_call();
  return row->call(t, &also);
}

/* Returns how many calls were refused. */
static int refuse_each_operand(const parity_row *row) {
  int refused = 0;
  for (int k = -1, operands = 1; k < operands; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    const situ_tensor *y = call_without(row, k, &operands);
    if (k < 0 && !y) operands = 0; /* takes whole numbers only */
    if (k >= 0 && (y || strcmp(situ_error_op(), "reshape") != 0))
      fail_msg("%s without operand %d: %s", row->op, k, y ? "a result" : situ_error_message());
    refused += k >= 0;
    situ_error_clear();
    SITU_IGNORE(situ_scope_end(&s));
  }
  return refused;
}

static void every_operand_of_every_call(void **state) {
  (void)state;
  for (int cast = 0; cast < 2; cast++) {
    situ_setting before;
    int refused = 0;
    if (cast) assert_int_equal(situ_autocast_begin(&before, test_device(), NULL), SITU_OK);
    for (size_t r = 0; r < parity_row_count; r++)
      if (!domain_is_missing(&parity_rows[r])) refused += refuse_each_operand(&parity_rows[r]);
    if (cast) situ_autocast_end(&before);
    assert_true(refused > 300);
  }
}

/* ---- which errors count ---- */

static situ_tensor *x, *w;

static bool computes(void) { return situ_linear(x, w, NULL) != NULL; }

static void begin(situ_scope *s) {
  situ_error_clear();
  situ_scope_begin(s);
  x = situ_ones(SITU_SHAPE(2, 3), NULL);
  w = situ_ones(SITU_SHAPE(4, 3), NULL);
}

/* Until it is cleared, and in every way to call. */
static void an_error_of_this_scope(void **state) {
  (void)state;
  situ_scope s;
  situ_setting before;
  begin(&s);
  assert_true(computes());
  (void)failed_call();
  assert_false(computes());
  assert_int_equal(situ_autocast_begin(&before, situ_dev("cpu"), NULL), SITU_OK);
  assert_false(computes());
  situ_autocast_end(&before);
  assert_non_null(situ_linear(x, w, situ_ones(SITU_SHAPE(4), NULL)));
  assert_string_equal(situ_error_op(), "reshape");
  situ_error_clear();
  assert_true(computes());
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void an_error_before_the_scope(void **state) {
  (void)state;
  situ_scope s, inside;
  begin(&s);
  (void)failed_call();
  situ_scope_begin(&inside);
  assert_true(computes());
  (void)failed_call();
  assert_false(computes());
  assert_int_equal(situ_scope_end(&inside), SITU_E_SHAPE);
  assert_false(computes());
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
}

static void an_error_of_a_scope_inside(void **state) {
  (void)state;
  situ_scope s, inside;
  begin(&s);
  situ_scope_begin(&inside);
  (void)failed_call();
  SITU_IGNORE(situ_scope_end(&inside));
  assert_false(computes());
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
}

/* A thread of its own has no scope: its tensors are the program's. */
static void *outside_all_scopes(void *unused) {
  situ_tensor *of[4] = { situ_ones(SITU_SHAPE(2, 3), NULL), situ_ones(SITU_SHAPE(4, 3), NULL),
                         situ_ones(SITU_SHAPE(9), NULL) };
  assert_null(situ_reshape(of[2], SITU_SHAPE(2, 2)));
  of[3] = situ_linear(of[0], of[1], NULL);
  for (int i = 0; i < 4; i++) situ_release(of[i]);
  situ_error_clear();
  return of[3] ? (void *)of : unused;
}

static void no_scope(void **state) {
  (void)state;
  pthread_t thread;
  void *computed = NULL;
  assert_int_equal(pthread_create(&thread, NULL, outside_all_scopes, NULL), 0);
  assert_int_equal(pthread_join(thread, &computed), 0);
  assert_non_null(computed);
}

/* A module's forward has a scope of its own, where only its own errors count. */
static void a_module(void **state) {
  (void)state;
  situ_scope s;
  begin(&s);
  situ_nn_module *layer = situ_nn_linear(3, 4, &(situ_nn_linear_options){ .no_bias = true }),
                 *m = situ_nn_sequential(layer, situ_nn_relu());
  assert_non_null(m);
  (void)failed_call();
  assert_non_null(situ_nn_forward(m, x));
  situ_nn_free(m);
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(every_operand_of_every_call),
    TEST(an_error_of_this_scope),
    TEST(an_error_before_the_scope),
    TEST(an_error_of_a_scope_inside),
    TEST(no_scope),
    TEST(a_module),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
