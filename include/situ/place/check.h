/* The preflight: every mistake of a model at once, before anything is computed.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_CHECK_H
#define SITU_PLACE_CHECK_H

#include "draw.h"

SITU_BEGIN

/** What kind of thing is wrong. */
typedef enum situ_place_problem {
  SITU_PLACE_DEVICE = 0,  /**< operands of one call are on different devices */
  SITU_PLACE_SHAPE,       /**< shapes that do not fit together */
  SITU_PLACE_DTYPE,       /**< a dtype that an operand cannot have */
  SITU_PLACE_UNSUPPORTED, /**< the device or the library cannot do this */
  SITU_PLACE_VALUES,      /**< forward looks at values: what comes after depends on them */
  SITU_PLACE_MEMORY,      /**< more bytes at once than the device has */
  SITU_PLACE_GRADIENT,    /**< a parameter gets no gradient */
  SITU_PLACE_KEPT,        /**< the module keeps tensors that forward made */
  SITU_PLACE_OTHER,
  SITU_PLACE_PROBLEMS
} situ_place_problem;

/** One thing that is wrong, however often it was met. Texts are never NULL. */
typedef struct situ_place_finding {
  situ_place_problem problem;
  bool note;          /**< worth knowing, but it does not fail */
  bool backward;      /**< met on the way back */
  int64_t count;      /**< how often */
  situ_status status; /**< of the error that it would be; SITU_OK: it would be none */
  const char *op;     /**< "linear"; "" where it is about no call */
  const char *module; /**< path of the module in whose forward it is; "" for the root */
  const char *tensor; /**< path of the tensor that it is about; "" if it is about several */
  const char *text;   /**< the message, of several lines */
  const char *fix;    /**< C that would mend it; "" if that cannot be told */
  const char *site;   /**< the line of the program: "train.c:41 in step" */
} situ_place_finding;

/** What one device has to do. */
typedef struct situ_place_load {
  situ_device device;
  int64_t launches;             /**< kernels */
  uint64_t parameters, buffers; /**< their bytes */
  uint64_t peak;                /**< the most bytes that are there at one moment: parameters, buffers,
                                     inputs, and what forward and backward make and keep */
} situ_place_load;

typedef struct situ_place_report {
  bool finished;       /**< forward came to its end: nothing was left out */
  bool differentiated; /**< so did backward; false if it was not asked for */
  int64_t mistakes;    /**< findings that are no notes */
  situ_place_finding *findings;
  int64_t finding_count;
  situ_place_edge *edges; /**< copies between devices, as situ_place_svg takes them */
  int64_t edge_count;
  situ_place_load *loads; /**< a device each */
  int64_t load_count;
} situ_place_report;

/** Is backward run too? */
typedef enum situ_place_backward {
  SITU_PLACE_BACKWARD_IN_TRAINING = 0, /**< if the module is in training mode */
  SITU_PLACE_BACKWARD_NEVER,
  SITU_PLACE_BACKWARD_ALWAYS
} situ_place_backward;

typedef struct situ_place_check_options {
  /** Where the inputs, parameters and buffers that are on meta are meant to be. {0}: such inputs
      where the module lives; parameters and buffers stay on meta. */
  situ_device device;
  situ_place_backward backward;
} situ_place_check_options;

/** Runs the module on such inputs (a tree of tensors, meta ones too: only their shape, dtype and
    device count) and back for all its parameters, without memory and without computing anything:
    every mismatch of devices, shapes and dtypes, everything that a device cannot do, every copy
    between devices. A call that is wrong is reported and goes on with what its result would most
    likely have been. Nothing changes: not the module (a copy of it runs), not its gradients or
    buffers, not the state of the random numbers, not this thread's error; hooks are called.

    SITU_OK: the check was made, and *report says what it found (to be freed). report NULL: findings
    that are no notes are an error, SITU_E_STATE, whose message is the report.
    options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_place_check(situ_nn_module *m, const situ_tree *inputs,
                                                   const situ_place_check_options *options, situ_place_report *report);
/** Frees what a report holds, and clears it. NULL is fine. */
SITU_API void situ_place_report_free(situ_place_report *report);

/** "device", "shape", ...: static text. */
SITU_API const char *situ_place_problem_name(situ_place_problem problem);
/** The report as text, written as snprintf does: to buffer (cut at size, always ended; may be NULL
    if size is 0); what is returned is the length of the whole text; negative on error. */
SITU_API int64_t situ_place_report_to_string(const situ_place_report *report, char *buffer, size_t size);
/** Prints that to stdout. */
SITU_API void situ_place_report_print(const situ_place_report *report);
/** The same facts as JSON: {"finished", "differentiated", "findings": [{"problem", "note",
    "backward", "count", "status", "op", "module", "tensor", "text", "fix", "site"}], "edges":
    [{"from", "to", "from_device", "to_device", "bytes", "count", "op", "site"}], "devices":
    [{"device", "launches", "parameters", "buffers", "peak"}]}. */
SITU_API int64_t situ_place_report_json(const situ_place_report *report, char *buffer, size_t size);

SITU_END
#endif
