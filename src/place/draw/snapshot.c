/* Snapshots of a module's placement: the source of trees, pictures, JSON and lock files.
   SPDX-License-Identifier: MIT */
#include "place/draw/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/problem.h"
#include "situ/blocks.h"
#include "situ/autograd.h"
#include "situ/sys/part.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* While a snapshot grows its text moves, so entries store offsets (plus 1; 0: NULL). */
typedef struct builder {
  const char *op, *file; /* file: NULL unless entries come from a file */
  situ_snapshot *s;
  situ__text text;
  situ__map seen;                      /* storages and modules -> index of the entry, plus 1 */
  int64_t open[SITU__PLACE_DEPTH + 1]; /* the modules that contain the next entry */
  int depth;                           /* their number */
  const situ_snapshot_options *options;
  situ__map trained; /* storage -> index of its parameter in all optimisers together, plus 1 */
} builder;

static const char *keep(builder *b, const char *text) {
  size_t at = b->text.length;
  situ__text_append(&b->text, text, strlen(text) + 1);
  return (const char *)(uintptr_t)(at + 1);
}

static const char *kept(const builder *b, const char *at) { return b->text.data + ((uintptr_t)at - 1); }

/* ---- adding an entry ------------------------------------------------------------------------- */

static situ__snapshot_node *append_entry(builder *b, const char *path, situ_place_role role, const char *type) {
  situ_snapshot *s = b->s;
  if (!situ__grow(b->op, &s->node, &s->capacity, sizeof *s->node, s->count + 1)) return NULL;
  situ__snapshot_node *node = &s->node[s->count];
  *node = (situ__snapshot_node){ .entry = { .path = keep(b, path), .role = role, .type = keep(b, type) },
                                 .depth = b->depth,
                                 .device = -1,
                                 .parent = b->depth ? b->open[b->depth - 1] : -1,
                                 .end = s->count + 1,
                                 .tie = -1 };
  if (role == SITU_PLACE_MODULE) b->open[b->depth++] = s->count;
  s->count++;
  if (!b->text.failed) return node;
  return situ__no_memory(b->op, b->text.capacity), NULL;
}

/* Ends modules until `depth` of them are open. */
static void close_to(builder *b, int depth) {
  while (b->depth > depth) b->s->node[b->open[--b->depth]].end = b->s->count;
}

/* The list of devices is short: a linear search is as fast as a map. */
static int device_number(builder *b, situ_device device, int rank) {
  situ_snapshot *s = b->s;
  for (int d = 0; d < s->devices; d++)
    if (situ_device_equal(s->device[d].device, device) && s->device[d].rank == rank) return d;
  if (s->devices == SITU__PLACES) return situ__fail(SITU_E_LIMIT, b->op, "more than %d devices", SITU__PLACES), -1;
  s->device[s->devices].device = device;
  s->device[s->devices].rank = rank;
  s->several = s->several || rank > 0;
  return s->devices++;
}

/* `bytes` of e count unless it is tied to entry `tie`. */
static situ_status add_tensor(builder *b, const situ_place_entry *e, int64_t tie) {
  int number = device_number(b, e->device, e->rank);
  situ__snapshot_node *node = number < 0 ? NULL : append_entry(b, e->path, e->role, e->type);
  if (!node) return situ_error();
  situ_snapshot *s = b->s;
  node->device = number;
  node->tie = tie;
  node->entry.device = e->device;
  node->entry.rank = e->rank;
  node->entry.shape = e->shape;
  if (e->part) node->entry.part = keep(b, e->part);
  if (e->reason) node->entry.reason = keep(b, e->reason);
  if (e->by) node->entry.by = keep(b, e->by);
  if (e->at) node->entry.at = keep(b, e->at);
  if (b->text.failed) return situ__no_memory(b->op, b->text.capacity);
  if (tie >= 0) return SITU_OK;
  if (__builtin_add_overflow(s->bytes, e->bytes, &s->bytes))
    return situ__fail(SITU_E_OVERFLOW, b->op, "the bytes of all tensors do not fit in 64 bits");
  node->entry.bytes = e->bytes;
  for (int d = 0; d < b->depth; d++) s->node[b->open[d]].entry.bytes += e->bytes;
  s->device[number].bytes += e->bytes;
  s->device[number].tensors++;
  s->tensors++;
  return SITU_OK;
}

