/* Makes a tree of what torch.save wrote.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "torch.h"
#include "situ/ops.h"

/* ---- walks ---- */

void situ__torch_walk_begin(situ__torch_walk *walk, const situ__torch *t) {
  enum { SHARED = 1 << 10 }; /* what values that are in several containers may add to a small file */
  walk->torch = t;
  walk->left = 2 * (int64_t)t->pickle.values + SHARED;
  walk->depth = 0;
  walk->length = 0;
  walk->path[0] = '\0';
}

static bool refuse_value(const situ__torch_walk *walk, situ_status status, const char *what) {
  const situ__zip_source *s = &walk->torch->source;
  char shown[SITU__SHOWN_MAX];
  return situ__fail(status, s->op, "%s: has at '%s' %s", s->path, situ__shown(walk->path, shown), what), false;
}

const situ__pickle_value *situ__torch_visit(situ__torch_walk *walk, uint32_t value) {
  enum { MAX_LEVELS = 64 }; /* of a situ_tree */
  static const situ__pickle_value none = { .kind = SITU__PICKLE_DICT };
  const situ__pickle *p = &walk->torch->pickle;
  const situ__pickle_value *v = &p->value[value];
  if (walk->left-- == 0)
    return refuse_value(walk, SITU_E_LIMIT, "lists or dicts that contain others more often than the file is long"),
           NULL;
  if (walk->depth > MAX_LEVELS) return refuse_value(walk, SITU_E_LIMIT, "more than 64 levels of lists and dicts"), NULL;
  if (v->kind != SITU__PICKLE_OBJECT || !situ__pickle_unknown(p, v->maker)->script) return v;
  return v->count ? &p->value[v->state] : &none;
}

bool situ__torch_enter(situ__torch_walk *walk, const situ__pickle_value *key, int64_t number, const char **name) {
  char digits[24];
  const bool text = key && key->kind == SITU__PICKLE_STRING;
  if (key && !text) number = key->integer;
  if (!text) (void)snprintf(digits, sizeof digits, "%" PRId64, number);
  const char *from = text ? key->text : digits;
  const size_t dot = walk->depth > 0, bytes = strlen(from);
  if (dot + bytes >= sizeof walk->path - walk->length)
    return refuse_value(walk, SITU_E_LIMIT, "a path of more than 4,095 bytes");
  if (dot) walk->path[walk->length++] = '.';
  memcpy(walk->path + walk->length, from, bytes + 1);
  *name = walk->path + walk->length;
  walk->length += bytes;
  walk->depth++;
  return true;
}

void situ__torch_leave(situ__torch_walk *walk, size_t length) {
  walk->depth--;
  walk->length = length;
  walk->path[length] = '\0';
}

/* ---- the tree ---- */

typedef struct maker {
  situ__torch_walk walk;
  situ_tensor **made;  /* of each value of the pickle: what is in the file once is one tensor */
  situ_tensor **whole; /* of each entry of the zip: a storage of several tensors */
} maker;

/* A tensor on a storage that others share: all are views of one tensor, as in torch. */
static situ_tensor *make_view(maker *m, const situ__pickle_tensor *p) {
  const situ__torch *t = m->walk.torch;
  const situ__zip_entry *e = t->file[p->storage];
  situ_tensor **whole = &m->whole[e - t->zip.entry];
  if (!*whole) {
    situ__pickle_tensor all = { .storage = p->storage, .type = p->type, .stride = SITU_SHAPE(1) };
    all.size = SITU_SHAPE(e->bytes / p->type->bytes);
    *whole = situ__torch_tensor(t, m->walk.path, &all);
    if (!*whole) return NULL;
  }
  if (situ_dtype_of(*whole) == p->type->dtype) return situ_as_strided(*whole, p->size, p->stride, p->offset);
  refuse_value(&m->walk, SITU_E_UNSUPPORTED, "one of two tensors of different dtypes on one storage");
  return NULL;
}

static situ_tensor *make_tensor(maker *m, const situ__pickle_tensor *p) {
  const situ__torch *t = m->walk.torch;
  const bool shared = t->uses[t->file[p->storage] - t->zip.entry] > 1;
  return situ_set_name(shared ? make_view(m, p) : situ__torch_tensor(t, m->walk.path, p), m->walk.path);
}

static situ_tensor *make_host(const void *data, size_t bytes, situ_shape shape, situ_dtype dtype) {
  return situ_from_host(data, bytes, shape, &(situ_options){ .dtype = dtype, .device = { .kind = SITU_CPU } });
}

