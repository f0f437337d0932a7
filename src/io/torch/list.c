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
  size_t weight;      /* > 0: the tensor is of the state dict, under the end of its path from there */
} leaf;

/* A value that is not of the state dict. */
typedef struct left {
  size_t path;
  const char *why;
  size_t object; /* why is NULL: where the name of an object's class begins */
} left;

typedef struct lister {
  situ__torch_walk walk;
  leaf *leaf;
  left *left;
  size_t count, tensors, lefts, taken; /* taken: tensors of the state dict */
  int64_t capacity, left_capacity;
  const char *weights; /* the state dict's path; "": the whole */
  situ__text text;     /* of NUL-terminated texts */
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

static bool add_leaf(lister *l, uint32_t value, const situ__pickle_value *v, bool inside) {
  if (!situ__grow(NULL, &l->leaf, &l->capacity, sizeof *l->leaf, l->count + 1)) return no_memory(l);
  leaf *to = &l->leaf[l->count];
  *to = (leaf){ .value = value };
  if (!add_text(l, l->walk.path, l->walk.length, &to->path)) return false;
  if (v->kind != SITU__PICKLE_TENSOR) return l->count++, add_shown(l, v, &to->shown);
  to->weight = !inside ? 0 : *l->weights ? strlen(l->weights) + 2 : 1;
  l->taken += inside;
  l->tensors++;
  l->count++;
  return true;
}

/* ---- what is left ---- */

static bool add_left(lister *l, const situ__pickle_value *v, const char *why) {
  char name[SITU__GLOBAL_NAME_MAX], text[SITU__GLOBAL_NAME_MAX + 16];
  if (!situ__grow(NULL, &l->left, &l->left_capacity, sizeof *l->left, l->lefts + 1)) return no_memory(l);
  left *to = &l->left[l->lefts++];
  *to = (left){ .why = why };
  if (!add_text(l, l->walk.path, l->walk.length, &to->path) || why) return !l->text.failed;
  (void)snprintf(text, sizeof text, "%s%s", v->kind == SITU__PICKLE_OBJECT ? "an object of " : "",
                 situ__pickle_global_name(&l->walk.torch->pickle, v->number, name));
  return add_text(l, text, strlen(text), &to->object);
}

static const char *reason_of(const situ__pickle_value *v) {
  switch ((situ__pickle_kind)v->kind) {
  case SITU__PICKLE_NONE: return "None";
  case SITU__PICKLE_BOOL: return "a bool, not a tensor";
  case SITU__PICKLE_INTEGER:
  case SITU__PICKLE_REAL: return "a number, not a tensor";
  case SITU__PICKLE_STRING: return "a string, not a tensor";
  case SITU__PICKLE_STORAGE: return "a storage without a tensor";
  case SITU__PICKLE_TENSOR: return "a tensor outside of the state dict";
  default: return NULL; /* named by its class */
  }
}

static bool is_container(const situ__pickle_value *v) {
  return v->kind >= SITU__PICKLE_TUPLE && v->kind <= SITU__PICKLE_ORDERED;
}

/* Of a container of which nothing is taken, one line stands for all that it has. */
static bool join_left(lister *l, size_t first, const char *name) {
  const char *why = l->left[first].why;
  for (size_t i = first; i < l->lefts && why; i++)
    if (strcmp(l->left[i].why ? l->left[i].why : "", why) != 0) why = NULL;
  if (strstr(name, "optim")) why = "an optimiser's state";
  else if (strstr(name, "sched")) why = "a schedule's state";
  l->lefts = first;
  return add_left(l, NULL, why ? why : "values outside of the state dict");
}

/* The state dict of a checkpoint: a dict of tensors, under a name that programs give it; else the whole. */
static const char *find_weights(const situ__pickle *p) {
  static const char *const names[] = { "state_dict", "model_state_dict", "model" };
  const situ__pickle_value *root = &p->value[p->root];
  const bool dict = root->kind == SITU__PICKLE_DICT || root->kind == SITU__PICKLE_ORDERED;
  for (size_t k = 0; dict && k < sizeof names / sizeof *names; k++)
    for (uint32_t i = 0; i < root->count; i += 2) {
      const situ__pickle_value *key = &p->value[root->item[i]], *v = &p->value[root->item[i + 1]];
      if (key->kind != SITU__PICKLE_STRING || strcmp(key->text, names[k]) != 0) continue;
      if (v->kind != SITU__PICKLE_DICT && v->kind != SITU__PICKLE_ORDERED) continue;
      for (uint32_t j = 1; j < v->count; j += 2)
        if (p->value[v->item[j]].kind == SITU__PICKLE_TENSOR) return names[k];
    }
  return "";
}

/* ---- the walk ---- */

/* Whether the value at the path is of the state dict; inside: what it is in is. */
static bool is_inside(const lister *l, const situ__pickle_value *v, const char *name, bool inside) {
  if (l->walk.depth == 0) return !*l->weights && v->kind >= SITU__PICKLE_DICT && is_container(v);
  if (l->walk.depth > 1) return inside;
  return *l->weights ? strcmp(name, l->weights) == 0 : inside && !(is_container(v) && strstr(name, "optim"));
}

/* name: the last part of the path. */
static bool list_value(lister *l, uint32_t value, const char *name, bool inside) {
  const situ__pickle *p = &l->walk.torch->pickle;
  const situ__pickle_value *v = situ__torch_visit(&l->walk, value);
  if (!v) return false;
  inside = is_inside(l, v, name, inside);
  if (!is_container(v)) {
    const bool shown = v->kind >= SITU__PICKLE_BOOL && v->kind <= SITU__PICKLE_STRING;
    if ((shown || v->kind == SITU__PICKLE_TENSOR) && !add_leaf(l, value, v, inside)) return false;
    return (inside && v->kind == SITU__PICKLE_TENSOR) || add_left(l, v, reason_of(v));
  }
  /* Of TorchScript's modules only attributes are weights: lists have the same tensors again. */
  const bool weights =
      inside && (p->value[p->root].kind != SITU__PICKLE_OBJECT || p->value[value].kind == SITU__PICKLE_OBJECT);
  const uint32_t step = v->kind >= SITU__PICKLE_DICT ? 2 : 1;
  const size_t taken = l->taken, lefts = l->lefts;
  bool fine = true;
  for (uint32_t i = 0; i < v->count && fine; i += step) {
    const size_t length = l->walk.length;
    const char *part;
    fine = situ__torch_enter(&l->walk, step == 2 ? &p->value[v->item[i]] : NULL, i, &part) &&
           list_value(l, v->item[i + step - 1], part, weights);
    if (fine) situ__torch_leave(&l->walk, length);
  }
  return fine && (l->taken > taken || l->lefts == lefts || l->walk.depth == 0 || join_left(l, lefts, name));
}

/* Tensors that TorchScript's code has, frozen weights among them: they have no names. */
static bool add_constants(lister *l) {
  enum { EMPTY_TUPLE = 4 };
  const situ__torch *t = l->walk.torch;
  const situ__zip_entry *e = t->legacy ? NULL : situ__zip_find_inside(&t->zip, "constants.pkl");
  const char *name;
  if (!e || e->bytes <= EMPTY_TUPLE) return true;
  const situ__pickle_value key = { .kind = SITU__PICKLE_STRING, .text = "CONSTANTS" };
  return situ__torch_enter(&l->walk, &key, 0, &name) && add_left(l, NULL, "constants of TorchScript's code");
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ__torch_item *)a)->entry.name, ((const situ__torch_item *)b)->entry.name);
}

