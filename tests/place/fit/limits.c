/* Maps within limits of memory: models on three devices of random sizes, each run for real with budgets of what was
   predicted. SITU_TABLE=1 prints a line for each. */
/* test-devices: sim:0 */
#include "device/block_cache.h"
#include "place/fit/subjects.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static uint64_t most_on(int device) {
  const situ__block_cache *c = situ__block_cache_of(sim(device));
  return c->highest > c->before ? c->highest : c->before;
}

/* The run with the map, on devices that have what was predicted and not a byte more. */
static void expect_it_runs(subject *s, const situ_place_layout *l) {
  situ_setting before;
  situ_ledger ledger;
  for (int i = 0; i < SIMS; i++) {
    expect_ok(situ_empty_cache(sim(i)));
    expect_ok(situ_sim_budget(i, peak_on(&l->check, i)));
  }
  expect_ok(situ_nn_to_map(s->module, l->map));
  begin_copying(&before);
  situ_ledger_begin(&ledger);
  if (real_run(s->module, s->in, s->mode, &s->loss) != SITU_OK)
    fail_msg("%s, %s, %s: %s", s->kind->name, s->mode->name, l->map, situ_error_message());
  const uint64_t copied = situ_ledger_total(&ledger).bytes;
  expect_ok(situ_ledger_end(&ledger));
  situ_policy_end(&before);
  /* A loss of the program's may copy its target. */
  if (!s->loss.target && copied != l->bytes * (s->mode->make ? 3 : 1))
    fail_msg("%s, %s, %s: %llu B were copied, not %llu", s->kind->name, s->mode->name, l->map,
             (unsigned long long)copied, (unsigned long long)l->bytes);
  for (int i = 0; i < SIMS; i++) {
    const uint64_t most = most_on(i), said = peak_on(&l->check, i);
    if ((double)said > 1.05 * (double)most)
      fail_msg("%s: %llu of %llu", s->kind->name, (unsigned long long)most, (unsigned long long)said);
    expect_ok(situ_sim_reset(i));
  }
  expect_ok(situ_nn_to(s->module, situ_dev("cpu")));
}

/* ---- every map, one by one: parts to devices, each made and checked as a program would ---- */

enum { TENSORS = 64, PARTS = 12, MAPS = 729 };

typedef struct parts {
  char path[TENSORS][80];
  const void *owner[TENSORS];
  const situ_storage *storage[TENSORS];
  int part[TENSORS], tensors, parts;
} parts;

static situ_status add_tensor(const situ_nn_visit *at, void *payload) {
  parts *p = payload;
  const int n = p->tensors++;
  assert_true(n < TENSORS);
  (void)snprintf(p->path[n], sizeof p->path[n], "%s", at->path);
  p->owner[n] = at->module;
  p->storage[n] = situ_desc(at->tensor)->storage;
  p->part[n] = n;
  for (int again = 0; again < 2; again++)
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n && (p->owner[i] == p->owner[n] || p->storage[i] == p->storage[n]); k++)
        if (p->part[k] == p->part[i] || p->part[k] == p->part[n]) p->part[k] = p->part[n] = p->part[i];
  return SITU_OK;
}

static parts parts_of(situ_nn_module *m) {
  parts p = { .tensors = 0 };
  int number[TENSORS];
  expect_ok(situ_nn_walk(m, SITU_NN_VISIT_TENSORS, add_tensor, &p));
  for (int i = 0; i < p.tensors; i++) number[i] = p.part[i] == i ? p.parts++ : -1;
  for (int i = 0; i < p.tensors; i++) {
    int root = p.part[i];
    while (p.part[root] != root && number[root] < 0) root = p.part[root];
    p.part[i] = number[root];
  }
  return p;
}

/* A map, what it copies and what it needs. */
typedef struct outcome {
  uint64_t bytes, peak[SIMS];
} outcome;

