/* Modules: layers, and networks made of them. Own modules are written in the same way as the
   library's.
   Threads: forwards of one module may run at once; a change of it meanwhile is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_H
#define SITU_NN_H

#include "autograd.h"
#include "ops.h"
#include "tree.h"

SITU_BEGIN

typedef struct situ_nn_module situ_nn_module;

/** What a kind of module is. One of .forward and .call must be given; the library makes the other
    of it. */
typedef struct situ_nn_type {
  const char *name; /**< "Linear": for printing and messages */
  size_t size;      /**< sizeof the whole struct, which begins with `situ_nn_module base` */
  /** One tensor in, one out. Do not call it: situ_nn_forward does, and adds hooks, home and a
      scope. */
  situ_tensor *(*forward)(situ_nn_module *self, situ_tensor *x);
  /** A tree in (borrowed), a tree out (the caller's). */
  situ_tree *(*call)(situ_nn_module *self, const situ_tree *inputs);
  /** Writes what torch prints between the brackets ("in_features=2, ...") as snprintf does; may be
      NULL. */
  int (*extra_repr)(const situ_nn_module *self, char *buffer, size_t size);
  /** Frees what the fields own that was not registered; may be NULL. */
  void (*release)(situ_nn_module *self);
  /** Makes a clone's unregistered fields its own: copy is a bitwise copy of self but for what is
      registered, which comes later. May be NULL unless release is given: then such a module cannot
      be cloned. */
  situ_status (*copy)(situ_nn_module *copy, const situ_nn_module *self);
  /** Writes what tells it from others of its type, in a few characters ("784 -> 64"), as snprintf
      does: for messages. May be NULL: they take extra_repr's text. */
  int (*brief)(const situ_nn_module *self, char *buffer, size_t size);
  /** For lazy modules: makes the parameters in the shapes that a state (a flat dict) has under
      `path` ("" for the root), unwritten, and does what a first input would; or leaves the module
      as it is if they are not there. May be NULL: no state is loaded before the first input. */
  situ_status (*wake)(situ_nn_module *self, const situ_tree *state, const char *path);
  /** True: forward makes no tensor but its result (it calls one op), so that situ_nn_forward opens no scope for it: the
      scope of the caller owns what forward makes. */
  bool single_op;
} situ_nn_type;

/** What a module registers. */
typedef enum situ_nn_kind {
  SITU_NN_CHILD = 1u << 0,
  SITU_NN_PARAMETER = 1u << 1,
  SITU_NN_BUFFER = 1u << 2,
  SITU_NN_TRANSIENT = 1u << 3 /**< a buffer that is not saved: torch's persistent=False */
} situ_nn_kind;

/** One registered part. `held` is what the module owns; the field, if there is one, shows it to the
    module's code. */
typedef struct situ_nn_slot {
  char *name;
  situ_nn_kind kind;
  size_t offset; /**< of the field in the module's struct; 0: there is none (containers) */
  void *held;    /**< a situ_nn_module or a situ_tensor */
  uint64_t was;  /**< the serial of the storage that a tensor here replaced; 0: none */
} situ_nn_slot;

/** A tensor that was made while its module was, and outlived that without being registered: what
    situ_place_lint looks into. */
typedef struct situ_nn_stray {
  const situ_tensor *tensor; /**< may have died since: ask situ_is_tensor */
  uint64_t serial;           /**< of its storage then */
  size_t offset;             /**< of the field that showed it; 0: none did, but it has an owner */
} situ_nn_stray;

