/* Internals of the lint: the data of one run, and how checks report findings.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_LINT_INSIDE_H
#define SITU_PLACE_LINT_INSIDE_H

#include "base/map.h"
#include "base/names.h"
#include "base/text.h"
#include "situ/place/lint.h"
#include "situ/sys/shape.h"

/* A module, or a tensor that is registered in one. */
typedef struct situ__part {
  char *path;
  situ_nn_module *module; /* itself, or the one in which the tensor is registered */
  situ_tensor *tensor;    /* NULL: a module */
  const situ_nn_slot *slot;
  bool again; /* visited before under another path */
} situ__part;

typedef struct situ__lint {
  const char *op;
  const situ_lint_options *options;
  situ__part *parts; /* modules before their parts */
  int64_t count, capacity;
  situ__map known;  /* a registered module or tensor -> index of its first part, plus 1 */
  situ__map on;     /* the serial number of a storage -> index of the first tensor on it, plus 1 */
  situ__map moves;  /* a storage that a move of the whole module would move */
  situ__map told;   /* a tensor or module that a finding has reported already */
  situ__map inside; /* the modules of `outer`, which is one that a field pointed to and that is not registered */
  const void *outer;
  situ__names paths; /* of tensors, once they are asked for */
  situ__names names; /* own names of tensors -> index of the first part, once they are asked for */
  situ_lint_finding *findings;
  int64_t found, findings_capacity;
  bool ignored; /* the last finding was of an ignored kind */
} situ__lint;

/* Reports findings as situ_place_lint does, beside other threads that call the module as this one is about to: none of
   their calls is refused for it. */
void situ__lint_beside(situ_nn_module *m, const situ_lint_options *options);

/* All return false after recording that memory is not available. */

/* Each checks for its own kinds. */
bool situ__lint_fields(situ__lint *l);
bool situ__lint_places(situ__lint *l);
bool situ__lint_values(situ__lint *l);
bool situ__lint_optims(situ__lint *l);

/* Adds a finding about a part (NULL: about path only) and a tensor (may be NULL). */
bool situ__lint_add(situ__lint *l, situ_lint_kind kind, situ_lint_severity severity, const situ__part *part,
                    const char *path, const situ_tensor *tensor, const char *fmt, ...) SITU_PRINTF(7, 8) SITU_COLD;
/* Sets the last finding's fix, a line of C. */
bool situ__lint_fix(situ__lint *l, const char *fmt, ...) SITU_PRINTF(2, 3);

/* What a word in m's struct, or behind a pointer there, is. UNKNOWN: after recording that memory is not available. */
typedef enum situ__found {
  SITU__NOTHING,
  SITU__ACCOUNTED, /* registered, or it moves with what is */
  SITU__LOOSE_TENSOR,
  SITU__LOOSE_MODULE,
  SITU__UNKNOWN
} situ__found;
situ__found situ__lint_look(situ__lint *l, const situ_nn_module *m, const void *word);
/* True if the word could be an object's address: most words are numbers, and a full check is slow. */
static inline bool situ__lint_plausible(const void *word) {
  uintptr_t bits = (uintptr_t)word;
  return bits >= 4096 && bits % _Alignof(void *) == 0 && (uint64_t)bits >> 56 == 0;
}
/* Looks for unregistered parts in the memory that p's field at offset `at` points to (lists.c). */
bool situ__lint_list(situ__lint *l, const situ__part *p, size_t at, void *const *memory);

/* The first part of this module or tensor; NULL: none. */
const situ__part *situ__lint_known(const situ__lint *l, const void *pointer);
/* The first tensor on the storage with this serial number; NULL: none. */
const situ__part *situ__lint_on(const situ__lint *l, uint64_t serial);
/* "f32 [10] made at train.c:12 in main" */
enum { SITU__LINT_TEXT = 512 };
const char *situ__lint_tensor(const situ_tensor *t, char buffer[SITU__LINT_TEXT]);
const char *situ__lint_device(situ_device device, char buffer[SITU_DEVICE_NAME_MAX]);

static inline const situ_storage *situ__lint_storage(const situ_tensor *t) { return situ_desc(t)->storage; }

#endif
