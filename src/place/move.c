/* Moving a module: all of its tensors in one transaction.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "situ/place.h"
#include "situ/sys/op.h"

typedef struct gathered {
  situ_tensor **list;
  int64_t       count, room;
} gathered;

static situ_status gather(const situ_nn_visit *at, void *payload) {
  gathered *g = payload;
  if (g->count == g->room) {
    int64_t room = g->room ? 2 * g->room : 64;
    situ_tensor **list = situ__realloc(g->list, (size_t)room * sizeof *list);
    if (!list) return situ_fail(SITU_E_NOMEM, "nn_to", "no memory for a list of %lld tensors", (long long)room);
    g->list = list;
    g->room = room;
  }
  g->list[g->count++] = at->tensor;
  return SITU_OK;
}

/* A module without tensors still has a home: what it makes in its forward, or materialises, is made there. */
static situ_status settle(situ_nn_module *m, void *payload) {
  m->home = *(const situ_device *)payload;
  return SITU_OK;
}

situ_status situ_nn_to(situ_nn_module *m, situ_device device) {
  if (!m) return situ_fail(SITU_E_ARG, "nn_to", "module is NULL");
  gathered g = { 0 };
  situ_status status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_ONCE, gather, &g);
  if (status == SITU_OK) status = situ_move_storages("nn_to", g.list, g.count, device, NULL);
  if (status == SITU_OK) status = situ_nn_apply(m, settle, &device);
  situ__free(g.list);
  return status;
}