/* ---- finishing ------------------------------------------------------------------------------- */

static int by_device(const void *a, const void *b) {
  const situ__place_sum *x = a, *y = b;
  if (x->rank != y->rank) return x->rank - y->rank;
  return x->device.kind != y->device.kind ? x->device.kind - y->device.kind : x->device.index - y->device.index;
}

/* Sorts devices by rank and name, so that two snapshots of one model list them in the same order. */
static void sort_devices(situ_snapshot *s) {
  int now_at[SITU__PLACES];
  situ__place_sum was[SITU__PLACES];
  memcpy(was, s->device, sizeof was);
  qsort(s->device, (size_t)s->devices, sizeof *s->device, by_device);
  for (int d = 0; d < s->devices; d++)
    for (int n = 0; n < s->devices; n++)
      if (by_device(&was[d], &s->device[n]) == 0) now_at[d] = n;
  for (int64_t i = 0; i < s->count; i++)
    if (s->node[i].device >= 0) s->node[i].device = now_at[s->node[i].device];
}

/* Converts offsets to pointers, as the text does not move any more. Returns the snapshot, or NULL. */
static situ_snapshot *finish(builder *b, situ_status status) {
  situ_snapshot *s = b->s;
  close_to(b, 0);
  situ__map_free(&b->seen);
  if (status != SITU_OK) {
    situ__text_free(&b->text);
    situ_snapshot_free(s);
    return NULL;
  }
  s->text = b->text.data;
  sort_devices(s);
  for (int64_t i = 0; i < s->count; i++) {
    situ__snapshot_node *node = &s->node[i];
    node->entry.path = kept(b, node->entry.path);
    node->entry.type = kept(b, node->entry.type);
    const char **const given[] = { &node->entry.part, &node->entry.reason, &node->entry.by, &node->entry.at };
    for (int k = 0; k < 4; k++)
      if (*given[k]) *given[k] = kept(b, *given[k]);
    node->name = node->entry.path;
    if (node->tie >= 0) node->entry.tied = s->node[node->tie].entry.path;
    /* A name is the path without the path of the containing module. */
    size_t before = node->parent >= 0 ? strlen(s->node[node->parent].entry.path) : 0;
    if (before) node->name += before + 1;
  }
  return s;
}

static bool begin(builder *b, const char *op) {
  *b = (builder){ .op = op, .s = situ__handle_new(SITU__A_SNAPSHOT, sizeof *b->s) };
  if (!b->s) situ__no_memory(op, sizeof *b->s);
  return b->s != NULL;
}

/* ---- from a module --------------------------------------------------------------------------- */

static situ_place_role role_of(const situ_nn_slot *slot) {
  return slot->kind == SITU_NN_PARAMETER ? SITU_PLACE_PARAMETER
         : slot->kind == SITU_NN_BUFFER  ? SITU_PLACE_BUFFER
                                         : SITU_PLACE_TRANSIENT;
}

/* Notes that the next entry's storage has been met. */
static situ_status see(builder *b, const void *key, int64_t number) {
  if (situ__map_put(&b->seen, key, (void *)(uintptr_t)(number + 1))) return SITU_OK;
  return situ__no_memory(b->op, sizeof key);
}

static situ_status add_live_tensor(builder *b, const char *path, situ_place_role role, const situ_tensor *t) {
  const situ_storage *storage = situ_desc(t)->storage;
  const situ_block_type blocks = situ_block_type_of(t);
  situ_part part = { .whole = situ_shape_of(t) };
  char text[SITU__PLACE_PART];
  SITU_IGNORE(situ_part_of(t, &part));
  const int64_t tie = (int64_t)(uintptr_t)situ__map_get(&b->seen, storage) - 1, number = b->s->count;
  situ_facts facts;
  situ_place_entry entry = { .path = path,
                             .role = role,
                             .type = blocks ? situ_block_name(blocks) : situ_dtype_name(situ_dtype_of(t)),
                             .device = situ_device_of(t),
                             .shape = part.whole,
                             .bytes = situ__place_bytes(t),
                             .part = situ__place_part(t, text) };
  if (b->options->reasons && !situ__place_reason(b->op, t, &facts, &entry)) return situ_error();
  const situ_status status = add_tensor(b, &entry, tie);
  return status == SITU_OK && tie < 0 ? see(b, storage, number) : status;
}

/* ---- what does not move by itself: gradients, states, plain tensors ---- */

