/* Errors: a thread keeps its first one; an op returns NULL, everything else a status.
   Threads: each has errors of its own (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_ERROR_H
#define SITU_ERROR_H

#include "api.h"

SITU_BEGIN

/** What went wrong, in one word. */
typedef enum situ_status {
  SITU_OK = 0,
  SITU_E_ARG,         /**< an argument outside its range, or a handle that is NULL, was freed, or is of another kind */
  SITU_E_SHAPE,       /**< shapes that do not fit together */
  SITU_E_DTYPE,       /**< a dtype that this operand cannot have */
  SITU_E_DEVICE,      /**< operands on different devices */
  SITU_E_INDEX,       /**< an index outside its range */
  SITU_E_OVERFLOW,    /**< a size that does not fit in 63 bits */
  SITU_E_NOMEM,       /**< no memory left, on the host or in a device's budget */
  SITU_E_STATE,       /**< right call, wrong moment: graph freed, value changed since, ... */
  SITU_E_FORMAT,      /**< a file that is not what it says it is */
  SITU_E_IO,          /**< the operating system refused to read or write */
  SITU_E_LIMIT,       /**< larger than this library accepts */
  SITU_E_UNSUPPORTED, /**< this device, dtype or build cannot do it */
  SITU_E_LOST,        /**< the device is gone; freeing still works */
  SITU_E_COMM,        /**< ranks disagree, or one is gone */
  SITU_E_TIMEOUT,     /**< a deadline passed */
  SITU_E_ALIAS        /**< memory that overlaps where it must not */
} situ_status;

/** "OK", "ARG", "SHAPE", ...: static text, never NULL. */
SITU_API const char *situ_status_name(situ_status status);

/* Handles (tensors, modules, trees, optimisers, schedulers, scalers, data sets, loaders, graphs, files, snapshots, moves) are
   checked by every call that takes one. One that was freed is told from a live one until 2,048 others of its kind were freed
   after it; a pointer to anything else is not looked through, and is the program's mistake where nothing can be read. */

/** The first error of this thread since the last situ_error_clear(); SITU_OK if there is none. */
SITU_API situ_status situ_error(void);
/** Its full text; "" if there is none. Valid until the thread's error is cleared. */
SITU_API const char *situ_error_message(void);
/** The op or call that failed, e.g. "matmul"; "" if there is none. */
SITU_API const char *situ_error_op(void);
/** Forget this thread's error. */
SITU_API void situ_error_clear(void);

/** One operand of a refused call, as the message shows it. Texts live until situ_error_clear(). */
typedef struct situ_error_operand {
  const char *operand; /**< the op's word for it: "weight" */
  const char *tensor;  /**< the tensor's name or module path; "" if it has none */
  const char *role;    /**< parameter, buffer, input, gradient, optimiser state, tensor */
  const char *device;  /**< "cuda:0" */
  const char *shape;   /**< "[64, 784]" */
  const char *dtype;   /**< "f32" */
  const char *placed;  /**< "created at train.c:12" */
  bool odd;            /**< this one differs from the majority */
} situ_error_operand;

/** What a proposed fix does. */
typedef enum situ_fix_action {
  SITU_FIX_TO = 0,      /**< target = situ_to(target, device) */
  SITU_FIX_TO_DTYPE,    /**< target = situ_to_dtype(target, dtype) */
  SITU_FIX_NN_TO,       /**< situ_nn_to(target, device) */
  SITU_FIX_NN_TO_DTYPE, /**< situ_nn_to_dtype(target, dtype) */
  SITU_FIX_BUFFER,      /**< the tensor in a field of target's struct is registered */
  SITU_FIX_CHILD,       /**< the module in a field of target's struct is registered */
  SITU_FIX_POLICY       /**< this thread lets the library copy operands */
} situ_fix_action;

/** One statement of a proposed fix. Texts live until situ_error_clear(). */
typedef struct situ_error_fix {
  situ_fix_action action;
  int choice;         /**< statements of one choice are made together; the choices are alternatives */
  int operand;        /**< TO, TO_DTYPE, BUFFER, CHILD: an operand that it changes, by its index in the report */
  size_t field;       /**< BUFFER, CHILD: offset of the field in the struct; 0: it is behind a pointer */
  const char *target; /**< the variable (TO, TO_DTYPE), or the path of a module: "model.encoder" */
  const char *device; /**< "sim:0"; "" where it has none */
  const char *dtype;  /**< "f32"; "" where it has none */
  const char *code;   /**< the statement */
  bool host_to_device, device_to_host, device_to_device; /**< POLICY: which copies are allowed */
} situ_error_fix;

/** The operands of the call that failed; 0 unless the error is about operands. */
SITU_API int situ_error_operands(const situ_error_operand **list);

/** All that is known of an error. Texts are never NULL ("": nothing to say) and live until
    situ_error_clear(). */
typedef struct situ_error_report {
  situ_status status;
  const char *op;      /**< the op or call that failed: "linear", "add_" */
  const char *message; /**< the full text, of several lines */
  const char *site;    /**< the line of the program that called: "train.c:41 in step" */
  const char *module;  /**< the module in whose forward it was: "model.fc1 (Linear 784 -> 64)" */
  const char *odd;     /**< operands that differ from the majority: "input", "weight, bias" */
  const char *fix;     /**< C that would mend it, a statement a line; each choice was tried in a dry run */
  const char *next;    /**< what else in the module would fail next */
  const situ_error_operand *operands;
  int count;                   /**< of operands */
  const situ_error_fix *fixes; /**< what `fix` says, statement by statement */
  int fix_count;
} situ_error_report;

/** Fills in *out for this thread's error; false, and all of it empty, if there is none. */
SITU_API bool situ_error_read(situ_error_report *out);
/** The same as JSON: {"status", "op", "message", "site", "module", "odd", "fix", "next",
    "operands": [{"operand", "tensor", "role", "device", "shape", "dtype", "placed", "odd"}],
    "fixes": [{"choice", "action", "target", "device", "dtype", "code"}]};
    {"status": "OK"} if there is no error. Written as snprintf does: to buffer (cut at size, always
    ended; may be NULL if size is 0); returns the length of the whole text, negative if there is no
    memory to make it. */
SITU_API int64_t situ_error_json(char *buffer, size_t size);

/** What happens, besides being kept, when an error is met. */
typedef enum situ_error_policy {
  SITU_ERROR_LOG = 0, /**< the first error of a thread is logged once (the default) */
  SITU_ERROR_QUIET,   /**< nothing: for programs that report by themselves */
  SITU_ERROR_ABORT    /**< log and abort(): for tests, to stop in the debugger */
} situ_error_policy;

/** Sets the policy of the whole process; returns the one before. */
SITU_API situ_error_policy situ_error_mode(situ_error_policy policy);

typedef void (*situ_log_fn)(const char *message, void *payload);
/** Where logged messages go; NULL: to stderr. */
SITU_API void situ_error_log(situ_log_fn log, void *payload);

SITU_END
#endif
