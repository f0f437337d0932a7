/* How long copies between devices take: measured once for each two devices, by a short and a long copy.
   SPDX-License-Identifier: MIT */
#include "base/busy.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/mutex.h"
#include "place/place.h"
#include "situ/place/fit.h"
#include "situ/sys/dry.h"

enum { SHORT = 4 << 10, LONG = 8 << 20, TRIES = 3, PAIRS = 64 };

typedef struct speed {
  situ_device from, to;
  double each, byte; /* seconds of a copy, and of a byte more */
} speed;

/* The mean of a few copies, the first of which is into memory that was not used before. Returns false after recording
   an error. */
static bool time_copy(situ_device from, situ_device to, int64_t bytes, double *seconds) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *x = situ_zeros(SITU_SHAPE(bytes), &(situ_options){ .dtype = SITU_U8, .device = from });
  bool good = x && situ_synchronize(from) == SITU_OK;
  *seconds = 0;
  for (int i = 0; i < TRIES && good; i++) {
    situ_scope each;
    situ_scope_begin(&each);
    const double before = situ__seconds();
    good = situ_to(x, to) && situ_synchronize(to) == SITU_OK;
    *seconds += (situ__seconds() - before) / TRIES;
    good = situ_scope_end(&each) == SITU_OK && good;
  }
  return situ_scope_end(&scope) == SITU_OK && good;
}

/* The speed that the profiles of planned devices say, the lower of two. Returns false after recording an error. */
static bool read_planned(const char *op, speed *s) {
  const situ_device end[] = { s->from, s->to };
  for (int i = 0; i < 2; i++) {
    situ_device_properties has;
    char name[SITU_DEVICE_NAME_MAX];
    if (end[i].kind != SITU_PLAN) continue;
    if (situ_device_info(end[i], &has) != SITU_OK) return false;
    if (!has.copy_rate)
      return situ__fail(SITU_E_ARG, op, "the profile of %s says no speed of copies; add it, as in \"24 GiB, 12 GB/s\"",
                        situ_device_name(end[i], name)),
             false;
    if (1 / (double)has.copy_rate > s->byte) s->byte = 1 / (double)has.copy_rate;
  }
  return true;
}

static bool measure(speed *s) {
  double few = 0, many = 0;
  if (!time_copy(s->from, s->to, SHORT, &few) || !time_copy(s->from, s->to, LONG, &many)) return false;
  s->byte = many > few ? (many - few) / (LONG - SHORT) : 0;
  s->each = few;
  return true;
}

/* Returns false after recording an error. */
static bool find_speed(const char *op, situ_device from, situ_device to, speed *out) {
  static situ__mutex lock = SITU__MUTEX_INIT;
  static speed known[PAIRS];
  static int next;
  bool found = false;
  if (!from.kind || !to.kind || from.kind == SITU_META || to.kind == SITU_META || !situ_device_is_available(from) ||
      !situ_device_is_available(to))
    return situ__fail(SITU_E_ARG, op, "give two devices that are there, and have memory"), false;
  if (from.kind == SITU_PLAN || to.kind == SITU_PLAN) {
    *out = (speed){ .from = from, .to = to };
    return read_planned(op, out);
  }
  if (situ_dry_refuse(op) != SITU_OK) return false;
  situ__mutex_lock(&lock);
  for (int i = 0; i < PAIRS && !found; i++)
    if (situ_device_equal(known[i].from, from) && situ_device_equal(known[i].to, to)) {
      *out = known[i];
      found = true;
    }
  situ__mutex_unlock(&lock);
  if (found) return true;
  *out = (speed){ .from = from, .to = to };
  if (!measure(out)) return false;
  situ__mutex_lock(&lock);
  known[next++ % PAIRS] = *out;
  situ__mutex_unlock(&lock);
  return true;
}

/* Adds the seconds of `count` copies that have so many bytes together. Returns false after recording an error. */
static bool add_copies(const char *op, situ_device from, situ_device to, int64_t count, uint64_t bytes,
                       double *seconds) {
  speed s;
  if (situ_device_equal(from, to) || !bytes) return true;
  if (!find_speed(op, from, to, &s)) return false;
  *seconds += (double)count * s.each + (double)bytes * s.byte;
  return true;
}

situ_status situ_place_layout_seconds(const situ_place_layout *layout, double *seconds) {
  static const char op[] = "place_layout_seconds";
  double sum = 0;
  if (!situ__given(op, "layout", layout) || !situ__given(op, "seconds", seconds)) return situ_error();
  for (int64_t i = 0; i < layout->check.edge_count; i++) {
    const situ_place_edge *e = &layout->check.edges[i];
    if (!add_copies(op, e->from_device, e->to_device, e->count, e->bytes, &sum)) return situ_error();
  }
  *seconds = sum;
  return SITU_OK;
}

/* Bytes from one device to another. */
typedef struct trip {
  situ_device from, to;
  uint64_t bytes;
} trip;

/* Adds a storage that moves to the trips; the last has what is more than can be told apart. */
static void add_unit(trip list[PAIRS], int *count, const situ_move_unit *u) {
  int k = 0;
  if (!u->moves || u->from.kind == SITU_META || u->to.kind == SITU_META) return;
  while (k < *count && !(situ_device_equal(list[k].from, u->from) && situ_device_equal(list[k].to, u->to))) k++;
  if (k == PAIRS) k--;
  if (k == *count) list[(*count)++] = (trip){ u->from, u->to, 0 };
  list[k].bytes +=
      u->bytes < u->bytes_after ? u->bytes : u->bytes_after; /* casts are made where there is less to copy */
}

situ_status situ_place_plan_seconds(situ_nn_module *m, const situ_nn_to_options *options, double *seconds) {
  static const char op[] = "place_plan_seconds";
  trip list[PAIRS];
  int trips = 0;
  double sum = 0;
  int64_t count = 0;
  SITU__CLAIM(claim);
  if (!situ__given(op, "seconds", seconds)) return situ_error();
  if (situ__is(SITU__A_MODULE, m) && !situ__claim_begin(&claim, situ__module_marks, m))
    return situ__busy(op, m->type->name), situ_error();
  situ__move_requests w;
  situ_status status = situ__move_requests_of(&w, op, m, options);
  situ_move_plan *moving = status == SITU_OK ? situ_move_plan_new(op, w.list, w.count) : NULL;
  if (status == SITU_OK && !moving) status = situ_error();
  const situ_move_unit *unit = moving ? situ_move_plan_units(moving, &count) : NULL;
  for (int64_t i = 0; i < count; i++) add_unit(list, &trips, &unit[i]);
  situ_move_plan_free(moving);
  situ__move_requests_free(&w);
  for (int k = 0; k < trips && status == SITU_OK; k++) /* small ones are packed: one copy */
    if (!add_copies(op, list[k].from, list[k].to, 1, list[k].bytes, &sum)) status = situ_error();
  if (status == SITU_OK) *seconds = sum;
  return status;
}
