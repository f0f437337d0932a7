/* Operations, for those who add one: a schema, a shape rule, a forward and a backward side by side.
   docs/add-an-op.md walks through it; src/ops is written on this header.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_OP_H
#define SITU_SYS_OP_H

#include "../autograd.h"
#include "backend.h"

SITU_BEGIN

enum { SITU_OPERANDS = 8, SITU_RESULTS = 4 };

/* What an operand accepts: dtypes, and how it relates to the others. 0: any dtype, must be given. */
enum {
  SITU_FLOATING = 1u << 0, /**< f16 bf16 f32 f64 */
  SITU_INTEGRAL = 1u << 1, /**< u8 i8 i16 i32 i64 */
  SITU_BOOLEAN = 1u << 2,
  SITU_INDEX = 1u << 3,    /**< i64 or i32 */
  SITU_SAME = 1u << 4,     /**< the dtype of the first operand marked so */
  SITU_OPTIONAL = 1u << 5, /**< may be NULL */
  SITU_WRITTEN = 1u << 6   /**< changed by the op (running statistics); never differentiated */
};

typedef struct situ_operand {
  const char *name; /**< torch's word: "input", "weight", "other" */
  unsigned accept;
} situ_operand;

/** One call of an op, while it is checked, inferred and run. */
typedef struct situ_call {
  const struct situ_op *op;
  int ins, outs;
  situ_tensor *const *in;         /**< operands as given; NULL where an optional one is missing */
  const void *params;             /**< the op's own parameters */
  situ_device device;             /**< the one device of all operands, and of the results */
  bool in_place;                  /**< out[0] is in[0] */
  situ_dtype compute;             /**< infer may set it: what the kernel computes in */
  const situ_view_desc *like;     /**< infer may set it: all operands, and the result, have these sizes without gaps */
  situ_shape shape[SITU_RESULTS]; /**< infer sets shape and dtype of each result */
  situ_dtype dtype[SITU_RESULTS]; /**< ... SITU_DTYPE_DEFAULT: the result is absent */
  situ_view_desc view;            /**< view ops: infer sets what the result looks at */
  situ_tensor *out[SITU_RESULTS]; /**< made before forward */
} situ_call;

/** One recorded call on the way back. Runs in a scope of its own without recording. */
typedef struct situ_grad_call {
  const struct situ_op *op;
  int ins, outs;
  const void *params;
  situ_device device;
  situ_tensor *const *in;   /**< operands that the op saves; NULL otherwise */
  situ_tensor *const *out;  /**< results that the op saves; NULL otherwise */
  situ_tensor *const *grad; /**< gradients of the results; NULL where none came */
  situ_tensor **dx;         /**< to be filled where wants[i]; shape and dtype are fitted to
                                          the operand's afterwards: broadcast dimensions are summed */
  const bool *wants;
  const situ_shape *shape; /**< of the operands */
  const situ_dtype *dtype;
  const void *node; /**< the library's */
} situ_grad_call;

/** What others on the way back have given for operand i so far, where this call may add to it in place; dx[i] stays
    NULL then. For an op whose gradient is 0 but for a part: the zeros are spared. NULL: there is none, or it is
    somebody else's too. */
SITU_API situ_tensor *situ_grad_collected(const situ_grad_call *call, int i);

/* Flags of an op. */
enum {
  SITU_OP_VIEW = 1u << 0,     /**< the result looks at in[0]'s storage; infer sets call->view; no kernel */
  SITU_OP_VARIADIC = 1u << 1, /**< any number of operands, all like operand[0] (cat, stack) */
  SITU_OP_COMPOSED = 1u << 2, /**< forward makes temporaries with other ops: it gets a scope without recording */
  SITU_OP_MOVES = 1u << 3,    /**< infer sets call->device to where the result goes (to) */
  SITU_OP_PRODUCT =
      1u << 5, /**< the gradient of each of the first two operands needs only the other: saved only then */
  SITU_OP_SCATTERS =
      1u << 7, /**< not element by element: in place, no other operand may share memory with what is written */
  SITU_OP_PAIR =
      1u << 6, /**< of two floating tensors alike it is SITU_VERB_BINARY with `code`, in their shape and dtype */
  SITU_OP_NO_GRAD = 1u << 4 /**< results have no gradient by their nature (eq, argmax); else an op
                                    without backward refuses operands that require one */
};
/* What autocast does to the floating operands of an op (f64 is left alone), PyTorch's lists: */
typedef enum situ_cast {
  SITU_CAST_NOT = 0, /**< nothing */
  SITU_CAST_LOW,     /**< to the scope's dtype: what gains by it */
  SITU_CAST_F32,     /**< what needs the range or the precision */
  SITU_CAST_WIDEST,  /**< to the widest among them: what takes operands of one dtype only */
  SITU_CAST_BACK     /**< to the widest, and the result back to the first one's dtype: a norm whose weights are f32 */
} situ_cast;
/* What backward needs: SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE_OUT(0). */
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
  /** Shape rule and value checks: fills call->shape, dtype (and view, device). Runs after the device and dtype
      checks. False: it has recorded why. */
  bool (*infer)(situ_call *call);
  /** Lowers to verbs on call->device. Not called for views, or if every result is empty. On meta it may be called: its
      launches are noted then, to be done elsewhere later, so it must not look at values. */
  bool (*forward)(situ_call *call);
  /** What the result would most likely have been, where infer has refused: fills call->shape and dtype, so that a dry
      run can go on. False, with nothing recorded: no idea. May be NULL. */
  bool (*mend)(situ_call *call);
  bool (*backward)(situ_grad_call *call);
} situ_op;