/* The tensor of a leaf. */
static situ_tensor *make_leaf(maker *m, const situ__pickle_value *v) {
  switch ((situ__pickle_kind)v->kind) {
  case SITU__PICKLE_BOOL: return make_host(&(bool){ v->integer != 0 }, sizeof(bool), SITU_SCALAR, SITU_BOOL);
  case SITU__PICKLE_INTEGER: return make_host(&v->integer, sizeof v->integer, SITU_SCALAR, SITU_I64);
  case SITU__PICKLE_REAL: return make_host(&v->real, sizeof v->real, SITU_SCALAR, SITU_F64);
  case SITU__PICKLE_STRING: return make_host(v->text, v->length, SITU_SHAPE((int64_t)v->length), SITU_U8);
  default: return make_tensor(m, &m->walk.torch->pickle.tensor[v->number]);
  }
}

static situ_tree *make_tree(maker *m, uint32_t value);

/* The items of a list or dict, each under its key. */
static situ_tree *make_items(maker *m, const situ__pickle_value *v, bool dict) {
  const uint32_t step = dict ? 2 : 1;
  situ_tree *tree = dict ? situ_tree_dict() : situ_tree_list();
  for (uint32_t i = 0; i < v->count && tree; i += step) {
    const size_t length = m->walk.length;
    const situ__pickle_value *key = dict ? &m->walk.torch->pickle.value[v->item[i]] : NULL;
    const char *name;
    if (!situ__torch_enter(&m->walk, key, i, &name)) {
      situ_tree_free(tree);
      return NULL;
    }
    situ_tree *item = make_tree(m, v->item[i + step - 1]);
    tree = dict ? situ_tree_put(tree, name, item) : situ_tree_append(tree, item);
    situ__torch_leave(&m->walk, length);
  }
  return tree;
}

/* A value that is not part of a tree. */
static situ_tree *refuse_leaf(const maker *m, const situ__pickle_value *v) {
  char name[SITU__GLOBAL_NAME_MAX], what[SITU__GLOBAL_NAME_MAX + 80] = "a storage without a tensor";
  if (v->kind != SITU__PICKLE_STORAGE)
    (void)snprintf(what, sizeof what, "%s; only tensors, dicts, lists, numbers and strings are read",
                   situ__pickle_global_name(&m->walk.torch->pickle, v->number, name));
  refuse_value(&m->walk, SITU_E_UNSUPPORTED, what);
  return NULL;
}

static situ_tree *make_tree(maker *m, uint32_t value) {
  const situ__pickle_value *v = situ__torch_visit(&m->walk, value);
  if (!v) return NULL;
  switch ((situ__pickle_kind)v->kind) {
  case SITU__PICKLE_STORAGE:
  case SITU__PICKLE_GLOBAL:
  case SITU__PICKLE_OBJECT: return refuse_leaf(m, v);
  case SITU__PICKLE_NONE: return situ_tree_none();
  case SITU__PICKLE_TUPLE:
  case SITU__PICKLE_LIST: return make_items(m, v, false);
  case SITU__PICKLE_DICT:
  case SITU__PICKLE_ORDERED: return make_items(m, v, true);
  default: break;
  }
  situ_tensor **made = &m->made[value];
  if (!*made) *made = make_leaf(m, v);
  return *made ? situ_tree_tensor(*made) : NULL;
}

bool situ__torch_check_known(const situ__torch *t) {
  char name[SITU__GLOBAL_NAME_MAX];
  const uint32_t unknown = situ__pickle_first_unknown(&t->pickle);
  return !unknown ||
         (situ__fail(SITU_E_UNSUPPORTED, t->source.op,
                     "%s: calls %s; only tensors, dicts, lists, numbers and strings are read: save model.state_dict(), "
                     "or load the weights alone (situ_load_weights)",
                     t->source.path, situ__pickle_global_name(&t->pickle, unknown, name)),
          false);
}

situ_tree *situ__torch_tree(const situ__torch *t) {
  maker m;
  if (!situ__torch_check_known(t)) return NULL;
  situ_scope scope;
  situ__torch_walk_begin(&m.walk, t);
  m.made = situ__calloc((size_t)t->pickle.values + 1, sizeof *m.made);
  m.whole = situ__calloc((size_t)t->zip.count + 1, sizeof *m.whole);
  situ_tree *tree = NULL;
  situ_scope_begin_no_grad(&scope);
  if (m.made && m.whole) tree = make_tree(&m, t->pickle.root);
  else situ__no_memory(t->source.op, (size_t)t->pickle.values * sizeof *m.made);
  const situ_status status = situ_scope_end(&scope);
  situ__free(m.made);
  situ__free(m.whole);
  if (status == SITU_OK) return tree;
  situ_tree_free(tree);
  return NULL;
}
