/* Parts of ranks, as each rank shows them: prints, pictures, JSON, locks, plans, explanations and the lint of ZeRO-3 and
   tensor parallel layers have the whole shape, this rank's part, and its bytes.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <stdlib.h>

#include "distributed/models.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"
#include "situ/parallel.h"
#include "situ/situ.h"
#include "support/optim.h"

enum { WORDS = 1 << 15, ALL = 96 + 16 + 48 + 3 }; /* ALL: elements */

typedef struct show {
  int stage; /* of ZeRO; 0: tensor parallel layers */
  char text[WORLD_MOST][WORDS], lock[WORLD_MOST][32];
  uint64_t own[WORLD_MOST], all[WORLD_MOST], planned[WORLD_MOST];
  situ_nn_module *model[WORLD_MOST];
  situ_dist_ddp *ddp[WORLD_MOST];
  situ_dist_zero *zero[WORLD_MOST];
  situ_dist_tp *divided[WORLD_MOST];
} show;

static bool divide(show *s, world_rank *self) {
  static const situ_dist_parallel layers[] = { { "0", SITU_DIST_COLWISE, false }, { "2", SITU_DIST_ROWWISE, false } };
  const int r = self->rank;
  s->model[r] = at_home(dist_mlp());
  if (!s->stage) return (s->divided[r] = situ_dist_tp_new(s->model[r], self->comm, layers, 2)) != NULL;
  s->ddp[r] = situ_dist_ddp_new(s->model[r], self->comm, NULL);
  situ_tree *all = situ_nn_parameters(s->model[r]);
  s->zero[r] = s->stage == 1   ? situ_dist_zero_new(all, self->comm, situ_optim_sgd, 0.1, NULL)
               : s->stage == 2 ? situ_dist_zero2_new(all, s->ddp[r], situ_optim_sgd, 0.1, NULL)
                               : situ_dist_zero3_new(all, s->ddp[r], NULL, situ_optim_sgd, 0.1, NULL);
  return s->zero[r] != NULL;
}

/* As the optimiser names it. */
static bool name_part(situ_dist_zero *zero, char *part, size_t size) {
  const situ_optim *o = situ_dist_zero_optim(zero);
  const char *name = "";
  for (int64_t i = 0; i < situ_optim_count(o) && strncmp(name, "0.weight", 8) != 0; i++)
    (void)situ_optim_param(o, i, &name);
  return snprintf(part, size, "%s", strchr(name, '[') ? strchr(name, '[') : "-") > 1;
}

static void leave(show *s, int r) {
  situ_dist_zero_free(s->zero[r]);
  situ_dist_ddp_free(s->ddp[r]);
  situ_dist_tp_free(s->divided[r]);
  situ_nn_free(s->model[r]);
  (void)remove(s->lock[r]);
}

static bool has(const char *text, const char *words) {
  if (!strstr(text, words)) (void)situ_comm_refuse(SITU_E_STATE, words, text);
  return situ_error() == SITU_OK;
}

static bool file_has(const char *path, const char *words) {
  char text[WORDS] = "";
  FILE *f = fopen(path, "r");
  if (f) text[fread(text, 1, sizeof text - 1, f)] = 0, (void)fclose(f);
  return has(text, words);
}

/* The lint of the model and this rank's optimiser finds nothing. */
static bool is_clean(show *s, int r) {
  situ_optim *const optim = s->zero[r] ? situ_dist_zero_optim(s->zero[r]) : NULL;
  const situ_lint_options lint = { .optims = &optim, .optim_count = optim != NULL };
  const int64_t length = situ_place_lint_to_string(s->model[r], &lint, s->text[r], WORDS);
  return length >= 0 && (!length || has(s->text[r], "no finding"));
}

/* A preflight weighs this rank's part of each parameter, and tells what it sends. */
static bool is_weighed(show *s, int r) {
  situ_placement p;
  situ_place_report report;
  situ_optim *const optim = situ_dist_zero_optim(s->zero[r]);
  const situ_place_check_options training = { .optims = &optim, .optim_count = 1 };
  situ_tree *in = SITU_TREE(situ_ones(dist_kinds[0].input, NULL));
  const bool checked =
      situ_place_of(s->model[r], &p) == SITU_OK && situ_place_check(s->model[r], in, &training, &report) == SITU_OK;
  situ_tree_free(in);
  if (!checked) return false;
  const bool weighed = report.load_count == 1 && report.loads[0].parameters == p.bytes && report.finding_count == 0;
  const bool told = situ_place_report_to_string(&report, s->text[r], WORDS) > 0 && has(s->text[r], "\nranks\n  all_");
  situ_place_report_free(&report);
  return told && (weighed || has("the weight of the parameters", "-"));
}