/** Defines an op and enters it in the table that situ_op_table() walks: SITU_OP(relu_op) = { ... }; */
#define SITU_OP(name)                                                                          \
  static const situ_op name;                                                                   \
  __attribute__((section("situ_ops"), used)) static const situ_op *const name##_entry = &name; \
  static const situ_op name

/** Every op of the library, into *ops (may be NULL); returns their number. */
SITU_API size_t situ_op_table(const situ_op *const **ops);

/** Checks (device, dtype, shape, values), infers, runs and records. Returns the first result; all of them go to
    outs[op->outs] if outs is not NULL. They belong to the innermost scope. params must live for the call only. */
SITU_API situ_tensor *situ_op_run(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                                  situ_tensor **outs);
/** The same into in[0], which must have the result's shape and a dtype of its kind; returns in[0]. */
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

/** A factory's result: no operands, so shape, dtype and device come from the caller (device {0}: the default). The
    memory is not written yet. NULL: recorded under op. */
SITU_API situ_tensor *situ_op_new(const char *op, situ_shape shape, situ_dtype dtype, situ_device device);

/** What a kernel sees of a tensor; NULL for NULL. Valid while the tensor is. */
SITU_API const situ_view_desc *situ_desc(const situ_tensor *t);
/** v with the sizes of `to` (which it broadcasts to): v itself, or *room filled with strides of 0. NULL: recorded. */
SITU_API const situ_view_desc *situ_desc_expand(const situ_view_desc *v, const situ_view_desc *to,
                                                situ_view_desc *room);
/** v seen with other sizes; v must be contiguous and of the same numel. Fills and returns *room. NULL: recorded. */
SITU_API const situ_view_desc *situ_desc_reshape(const situ_view_desc *v, situ_shape shape, situ_view_desc *room);
/** v with its sizes and strides changed by the caller: recomputes numel and contiguous. */
SITU_API void situ_desc_refresh(situ_view_desc *v);

/** Runs work on the call's device under the op's name. False: recorded. */
SITU_API bool situ_launch(const char *op, situ_device device, const situ_work *work);
/** Does the device have a kernel for this verb? (Else: compose it of others.) */
SITU_API bool situ_device_has(situ_device device, situ_verb verb);

/* Shape rules that many ops share. */
/** Broadcast of all operands, torch's result type. */
SITU_API bool situ_infer_broadcast(situ_call *call);
/** Shape and dtype of the first operand. */
SITU_API bool situ_infer_like(situ_call *call);
/** For situ_op.mend: shape of the largest operand, torch's result type. */
SITU_API bool situ_mend_largest(situ_call *call);
/** For situ_op.mend: what infer would say if an operand had that size at a dimension. */
SITU_API bool situ_mend_size(situ_call *call, int operand, int dim, int64_t size);
/** torch.result_type of the operands in a call (0-dim tensors yield to others of their kind); SITU_DTYPE_DEFAULT of
    none. */
SITU_API situ_dtype situ_result_type(situ_tensor *const *in, int ins);
/** dim in -ndim..ndim-1 made non-negative (a 0-dim tensor has dim 0); false: recorded. */
SITU_API bool situ_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
/** Product of the sizes, checked; false: recorded (negative sizes, overflow, more than SITU_MAX_DIMS). */
SITU_API bool situ_shape_numel(const char *op, const situ_shape *shape, int64_t *numel);
SITU_API bool situ_shape_equal(const situ_shape *a, const situ_shape *b);
/** Broadcasts b onto *a; false: recorded with both shapes. */
SITU_API bool situ_shape_broadcast(const char *op, situ_shape *a, const situ_shape *b);
/** "[2, 3]" into buffer; returns buffer. */
#define SITU_SHAPE_TEXT 200
SITU_API const char *situ_shape_text(const situ_shape *shape, char buffer[SITU_SHAPE_TEXT]);

