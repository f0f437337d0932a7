/* Loops over the rules of kernels/optimizer.h for one compute type, T. optimizer.c includes this once for each type,
   between definitions of T and TNAME.
   SPDX-License-Identifier: MIT */
#include "kernels/floats.h"
#include "kernels/optimizer.h"
#include "kernels/rule.h"

static inline FN(rule) FN(prepared)(const situ__step *s) {
  FN(rule) r;
  memcpy(&r, s->of_loop, sizeof r);
  return r;
}

/* A loop for one combination of flags: `value` is p's new value, g its gradient. */
#define LOOP(name, value)                                                                                   \
  static void FN(name)(const situ__step *s, int64_t n, void *param, const void *grad, void *const *state) { \
    const FN(rule) r = FN(prepared)(s);                                                                     \
    const T scale = (T)s->grad_scale, decay = s->decoupled ? 0 : (T)s->params->weight_decay;                \
    const T *gradient = grad;                                                                               \
    T *p = param, *s0 = state[0], *s1 = state[1], *s2 = state[2];                                           \
    (void)s0, (void)s1, (void)s2;                                                                           \
    INDEPENDENT                                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                       \
      const T g = FN(decayed)(gradient[i], p[i], scale, decay);                                             \
      p[i] = value;                                                                                         \
    }                                                                                                       \
  }
LOOP(sgd_plain, FN(sgd)(r, p[i], g))
LOOP(sgd_first, FN(sgd_momentum)(r, p[i], g, &s0[i], 1, 0))
LOOP(sgd_buffer, FN(sgd_momentum)(r, p[i], g, &s0[i], 0, 0))
LOOP(sgd_nesterov_first, FN(sgd_momentum)(r, p[i], g, &s0[i], 1, 1))
LOOP(sgd_nesterov, FN(sgd_momentum)(r, p[i], g, &s0[i], 0, 1))
LOOP(adam_plain, FN(adam)(r, p[i], g, &s0[i], &s1[i], NULL, 0))
LOOP(adam_amsgrad, FN(adam)(r, p[i], g, &s0[i], &s1[i], &s2[i], 1))
LOOP(rmsprop_plain, FN(rmsprop)(r, p[i], g, &s0[i], NULL, NULL, 0, 0))
LOOP(rmsprop_centered, FN(rmsprop)(r, p[i], g, &s0[i], NULL, &s2[i], 0, 1))
LOOP(rmsprop_momentum, FN(rmsprop)(r, p[i], g, &s0[i], &s1[i], NULL, 1, 0))
LOOP(rmsprop_both, FN(rmsprop)(r, p[i], g, &s0[i], &s1[i], &s2[i], 1, 1))
LOOP(adagrad_loop, FN(adagrad)(r, p[i], g, &s0[i]))
LOOP(adadelta_loop, FN(adadelta)(r, p[i], g, &s0[i], &s1[i]))
LOOP(adamax_loop, FN(adamax)(r, p[i], g, &s0[i], &s1[i]))
LOOP(nadam_loop, FN(nadam)(r, p[i], g, &s0[i], &s1[i]))
LOOP(radam_loop, FN(radam)(r, p[i], g, &s0[i], &s1[i]))
LOOP(rprop_loop, FN(rprop)(r, p[i], g, &s0[i], &s1[i]))
LOOP(asgd_loop, FN(asgd)(r, p[i], g, &s0[i]))
LOOP(lion_loop, FN(lion)(r, p[i], g, &s0[i]))
#undef LOOP

static void FN(prepare)(situ__step *s) {
  const situ_optimizer_params *o = s->params;
  typedef void (*loop)(const situ__step *, int64_t, void *, const void *, void *const *);
  static const loop sgd[2][2] = { { FN(sgd_buffer), FN(sgd_first) }, { FN(sgd_nesterov), FN(sgd_nesterov_first) } };
  static const loop adam[2] = { FN(adam_plain), FN(adam_amsgrad) };
  static const loop rmsprop[2][2] = { { FN(rmsprop_plain), FN(rmsprop_centered) },
                                      { FN(rmsprop_momentum), FN(rmsprop_both) } };
  static const loop only[SITU_RULES] = {
    [SITU_RULE_ADAGRAD] = FN(adagrad_loop), [SITU_RULE_ADADELTA] = FN(adadelta_loop),
    [SITU_RULE_ADAMAX] = FN(adamax_loop),   [SITU_RULE_NADAM] = FN(nadam_loop),
    [SITU_RULE_RADAM] = FN(radam_loop),     [SITU_RULE_RPROP] = FN(rprop_loop),
    [SITU_RULE_ASGD] = FN(asgd_loop),       [SITU_RULE_LION] = FN(lion_loop)
  };
  s->loop = only[s->rule];
  if (s->rule == SITU_RULE_RMSPROP) s->loop = rmsprop[o->momentum > 0][o->centered];
  else if (s->rule == SITU_RULE_ADAM || s->rule == SITU_RULE_ADAMW) s->loop = adam[o->amsgrad];
  else if (s->rule == SITU_RULE_SGD) s->loop = o->momentum != 0 ? sgd[o->nesterov][s->first] : FN(sgd_plain);
  const FN(rule) r = FN(rule_of)(o, s->decoupled, &s->constants);
  _Static_assert(sizeof r <= sizeof s->of_loop, "it holds the rule of either type");
  memcpy(s->of_loop, &r, sizeof r);
}

#undef T
#undef TNAME
