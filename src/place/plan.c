/* Plans of moves, without running them.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/handle.h"
#include "base/fail.h"
#include "base/map.h"
#include "base/text.h"
#include "place/place.h"
#include "place/draw/snapshot.h"
#include "situ/sys/tensor.h"

static const char *role(const situ_move_unit *u) {
  if (u->reason == SITU_MOVE_GRADIENT) return "gradient";
  if (u->reason == SITU_MOVE_FOLLOWER) return "follower";
  return situ_role_of(u->tensor) == SITU_ROLE_PARAMETER ? "parameter" : "buffer";
}

/* Paths below the module that is moved, by storage: a parameter's or buffer's, and "0.weight.grad" for a gradient; and
   the paths of others on the same storage. */
typedef struct names {
  situ__map by_storage; /* storage -> 1 + index into list */
  struct situ__named {
    char *path;
    situ__text ties; /* ", decoder.weight" */
  } * list;
  int64_t count, capacity;
} names;

static struct situ__named *find_name(const names *n, const situ_storage *storage) {
  const uintptr_t known = (uintptr_t)situ__map_get(&n->by_storage, storage);
  return known ? &n->list[known - 1] : NULL;
}

static bool add_name(names *n, const situ_tensor *t, const char *path, const char *suffix) {
  const situ_storage *storage = situ_desc(t)->storage;
  struct situ__named *known = find_name(n, storage);
  if (known) {
    if (!*suffix) situ__text_add(&known->ties, "%s%s", known->ties.length ? ", " : "", path);
    return !known->ties.failed;
  }
  if (!situ__grow(NULL, &n->list, &n->capacity, sizeof *n->list, n->count + 1)) return false;
  situ__text text = { 0 };
  situ__text_add(&text, "%s%s", path, suffix);
  if (text.failed || !situ__map_put(&n->by_storage, storage, (void *)(uintptr_t)(n->count + 1)))
    return situ__text_free(&text), false;
  n->list[n->count++] = (struct situ__named){ .path = text.data };
  return true;
}

static situ_status name_tensor(const situ_nn_visit *at, void *payload) {
  names *n = payload;
  const situ_tensor *grad = situ_grad(at->tensor);
  if (add_name(n, at->tensor, at->path, "") && (!grad || add_name(n, grad, at->path, ".grad"))) return SITU_OK;
  return situ__no_memory("place_plan", (size_t)n->capacity * sizeof *n->list);
}

static void free_names(names *n) {
  for (int64_t i = 0; i < n->count; i++) {
    situ__free(n->list[i].path);
    situ__text_free(&n->list[i].ties);
  }
  situ__free(n->list);
  situ__map_free(&n->by_storage);
}

static const char *name_of(const names *n, const situ_move_unit *u) {
  const struct situ__named *known = find_name(n, u->storage);
  if (known) return known->path;
  return u->tensor && *situ_name(u->tensor) ? situ_name(u->tensor) : "-";
}

/* "cpu -> sim:0", "cpu". */
static void way(const situ_move_unit *u, char out[2 * SITU_DEVICE_NAME_MAX + 8]) {
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  if (situ_device_equal(u->from, u->to))
    snprintf(out, 2 * SITU_DEVICE_NAME_MAX + 8, "%s", situ_device_name(u->from, a));
  else
    snprintf(out, 2 * SITU_DEVICE_NAME_MAX + 8, "%s -> %s", situ_device_name(u->from, a), situ_device_name(u->to, b));
}

static void cast(const situ_move_unit *u, char out[24]) {
  const char *a = situ_dtype_name((situ_dtype)u->from_dtype), *b = situ_dtype_name((situ_dtype)u->to_dtype);
  if (u->from_dtype == u->to_dtype) snprintf(out, 24, "%s", a);
  else snprintf(out, 24, "%s -> %s", a, b);
}

