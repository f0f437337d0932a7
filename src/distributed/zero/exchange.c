/* Behind a step of stages 1 and 2: all ranks get the elements that others have stepped. The parts that a rank has of
   one dtype and device are a sequence, which goes in pieces: those of all ranks in one all_gather, or, where few ranks
   have any, a broadcast of each of these.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/size.h"
#include "zero.h"

static const char step_op[] = "dist_zero_step";

/* Bytes that a call brings: they bound its memory, and each call costs headers. Pieces on their way at once. */
enum { PIECE_BYTES = 25 << 20, IN_FLIGHT = 2 };

/* Elements [start, start + count) of the sequence of rank `root`; of all ranks, if that is -1. */
typedef struct piece {
  int root;
  int64_t start, count;
  situ_comm_request *request;
} piece;

enum { WAITS = -1, STAYS = -2 };
typedef struct exchange {
  const situ_dist_zero *z;
  situ_dtype dtype; /* of the sequences that are exchanged now, with that of their first part */
  situ_device device;
  const char *name;
  int64_t *place;  /* per part: its start in its rank's sequence; WAITS: it is in a later one; STAYS: in none */
  int64_t *length; /* per rank: elements of its sequence */
  piece pieces[IN_FLIGHT];
  int next; /* of the pieces: the one that is used next, and has been on its way for longest */
} exchange;

/* Puts parts of the next dtype and device in sequence. Returns false if there are none. */
static bool begin_sequences(exchange *x) {
  x->name = NULL;
  memset(x->length, 0, (size_t)x->z->comm->size * sizeof *x->length);
  for (int64_t k = 0; k < x->z->part_count; k++) {
    const situ__zero_part *p = &x->z->parts[k];
    if (x->place[k] != WAITS) {
      x->place[k] = STAYS;
      continue;
    }
    const situ_dtype dtype = situ_dtype_of(p->values);
    const situ_device device = situ_device_of(p->values);
    if (!x->name) {
      x->dtype = dtype;
      x->device = device;
      x->name = situ_tree_key(x->z->parameters, p->parameter);
    }
    if (x->dtype != dtype || !situ_device_equal(x->device, device)) continue;
    x->place[k] = x->length[p->rank];
    x->length[p->rank] += p->count;
  }
  return x->name != NULL;
}

/* Sends the elements that a piece has of this rank's parts, or writes those that have arrived into the others. */
static bool carry_parts(const exchange *x, const piece *f, bool sends) {
  for (int64_t k = 0; k < x->z->part_count; k++) {
    const situ__zero_part *p = &x->z->parts[k];
    const int64_t place = x->place[k], from = situ__max_i64(f->start, place),
                  end = situ__min_i64(f->start + f->count, place + p->count);
    if (place < 0 || from >= end || (p->rank == x->z->comm->rank) != sends || (f->root >= 0 && p->rank != f->root))
      continue;
    situ_tensor *t = end - from == p->count ? p->values : situ_narrow(p->values, 0, from - place, end - from);
    const int64_t at = from - f->start, block = f->root < 0 ? p->rank * f->count : 0;
    if (!t || !(sends ? situ__comm_put(f->request, at, t) : situ__comm_write(f->request, block + at, t))) return false;
  }
  return true;
}

static bool receive_piece(const exchange *x, piece *f) {
  const bool good = !f->request || (situ__comm_finish(step_op, f->request) && carry_parts(x, f, false));
  situ__comm_close(f->request);
  f->request = NULL;
  return good;
}

static bool send_piece(exchange *x, piece with) {
  situ_comm *c = x->z->comm;
  piece *f = &x->pieces[x->next];
  x->next = (x->next + 1) % IN_FLIGHT;
  if (!receive_piece(x, f)) return false;
  const situ_comm_call call = { with.root < 0 ? SITU_COMM_ALL_GATHER : SITU_COMM_BROADCAST, .dtype = x->dtype,
                                .count = with.count, .peer = with.root < 0 ? 0 : with.root, .name = x->name };
  *f = with;
  f->request = situ__comm_open_for(step_op, c, &call, situ__comm_way_on(c, &call, x->device));
  if (!f->request) return false;
  if (f->request->sent) {
    const bool fills = f->start + f->count <= x->length[c->rank];
    if ((!fills && !situ__comm_clear(f->request)) || !carry_parts(x, f, true)) return false;
  }
  situ__comm_post(c, f->request);
  return true;
}

/* The sequences of an all_gather are as long as the longest: at most half of what it brings is filling. */
static bool exchange_sequences(exchange *x) {
  const int size = x->z->comm->size;
  int64_t longest = 0, total = 0;
  for (int r = 0; r < size; r++) {
    longest = situ__max_i64(longest, x->length[r]);
    total += x->length[r];
  }
  const bool together = longest * size <= 2 * total;
  const int64_t most = PIECE_BYTES / ((int64_t)situ_dtype_size(x->dtype) * (together ? size : 1));
  bool good = true;
  for (int root = together ? -1 : 0; good && root < (together ? 0 : size); root++) {
    const int64_t length = together ? longest : x->length[root];
    for (int64_t at = 0; good && at < length; at += most)
      good = send_piece(x, (piece){ root, at, situ__min_i64(most, length - at), NULL });
  }
  for (int i = 0; good && i < IN_FLIGHT; i++) good = receive_piece(x, &x->pieces[(x->next + i) % IN_FLIGHT]);
  return good;
}

static bool exchange_all(exchange *x) {
  const situ_dist_zero *z = x->z;
  const size_t count = (size_t)(z->part_count + z->comm->size);
  if (!(x->place = situ__alloc(count * sizeof *x->place)))
    return situ__no_memory(step_op, count * sizeof *x->place), false;
  x->length = x->place + z->part_count;
  for (int64_t k = 0; k < z->part_count; k++)
    x->place[k] = situ__zero_has_gradient(z, z->parts[k].parameter) ? WAITS : STAYS;
  bool good = true;
  while (good && begin_sequences(x)) good = exchange_sequences(x);
  for (int i = 0; i < IN_FLIGHT; i++) situ__comm_close(x->pieces[i].request);
  situ__free(x->place);
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