/** Every module's struct begins with this. Look, but change it through the functions below. */
struct situ_nn_module {
  uint32_t head; /* says that it is a live module */
  int32_t refs;
  const situ_nn_type *type;
  situ_nn_slot *slots; /* in order of registration */
  int64_t count;
  struct situ_nn_hooks *hooks; /* NULL: none */
  struct situ_nn_build *build; /* between situ_nn_alloc and situ_nn_done */
  situ_nn_stray *strays;       /* NULL: none */
  int64_t stray_count;
  struct situ_nn_module *older, *newer; /* all modules alive */
  char *name;                           /* see situ_nn_set_name; NULL: none */
  situ_device home;                     /* where it lives while it has no tensor; {0}: not stated */
  int32_t parents;                      /* slots of modules that hold it: so many of refs are theirs */
  uint64_t busy; /* the newest claim on it: whether a thread moves, changes or frees it now is the library's to know */
  bool training;
  bool pending; /* a lazy module that has not made its parameters yet */
  bool broken;  /* a part could not be made: situ_nn_done will refuse */
  bool late;    /* it was added to a finished module, which was not moved since */
};

/* ---- making ---------------------------------------------------------------------------------- */

/* typedef struct { situ_nn_module base; situ_nn_module *fc; situ_tensor *scale; } my_module;

   situ_nn_module *my_module_new(int64_t n) {
     my_module *m = situ_nn_alloc(&my_type);
     situ_nn_child(m, fc, situ_nn_linear(n, n, NULL));
     situ_nn_param(m, scale, situ_ones(SITU_SHAPE(n), NULL));
     return situ_nn_done(m);
   }

   A part that is added after situ_nn_done is adopted: if all of m is in one place, the part is moved there.

   Until situ_nn_done a scope is open: tensors made meanwhile and not registered are released there,
   but for those that a field still points to, which go to the enclosing scope. */

/** A cleared module of type->size bytes, in training mode. NULL on error; everything below accepts
    that. */
SITU_API void *situ_nn_alloc(const situ_nn_type *type);
/** The finished module, or NULL, and all of it freed, if any part could not be made. */
SITU_API situ_nn_module *situ_nn_done(void *module);

/** m->field = a module, which m takes over; its registered name is the field's. A child with a
    second parent: situ_nn_retain(child). Assigned again, the old one is freed. */