/* Why a storage is not moved. */
static const char *why_it_stays(const situ_move_unit *u, const situ_nn_to_options *o) {
  if (o->map && !o->dtype && situ_device_equal(u->from, u->to)) return "there already, or no pattern matches";
  if (o->dtype && !situ_dtype_is_floating((situ_dtype)u->from_dtype))
    return o->device.kind ? "there already; never cast" : "whole numbers are never cast";
  return "there already";
}

/* A line of the table, in two parts: the second is the same for equal parts of equal modules. */
typedef struct row {
  const char *name;
  size_t rest; /* offset of the second part in the text of all rows */
} row;

static void add_rest(situ__text *text, const names *n, const situ_move_unit *u, const situ_nn_to_options *o) {
  const struct situ__named *known = find_name(n, u->storage);
  char from[2 * SITU_DEVICE_NAME_MAX + 8], dtype[24], bytes[SITU__BYTES_TEXT];
  char part[SITU__PLACE_PART];
  way(u, from);
  cast(u, dtype);
  situ__text_add(text, " %-9s %-16s %-12s %10s", role(u), from, dtype, situ__bytes_text(u->bytes_after, bytes));
  if (u->tensor && situ__place_part(u->tensor, part)) situ__text_add(text, "  this rank's part: %s", part);
  if (!u->moves) situ__text_add(text, "  stays: %s", why_it_stays(u, o));
  else if (u->handles > 1) situ__text_add(text, "  %lld tensors share it", (long long)u->handles);
  if (known && known->ties.length) situ__text_add(text, "  tied: %s", known->ties.data);
  situ__text_append(text, "", 1);
}

/* ---- equal numbered modules, in one ---- */

typedef struct table {
  const row *rows;
  const char *rests;
  situ__text *out;
} table;

/* The level-th component of a path that is a number, from 0: its offset, and its length in *digits; 0 digits: none. */
static size_t find_number(const char *path, int level, size_t *digits) {
  for (const char *at = path; *at; at += strcspn(at, "."), at += *at == '.') {
    *digits = strspn(at, "0123456789");
    if (*digits && *digits < 10 && (!at[*digits] || at[*digits] == '.') && level-- == 0) return (size_t)(at - path);
  }
  return *digits = 0;
}

/* What follows the number `want` behind the first `length` bytes that path has in common with `like`; NULL: another. */
static const char *behind_number(const char *path, const char *like, size_t length, long want) {
  char *end;
  if (strncmp(path, like, length) != 0 || path[length] < '0' || path[length] > '9') return NULL;
  return strtol(path + length, &end, 10) == want && (!*end || *end == '.') ? end : NULL;
}

/* How many rows from `from` on are of the module with this number. */
static int64_t count_rows(const table *t, int64_t from, int64_t to, const char *like, size_t length, long number) {
  int64_t i = from;
  while (i < to && behind_number(t->rows[i].name, like, length, number)) i++;
  return i - from;
}

static bool rows_equal(const table *t, int64_t a, int64_t b, int64_t count, size_t length, long number, long next) {
  for (int64_t k = 0; k < count; k++) {
    const row *x = &t->rows[a + k], *y = &t->rows[b + k];
    const char *p = behind_number(x->name, x->name, length, number), *q = behind_number(y->name, x->name, length, next);
    if (!p || !q || strcmp(p, q) != 0 || strcmp(t->rests + x->rest, t->rests + y->rest) != 0) return false;
  }
  return true;
}

/* Adds rows; those of equal modules with consecutive numbers once, as "layers.0-11.weight". */
static void add_rows(const table *t, int64_t from, int64_t to, int level) {
  for (int64_t i = from; i < to;) {
    const char *name = t->rows[i].name;
    size_t digits, length = find_number(name, level, &digits);
    const long first = digits ? strtol(name + length, NULL, 10) : 0;
    const int64_t size = digits ? count_rows(t, i, to, name, length, first) : 1;
    long more = 0;
    while (digits && count_rows(t, i + (more + 1) * size, to, name, length, first + more + 1) == size &&
           rows_equal(t, i, i + (more + 1) * size, size, length, first, first + more + 1))
      more++;
    if (digits && !more) add_rows(t, i, i + size, level + 1);
    for (int64_t k = i; k < i + size && (more || !digits); k++) {
      char group[256];
      if (more)
        (void)snprintf(group, sizeof group, "%.*s%ld-%ld%s", (int)length, name, first, first + more,
                       t->rows[k].name + length + digits);
      situ__text_add(t->out, "%-36s%s", more ? group : name, t->rests + t->rows[k].rest);
      if (more) situ__text_add(t->out, "  %ld times", more + 1);
      situ__text_add(t->out, "\n");
    }
    i += size * (more + 1);
  }
}

