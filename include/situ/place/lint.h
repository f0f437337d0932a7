/* The lint: what is in the wrong place, or will be, though nothing has failed yet.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_LINT_H
#define SITU_PLACE_LINT_H

#include "../nn.h"
#include "../optim.h"

SITU_BEGIN

/** What can be found. */
typedef enum situ_lint_kind {
  /* in the struct of a module */
  SITU_LINT_TENSOR,   /**< a field shows a tensor that is not registered */
  SITU_LINT_MODULE,   /**< a field shows a module that is not registered */
  SITU_LINT_ARRAY,    /**< a field points to an array of tensors or modules that are not registered */
  SITU_LINT_STRAY,    /**< made while the module was, held by somebody, registered by nobody */
  SITU_LINT_DANGLING, /**< a field shows a tensor that is gone */
  SITU_LINT_FIELD,    /**< a field shows another part than the one that is registered for it */
  /* places and values */
  SITU_LINT_APART,    /**< the tensors of one module are on several devices */
  SITU_LINT_AWAY,     /**< a module's tensors are not where the module was moved to */
  SITU_LINT_ALONE,    /**< one module of many is on another device, and nobody has put it there */
  SITU_LINT_GRADIENT, /**< a gradient is elsewhere than its parameter, or of another dtype */
  SITU_LINT_DTYPES,   /**< the parameters of one module are of several floating dtypes */
  SITU_LINT_VALUES,   /**< a tensor without values among others that have theirs */
  SITU_LINT_LAZY,     /**< a lazy module that has seen no input */
  SITU_LINT_TIE,      /**< tied weights have come apart */
  SITU_LINT_TWINS,    /**< two parameters are equal bit by bit, but not tied; to see it, the first
                           elements of parameters are read from their devices */
  SITU_LINT_GRAPH,    /**< a parameter or buffer is the result of an op, and holds on to its graph */
  SITU_LINT_UNSAVED,  /**< a buffer that is not saved */
  /* optimisers */
  SITU_LINT_ORPHAN,    /**< only the optimiser holds this parameter */
  SITU_LINT_FOREIGN,   /**< a parameter of the optimiser is none of this module */
  SITU_LINT_UNTRAINED, /**< a parameter that no optimiser has */
  SITU_LINT_FROZEN,    /**< an optimiser has a parameter that wants no gradient */
  SITU_LINT_TWICE,     /**< two optimisers, or two entries of one, change the same memory */
  SITU_LINT_STATE,     /**< the state of a parameter is elsewhere, or of another shape */
  SITU_LINT_KINDS
} situ_lint_kind;

typedef enum situ_lint_severity {
  SITU_LINT_NOTE,    /**< worth knowing; situ_place_lint returns SITU_OK */
  SITU_LINT_WARNING, /**< very likely a mistake */
  SITU_LINT_ERROR    /**< will fail, or do nothing, or something wrong */
} situ_lint_severity;

/** One finding. Texts live as long as the call that tells it. */
typedef struct situ_lint_finding {
  situ_lint_kind kind;
  situ_lint_severity severity;
  const char *path;   /**< of the module or parameter: "encoder.fc1.weight"; "" for the root */
  const char *type;   /**< of the module, or of the one that holds the tensor: "Linear" */
  const char *tensor; /**< the name of the tensor that it is about; "" if it has none */
  const char *text;   /**< what is wrong */
  const char *fix;    /**< a line of C that would mend it; "" where there is no such line */
} situ_lint_finding;

typedef struct situ_lint_options {
  situ_optim *const *optims; /**< the optimisers that train the module; NULL: do not look at them */
  int64_t optim_count;
  unsigned ignore; /**< kinds not to look for: 1u << SITU_LINT_UNSAVED | ... */
  bool strict;     /**< notes count too */
  void (*report)(const situ_lint_finding *finding, void *payload); /**< told each; may be NULL */
  void *payload;
} situ_lint_options;

/** Looks a module over, and all modules below it. SITU_OK: nothing worse than a note. Else
    SITU_E_STATE, with all findings in the error's message. options may be NULL. A line for a test:

      assert(situ_place_lint(model, NULL) == SITU_OK);

    It looks at every pointer-sized word of each module's struct, and at the first words of what
    such a word points to. It cannot see a list that starts elsewhere, nor a tensor in a global
    variable (unless that was made between situ_nn_alloc and situ_nn_done). What moves together with
    a registered tensor (a view of it, its gradient, a follower) needs no registration. Changes
    nothing; SITU_E_STATE while another thread uses the module. */
SITU_API SITU_CHECKED situ_status situ_place_lint(situ_nn_module *m, const situ_lint_options *options);
/** The findings, notes too, as text, two lines each; written as snprintf does; length 0: none;
    negative on error. */
SITU_API int64_t situ_place_lint_to_string(situ_nn_module *m, const situ_lint_options *options, char *buffer,
                                           size_t size);
/** Prints that to stdout, or that there is nothing; returns how many there are; negative on
    error. */
SITU_API int64_t situ_place_lint_print(situ_nn_module *m, const situ_lint_options *options);

/** "unregistered tensor"; static text, "?" for a number that is no kind. */
SITU_API const char *situ_lint_kind_name(situ_lint_kind kind);
/** "note", "warning", "error". */
SITU_API const char *situ_lint_severity_name(situ_lint_severity severity);

SITU_END
#endif