static situ_status add_beside(builder *b, const char *path, const char *what, situ_place_role role,
                              const situ_tensor *t) {
  situ__text text = { 0 };
  if (!t) return SITU_OK;
  situ__text_add(&text, "%s:%s", path, what);
  const situ_status status =
      text.failed ? situ__no_memory(b->op, text.capacity) : add_live_tensor(b, text.data, role, t);
  situ__text_free(&text);
  return status;
}

/* The states of the i-th parameter of all optimisers. */
static situ_status add_states(builder *b, const char *path, int64_t i) {
  situ_optim *const *o = b->options->optims;
  situ_status status = SITU_OK;
  for (; i >= situ_optim_count(*o); o++) i -= situ_optim_count(*o);
  for (int k = 0; k < SITU_OPTIM_STATES && status == SITU_OK; k++) {
    const char *name = "";
    const situ_tensor *t = situ_optim_state(*o, i, k, &name);
    status = add_beside(b, path, name, SITU_PLACE_STATE, t);
  }
  return status;
}

static situ_status add_company(builder *b, const char *path, const situ_tensor *t) {
  const int64_t i = (int64_t)(uintptr_t)situ__map_get(&b->trained, situ_desc(t)->storage) - 1;
  const situ_status status =
      b->options->gradients ? add_beside(b, path, "grad", SITU_PLACE_GRAD, situ_grad(t)) : SITU_OK;
  return status == SITU_OK && i >= 0 ? add_states(b, path, i) : status;
}

/* The fields of a module's struct. */
static situ_status add_plain(builder *b, const char *path, const situ_nn_module *m) {
  situ_status status = SITU_OK;
  char name[64];
  for (size_t at = sizeof *m; at + sizeof(void *) <= m->type->size && status == SITU_OK; at += sizeof(void *)) {
    const situ_tensor *t = *(situ_tensor *const *)(const void *)((const char *)m + at);
    if ((uintptr_t)t < 4096 || (uintptr_t)t >> 56 || !situ_is_tensor(t) || situ_is_registered(t)) continue;
    (void)snprintf(name, sizeof name, "%s", situ_name(t));
    if (!*name) (void)snprintf(name, sizeof name, "+%zu", at);
    situ__text text = { 0 };
    situ__text_add(&text, "%s%s%s", path, *path ? "." : "", name);
    status =
        text.failed ? situ__no_memory(b->op, text.capacity) : add_beside(b, text.data, "plain", SITU_PLACE_PLAIN, t);
    situ__text_free(&text);
  }
  return status;
}

/* Finds whose states a snapshot shows. Returns false after recording an error. */
static bool note_trained(builder *b) {
  int64_t number = 0;
  if (b->options->optim_count > 0 && !b->options->optims) return situ__null(b->op, "options->optims"), false;
  for (int64_t k = 0; k < b->options->optim_count; k++) {
    if (!situ__valid(b->op, "options->optims", b->options->optims[k], SITU__AN_OPTIMISER)) return false;
    for (int64_t i = 0; i < situ_optim_count(b->options->optims[k]); i++) {
      const situ_tensor *t = situ_optim_param(b->options->optims[k], i, NULL);
      if (!situ__map_put(&b->trained, situ_desc(t)->storage, (void *)(uintptr_t)++number))
        return situ__no_memory(b->op, sizeof t), false;
    }
  }
  return true;
}

static situ_status visit(const situ_nn_visit *at, void *payload) {
  builder *b = payload;
  if (at->leaving) {
    close_to(b, at->depth);
    return SITU_OK;
  }
  if (at->tensor) {
    const bool tied = situ__map_get(&b->seen, situ_desc(at->tensor)->storage);
    const situ_status status = add_live_tensor(b, at->path, role_of(at->slot), at->tensor);
    return status == SITU_OK && !tied ? add_company(b, at->path, at->tensor) : status;
  }
  const int64_t tie = (int64_t)(uintptr_t)situ__map_get(&b->seen, at->module) - 1, number = b->s->count;
  situ__snapshot_node *node = append_entry(b, at->path, SITU_PLACE_MODULE, at->module->type->name);
  if (!node) return situ_error();
  node->tie = tie;
  node->entry.device = situ_nn_offloaded_to(at->module);
  if (tie >= 0) return SITU_OK;
  const situ_status status = see(b, at->module, number);
  return status == SITU_OK && b->options->plain ? add_plain(b, at->path, at->module) : status;
}