static void add_table(situ__text *text, const names *n, const situ_move_unit *unit, int64_t count,
                      const situ_nn_to_options *o) {
  row *rows = situ__alloc((size_t)(count + 1) * sizeof *rows);
  situ__text rests = { 0 };
  for (int64_t i = 0; rows && i < count; i++) {
    rows[i] = (row){ name_of(n, &unit[i]), rests.length };
    add_rest(&rests, n, &unit[i], o);
  }
  if (rows && !rests.failed) add_rows(&(table){ rows, rests.data, text }, 0, count, 0);
  else text->failed = true;
  situ__text_free(&rests);
  situ__free(rows);
}

static void describe(situ__text *text, const names *n, const situ_move_plan *moving, const situ_nn_to_options *o,
                     const situ_place_plan *p) {
  char before[SITU__BYTES_TEXT], after[SITU__BYTES_TEXT], peak[SITU__BYTES_TEXT];
  int64_t count;
  const situ_move_unit *unit = situ_move_plan_units(moving, &count);
  situ__text_add(text, "%-36s %-9s %-16s %-12s %10s\n", "storage of", "role", "device", "dtype", "bytes");
  add_table(text, n, unit, count, o);
  situ__text_add(text, "%lld storages move (%s, then %s) with %lld tensors that look at them; %lld stay\n",
                 (long long)p->storages, situ__bytes_text(p->bytes, before), situ__bytes_text(p->after, after),
                 (long long)p->handles, (long long)p->stay);
  situ__text_add(text, "memory needed meanwhile, beyond today's: %s\n", situ__bytes_text(p->peak, peak));
}

static situ_status sum_up(const situ_move_plan *moving, situ_place_plan *p) {
  int64_t count;
  const situ_move_unit *unit = situ_move_plan_units(moving, &count);
  const uint64_t before = situ__error_count();
  *p = (situ_place_plan){ .peak = situ_move_plan_peak(moving) };
  if (situ__error_count() != before) return situ_error();
  for (int64_t i = 0; i < count; i++) {
    if (!unit[i].moves) {
      p->stay++;
      continue;
    }
    p->storages++;
    p->handles += unit[i].handles;
    p->bytes += unit[i].bytes;
    p->after += unit[i].bytes_after;
  }
  return SITU_OK;
}

/* A planned device holds no tensor: it says so where one is made. */
static situ_status check_planned(const situ_move_plan *moving) {
  int64_t count;
  const situ_move_unit *unit = situ_move_plan_units(moving, &count);
  for (int64_t i = 0; i < count; i++)
    if (unit[i].moves && unit[i].to.kind == SITU_PLAN)
      return situ_empty(SITU_SHAPE(0), &(situ_options){ .device = unit[i].to }) ? SITU_OK : situ_error();
  return SITU_OK;
}

/* Checks whether the move would be refused. Adds the error's text, and clears the thread's error. */
static void judge(situ__text *text, const situ_move_plan *moving, situ_place_plan *p) {
  situ__errors own;
  char message[1024];
  situ__errors_aside(&own);
  p->status = check_planned(moving);
  if (p->status == SITU_OK) p->status = situ_move_plan_check(moving);
  SITU_IGNORE(situ__errors_back(&own, message, sizeof message));
  if (p->status == SITU_OK) situ__text_add(text, "it can be made\n");
  else situ__text_add(text, "it would be refused: %s\n", message);
}

