/* The interface for adding an op: a schema, a shape rule, a forward and a backward. docs/add-an-op.md walks through it;
   all ops in src/ops use this header. SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_OP_H
#define SITU_SYS_OP_H

#include "../autograd.h"
#include "backend.h"

SITU_BEGIN

enum { SITU_OPERANDS = 8, SITU_RESULTS = 4 };

/* Constraints of an operand: dtypes, and its relation to the others. 0: any dtype, required. */
enum {
  SITU_FLOATING = 1u << 0, /**< f16 bf16 f32 f64 */
  SITU_INTEGRAL = 1u << 1, /**< u8 i8 i16 i32 i64 */
  SITU_BOOLEAN = 1u << 2,
  SITU_INDEX = 1u << 3,    /**< i64 or i32 */
  SITU_SAME = 1u << 4,     /**< the dtype of the first operand with this flag */
  SITU_OPTIONAL = 1u << 5, /**< may be NULL */
  SITU_WRITTEN = 1u << 6   /**< changed by the op (running statistics); never differentiated */
};

typedef struct situ_operand {
  const char *name; /**< torch's name: "input", "weight", "other" */
  unsigned accept;
} situ_operand;

/** One call of an op, during its checks, shape inference and forward. */
typedef struct situ_call {
  const struct situ_op *op;
  int ins, outs;
  situ_tensor *const *in;     /**< operands as given; NULL where an optional one is missing */
  const void *params;         /**< the op's own parameters */
  situ_device device;         /**< the one device of all operands, and of the results */
  bool in_place;              /**< out[0] is in[0] */
  situ_dtype compute;         /**< set by infer, optional: the dtype that the kernel computes in */
  const situ_view_desc *like; /**< set by infer, optional: all operands and the result have these sizes, contiguous */
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

/* Flags of an op. */
enum {
  SITU_OP_VIEW = 1u << 0,     /**< the result is a view of in[0]; infer sets call->view; no kernel */
  SITU_OP_VARIADIC = 1u << 1, /**< any number of operands, all as operand[0] (cat, stack) */
  SITU_OP_COMPOSED = 1u << 2, /**< forward calls other ops: it runs in a scope without recording */
  SITU_OP_MOVES = 1u << 3,    /**< infer sets call->device, the result's device (to) */
  SITU_OP_PRODUCT =
      1u << 5, /**< the gradient of either of the first two operands needs only the other, saved accordingly */
  SITU_OP_SCATTERS = 1u << 7, /**< not element-wise: in place, no other operand may share memory with the written one */
  SITU_OP_PAIR = 1u << 6,     /**< for two floating tensors of one shape and dtype it is SITU_VERB_BINARY with `code` */
  SITU_OP_NO_GRAD = 1u << 4   /**< results have no gradient (eq, argmax); without this flag, an op
                                    without backward refuses operands that require one */
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

/** The view descriptor of a tensor, for kernels; NULL for NULL. Valid as long as the tensor. */
SITU_API const situ_view_desc *situ_desc(const situ_tensor *t);
/** v broadcast to the sizes of `to`: v itself, or *buffer filled with strides of 0. Returns NULL after recording an
    error. */
SITU_API const situ_view_desc *situ_desc_expand(const situ_view_desc *v, const situ_view_desc *to,
                                                situ_view_desc *buffer);
/** v with another shape; v must be contiguous and have the same numel. Fills and returns *buffer. Returns NULL after
    recording an error. */
SITU_API const situ_view_desc *situ_desc_reshape(const situ_view_desc *v, situ_shape shape, situ_view_desc *buffer);
/** Recomputes numel and contiguous after the caller has changed v's sizes or strides. */
SITU_API void situ_desc_refresh(situ_view_desc *v);

/** Runs work on a device under the op's name. Returns false after recording an error. */
SITU_API bool situ_launch(const char *op, situ_device device, const situ_work *work);
/** Whether the device has a kernel for this verb; without one, the op composes it of others. */
SITU_API bool situ_device_has(situ_device device, situ_verb verb);

/* Shared shape rules. All return false after recording an error. */
/** For situ_op.infer: broadcast shape of all operands, torch's result type. */
SITU_API bool situ_infer_broadcast(situ_call *call);
/** For situ_op.infer: shape and dtype of the first operand. */
SITU_API bool situ_infer_like(situ_call *call);
/** For situ_op.mend: shape of the largest operand, torch's result type. */
SITU_API bool situ_mend_largest(situ_call *call);
/** For situ_op.mend: the result of infer if an operand had that size at a dimension. */
SITU_API bool situ_mend_size(situ_call *call, int operand, int dim, int64_t size);
/** torch.result_type of the operands (0-dim tensors yield to others of their category); SITU_DTYPE_DEFAULT for none. */
SITU_API situ_dtype situ_result_type(situ_tensor *const *in, int ins);
/** Writes dim, in -ndim..ndim-1, made non-negative, to *out (a 0-dim tensor has dim 0); out of range is SITU_E_ARG. */
SITU_API bool situ_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
/** Writes the product of the sizes to *numel; negative sizes, overflow and more than SITU_MAX_DIMS are errors. */
SITU_API bool situ_shape_numel(const char *op, const situ_shape *shape, int64_t *numel);
/** Whether rank and sizes are equal. */
SITU_API bool situ_shape_equal(const situ_shape *a, const situ_shape *b);
/** Broadcasts *a with b, into *a; the error has both shapes. */
SITU_API bool situ_shape_broadcast(const char *op, situ_shape *a, const situ_shape *b);
#define SITU_SHAPE_TEXT 200
/** Writes "[2, 3]" to buffer; returns buffer. */
SITU_API const char *situ_shape_text(const situ_shape *shape, char buffer[SITU_SHAPE_TEXT]);

/** Records an error under a call's name and returns false: `return situ_refuse(c, SITU_E_SHAPE, "...", ...);` */
SITU_API bool situ_refuse(const situ_call *call, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
/** Records an error without a call (factories, checks before a call) and returns status. */
SITU_API situ_status situ_fail(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;

/* ---- module information for error messages: requested by the explanation, provided by nn ---- */

enum { SITU_PATH_TEXT = 200 };

/** A tensor's relation to modules. */
typedef enum situ_held {
  SITU_HELD_NOT = 0,
  SITU_HELD_INPUT,       /**< an input of a running module */
  SITU_HELD_REGISTERED,  /**< a parameter or buffer, which moves with the module */
  SITU_HELD_UNREGISTERED /**< a field of the module's struct points to it, but it was not registered */
} situ_held;

/** One tensor of an explanation. The caller sets tensor, nn the rest. */
typedef struct situ_explained {
  const situ_tensor *tensor;
  situ_held held;
  bool view;           /**< another tensor on the storage of the tensor at `path` */
  bool loose;          /**< registered, but in a module outside the running one: only a field of `owner` points to it */
  bool given;          /**< an input of the outermost running module: the program has a variable for it */
  void *site;          /**< return address of the outermost module call that it was an input of; NULL: none */
  const void *root;    /**< the outermost module that owns it; only to compare */
  int root_length;     /**< length of that module's name at the beginning of `path` */
  size_t field;        /**< UNREGISTERED, loose: offset in the owner's struct of the field that points to it; 0:
                                                 behind a pointer */
  situ_device goes_to; /**< device that the owner was moved to; {0}: not moved */
  char name[64];       /**< of that field, if a part was registered for it; "": unknown */
  char owner[SITU_PATH_TEXT]; /**< path of the module whose struct points to it */
  char path[SITU_PATH_TEXT];  /**< "model.fc1.weight"; "": not in a module */
} situ_explained;

enum { SITU_EXPLAINED_DEVICES = 8 };

typedef struct situ_explanation {
  situ_explained *operand;
  int count;
  char module[SITU_PATH_TEXT]; /**< the running module: "model.fc1 (Linear 784 -> 64)"; "": none */
  char root[SITU_PATH_TEXT];   /**< the C name of the outermost running module: "model" */
  const void *root_module;     /**< the same module; only to compare */
  const void *code;            /**< the forward of the innermost running module; NULL: none */
  void *site;                  /**< return address of the outermost call */
  situ_device home;            /**< device of most of the running module; {0}: unknown */
  situ_device
      device[SITU_EXPLAINED_DEVICES]; /**< of the outermost module's tensors except the operands, most frequent first */
  int devices;
  situ_dtype dtype; /**< of most of its floating tensors except the operands; 0: it has no others */
  bool dtypes;      /**< it has several floating dtypes */
} situ_explanation;

/** All are called on the thread whose call failed, and must neither allocate nor fail. */
typedef struct situ_module_lore {
  /** Fills everything except operand[].tensor and count. */
  void (*look)(situ_explanation *e);
  /** Writes to buffer the other tensors of the running modules that are not on `device`; "": none. */
  void (*elsewhere)(const situ_explanation *e, situ_device device, char *buffer, size_t size);
  /** Lists the tensors of a module: of root (if it is alive), or of its descendant at path `below` ("enc.1"). Returns
      their number, of which at most `capacity` were written; 0 if the module was freed. */
  int64_t (*parts)(const void *root, const char *below, situ_tensor **list, int64_t capacity);
} situ_module_lore;
/** Installs the functions; called by nn when the first module is made. */
SITU_API void situ_explain_modules(const situ_module_lore *lore);

/** For explanations of other errors: fills the module information of e->operand[0..count-1]. */
SITU_API void situ_explain_look(situ_explanation *e);

/** An operand of a failed operation that is not an op: a step, a backward, a load. */
typedef struct situ_blamed {
  const char *operand;       /**< its role in the operation: "gradient" */
  const situ_tensor *tensor; /**< NULL: left out */
  const char *name;          /**< overrides the name from modules and the tensor's own; NULL: use these */
  bool odd;                  /**< it is the mismatched one */
} situ_blamed;
/** Records a mismatch with a table of its operands, as ops do; fix: one statement per line, or NULL. Returns status. */
SITU_API situ_status situ_fail_blamed(situ_status status, const char *op, const situ_blamed *list, int count,
                                      const char *fix, const char *fmt, ...) SITU_PRINTF(6, 7) SITU_COLD;

/** The placement history of a tensor's storage. */
typedef struct situ_facts {
  char created[200], moved[200]; /**< "train.c:12 in main"; "": unknown, never moved */
  const char *moved_by;          /**< name of the call: "nn_to"; NULL: never moved */
  uint64_t bytes, serial;        /**< of the storage */
  bool written;                  /**< it holds values */
} situ_facts;
/** Fills *out. Returns false after recording an error under op, if t is not a live tensor. */
SITU_API bool situ_facts_of(const char *op, const situ_tensor *t, situ_facts *out);

/** Counts the module slots that own the tensor: by is 1 or -1. Called by nn. */
SITU_API void situ_count_slot(situ_tensor *t, int by);
/** Whether a module owns the tensor, or another one on its storage, as a parameter or buffer. */
SITU_API bool situ_is_registered(const situ_tensor *t);

typedef enum situ_relation {
  SITU_SHARES = 0, /**< on the same storage */
  SITU_FOLLOWS,    /**< t moves with this one */
  SITU_LEADS,      /**< this one moves with t */
  SITU_RELATIONS
} situ_relation;
/** Visits every other tensor on t's storage, then one for the storage that it follows, and one for each that follows
    it. visit is called with locks held: it must not make, release or move tensors. */
SITU_API void situ_each_relative(const situ_tensor *t,
                                 void (*visit)(situ_relation how, const situ_tensor *other, void *payload),
                                 void *payload);

/* The role of a tensor, for messages and placement. */
typedef enum situ_role {
  SITU_ROLE_TENSOR = 0,
  SITU_ROLE_INPUT,
  SITU_ROLE_PARAMETER,
  SITU_ROLE_BUFFER,
  SITU_ROLE_GRADIENT,
  SITU_ROLE_OPTIMIZER
} situ_role;
/** Sets the role of a tensor. */
SITU_API void situ_set_role(situ_tensor *t, situ_role role);
/** The role of a tensor; SITU_ROLE_TENSOR by default. */
SITU_API situ_role situ_role_of(const situ_tensor *t);
/** "parameter", "optimiser state": static text; "?" for an invalid value. */
SITU_API const char *situ_role_name(situ_role role);

/** Writes the list of tensors that an open scope of this thread owns, oldest first, to *list (may be NULL): borrowed
    until the next tensor is made in it. Returns their number; 0 if the scope is not open. */
SITU_API int64_t situ_scope_owned(const situ_scope *scope, situ_tensor *const **list);
/** Number of owners of the tensor: scopes, modules, optimisers, the graph, callers. */
SITU_API int64_t situ_owners(const situ_tensor *t);

/** One parameter of a fused optimiser step. */
typedef struct situ_optimizer_tensors {
  situ_tensor *param, *grad, *state[3];
  situ_tensor
      *master; /**< NULL, or the f32 master copy of an f16 or bf16 param: stepped in its place; state is f32 then */
  uint32_t version; /**< version of param's storage when master was last rounded into it; for the owner of the list */
  int64_t step;
  double mu_product; /**< NAdam: product of its momentum factors; 0 before the first step */
} situ_optimizer_tensors;
/** One fused step over a list, in place: every parameter with its gradient and state, one launch per device; a
    parameter with a master is set to the rounded master. All are checked (device, dtype, shape, contiguous, alive)
    before anything changes. */
SITU_API SITU_CHECKED situ_status situ_optimizer_step(situ_optimizer_rule rule, const situ_optimizer_params *params,
                                                      const situ_optimizer_tensors *list, int64_t count);

/** Makes t's storage move and cast together with leader's: for optimiser state, moving averages, caches. leader NULL:
    no longer. Ends when either storage is freed. Does not move anything now. */
SITU_API SITU_CHECKED situ_status situ_follow(situ_tensor *t, situ_tensor *leader);

/** Whether the tensor has values; on meta, whether they can be computed on another device. True for an empty tensor. */
SITU_API bool situ_has_values(const situ_tensor *t);

/** Swaps the memory of two storages of one number of elements, with their devices, dtypes and all their tensors: undoes
    a write without a copy that could fail. Queues nothing and does not wait. */
SITU_API SITU_CHECKED situ_status situ_swap_memory(const char *op, situ_tensor *a, situ_tensor *b);
/** Gives the memory and values of a real storage to one on meta of its size; the real one becomes a meta storage. The
    same call with swapped arguments undoes it. Copies nothing, and can hardly fail. */
SITU_API SITU_CHECKED situ_status situ_take_memory(const char *op, situ_tensor *meta, situ_tensor *real);

/** The checks of situ_optimizer_step, for callers that make several steps, all or none. */
SITU_API SITU_CHECKED situ_status situ_optimizer_check(situ_optimizer_rule rule, const situ_optimizer_tensors *list,
                                                       int64_t count);

/** Takes one draw from a generator: returns its seed and offset, and advances it; NULL: the default generator. */
SITU_API situ_generator situ_generator_draw(situ_generator *generator);

SITU_END
#endif
