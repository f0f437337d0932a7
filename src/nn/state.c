/* Loading a state dict: everything is compared first, then copied.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/fail.h"
#include "base/text.h"
#include "nn/nn.h"
#include "situ/sys/op.h"

typedef struct loading {
  const situ_nn_load_options *options;
  const situ_tree *state, *own; /* flat dicts */
  situ__text missing, unexpected, mismatch;
} loading;

static void report(loading *l, situ_nn_load_problem problem, const char *path, const char *detail) {
  static const char *const title[] = { "missing: ", "unexpected: ", "mismatch: " };
  situ__text *list[] = { &l->missing, &l->unexpected, &l->mismatch };
  situ__text_add(list[problem], "%s%s%s", list[problem]->length ? ", " : title[problem], path,
                 detail);
  if (l->options->report) l->options->report(problem, path, l->options->payload);
}

static int kind_of(situ_dtype dtype) {
  return situ_dtype_is_floating(dtype) ? 2 : situ_dtype_is_integer(dtype) ? 1 : 0;
}

static void compare_one(loading *l, const char *path, const situ_tensor *to,
                        const situ_tensor *from) {
  situ_shape a = situ_shape_of(to), b = situ_shape_of(from);
  char has[SITU_SHAPE_TEXT], needs[SITU_SHAPE_TEXT], detail[2 * SITU_SHAPE_TEXT + 64];
  if (situ_shape_equal(&a, &b) && kind_of(situ_dtype_of(from)) <= kind_of(situ_dtype_of(to)))
    return;
  snprintf(detail, sizeof detail, " (%s %s in the state, %s %s in the module)",
           situ_shape_text(&b, has), situ_dtype_name(situ_dtype_of(from)),
           situ_shape_text(&a, needs), situ_dtype_name(situ_dtype_of(to)));
  report(l, SITU_NN_LOAD_MISMATCH, path, detail);
}

static void compare(loading *l) {
  for (int64_t i = 0; i < situ_tree_count(l->own); i++) {
    const char *path = situ_tree_key(l->own, i);
    const situ_tree *from = situ_tree_find(l->state, path);
    if (from)
      compare_one(l, path, situ_tree_tensor_at(l->own, i), situ_tree_value(from));
    else
      report(l, SITU_NN_LOAD_MISSING, path, "");
  }
  for (int64_t i = 0; i < situ_tree_count(l->state); i++) {
    const char *path = situ_tree_key(l->state, i);
    if (!situ_tree_find(l->own, path)) report(l, SITU_NN_LOAD_UNEXPECTED, path, "");
  }
}

static situ_status refuse(const loading *l, const situ_nn_module *m) {
  bool names = !l->options->not_strict && (l->missing.length || l->unexpected.length);
  if (l->missing.failed || l->unexpected.failed || l->mismatch.failed)
    return situ__no_memory("nn_load_state_dict", 1);
  if (!names && !l->mismatch.length) return SITU_OK;
  const char *part[3] = { "", "", "" };
  int count = 0;
  if (names && l->missing.length) part[count++] = l->missing.data;
  if (names && l->unexpected.length) part[count++] = l->unexpected.data;
  if (l->mismatch.length) part[count++] = l->mismatch.data;
  return situ__fail(names ? SITU_E_ARG : SITU_E_SHAPE, "nn_load_state_dict",
                    "the state does not fit %s\n  %s%s%s%s%s", m->type->name, part[0],
                    *part[1] ? "\n  " : "", part[1], *part[2] ? "\n  " : "", part[2]);
}

