/* The interface for adding an op: a schema, a shape rule, a forward and a backward. docs/add-an-op.md walks through it;
   all ops in src/ops use this header. SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_OP_H
#define SITU_SYS_OP_H

#include <stdarg.h>

#include "../autograd.h"
#include "backend.h"
#include "dry.h"
#include "shape.h"

SITU_BEGIN

enum { SITU_OPERANDS = 8, SITU_RESULTS = 4 };

/* Constraints of an operand: dtypes, and its relation to the others. 0: any dtype, required. */
enum {
  SITU_FLOATING = 1u << 0, /**< f16 bf16 f32 f64 */
  SITU_INTEGRAL = 1u << 1, /**< u8 i8 i16 i32 i64 */
  SITU_BOOLEAN = 1u << 2,
  SITU_INDEX = 1u << 3,    /**< i64 or i32 */
  SITU_SAME = 1u << 4,     /**< the dtype of the first operand with this flag */
  SITU_OPTIONAL = 1u << 5, /**< may be NULL: left out, unless a call of the same scope has failed (docs/errors.md) */
  SITU_WRITTEN = 1u << 6,  /**< changed by the op (running statistics); never differentiated */
  SITU_BLOCKS = 1u << 7    /**< may hold quantised blocks (blocks.h); without it they are refused */
};

typedef struct situ_operand {
  const char *name; /**< torch's name: "input", "weight", "other" */
  unsigned accept;
} situ_operand;

/** One call of an op, during its checks, shape inference and forward. */
typedef struct situ_call {
  const struct situ_op *op;
  int ins, outs;
  situ_tensor *const *in; /**< operands as given; NULL where an optional one is missing */
  const void *params;     /**< the op's own parameters */
  situ_device device;     /**< the one device of all operands, and of the results */
  bool in_place;          /**< out[0] is in[0] */
  situ_dtype compute;     /**< set by infer, optional: the dtype that the kernel computes in */
  /** set by infer, optional: all operands and the result have these sizes, contiguous; &view: the results have the
      strides in `view`, dense in another order, and any operands */
  const situ_view_desc *like;
  situ_shape shape[SITU_RESULTS]; /**< set by infer, with dtype, for each result */
  situ_dtype dtype[SITU_RESULTS]; /**< ... SITU_DTYPE_DEFAULT: the result is absent */
  situ_view_desc view;            /**< view ops: set by infer, the result's view */
  situ_tensor *out[SITU_RESULTS]; /**< made before forward */
} situ_call;

/** The backward of one recorded call. Runs in its own scope without recording. */
typedef struct situ_grad_call {
  const struct situ_op *op;
  int ins, outs;
  const void *params;
  situ_device device;
  situ_tensor *const *in;   /**< operands that the op saves; NULL otherwise */
  situ_tensor *const *out;  /**< results that the op saves; NULL otherwise */
  situ_tensor *const *grad; /**< gradients of the results; NULL where there is none */
  situ_tensor **dx;         /**< set by backward where wants[i]; then cast and reduced to the operand's
                                          shape and dtype: broadcast dimensions are summed */
  const bool *wants;
  const situ_shape *shape; /**< of the operands */
  const situ_dtype *dtype;
  const void *node; /**< private */
} situ_grad_call;

/** The gradient accumulated so far for operand i, if this call may add to it in place; dx[i] then stays NULL. For an op
    whose gradient is mostly 0: avoids the zeros. NULL if there is none, or if it is shared. */
SITU_API situ_tensor *situ_grad_collected(const situ_grad_call *call, int i);

/** For situ_op.backward_recorded of an op with one result that is linear in each operand of the bit mask (as a product
    is in both, and pooling by averages in its one): the second derivatives are the op and its own backward, with other
    operands. Sets dx of these operands. False after recording an error. */
SITU_API bool situ_backward_linear(situ_grad_call *call, unsigned operands);
/** Returns a result of the call, made from in[] by recorded calls; NULL after recording an error. An operand that the
    op does not save is given as zeros: no gradient depends on it. */
