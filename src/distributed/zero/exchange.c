/* Behind a step of stages 1 and 2: all ranks get the elements that others have stepped. What a rank has of one dtype
   and device is a sequence, which goes in pieces: those of all ranks in one all_gather.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/size.h"
#include "zero.h"

static const char step_op[] = "dist_zero_step";

enum { IN_FLIGHT = 2, WAITS = -1, STAYS = -2 };

/* Parameters of a deal, one behind the other, of one dtype and device: all of it, unless the program has cast or moved
   some. All ranks have as many elements of it in their sequences: as the longest share. */
typedef struct span {
  int64_t deal, begin, end; /* elements */
  int64_t first, behind;    /* parameters; -1: the last one is in it */
  int64_t each;             /* elements of a rank */
  int64_t place;            /* where they begin in the sequence; WAITS: in a later one; STAYS: in none */
  bool filled;              /* this rank has as many, and sends all */
} span;

/* Elements [start, start + count) of all sequences, in spans from number `first` on. */
typedef struct piece {
  int64_t first, start, count;
  situ_comm_request *request;
} piece;

typedef struct exchange {
  const situ_dist_zero *z;
  situ_dtype dtype; /* of the sequences that are exchanged now, with that of their first parameter */
  situ_device device;
  const char *name;
  span *spans;
  int64_t span_count;
  int64_t length; /* of a sequence */
  piece pieces[IN_FLIGHT];
  int next; /* of the pieces: the one that is used next, and has been on its way for longest */
} exchange;

static situ_tensor *parameter_at(const situ_dist_zero *z, int64_t i) { return situ_tree_tensor_at(z->parameters, i); }

/* ---- sequences ---- */

static bool are_alike(const situ_tensor *a, const situ_tensor *b) {
  return situ_dtype_of(a) == situ_dtype_of(b) && situ_device_equal(situ_device_of(a), situ_device_of(b));
}

/* The parameters of a deal from number i on. Returns the one behind them. */
static int64_t add_span(exchange *x, int64_t deal, int64_t i) {
  const situ_dist_zero *z = x->z;
  const situ__zero_deal *d = &z->deals[deal];
  span s = { .deal = deal, .begin = z->places[i].offset, .first = i, .place = STAYS, .filled = true };
  for (s.end = s.begin; i >= 0 && are_alike(parameter_at(z, s.first), parameter_at(z, i)); i = z->places[i].next) {
    const bool steps = situ__zero_has_gradient(z, i);
    if (steps) s.place = WAITS;
    s.filled = s.filled && steps;
    s.end += situ_numel(parameter_at(z, i));
  }
  const int rank = z->comm->rank, size = z->comm->size;
  const int64_t from = situ__max_i64(situ__dist_dealt(d->before, d->count, rank, size), s.begin),
                to = situ__min_i64(situ__dist_dealt(d->before, d->count, rank + 1, size), s.end);
  s.each = situ__min_i64(situ__ceil_div(d->count, size), s.end - s.begin);
  s.filled = s.filled && to - from == s.each;
  s.behind = i;
  x->spans[x->span_count++] = s;
  return i;
}

static void add_spans(exchange *x) {
  const situ_dist_zero *z = x->z;
  for (int64_t deal = 0; deal < z->deal_count; deal++)
    for (int64_t i = z->deals[deal].first; i >= 0;) i = add_span(x, deal, i);
}

/* Puts spans of the next dtype and device in sequence. Returns false if there are none. */
static bool begin_sequences(exchange *x) {
  x->name = NULL;
  x->length = 0;
  for (int64_t k = 0; k < x->span_count; k++) {
    span *s = &x->spans[k];
    const situ_tensor *t = parameter_at(x->z, s->first);
    if (s->place >= 0) s->place = STAYS;
    if (s->place == STAYS) continue;
    if (!x->name) {
      x->dtype = situ_dtype_of(t);
      x->device = situ_device_of(t);
      x->name = situ_tree_key(x->z->parameters, s->first);
    }
    if (x->dtype != situ_dtype_of(t) || !situ_device_equal(x->device, situ_device_of(t))) continue;
    s->place = x->length;
    x->length += s->each;
  }
  return x->name != NULL;
}

/* ---- pieces ---- */

