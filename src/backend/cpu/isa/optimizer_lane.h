/* Loops over the rules of kernels/optimizer.h for one compute type, T. optimizer.c includes this once for each type,
   between definitions of T and TNAME.
   SPDX-License-Identifier: MIT */
#include "kernels/floats.h"
#include "kernels/optimizer.h"
#include "kernels/rule.h"

/* A loop for one combination of flags: `value` is p's new value, g its gradient. */
#define LOOP(name, decoupled, value)                                                               \
  static void FN(name)(const situ__step *s, int64_t n, T *p, const T *grad, T *s0, T *s1, T *s2) { \
    const FN(rule) r = FN(rule_of)(s->params, decoupled, s->step_size, s->correction2_sqrt);       \
    const T scale = (T)s->grad_scale, decay = decoupled ? 0 : (T)s->params->weight_decay;          \
    (void)s0, (void)s1, (void)s2;                                                                  \
    INDEPENDENT                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
      const T g = FN(decayed)(grad[i], p[i], scale, decay);                                        \
      p[i] = value;                                                                                \
    }                                                                                              \
  }
LOOP(sgd_plain, false, FN(sgd)(r, p[i], g))
LOOP(sgd_first, false, FN(sgd_momentum)(r, p[i], g, &s0[i], 1, 0))
LOOP(sgd_buffer, false, FN(sgd_momentum)(r, p[i], g, &s0[i], 0, 0))
LOOP(sgd_nesterov_first, false, FN(sgd_momentum)(r, p[i], g, &s0[i], 1, 1))
LOOP(sgd_nesterov, false, FN(sgd_momentum)(r, p[i], g, &s0[i], 0, 1))
LOOP(adam_plain, false, FN(adam)(r, p[i], g, &s0[i], &s1[i], NULL, 0))
LOOP(adam_amsgrad, false, FN(adam)(r, p[i], g, &s0[i], &s1[i], &s2[i], 1))
LOOP(adamw_plain, true, FN(adam)(r, p[i], g, &s0[i], &s1[i], NULL, 0))
LOOP(adamw_amsgrad, true, FN(adam)(r, p[i], g, &s0[i], &s1[i], &s2[i], 1))
LOOP(rmsprop_plain, false, FN(rmsprop)(r, p[i], g, &s0[i], NULL, NULL, 0, 0))
LOOP(rmsprop_centered, false, FN(rmsprop)(r, p[i], g, &s0[i], NULL, &s2[i], 0, 1))
LOOP(rmsprop_momentum, false, FN(rmsprop)(r, p[i], g, &s0[i], &s1[i], NULL, 1, 0))
LOOP(rmsprop_both, false, FN(rmsprop)(r, p[i], g, &s0[i], &s1[i], &s2[i], 1, 1))
#undef LOOP

static void FN(apply)(const situ__step *s, int64_t n, void *p, const void *g, void *const *state) {
  const situ_optimizer_params *o = s->params;
  typedef void (*loop)(const situ__step *, int64_t, T *, const T *, T *, T *, T *);
  static const loop sgd[2][2] = { { FN(sgd_buffer), FN(sgd_first) }, { FN(sgd_nesterov), FN(sgd_nesterov_first) } };
  static const loop adam[2][2] = { { FN(adam_plain), FN(adam_amsgrad) }, { FN(adamw_plain), FN(adamw_amsgrad) } };
  static const loop rmsprop[2][2] = { { FN(rmsprop_plain), FN(rmsprop_centered) },
                                      { FN(rmsprop_momentum), FN(rmsprop_both) } };
  loop run = FN(sgd_plain);
  if (s->rule == SITU_RULE_RMSPROP) run = rmsprop[o->momentum > 0][o->centered];
  else if (s->rule != SITU_RULE_SGD) run = adam[s->rule == SITU_RULE_ADAMW][o->amsgrad];
  else if (o->momentum != 0) run = sgd[o->nesterov][s->first];
  run(s, n, p, g, state[0], state[1], state[2]);
}

#undef T
#undef TNAME
