/* Modules (torch.nn.Module): layers, and networks made of them. Custom modules are written in the same way as the
   library's.
   Threads: forwards of one module may run concurrently; changing it meanwhile is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_H
#define SITU_NN_H

#include "autograd.h"
#include "ops.h"
#include "tree.h"

SITU_BEGIN

typedef struct situ_nn_module situ_nn_module;

/** The methods of a kind of module. With one of .forward, .forward_kwargs and .call it can be called in every way: the
    library derives the others. With none it only holds its parts, as a struct at the root of a model may. */
typedef struct situ_nn_type {
  const char *name; /**< "Linear": for printing and messages */
  size_t size;      /**< sizeof the whole struct, which begins with `situ_nn_module base` */
  /** One tensor in, one out. Call it through situ_nn_forward, which adds hooks, the default device and a scope. */
  situ_tensor *(*forward)(situ_nn_module *self, situ_tensor *x);
  /** The same with arguments beside the tensor, such as a mask or a cache: kwargs points to a struct of the type's own,
      and is NULL if the module is called without. Call it through situ_nn_forward_kwargs. */
  situ_tensor *(*forward_kwargs)(situ_nn_module *self, situ_tensor *x, const void *kwargs);
  /** A tree in (borrowed), a tree out (the caller frees it). */
  situ_tree *(*call)(situ_nn_module *self, const situ_tree *inputs);
  /** Writes torch's extra_repr ("in_features=2, ...") as snprintf does; may be NULL. */
  int (*extra_repr)(const situ_nn_module *self, char *buffer, size_t size);
  /** Frees resources of the fields that are not registered; may be NULL. */
  void (*release)(situ_nn_module *self);
  /** Duplicates the unregistered fields of a clone: copy is a bitwise copy of self without its registered parts, which
      are cloned later. May be NULL; a module with release but without copy cannot be cloned. */
  situ_status (*copy)(situ_nn_module *copy, const situ_nn_module *self);
  /** Writes a short description ("784 -> 64") for messages, as snprintf does. May be NULL: messages use extra_repr. */
  int (*brief)(const situ_nn_module *self, char *buffer, size_t size);
  /** For lazy modules: makes the parameters, uninitialised, in the shapes that a state dict has under `path` ("" for
      the root), as a first input would; leaves the module unchanged if the state lacks them. May be NULL: no state can
      be loaded before the first input. */
  situ_status (*wake)(situ_nn_module *self, const situ_tree *state, const char *path);
  /** forward calls one op and makes no other tensor, so situ_nn_forward opens no scope: the caller's scope owns the
      result. */
  bool single_op;
} situ_nn_type;

/** Kinds of registered parts. */
typedef enum situ_nn_kind {
  SITU_NN_CHILD = 1u << 0,
  SITU_NN_PARAMETER = 1u << 1,
  SITU_NN_BUFFER = 1u << 2,
  SITU_NN_TRANSIENT = 1u << 3 /**< a buffer outside the state dict: torch's persistent=False */
} situ_nn_kind;

/** One registered part. The module owns `held`; the field, if there is one, points to it for the module's code. */
typedef struct situ_nn_slot {
  char *name; /**< owned by the library; a clone's slots share it */
  situ_nn_kind kind;
  size_t offset; /**< of the field in the module's struct; 0: no field (containers) */
  void *held;    /**< a situ_nn_module or a situ_tensor */
  uint64_t was;  /**< serial number of the storage that the tensor here replaced; 0: none */
} situ_nn_slot;

/** What a finished module does with a part on another device that is added to it, if all of the module is on one. */
typedef enum situ_nn_late_policy {
  SITU_NN_LATE_ADOPT = 0, /**< the part moves to the module's device as a whole, unless a device was stated for any of
                               it (by an option, a loader, a move): then all of it stays */
  SITU_NN_LATE_WARN,      /**< the same, and tells the log function (situ_error_log) */
  SITU_NN_LATE_ERROR      /**< the part is refused: SITU_E_DEVICE */
} situ_nn_late_policy;