typedef situ_tensor *(*situ_composition)(const situ_grad_call *call, situ_tensor *const *in, int result);
/** For situ_op.backward_recorded: differentiates a composition of the op out of recorded calls, in place of the fused
    backward. False after recording an error. */
SITU_API bool situ_backward_through(situ_grad_call *call, situ_composition compose);

/** A trace: a dry run that writes down every call. Embed it in your own struct, as situ_export does. */
typedef struct situ_export_trace {
  situ_dry dry; /**< its `called` writes a call by situ_op.traced */
  /** situ_export_call, with its arguments. */
  bool (*add_call)(struct situ_export_trace *trace, const char *target, const char *codes, va_list args);

  /* Private. */
  struct situ_export_trace *outer;
  uint8_t mode;
  bool paused;
} situ_export_trace;
/** Begins the dry run: until its end no call takes the fast path, and derivatives in forward mode are not computed. */
SITU_API SITU_CHECKED situ_status situ_export_trace_begin(situ_export_trace *trace);
/** Ends it as situ_dry_end does. */
SITU_API int64_t situ_export_trace_end(situ_export_trace *trace);
/** For situ_op.traced: adds a call of an ATen overload, "add.Scalar" ("*.int": of the op's own name), with its
    arguments in the order of ATen's schema.
    codes: one letter for each, with the type of what follows it:
      t situ_tensor * (NULL: None)   i int64_t          n double (a float, or a Scalar)   b int (a bool)
      I const situ_shape *           d situ_dtype       s const char *
      T situ_tensor *const *, int    ^ nothing: the result of the call before             0 nothing: None
    Trailing arguments may be left out. The results of the op are those of its last call. Returns false after recording
    an error. */
SITU_API bool situ_export_call(situ_export_trace *trace, const char *target, const char *codes, ...);
/** The same for an overload that takes the op's operands alone; overload: "Tensor". */
SITU_API bool situ_export_operands(situ_export_trace *trace, const situ_call *call, const char *overload);
/** For code that is one call in torch, and several calls of ops here: until situ_export_resume, calls of ops are not
    written. NULL unless this thread traces, and outside of another pause. */
SITU_API situ_export_trace *situ_export_pause(void);
/** Ends the pause, and writes call->op->traced in place of what was not written; call NULL: nothing. */
SITU_API void situ_export_resume(situ_export_trace *trace, const situ_call *call);

/** A call of situ_func_vmap: one call for all samples. */
typedef struct situ_batch_call {
  const struct situ_op *op;
  int ins, outs;
  const void *params;
  bool in_place;
  int64_t samples;
  situ_tensor **in;        /**< operands; those of `batched` count the samples in dimension 0 */
  bool *batched;           /**< at least one is true */
  const situ_shape *shape; /**< of the results of one sample, and dtype; SITU_DTYPE_DEFAULT: the result is absent */
  const situ_dtype *dtype;
  situ_tensor **out; /**< set: results, which count the samples in dimension 0 */
} situ_batch_call;

/** Rules for situ_op.batched. All return false after recording an error. Of an element-wise op: */
SITU_API bool situ_batch_broadcast(situ_batch_call *call);
/** Of an op that takes any number of leading dimensions of its first operand, and broadcasts them with those of the
    others, if `others`; else the others must be the same for all samples. */
SITU_API bool situ_batch_leading(situ_batch_call *call);
/** Of an op whose first operand's dimension 0 counts independent inputs, as does its results': the samples become more
    of them. */
SITU_API bool situ_batch_fold(situ_batch_call *call);
/** Of any op: one call for each sample. What a rule does with operands that it does not take. */
SITU_API bool situ_batch_each(situ_batch_call *call);
/** For a rule: runs the call with these operands, and other parameters (NULL: its own). */
SITU_API bool situ_batch_run(situ_batch_call *call, situ_tensor *const *in, const void *params);

