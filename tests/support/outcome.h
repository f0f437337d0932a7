/* For tests that no option is ignored: a call with its defaults beside the same call with one field set.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_OUTCOME_H
#define SITU_TEST_OUTCOME_H

#include <string.h>

#include "situ/sys/shape.h"
#include "support/test.h"

/* What a call gave: shape and dtype of its result, then all values that are noted. */
typedef struct outcome {
  bool refused;
  situ_shape shape;
  situ_dtype dtype;
  int count;
  double value[8192];
} outcome;

static inline void note(outcome *o, situ_tensor *t) {
  if (!t) return;
  t = situ_detach(t);
  assert_true(o->count + situ_numel(t) < 8192);
  test_read(t, o->value + o->count);
  o->count += (int)situ_numel(t);
  o->value[o->count++] = (double)situ_numel(t); /* so that nothing slides into the place of what is gone */
}

/* y: the result, which is noted; NULL: the call was refused. */
static inline outcome outcome_of(situ_tensor *y) {
  outcome o = { .refused = !y };
  if (y) {
    o.shape = situ_shape_of(y);
    o.dtype = situ_dtype_of(y);
    note(&o, y);
  } else {
    assert_int_not_equal(situ_error(), SITU_OK);
    situ_error_clear();
  }
  return o;
}

static inline bool same(const outcome *a, const outcome *b) {
  return a->refused == b->refused && situ_shape_equal(&a->shape, &b->shape) && a->dtype == b->dtype &&
         a->count == b->count && memcmp(a->value, b->value, (size_t)a->count * sizeof *a->value) == 0;
}

static int fields; /* that were set */

/* Makes the call, which reads its options from `o`, with the options `plain` and `other`. */
#define COMPARE(type, plain, other, call, text)                         \
  do {                                                                  \
    const type plain_ = plain, other_ = other;                          \
    static outcome a_, b_;                                              \
    const type *o = &plain_;                                            \
    situ_manual_seed(1);                                                \
    a_ = call;                                                          \
    if (a_.refused) fail_msg("%s is refused with its defaults", #call); \
    o = &other_;                                                        \
    situ_manual_seed(1);                                                \
    b_ = call;                                                          \
    if (same(&a_, &b_)) fail_msg("%s ignores %s", #call, text);         \
    fields++;                                                           \
  } while (0)
/* Of a struct without `size`: with BASE, and with other fields set. */
#define FIELD(type, call, ...) COMPARE(type, ((type)BASE), ((type){ __VA_ARGS__ }), call, #__VA_ARGS__)
/* Of a struct that name##_defaults() gives: with what `base` sets, and with further fields. */
#define FIELD_FROM(name, base, call, ...)                                                                   \
  COMPARE(__typeof__(name##_defaults()), OPTIONS_OF(name, base), OPTIONS_OF(name, base; __VA_ARGS__), call, \
          #__VA_ARGS__)
#define FIELD_OF(name, call, ...) FIELD_FROM(name, (void)0, call, __VA_ARGS__)

#endif
