/* Moving a module: all of its tensors in one transaction.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "situ/place.h"
#include "situ/sys/op.h"

/* What one walk finds: modules, to be told of their new home, and tensors, to be moved. All memory is had before anything
   changes. */
typedef struct gathered {
  void  **list;
  int64_t count, room;
} gathered;

static situ_status keep(gathered *g, void *item) {
  if (g->count == g->room) {
    int64_t room = g->room ? 2 * g->room : 64;
    void **list = situ__realloc(g->list, (size_t)room * sizeof *list);
    if (!list) return situ_fail(SITU_E_NOMEM, "nn_to", "no memory for a list of %lld tensors", (long long)room);
    g->list = list;
    g->room = room;
  }
  g->list[g->count++] = item;
  return SITU_OK;
}

typedef struct found { gathered modules, tensors; } found;

static situ_status gather(const situ_nn_visit *at, void *payload) {
  found *f = payload;
  return at->tensor ? keep(&f->tensors, at->tensor) : keep(&f->modules, at->module);
}

situ_status situ_nn_to(situ_nn_module *m, situ_device device) {
  if (!m) return situ_fail(SITU_E_ARG, "nn_to", "module is NULL");
  found f = { 0 };
  situ_status status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_MODULES | SITU_NN_VISIT_ONCE, gather, &f);
  if (status == SITU_OK) status = situ_move_storages("nn_to", (situ_tensor **)f.tensors.list, f.tensors.count, device, NULL);
  /* A module without tensors has a home too: what it makes in its forward, or materialises, is made there. */
  for (int64_t i = 0; status == SITU_OK && i < f.modules.count; i++) ((situ_nn_module *)f.modules.list[i])->home = device;
  situ__free(f.tensors.list);
  situ__free(f.modules.list);
  return status;
}
