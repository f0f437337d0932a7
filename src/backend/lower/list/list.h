/* The list of kernels for devices whose compiler runs ahead of time (CUDA): lowering runs on a target that launches
   nothing and records what it is asked for. The program `situ_kernels` (main.c) prints it, cmake/kernels.cmake spells
   it out, and a test module (tests/support/listed/) compares it with what the ops of a running program ask for.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_LOWER_LIST_H
#define SITU_BACKEND_LOWER_LIST_H

#include "backend/lower/lower.h"

/* ---- the target (record.c) ------------------------------------------------------------------- */
typedef struct situ__listed {
  situ__variant variant;
  const char *name; /* NAME in the source, or NULL */
} situ__listed;

/* Lowers work; what it asks for is added to the list. Refused combinations (SITU_E_UNSUPPORTED) add nothing. */
void situ__list_ask(const situ_work *work);
/* The list so far; NULL if an allocation or a work failed. */
const situ__listed *situ__list_read(size_t *count);
/* From now on a launch of a kernel that is not listed fails, with an error that names it. */
void situ__list_close(void);

/* ---- the works: every verb with every combination that ops give it (flat.c, group.c) ---------- */
void situ__list_all(void);
/* clang-format off */
#define ROW(VERB, verb) void situ__list_##verb(void);
SITU__LOWERED_VERBS(ROW)
#undef ROW
/* clang-format on */

enum { SITU__LIST_ALL = SITU_BOOL, SITU__LIST_FLOATS = SITU_F16 }; /* the first dtype of loops; the last is SITU_F64 */

/* A contiguous view that is valid until some dozens more were made. */
const situ_view_desc *situ__list_view(int dtype, int ndim, const int64_t *size);
#define VIEW(dtype, ...) \
  situ__list_view(dtype, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ })
#define ASK(...) situ__list_ask(&(situ_work){ __VA_ARGS__ })

extern const situ__target_table situ__list_targets; /* which launch nothing, and note what would be */

#endif