/** Records an error under a call's name and returns false: `return situ_refuse(c, SITU_E_SHAPE, "...", ...);` */
SITU_API bool situ_refuse(const situ_call *call, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
/** The same where there is no call: factories, checks before one. */
SITU_API situ_status situ_fail(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;

/* ---- what modules know of a refused call: asked by the explanation, answered by nn ---- */

enum { SITU_PATH_TEXT = 200 };

/** How a module has a tensor. */
typedef enum situ_held {
  SITU_HELD_NOT = 0,
  SITU_HELD_INPUT,       /**< it was given to a module that runs now */
  SITU_HELD_REGISTERED,  /**< a parameter or buffer: it moves with the module */
  SITU_HELD_UNREGISTERED /**< the module's struct shows it, but it was never registered */
} situ_held;

/** One tensor that is explained. The asker gives the tensor, the answer is the rest. */
typedef struct situ_explained {
  const situ_tensor *tensor;
  situ_held held;
  bool view; /**< another tensor on the storage of the one that `path` names */
  bool
      loose; /**< registered, but in a module that is not part of the one that runs: only a field of `owner` shows it */
  bool given;          /**< it was given to the outermost module that runs: the program has a variable for it */
  void *site;          /**< return address of the outermost call of a module that it was given to; NULL: of none */
  const void *root;    /**< the outermost module that holds it; only to compare */
  int root_length;     /**< of that module's name at the beginning of `path` */
  size_t field;        /**< UNREGISTERED, loose: offset of the field that shows it in the owner's struct; 0: it is
                                                 behind a pointer */
  situ_device goes_to; /**< where the owner was moved: what had been registered in it would be there; {0}: it was not */
  char name[64];       /**< of that field, where something was registered in it; "": unknown */
  char owner[SITU_PATH_TEXT]; /**< path of the module whose struct shows it */
  char path[SITU_PATH_TEXT];  /**< "model.fc1.weight"; "": no module has it */
} situ_explained;

enum { SITU_EXPLAINED_DEVICES = 8 };

typedef struct situ_explanation {
  situ_explained *operand;
  int count;
  char module[SITU_PATH_TEXT];                /**< that runs now: "model.fc1 (Linear 784 -> 64)"; "": none */
  char root[SITU_PATH_TEXT];                  /**< what C calls the outermost one that runs: "model" */
  const void *root_module;                    /**< it; only to compare */
  const void *code;                           /**< the forward of the innermost one; NULL: none runs */
  void *site;                                 /**< return address of the outermost call */
  situ_device home;                           /**< where most of the module that runs is; {0}: cannot be said */
  situ_device device[SITU_EXPLAINED_DEVICES]; /**< of the outermost module's tensors but for the operands, most first */
  int devices;
  situ_dtype dtype; /**< of most of its floating tensors but for the operands; 0: it has no other */
  bool dtypes;      /**< there are several */
} situ_explanation;

/** All are called on the thread whose call was refused, and must neither allocate nor fail. */
typedef struct situ_module_lore {
  /** Fills in all but operand[].tensor and count. */
  void (*look)(situ_explanation *e);
  /** Writes to buffer which other tensors of the modules that run are not on `device`; "": none. */
  void (*elsewhere)(const situ_explanation *e, situ_device device, char *buffer, size_t size);
  /** Lists the tensors of a module: of root (if it is alive), or of the one at `below` it ("enc.1"). Returns their
      number, of which at most `capacity` were written; 0: it is gone. */
  int64_t (*parts)(const void *root, const char *below, situ_tensor **list, int64_t capacity);
} situ_module_lore;
/** Told by nn when there are modules. */
SITU_API void situ_explain_modules(const situ_module_lore *lore);

/** The same for whoever explains something else: fills in what modules know of e->operand[] and count. */
SITU_API void situ_explain_look(situ_explanation *e);

/** An operand of something that is refused and is not a call of an op: a step, a backward, a load. */
typedef struct situ_blamed {
  const char *operand;       /**< what it is to the call: "gradient" */
  const situ_tensor *tensor; /**< NULL: left out */
  const char *name; /**< the tensor's, where it is known better than by modules and its own name; NULL: by these */
  bool odd;         /**< it is the one at fault */
} situ_blamed;
/** Records a mismatch with the table of its operands, as ops do; fix: a statement a line, or NULL. Returns status. */
SITU_API situ_status situ_fail_blamed(situ_status status, const char *op, const situ_blamed *list, int count,
                                      const char *fix, const char *fmt, ...) SITU_PRINTF(6, 7) SITU_COLD;

/** What a tensor's storage knows of its placement. */
typedef struct situ_facts {
  char created[200], moved[200]; /**< "train.c:12 in main"; "": unknown, never moved */
  const char *moved_by;          /**< "nn_to"; NULL: never moved */
  uint64_t bytes, serial;        /**< of the storage */
  bool written;                  /**< it holds values */
} situ_facts;
/** False: t is no live tensor; recorded under op. */
SITU_API bool situ_facts_of(const char *op, const situ_tensor *t, situ_facts *out);

/** A module's slot holds the tensor from now on (by 1), or no longer (by -1): told by nn. */
SITU_API void situ_count_slot(situ_tensor *t, int by);
/** Does a module hold the tensor, or another one on its storage, as a parameter or buffer? */
SITU_API bool situ_is_registered(const situ_tensor *t);

typedef enum situ_relation {
  SITU_SHARES = 0, /**< on the same storage */
  SITU_FOLLOWS,    /**< t goes where this one goes */
  SITU_LEADS,      /**< this one goes where t goes */
  SITU_RELATIONS
} situ_relation;
/** Shows every other tensor on t's storage, then one for the storage that it follows, and one for each that follows it.
    visit is called under locks: it may look, but not make, release or move tensors. */
SITU_API void situ_each_relative(const situ_tensor *t,
                                 void (*visit)(situ_relation how, const situ_tensor *other, void *payload),
                                 void *payload);

/* What a tensor is for, in messages and for placement. */
typedef enum situ_role {
  SITU_ROLE_TENSOR = 0,
  SITU_ROLE_INPUT,
  SITU_ROLE_PARAMETER,
  SITU_ROLE_BUFFER,
  SITU_ROLE_GRADIENT,
  SITU_ROLE_OPTIMIZER
} situ_role;
SITU_API void situ_set_role(situ_tensor *t, situ_role role);
SITU_API situ_role situ_role_of(const situ_tensor *t);
/** "parameter", "optimiser state": static text; "?" for no role. */
SITU_API const char *situ_role_name(situ_role role);

/** What an open scope of this thread owns so far, oldest first, in *list (may be NULL): borrowed until the next tensor
    is made in it. Returns how many; 0 if it is not open. */
SITU_API int64_t situ_scope_owned(const situ_scope *scope, situ_tensor *const **list);
/** How many hold the tensor: scopes, modules, optimisers, the tape, callers. */
SITU_API int64_t situ_owners(const situ_tensor *t);

/** One parameter of a fused optimiser step. */
typedef struct situ_optimizer_tensors {
  situ_tensor *param, *grad, *state[3];
  situ_tensor
      *master;      /**< NULL; or, of an f16 or bf16 param, what is stepped in its stead: f32, as its state then is */
  uint32_t version; /**< of param's memory when it was made master's rounding; for whoever keeps the list */
  int64_t step;
} situ_optimizer_tensors;
/** One fused step over a list, in place: every parameter with its gradient and state, one launch per device; where
    there is a master, it is stepped, and the parameter becomes its rounding. All are checked (device, dtype, shape,
    contiguous, alive) before anything changes. */
SITU_API SITU_CHECKED situ_status situ_optimizer_step(situ_optimizer_rule rule, const situ_optimizer_params *params,
                                                      const situ_optimizer_tensors *list, int64_t count);

/** From now on t's storage goes wherever leader's goes, in the same move and the same cast: optimiser state, moving
    averages, caches. leader NULL: no longer. Ends when either storage dies. Where they are now is left alone. */
SITU_API SITU_CHECKED situ_status situ_follow(situ_tensor *t, situ_tensor *leader);

/** Are there values to read; or, on meta, to be had on another device? Of an empty tensor: true. */
SITU_API bool situ_has_values(const situ_tensor *t);

/** Two storages of one size and device change memory, and with them all their tensors: what undoes a write without
    a copy that could fail. Nothing is queued or waited for. */
SITU_API SITU_CHECKED situ_status situ_swap_memory(const char *op, situ_tensor *a, situ_tensor *b);
/** A storage on meta takes over the memory and values of another one of its size, which is on meta then, with what was
    known of the first: the same call the other way round undoes it. Nothing is copied, and little can fail. */
SITU_API SITU_CHECKED situ_status situ_take_memory(const char *op, situ_tensor *meta, situ_tensor *real);

/** What a step checks first; for callers that make several and want none if any would be refused. */
SITU_API SITU_CHECKED situ_status situ_optimizer_check(situ_optimizer_rule rule, const situ_optimizer_tensors *list,
                                                       int64_t count);

/** Draws from a generator: its seed and the next offset; NULL: the default generator. */
SITU_API situ_generator situ_generator_draw(situ_generator *generator);

SITU_END
#endif
