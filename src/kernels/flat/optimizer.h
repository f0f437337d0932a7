/* One fused optimiser step. OP is a situ_optimizer_rule, D0 the dtype of all tensors. For one parameter, or for a list
   of them (FLAG_LIST, where buffers are addresses), of which each work-group updates a piece of one.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/optimizer.h"

typedef struct parameters {
  T p[4]; /* gradient scale, weight decay */
} parameters;

/* The element's new value. States that are absent are not read. */
DEVICE T stepped(const FN(rule) r, const parameters q, T old, T grad, T *a, T *b, T *m) {
  const T g = FN(decayed)(grad, old, q.p[0], q.p[1]);
#if OP == 0 && !(FLAGS & FLAG_MOMENTUM)
  return FN(sgd)(r, old, g);
#elif OP == 0
  return FN(sgd_momentum)(r, old, g, a, (FLAGS & FLAG_FIRST) != 0, (FLAGS & FLAG_NESTEROV) != 0);
#elif OP == 3
  return FN(rmsprop)(r, old, g, a, b, m, (FLAGS & FLAG_MOMENTUM) != 0, (FLAGS & FLAG_CENTRED) != 0);
#elif OP == 4
  return FN(adagrad)(r, old, g, a);
#elif OP == 5
  return FN(adadelta)(r, old, g, a, b);
#elif OP == 6
  return FN(adamax)(r, old, g, a, b);
#elif OP == 7
  return FN(nadam)(r, old, g, a, b);
#elif OP == 8
  return FN(radam)(r, old, g, a, b);
#elif OP == 9
  return FN(rprop)(r, old, g, a, b);
#elif OP == 10
  return FN(asgd)(r, old, g, a);
#elif OP == 11
  return FN(lion)(r, old, g, a);
#else
  return FN(adam)(r, old, g, a, b, m, (FLAGS & FLAG_AMSGRAD) != 0);
#endif
}

#if FLAGS & FLAG_LIST
enum { PACK = PACK_BYTES / SIZE(D0), FIRST_STATE = 2, MEMORIES = 5 };
typedef struct pack_0 {
  MEMORY(D0) v[PACK];
} ALIGNED(PACK_BYTES) pack_0;
/* Is operand k present, and is it written? */
#define USED(k) ((k) < FIRST_STATE || (FLAGS & (FLAG_STATE_0 << (k - FIRST_STATE))))
#define WRITTEN(k) ((k) != 1)

GROUPS KERNEL run(CONST_PARAM step_list list, const FN(rule) r, const parameters q) {
  int of = 0;
  for (int half = LIST_MOST / 2; half; half /= 2)
    if (of + half < list.count && list.item[of + half].group <= GROUP) of += half;
  const I64 numel = list.item[of].numel, first = ((GROUP - list.item[of].group) * GROUP_SIZE + LANE) * PACK;
  if (first >= numel) return;
  GLOBAL MEMORY(D0) *at[MEMORIES];
  T v[MEMORIES][PACK];
  bool full = first + PACK <= numel;
  UNROLL for (int k = 0; k < MEMORIES; k++) {
    at[k] = (GLOBAL MEMORY(D0) *)list.item[of].memory[k] + first;
    if (USED(k)) full = full && list.item[of].memory[k] % PACK_BYTES == 0;
  }
  UNROLL for (int k = 0; k < MEMORIES; k++) {
    if (USED(k) && full) {
      const pack_0 all = AS(GLOBAL const pack_0, at[k]);
      UNROLL for (int e = 0; e < PACK; e++) v[k][e] = LOAD(D0, all.v[e]);
    } else {
      UNROLL for (int e = 0; e < PACK; e++) v[k][e] = USED(k) && first + e < numel ? LOAD(D0, at[k][e]) : (T)0;
    }
  }
  UNROLL for (int e = 0; e < PACK; e++) v[0][e] = stepped(r, q, v[0][e], v[1][e], &v[2][e], &v[3][e], &v[4][e]);
  UNROLL for (int k = 0; k < MEMORIES; k++) {
    if (!USED(k) || !WRITTEN(k)) continue;
    pack_0 out;
    UNROLL for (int e = 0; e < PACK; e++) out.v[e] = STORE(D0, v[k][e]);
    if (full) {
      AS(GLOBAL pack_0, at[k]) = out;
    } else {
      UNROLL for (int e = 0; e < PACK; e++) if (first + e < numel) at[k][e] = out.v[e];
    }
  }
}
#else
GROUPS KERNEL run(GLOBAL MEMORY(D0) *p, GLOBAL const MEMORY(D0) *grad
#if FLAGS & FLAG_STATE_0
                  ,
                  GLOBAL MEMORY(D0) *s0
#endif
#if FLAGS & FLAG_STATE_1
                  ,
                  GLOBAL MEMORY(D0) *s1
#endif
#if FLAGS & FLAG_STATE_2
                  ,
                  GLOBAL MEMORY(D0) *s2
#endif
                  ,
                  const steps s, const FN(rule) r, const parameters q) {
  const I64 i = ITEM;
  if (i >= s.numel) return;
  T a = 0, b = 0, m = 0;
#if FLAGS & FLAG_STATE_0
  a = LOAD(D0, s0[s.state[0] + i]);
#endif
#if FLAGS & FLAG_STATE_1
  b = LOAD(D0, s1[s.state[1] + i]);
#endif
#if FLAGS & FLAG_STATE_2
  m = LOAD(D0, s2[s.state[2] + i]);
#endif
  const T value = stepped(r, q, LOAD(D0, p[s.p + i]), LOAD(D0, grad[s.g + i]), &a, &b, &m);
  p[s.p + i] = STORE(D0, value);
#if FLAGS & FLAG_STATE_0
  s0[s.state[0] + i] = STORE(D0, a);
#endif
#if FLAGS & FLAG_STATE_1
  s1[s.state[1] + i] = STORE(D0, b);
#endif
#if FLAGS & FLAG_STATE_2
  s2[s.state[2] + i] = STORE(D0, m);
#endif
}
#endif
