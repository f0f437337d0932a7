/* Forward mode of every op of the table: for random directions t of the operands and w of the result, <J t, w> by forward
   mode is <t, J' w> by the op's own backward; and the derivative of J t is that of the recorded gradient. */
/* test-devices: cpu sim:0 */
#include <math.h>

#include "situ/func.h"
#include "support/domains.h"

/* What an op writes to its operands must not stay. */
static situ_tensor *apply(situ_tensor *const *in, int count, void *payload) {
  const parity_row *row = payload;
  situ_tensor *copy[PARITY_OPERANDS] = { NULL }, *also = NULL;
  situ_manual_seed(3);
  for (int i = 0; i < count; i++) copy[i] = situ_dtype_is_floating(situ_dtype_of(in[i])) ? situ_clone(in[i]) : in[i];
  return row->call(copy, &also);
}

static double dot(situ_tensor *a, situ_tensor *b) {
  double sum = NAN;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  SITU_IGNORE(situ_item(situ_sum(situ_mul(a, b), NULL), &sum));
  SITU_IGNORE(situ_scope_end(&s));
  return sum;
}

/* Where a result is not finite, its weight is 0. */
static situ_tensor *weight_of(situ_tensor *y, situ_tensor *ty) {
  situ_tensor *w = situ_to(test_random(situ_shape_of(y), 0.5, 1.5, false), situ_device_of(y));
  w = situ_masked_fill(w, situ_logical_not(situ_logical_and(situ_isfinite(y), situ_isfinite(ty))), 0);
  return situ_to_dtype(w, situ_dtype_of(y));
}

/* The central difference of <y, w> along t. */
static double difference(const parity_row *row, situ_tensor *const *in, situ_tensor *const *t, int count,
                         situ_tensor *w) {
  const double h = 1e-6;
  double value[2];
  for (int side = 0; side < 2; side++) {
    situ_tensor *at[PARITY_OPERANDS];
    for (int i = 0; i < count; i++) at[i] = t[i] ? situ_add(in[i], situ_mul_scalar(t[i], side ? -h : h)) : in[i];
    value[side] = dot(situ_nan_to_num(apply(at, count, (void *)row), NULL), w);
  }
  return (value[0] - value[1]) / (2 * h);
}

enum { ALL = -1 };
/* only: the operand that has a tangent, or ALL. Returns 1 if compared, 0 if there is nothing to compare, -1 after
   printing what is wrong. */
static int check(const parity_row *row, const struct domain *d, int only) {
  situ_tensor *in[PARITY_OPERANDS], *t[PARITY_OPERANDS] = { NULL }, *grad[PARITY_OPERANDS], *ty;
  int count = 0;
  for (; row->operands[count]; count++) {
    in[count] = domain_operand(row->operands[count], d, false);
    if ((only == ALL || only == count) && situ_dtype_is_floating(situ_dtype_of(in[count])) &&
        !parity_is_constant(row->operands[count]))
      t[count] = test_random(situ_shape_of(in[count]), 0.5, 1.5, false);
  }
  situ_tensor *y = situ_func_jvp(apply, (void *)row, count, in, t, &ty);
  if (!y) {
    print_error("%s, operands %s: %s\n", row->op, row->operands, situ_error_message());
    return -1;
  }
  if (!situ_dtype_is_floating(situ_dtype_of(y))) return 0;
  situ_tensor *w = weight_of(y, ty), *again;
  again = situ_func_vjp(apply, (void *)row, count, in, w, false, grad);
  if (!again) {
    if (situ_error() == SITU_OK) return 0;
    print_error("%s, operands %s: %s\n", row->op, row->operands, situ_error_message());
    return -1;
  }
  const double forward = dot(situ_nan_to_num(ty, NULL), w);
  double backward = 0, size = fabs(forward);
  for (int i = 0; i < count; i++) {
    if (!t[i] || !grad[i]) continue;
    backward += dot(grad[i], t[i]);
    size += dot(situ_abs(grad[i]), t[i]);
  }
  if (!isfinite(backward)) return 0; /* an operand outside of the function's domain */
  const double u = situ_dtype_of(y) == SITU_F64 ? 1e-11 : situ_dtype_of(y) == SITU_F32 ? 1e-5 : 0.02;
  /* What torch defines otherwise: scale_grad_by_freq divides, and of several writes to one place each gets the gradient. */
  const bool defined = !strcmp(row->op, "index_copy") || !strcmp(row->op, "scatter") ||
                       (!strcmp(row->op, "embedding") && row->forward == MATH);
  const double apart = situ_dtype_of(y) == SITU_F64 && !defined ? difference(row, in, t, count, w) : forward;
  if (fabs(forward - apart) > 1e-4 * (1 + size)) {
    print_error("%s, operands %s: <J t, w> is %.12g by forward mode, %.12g by differences\n", row->op, row->operands,
                forward, apart);
    return -1;
  }
  if (fabs(forward - backward) <= u * (1 + size)) return 1;
  print_error("%s, operands %s: <J t, w> is %.12g by forward mode, %.12g by backward\n", row->op, row->operands,
              forward, backward);
  return -1;
}