/** A tensor that was made during the construction of a module, and outlived it without being registered: examined by
    situ_place_lint. */
typedef struct situ_nn_stray {
  const situ_tensor *tensor; /**< may have been freed since: check with situ_is_tensor */
  uint64_t serial;           /**< of its storage at that time */
  size_t offset;             /**< of the field that points to it; 0: none does, but it has an owner */
} situ_nn_stray;

/** Every module's struct begins with this. Read-only: change it through the functions below. */
struct situ_nn_module {
  uint32_t head; /* marks a live module */
  int32_t refs;
  const situ_nn_type *type;
  situ_nn_slot *slots; /* in order of registration */
  int64_t count, capacity;
  int64_t children;            /* slots that are modules */
  struct situ_nn_index *index; /* of the slots' names; NULL: none */
  struct situ_nn_hooks *hooks; /* NULL: none */
  struct situ_nn_build *build; /* between situ_nn_alloc and situ_nn_done */
  situ_nn_stray *strays;       /* NULL: none */
  int64_t stray_count;
  struct situ_nn_module *older, *newer; /* list of all live modules */
  const struct situ_nn_module *holder;  /* one of the modules that hold it; NULL: none, or they have to be looked for */
  int64_t place;                        /* of its slot in holder, but for slots before it that were taken out */
  char *name;                           /* see situ_nn_set_name; NULL: none */
  situ_device home;                     /* its device while it has no tensor; {0}: unspecified */
  situ_device computes_on;              /* see situ_nn_offload; {0}: where its tensors are */
  int32_t parents;                      /* slots of modules that hold it: the share of refs that is theirs */
  uint64_t number, within, done;        /* private: the order of construction, for the lint */
  uint64_t busy;                        /* newest claim of a thread that is moving, changing or freeing it; private */
  bool training;
  bool pending;        /* a lazy module without parameters yet */
  bool broken;         /* a part could not be made: situ_nn_done will fail */
  bool late;           /* it was added to a finished module, which has not been moved since */
  bool parametrized;   /* some of its tensors are computed from parameters in its part "parametrizations" */
  bool standing_in;    /* for the time of one call, with computed tensors in its fields; it has no parts of its own */
  uint8_t late_policy; /* a situ_nn_late_policy */
};

/* ---- making ---------------------------------------------------------------------------------- */

/* typedef struct { situ_nn_module base; situ_nn_module *fc; situ_tensor *scale; } my_module;

   situ_nn_module *my_module_new(int64_t n) {
     my_module *m = situ_nn_alloc(&my_type);
     situ_nn_child(m, fc, situ_nn_linear(n, n, NULL));
     situ_nn_param(m, scale, situ_ones(SITU_SHAPE(n), NULL));
     return situ_nn_done(m);
   }

   A part that is added after situ_nn_done comes to m's device: see situ_nn_late_policy.

   A scope is open until situ_nn_done: it releases tensors that were made meanwhile and not registered, except those
   that a field still points to, which go to the enclosing scope. */

/** A zeroed module of type->size bytes, in training mode. NULL on error, which all functions below accept. */
SITU_API void *situ_nn_alloc(const situ_nn_type *type);
/** Ends the construction and returns the module. If any part could not be made, frees all of it and returns NULL. */
SITU_API situ_nn_module *situ_nn_done(void *module);

/** m->field = a module, owned by m from now on; its registered name is the field's. To give a child a second parent,
    pass situ_nn_retain(child). A second assignment frees the old child. */
