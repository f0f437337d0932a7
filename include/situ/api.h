/* What every public header needs: linkage, visibility and compiler attributes.
   SPDX-License-Identifier: MIT */
#ifndef SITU_API_H
#define SITU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SITU_ZERO_ is the initialiser of a struct of zeros. */
/* clang-format off */
#ifdef __cplusplus
#define SITU_BEGIN extern "C" {
#define SITU_END }
#define SITU_ZERO_ {}
#else
#define SITU_BEGIN
#define SITU_END
#define SITU_ZERO_ { 0 }
#endif
/* clang-format on */

#if defined(__GNUC__) || defined(__clang__)
#define SITU_API __attribute__((visibility("default")))
/** Ignoring the result is a compiler warning. Marks statuses, and every op that is not in place: `situ_to(x, device);`
    alone does nothing. */
#define SITU_CHECKED __attribute__((warn_unused_result))
#define SITU_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SITU_COLD __attribute__((cold))
#else
#define SITU_API
#define SITU_CHECKED
#define SITU_PRINTF(fmt, args)
#define SITU_COLD
#endif

/** Leaves a function that returns a situ_status if a call fails: `SITU_TRY(situ_nn_to(model, device));` */
#define SITU_TRY(call)                          \
  do {                                          \
    const situ_status situ_try_ = (call);       \
    if (situ_try_ != SITU_OK) return situ_try_; \
  } while (0)

/** Ignores a checked result on purpose: `SITU_IGNORE(situ_scope_end(&s));` */
#define SITU_IGNORE(call) \
  do {                    \
    if (call) {}          \
  } while (0)

#define SITU_VERSION_MAJOR 0
#define SITU_VERSION_MINOR 1
#define SITU_VERSION_PATCH 0
#define SITU_VERSION_STRING "0.1.0"

/** torch's None, for a number whose 0, negative and infinite values have a meaning: the least double. */
#define SITU_NONE (-1.7976931348623157e308)

/** Maximum number of dimensions of a tensor. */
#define SITU_MAX_DIMS 8

SITU_BEGIN
/** The version of the library at run time, as "0.1.0". Static text. */
SITU_API const char *situ_version(void);
SITU_END

#endif