static void every_op(void **state) {
  (void)state;
  int agree = 0, bad = 0, constant = 0;
  for (size_t r = 0; r < parity_row_count; r++) {
    const parity_row *row = &parity_rows[r];
    int compared = 0;
    if (row->backward == NO_GRAD || domain_is_missing(row)) continue;
    for (size_t d = 0; d < DOMAINS; d++) {
      situ_scope s;
      situ_scope_begin(&s);
      for (int only = ALL; only < (int)strlen(row->operands); only++) {
        const int result = check(row, &domains[d], only);
        situ_error_clear();
        bad += result < 0;
        compared += result > 0;
      }
      SITU_IGNORE(situ_scope_end(&s));
      situ_error_clear();
    }
    agree += compared > 0;
    if (!compared) print_message("nothing to compare: %s\n", row->op);
    constant += !compared;
  }
  print_message("forward mode: %d calls agree with backward, %d without a comparison\n", agree, constant);
  assert_int_equal(bad, 0);
}

/* ---- calls without a gradient: none may drop one silently ---- */

/* The largest difference of the result along operand i; 0 for results that are not floating. */
static double change_along(const parity_row *row, situ_tensor *const *in, int count, int i) {
  situ_tensor *at[PARITY_OPERANDS], *y[2];
  double most = NAN;
  situ_tensor *t =
      situ_mul_scalar(situ_to(test_random(situ_shape_of(in[i]), 0.5, 1.5, false), situ_device_of(in[i])), 1e-6);
  for (int side = 0; side < 2; side++) {
    for (int k = 0; k < count; k++) at[k] = k != i ? in[k] : side ? situ_sub(in[k], t) : situ_add(in[k], t);
    y[side] = apply(at, count, (void *)row);
  }
  if (!y[0] || !y[1] || !situ_dtype_is_floating(situ_dtype_of(y[0]))) return 0;
  situ_tensor *apart = situ_abs(situ_nan_to_num(situ_sub(y[0], y[1]), NULL));
  SITU_IGNORE(situ_item(situ_amax(apart, NULL), &most));
  return most;
}

/* Whether the last call was refused by the name of an op that has no gradient. */
static bool was_refused(const char *with) {
  return situ_error() == SITU_E_UNSUPPORTED && strstr(situ_error_message(), with);
}

enum outcome { CONSTANT, REFUSED, DIFFERENTIABLE, WRONG, OUTCOMES };

/* Operand i has a tangent, and then requires a gradient: both are refused, or the result is constant around the
   operands, or it has the right derivatives after all. Prints what is wrong. */
static enum outcome check_operand(const parity_row *row, const struct domain *d, int i) {
  situ_tensor *in[PARITY_OPERANDS], *t[PARITY_OPERANDS] = { NULL }, *ty, *y;
  int count = 0;
  for (; row->operands[count]; count++) in[count] = domain_operand(row->operands[count], d, false);
  if (!situ_dtype_is_floating(situ_dtype_of(in[i]))) return CONSTANT;
  const double change = change_along(row, in, count, i);
  t[i] = test_random(situ_shape_of(in[i]), 0.5, 1.5, false);
  y = situ_func_jvp(apply, (void *)row, count, in, t, &ty);
  const bool tangent = y || !was_refused("has a tangent");
  situ_error_clear();
  in[i] = situ_requires_grad_(situ_clone(in[i]), true);
  y = apply(in, count, (void *)row);
  const bool gradient = y || !was_refused("requires a gradient");
  situ_error_clear();
  if (!tangent && !gradient) return REFUSED;
  if (tangent && gradient && change == 0) return CONSTANT;
  if (tangent && gradient && situ_requires_grad(y) && check(row, d, ALL) > 0) return DIFFERENTIABLE;
  print_error("%s, operand %d of %s: the result changes by %g, tangents are %s, gradients %s\n", row->op, i,
              row->operands, change, tangent ? "taken" : "refused", gradient ? "taken" : "refused");
  return WRONG;
}

static void what_has_no_gradient_is_constant_or_refuses(void **state) {
  (void)state;
  int count[OUTCOMES] = { 0 };
  for (size_t r = 0; r < parity_row_count; r++) {
    const parity_row *row = &parity_rows[r];
    if (row->backward != NO_GRAD || domain_is_missing(row)) continue;
    for (int k = 0; k < DOMAINS * (int)strlen(row->operands); k++) {
      situ_scope s;
      situ_scope_begin(&s);
      count[check_operand(row, &domains[k % DOMAINS], k / DOMAINS)]++;
      situ_error_clear();
      SITU_IGNORE(situ_scope_end(&s));
      situ_error_clear();
    }
  }
  print_message("calls without a gradient: %d operands are constants, %d refused, %d have derivatives\n",
                count[CONSTANT], count[REFUSED], count[DIFFERENTIABLE]);
  assert_int_equal(count[WRONG], 0);
  assert_true(count[REFUSED] > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op), TEST(what_has_no_gradient_is_constant_or_refuses) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
