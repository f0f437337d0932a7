/* Lint: finds tensors on the wrong device, unregistered parts and similar mistakes before they fail.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_LINT_H
#define SITU_PLACE_LINT_H

#include "../nn.h"
#include "../optim.h"

SITU_BEGIN

/** Kinds of findings. */
typedef enum situ_lint_kind {
  /* in the struct of a module */
  SITU_LINT_TENSOR,   /**< a field points to an unregistered tensor */
  SITU_LINT_MODULE,   /**< a field points to an unregistered module */
  SITU_LINT_ARRAY,    /**< a field points to an array or a list of unregistered tensors or modules */
  SITU_LINT_STRAY,    /**< a tensor or module made during construction, still owned, but not registered */
  SITU_LINT_DANGLING, /**< a field points to a freed tensor; or situ_data_ptr gave an address that a move has freed */
  SITU_LINT_FIELD,    /**< a field points to another part than the one registered for it */
  /* devices and values */
  SITU_LINT_APART,    /**< the tensors of one module are on several devices */
  SITU_LINT_AWAY,     /**< a module's tensors are not on the device that it was moved to */
  SITU_LINT_ALONE,    /**< one module of many is on another device, without having been moved there; a note: a late
                           part whose device was stated */
  SITU_LINT_GRADIENT, /**< a gradient has another device or dtype than its parameter */
  SITU_LINT_DTYPES,   /**< the parameters of one module have several floating dtypes */
  SITU_LINT_VALUES,   /**< a tensor without values, among others with values */
  SITU_LINT_LAZY,     /**< a lazy module that has not seen an input */
  SITU_LINT_TIE,      /**< tied weights that are no longer tied */
  SITU_LINT_TWINS,    /**< two parameters are bitwise equal, but not tied; this check reads the first
                           elements of parameters from their devices */
  SITU_LINT_GRAPH,    /**< a parameter or buffer is the result of an op, and keeps its graph alive */
  SITU_LINT_UNSAVED,  /**< a non-persistent buffer */
  /* optimisers */
  SITU_LINT_ORPHAN,    /**< only the optimiser owns this parameter */
  SITU_LINT_FOREIGN,   /**< a parameter of the optimiser is not in this module */
  SITU_LINT_UNTRAINED, /**< a parameter without an optimiser */
  SITU_LINT_FROZEN,    /**< an optimiser has a parameter that does not require a gradient */
  SITU_LINT_TWICE,     /**< two optimisers, or two entries of one, update the same memory */
  SITU_LINT_STATE,     /**< the state of a parameter has another device or shape */
  SITU_LINT_KINDS
} situ_lint_kind;

typedef enum situ_lint_severity {
  SITU_LINT_NOTE,    /**< information; situ_place_lint returns SITU_OK */
  SITU_LINT_WARNING, /**< very likely a mistake */
  SITU_LINT_ERROR    /**< will fail, have no effect, or give wrong results */
} situ_lint_severity;

/** One finding. Texts live as long as the call that reports it. */
typedef struct situ_lint_finding {
  situ_lint_kind kind;
  situ_lint_severity severity;
  const char *path;   /**< of the module or parameter: "encoder.fc1.weight"; "" for the root */
  const char *type;   /**< of the module, or of the owner of the tensor: "Linear" */
  const char *tensor; /**< name of the tensor; "" if it has none */
  const char *text;   /**< the problem */
  const char *fix;    /**< one line of C that fixes it, or "" */
} situ_lint_finding;

typedef struct situ_lint_options {
  situ_optim *const *optims; /**< the optimisers that train the module; NULL: not checked */
  int64_t optim_count;
  unsigned ignore;                                                 /**< kinds to skip: 1u << SITU_LINT_UNSAVED | ... */
  bool strict;                                                     /**< notes fail too */
  void (*report)(const situ_lint_finding *finding, void *payload); /**< called for each finding; may be NULL */
  void *payload;
} situ_lint_options;

/** Checks a module and all its descendants. SITU_OK: nothing worse than a note. Else SITU_E_STATE, with all findings in
    the error's message. options may be NULL. A line for a test:

      assert(situ_place_lint(model, NULL) == SITU_OK);

    It examines every pointer-sized word of each module's struct, and what such a word points to: arrays, linked lists,
    structs with an array and its length. Of a tensor or a module in a global variable it knows if that was made
    between situ_nn_alloc and situ_nn_done. Tensors that move together with a registered one (views of it, its
    gradient, a follower) need no registration. Changes nothing; SITU_E_STATE while another thread uses the module. */
SITU_API SITU_CHECKED situ_status situ_place_lint(situ_nn_module *m, const situ_lint_options *options);
/** The findings, notes too, as text, two lines each; written as snprintf does; length 0: no findings; negative on
    error. */
SITU_API int64_t situ_place_lint_to_string(situ_nn_module *m, const situ_lint_options *options, char *buffer,
                                           size_t size);
/** Prints the findings to stdout; returns their number; negative on error. */
SITU_API int64_t situ_place_lint_print(situ_nn_module *m, const situ_lint_options *options);

/** "unregistered tensor"; static text, "?" for an invalid number. */
SITU_API const char *situ_lint_kind_name(situ_lint_kind kind);
/** "note", "warning", "error". */
SITU_API const char *situ_lint_severity_name(situ_lint_severity severity);

SITU_END
#endif
