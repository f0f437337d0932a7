/* The statements that mend a model: those that the findings of a preflight check need together.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_MEND_H
#define SITU_PLACE_MEND_H

#include "../error.h"
#include "check.h"

SITU_BEGIN

/** One statement, as the program would have it. Texts are never NULL. */
typedef struct situ_place_statement {
  situ_fix_action action; /**< never SITU_FIX_POLICY */
  situ_device device;     /**< where it moves; {0}: it does not */
  situ_dtype dtype;       /**< what it casts to; 0: it does not */
  size_t field;           /**< BUFFER, CHILD: offset of the field in the struct; 0: behind a pointer */
  uint64_t bytes;         /**< that it brings to another device */
  const char *target;     /**< the variable (TO, TO_DTYPE), or the path of a module: "model.encoder" */
  const char *code;       /**< in C */
  const char *where;      /**< "before train.c:12"; "where Net is made, ..."; "" if unknown */
} situ_place_statement;

/** An answer to all findings of a check. */
typedef struct situ_place_fixes {
  int64_t mistakes;                 /**< of the model as it is */
  int64_t left;                     /**< with all statements made. 0: all is mended */
  uint64_t bytes;                   /**< of all statements */
  situ_place_statement *statements; /**< in the order in which they are made */
  int64_t count;
} situ_place_fixes;

/** Finds statements that mend all mistakes that situ_place_check finds: none contradicts another, and none can be left
    out. A check was made with all of them before they are returned, and fixes->left is its number of mistakes: no
    statement mends a wrong shape, say. Of several answers it is the one that leaves the fewest mistakes, then
    moves the fewest bytes, then has the fewest statements. Nothing changes, as in a check, which is made many times:
    the program's hooks are called in each. options may be NULL.

    SITU_OK: free *fixes with situ_place_fixes_free. */
SITU_API SITU_CHECKED situ_status situ_place_mend(situ_nn_module *m, const situ_tree *inputs,
                                                  const situ_place_check_options *options, situ_place_fixes *fixes);
/** Frees the statements, and clears *fixes. NULL is fine. */
SITU_API void situ_place_fixes_free(situ_place_fixes *fixes);
/** The statements as text, a line for each, written as snprintf does: to buffer (truncated at size, always terminated;
    may be NULL if size is 0); returns the length of the whole text; negative on error. */
SITU_API int64_t situ_place_fixes_to_string(const situ_place_fixes *fixes, char *buffer, size_t size);

SITU_END
#endif
