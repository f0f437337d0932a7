/* Writes loaded values into a module: all memory is allocated and all values are copied before the first tensor
   changes.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/map.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static const char op[] = "nn_load_state_dict";

static bool on_meta(const situ_tensor *t) { return situ_device_of(t).kind == SITU_META; }

/* True if the tensor is contiguous and the only content of its storage. */
static bool whole(const situ_tensor *t) {
  const situ_view_desc *v = situ_desc(t);
  size_t bytes = (size_t)v->numel * situ_dtype_size((situ_dtype)v->dtype);
  return v->contiguous && v->offset == 0 && v->storage->bytes == bytes;
}

/* Memory on `home` for the whole storage on meta that `t` is a part of, with the values of its recipe if it has one. */
static situ_tensor *memory_for(situ_tensor *t, situ_device home) {
  int64_t held = (int64_t)(situ_desc(t)->storage->bytes / situ_dtype_size(situ_dtype_of(t)));
  situ_tensor *all = situ_as_strided(t, SITU_SHAPE(held), SITU_SHAPE(1), 0);
  if (!all) return NULL;
  if (situ_has_values(all)) return situ_to(all, home);
  return situ_empty(SITU_SHAPE(held), &(situ_options){ .dtype = situ_dtype_of(t), .device = home });
}

/* Maps each storage of the state to its part, or to the map itself if it has several. Returns false without memory. */
static bool find_sources(situ__map *parts, const situ__nn_part *list, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (!list[i].from) continue;
    const situ_storage *s = situ_desc(list[i].from)->storage;
    if (!situ__map_put(parts, s, situ__map_get(parts, s) ? (void *)parts : (void *)(uintptr_t)&list[i]))
      return situ__no_memory(op, sizeof *parts), false;
  }
  return true;
}

/* True if both tensors can swap their memory: that of `from` is not a module's, and no other part is read from it. */
static bool can_adopt(const situ__nn_part *p, const situ__map *parts) {
  const situ_storage *s = situ_desc(p->from)->storage;
  return __atomic_load_n(&s->slots, __ATOMIC_RELAXED) == 0 && s != situ_desc(p->to)->storage && whole(p->from) &&
         whole(p->to) &&
         situ_dtype_is_floating(situ_dtype_of(p->from)) == situ_dtype_is_floating(situ_dtype_of(p->to)) &&
         situ__map_get(parts, s) == p;
}

/* Copies the value to the tensor's current or future device. A tensor on meta takes the copy over, so it must not be
   shared. */
static bool stage(situ__nn_part *p, situ_device home, const situ__map *parts) {
  if (p->adopts && (p->adopts = can_adopt(p, parts))) {
    p->staged = p->from;
    return true;
  }
  if (p->home.kind) home = p->home;
  situ_tensor *from = situ_dim(p->from) == situ_dim(p->to) ? p->from : situ_reshape(p->from, situ_shape_of(p->to));
  if (!on_meta(p->to)) return (p->staged = situ_to(from, situ_device_of(p->to))) != NULL;
  p->staged = situ_to_dtype(situ_to(from, home), situ_dtype_of(p->to));
  if (p->staged == from || (p->staged && !whole(p->staged)))
    p->staged = situ_clone_memory_format(p->staged, SITU_CONTIGUOUS_FORMAT);
  p->memory = p->staged;
  if (p->staged && !whole(p->to)) p->memory = memory_for(p->to, home);
  return p->memory != NULL;
}

/* Saves the tensor's value, in case a later copy fails. */
static bool keep(situ__nn_part *p) {
  return p->adopts || on_meta(p->to) || !situ_has_values(p->to) || (p->kept = situ_clone(p->to)) != NULL;
}

/* Copies on the host cannot fail. */
static bool may_fail(const situ__nn_part *list, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (list[i].staged && situ_device_of(list[i].staged).kind != SITU_CPU) return true;
  return false;
}

/* Waits for the devices of all tensors, so that their errors are known. */
static bool settle(const situ__nn_part *list, int64_t count) {
  situ_device done = { 0 };
  for (int64_t i = 0; i < count; i++) {
    const situ_device device = situ_device_of(list[i].staged ? list[i].staged : list[i].to);
    if (situ_device_equal(device, done)) continue;
    if (situ_synchronize(device) != SITU_OK) return false;
    done = device;
  }
  return true;
}

static void note_write(const situ_tensor *t) {
  __atomic_fetch_add(&situ_desc(t)->storage->version, 1, __ATOMIC_RELAXED);
}

static bool adopt(situ__nn_part *p) {
  if (situ_swap_memory(op, p->to, p->from) != SITU_OK) return false;
  note_write(p->to);
  note_write(p->from);
  return p->taken = true;
}

/* A tensor that is tied to an earlier one is not on meta any more. */
static bool write(situ__nn_part *p) {
  if (p->adopts) return adopt(p);
  if (on_meta(p->to)) {
    if (situ_take_memory(op, p->to, p->memory) != SITU_OK) return false;
    p->taken = true;
    if (p->memory == p->staged) return true;
  } else if (p->staged == p->to) {
    return true;
  }
  return situ_copy_(p->to, p->staged) != NULL;
}

/* Swaps memory, which cannot fail; only a view of a larger storage is copied back. */
static void restore(situ__nn_part *list, int64_t count) {
  for (int64_t i = count - 1; i >= 0; i--) {
    situ__nn_part *p = &list[i];
    if (p->adopts && p->taken) SITU_IGNORE(situ_swap_memory(op, p->to, p->from));
    else if (p->taken) SITU_IGNORE(situ_take_memory(op, p->memory, p->to));
    else if (p->kept && situ_swap_memory(op, p->to, p->kept) != SITU_OK)
      SITU_IGNORE(situ_copy_(p->to, p->kept) ? SITU_OK : situ_error());
  }
}

/* A gradient that is still on meta belongs to values that never existed, that of adopted memory to other values. */
static void drop_gradients(const situ__nn_part *list, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    situ_tensor *grad = list[i].taken ? situ_grad(list[i].to) : NULL;
    if (grad && (list[i].adopts || on_meta(grad))) SITU_IGNORE(situ_set_grad(list[i].to, NULL));
  }
}

bool situ__nn_write(situ__nn_part *list, int64_t count, situ_device home, bool assign, situ__nn_wait wait) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ__map parts = { 0 };
  bool good = !assign || find_sources(&parts, list, count);
  for (int64_t i = 0; i < count && good; i++) good = !list[i].from || stage(&list[i], home, &parts);
  situ__map_free(&parts);
  bool safe = good && !may_fail(list, count);
  for (int64_t i = 0; i < count && good && !safe; i++) good = !list[i].from || keep(&list[i]);
  good = good && settle(list, count) && (!wait.ready || wait.ready(wait.payload) == SITU_OK);
  if (good) {
    for (int64_t i = 0; i < count && good; i++) good = !list[i].from || write(&list[i]);
    good = good && settle(list, count);
    if (!good) restore(list, count);
    else drop_gradients(list, count);
  }
  SITU_IGNORE(situ_scope_end(&scope));
  return good;
}