#define situ_nn_child(m, field, child) \
  situ_nn_add_child((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (child))
/** m->field = a parameter: m owns a reference to it, and it requires a gradient from now on. */
#define situ_nn_param(m, field, tensor) \
  situ_nn_add_tensor((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (tensor), SITU_NN_PARAMETER)
/** m->field = a buffer: a tensor that moves with the module and is in its state dict. */
#define situ_nn_buffer(m, field, tensor) \
  situ_nn_add_tensor((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (tensor), SITU_NN_BUFFER)
/** m->field = a buffer outside the state dict (persistent=False). */
#define situ_nn_transient_buffer(m, field, tensor) \
  situ_nn_add_tensor((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (tensor), SITU_NN_TRANSIENT)

/** The function behind situ_nn_child; field NULL: the part is registered by name only, which may be a path
    ("encoder.layer.0"): modules on it that do not exist yet are made, as ModuleDicts. Returns the child, NULL on error.
    A child that another module owns, without a reference of the caller's, is refused (SITU_E_STATE). */
SITU_API situ_nn_module *situ_nn_add_child(situ_nn_module *m, const char *name, situ_nn_module **field,
                                           situ_nn_module *child);
/** The function behind situ_nn_param and situ_nn_buffer; field NULL: registered by name only, which may be a path, as
    in situ_nn_add_child. Returns the tensor, NULL on error. */
SITU_API situ_tensor *situ_nn_add_tensor(situ_nn_module *m, const char *name, situ_tensor **field, situ_tensor *tensor,
                                         situ_nn_kind kind);

/** Adds an owner; returns m. NULL stays NULL. */
SITU_API situ_nn_module *situ_nn_retain(situ_nn_module *m);
/** Removes an owner; the last one frees the module and releases its parts. NULL is fine. A module owned only by other
    modules is refused (SITU_E_STATE): it is freed with its owner. A module that is running, for example because its
    hook frees it, is freed at the end of its call. */
SITU_API void situ_nn_free(situ_nn_module *m);
/** A deep copy, with gradients and hooks; the caller owns it. A part that is registered twice is copied once. NULL on
    error.

    Of a module that a ddp or a ZeRO optimiser trains it is a plain module: it has the program's own hooks, but none of
    theirs, and its calls concern no other rank (parameters in parts are refused: situ_dist_zero_unshard first). Layers
    that compute over ranks, of situ_dist_tp_new and SyncBatchNorm, stay such layers: their calls are collective in the
    copy too. */
SITU_API situ_nn_module *situ_nn_clone(situ_nn_module *m);
/** Names the outermost module, best by its C variable, so that messages say model.encoder.fc1.weight instead of
    MyModel.encoder.fc1.weight. The text is copied; NULL or "" removes the name. Returns m. */
SITU_API situ_nn_module *situ_nn_set_name(situ_nn_module *m, const char *name);
/** The name set by situ_nn_set_name; "" if there is none. */
SITU_API const char *situ_nn_name(const situ_nn_module *m);
/** Writes the path of the module whose forward is running on this thread, relative to the outermost module:
    "encoder.fc1"; "" for the outermost, and if none is running. In a loaded program it is the module that the call was
    in where the program was exported. Truncated at size; returns buffer. Slow. */
SITU_API const char *situ_nn_running(char *buffer, size_t size);
/** Number of live modules in the process: for leak tests. */
SITU_API int64_t situ_nn_live_modules(void);
/** Whether this is the address of a live module; accepts any pointer. */
SITU_API bool situ_nn_is_module(const void *pointer);

/* ---- calling --------------------------------------------------------------------------------- */

/** Calls a module: opens a scope, makes the module's device the default, runs hooks and forward. The result belongs to
    the caller's scope; all other tensors that were made are released. NULL on error. */
SITU_API situ_tensor *situ_nn_forward(situ_nn_module *m, situ_tensor *x);
/** situ_nn_forward with arguments beside x, which the type's .forward_kwargs reads: `situ_nn_forward_kwargs(m, x,
    &(block_kwargs){ .mask = mask })`. The pointer is handed on as it is, so it must point to the struct that the type
    documents. Hooks see x and the result, not kwargs (as in torch). A type without .forward_kwargs is
    SITU_E_UNSUPPORTED, unless kwargs is NULL. */
SITU_API situ_tensor *situ_nn_forward_kwargs(situ_nn_module *m, situ_tensor *x, const void *kwargs);
/** situ_nn_forward for any number of tensors. The caller frees the tree; its tensors belong to the caller's scope. */
SITU_API situ_tree *situ_nn_call(situ_nn_module *m, const situ_tree *inputs);
/** situ_nn_forward for two tensors, such as a loss's input and target. */
SITU_API situ_tensor *situ_nn_forward2(situ_nn_module *m, situ_tensor *x, situ_tensor *y);

/** situ_nn_forward without gradients, with its result in a tensor that the caller has, such as one on memory of the
    program's, or a tile of a larger image: `output` keeps its memory and strides. Its shape, dtype and device must be
    those of the result (SITU_E_SHAPE, _DTYPE, _DEVICE), and no parameter or buffer may be on its memory (SITU_E_ALIAS);
    it may share memory with an input, which is read first. The result is computed in memory of situ's, and copied once
    on its device; no ledger counts a copy between devices. A graph of the call (situ_graph_capture_begin) leaves that
    copy out on cpu and sim, if element-wise work makes the result. After an error `output` is unchanged. */
SITU_API SITU_CHECKED situ_status situ_nn_forward_into(situ_nn_module *m, situ_tensor *x, situ_tensor *output);
/** The same for any number of tensors: `outputs` has the form of what situ_nn_call returns, a tensor in each place.
    Nothing is written unless all of them fit, and no two of them have a byte in common (SITU_E_ALIAS). */
SITU_API SITU_CHECKED situ_status situ_nn_call_into(situ_nn_module *m, const situ_tree *inputs,
                                                    const situ_tree *outputs);

/** Called at every call of a module. Before forward: output is NULL, and the hook may replace *inputs (situ_tree_set).
    After it: the hook may replace *output. Any result but SITU_OK fails the call. */
typedef situ_status (*situ_nn_hook)(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload);
/** Adds a hook before forward; hooks run in the order of registration. *handle (may be NULL) is for
    situ_nn_remove_hook. */
SITU_API SITU_CHECKED situ_status situ_nn_register_forward_pre_hook(situ_nn_module *m, situ_nn_hook hook, void *payload,
                                                                    int64_t *handle);
/** Adds a hook after forward; as situ_nn_register_forward_pre_hook. */
SITU_API SITU_CHECKED situ_status situ_nn_register_forward_hook(situ_nn_module *m, situ_nn_hook hook, void *payload,
                                                                int64_t *handle);
/** Removes a hook by its handle. */
SITU_API void situ_nn_remove_hook(situ_nn_module *m, int64_t handle);

/** Has every call of m copy those inputs to m's device (situ_nn_home) that are on another one; on: false: no more. m's
    parts do not inherit it: each module is told for itself. A tensor that occurs twice is copied once, and gradients
    come back to the input's device. The tree of a call counts, kwargs do not; tensors on meta are not copied. As a hook
    before forward it runs in the order of registration, also in a clone. A ledger records each copy, with the reason
    "input" and the path of m, whatever the policy; one that allows no copies refuses it. */
SITU_API SITU_CHECKED situ_status situ_nn_bring_inputs(situ_nn_module *m, bool on);
/** Whether m was told so. */
SITU_API bool situ_nn_brings_inputs(const situ_nn_module *m);

/** The module's device: that of its first parameter or buffer, else the one it was last moved to; {0}: none yet. Of an
    offloaded module the device that it computes on (situ_nn_offload). */
SITU_API situ_device situ_nn_home(const situ_nn_module *m);
/** Has a module go along with moves of another one from now on, as an average, a loss with weights or a metric should:
    a tensor of m goes along with leader's of the same path, else with leader's first one, if it is on its device then;
    it keeps its dtype. m may be moved alone, and stays where it is put. leader NULL: m follows nothing any more. After
    an error some tensors may follow. */
SITU_API SITU_CHECKED situ_status situ_nn_follow(situ_nn_module *m, situ_nn_module *leader);

/** Called when a module has moved between devices, as a part of the move: makes anew what is derived from parameters.
    Any result but SITU_OK moves everything back, and is that of the move; hooks that were called before it are called
    again, with the devices exchanged. */
typedef situ_status (*situ_nn_move_hook)(situ_nn_module *m, situ_device from, situ_device to, void *payload);
/** Adds a hook for moves of m by situ_nn_to and its variants, of m itself or of a module around it; not by situ_to_, of
    parameters alone, nor by a plan or a check. from and to: situ_nn_home, before and after. Hooks run in the order of
    the modules, then of registration. *handle (may be NULL) is for situ_nn_remove_hook. */
SITU_API SITU_CHECKED situ_status situ_nn_on_move(situ_nn_module *m, situ_nn_move_hook hook, void *payload,
                                                  int64_t *handle);

/* ---- traversal ------------------------------------------------------------------------------- */

/** Bits for situ_nn_walk, beside situ_nn_kind. */
enum {
  SITU_NN_VISIT_MODULES = 1u << 4, /**< each module, before its parts */
  SITU_NN_VISIT_LEAVE = 1u << 5,   /**< each module, after its parts */
  SITU_NN_VISIT_ONCE = 1u << 6,    /**< shared modules and tensors only the first time */
  SITU_NN_VISIT_UNNAMED = 1u << 7, /**< path and name are "": faster */
  SITU_NN_VISIT_BUFFERS = SITU_NN_BUFFER | SITU_NN_TRANSIENT,
  SITU_NN_VISIT_TENSORS = SITU_NN_PARAMETER | SITU_NN_VISIT_BUFFERS
};
typedef struct situ_nn_visit {
  const char *path;       /**< "encoder.layers.0.linear1.weight"; "" for the root */
  const char *name;       /**< its last part */
  int depth;              /**< 0 for the root, and for the root's own tensors */
  bool leaving;           /**< the visit after the module's parts */
  situ_nn_module *module; /**< the module, or the owner of the tensor */
  situ_tensor *tensor;    /**< NULL when a module is visited */
  situ_nn_slot *slot;     /**< NULL for the root */
} situ_nn_visit;
typedef situ_status (*situ_nn_visitor)(const situ_nn_visit *at, void *payload);
/** Visits the module in torch's order (a module's parameters, its buffers, then its children), as selected by `which`:
    situ_nn_kind and SITU_NN_VISIT_ bits. Any result of visit but SITU_OK stops the walk and is returned. */
SITU_API SITU_CHECKED situ_status situ_nn_walk(situ_nn_module *m, unsigned which, situ_nn_visitor visit, void *payload);

/** named_parameters: a flat dict, path to tensor, shared ones once. The caller frees it, or passes it to an optimiser.
    A lazy module that has not seen an input yet is SITU_E_STATE. */
SITU_API situ_tree *situ_nn_parameters(situ_nn_module *m);
/** named_buffers, including those outside the state dict. The caller frees it. */
SITU_API situ_tree *situ_nn_buffers(situ_nn_module *m);
/** Number of elements of all parameters, shared ones once. */
SITU_API int64_t situ_nn_num_parameters(const situ_nn_module *m);
/** A descendant by its path ("encoder.layers.0"; "" is m itself). Borrowed; NULL on error. */
SITU_API situ_nn_module *situ_nn_get_submodule(situ_nn_module *m, const char *path);
/** A parameter or buffer by its path. Borrowed; NULL on error. */
SITU_API situ_tensor *situ_nn_get_tensor(situ_nn_module *m, const char *path);

/** Calls fn for every module, children before their parents; stops at the first result but SITU_OK, and returns it. */
SITU_API SITU_CHECKED situ_status situ_nn_apply(situ_nn_module *m, situ_status (*fn)(situ_nn_module *m, void *payload),
                                                void *payload);
/** Sets training mode, also of all descendants; returns m. */
SITU_API situ_nn_module *situ_nn_train(situ_nn_module *m, bool on);
/** situ_nn_train(m, false). */
SITU_API situ_nn_module *situ_nn_eval(situ_nn_module *m);
/** Sets the policy for late parts of m and all its descendants; parts that are added later get it too. Returns m. */
SITU_API situ_nn_module *situ_nn_set_late_policy(situ_nn_module *m, situ_nn_late_policy policy);
/** Sets whether the parameters require a gradient; returns m. */
SITU_API situ_nn_module *situ_nn_requires_grad_(situ_nn_module *m, bool wanted);
/** Drops the gradients of all parameters (set_to_none). */
SITU_API void situ_nn_zero_grad(situ_nn_module *m);

/** torch's repr: written to buffer as situ_to_string does; returns the length of the whole text; negative on error. */
SITU_API int64_t situ_nn_to_string(situ_nn_module *m, char *buffer, size_t size);
/** Prints situ_nn_to_string's text and a newline to stdout. */
SITU_API void situ_nn_print(situ_nn_module *m);

/* ---- state ----------------------------------------------------------------------------------- */

/** state_dict: a flat dict, path to tensor, of parameters and persistent buffers, in torch's order; the tensors are the
    module's own, not copies. The caller frees it. */
SITU_API situ_tree *situ_nn_state_dict(situ_nn_module *m);

typedef enum situ_nn_load_problem {
  SITU_NN_LOAD_MISSING,    /**< in the module, not in the state */
  SITU_NN_LOAD_UNEXPECTED, /**< in the state, not in the module */
  SITU_NN_LOAD_MISMATCH    /**< shapes differ, or floating values would be cast to an integer dtype */
} situ_nn_load_problem;
/** A row of situ_nn_load_options.rename: `from` is one or more whole parts of a path ("transformer.h", "gamma"). */
typedef struct situ_nn_rename {
  const char *from; /**< replaced where it first occurs in a name; "": put before every name */
  const char *to;   /**< "": `from` is dropped; NULL: the tensors whose names contain `from` are left out */
} situ_nn_rename;
typedef struct situ_nn_load_options {
  bool not_strict;    /**< torch's strict=False: ignore missing and unexpected names */
  situ_device device; /**< where tensors that are on meta go; {0}: the device that the module was moved to,
                           else the default device. See .place */
  /** Swap memory instead of copying (torch's assign=True): the module's tensor gets the state's values, device and
      dtype, without a copy, and the state's tensor what the module's had; gradients are dropped. Tensors that cannot be
      swapped are copied: views, a module's tensor, one that is in the state twice or has another kind of dtype, and, if
      .device is set, one that is elsewhere. An optimiser that was made before keeps its state's device and dtype. */
  bool assign;
  const situ_nn_rename *rename; /**< applied to each of the state's names, row by row, before anything is compared */
  int64_t rename_count;
  /** Called for every problem, in not_strict mode too; may be NULL. */
  void (*report)(situ_nn_load_problem problem, const char *path, void *payload);
  /** The device of a tensor that is on meta, by its path; {0}: as without. Also asked for a module's path: what its
      forward makes is made there. Values come from the state to the device at once. NULL: none; situ_nn_load_map. */
  situ_device (*place)(const char *path, void *payload);
  void *payload;
} situ_nn_load_options;
/** Copies values into the module, from any device, cast to the module's dtypes. state: a tree of tensors, flattened if
    necessary. Everything is checked first, and one error lists every problem; on error nothing has changed.

    Tensors on meta get memory, with their views and aliases, and lose their gradients; so do non-persistent buffers,
    with the values that were recorded when they were made on meta. Only tensors that the state lacks, in not_strict
    mode, stay on meta. A lazy module takes its shapes from the state. */
SITU_API SITU_CHECKED situ_status situ_nn_load_state_dict(situ_nn_module *m, const situ_tree *state,
                                                          const situ_nn_load_options *options);

SITU_END

#include "nn/init.h"
#include "nn/layers.h"
#include "nn/loss.h"
#include "nn/offload.h"
#include "nn/parametrize.h"

#endif
