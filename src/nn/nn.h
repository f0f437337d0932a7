/* Internal header of src/nn.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_NN_H
#define SITU_NN_NN_H

#include "base/busy.h"
#include "base/handle.h"
#include "base/thread.h"
#include "situ/nn.h"
#include "situ/sys/explain.h"
#include "situ/sys/load.h"
#include "situ/sys/shape.h"

/* Maximum depth of a tree of modules, so that walking it cannot overflow the stack. */
enum { SITU__NN_DEPTH = 256 };
/* Maximum depth of modules that call modules, for the same reason. */
enum { SITU__NN_CALLS = 512 };

struct situ_nn_build {
  situ_scope scope;
};
/* Makes m one that is being built; the scope is begun afterwards. */
void situ__nn_begin_build(situ_nn_module *m, struct situ_nn_build *build);
/* Ends the scope of a module that is being built. A tensor in a field that was not registered lives as long as if this
   scope had not existed. */
void situ__nn_end_build(situ_nn_module *m);

typedef struct situ__module_hook {
  int64_t id;
  bool before, wraps; /* wraps: of an object that is bound to this module */
  situ_nn_hook fn;    /* of calls; NULL: of moves */
  situ_nn_move_hook moved;
  void *payload;
  char *text; /* of a hook of the library's own, before and after calls: a shared text, its payload; else NULL */
} situ__module_hook;
struct situ_nn_hooks {
  situ__module_hook *list; /* by id */
  int64_t count, capacity, next;
};

/* Frees a list of hooks; NULL is fine (forward.c). */
void situ__nn_free_hooks(struct situ_nn_hooks *hooks);

static inline bool situ__nn_given(const char *op, const char *argument, const situ_nn_module *m) {
  return situ__valid(op, argument, m, SITU__A_MODULE);
}
static inline bool situ__nn_is_child(const situ_nn_slot *slot) { return slot->kind == SITU_NN_CHILD; }

/* The module's type, safe while another thread wakes it: a lazy module gets its parts one by one, then its type. */
static inline const situ_nn_type *situ__nn_type(const situ_nn_module *m) {
  return __atomic_load_n(&m->type, __ATOMIC_ACQUIRE);
}
/* The address of the code that a call of the module runs; NULL if it only holds its parts. */
static inline const void *situ__nn_code(const situ_nn_type *type) {
  return type->call             ? (const void *)(uintptr_t)type->call
         : type->forward_kwargs ? (const void *)(uintptr_t)type->forward_kwargs
                                : (const void *)(uintptr_t)type->forward;
}
static inline bool situ__nn_pending(const situ_nn_module *m) { return __atomic_load_n(&m->pending, __ATOMIC_ACQUIRE); }
static inline int64_t situ__nn_count(const situ_nn_module *m) { return __atomic_load_n(&m->count, __ATOMIC_ACQUIRE); }

/* Prefetches what a loop over m's slots meets some steps after slot i: parts are far apart in memory, and a child's
   tensor is three addresses away. Modules with few parts are left alone. */
static inline void situ__nn_look_ahead(const situ_nn_module *m, int64_t i) {
  enum { PART = 8, SLOTS = 6, TENSORS = 4, STORAGES = 2, MOST = 2 };
  const situ_nn_slot *slot = m->slots + i;
  if (i + PART >= m->count) return;
  __builtin_prefetch(slot[PART].held);
  __builtin_prefetch((const char *)slot[PART].held + 64);
  if (!situ__nn_is_child(&slot[TENSORS])) {
    __builtin_prefetch(situ_desc(slot[TENSORS].held)->storage);
    return;
  }
  if (situ__nn_is_child(&slot[SLOTS])) __builtin_prefetch(((const situ_nn_module *)slot[SLOTS].held)->slots);
  const situ_nn_module *child = slot[TENSORS].held;
  for (int64_t k = 0; k < MOST && k < situ__nn_count(child); k++) {
    __builtin_prefetch(child->slots[k].held);
    __builtin_prefetch((const char *)child->slots[k].held + 64);
  }
  if (!situ__nn_is_child(&slot[STORAGES])) return;
  child = slot[STORAGES].held;
  for (int64_t k = 0; k < MOST && k < situ__nn_count(child); k++)
    if (!situ__nn_is_child(&child->slots[k])) __builtin_prefetch(situ_desc(child->slots[k].held)->storage);
}

/* A module that runs on this thread, for error explanations (explain.c). */
typedef struct situ__nn_frame {
  const situ_nn_module *module;
  const situ_tensor *input; /* NULL: see inputs */
  const situ_tree *inputs;
  void *site;       /* return address of the call */
  bool freed;       /* its last owner released it during the call: the call's end frees it */
  int depth;        /* number of nested calls, including this one */
  const char *part; /* path below the module of the part whose calls these are; NULL: none */
  struct situ__nn_frame *outer;
} situ__nn_frame;
extern SITU__THREAD_LOCAL situ__nn_frame *situ__nn_running;
extern const situ_module_lore situ__nn_lore;

