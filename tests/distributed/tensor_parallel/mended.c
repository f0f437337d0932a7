/* Layers of which each rank has a part: where the input or a layer is elsewhere, the message of one call has a line that
   mends it, as for whole layers.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include "situ/parallel.h"

#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"

enum { KINDS = 6 };

/* A model of which one layer is divided, and its input. */
static situ_nn_module *make_kind(int kind, situ_comm *comm, situ_tensor **x, situ_dist_tp **tp) {
  const situ_dist_parallel plans[KINDS] = { { "1", SITU_DIST_COLWISE, true }, { "0", SITU_DIST_ROWWISE, true },
                                            { "0", SITU_DIST_COLWISE, true }, { "0", SITU_DIST_ROWWISE, false },
                                            { "0", SITU_DIST_COLWISE, true }, { "1", SITU_DIST_ROWWISE, true } };
  const bool embeds = kind == 3 || kind == 4;
  *x = embeds ? situ_zeros(SITU_SHAPE(2, 3), &(situ_options){ .dtype = SITU_I64 }) : situ_ones(SITU_SHAPE(2, 8), NULL);
  situ_nn_module *m = embeds ? situ_nn_sequential(situ_nn_embedding(16, 8, NULL), situ_nn_linear(8, 8, NULL))
                             : situ_nn_sequential(situ_nn_linear(8, 8, NULL), situ_nn_linear(8, 8, NULL));
  *tp = situ_dist_tp_new(situ_nn_set_name(m, "model"), comm, &plans[kind], 1);
  return m;
}

/* The input is elsewhere, or a layer of the model: the message has a line that mends, and no policy. */
static void run_mistakes(world_rank *self) {
  for (int kind = 0; kind < KINDS; kind++)
    for (int wrong = 0; wrong < 3; wrong++) {
      situ_tensor *x;
      situ_dist_tp *tp;
      situ_error_report r;
      situ_nn_module *m = make_kind(kind, self->comm, &x, &tp);
      MUST(tp && situ_nn_to(m, test_device()) == SITU_OK);
      if (wrong) MUST(situ_nn_to(situ_nn_at(m, wrong - 1), situ_dev("cpu")) == SITU_OK);
      situ_set_name(x = situ_to(x, wrong ? test_device() : situ_dev("cpu")), "x");
      MUST(!situ_nn_forward(m, x) && situ_error_read(&r) && r.status == SITU_E_DEVICE);
      MUST(r.fix_count == 1 || r.fixes[1].choice == 1);
      MUST(r.fixes[0].action == (wrong ? SITU_FIX_NN_TO : SITU_FIX_TO));
      const situ_device to = situ_dev(r.fixes[0].device);
      if (!wrong) x = situ_to(x, to);
      const char *below = r.fixes[0].target[5] ? r.fixes[0].target + 6 : "";
      if (wrong) MUST(situ_nn_to(situ_nn_get_submodule(m, below), to) == SITU_OK);
      situ_error_clear();
      MUST(situ_nn_forward(m, x));
      situ_dist_tp_free(tp);
      situ_nn_free(m);
    }
out:;
}

/* placement: D8 */
static void a_message_has_a_line_that_mends(void **state) {
  (void)state;
  world_rank ranks[2];
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, run_mistakes, NULL, 20);
  for (int i = 0; i < 2; i++) expect_rank_ok(&ranks[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_message_has_a_line_that_mends) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
