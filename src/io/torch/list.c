/* Lists what torch.save wrote by path.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/text.h"
#include "io/format/file_type.h"
#include "torch.h"

/* A leaf of the tree, and where its path begins in the text. */
typedef struct leaf {
  uint32_t value;
  size_t path, shown; /* shown: the text of a number or string */
} leaf;

typedef struct lister {
  situ__torch_walk walk;
  leaf *leaf;
  size_t count, tensors;
  int64_t capacity;
  situ__text text; /* of NUL-terminated texts */
  size_t text_max;
} lister;

static bool no_memory(const lister *l) {
  return situ__no_memory(l->walk.torch->source.op, (size_t)l->capacity * sizeof *l->leaf), false;
}

/* Appends a text with its NUL; *at is where it begins. */
static bool add_text(lister *l, const char *text, size_t length, size_t *at) {
  *at = l->text.length;
  if (length > l->text_max - l->text.length) {
    const situ__zip_source *s = &l->walk.torch->source;
    return situ__fail(SITU_E_LIMIT, s->op, "%s: has paths that are longer than the file", s->path), false;
  }
  situ__text_append(&l->text, text, length);
  situ__text_append(&l->text, "", 1);
  return !l->text.failed || no_memory(l);
}

static bool add_shown(lister *l, const situ__pickle_value *v, size_t *at) {
  char digits[40];
  switch ((situ__pickle_kind)v->kind) {
  case SITU__PICKLE_STRING: return add_text(l, v->text, strlen(v->text), at);
  case SITU__PICKLE_BOOL: (void)snprintf(digits, sizeof digits, "%s", v->integer ? "true" : "false"); break;
  case SITU__PICKLE_INTEGER: (void)snprintf(digits, sizeof digits, "%" PRId64, v->integer); break;
  default: /* 17 digits are enough for each double, and 15 for those that were written by hand */
    (void)situ__format(digits, sizeof digits, "%.15g", v->real);
    if (situ__strtod(digits, NULL) != v->real) (void)situ__format(digits, sizeof digits, "%.17g", v->real);
  }
  return add_text(l, digits, strlen(digits), at);
}

static bool add_leaf(lister *l, uint32_t value, const situ__pickle_value *v) {
  if (!situ__grow(NULL, &l->leaf, &l->capacity, sizeof *l->leaf, l->count + 1)) return no_memory(l);
  leaf *to = &l->leaf[l->count];
  *to = (leaf){ .value = value };
  if (!add_text(l, l->walk.path, l->walk.length, &to->path)) return false;
  if (v->kind == SITU__PICKLE_TENSOR) l->tensors++;
  else if (!add_shown(l, v, &to->shown)) return false;
  l->count++;
  return true;
}

static bool list_value(lister *l, uint32_t value) {
  const situ__pickle *p = &l->walk.torch->pickle;
  const situ__pickle_value *v = &p->value[value];
  if (!situ__torch_visit(&l->walk, v)) return false;
  if (v->kind == SITU__PICKLE_NONE) return true;
  if (v->kind < SITU__PICKLE_TUPLE || v->kind > SITU__PICKLE_ORDERED) return add_leaf(l, value, v);
  const uint32_t step = v->kind >= SITU__PICKLE_DICT ? 2 : 1;
  bool fine = true;
  for (uint32_t i = 0; i < v->count && fine; i += step) {
    const size_t length = l->walk.length;
    const char *name;
    fine = situ__torch_enter(&l->walk, step == 2 ? &p->value[v->item[i]] : NULL, i, &name) &&
           list_value(l, v->item[i + step - 1]);
    if (fine) situ__torch_leave(&l->walk, length);
  }
  return fine;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ__torch_item *)a)->entry.name, ((const situ__torch_item *)b)->entry.name);
}

static bool refuse_twice(const situ__torch *t, const char *name) {
  char shown[SITU__SHOWN_MAX];
  return situ__fail(SITU_E_FORMAT, t->source.op, "%s: has '%s' twice", t->source.path, situ__shown(name, shown)), false;
}

static situ__torch_item make_item(const situ__torch *t, const char *name, uint32_t number) {
  const situ__pickle_tensor *p = &t->pickle.tensor[number];
  const situ_file_entry entry = { .name = name,
                                  .type = p->type->shown,
                                  .dtype = p->type->dtype,
                                  .shape = p->size,
                                  .bytes = p->bytes,
                                  .offset = t->file[p->storage]->offset + p->offset * p->type->bytes,
                                  .file = "" };
  return (situ__torch_item){ entry, number };
}

/* Sorts the leaves into the two lists, whose names are unique. */
static bool fill_list(const lister *l, situ__torch_list *list) {
  const situ__torch *t = l->walk.torch;
  list->item = situ__calloc(l->tensors + 1, sizeof *list->item);
  list->remark = situ__calloc(l->count - l->tensors + 1, sizeof *list->remark);
  if (!list->item || !list->remark) return no_memory(l);
  for (size_t i = 0; i < l->count; i++) {
    const situ__pickle_value *v = &t->pickle.value[l->leaf[i].value];
    const char *path = list->text + l->leaf[i].path;
    if (v->kind == SITU__PICKLE_TENSOR) list->item[list->count++] = make_item(t, path, v->number);
    else list->remark[list->remarks++] = (situ_metadata){ path, list->text + l->leaf[i].shown };
  }
  if (list->count > 1) qsort(list->item, (size_t)list->count, sizeof *list->item, by_name);
  if (list->remarks > 1) qsort(list->remark, (size_t)list->remarks, sizeof *list->remark, situ__metadata_by_key);
  for (int64_t i = 1; i < list->count; i++)
    if (by_name(&list->item[i - 1], &list->item[i]) == 0) return refuse_twice(t, list->item[i].entry.name);
  for (int64_t i = 1; i < list->remarks; i++)
    if (strcmp(list->remark[i - 1].key, list->remark[i].key) == 0) return refuse_twice(t, list->remark[i].key);
  return true;
}

bool situ__torch_list_make(situ__torch_list *list, const situ__torch *t) {
  lister l = { .text_max = ((size_t)1 << 20) + 256 * (size_t)t->pickle.values + t->pickle.texts_bytes };
  *list = (situ__torch_list){ 0 };
  situ__torch_walk_begin(&l.walk, t);
  bool fine = list_value(&l, t->pickle.root);
  list->text = l.text.data;
  fine = fine && fill_list(&l, list);
  situ__free(l.leaf);
  if (!fine) situ__torch_list_free(list);
  return fine;
}

void situ__torch_list_free(situ__torch_list *list) {
  situ__free(list->item);
  situ__free(list->remark);
  situ__free(list->text);
  *list = (situ__torch_list){ 0 };
}