/* Flags of an op. */
enum {
  SITU_OP_VIEW = 1u << 0,     /**< the result is a view of in[0]; infer sets call->view; no kernel */
  SITU_OP_VARIADIC = 1u << 1, /**< any number of operands, all as operand[0] (cat, stack) */
  SITU_OP_COMPOSED = 1u << 2, /**< forward calls other ops: it runs in a scope without recording */
  SITU_OP_MOVES = 1u << 3,    /**< infer sets call->device, the result's device (to) */
  /** results have no gradient (eq, argmax); without this flag, an op without backward refuses operands that require
      one */
  SITU_OP_NO_GRAD = 1u << 4,
  /** the gradient of either of the first two operands needs only the other, saved accordingly */
  SITU_OP_PRODUCT = 1u << 5,
  SITU_OP_PAIR = 1u << 6, /**< for two floating tensors of one shape and dtype it is SITU_VERB_BINARY with `code` */
  /** not element-wise: in place, no other operand may share memory with the written one */
  SITU_OP_SCATTERS = 1u << 7,
  SITU_OP_LINEAR = 1u << 8,   /**< linear in all of its floating operands together: forward mode runs it on tangents */
  SITU_OP_BILINEAR = 1u << 9, /**< a product of the first two operands, to which an optional third is added */
  /** results of the first operand's rank get its memory format: channels_last stays channels_last (images) */
  SITU_OP_FORMAT = 1u << 10,
  /** forward writes contiguous results, and backward contiguous gradients; the call copies them where they are to lie
      in another order */
  SITU_OP_ROWS = 1u << 11
};

/* How autocast casts the floating operands of an op (never f64), by PyTorch's lists. */
typedef enum situ_cast {
  SITU_CAST_NOT = 0, /**< nothing */
  SITU_CAST_LOW,     /**< to the scope's dtype: ops that gain speed by it */
  SITU_CAST_F32,     /**< to f32: ops that need its range or precision */
  SITU_CAST_WIDEST,  /**< to the widest of them: ops that require operands of one dtype */
  SITU_CAST_BACK     /**< to the widest, and the result to the first operand's dtype: norms with f32 weights */
} situ_cast;
/* Tensors saved for backward: SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE_OUT(0). */
#define SITU_SAVE(operand) (1u << (operand))
#define SITU_SAVE_OUT(result) (1u << (SITU_OPERANDS + (result)))

typedef struct situ_op {
  const char *name;                    /**< without situ_, as in messages */
  situ_operand operand[SITU_OPERANDS]; /**< ended by a NULL name */
  int outs;                            /**< 0 means 1 */
  int shown;                           /**< of these, the first that callers get; 0: all */
  unsigned flags, save;
  int code;            /**< for families: a situ_unary, situ_binary, ... */
  uint8_t autocast[2]; /**< a situ_cast: on cpu, and on any other device */
  size_t params_size;  /**< of the parameter struct, copied for backward */
  /** Shape rule and value checks: fills call->shape, dtype (and view, device). Runs after the device and dtype checks.
      Returns false after recording an error. */
  bool (*infer)(situ_call *call);
  /** Launches verbs on call->device. Not called for views, nor if every result is empty. On meta it may be called: its
      launches are recorded, to be repeated on another device, so it must not read values. */
  bool (*forward)(situ_call *call);
  /** The most likely result where infer has failed: fills call->shape and dtype, so that a dry run can continue.
      Returns false, without recording an error, if unknown. May be NULL. */
  bool (*mend)(situ_call *call);
  bool (*backward)(situ_grad_call *call);
  /** backward by recorded calls alone, for create_graph: operands and results then have their history, and what is
      computed from them without a recorded call loses it. backward itself where that consists of such calls;
      situ_backward_linear or situ_backward_through for others. NULL: create_graph is refused by name. */
  bool (*backward_recorded)(situ_grad_call *call);
  /** situ_func_jvp, where the derivative is neither recorded nor one of many samples: sets dy[k], the derivative of
      shown result k along tangent[i] of the operands (NULL: 0), or leaves it NULL where it is 0. NULL: it is derived
      from `flags` or from backward_recorded, at the cost of more calls. */
  bool (*forward_derivative)(const situ_call *call, situ_tensor *const *tangent, situ_tensor **dy);
  /** situ_func_vmap: the call of all samples at once. NULL: one call for each sample (situ_batch_each). */
  bool (*batched)(situ_batch_call *call);
  /** situ_export: how torch.export writes the call. NULL: it is refused by name. */
  bool (*traced)(const situ_call *call, situ_export_trace *trace);
} situ_op;