situ_snapshot *situ_place_snapshot_with(situ_nn_module *m, const situ_snapshot_options *options) {
  builder b;
  const situ_snapshot_options none = { 0 };
  if (!situ__valid("place_snapshot", "module", m, SITU__A_MODULE)) return NULL;
  if (!begin(&b, "place_snapshot")) return NULL;
  b.options = options ? options : &none;
  const situ_status status =
      note_trained(&b) ? situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_MODULES | SITU_NN_VISIT_LEAVE, visit, &b)
                       : situ_error();
  situ__map_free(&b.trained);
  return finish(&b, status);
}

situ_snapshot *situ_place_snapshot(situ_nn_module *m) { return situ_place_snapshot_with(m, NULL); }

/* ---- from a list of entries ------------------------------------------------------------------ */

/* True if the first `length` bytes of `path` are the path of open module d. */
static bool is_open(const builder *b, int d, const char *path, size_t length) {
  const char *open = kept(b, b->s->node[b->open[d]].entry.path);
  return strncmp(open, path, length) == 0 && !open[length];
}

/* A hash as a key for the map: there are many names, and collisions are rare. */
static const void *key_of(const char *path) { return (const void *)(uintptr_t)(situ__hash_text(path) | 1); }

/* The tensor of a path; -1: there is none yet. */
static int64_t find(const builder *b, const char *path) {
  int64_t i = (int64_t)(uintptr_t)situ__map_get(&b->seen, key_of(path)) - 1;
  if (i < 0 || strcmp(kept(b, b->s->node[i].entry.path), path) == 0) return i;
  for (i = b->s->count - 1; i >= 0; i--)
    if (b->s->node[i].device >= 0 && strcmp(kept(b, b->s->node[i].entry.path), path) == 0) break;
  return i;
}

/* Opens the modules in a path, up to its last dot, and closes the others. */
static bool open_modules(builder *b, const char *path) {
  if (b->depth == 0 && !append_entry(b, "", SITU_PLACE_MODULE, "")) return false;
  int depth = 1;
  for (const char *dot = path; depth < SITU__PLACE_DEPTH && (dot = strchr(dot, '.')); dot++) {
    size_t length = (size_t)(dot - path);
    if (depth >= b->depth || !is_open(b, depth, path, length)) {
      close_to(b, depth);
      situ__text part = { 0 };
      situ__text_append(&part, path, length);
      bool added = !part.failed && append_entry(b, part.data, SITU_PLACE_MODULE, "");
      if (part.failed) situ__no_memory(b->op, length);
      situ__text_free(&part);
      if (!added) return false;
    }
    depth++;
  }
  close_to(b, depth);
  return true;
}

/* Records an invalid entry as an error of the caller, or of a file. */
static situ_status refuse(const builder *b, const char *path, const char *what) {
  char shown[SITU__SHOWN_MAX];
  return situ__fail(b->file ? SITU_E_FORMAT : SITU_E_ARG, b->op, "%s%s'%s' %s", b->file ? b->file : "",
                    b->file ? ": " : "", situ__shown(path, shown), what);
}

/* As situ__place_part writes it. */
static bool is_part(const char *part) {
  const size_t length = strlen(part);
  return length > 2 && length < SITU__PLACE_PART && part[0] == '[' && part[length - 1] == ']' &&
         strspn(part + 1, "0123456789:,+") == length - 2;
}

static situ_status add_entry(builder *b, const situ_place_entry *e) {
  bool known = (unsigned)e->role < SITU_PLACE_ROLES && e->device.kind < SITU_DEVICE_KINDS && e->rank >= 0;
  if (!e->path || !e->type) return situ__null(b->op, e->path ? "type" : "path");
  if (!known || e->shape.ndim < 0 || e->shape.ndim > SITU_MAX_DIMS)
    return refuse(b, e->path, "has a role, device, rank or shape that is none");
  if (e->part && !is_part(e->part)) return refuse(b, e->path, "has a part that is not as \"[0:48]\"");
  if (e->reason && !situ__place_is_reason(e->reason)) return refuse(b, e->path, "has a reason that is none");
  bool module = e->role == SITU_PLACE_MODULE, root = module && !*e->path;
  if (root && b->s->count) return refuse(b, e->path, "is the root, and must come first");
  if (!root && !open_modules(b, e->path)) return situ_error();
  if (module) return append_entry(b, e->path, e->role, e->type) ? SITU_OK : situ_error();
  if (find(b, e->path) >= 0) return refuse(b, e->path, "is there twice");
  int64_t tie = e->tied ? find(b, e->tied) : -1, number = b->s->count;
  if (e->tied && tie < 0) return refuse(b, e->path, "is tied to what does not come before it");
  situ_status status = add_tensor(b, e, tie);
  if (status == SITU_OK && !situ__map_put(&b->seen, key_of(e->path), (void *)(uintptr_t)(number + 1)))
    status = situ__no_memory(b->op, sizeof *e);
  return status;
}

