/* The room nn's own: what its files share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_NN_H
#define SITU_NN_NN_H

#include "base/busy.h"
#include "base/handle.h"
#include "base/thread.h"
#include "situ/nn.h"
#include "situ/sys/op.h"

/* Deeper trees of modules are refused, so that walking them cannot overflow the stack. */
enum { SITU__NN_DEPTH = 256 };
/* Modules that call modules, for the same reason. */
enum { SITU__NN_CALLS = 512 };

struct situ_nn_build {
  situ_scope scope;
};

typedef struct situ__hook {
  int64_t id;
  bool before;
  situ_nn_hook fn;
  void *payload;
} situ__hook;
struct situ_nn_hooks {
  situ__hook *list; /* by id */
  int64_t count, capacity, next;
};

static inline bool situ__nn_given(const char *op, const char *argument, const situ_nn_module *m) {
  return situ__valid(op, argument, m, SITU__A_MODULE);
}
static inline bool situ__nn_is_child(const situ_nn_slot *slot) { return slot->kind == SITU_NN_CHILD; }

/* What it is and what it has, also while another thread wakes it: a lazy module gets its parts one by one, then its type. */
static inline const situ_nn_type *situ__nn_type(const situ_nn_module *m) {
  return __atomic_load_n(&m->type, __ATOMIC_ACQUIRE);
}
static inline bool situ__nn_pending(const situ_nn_module *m) { return __atomic_load_n(&m->pending, __ATOMIC_ACQUIRE); }
static inline int64_t situ__nn_count(const situ_nn_module *m) { return __atomic_load_n(&m->count, __ATOMIC_ACQUIRE); }

/* A module that runs on this thread (explain.c): what an explanation can tell of it. */
typedef struct situ__nn_frame {
  const situ_nn_module *module;
  const situ_tensor *input; /* NULL: see inputs */
  const situ_tree *inputs;
  void *site; /* return address of the call */
  bool freed; /* its last owner let go of it meanwhile: it ends with this call */
  int depth;  /* calls around it, and itself */
  struct situ__nn_frame *outer;
} situ__nn_frame;
extern SITU__THREAD_LOCAL situ__nn_frame *situ__nn_running;
extern const situ_module_lore situ__nn_lore;

/* While it is locked no module is made, freed or given a part (module.c). */
void situ__nn_lock(void);
void situ__nn_unlock(void);
/* The head of the list of live modules, chained by `older`. */
const situ_nn_module *situ__nn_newest(void);

/* One owner fewer, whoever it is; the last one frees the module, or if it runs leaves that to the end of the call
   (module.c). */
void situ__nn_let_go(situ_nn_module *m);
/* Frees what could not be taken over, unless other modules alone own it. What is not a module is left alone. */
void situ__nn_give_up(situ_nn_module *m);
/* The call in which a module was let go of is over. */
void situ__nn_end(situ_nn_module *m);
/* ---- other threads (busy.c): all return false after recording that one is in the way ---- */
/* A call that uses m and all its parts. End: situ__use_end. */
bool situ__nn_use(const char *op, const situ_nn_module *m, situ__use *use);
/* A change of m and all its parts: of where they are, of their values. */
bool situ__nn_claim(const char *op, const situ_nn_module *m, situ__claim *claim);
/* A change of what m itself consists of; of one in the making nobody else knows. */
bool situ__nn_change(const char *op, const situ_nn_module *m, situ__claim *claim);
/* The end of m and of the parts that it alone owns. */
bool situ__nn_claim_to_free(const situ_nn_module *m, situ__claim *claim);

/* Enters a module in the list of live ones (module.c). */
void situ__nn_enlist(situ_nn_module *m);
/* Appends a slot that owns held; false: no memory, recorded under op, and held is still the
   caller's. */
bool situ__nn_add_slot(const char *op, situ_nn_module *m, const char *name, situ_nn_kind kind, size_t offset,
                       void *held);
situ_nn_slot *situ__nn_find(const situ_nn_module *m, const char *name);

/* A tensor of a module while values are loaded (load.c). */
typedef struct situ__nn_part {
  situ_tensor *to, *from; /* from NULL: it is left alone; to itself, on meta: what its recipe gives */
  situ_tensor *staged;    /* the value where it is wanted */
  situ_tensor *memory;    /* what a tensor on meta gets: staged, or the storage that it is a part of */
  situ_tensor *kept;      /* what it held before */
  bool taken;             /* it has that memory */
} situ__nn_part;
/* Writes all of them, those on meta to new memory at home, or changes nothing. False: recorded. */
bool situ__nn_write(situ__nn_part *list, int64_t count, situ_device home);

/* A lazy module that was woken is of its first type again, and has no part (module.c). */
void situ__nn_forget(situ_nn_module *m, const situ_nn_type *lazy);

/* A part that is about to be added to a finished module, all of which lives in one place, comes there too (adopt.c).
   False: recorded, and the part is where it was. */
bool situ__nn_adopt_tensor(const char *op, situ_nn_module *m, situ_tensor *t);
bool situ__nn_adopt_child(const char *op, situ_nn_module *m, situ_nn_module *child);

/* A number as Python prints it: 0.1, 1e-05, 20.0. Returns buffer. */
enum { SITU__NUMBER = 40 };
const char *situ__nn_number(double value, char buffer[SITU__NUMBER]);
/* Sizes as a Python tuple: (3, 3), (64,). */
enum { SITU__TUPLE = 200 };
const char *situ__nn_tuple(situ_shape shape, char buffer[SITU__TUPLE]);
static inline const char *situ__nn_bool(bool b) { return b ? "True" : "False"; }

#endif
