/* One fused step for one parameter. OP is a situ_optimizer_rule. D0 is the dtype of everything.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/optimizer.h"

typedef struct parameters {
  T p[4]; /* scale of the gradient, weight decay */
} parameters;

#define P LOAD(D0, p[s.p + i])
GROUPS KERNEL run(GLOBAL MEMORY(D0) *p, GLOBAL const MEMORY(D0) *grad
#if FLAGS & FLAG_STATE_0
                  , GLOBAL MEMORY(D0) *s0
#endif
#if FLAGS & FLAG_STATE_1
                  , GLOBAL MEMORY(D0) *s1
#endif
#if FLAGS & FLAG_STATE_2
                  , GLOBAL MEMORY(D0) *s2
#endif
                  , const steps s, const FN(rule) r, const parameters q) {
  const I64 i = ITEM;
  if (i >= s.numel) return;
  const T old = P, g = FN(decayed)(LOAD(D0, grad[s.g + i]), old, q.p[0], q.p[1]);
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
#if OP == 0 && !(FLAGS & FLAG_MOMENTUM)
  const T value = FN(sgd)(r, old, g);
#elif OP == 0
  const T value = FN(sgd_momentum)(r, old, g, &a, (FLAGS & FLAG_FIRST) != 0, (FLAGS & FLAG_NESTEROV) != 0);
#elif OP == 3
  const T value = FN(rmsprop)(r, old, g, &a, &b, &m, (FLAGS & FLAG_MOMENTUM) != 0, (FLAGS & FLAG_CENTRED) != 0);
#else
  const T value = FN(adam)(r, old, g, &a, &b, &m, (FLAGS & FLAG_AMSGRAD) != 0);
#endif
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