static bool refuse_twice(const situ__torch *t, const char *name) {
  char shown[SITU__SHOWN_MAX];
  return situ__fail(SITU_E_FORMAT, t->source.op, "%s: has '%s' twice", t->source.path, situ__shown(name, shown)), false;
}

static situ__torch_item make_item(const situ__torch *t, const char *name, uint32_t number, size_t weight) {
  const situ__pickle_tensor *p = &t->pickle.tensor[number];
  const situ_file_entry entry = { .name = name,
                                  .type = p->type->shown,
                                  .dtype = p->type->dtype,
                                  .shape = p->size,
                                  .bytes = p->bytes,
                                  .offset = t->file[p->storage]->offset + p->offset * p->type->bytes,
                                  .file = "" };
  return (situ__torch_item){ entry, number, weight ? name + weight - 1 : NULL };
}

/* Sorts the leaves into the two lists, whose names are unique. */
static bool fill_list(const lister *l, situ__torch_list *list) {
  const situ__torch *t = l->walk.torch;
  list->item = situ__calloc(l->tensors + 1, sizeof *list->item);
  list->remark = situ__calloc(l->count - l->tensors + 1, sizeof *list->remark);
  list->left = situ__calloc(l->lefts + 1, sizeof *list->left);
  if (!list->item || !list->remark || !list->left) return no_memory(l);
  for (size_t i = 0; i < l->count; i++) {
    const situ__pickle_value *v = &t->pickle.value[l->leaf[i].value];
    const char *path = list->text + l->leaf[i].path;
    if (v->kind == SITU__PICKLE_TENSOR) list->item[list->count++] = make_item(t, path, v->number, l->leaf[i].weight);
    else list->remark[list->remarks++] = (situ_metadata){ path, list->text + l->leaf[i].shown };
  }
  for (size_t i = 0; i < l->lefts; i++) {
    const left *from = &l->left[i];
    list->left[list->lefts++] =
        (situ_metadata){ list->text + from->path, from->why ? from->why : list->text + from->object };
  }
  if (list->lefts > 1) qsort(list->left, (size_t)list->lefts, sizeof *list->left, situ__metadata_by_key);
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
  l.weights = find_weights(&t->pickle);
  bool fine = list_value(&l, t->pickle.root, "", false) && add_constants(&l);
  list->text = l.text.data;
  fine = fine && fill_list(&l, list);
  situ__free(l.leaf);
  situ__free(l.left);
  if (!fine) situ__torch_list_free(list);
  return fine;
}

void situ__torch_list_free(situ__torch_list *list) {
  situ__free(list->item);
  situ__free(list->remark);
  situ__free(list->left);
  situ__free(list->text);
  *list = (situ__torch_list){ 0 };
}
