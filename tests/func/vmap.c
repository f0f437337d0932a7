/* situ_func_vmap of every call of the table: values, gradients and tangents are those of one call for each sample, with
   every choice of the operands that differ between samples. */
#include <math.h>

#include "situ/func.h"
#include "situ/sys/shape.h"
#include "support/domains.h"

enum { SAMPLES = 3 };

/* What an op writes to its operands must not stay. */
static situ_tensor *apply(situ_tensor *const *in, int count, void *payload) {
  const parity_row *row = payload;
  situ_tensor *copy[PARITY_OPERANDS] = { NULL }, *also = NULL;
  situ_manual_seed(3);
  for (int i = 0; i < count; i++) copy[i] = situ_dtype_is_floating(situ_dtype_of(in[i])) ? situ_clone(in[i]) : in[i];
  return row->call(copy, &also);
}

typedef enum mode { VALUE, GRADIENT, TANGENT, AROUND, MODES } mode; /* AROUND: the tangent of the map */
static const char *const mode_name[MODES] = { "value", "gradient", "tangent", "tangent of the map" };

typedef struct job {
  const parity_row *row;
  mode mode;
} job;

/* Floating operands that are not constants have a direction. */
static void choose_directions(const parity_row *row, situ_tensor *const *in, int count, situ_tensor **t) {
  for (int i = 0; i < count; i++)
    t[i] = situ_dtype_is_floating(situ_dtype_of(in[i])) && !parity_is_constant(row->operands[i]) ? in[count + i] : NULL;
}

/* in[0..count) are the operands, then their directions. */
static situ_status run(situ_tensor *const *in, int all, situ_tensor **out, int outs, void *payload) {
  const job *j = payload;
  const int count = j->mode >= TANGENT ? all / 2 : all;
  situ_tensor *t[PARITY_OPERANDS] = { NULL }, *y;
  for (int k = 0; k < outs; k++) out[k] = NULL;
  if (j->mode == VALUE) return (out[0] = apply(in, count, (void *)j->row)) ? SITU_OK : situ_error();
  if (j->mode >= TANGENT) {
    choose_directions(j->row, in, count, t);
    return (y = situ_func_jvp(apply, (void *)j->row, count, in, t, &out[0])) ? SITU_OK : situ_error();
  }
  if (!(y = apply(in, count, (void *)j->row))) return situ_error();
  situ_tensor *w = situ_ones_like(y, NULL), *grads[PARITY_OPERANDS];
  if (!(y = situ_func_vjp(apply, (void *)j->row, count, in, w, false, grads))) return situ_error();
  for (int i = 0; i < count; i++)
    out[i] = grads[i] && !parity_is_constant(j->row->operands[i]) ? grads[i] : situ_zeros_like(in[i], NULL);
  return SITU_OK;
}

/* The map as a function of whole operands, whose tangent is taken. */
typedef struct map {
  const parity_row *row;
  const int *dims;
} map;
static situ_tensor *run_map(situ_tensor *const *in, int count, void *payload) {
  const map *m = payload;
  return situ_func_vmap(apply, (void *)m->row, count, in, m->dims, 0);
}
static situ_status run_around(situ_tensor *const *in, int all, const int *dims, situ_tensor **out, job *j) {
  map m = { j->row, dims };
  situ_tensor *t[PARITY_OPERANDS];
  choose_directions(j->row, in, all / 2, t);
  if (!situ_func_jvp(run_map, &m, all / 2, in, t, out)) return situ_error();
  return SITU_OK;
}

/* Sample k of the operands that differ. */
static situ_tensor *sample(situ_tensor *t, bool differs, int k) { return differs ? situ_select(t, 0, k) : t; }

static bool is_same(situ_tensor *a, situ_tensor *b, double *difference) {
  if (situ_dtype_of(a) != situ_dtype_of(b)) return false;
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  if (!situ_shape_equal(&x, &y)) return false;
  if (!situ_numel(a)) return true;
  a = situ_nan_to_num(situ_to_dtype(a, SITU_F64), NULL);
  b = situ_nan_to_num(situ_to_dtype(b, SITU_F64), NULL);
  *difference = NAN;
  SITU_IGNORE(
      situ_item(situ_amax(situ_div(situ_abs(situ_sub(a, b)), situ_add_scalar(situ_abs(b), 1)), NULL), difference));
  return *difference <= 1e-10;
}