/* Adds the storages that would move, a few by name. */
static void list_moving(situ__text *text, const names *n, const situ_move_plan *moving, const situ_place_plan *p) {
  enum { NAMED = 8 };
  char device[SITU_DEVICE_NAME_MAX];
  int64_t count, named = 0;
  const situ_move_unit *unit = situ_move_plan_units(moving, &count);
  for (int64_t i = 0; i < count && named < NAMED; i++) {
    if (!unit[i].moves) continue;
    situ__text_add(text, "%s%s (%s, on %s)", named++ ? ", " : "", name_of(n, &unit[i]), role(&unit[i]),
                   situ_device_name(unit[i].from, device));
  }
  if (p->storages > named) situ__text_add(text, " and %lld more", (long long)(p->storages - named));
}

/* whole: with a table of all storages, and whether the move would be refused. */
static situ_status plan(const char *op, situ_nn_module *m, const situ_nn_to_options *options, bool whole,
                        situ__text *text, situ_place_plan *p) {
  SITU__CLAIM(claim);
  if (situ__is(SITU__A_MODULE, m) && !situ__claim_begin(&claim, situ__module_marks, m))
    return situ__busy(op, m->type->name), situ_error();
  char name[SITU_DEVICE_NAME_MAX];
  if (options && options->stream)
    return situ__fail(SITU_E_UNSUPPORTED, op, "a plan is of a move that is all or nothing: leave .stream out");
  situ__move_requests w;
  names n = { .count = 0 };
  situ_status status = situ__move_requests_of(&w, op, m, options);
  if (status == SITU_OK) status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS, name_tensor, &n);
  situ_move_plan *moving = status == SITU_OK ? situ__move_requests_plan(&w) : NULL;
  if (moving) {
    status = sum_up(moving, p);
    if (status == SITU_OK && !whole) list_moving(text, &n, moving, p);
    if (status == SITU_OK && whole) describe(text, &n, moving, options, p);
    if (status == SITU_OK && whole) judge(text, moving, p);
    if (status == SITU_OK && whole && options->device.kind && m->computes_on.kind)
      situ__text_add(text, "it would end the offloading: %s computes on %s now\n", m->type->name,
                     situ_device_name(m->computes_on, name));
  } else if (status == SITU_OK) {
    status = situ_error();
  }
  if (status == SITU_OK && text->failed) status = situ__no_memory(op, text->capacity);
  situ_move_plan_free(moving);
  situ__move_requests_free(&w);
  free_names(&n);
  return status;
}

situ_status situ_place_expect_on(situ_nn_module *m, situ_device device) {
  const char *op = "place_expect_on";
  const situ_nn_to_options options = { .device = device.kind ? device : situ_get_default_device() };
  situ__text text = { 0 };
  situ_place_plan p;
  situ_status status = plan(op, m, &options, false, &text, &p);
  char name[SITU_DEVICE_NAME_MAX];
  if (status == SITU_OK && p.storages)
    status = situ__fail(SITU_E_DEVICE, op, "not on %s: %s; situ_nn_to moves them",
                        situ_device_name(options.device, name), text.data);
  situ__text_free(&text);
  return status;
}

int64_t situ_place_plan_to_string(situ_nn_module *m, const situ_nn_to_options *options, situ_place_plan *out,
                                  char *buffer, size_t size) {
  const char *op = "place_plan_to_string";
  situ__text text = { 0 };
  situ_place_plan p;
  if (size && !buffer) return -(int64_t)situ__null(op, "buffer");
  if (plan(op, m, options, true, &text, &p) != SITU_OK) return situ__text_free(&text), -1;
  if (out) *out = p;
  return situ__text_deliver(op, &text, buffer, size);
}

situ_status situ_place_plan_print(situ_nn_module *m, const situ_nn_to_options *options) {
  situ__text text = { 0 };
  situ_place_plan p;
  situ_status status = plan("place_plan_print", m, options, true, &text, &p);
  if (status == SITU_OK) fputs(text.data, stdout);
  situ__text_free(&text);
  return status;
}
