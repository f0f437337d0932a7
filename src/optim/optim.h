/* Internal header of src/optim: the struct of an optimiser.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_OPTIM_H
#define SITU_OPTIM_OPTIM_H

#include "base/busy.h"
#include "base/handle.h"
#include "situ/optim.h"
#include "situ/sys/optimizer.h"

/* Rules that are made of ops (composed.c), behind those of the kernels. */
enum { SITU__RULE_ADAFACTOR = SITU_RULES, SITU__RULE_MUON, SITU__RULE_LBFGS, SITU__OPTIM_RULES };

typedef struct situ__group {
  double value[SITU_OPTIM_FIELDS];
  double initial_lr; /* set by the first scheduler */
  bool has_initial_lr;
  int64_t first, count; /* range in the optimiser's items */
  int64_t active;       /* how many of them have a gradient in this step */
} situ__group;

struct situ_optim {
  uint32_t head;
  int32_t refs; /* the program's, until situ_optim_free; one for each scheduler or scaler */
  situ_optimizer_rule rule;
  uint64_t busy; /* base/busy.h: the mark for members other than parameters */
  double defaults[SITU_OPTIM_FIELDS];
  situ__group *groups;
  int group_count;
  situ_optimizer_tensors *items;  /* parameter, state and step count; gradients are looked up at each step */
  situ_optimizer_tensors *active; /* buffer for those that have a gradient in this step */
  situ_optimizer_list *lists;     /* buffer for the step of each group */
  char **names;
  bool stepped;     /* a step was made, so that a schedule may follow */
  bool *registered; /* for each parameter: a module has registered it since it was added */
  int64_t count;
  const double *live_scale;  /* what a captured step multiplies gradients by; NULL: what it is called with */
  struct situ__lbfgs *lbfgs; /* what LBFGS remembers (lbfgs.h); NULL before the first step, and for other rules */
};

typedef struct situ__field {
  const char *name;
  unsigned rules;       /* bit 1 << rule: the rules that have it */
  size_t option, param; /* offsets in situ_optim_options and situ_optimizer_params */
  bool flag;
  const char *pair; /* torch saves it with the next field under this name: "betas" */
} situ__field;
#define SITU__NO_PARAM SIZE_MAX /* for param: kernels do not use it */
extern const situ__field situ__optim_fields[SITU_OPTIM_FIELDS];

static inline bool situ__optim_given(const char *op, const situ_optim *o) {
  return situ__valid(op, "optimiser", o, SITU__AN_OPTIMISER);
}
/* Drops a state: it follows no parameter any more, wherever else it is held. Needs a claim or a use of the optimiser,
   as a move in another thread looks at the followers of what it moves. */
void situ__optim_drop_state(situ_tensor **state);
/* Releases a reference: schedulers and scalers keep an optimiser working after situ_optim_free. */
void situ__optim_let_go(situ_optim *o);
/* Whether torch saves the field with the one before it. */
static inline bool situ__optim_is_second(int f) { return f > 0 && situ__optim_fields[f - 1].pair; }
/* "sgd", "adam", ...: the op in error messages. */
const char *situ__optim_op(const situ_optim *o);
static inline bool situ__optim_has(const situ_optim *o, situ_optim_field f) {
  return situ__optim_fields[f].rules >> o->rule & 1;
}
static inline bool situ__optim_is(const situ_optim *o, int rule) { return (int)o->rule == rule; }
/* Store hyperparameters (options.c): a new optimiser's, by its rule, and those of a later group, by o->defaults. Return
   false after recording which option is wrong. */
bool situ__optim_read_first(const situ_optim *o, double lr, const situ_optim_options *given, double *value);
bool situ__optim_read_later(const situ_optim *o, const situ_optim_options *given, double *value);
/* torch's name of the k-th state; NULL if the rule has none. */
const char *situ__optim_state_name(const situ_optim *o, int k);
/* True if this parameter, in a group with these values, is stepped through an f32 master copy. */
bool situ__optim_has_master(const situ_tensor *param, const double *value);
/* True if param, in a group with these values, has the k-th state. */
bool situ__optim_uses(const situ_optim *o, const situ_tensor *param, const double *value, int k);
/* The shape of param's k-th state. */
situ_shape situ__optim_state_shape(const situ_optim *o, const situ_tensor *param, int k);
/* False for rules whose state torch saves without "step". */
bool situ__optim_counts_steps(const situ_optim *o);
/* Whether a model computes with the i-th parameter; false after recording that only the optimiser holds it (step.c). */
bool situ__optim_is_in_use(situ_optim *o, int64_t i);
/* A copy of a saved state tensor on its parameter's device, which it follows (state.c). NULL after recording that it
   does not have the shape `want`, or another error. */
situ_tensor *situ__optim_load_tensor(situ_tensor *param, situ_shape want, situ_dtype dtype, const char *path,
                                     situ_tensor *saved);
/* t, or a copy of it, in param's order of strides, which kernels of rules follow; t itself if it is of another shape
   (step.c). Returns NULL after recording an error. */
situ_tensor *situ__optim_aligned(situ_tensor *param, situ_tensor *t);
/* What kernels get of a group's hyperparameters (step.c). */
situ_optimizer_params situ__optim_params(const situ__group *group, double grad_scale);
/* Counts one step more of one of its parameters, for its own list or for a kernel's. */
void situ__optim_count(const situ_optim *o, const situ__group *group, situ_optimizer_tensors *item);
/* Sets the master to its parameter if that was written since the last step. Returns false after recording an error. */
bool situ__optim_renew_master(situ_optimizer_tensors *item);
/* The step of group g that follows is captured: until situ_graph_values_end its work gets hyperparameters and step
   counts of o at each replay (replay.c). active: its group->active items. */
situ_status situ__optim_capture(situ_optim *o, int g, double grad_scale, const situ_optimizer_tensors *active);
/* A step of all active items by a rule that is made of ops. */
situ_status situ__optim_step_composed(const situ_optim *o, double grad_scale);
/* Calls the closure in a scope that records; loss NULL: its value is not read. Returns false after recording an
   error. */
bool situ__optim_evaluate(situ_optim_closure closure, void *payload, double *loss);
/* Sets *grad to the gradient of a parameter; NULL: it has none. Returns false after recording that ranks keep it in
   parts. */
bool situ__optim_gradient(const char *op, const situ_tensor *param, const char *name, situ_tensor **grad);
/* Guards against other threads (busy.c). Both return false after recording that another thread is in the way. use: for
   a call that reads the optimiser and its parameters (end: situ__use_end); claim: for one that changes them. */
bool situ__optim_use(const char *op, const situ_optim *o, situ__use *use);
bool situ__optim_claim(const char *op, const situ_optim *o, situ__claim *claim);
/* For the end of an optimiser, which cannot be refused: a use that waits until no other thread changes a parameter. A
   change waits for no other thread, so it ends soon. */
void situ__optim_await(const situ_optim *o, situ__use *use);
/* Around a change of the list of parameters, and of the arrays that it lies in, by the thread that claims it. */
void situ__optim_lock(void);
void situ__optim_unlock(void);
/* For a change of hyperparameters only. */
bool situ__optim_change(const char *op, const situ_optim *o, situ__claim *claim);
/* Checks that all values are in range. Returns false after recording an error. */
bool situ__optim_valid(const situ_optim *o, const double *value);

#endif