/* Whether a running func_functional_call of this thread has put the program's tensor in the place of a module's
   (functional.c). */
bool situ__nn_is_lent(const situ_tensor *t);

/* Writes the path of the running module with its root, "model.fc1"; "": none. */
void situ__nn_running_path(char *buffer, size_t size);

/* While locked, no module is created, freed or given a part (module.c). */
void situ__nn_lock(void);
void situ__nn_unlock(void);
/* The head of the list of live modules, linked by `older`. */
const situ_nn_module *situ__nn_newest(void);

/* Releases one reference, a module's or the program's; the last one frees the module, or if it is running leaves that
   to the end of the call (module.c). */
void situ__nn_let_go(situ_nn_module *m);
/* Frees a part that could not be taken over, unless only other modules own it. Ignores pointers that are not
   modules. */
void situ__nn_give_up(situ_nn_module *m);
/* Ends the call during which a module was released: frees it. */
void situ__nn_end(situ_nn_module *m);
/* ---- other threads (busy.c): all return false after recording that another thread is in the way ---- */
/* For a change of m and all its parts: their devices or values. */
bool situ__nn_claim(const char *op, const situ_nn_module *m, situ__claim *claim);
/* For a change of m's own parts. No other thread knows a module that is being built. */
bool situ__nn_change(const char *op, const situ_nn_module *m, situ__claim *claim);
/* For a write of so many tensors, each may be NULL, of a module that runs. Returns the locks for situ__write_end. */
uint64_t situ__nn_write_begin(int count, ...);
/* For releasing m, if that frees m and the parts that only it owns. */
bool situ__nn_claim_to_free(const char *op, const situ_nn_module *m, situ__claim *claim);

/* Adds so many modules, linked by `older` and `newer`, to the list of live ones (module.c). */
void situ__nn_enlist(situ_nn_module *first, situ_nn_module *last, int64_t count);
/* Makes space for so many slots; locked, or in a module that no other thread knows. Returns false, without recording an
   error, when memory runs out (module.c). */
bool situ__nn_reserve(situ_nn_module *m, int64_t capacity);
/* Appends a slot that takes over held, and name, a shared text (base/alloc.h; NULL: no memory was left for it). Returns
   false after recording under op that memory is not available; then the caller still owns held. */
bool situ__nn_add_slot(const char *op, situ_nn_module *m, char *name, situ_nn_kind kind, size_t offset, void *held);
/* ---- parts by name (index.c) ---- */
/* The part whose name is the first `length` bytes of `path`; NULL: m has no such part. */
situ_nn_slot *situ__nn_find_part(const situ_nn_module *m, const char *path, size_t length);
situ_nn_slot *situ__nn_find(const situ_nn_module *m, const char *name);
/* After a slot was added. Where memory runs out there is no index, and situ__nn_find compares one by one. */
void situ__nn_index_last(situ_nn_module *m);
void situ__nn_index_drop(situ_nn_module *m);
/* For a copy with the same slots, which has no index. */
void situ__nn_index_copy(situ_nn_module *copy, const situ_nn_module *m);

/* Refuses a visited module that is still lazy (walk.c). */
situ_status situ__nn_has_parameters(const char *op, const situ_nn_visit *at);

/* A part that is added under a path (path.c). */
typedef struct situ__nn_addition {
  situ_nn_module *child; /* NULL: a tensor */
  situ_tensor *tensor;
  situ_nn_kind kind;
  bool shared; /* the tensor is another module's, and stays as it is */
} situ__nn_addition;
/* True for a name with dots. */
bool situ__nn_is_path(const char *name);
/* Adds a part to the module that the path names below m; modules on it that do not exist are made. Returns false after
   recording an error; a child is freed then, as situ_nn_add_child does, and m is unchanged. */
bool situ__nn_add_by_path(const char *op, situ_nn_module *m, const char *path, const situ__nn_addition *part);

/* A module's tensor during loading (load.c). */
typedef struct situ__nn_part {
  situ_tensor *to, *from; /* from NULL: not changed; from == to, on meta: filled by its recipe */
  situ_device home;       /* of memory for a tensor on meta; {0}: where all go */
  situ_tensor *staged;    /* the value on its target device */
  situ_tensor *memory;    /* for a tensor on meta: staged, or the storage that it is a part of */
  situ_tensor *kept;      /* its previous value */
  bool taken;             /* it has that memory */
  bool adopts;            /* it swaps memory with `from`, if that is possible */
} situ__nn_part;
/* When a load waits for others before its first change (situ/sys/load.h). */
typedef struct situ__nn_wait {
  situ_nn_load_ready ready; /* NULL: it does not wait */
  void *payload;
} situ__nn_wait;
/* Writes all tensors, those on meta to new memory on `home`, or changes nothing. assign: some parts adopt. Returns
   false after recording an error. */