/* Sends what a piece has of this rank's elements, or writes those that have arrived into the parameters. */
static bool carry_span(const exchange *x, const piece *f, const span *s, bool sends) {
  const situ_dist_zero *z = x->z;
  const int64_t from = situ__max_i64(f->start - s->place, 0),
                to = situ__min_i64(f->start + f->count - s->place, s->each);
  const situ__zero_slice slice = { .begin = s->begin,
                                   .end = s->end,
                                   .from = from,
                                   .count = to - from,
                                   .at = s->place + from - f->start,
                                   .block = f->count };
  for (int64_t i = s->first; i != s->behind; i = z->places[i].next)
    if (situ__zero_has_gradient(z, i) &&
        !(sends ? situ__zero_put_slice(z, i, &slice, f->request)
                : situ__zero_write_slice(z, i, parameter_at(z, i), &slice, f->request, z->comm->rank)))
      return false;
  return true;
}

static bool carry_piece(const exchange *x, const piece *f, bool sends) {
  bool good = true;
  for (int64_t k = f->first; good && k < x->span_count && x->spans[k].place < f->start + f->count; k++)
    good = x->spans[k].place < 0 || carry_span(x, f, &x->spans[k], sends);
  return good;
}

/* Whether this rank has as many elements as it sends. */
static bool is_filled(const exchange *x, const piece *f) {
  bool filled = true;
  for (int64_t k = f->first; k < x->span_count && x->spans[k].place < f->start + f->count; k++)
    filled = filled && (x->spans[k].place < 0 || x->spans[k].filled);
  return filled;
}

static bool receive_piece(const exchange *x, piece *f) {
  const bool good = !f->request || (situ__comm_finish(step_op, f->request) && carry_piece(x, f, false));
  situ__comm_close(f->request);
  f->request = NULL;
  return good;
}

static bool send_piece(exchange *x, piece with) {
  situ_comm *c = x->z->comm;
  piece *f = &x->pieces[x->next];
  x->next = (x->next + 1) % IN_FLIGHT;
  if (!receive_piece(x, f)) return false;
  const situ_comm_call call = { SITU_COMM_ALL_GATHER, .dtype = x->dtype, .count = with.count, .name = x->name };
  *f = with;
  f->request = situ__comm_open_for(step_op, c, &call, situ__comm_way_on(c, &call, x->device));
  if (!f->request || (!is_filled(x, f) && !situ__comm_clear(f->request)) || !carry_piece(x, f, true)) return false;
  situ__comm_post(c, f->request);
  return true;
}

static bool exchange_sequences(exchange *x) {
  const int64_t most = SITU__ZERO_PIECE / ((int64_t)situ_dtype_size(x->dtype) * x->z->comm->size);
  bool good = true;
  for (int64_t at = 0, k = 0; good && at < x->length; at += most) {
    while (x->spans[k].place < 0 || x->spans[k].place + x->spans[k].each <= at) k++;
    good = send_piece(x, (piece){ k, at, situ__min_i64(most, x->length - at), NULL });
  }
  for (int i = 0; good && i < IN_FLIGHT; i++) good = receive_piece(x, &x->pieces[(x->next + i) % IN_FLIGHT]);
  return good;
}

static bool exchange_all(exchange *x) {
  const size_t bytes = ((size_t)situ_tree_count(x->z->parameters) + 1) * sizeof *x->spans;
  if (!(x->spans = situ__alloc(bytes))) return situ__no_memory(step_op, bytes), false;
  add_spans(x);
  bool good = true;
  while (good && begin_sequences(x)) good = exchange_sequences(x);
  for (int i = 0; i < IN_FLIGHT; i++) situ__comm_close(x->pieces[i].request);
  situ__free(x->spans);
  return good;
}

bool situ__zero_exchange(const situ_dist_zero *z) {
  if (z->comm->size == 1) return true;
  exchange x = { .z = z };
  SITU__ALONE(in, &z->comm->alone, step_op, "this communicator");
  if (!in) return false;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = exchange_all(&x);
  if (!good)
    situ__comm_fail(z->comm, SITU_E_COMM, z->comm->rank, "rank %d gave up in the exchange of parameters: %.159s",
                    z->comm->rank, situ_error_message());
  return situ_scope_end(&s) == SITU_OK && good;
}
