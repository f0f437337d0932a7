/* The simulated communicator: the values of a collective.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "sim.h"

#define DEFINE_REDUCE(name, type)                                                                     \
  static void name(type *into, const type *from, int64_t count, situ_comm_reduction reduction) {      \
    for (int64_t i = 0; i < count; i++) {                                                             \
      if (reduction == SITU_COMM_SUM) into[i] = (type)(into[i] + from[i]);                            \
      else if (reduction == SITU_COMM_MIN ? from[i] < into[i] : from[i] > into[i]) into[i] = from[i]; \
    }                                                                                                 \
  }
DEFINE_REDUCE(reduce_u8, uint8_t)
DEFINE_REDUCE(reduce_i8, int8_t)
DEFINE_REDUCE(reduce_i16, int16_t)
DEFINE_REDUCE(reduce_i32, int32_t)
DEFINE_REDUCE(reduce_i64, int64_t)
DEFINE_REDUCE(reduce_f32, float)
DEFINE_REDUCE(reduce_f64, double)

/* into = into op from. The library lets no other dtype through. */
static void reduce_block(void *into, const void *from, const situ_comm_transfer *t) {
  switch (t->dtype) {
  case SITU_U8: reduce_u8(into, from, t->count, t->reduction); break;
  case SITU_I8: reduce_i8(into, from, t->count, t->reduction); break;
  case SITU_I16: reduce_i16(into, from, t->count, t->reduction); break;
  case SITU_I32: reduce_i32(into, from, t->count, t->reduction); break;
  case SITU_I64: reduce_i64(into, from, t->count, t->reduction); break;
  case SITU_F32: reduce_f32(into, from, t->count, t->reduction); break;
  case SITU_F64: reduce_f64(into, from, t->count, t->reduction); break;
  default: break;
  }
}

/* What rank `to` gets of rank `from`. */
static void move_block(const situ__sim_meeting *m, int from, int to) {
  const situ_comm_transfer *source = &m->part[from].transfer, *target = &m->part[to].transfer;
  const size_t bytes = (size_t)target->count * situ_dtype_size(target->dtype);
  const char *send = source->send;
  char *receive = target->receive;
  if (!bytes) return;
  switch (target->op) {
  case SITU_COMM_ALL_GATHER: memcpy(receive + (size_t)from * bytes, send, bytes); break;
  case SITU_COMM_REDUCE_SCATTER:
  case SITU_COMM_ALL_REDUCE:
    if (target->op == SITU_COMM_REDUCE_SCATTER) send += (size_t)to * bytes;
    if (from == 0) memcpy(receive, send, bytes);
    else reduce_block(receive, send, target);
    break;
  default: break;
  }
}

/* An ALL_TO_ALL: what rank `to` gets, of the ranks of its group. */
static void move_group(const situ__sim_meeting *m, int to) {
  const situ_comm_transfer *t = &m->part[to].transfer;
  const size_t bytes = (size_t)t->count * situ_dtype_size(t->dtype),
               mine = (size_t)((to - t->first) / t->apart) * bytes;
  for (int k = 0; k < t->members && bytes; k++) {
    const char *send = m->part[t->first + k * t->apart].transfer.send;
    memcpy((char *)t->receive + (size_t)k * bytes, send + mine, bytes);
  }
}

void situ__comm_sim_move(const situ__sim_meeting *m, int size) {
  for (int to = 0; to < size; to++) {
    if (m->part[to].transfer.op == SITU_COMM_ALL_TO_ALL) move_group(m, to);
    else
      for (int from = 0; from < size; from++) move_block(m, from, to);
  }
}
