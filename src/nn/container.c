/* Sequential, ModuleList, ModuleDict: modules whose parts are numbered or named at run time.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "nn/nn.h"

static situ_tensor *sequential_forward(situ_nn_module *self, situ_tensor *x) {
  for (int64_t i = 0; i < self->count && x; i++)
    if (situ__nn_is_child(&self->slots[i])) x = situ_nn_forward(self->slots[i].held, x);
  return x;
}

static const situ_nn_type sequential_type = { .name = "Sequential",
                                              .size = sizeof(situ_nn_module),
                                              .forward = sequential_forward };
static const situ_nn_type list_type = { .name = "ModuleList", .size = sizeof(situ_nn_module) };
static const situ_nn_type dict_type = { .name = "ModuleDict", .size = sizeof(situ_nn_module) };

static situ_nn_module *add_numbered(situ_nn_module *m, int64_t i, situ_nn_module *module) {
  char name[24];
  snprintf(name, sizeof name, "%" PRId64, i);
  return situ_nn_add_child(m, name, NULL, module);
}

static situ_nn_module *numbered(const char *op, const situ_nn_type *type, int64_t count,
                                situ_nn_module *const *modules) {
  if (count < 0) return situ__fail(SITU_E_ARG, op, "%" PRId64 " modules", count), NULL;
  if (count && !situ__given(op, "modules", modules)) return NULL;
  situ_nn_module *m = situ_nn_alloc(type);
  /* Continues after a failure, as the container takes over all of them. */
  for (int64_t i = 0; i < count; i++) add_numbered(m, i, modules[i]);
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_sequential_of(int64_t count, situ_nn_module *const *modules) {
  return numbered("nn_sequential_of", &sequential_type, count, modules);
}
situ_nn_module *situ_nn_module_list_of(int64_t count, situ_nn_module *const *modules) {
  return numbered("nn_module_list_of", &list_type, count, modules);
}
situ_nn_module *situ_nn_module_dict(void) { return situ_nn_done(situ_nn_alloc(&dict_type)); }

int64_t situ_nn_len(const situ_nn_module *container) {
  if (!container) return 0;
  return situ__nn_given("nn_len", "container", container) ? container->children : -1;
}

/* Adds to a container; on failure frees both. */
static situ_nn_module *add_part(const char *op, situ_nn_module *container, const situ_nn_type *other, const char *name,
                                situ_nn_module *module) {
  bool fits = situ__is(SITU__A_MODULE, container) && (container->type == &sequential_type || container->type == other);
  if (fits && (!name || !situ__nn_find(container, name))) {
    if (name ? situ_nn_add_child(container, name, NULL, module)
             : add_numbered(container, situ_nn_len(container), module))
      return container;
  } else {
    if (!situ__is(SITU__A_MODULE, container)) situ__refuse_handle(op, "container", container, SITU__A_MODULE);
    else if (fits) situ__fail(SITU_E_ARG, op, "%s has a module \"%s\" already", container->type->name, name);
    else situ__fail(SITU_E_ARG, op, "%s is not a container that this adds to", container->type->name);
    situ__nn_give_up(module);
  }
  return situ__nn_give_up(container), NULL;
}

situ_nn_module *situ_nn_append(situ_nn_module *container, situ_nn_module *module) {
  return add_part("nn_append", container, &list_type, NULL, module);
}

situ_nn_module *situ_nn_put(situ_nn_module *container, const char *name, situ_nn_module *module) {
  if (name) return add_part("nn_put", container, &dict_type, name, module);
  situ__nn_give_up(module), situ__nn_give_up(container);
  return situ__null("nn_put", "name"), NULL;
}

situ_nn_module *situ_nn_at(const situ_nn_module *container, int64_t i) {
  if (!situ__nn_given("nn_at", "container", container)) return NULL;
  int64_t count = situ_nn_len(container), left = i < 0 ? i + count : i;
  if (count == container->count && left >= 0 && left < count) return container->slots[left].held;
  for (int64_t k = 0; k < container->count && left >= 0; k++)
    if (situ__nn_is_child(&container->slots[k]) && left-- == 0) return container->slots[k].held;
  return situ__fail(SITU_E_INDEX, "nn_at", "module %" PRId64 " of %" PRId64 " in %s", i, count, container->type->name),
         NULL;
}

situ_nn_module *situ_nn_get(const situ_nn_module *container, const char *name) {
  if (!situ__nn_given("nn_get", "container", container) || !situ__given("nn_get", "name", name)) return NULL;
  situ_nn_slot *slot = situ__nn_find(container, name);
  if (slot && situ__nn_is_child(slot)) return slot->held;
  return situ__fail(SITU_E_ARG, "nn_get", "%s has no module \"%s\"", container->type->name, name), NULL;
}
