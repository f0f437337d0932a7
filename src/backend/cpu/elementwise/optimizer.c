/* One fused optimiser step over a list of parameters.
   SPDX-License-Identifier: MIT */
#include "optimizer.h"
#include "backend/cpu/common/loop.h"

#include "base/pool.h"
#include "base/size.h"

enum { STATES = 3 };

/* Half precision: converts a block at a time to f32 and back. */
static void apply_halves(const situ__step *s, situ_dtype dtype, int64_t n, char *p, const char *g, void *const *state) {
  float block[2 + STATES][SITU__BLOCK];
  void *wide[STATES];
  const int64_t size = 2;
  for (int64_t at = 0; at < n; at += SITU__BLOCK) {
    int64_t m = situ__min_i64(SITU__BLOCK, n - at);
    situ__cpu_widen(p + at * size, dtype, m, SITU__F32, block[0]);
    situ__cpu_widen(g + at * size, dtype, m, SITU__F32, block[1]);
    for (int k = 0; k < STATES; k++) {
      wide[k] = state[k] ? block[2 + k] : NULL;
      if (state[k]) situ__cpu_widen((char *)state[k] + at * size, dtype, m, SITU__F32, block[2 + k]);
    }
    s->loop(s, m, block[0], block[1], wide);
    situ__cpu_narrow(block[0], SITU__F32, m, dtype, p + at * size);
    for (int k = 0; k < STATES; k++)
      if (state[k]) situ__cpu_narrow(block[2 + k], SITU__F32, m, dtype, (char *)state[k] + at * size);
  }
}

/* Steps elements [begin, end) of one parameter. */
static void apply(const situ__step *s, const situ_optimizer_item *item, int64_t begin, int64_t end) {
  situ_dtype dtype = (situ_dtype)item->param->dtype;
  const int64_t at = begin * situ__cpu_size(dtype);
  char *p = situ__cpu_data(item->param) + at;
  void *state[STATES];
  const char *g = situ__cpu_data(item->grad) + at;
  for (int k = 0; k < STATES; k++) state[k] = item->state[k] ? situ__cpu_data(item->state[k]) + at : NULL;
  if (dtype == SITU_F16 || dtype == SITU_BF16) apply_halves(s, dtype, end - begin, p, g, state);
  else s->loop(s, end - begin, p, g, state);
}

typedef struct pass {
  const situ_work *work;
  const situ__rules *rules;
} pass;

static void prepare(const situ__rules *rules, situ__step *s, const situ_optimizer_item *item) {
  s->first = item->step <= 1;
  s->constants = situ__constants_of(s->rule, s->params, item);
  rules->prepare[situ__cpu_compute((situ_dtype)item->param->dtype)](s);
}

/* Whether two parameters are stepped by the same loop with the same constants. */
static inline bool is_alike(const situ_optimizer_item *a, const situ_optimizer_item *b) {
  return a->param->dtype == b->param->dtype && a->step == b->step && a->mu_product == b->mu_product;
}

/* Steps elements [begin, end) of all parameters' concatenation. */
static void step_elements(int64_t begin, int64_t end, void *payload) {
  const pass *p = payload;
  const situ_work *work = p->work;
  const situ_optimizer_rule rule = (situ_optimizer_rule)work->op;
  situ__step s = { .rule = rule, .params = work->params, .decoupled = situ__is_decoupled(rule, work->params) };
  s.grad_scale = work->params->maximize ? -work->params->grad_scale : work->params->grad_scale;
  const situ_optimizer_item *prepared = NULL; /* s was computed for it */
  int64_t first = 0;                          /* index of the item's first element */
  for (int64_t i = 0; i < work->list_count && first < end; i++) {
    const situ_optimizer_item *item = &work->list[i];
    int64_t last = first + item->param->numel;
    if (last > begin) {
      if (!prepared || !is_alike(item, prepared)) prepare(p->rules, &s, item);
      prepared = item;
      apply(&s, item, situ__max_i64(begin, first) - first, situ__min_i64(end, last) - first);
    }
    first = last;
  }
}

situ_status situ__cpu_optimizer(int index, const situ_work *work) {
  (void)index;
  int64_t numel = 0;
  for (int64_t i = 0; i < work->list_count; i++) {
    situ_dtype dtype = (situ_dtype)work->list[i].param->dtype;
    if (situ__cpu_compute(dtype) == SITU__I64) return SITU_E_UNSUPPORTED;
    numel += work->list[i].param->numel;
  }
  pass p = { work, SITU__ISA_PICK(situ__cpu_isa(), situ__rules) };
  situ__parallel(numel, SITU__GRAIN, step_elements, &p);
  return SITU_OK;
}