/* Returns 1 if compared, 0 if the call is refused for single samples, too, -1 after printing what is wrong. */
static int check(const parity_row *row, const struct domain *d, mode m, unsigned mask) {
  situ_tensor *in[2 * PARITY_OPERANDS], *out[PARITY_OPERANDS], *want[PARITY_OPERANDS][SAMPLES];
  int dims[2 * PARITY_OPERANDS], count = 0;
  job j = { row, m };
  while (row->operands[count]) count++;
  const int all = m >= TANGENT ? 2 * count : count, outs = m == GRADIENT ? count : 1;
  for (int i = 0; i < all; i++) {
    situ_tensor *each[SAMPLES];
    const bool differs = mask >> i % count & 1;
    for (int k = 0; k < SAMPLES; k++) each[k] = domain_operand(row->operands[i % count], d, false);
    if (i >= count)
      for (int k = 0; k < SAMPLES; k++) each[k] = test_random(situ_shape_of(each[k]), 0.5, 1.5, false);
    in[i] = differs ? situ_stack(each, SAMPLES, 0) : each[0];
    dims[i] = differs ? 0 : SITU_FUNC_WHOLE;
  }
  for (int k = 0; k < SAMPLES; k++) {
    situ_tensor *one[2 * PARITY_OPERANDS], *got[PARITY_OPERANDS];
    for (int i = 0; i < all; i++) one[i] = sample(in[i], dims[i] == 0, k);
    if (run(one, all, got, outs, &j) != SITU_OK) return 0;
    for (int i = 0; i < outs; i++) want[i][k] = got[i];
  }
  if ((m == AROUND ? run_around(in, all, dims, out, &j) : situ_func_vmap_many(run, &j, all, in, dims, 0, outs, out)) !=
      SITU_OK) {
    if (!strcmp(row->op, "batch_norm") && strstr(situ_error_message(), "running statistics to one buffer")) return 0;
    print_error("%s, operands %s, %s, samples in %x: %s\n", row->op, row->operands, mode_name[m], mask,
                situ_error_message());
    return -1;
  }
  for (int i = 0; i < outs; i++)
    for (int k = 0; k < SAMPLES; k++) {
      double difference = 0;
      if (is_same(situ_select(out[i], 0, k), want[i][k], &difference)) continue;
      print_error("%s, operands %s, %s, samples in %x: result %d of sample %d differs by %g\n", row->op, row->operands,
                  mode_name[m], mask, i, k, difference);
      return -1;
    }
  return 1;
}

/* Its samples draw numbers of their own. */
static bool is_random(const parity_row *row) {
  static const char *const list[] = { "dropout", "bernoulli", "bernoulli_", "uniform_", "normal_" };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!strcmp(row->op, list[i])) return true;
  return false;
}

static void every_call(mode m) {
  int agree = 0, bad = 0, refused = 0;
  for (size_t r = 0; r < parity_row_count; r++) {
    const parity_row *row = &parity_rows[r];
    int compared = 0, failed = 0;
    const unsigned all = (1u << strlen(row->operands)) - 1;
    if ((m != VALUE && row->backward == NO_GRAD) || domain_is_missing(row) || is_random(row)) continue;
    for (unsigned mask = 1; mask <= all; mask++) {
      situ_scope s;
      situ_scope_begin(&s);
      const int result = failed ? 0 : check(row, &domains[1], m, mask);
      failed += result < 0;
      compared += result > 0;
      situ_error_clear();
      SITU_IGNORE(situ_scope_end(&s));
      situ_error_clear();
    }
    bad += failed;
    agree += compared > 0;
    if (!compared && !failed) print_message("refused for single samples: %s\n", row->op);
    refused += !compared && !failed;
  }
  print_message("%s: %d calls agree with one call a sample, %d are refused\n", mode_name[m], agree, refused);
  assert_int_equal(bad, 0);
}
static void values(void **state) { (void)state, every_call(VALUE); }
static void gradients(void **state) { (void)state, every_call(GRADIENT); }
static void tangents(void **state) { (void)state, every_call(TANGENT); }

static void tangents_of_maps(void **state) { (void)state, every_call(AROUND); }

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values), TEST(gradients), TEST(tangents), TEST(tangents_of_maps) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