#define situ_nn_child(m, field, child) \
  situ_nn_add_child((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (child))
/** m->field = a tensor that is trained: m holds it, and its gradient is wanted from now on. */
#define situ_nn_param(m, field, tensor) \
  situ_nn_add_tensor((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (tensor), SITU_NN_PARAMETER)
/** m->field = a tensor that moves with the module and is saved with it. */
#define situ_nn_buffer(m, field, tensor) \
  situ_nn_add_tensor((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (tensor), SITU_NN_BUFFER)
/** m->field = a buffer that is not saved. */
#define situ_nn_transient_buffer(m, field, tensor) \
  situ_nn_add_tensor((m) ? &(m)->base : NULL, #field, (m) ? &(m)->field : NULL, (tensor), SITU_NN_TRANSIENT)

/** The functions behind the macros; field NULL: the part is known by its name alone. Return the
    part, or NULL. A child that another module owns, without a reference of the caller's, is refused (SITU_E_STATE). */
SITU_API situ_nn_module *situ_nn_add_child(situ_nn_module *m, const char *name, situ_nn_module **field,
                                           situ_nn_module *child);
SITU_API situ_tensor *situ_nn_add_tensor(situ_nn_module *m, const char *name, situ_tensor **field, situ_tensor *tensor,
                                         situ_nn_kind kind);

/** One more owner; returns m. NULL stays NULL. */
SITU_API situ_nn_module *situ_nn_retain(situ_nn_module *m);
/** One owner fewer; the last one frees the module and lets go of its parts. NULL is fine. A module that other modules
    alone own is refused (SITU_E_STATE): it goes with its owner. One that runs, whose hook frees it say, goes at the end of
    its call. */
SITU_API void situ_nn_free(situ_nn_module *m);
/** A deep copy, gradients and hooks included. A part that is registered twice is copied once. */
SITU_API situ_nn_module *situ_nn_clone(situ_nn_module *m);
/** Names the outermost module, so that messages say model.encoder.fc1.weight rather than
    MyModel.encoder.fc1.weight; best the name of its C variable. The text is copied; NULL or "" takes
    it back. Returns m. */
SITU_API situ_nn_module *situ_nn_set_name(situ_nn_module *m, const char *name);
/** That name; "" if there is none. */
SITU_API const char *situ_nn_name(const situ_nn_module *m);
/** The path of the module whose forward runs on this thread, below the outermost one that holds it:
    "encoder.fc1"; "" for the outermost, and if none runs. Cut at size; returns buffer. Slow. */
SITU_API const char *situ_nn_running(char *buffer, size_t size);
/** Modules alive in the process: lets a test prove that it leaked nothing. */
SITU_API int64_t situ_nn_live_modules(void);
/** Is this the address of a live module? Any pointer may be asked. */
SITU_API bool situ_nn_is_module(const void *pointer);

/* ---- calling --------------------------------------------------------------------------------- */

/** The one way into a module: opens a scope, makes the module's home the default device, runs hooks
    and the module. The result belongs to the caller's scope; all else that was made is released. */
SITU_API situ_tensor *situ_nn_forward(situ_nn_module *m, situ_tensor *x);
/** The same for any number of tensors. The result is to be freed; its tensors belong to the
    caller's scope too. */
SITU_API situ_tree *situ_nn_call(situ_nn_module *m, const situ_tree *inputs);
/** Two tensors in, one out: losses. */
SITU_API situ_tensor *situ_nn_forward2(situ_nn_module *m, situ_tensor *x, situ_tensor *y);

/** Sees every call of a module. Before it: output is NULL, and *inputs may be replaced
    (situ_tree_set). After it: *output may be. Not SITU_OK refuses the call. */
typedef situ_status (*situ_nn_hook)(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload);
/** Hooks run in the order in which they came. *handle (may be NULL) is for situ_nn_remove_hook. */
SITU_API SITU_CHECKED situ_status situ_nn_register_forward_pre_hook(situ_nn_module *m, situ_nn_hook hook, void *payload,
                                                                    int64_t *handle);
SITU_API SITU_CHECKED situ_status situ_nn_register_forward_hook(situ_nn_module *m, situ_nn_hook hook, void *payload,
                                                                int64_t *handle);
SITU_API void situ_nn_remove_hook(situ_nn_module *m, int64_t handle);

/** Where the module lives: the device of its first parameter or buffer, else its stated home; {0}:
    nowhere yet. */
SITU_API situ_device situ_nn_home(const situ_nn_module *m);

/* ---- looking at all of it -------------------------------------------------------------------- */

/** What a visitor is shown. */
enum {
  SITU_NN_VISIT_MODULES = 1u << 4, /**< each module, before its parts */
  SITU_NN_VISIT_LEAVE = 1u << 5,   /**< each module, after its parts */
  SITU_NN_VISIT_ONCE = 1u << 6,    /**< shared modules and tensors the first time only */
  SITU_NN_VISIT_UNNAMED = 1u << 7, /**< path and name are "": faster */
  SITU_NN_VISIT_BUFFERS = SITU_NN_BUFFER | SITU_NN_TRANSIENT,
  SITU_NN_VISIT_TENSORS = SITU_NN_PARAMETER | SITU_NN_VISIT_BUFFERS
};
typedef struct situ_nn_visit {
  const char *path;       /**< "encoder.layers.0.linear1.weight"; "" for the root */
  const char *name;       /**< its last part */
  int depth;              /**< 0 for the root, and for the root's own tensors */
  bool leaving;           /**< the module's parts have been shown */
  situ_nn_module *module; /**< the module, or the one that holds the tensor */
  situ_tensor *tensor;    /**< NULL: a module */
  situ_nn_slot *slot;     /**< NULL for the root */
} situ_nn_visit;
typedef situ_status (*situ_nn_visitor)(const situ_nn_visit *at, void *payload);
/** Walks the module in torch's order (a module's parameters, its buffers, then its children) and
    shows what `which` asks for: situ_nn_kind and SITU_NN_VISIT_ bits. Not SITU_OK stops the walk
    and is returned. */
SITU_API SITU_CHECKED situ_status situ_nn_walk(situ_nn_module *m, unsigned which, situ_nn_visitor visit, void *payload);

/** named_parameters: a flat dict, path to tensor, shared ones once. Holds the tensors; to be freed,
    or given to an optimiser. A lazy module that has not seen an input yet is refused. */
SITU_API situ_tree *situ_nn_parameters(situ_nn_module *m);
/** named_buffers, the transient ones too. */
SITU_API situ_tree *situ_nn_buffers(situ_nn_module *m);
/** Elements of all parameters, shared ones once. */
SITU_API int64_t situ_nn_num_parameters(const situ_nn_module *m);
/** A descendant by its path ("encoder.layers.0"; "" is m itself). Borrowed. */
SITU_API situ_nn_module *situ_nn_get_submodule(situ_nn_module *m, const char *path);
/** A parameter or buffer by its path. Borrowed. */
SITU_API situ_tensor *situ_nn_get_tensor(situ_nn_module *m, const char *path);

/** Calls fn for every module, children before their parents. */
SITU_API SITU_CHECKED situ_status situ_nn_apply(situ_nn_module *m, situ_status (*fn)(situ_nn_module *m, void *payload),
                                                void *payload);
/** Training mode on or off, for all modules below too; returns m. */
SITU_API situ_nn_module *situ_nn_train(situ_nn_module *m, bool on);
SITU_API situ_nn_module *situ_nn_eval(situ_nn_module *m);
/** Are gradients of the parameters wanted? Returns m. */
SITU_API situ_nn_module *situ_nn_requires_grad_(situ_nn_module *m, bool wanted);
/** Drops the gradients of all parameters. */
SITU_API void situ_nn_zero_grad(situ_nn_module *m);

/** torch's repr: written to buffer as situ_to_string does; returns the whole text's length;
    negative on error. */
SITU_API int64_t situ_nn_to_string(situ_nn_module *m, char *buffer, size_t size);
/** Prints it and a newline to stdout. */
SITU_API void situ_nn_print(situ_nn_module *m);

/* ---- state ----------------------------------------------------------------------------------- */

/** A flat dict, path to tensor, of parameters and buffers that are saved, in torch's order; the
    tensors are the module's own, not copies. To be freed. */
SITU_API situ_tree *situ_nn_state_dict(situ_nn_module *m);

typedef enum situ_nn_load_problem {
  SITU_NN_LOAD_MISSING,    /**< the module has it, the state has not */
  SITU_NN_LOAD_UNEXPECTED, /**< the state has it, the module has not */
  SITU_NN_LOAD_MISMATCH    /**< shapes differ, or a value would lose its kind (floating to integer) */
} situ_nn_load_problem;
typedef struct situ_nn_load_options {
  bool not_strict;    /**< torch's strict=False: missing and unexpected names are left alone */
  situ_device device; /**< where tensors that are on meta go; {0}: to the module's stated home, or
                           where tensors are made by default */
  /** Told of every problem, in not_strict mode too; may be NULL. */
  void (*report)(situ_nn_load_problem problem, const char *path, void *payload);
  void *payload;
} situ_nn_load_options;
/** Copies values into the module, from any device, cast to the dtype there. state: a tree of
    tensors, flattened if it is not flat. Everything is checked first, and every problem is in the
    one error: on error nothing has changed.

    What is on meta becomes real, with its views and aliases, and loses its gradient; so do buffers
    that are not saved, with the values that their making on meta would have given. Only what the
    state does not have, in not_strict mode, stays there. A lazy module takes its shapes from the
    state. */
SITU_API SITU_CHECKED situ_status situ_nn_load_state_dict(situ_nn_module *m, const situ_tree *state,
                                                          const situ_nn_load_options *options);

SITU_END

#include "nn/init.h"
#include "nn/layers.h"
#include "nn/loss.h"

#endif
