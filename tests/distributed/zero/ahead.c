/* Parameters in parts: the unit that comes next is gathered while one computes. */
/* test-devices: cpu sim:0 cuda:0 */
#include "distributed/divided.h"

enum { AHEAD_LAYERS = 4 };

typedef struct gathers {
  situ_comm_sim *world;
  int rank, layer;
  int64_t sent, most[AHEAD_LAYERS]; /* headers before a forward, and from then until each layer has computed */
} gathers;
static situ_status count_gathers(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  gathers *g = payload;
  (void)m, (void)inputs, (void)output;
  g->most[g->layer++] = situ_comm_sim_messages(g->world, g->rank) - g->sent;
  return SITU_OK;
}

/* Runs all layers, or but one, and compares the result with that of a whole copy. Returns false after an error. */
static bool run_layers(gathers *g, situ_nn_module *m, situ_nn_module *copy, int without) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() }), *y = x;
  g->sent = situ_comm_sim_messages(g->world, g->rank);
  g->layer = 0;
  for (int i = 0; i < AHEAD_LAYERS; i++) {
    const char path[] = { (char)('0' + i), '\0' };
    if (i == without) continue;
    x = situ_nn_forward(situ_nn_get_submodule(m, path), x);
    y = situ_nn_forward(situ_nn_get_submodule(copy, path), y);
  }
  bool equal = false;
  const bool good = situ_equal(x, y, &equal) == SITU_OK && equal;
  return situ_scope_end(&s) == SITU_OK && good;
}

static void gather_ahead(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]), *copy = NULL;
  gathers g = { .world = self->world, .rank = self->rank };
  situ_dist_zero *zero = NULL;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  MUST(ddp && (copy = situ_nn_clone(m))); /* with the values of rank 0 */
  MUST((zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  for (int i = 0; i < AHEAD_LAYERS; i++) {
    const char path[] = { (char)('0' + i), '\0' };
    MUST(situ_nn_register_forward_hook(situ_nn_get_submodule(m, path), count_gathers, &g, NULL) == SITU_OK);
  }
  MUST(run_layers(&g, m, copy, -1)); /* their order is not known yet */
  for (int i = 0; i < AHEAD_LAYERS; i++) MUST(g.most[i] == i + 1);
  for (int pass = 0; pass < 2; pass++) {
    MUST(run_layers(&g, m, copy, -1));
    for (int i = 0; i < AHEAD_LAYERS; i++) MUST(g.most[i] == (i + 1 < AHEAD_LAYERS ? i + 2 : AHEAD_LAYERS));
  }
  MUST(run_layers(&g, m, copy, 1)); /* another one comes than was gathered, */
  MUST(g.most[AHEAD_LAYERS - 2] == AHEAD_LAYERS);
  MUST(run_layers(&g, m, copy, 1)); /* but once */
  MUST(g.most[0] == 1 && g.most[AHEAD_LAYERS - 2] == AHEAD_LAYERS - 1);
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_nn_free(copy);
}

/* From the second pass on, while a layer computes, the parameters of the one behind it are on their way. */
static void the_next_unit_is_gathered_while_one_computes(void **state) {
  (void)state;
  situ_nn_module *model[2];
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < 2; r++) {
    model[r] = situ_nn_sequential(situ_nn_linear(6, 6, NULL));
    for (int i = 1; i < AHEAD_LAYERS; i++) model[r] = situ_nn_append(model[r], situ_nn_linear(6, 6, NULL));
  }
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, gather_ahead, model, 20);
  for (int r = 0; r < 2; r++) {
    expect_rank_ok(&ranks[r]);
    situ_nn_free(model[r]);
  }
}

/* ---- passes that end before the unit that is on its way ---- */

typedef struct net {
  situ_nn_module base;
  int count, cut; /* layers that run; the layer behind which backward ends, 0: none */
} net;
static situ_tensor *run_net(situ_nn_module *m, situ_tensor *x) {
  const net *n = (net *)m;
  for (int i = 0; i < n->count; i++) {
    const char path[] = { (char)('0' + i), '\0' };
    if (n->cut && i == n->cut) x = situ_detach(x);
    x = situ_nn_forward(situ_nn_get_submodule(m, path), x);
  }
  return x;
}
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net), .forward = run_net };

static net *make_net(void) {
  net *n = situ_nn_alloc(&net_type);
  for (int i = 0; i < AHEAD_LAYERS; i++) {
    const char name[] = { (char)('0' + i), '\0' };
    situ_nn_add_child(&n->base, name, NULL, situ_nn_linear(6, 6, NULL));
  }
  assert_non_null(situ_nn_done(n));
  return n;
}

static situ_tensor *run_all(net *n, int count, int cut) {
  n->count = count, n->cut = cut;
  return situ_nn_forward(&n->base, situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() }));
}

/* Headers that a backward sends; -1: it failed. */
static int64_t count_backward(const world_rank *self, net *n, int cut) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *y = situ_sum(run_all(n, AHEAD_LAYERS, cut), NULL);
  const int64_t before = situ_comm_sim_messages(self->world, self->rank);
  const bool good = situ_backward(y, NULL) == SITU_OK;
  return situ_scope_end(&s) == SITU_OK && good ? situ_comm_sim_messages(self->world, self->rank) - before : -1;
}

