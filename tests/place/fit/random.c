/* Maps of models that have too many parts to try all maps, beside random maps: few that fit copy much less. SITU_TABLE=1 prints
   both. */
/* test-devices: sim:0 */
/* test-slow: sim:0/sanitized */
#include "place/fit/subjects.h"

static situ_nn_module *long_chain(void) {
  situ_nn_module *m = SEQ(LIN(24, 90));
  for (int i = 0, from = 90, to; i < 19; i++, from = to) m = situ_nn_append(m, LIN(from, to = 10 + 37 * i % 90));
  return m;
}

static situ_nn_module *long_residual(void) {
  situ_nn_module *m = SEQ(LIN(60, 60));
  for (int i = 0; i < 6; i++) m = situ_nn_append(m, residual_of(false));
  return situ_nn_append(m, LIN(60, 5));
}

static situ_nn_module *encoders(void) {
  situ_nn_transformer_options o = situ_nn_transformer_defaults();
  o.dim_feedforward = 64;
  o.batch_first = true;
  situ_nn_module *m = SEQ(LIN(32, 32));
  for (int i = 0; i < 4; i++) m = situ_nn_append(m, situ_nn_transformer_encoder_layer(32, 4, &o));
  return m;
}

static const struct kind long_kinds[] = { { "chain of 20", long_chain, { 2, { 32, 24 } }, 0, SUM },
                                          { "6 residuals", long_residual, { 2, { 20, 60 } }, 0, SUM },
                                          { "4 encoder layers", encoders, { 3, { 2, 12, 32 } }, 0, SUM } };
enum { LONG_KINDS = sizeof long_kinds / sizeof *long_kinds, LIMITS = 12, TENSORS = 96, TEXT = TENSORS * 90 };

typedef struct paths {
  char path[TENSORS][64]; /* of modules with tensors */
  uint64_t bytes[TENSORS];
  int on[TENSORS], count; /* on: their devices in the map that was drawn last */
} paths;

/* Modules whose own tensors are on one device each. */
static situ_status add_path(const situ_nn_visit *at, void *payload) {
  paths *p = payload;
  char own[64];
  (void)snprintf(own, sizeof own, "%s", at->path);
  *strrchr(own, '.') = 0;
  int i = 0;
  while (i < p->count && strcmp(p->path[i], own) != 0) i++;
  assert_true(i < TENSORS);
  p->count += i == p->count;
  memcpy(p->path[i], own, sizeof own);
  p->bytes[i] += (uint64_t)situ_numel(at->tensor) * 4;
  return SITU_OK;
}

/* Half of the maps are of pieces that follow each other, as good maps are. Inner modules come first: the first pattern decides. */
static void draw_map(paths *p, char map[TEXT]) {
  const bool pieces = upto(1);
  int device = (int)upto(SIMS - 1), length = 0;
  for (int i = 0; i < p->count; i++) p->on[i] = device = pieces && upto(7) ? device : (int)upto(SIMS - 1);
  for (int i = p->count; i-- > 0;)
    length += snprintf(map + length, (size_t)(TEXT - length), "%s.*=sim:%d%s", p->path[i], p->on[i], i ? "," : "");
}

typedef struct trial {
  uint64_t bytes, peak[SIMS];
} trial;

static trial try_map(subject *s, const char *map) {
  situ_setting before;
  situ_place_report r;
  situ_scope scope;
  trial t = { .bytes = 0 };
  situ_place_check_options run = run_of(s);
  run.map = map;
  if (s->optim) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  begin_copying(&before);
  expect_ok(situ_place_check(s->module, s->in, &run, &r));
  situ_policy_end(&before);
  if (r.mistakes) situ_place_report_print(&r);
  assert_int_equal(r.mistakes, 0);
  for (int64_t i = 0; i < r.edge_count; i++) t.bytes += r.edges[i].bytes;
  for (int i = 0; i < SIMS; i++) t.peak[i] = peak_on(&r, i);
  situ_place_report_free(&r);
  expect_ok(situ_scope_end(&scope));
  return t;
}

/* A model with some limits, and what was found for each. */
typedef struct contest {
  uint64_t bytes[LIMITS][SIMS], ours[LIMITS], best[LIMITS];
} contest;

static void fit_all(subject *s, contest *c) {
  const trial alone = try_map(s, "*=sim:0");
  for (int k = 0; k < LIMITS; k++) {
    situ_place_layout l;
    for (int d = 0; d < SIMS; d++) c->bytes[k][d] = alone.peak[0] / 3 + upto(alone.peak[0] / 2);
    c->ours[k] = fit(s, c->bytes[k], SIMS, &l) == SITU_OK ? l.bytes : UINT64_MAX;
    c->best[k] = UINT64_MAX;
    situ_error_clear();
    situ_place_layout_free(&l);
  }
}

/* Whether the weights alone fit. Without, a run cannot. */
static bool may_fit(const paths *p, const contest *c) {
  uint64_t bytes[SIMS] = { 0 };
  bool fits = false;
  for (int i = 0; i < p->count; i++) bytes[p->on[i]] += p->bytes[i];
  for (int k = 0; k < LIMITS; k++) {
    bool each = true;
    for (int d = 0; d < SIMS; d++) each = each && bytes[d] <= c->bytes[k][d];
    fits = fits || each;
  }
  return fits;
}

static void draw_all(subject *s, contest *c, int maps) {
  static char map[TEXT];
  paths p = { .count = 0 };
  expect_ok(situ_nn_walk(s->module, SITU_NN_VISIT_TENSORS, add_path, &p));
  for (int i = 0; i < maps; i++) {
    draw_map(&p, map);
    if (!may_fit(&p, c)) continue;
    const trial t = try_map(s, map);
    for (int k = 0; k < LIMITS; k++) {
      bool fits = t.bytes < c->best[k];
      for (int d = 0; d < SIMS; d++) fits = fits && t.peak[d] <= c->bytes[k][d];
      if (fits) c->best[k] = t.bytes;
    }
  }
}

/* placement: I2 */
static void random_maps_seldom_copy_a_tenth_less(void **state) {
  (void)state;
  const bool all = getenv("SITU_TEST_ALL");
  int fitted = 0, met = 0, over = 0;
  seed = 3;
  for (const struct kind *k = long_kinds; k < long_kinds + LONG_KINDS; k++)
    for (const struct mode *mode = modes; mode < modes + (all ? MODES : 1); mode += 3) { /* inference, Adam */
      static contest c;
      situ_scope scope;
      situ_scope_begin(&scope);
      subject s = subject_of(k, mode);
      fit_all(&s, &c);
      draw_all(&s, &c, all ? 170000 : 3400);
      for (int i = 0; i < LIMITS; i++) {
        const double more = (double)c.ours[i] / (double)c.best[i];
        fitted += c.ours[i] != UINT64_MAX;
        met += c.best[i] != UINT64_MAX;
        over += more > 1.1;
        if (getenv("SITU_TABLE"))
          print_message("%-18s %-9s %8lld B, the best random map %8lld B\n", k->name, mode->name, (long long)c.ours[i],
                        (long long)c.best[i]);
      }
      free_subject(&s);
      expect_ok(situ_scope_end(&scope));
    }
  print_message("%d limits fitted, random maps met %d, and copy a tenth less for %d\n", fitted, met, over);
  assert_true(fitted > 20 && met > 10 && over <= fitted / 12);
}

int main(void) {
  const struct CMUnitTest tests[] = { FIT_TEST(random_maps_seldom_copy_a_tenth_less) };
  return cmocka_run_group_tests_name("place/fit/random", tests, NULL, NULL);
}