bool situ__nn_write(situ__nn_part *list, int64_t count, situ_device home, bool assign, situ__nn_wait wait);

/* The flat dict `state` under the names that options->rename makes; state itself without rows. Frees state if the
   result is another tree, and on error (rename.c). */
situ_tree *situ__nn_rename(situ_tree *state, const situ_nn_load_options *options);

/* Takes a part out and lets go of it; the field keeps its value (module.c). */
void situ__nn_remove_slot(situ_nn_module *m, const char *name);

/* Copies of an offloaded module's tensors, during one call (offload.c). */
typedef struct situ__nn_fetched {
  struct situ__nn_copy *list;
  int64_t count, capacity;
  situ_device device; /* {0}: the module is not offloaded */
  bool hooked;        /* saved tensors hooks have begun */
} situ__nn_fetched;
/* Returns a copy of t, a tensor that stays alive during the call, on the device; t itself if it is there or the module
   is not offloaded. NULL after recording an error. */
situ_tensor *situ__nn_fetch(situ__nn_fetched *f, situ_tensor *t);
/* Puts copies of m's tensors into the slots and fields of its stand-in, and has them saved for backward without their
   memory. Returns false after recording an error; call situ__nn_evict in any case. */
bool situ__nn_fetch_all(situ__nn_fetched *f, const situ_nn_module *m, situ_nn_module *stand_in);
/* Ends that: what the call has written to copies is written back. Returns false after recording an error. */
bool situ__nn_evict(situ__nn_fetched *f);
/* Around the call of an offloaded module, also of one without tensors: within the outermost, the copies of a call stay
   until the next call has its own, so that these are not made in memory that is still computed with. */
void situ__nn_windows_begin(void);
void situ__nn_windows_end(void);
/* Frees copies on a device that stay so. Returns whether there were any. */
bool situ__nn_free_windows(situ_device device);
/* Sets where m, at this depth of a tree, and its parts compute; parametrizations are computed where their parameters
   are. */
void situ__nn_compute_on(situ_nn_module *m, situ_device device, int depth);

/* For the code of a parametrized or offloaded module: a copy of its struct whose fields have the computed or fetched
   tensors, so that calls of several threads do not meet. NULL after an error. End: what the code has changed in its
   struct is kept; frees the copy, which may be NULL (parametrize.c). */
situ_nn_module *situ__nn_stand_in(situ_nn_module *m, situ__nn_fetched *fetched);
void situ__nn_stand_down(situ_nn_module *m, situ_nn_module *stand_in);
/* Points the fields of m's parametrized tensors to what they are computed from, whose shapes are theirs. */
void situ__nn_show_originals(situ_nn_module *m);
/* Replaces m's parameter by what step computes of it, or of first and it, as "original" or "original0" and "original1".
   Takes step over, also on error. Returns false after recording an error under op. */
bool situ__nn_parametrize(const char *op, situ_nn_module *m, const char *name, situ_nn_module *step,
                          situ_tensor *first);
/* The parameter, or the original of its shape if it is parametrized; NULL after recording an error. */
situ_tensor *situ__nn_parametrized_or_own(const char *op, situ_nn_module *m, const char *name);
/* Whether m has a parametrized tensor of that name. */
bool situ__nn_is_parametrized(const situ_nn_module *m, const char *name);

/* Resets a lazy module that was woken to its lazy type, without parts (module.c). */
void situ__nn_forget(situ_nn_module *m, const situ_nn_type *lazy);

/* Moves a part that is about to be added to a finished module to that module's device, if it has a single one
   (adopt.c). Returns false after recording an error; the part is not moved then. */
bool situ__nn_adopt_tensor(const char *op, situ_nn_module *m, situ_tensor *t);
bool situ__nn_adopt_child(const char *op, situ_nn_module *m, situ_nn_module *child);

/* Optional arguments of a call, in its dict: a key whose presence means true, and a tensor, NULL for none
   (attention.c). */
situ_tree *situ__nn_put_flag(situ_tree *dict, const char *key, bool yes);
situ_tree *situ__nn_put_tensor(situ_tree *dict, const char *key, situ_tensor *t);

/* A number as Python prints it: 0.1, 1e-05, 20.0. Returns buffer. */
enum { SITU__NUMBER = 40 };
const char *situ__nn_number(double value, char buffer[SITU__NUMBER]);
/* Sizes as a Python tuple: (3, 3), (64,). */
enum { SITU__TUPLE = 200 };
const char *situ__nn_tuple(situ_shape shape, char buffer[SITU__TUPLE]);
/* Sizes as torch prints those of a module: one number as it was passed (none: `otherwise`), or a tuple. */
const char *situ__nn_sizes(situ_shape shape, int64_t otherwise, char buffer[SITU__TUPLE]);
static inline const char *situ__nn_bool(bool b) { return b ? "True" : "False"; }

#endif
