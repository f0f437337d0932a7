/* Options with some fields set, in an expression: OPTIONS_AT(situ_batch_norm, with.training = true, with.eps = 0).
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_OPTIONS_H
#define SITU_TEST_OPTIONS_H

/* name: of the function ..._defaults(). A macro of a designator, as HERE is one, becomes `with HERE`. */
#define OPTIONS_OF(name, ...)                               \
  __extension__({                                           \
    __typeof__(name##_defaults()) with = name##_defaults(); \
    __VA_ARGS__;                                            \
    with;                                                   \
  })
#define OPTIONS_AT(name, ...) ((__typeof__(name##_defaults())[1]){ OPTIONS_OF(name, __VA_ARGS__) })

#endif