static void end_early(world_rank *self) {
  net *n = ((net **)self->payload)[self->rank];
  situ_dist_zero *zero = NULL;
  double sum = 1;
  situ_dist_ddp *ddp = situ_dist_ddp_new(at_home(&n->base), self->comm, NULL);
  MUST(ddp && (zero = situ_dist_zero3_new(situ_nn_parameters(&n->base), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  int64_t sent[4];
  for (int k = 0; k < 4; k++) {
    MUST((sent[k] = count_backward(self, n, k ? 2 : 0)) > 0);
    MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
  }
  MUST(sent[2] == sent[1] - 1 && sent[3] == sent[2]); /* a unit that did not come is not gathered again */
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  MUST(run_all(n, AHEAD_LAYERS - 1, 0)); /* the last layer was on its way */
  const situ_optim *o = situ_dist_zero_optim(zero);
  for (int64_t i = 0; i < situ_optim_count(o); i++) MUST(situ_zero_(situ_optim_param(o, i, NULL)));
  MUST(situ_item(situ_sum(situ_nn_forward(situ_nn_get_submodule(&n->base, "3"),
                                          situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() })),
                          NULL),
                 &sum) == SITU_OK);
  MUST(situ_scope_end(&s) == SITU_OK && sum == 0); /* it has the values of now */
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

static void what_did_not_come_is_forgotten(void **state) {
  (void)state;
  net *model[2];
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < 2; r++) model[r] = make_net();
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, end_early, model, 20);
  for (int r = 0; r < 2; r++) {
    expect_rank_ok(&ranks[r]);
    situ_nn_free(&model[r]->base);
  }
}

/* ---- writes to the parts of a unit that is on its way ---- */

typedef struct writing {
  unsigned writers;    /* bits of ranks */
  bool by_step, alone; /* these alone tell that they will */
  net *model[WORLD_MOST];
} writing;

/* This rank's part of the first parameter, with elements here, whose name begins so. */
static situ_tensor *find_part(const situ_dist_zero *zero, const char *name) {
  const situ_optim *o = situ_dist_zero_optim(zero);
  for (int64_t i = 0; i < situ_optim_count(o); i++) {
    const char *key;
    situ_tensor *t = situ_optim_param(o, i, &key);
    if (strncmp(key, name, strlen(name)) == 0) return t;
  }
  return NULL;
}

static bool is_refused(bool failed) {
  const bool good = failed && situ_error() == SITU_E_STATE && strstr(situ_error_message(), "`1.") &&
                    strstr(situ_error_message(), "is on its way to the other ranks");
  situ_error_clear();
  return good;
}

/* Every way to write. */
static bool cannot_be_written(situ_tensor *t) {
  float values[64] = { 0 };
  const size_t bytes = (size_t)situ_numel(t) * sizeof *values;
  return is_refused(!situ_zero_(t)) && is_refused(!situ_copy_(t, situ_detach(situ_zeros_like(t, NULL)))) &&
         is_refused(situ_copy_from_host(t, values, bytes) != SITU_OK) &&
         is_refused(!situ_data_map(t, SITU_F32, SITU_LEASE_READ_WRITE)) &&
         situ_copy_to_host(t, values, bytes) == SITU_OK && values[0] != 0;
}

/* Layer 1 is on its way while the program has the control: behind layer 0. */
static void write_between(world_rank *self) {
  const writing *w = self->payload;
  const bool writes = w->writers >> self->rank & 1;
  net *n = w->model[self->rank];
  situ_dist_zero *zero = NULL;
  situ_nn_module *next = situ_nn_get_submodule(&n->base, "1");
  situ_dist_ddp *ddp = situ_dist_ddp_new(at_home(&n->base), self->comm, NULL);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() }), *part, *got, *want;
  bool equal = false;
  MUST(ddp && (zero = situ_dist_zero3_new(situ_nn_parameters(&n->base), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  for (int pass = 0; pass < 2; pass++) MUST(run_all(n, AHEAD_LAYERS, 0));
  MUST((part = find_part(zero, "1.")) && situ_nn_forward(situ_nn_get_submodule(&n->base, "0"), x));
  MUST(!writes || cannot_be_written(part));
  if (!w->alone || writes)
    MUST((w->by_step ? situ_dist_zero_step(zero) : situ_dist_zero_reshard(zero)) == SITU_OK && !w->alone);
  MUST(!writes || situ_zero_(part));
  MUST((got = situ_nn_forward(next, x)));
  MUST(situ_dist_zero_unshard(zero) == SITU_OK && (want = situ_nn_forward(next, x)));
  MUST(situ_equal(got, want, &equal) == SITU_OK && equal); /* with the values of now, of all ranks */
out:
  SITU_IGNORE(situ_scope_end(&s));
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

/* A part whose values other ranks are about to use cannot be written, until all ranks have dropped them: whether all
   write or one, and whether they say so or step. A rank that drops them alone does not come to write. */
static void what_is_on_its_way_is_not_written(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  for (int k = 0; k < 16; k++) {
    const int size = k & 1 ? 4 : 2;
    writing w = { .writers = k & 2 ? ~0u : 1u << (k / 8 * (size - 1)), .by_step = k & 4, .alone = k >= 14 };
    if (w.alone) w.writers = 1;
    for (int r = 0; r < size; r++) w.model[r] = make_net();
    world_run(situ_comm_sim_new(size, NULL), ranks, size, write_between, &w, 20);
    for (int r = 0; r < size; r++) {
      if (!w.alone) expect_rank_ok(&ranks[r]);
      else if (ranks[r].status != SITU_E_COMM || !strstr(ranks[r].message, "before they are written"))
        fail_msg("rank %d: %s", r, ranks[r].message);
      situ_nn_free(&w.model[r]->base);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(the_next_unit_is_gathered_while_one_computes),
                                      TEST(what_did_not_come_is_forgotten), TEST(what_is_on_its_way_is_not_written) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