/* part: of 0.weight. */
static bool shows(show *s, int r, const char *part) {
  char *text = s->text[r], title[64];
  situ_placement p;
  situ_place_plan plan;
  const situ_nn_to_options there = { .device = situ_dev("sim:1") };
  (void)snprintf(title, sizeof title, "[16, 6]%s", part);
  (void)snprintf(s->lock[r], sizeof s->lock[r], "shown_%d", r);
  if (situ_place_of(s->model[r], &p) != SITU_OK) return false;
  s->own[r] = p.bytes;
  const bool good = situ_place_plan_to_string(s->model[r], &there, &plan, text, WORDS) > 0 && has(text, part) &&
                    has(text, "it can be made") &&
                    situ_explain_to_string(situ_nn_get_tensor(s->model[r], "0.weight"), text, WORDS) > 0 &&
                    has(text, part) && situ_place_json(s->model[r], text, WORDS) > 0 && has(text, part) &&
                    situ_place_svg(s->model[r], s->lock[r], NULL) == SITU_OK && file_has(s->lock[r], title) &&
                    situ_place_lock_write(s->model[r], s->lock[r]) == SITU_OK && file_has(s->lock[r], part) &&
                    situ_place_lock_check(s->model[r], s->lock[r]) == SITU_OK &&
                    situ_place_to_string(s->model[r], NULL, text, WORDS) > 0 && has(text, title);
  s->planned[r] = plan.bytes;
  return good;
}

static void show_rank(world_rank *self) {
  show *s = self->payload;
  const int r = self->rank, size = self->size;
  char part[32];
  situ_snapshot *all = NULL;
  MUST(divide(s, self) && is_clean(s, r) && (!s->stage || is_weighed(s, r)));
  if (s->stage == 1 || s->stage == 2) goto out;
  if (!s->stage) (void)snprintf(part, sizeof part, "[%d:%d,:]", 16 * r / size, 16 * (r + 1) / size);
  else MUST(name_part(s->zero[r], part, sizeof part));
  MUST(shows(s, r, part));
  MUST(all = situ_dist_snapshot(s->model[r], self->comm));
  s->all[r] = situ_snapshot_at(all, 0)->bytes;
  MUST(situ_snapshot_to_string(all, NULL, s->text[r], WORDS) > 0 && has(s->text[r], part));
  MUST(situ_comm_barrier(self->comm, "all have written") == SITU_OK);
  if (r) {
    MUST(situ_place_lock_check(s->model[r], s->lock[0]) == SITU_E_STATE);
    MUST(strstr(situ_error_message(), part));
    situ_error_clear();
  }
  MUST(situ_comm_barrier(self->comm, "all have read") == SITU_OK);
out:
  situ_snapshot_free(all);
  leave(s, r);
}

static void show_parts(int stage) {
  for (int size = 2; size <= 4; size += 2) {
    static show s;
    world_rank ranks[WORLD_MOST];
    uint64_t sum = 0;
    memset(&s, 0, sizeof s);
    s.stage = stage;
    world_run(situ_comm_sim_new(size, NULL), ranks, size, show_rank, &s, 20);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      assert_int_equal(s.planned[r], s.own[r]);
      sum += s.own[r];
    }
    assert_int_equal(sum, 4 * (ALL + (!stage ? 3 * (size - 1) : 0)));
    for (int r = 0; r < size; r++) assert_int_equal(s.all[r], sum);
  }
}

/* placement: I5, J2 */
static void parts_of_zero3(void **state) {
  (void)state;
  show_parts(3);
}

/* placement: I5, J2 */
static void parts_of_a_tp(void **state) {
  (void)state;
  show_parts(0);
}

static void parts_of_optimisers(void **state) {
  (void)state;
  for (int stage = 1; stage <= 2; stage++) {
    static show s;
    world_rank ranks[WORLD_MOST];
    memset(&s, 0, sizeof s);
    s.stage = stage;
    world_run(situ_comm_sim_new(4, NULL), ranks, 4, show_rank, &s, 20);
    for (int r = 0; r < 4; r++) expect_rank_ok(&ranks[r]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(parts_of_zero3), TEST(parts_of_optimisers), TEST(parts_of_a_tp) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
