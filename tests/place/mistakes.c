/* The lint and the preflight find every planted mistake, and find nothing where there is none.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
#include <stdlib.h>

#include "support/mistakes/mistakes.h"

static void clean_up(planted *p) {
  for (int64_t i = 0; i < p->optim_count; i++) situ_optim_free(p->optims[i]);
  situ_nn_free(p->model);
  for (int i = 0; i < 4; i++) {
    situ_nn_free(p->others[i]);
    situ_release(p->kept[i]);
  }
  situ_tree_free(p->inputs);
  free(p->block);
}

/* ---- the lint ---- */

typedef struct heard {
  const mistake *wanted;
  int count, others; /* findings of the wanted kind, with all the words; findings of other kinds */
} heard;

static bool says(const situ_lint_finding *f, const char *word) {
  return strstr(f->path, word) || strstr(f->type, word) || strstr(f->text, word) || strstr(f->fix, word);
}

static void hear(const situ_lint_finding *f, void *payload) {
  heard *h = payload;
  /* An optimiser that trains another model does not train this one: both are rightly found. */
  bool elsewhere = h->wanted->kind == SITU_LINT_ORPHAN || h->wanted->kind == SITU_LINT_FOREIGN;
  if (elsewhere && f->kind == SITU_LINT_UNTRAINED) return;
  if ((int)f->kind != h->wanted->kind) {
    print_error("%s: also found: %s: %s: %s\n", h->wanted->name, situ_lint_kind_name(f->kind), f->path, f->text);
    h->others++;
    return;
  }
  const char *word;
  for (int i = 0; (word = mistake_word(h->wanted, i)); i++)
    if (!says(f, word)) {
      print_error("%s: no \"%s\" in: %s: %s | %s\n", h->wanted->name, word, f->path, f->text, f->fix);
      return;
    }
  h->count++;
}

/* placement: B8, B9 */
static void the_lint_finds_each(void **state) {
  (void)state;
  int missed = 0;
  for (int i = 0; i < lint_mistake_count; i++) {
    const mistake *m = &lint_mistakes[i];
    planted p = { 0 };
    m->plant(&p);
    heard h = { .wanted = m };
    situ_lint_options options = {
      .optims = p.optims, .optim_count = p.optim_count, .strict = true, .report = hear, .payload = &h
    };
    situ_status status = situ_place_lint(p.model, &options);
    int wanted = m->count ? m->count : 1;
    if (h.count != wanted) print_error("%s (%s): %d of %d found\n", m->name, m->torch, h.count, wanted);
    missed += h.count != wanted || h.others || status != SITU_E_STATE;
    if (status != SITU_OK) expect_error(SITU_E_STATE, "place_lint", m->words[0]);
    clean_up(&p);
  }
  print_message("%d mistakes planted for the lint, %d missed\n", lint_mistake_count, missed);
  assert_int_equal(missed, 0);
}

/* ---- the preflight ---- */

static bool tells(const mistake *m, const situ_place_finding *f) {
  if ((int)f->problem != m->kind) return false;
  const char *word;
  for (int i = 0; (word = mistake_word(m, i)); i++) {
    if (!strstr(f->op, word) && !strstr(f->module, word) && !strstr(f->tensor, word) && !strstr(f->text, word) &&
        !strstr(f->fix, word))
      return false;
  }
  return true;
}

static bool copies(const mistake *m, const situ_place_edge *e) {
  return m->kind == A_COPY && e->bytes > 0 && strstr(e->from ? e->from : "", m->words[0]) &&
         !situ_device_equal(e->from_device, e->to_device);
}

static bool checked(const mistake *m, const planted *p) {
  situ_place_report report;
  situ_place_check_options options = { .backward = m->kind == SITU_PLACE_GRADIENT ? SITU_PLACE_BACKWARD_ALWAYS
                                                                                  : SITU_PLACE_BACKWARD_NEVER };
  expect_ok(situ_place_check(p->model, p->inputs, &options, &report));
  bool fails = m->kind != A_COPY && m->kind != SITU_PLACE_GRADIENT; /* the others are notes */
  int64_t wanted = m->count ? m->count : fails;
  bool found = false;
  for (int64_t i = 0; i < report.finding_count; i++) found |= tells(m, &report.findings[i]);
  for (int64_t i = 0; i < report.edge_count; i++) found |= copies(m, &report.edges[i]);
  bool good = found && (m->count == MANY || report.mistakes == wanted);
  if (!good) {
    print_error("%s (%s): %s, and %lld mistakes of %lld\n", m->name, m->torch, found ? "found" : "not found",
                (long long)report.mistakes, (long long)wanted);
    situ_place_report_print(&report);
  }
  situ_place_report_free(&report);
  return good;
}

/* placement: D9, D10 */
static void the_preflight_finds_each(void **state) {
  (void)state;
  const bool sim = there().kind == SITU_SIM;
  int missed = 0, planted_here = 0;
  for (int i = 0; i < check_mistake_count; i++) {
    const mistake *m = &check_mistakes[i];
    planted p = { 0 };
    if (m->kind == SITU_PLACE_UNSUPPORTED && !sim) continue; /* only it can be made to lack a dtype */
    planted_here++;
    m->plant(&p);
    missed += !checked(m, &p);
    clean_up(&p);
    if (sim) expect_ok(situ_sim_reset((int)there().index));
  }
  print_message("%d mistakes planted for the preflight, %d missed\n", planted_here, missed);
  assert_int_equal(missed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(the_lint_finds_each),
    PAIR_TEST(the_preflight_finds_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