static outcome try_map(subject *s, const parts *p, const int device[PARTS]) {
  char map[TENSORS * 90] = "";
  situ_setting before;
  situ_place_report r;
  situ_scope scope;
  outcome o = { .bytes = 0 };
  const situ_place_check_options run = run_of(s);
  for (int i = 0; i < p->tensors; i++) {
    const size_t length = strlen(map);
    (void)snprintf(map + length, sizeof map - length, "%s%s=sim:%d", i ? "," : "", p->path[i], device[p->part[i]]);
  }
  expect_ok(situ_nn_to_map(s->module, map));
  if (s->optim) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  begin_copying(&before);
  expect_ok(situ_place_check(s->module, s->in, &run, &r));
  situ_policy_end(&before);
  assert_int_equal(r.mistakes, 0);
  for (int64_t i = 0; i < r.edge_count; i++) o.bytes += r.edges[i].bytes;
  for (int i = 0; i < SIMS; i++) o.peak[i] = peak_on(&r, i);
  situ_place_report_free(&r);
  expect_ok(situ_scope_end(&scope));
  expect_ok(situ_nn_to(s->module, situ_dev("cpu")));
  return o;
}

/* Returns how many maps there are; 0: too many, of which a short run tries fewer. */
static int try_all_maps(subject *s, outcome all[MAPS]) {
  const parts p = parts_of(s->module);
  int count = 1;
  for (int i = 0; i < p.parts; i++)
    if ((count *= SIMS) > (getenv("SITU_TEST_ALL") ? MAPS : 81)) return 0;
  for (int k = 0; k < count; k++) {
    int device[PARTS], rest = k;
    for (int i = 0; i < p.parts; i++, rest /= SIMS) device[i] = rest % SIMS;
    all[k] = try_map(s, &p, device);
  }
  return count;
}

/* A chain in three pieces, each on a device of its own or with its neighbour. Returns how many maps there are. */
static int try_all_cuts(subject *s, outcome all[MAPS]) {
  static const int order[][SIMS] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
  const parts p = parts_of(s->module);
  int count = 0;
  for (int i = 0; i <= p.parts; i++)
    for (int k = i; k <= p.parts; k++)
      for (size_t d = 0; d < sizeof order / sizeof *order; d++) {
        int device[PARTS];
        for (int u = 0; u < p.parts; u++) device[u] = order[d][(u >= i) + (u >= k)];
        assert_true(count < MAPS);
        all[count++] = try_map(s, &p, device);
      }
  return count;
}

static bool keeps(const outcome *o, const uint64_t bytes[SIMS]) {
  bool good = true;
  for (int i = 0; i < SIMS; i++) good = good && o->peak[i] <= bytes[i];
  return good;
}

static uint64_t fewest_bytes(const outcome *all, int count, const uint64_t bytes[SIMS]) {
  uint64_t least = UINT64_MAX;
  for (int k = 0; k < count; k++)
    if (keeps(&all[k], bytes) && all[k].bytes < least) least = all[k].bytes;
  return least;
}

/* ---- 30 models, 20 limits each ---- */

typedef struct tally {
  int fitted, spread, refused, compared, missed;
} tally;

static void try_limits(subject *s, const outcome *all, int maps, uint64_t alone, tally *sum) {
  uint64_t bytes[SIMS];
  situ_place_layout l;
  for (int i = 0; i < SIMS; i++) bytes[i] = alone / 3 + upto(alone * 2 / 3);
  const situ_status status = fit(s, bytes, SIMS, &l);
  const uint64_t least = fewest_bytes(all, maps, bytes);
  if (getenv("SITU_TABLE")) {
    print_message("%-28s %-9s", s->kind->name, s->mode->name);
    for (int i = 0; i < SIMS; i++)
      print_message(" %8llu/%8llu", (unsigned long long)peak_on(&l.check, i), (unsigned long long)bytes[i]);
    print_message(" %8llu B, %3lld runs %s\n", (unsigned long long)l.bytes, (long long)l.runs, l.map ? l.map : "-");
  }
  if (maps && least != (l.map ? l.bytes : UINT64_MAX)) {
    print_message("%s, %s: %s copies %llu B, the best map %llu\n", s->kind->name, s->mode->name, l.map ? l.map : "none",
                  (unsigned long long)l.bytes, (unsigned long long)least);
    sum->missed++;
  }
  sum->compared += maps > 0;
  if (status != SITU_OK) {
    assert_int_equal(status, SITU_E_NOMEM);
    assert_non_null(strstr(situ_error_message(), "lack"));
    assert_non_null(strstr(situ_error_message(), "largest: "));
    situ_error_clear();
    sum->refused++;
    return;
  }
  for (int i = 0; i < SIMS; i++) assert_true(peak_on(&l.check, i) <= bytes[i]);
  assert_true(l.best);
  sum->fitted++;
  sum->spread += l.bytes > 0;
  expect_it_runs(s, &l);
  situ_place_layout_free(&l);
}

