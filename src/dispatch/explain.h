/* The room dispatch's own: a refused call while it is being explained.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_EXPLAIN_H
#define SITU_DISPATCH_EXPLAIN_H

#include "dispatch/dispatch.h"

enum { SITU__SHOWN = 16, SITU__CELL = 216 };  /* operands in the table; a cell of it */

typedef struct situ__row {
  int      index;   /* of the operand */
  unsigned accept;  /* what its schema says */
  bool     odd;
  char     operand[64], tensor[SITU_PATH_TEXT + 8], device[SITU_DEVICE_NAME_MAX], shape[SITU_SHAPE_TEXT], placed[SITU__CELL];
} situ__row;

/* Some 20 KiB, on the stack: an explanation allocates nothing. */
typedef struct situ__refusal {
  const situ_call     *call;
  situ_status          status;
  int                  count, more;  /* rows; operands without one */
  situ__row            row[SITU__SHOWN];
  situ_explained       tensor[SITU__SHOWN];
  situ_error_operand   list[SITU__SHOWN];
  situ_explanation     modules;
  int                  like;         /* a row that has what the odd ones should have; -1: none */
  char                 site[SITU__CELL], odd[256], fix[1024], next[512];
  char                 text[4096];
} situ__refusal;

/* explain_text.c: appends to a text of `size` bytes, cut. */
void situ__append(char *text, size_t size, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
#define SITU__APPEND(array, ...) situ__append(array, sizeof(array), __VA_ARGS__)
/* A place in a program: "train.c:12", with the function only where line tables are missing. */
const char *situ__place_text(void *site, char *buffer, size_t size);
/* Puts the rows into words: fills row[] and list[]. */
void situ__describe_rows(situ__refusal *r);
/* Fills in odd and fix from row[].odd and like; what the operands must be is in `want` (a dtype), or what `like` has. */
void situ__describe_fix(situ__refusal *r, situ_dtype want);
/* Appends module, table, odd one out, fix and next to text. */
void situ__describe(situ__refusal *r);

#endif
