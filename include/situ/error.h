/* Errors: a thread keeps its first error; an op returns NULL, everything else a status.
   Threads: errors are per thread (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_ERROR_H
#define SITU_ERROR_H

#include "api.h"

SITU_BEGIN

/** The kind of an error. */
typedef enum situ_status {
  SITU_OK = 0,
  SITU_E_ARG,         /**< an argument out of range, or a handle that is NULL, was freed, or is of another type */
  SITU_E_SHAPE,       /**< shapes that do not fit together */
  SITU_E_DTYPE,       /**< a dtype that an operand cannot have */
  SITU_E_DEVICE,      /**< operands on different devices */
  SITU_E_INDEX,       /**< an index out of range */
  SITU_E_OVERFLOW,    /**< a size that does not fit in 63 bits */
  SITU_E_NOMEM,       /**< out of memory, on the host or on a device */
  SITU_E_STATE,       /**< not allowed in this state: graph freed, saved value changed, ... */
  SITU_E_FORMAT,      /**< an invalid file */
  SITU_E_IO,          /**< the operating system refused to read or write */
  SITU_E_LIMIT,       /**< exceeds a limit of this library */
  SITU_E_UNSUPPORTED, /**< this device, dtype or build cannot do it */
  SITU_E_LOST,        /**< the device was lost; freeing still works */
  SITU_E_COMM,        /**< ranks disagree, or one was lost */
  SITU_E_TIMEOUT,     /**< a deadline passed */
  SITU_E_ALIAS        /**< memory that overlaps where it must not */
} situ_status;

/** "OK", "ARG", "SHAPE", ...: static text, never NULL. */
SITU_API const char *situ_status_name(situ_status status);

/* Handles (tensors, modules, trees, optimisers, schedulers, scalers, data sets, loaders, graphs, files, snapshots,
   moves) are checked by every call that takes one. Use after free is detected until 2,048 others of the same type were
   freed after it; any other pointer is undefined behaviour. */

/** The first error of this thread since the last situ_error_clear(); SITU_OK if there is none. */
SITU_API situ_status situ_error(void);
/** The full text of that error; "" if there is none. Valid until the thread's error is cleared. */
SITU_API const char *situ_error_message(void);
/** The op or call that failed, e.g. "matmul"; "" if there is none. */
SITU_API const char *situ_error_op(void);
/** Clears this thread's error. */
SITU_API void situ_error_clear(void);

/** One operand of a refused call, as the message shows it. Texts live until situ_error_clear(). */
typedef struct situ_error_operand {
  const char *operand; /**< name of the parameter: "weight" */
  const char *tensor;  /**< the tensor's name or module path; "" if it has none */
  const char *role;    /**< parameter, buffer, input, gradient, optimiser state, tensor */
  const char *device;  /**< "cuda:0" */
  const char *shape;   /**< "[64, 784]" */
  const char *dtype;   /**< "f32" */
  const char *placed;  /**< "created at train.c:12" */
  bool odd;            /**< this one differs from the majority */
} situ_error_operand;

/** The action of a proposed fix. */
typedef enum situ_fix_action {
  SITU_FIX_TO = 0,      /**< target = situ_to(target, device) */
  SITU_FIX_TO_DTYPE,    /**< target = situ_to_dtype(target, dtype) */
  SITU_FIX_NN_TO,       /**< situ_nn_to(target, device) */
  SITU_FIX_NN_TO_DTYPE, /**< situ_nn_to_dtype(target, dtype) */
  SITU_FIX_BUFFER,      /**< register the tensor in a field of target's struct */
  SITU_FIX_CHILD,       /**< register the module in a field of target's struct */
  SITU_FIX_POLICY,      /**< let the library copy operands, on this thread */
  SITU_FIX_DEQUANTIZE   /**< target = situ_dequantize(target), cast to dtype; a module's tensor is registered anew */
} situ_fix_action;

/** One statement of a proposed fix. Texts live until situ_error_clear(). */
typedef struct situ_error_fix {
  situ_fix_action action;
  int choice;         /**< statements with the same choice belong together; choices are alternatives */
  int operand;        /**< TO, TO_DTYPE, BUFFER, CHILD: index in the report of an operand that it changes; else, and
                           for another input of the module, -1 */
  size_t field;       /**< BUFFER, CHILD: offset of the field in the struct; 0: behind a pointer */
  const char *target; /**< the variable (TO, TO_DTYPE), or the path of a module: "model.encoder" */
  const char *device; /**< "sim:0", or "" */
  const char *dtype;  /**< "f32", or "" */
  const char *code;   /**< the statement */
  bool host_to_device, device_to_host, device_to_device; /**< POLICY: which copies are allowed */
} situ_error_fix;

/** The operands of the call that failed, borrowed until situ_error_clear(); returns their number, 0 unless the error is
    about operands. */
SITU_API int situ_error_operands(const situ_error_operand **list);

/** The parts of an error. Texts are never NULL ("": none) and live until situ_error_clear(). */
typedef struct situ_error_report {
  situ_status status;
  const char *op;      /**< the op or call that failed: "linear", "add_" */
  const char *message; /**< the full text, of several lines */
  const char *site;    /**< the line of the calling program: "train.c:41 in step" */
  const char *module;  /**< the module whose forward failed: "model.fc1 (Linear 784 -> 64)" */
  const char *odd;     /**< operands that differ from the majority: "input", "weight, bias" */
  const char *fix;     /**< C code of the fix, one statement per line; each choice was verified in a dry run */
  const char *next;    /**< what would fail next in the module */
  const situ_error_operand *operands;
  int count;                   /**< number of operands */
  const situ_error_fix *fixes; /**< the statements of `fix` */
  int fix_count;
} situ_error_report;

/** Fills *out for this thread's error. Returns false, with *out empty, if there is none. */
SITU_API bool situ_error_read(situ_error_report *out);
/** situ_error_read as JSON: {"status", "op", "message", "site", "module", "odd", "fix", "next",
    "operands": [{"operand", "tensor", "role", "device", "shape", "dtype", "placed", "odd"}],
    "fixes": [{"choice", "action", "target", "device", "dtype", "code"}]};
    {"status": "OK"} without an error. Written as snprintf does: to buffer (truncated at size, always terminated; may be
    NULL if size is 0); returns the length of the whole text, negative when out of memory. */
SITU_API int64_t situ_error_json(char *buffer, size_t size);

/** What happens when an error is recorded. */
typedef enum situ_error_policy {
  SITU_ERROR_LOG = 0, /**< the first error of a thread is logged once (the default) */
  SITU_ERROR_QUIET,   /**< no log: for programs that report errors themselves */
  SITU_ERROR_ABORT    /**< log and abort(): for tests, to stop in the debugger */
} situ_error_policy;

/** Sets the policy of the whole process; returns the previous one. */
SITU_API situ_error_policy situ_error_mode(situ_error_policy policy);

typedef void (*situ_log_fn)(const char *message, void *payload);
/** Sets the function that gets logged messages; NULL: stderr. */
SITU_API void situ_error_log(situ_log_fn log, void *payload);

SITU_END
#endif