/** Defines an op and adds it to the table of situ_op_table(): SITU_OP(relu_op) = { ... }; */
#define SITU_OP(name)                                                                          \
  static const situ_op name;                                                                   \
  __attribute__((section("situ_ops"), used)) static const situ_op *const name##_entry = &name; \
  static const situ_op name

/** Writes the table of all ops to *ops (may be NULL); returns their number. */
SITU_API size_t situ_op_table(const situ_op *const **ops);

/** Checks (device, dtype, shape, values), infers, runs and records. Returns the first result, NULL on error; all
    results go to outs[op->outs] if outs is not NULL. They belong to the innermost scope. params is copied. */
SITU_API situ_tensor *situ_op_run(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                                  situ_tensor **outs);
/** situ_op_run in place, into in[0], which must have the result's shape and a dtype that fits; returns in[0]. */
SITU_API situ_tensor *situ_op_run_(const situ_op *op, situ_tensor *const *in, int ins, const void *params);

static inline situ_tensor *situ_op_run1(const situ_op *op, situ_tensor *a, const void *params) {
  return situ_op_run(op, &a, 1, params, NULL);
}
static inline situ_tensor *situ_op_run2(const situ_op *op, situ_tensor *a, situ_tensor *b, const void *params) {
  situ_tensor *in[2] = { a, b };
  return situ_op_run(op, in, 2, params, NULL);
}
static inline situ_tensor *situ_op_run3(const situ_op *op, situ_tensor *a, situ_tensor *b, situ_tensor *c,
                                        const void *params) {
  situ_tensor *in[3] = { a, b, c };
  return situ_op_run(op, in, 3, params, NULL);
}

/** A new tensor for a factory, from shape, dtype and device (device {0}: the default). The memory is uninitialised.
    Returns NULL after recording an error under op. */
SITU_API situ_tensor *situ_op_new(const char *op, situ_shape shape, situ_dtype dtype, situ_device device);

/** Runs work on a device under the op's name. Returns false after recording an error. */
SITU_API bool situ_launch(const char *op, situ_device device, const situ_work *work);
/** Whether the device has a kernel for this verb; without one, the op composes it of others. */
SITU_API bool situ_device_has(situ_device device, situ_verb verb);

/* Shared shape rules. All return false after recording an error. */
/** For situ_op.infer: broadcast shape of all operands, torch's result type. The result has the operands' order of
    strides, as TensorIterator gives it: it is contiguous if all operands are. */
SITU_API bool situ_infer_broadcast(situ_call *call);
/** For situ_op.infer: shape and dtype of the first operand; the result is contiguous. */
SITU_API bool situ_infer_like(situ_call *call);
/** For situ_op.mend: shape of the largest operand, torch's result type. */
SITU_API bool situ_mend_largest(situ_call *call);
/** For situ_op.mend: the result of infer if an operand had that size at a dimension. */
SITU_API bool situ_mend_size(situ_call *call, int operand, int dim, int64_t size);
/** torch.result_type of the operands (0-dim tensors yield to others of their category); SITU_DTYPE_DEFAULT for none. */
SITU_API situ_dtype situ_result_type(situ_tensor *const *in, int ins);
/** Records an error under a call's name and returns false: `return situ_refuse(c, SITU_E_SHAPE, "...", ...);` */
SITU_API bool situ_refuse(const situ_call *call, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
/** Records an error without a call (factories, checks before a call) and returns status. */
SITU_API situ_status situ_fail(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;

/** Takes one draw from a generator: returns its seed and offset, and advances it; NULL: the default generator. */
SITU_API situ_generator situ_generator_draw(situ_generator *generator);

SITU_END
#endif
