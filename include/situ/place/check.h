/* The preflight check: all mistakes of a model in one report, before anything is computed.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_CHECK_H
#define SITU_PLACE_CHECK_H

#include "../optim.h"
#include "draw.h"

SITU_BEGIN

/** The kind of a finding. */
typedef enum situ_place_problem {
  SITU_PLACE_DEVICE = 0,  /**< operands of one call are on different devices */
  SITU_PLACE_SHAPE,       /**< shapes that do not match */
  SITU_PLACE_DTYPE,       /**< a dtype that an operand cannot have */
  SITU_PLACE_UNSUPPORTED, /**< not supported by the device or the library */
  SITU_PLACE_VALUES,      /**< forward reads values: the rest depends on them */
  SITU_PLACE_MEMORY,      /**< peak memory exceeds the device's memory */
  SITU_PLACE_GRADIENT,    /**< a parameter gets no gradient */
  SITU_PLACE_KEPT,        /**< the module keeps references to tensors made in forward */
  SITU_PLACE_OTHER,
  SITU_PLACE_PROBLEMS
} situ_place_problem;

/** One finding, reported once with its count. Texts are never NULL. */
typedef struct situ_place_finding {
  situ_place_problem problem;
  bool note;          /**< information: the call would not fail */
  bool backward;      /**< found in backward */
  int64_t count;      /**< number of occurrences */
  situ_status status; /**< of the error at run time; SITU_OK: no error */
  const char *op;     /**< "linear"; "" if it does not concern a call */
  const char *module; /**< path of the module whose forward it is in; "" for the root */
  const char *tensor; /**< path of the tensor; "" if it concerns several */
  const char *text;   /**< the message, of several lines */
  const char *fix;    /**< C code of the fix; "" if unknown */
  const char *site;   /**< source line of the program: "train.c:41 in step" */
} situ_place_finding;

/** Calls between ranks of one kind, in the step that is checked: what this rank sends and receives. */
typedef struct situ_place_exchange {
  const char *op;     /**< "all_gather" */
  const char *name;   /**< what is transferred: "0.weight and 3 more" */
  const char *module; /**< path of the module whose forward calls; "": behind or between forwards */
  int peer;           /**< the other rank of send and receive, the root of broadcast; else -1: all */
  int64_t count;
  uint64_t sent, received; /**< bytes of values, by all of them, as situ_comm_traffic counts */
} situ_place_exchange;

/** Work and memory of one device. */
typedef struct situ_place_load {
  situ_device device;
  int64_t launches;             /**< number of kernel launches */
  uint64_t parameters, buffers; /**< bytes; of parameters in parts those of this rank */
  uint64_t peak;                /**< the most bytes at one time, in whole blocks of the allocator: parameters,
                                     buffers, inputs, what is made and saved meanwhile, and in training gradients and
                                     states of optimisers. The smallest device on which the run succeeds has so many */
} situ_place_load;

typedef struct situ_place_report {
  bool finished;       /**< forward ran to its end: the report is complete */
  bool differentiated; /**< backward too; false if it was not requested */
  int64_t mistakes;    /**< number of findings that are not notes */
  situ_place_finding *findings;
  int64_t finding_count;
  situ_place_edge *edges; /**< copies between devices, as situ_place_svg takes them */
  int64_t edge_count;
  situ_place_exchange *exchanges; /**< calls between ranks: of one step of training (all micro-batches of this rank,
                                       and the step of the optimisers, if they are given), else of the run */
  int64_t exchange_count;
  situ_place_load *loads; /**< one per device */
  int64_t load_count;
} situ_place_report;

/** Whether backward is checked too. */
typedef enum situ_place_backward {
  SITU_PLACE_BACKWARD_IN_TRAINING = 0, /**< if the module is in training mode */
  SITU_PLACE_BACKWARD_NEVER,
  SITU_PLACE_BACKWARD_ALWAYS
} situ_place_backward;