/* placement: I2 */
static void no_run_exceeds_a_limit_and_no_map_copies_less(void **state) {
  (void)state;
  const int limits = getenv("SITU_TEST_ALL") ? 200 : 5;
  static outcome all[MAPS];
  tally sum = { 0 };
  seed = 1;
  for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    subject s = subject_of(k, &modes[(k - kinds) % MODES]);
    situ_place_layout l;
    const uint64_t most[SIMS] = { 0 };
    expect_ok(fit(&s, most, SIMS, &l));
    assert_string_equal(l.map, "*=sim:0");
    assert_int_equal(l.bytes, 0);
    const uint64_t alone = peak_on(&l.check, 0);
    expect_it_runs(&s, &l);
    situ_place_layout_free(&l);
    const int maps = try_all_maps(&s, all);
    for (int i = 0; i < limits; i++) try_limits(&s, all, maps, alone, &sum);
    free_subject(&s);
    expect_ok(situ_scope_end(&scope));
  }
  print_message("%d of %d limits fitted, %d on several devices, %d were compared with all maps, %d missed the best\n",
                sum.fitted, KINDS * limits, sum.spread, sum.compared, sum.missed);
  assert_int_equal(sum.missed, 0);
  assert_true(sum.spread > KINDS * limits / 4 && sum.compared > KINDS * limits / 2);
}

/* A chain of layers of any width is cut where the activations are narrow. */
static situ_nn_module *chain(void) {
  situ_nn_module *m = SEQ(LIN(24, 90));
  for (int i = 0, from = 90, to; i < PARTS - 1; i++, from = to) m = situ_nn_append(m, LIN(from, to = 10 + 37 * i % 90));
  return m;
}

static void a_chain_is_cut_as_a_programme_over_all_cuts_does(void **state) {
  (void)state;
  static outcome all[MAPS];
  static const struct kind k = { "chain", chain, { 2, { 32, 24 } }, 0, SUM };
  int fitted = 0;
  seed = 2;
  const struct mode *first = getenv("SITU_TEST_ALL") ? modes : modes + 3;
  for (const struct mode *mode = first; mode < modes + MODES; mode += 3) { /* inference, Adam */
    situ_scope scope;
    situ_scope_begin(&scope);
    subject s = subject_of(&k, mode);
    const int cuts = try_all_cuts(&s, all);
    for (int i = 0; i < (getenv("SITU_TEST_ALL") ? 30 : 15); i++) {
      uint64_t bytes[SIMS];
      situ_place_layout l;
      for (int d = 0; d < SIMS; d++) bytes[d] = all[0].peak[2] / 4 + upto(all[0].peak[2] / 2);
      const situ_status status = fit(&s, bytes, SIMS, &l);
      const uint64_t least = fewest_bytes(all, cuts, bytes);
      if (least < (status == SITU_OK ? l.bytes : UINT64_MAX))
        fail_msg("%s: %llu B, cuts %llu B", l.map, (unsigned long long)l.bytes, (unsigned long long)least);
      fitted += status == SITU_OK;
      if (status == SITU_OK) expect_it_runs(&s, &l);
      situ_error_clear();
      situ_place_layout_free(&l);
    }
    free_subject(&s);
    expect_ok(situ_scope_end(&scope));
  }
  print_message("%d chains fitted\n", fitted);
  assert_true(fitted > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = { FIT_TEST(no_run_exceeds_a_limit_and_no_map_copies_less),
                                      FIT_TEST(a_chain_is_cut_as_a_programme_over_all_cuts_does) };
  return cmocka_run_group_tests_name("place/fit/limits", tests, NULL, NULL);
}