/* The value for the i-th tensor on that tensor's device, or None where the state has none. */
static situ_tree *stage_one(const loading *l, int64_t i) {
  const char *path = situ_tree_key(l->own, i);
  situ_tensor *to = situ_tree_tensor_at(l->own, i);
  const situ_tree *from = situ_tree_find(l->state, path);
  if (!from) return situ_tree_none();
  bool nowhere = situ_device_of(to).kind == SITU_META;
  if (nowhere || situ_device_of(situ_tree_value(from)).kind == SITU_META) {
    situ__fail(SITU_E_STATE, "nn_load_state_dict", "%s: %s is on meta, where there are no values",
               path, nowhere ? "the module's" : "the state's");
    return NULL;
  }
  return situ_tree_tensor(situ_to(situ_tree_value(from), situ_device_of(to)));
}

/* What the i-th tensor holds, in case that a later copy fails. On the host none can. */
static situ_tree *keep_one(const loading *l, int64_t i) {
  situ_tensor *to = situ_tree_tensor_at(l->own, i);
  return situ_device_of(to).kind == SITU_CPU ? situ_tree_none() : situ_tree_tensor(situ_clone(to));
}

static situ_tree *for_each(const loading *l, situ_tree *(*one)(const loading *, int64_t)) {
  situ_tree *list = situ_tree_list();
  for (int64_t i = 0; i < situ_tree_count(l->own) && list; i++)
    list = situ_tree_append(list, one(l, i));
  return list;
}

/* Waits for the devices of all tensors, so that what failed there is known. */
static situ_status settle(const loading *l) {
  situ_status status = SITU_OK;
  for (int64_t i = 0; i < situ_tree_count(l->own) && status == SITU_OK; i++)
    status = situ_synchronize(situ_device_of(situ_tree_tensor_at(l->own, i)));
  return status;
}

static situ_status write_all(const loading *l, const situ_tree *staged) {
  for (int64_t i = 0; i < situ_tree_count(staged); i++) {
    const situ_tree *from = situ_tree_at(staged, i);
    situ_tensor *to = situ_tree_tensor_at(l->own, i);
    if (situ_tree_kind_of(from) == SITU_TREE_TENSOR && situ_tree_value(from) != to &&
        !situ_copy_(to, situ_tree_value(from)))
      return situ_error();
  }
  return settle(l);
}

/* By swapping memory, which cannot fail; only a view of a larger storage has to be copied back. */
static void restore(const loading *l, const situ_tree *kept) {
  for (int64_t i = 0; i < situ_tree_count(kept); i++) {
    situ_tensor *to = situ_tree_tensor_at(l->own, i);
    if (situ_tree_kind_of(situ_tree_at(kept, i)) == SITU_TREE_TENSOR &&
        situ_swap_memory("nn_load_state_dict", to, situ_tree_tensor_at(kept, i)) != SITU_OK)
      situ_copy_(to, situ_tree_tensor_at(kept, i));
  }
}

/* All memory is had, and all values are there, before the first one is written. */
static situ_status copy_all(const loading *l) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *staged = for_each(l, stage_one), *kept = staged ? for_each(l, keep_one) : NULL;
  situ_status status = kept ? settle(l) : situ_error();
  if (status == SITU_OK) {
    status = write_all(l, staged);
    if (status != SITU_OK) restore(l, kept);
  }
  situ_tree_free(staged);
  situ_tree_free(kept);
  SITU_IGNORE(situ_scope_end(&scope));
  return status;
}

situ_status situ_nn_load_state_dict(situ_nn_module *m, const situ_tree *state,
                                    const situ_nn_load_options *options) {
  static const situ_nn_load_options strict;
  if (!m || !state) return situ__null("nn_load_state_dict", m ? "state" : "module");
  situ_tree *flat = situ_tree_flatten(state), *own = situ_nn_state_dict(m);
  loading l = { .options = options ? options : &strict, .state = flat, .own = own };
  situ_status status = flat && own ? SITU_OK : situ_error();
  if (status == SITU_OK) {
    compare(&l);
    status = refuse(&l, m);
  }
  if (status == SITU_OK) status = copy_all(&l);
  situ__text_free(&l.missing);
  situ__text_free(&l.unexpected);
  situ__text_free(&l.mismatch);
  situ_tree_free(flat);
  situ_tree_free(own);
  return status;
}