typedef struct situ_place_check_options {
  /** Device assumed for inputs, parameters and buffers that are on meta. {0}: the module's device for inputs;
      parameters and buffers stay on meta. */
  situ_device device;
  /** How the program moves the module before it runs, as in situ_nn_to_map: "*=cuda:0". A module on meta is made on
      `device` first, {0}: the host; its inputs on meta are on the device that it comes to. The small tensors of a move
      share blocks, so they need other bytes than those of a module that is made, materialised or loaded on its device.
      So a model is checked on devices before it moves, or on planned ones (sys/plan.h); a wrong map, and one for which
      there is no memory, are findings. SITU_E_UNSUPPORTED: the module cannot be copied. NULL: it is where it will
      run. */
  const char *map;
  situ_place_backward backward;
  /** The optimisers that train the module, for the peak of training: where backward is checked and nothing is wrong,
      two steps of forward, loss, backward, step and zero_grad are run on a copy. Gradients that exist are added to,
      as those of several batches are. Over ranks a step has all micro-batches of this rank; give the optimiser of
      ZeRO too (situ_dist_zero_optim). A note says if the steps cannot be run: of LBFGS, whose steps follow from values,
      and of a module that cannot be copied. */
  situ_optim *const *optims;
  int64_t optim_count;
  /** The loss of these steps, made of forward's result; NULL: the sum of all results. */
  situ_tensor *(*loss)(const situ_tree *outputs, void *payload);
  void *payload; /**< of loss */
} situ_place_check_options;

/** Runs forward, and backward for all parameters, without memory and without computation, on inputs of which only
    shape, dtype and device matter (a tree of tensors, meta tensors too). Finds every mismatch of devices, shapes and
    dtypes, everything that a device does not support, and every copy between devices. After a wrong call the run
    continues as if its first fix had been made. The first fixes of all findings agree: where parts must move, they
    meet on the device that most bytes are on, and the run is repeated with the fixes made before they are shown.
    Nothing changes: a copy of the module runs, or the module itself if it cannot be copied; its gradients, buffers
    and unregistered fields (tensors, trees and numbers in its struct, and arrays of tensors), the random number
    state and this thread's error stay as they are. The program's hooks are called; those of ddp and ZeRO are not.

    Of a module that ranks train together, a rank may check its own at any time, also in the middle of a step: no other
    rank hears of it. Collective calls are checked and give shapes; one whose values the host reads is reported as a
    read of values. Peaks of training have what ddp and ZeRO keep and gather, when other ranks are late, which is when a
    rank needs the most; without backward parameters in parts count as whole. Inputs are those of one micro-batch: of a
    pipeline's stage the activations that it gets, on meta, on rank 0 a part of the input.

    SITU_OK: the check was made, and *report has the findings; free it with situ_place_report_free. With report NULL,
    findings that are not notes are an error, SITU_E_STATE, whose message is the report. options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_place_check(situ_nn_module *m, const situ_tree *inputs,
                                                   const situ_place_check_options *options, situ_place_report *report);
/** Frees the parts of a report, and clears it. NULL is fine. */
SITU_API void situ_place_report_free(situ_place_report *report);

/** "device", "shape", ...: static text. */
SITU_API const char *situ_place_problem_name(situ_place_problem problem);
/** The report as text, written as snprintf does: to buffer (truncated at size, always terminated; may be NULL if size
    is 0); returns the length of the whole text; negative on error. */
SITU_API int64_t situ_place_report_to_string(const situ_place_report *report, char *buffer, size_t size);
/** Prints the text of situ_place_report_to_string to stdout. */
SITU_API void situ_place_report_print(const situ_place_report *report);
/** The report as JSON: {"finished", "differentiated", "findings": [{"problem", "note",
    "backward", "count", "status", "op", "module", "tensor", "text", "fix", "site"}], "edges":
    [{"from", "to", "from_device", "to_device", "bytes", "count", "op", "site"}], "exchanges":
    [{"op", "name", "module", "peer", "count", "sent", "received"}], "devices":
    [{"device", "launches", "parameters", "buffers", "peak"}]}. */
SITU_API int64_t situ_place_report_json(const situ_place_report *report, char *buffer, size_t size);

SITU_END
#endif