situ_snapshot *situ__snapshot_of(const char *op, const char *file, const situ_place_entry *entries, int64_t count) {
  builder b;
  if (!begin(&b, op)) return NULL;
  b.file = file;
  situ_status status = SITU_OK;
  for (int64_t i = 0; i < count && status == SITU_OK; i++) status = add_entry(&b, &entries[i]);
  return finish(&b, status);
}

situ_snapshot *situ_snapshot_of(const situ_place_entry *entries, int64_t count) {
  if (entries || count == 0) return situ__snapshot_of("snapshot_of", NULL, entries, count);
  return situ__null("snapshot_of", "entries"), NULL;
}

/* ---- queries --------------------------------------------------------------------------------- */

void situ_snapshot_free(situ_snapshot *snapshot) {
  if (!snapshot || !situ__valid("snapshot_free", "snapshot", snapshot, SITU__A_SNAPSHOT)) return;
  situ__free(snapshot->node);
  situ__free(snapshot->text);
  situ__handle_free(snapshot, sizeof *snapshot, NULL);
}

int64_t situ_snapshot_count(const situ_snapshot *snapshot) {
  return snapshot && situ__valid("snapshot_count", "snapshot", snapshot, SITU__A_SNAPSHOT) ? snapshot->count : 0;
}

const situ_place_entry *situ_snapshot_at(const situ_snapshot *snapshot, int64_t i) {
  if (!snapshot || !situ__valid("snapshot_at", "snapshot", snapshot, SITU__A_SNAPSHOT)) return NULL;
  return i >= 0 && i < snapshot->count ? &snapshot->node[i].entry : NULL;
}

const char *situ__place_name(const situ_snapshot *s, int rank, situ_device device, char buffer[SITU__PLACE_NAME]) {
  char name[SITU_DEVICE_NAME_MAX];
  if (!s->several) return situ_device_name(device, buffer);
  (void)snprintf(buffer, SITU__PLACE_NAME, "rank %d, %s", rank, situ_device_name(device, name));
  return buffer;
}

const char *situ__place_between(const situ_snapshot *s) { return s->several ? "; " : ", "; }

int situ__place_spread(const situ_snapshot *s, int64_t i, situ__place_sum *sum, int *first) {
  int count = 0;
  for (int d = 0; d < s->devices; d++)
    sum[d] = (situ__place_sum){ .device = s->device[d].device, .rank = s->device[d].rank };
  for (int64_t k = i; k < s->node[i].end; k++) {
    const situ__snapshot_node *node = &s->node[k];
    if (node->device < 0) continue;
    sum[node->device].bytes += node->entry.bytes;
    sum[node->device].tensors++;
  }
  for (int d = s->devices - 1; d >= 0; d--) {
    if (!sum[d].tensors) continue;
    count++;
    *first = d;
  }
  return count;
}

situ_status situ_place_of(situ_nn_module *m, situ_placement *out) {
  if (!situ__valid("place_of", "module", m, SITU__A_MODULE) || !situ__given("place_of", "out", out))
    return situ_error();
  situ_snapshot *s = situ_place_snapshot(m);
  if (!s) return situ_error();
  *out = (situ_placement){ .bytes = s->bytes, .mixed = s->devices > 1 };
  if (s->devices == 1) out->device = s->device[0].device;
  for (int64_t i = 0; i < s->count; i++) {
    const situ__snapshot_node *node = &s->node[i];
    if (node->device < 0 || node->tie >= 0) continue;
    if (node->entry.role == SITU_PLACE_PARAMETER) out->parameters++;
    else out->buffers++;
  }
  situ_snapshot_free(s);
  return SITU_OK;
}
