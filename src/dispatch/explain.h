/* Internal to src/dispatch: an invalid call while it is being explained.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_EXPLAIN_H
#define SITU_DISPATCH_EXPLAIN_H

#include "dispatch/dispatch.h"
#include "situ/policy.h"

enum { SITU__SHOWN = 16, SITU__CELL = 216 }; /* operands in the table; size of a cell */

typedef struct situ__explained_row {
  int index;       /* of the operand; -1: not of a call */
  unsigned accept; /* what its schema accepts */
  bool odd;
  const char *name; /* the tensor's name if the caller knows a better one; NULL: from `tensor` and the tensor itself */
  char operand[64], tensor[SITU_PATH_TEXT + 8], role[SITU_PATH_TEXT], device[SITU_DEVICE_NAME_MAX],
      shape[SITU_SHAPE_TEXT], placed[SITU__CELL];
} situ__explained_row;

/* One proposed statement. */
typedef struct situ__fix {
  situ_fix_action action;
  int row;    /* the operand that changes; for a module: one of its tensors */
  bool whole; /* NN_TO, NN_TO_DTYPE: the outermost module; else the module that holds the row's tensor */
  situ_device device;
  situ_dtype dtype;
  situ_policy policy;
} situ__fix;

/* Statements that are applied together. */
enum { SITU__FIXES = 24 };
typedef struct situ__choice {
  situ__fix fix[SITU__FIXES];
  int count;
  bool broken; /* no statement can be written for an operand */
} situ__choice;

/* About 70 KiB: not for the stack of a thread that has little. */
typedef struct situ__refusal {
  const situ_call *call; /* NULL: not a call (situ_fail_blamed) */
  situ_status status;
  int count, more; /* rows; number of operands without one */
  int inputs;      /* entries of tensor[] behind those of the rows: further inputs of the module that must move along */
  situ__explained_row row[SITU__SHOWN];
  situ_explained tensor[SITU__SHOWN];
  situ_error_operand list[SITU__SHOWN];
  situ_explanation modules;
  int like;     /* a row that has the device or dtype that the odd ones should have; -1: none */
  bool refused; /* operands are at fault by themselves, not because they differ */
  bool decided; /* the vote was not a draw */
  situ_error_fix fixes[2 * SITU__FIXES];
  char code[2 * SITU__FIXES][2 * SITU_PATH_TEXT + 100];
  char target[2 * SITU__FIXES][SITU_PATH_TEXT];
  char fix_device[2 * SITU__FIXES][SITU_DEVICE_NAME_MAX];
  int fix_count;
  char site[SITU__CELL], odd[256], fix[1500], next[512], even_then[600];
  char text[5000];
} situ__refusal;

/* vote.c: the device of most operands, or the dtype of most among those that must be equal. decided false: a draw,
   with the first one named. like -1: no operand counts. */
typedef enum situ__by { SITU__BY_DEVICE, SITU__BY_DTYPE } situ__by;
typedef struct situ__majority {
  int like; /* index of an operand */
  bool decided;
} situ__majority;
situ__majority situ__vote(const situ_call *c, situ__by by) SITU_COLD;
/* Returns the operand's device or dtype as a number; -1 if it does not count. */
int situ__vote_key(const situ_call *c, situ__by by, int i) SITU_COLD;

/* explain.c: what is known of a module's tensors; see situ_module_lore. */
int64_t situ__explain_parts(const void *root, const char *below, situ_tensor **list, int64_t capacity);

/* try.c: returns true if the call would succeed after these statements. It is tried in a dry run, which changes
   nothing of the program's. */
extern SITU__THREAD_LOCAL bool situ__trying; /* true: errors are one line, without explanation and fixes */
bool situ__mends(const situ__refusal *r, const situ__choice *choice, situ_status *status, char *why, size_t size);
/* Returns true if a statement about a module changes this row's tensor. */
bool situ__fix_reaches(const situ__refusal *r, const situ__fix *fix, int row);

/* fix.c: returns the dtype to cast to if the schema does not accept an operand's own. */
situ_dtype situ__acceptable(unsigned accept);
/* Finds statements that fix the call; sets odd, fix, fixes[] and even_then. want: the dtype to cast the odd ones to;
   0: that of `like`. */
void situ__propose(situ__refusal *r, situ_dtype want);
/* The same for a call that its device cannot compute. */
void situ__propose_capable(situ__refusal *r);

/* explain_text.c: appends to a text of `size` bytes, truncating it. */
void situ__append(char *text, size_t size, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
#define SITU__APPEND(array, ...) situ__append(array, sizeof(array), __VA_ARGS__)
/* Writes a place in a program: "train.c:12", with the function only where line tables are missing. */
const char *situ__place_text(void *site, char *buffer, size_t size);
/* Sets the texts of row[] and list[]. */
void situ__describe_rows(situ__refusal *r);
/* Appends module, table, odd one out, fix and next to text. */
void situ__describe(situ__refusal *r);

#endif
