/* Tries a proposed fix before it is printed: repeats the call in a dry run with its operands changed.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "dispatch/explain.h"
#include "move/move.h"

/* ---- what a statement changes ---- */

/* Writes the path of the module that holds a registered tensor, relative to the outermost one: "enc.1"; "" for the
   outermost. */
static const char *module_below(const situ_explained *x, char path[SITU_PATH_TEXT]) {
  const char *below = x->path + x->root_length;
  const char *end = strrchr(below, '.');
  size_t length = end && end > below ? (size_t)(end - below) - 1 : 0;
  memcpy(path, below + (length != 0), length);
  path[length] = 0;
  return path;
}

bool situ__fix_reaches(const situ__refusal *r, const situ__fix *fix, int row) {
  const situ_explained *x = &r->tensor[row], *of = &r->tensor[fix->row];
  char a[SITU_PATH_TEXT], b[SITU_PATH_TEXT];
  switch (fix->action) {
  case SITU_FIX_NN_TO:
  case SITU_FIX_NN_TO_DTYPE:
    if (x->held != SITU_HELD_REGISTERED || x->root != of->root) return false;
    return fix->whole || strcmp(module_below(x, a), module_below(of, b)) == 0;
  case SITU_FIX_CHILD: return x->loose && x->root == of->root;
  case SITU_FIX_POLICY: return false;
  default: return row == fix->row || (x->tensor == of->tensor && *situ_name(x->tensor)); /* one variable */
  }
}

/* ---- whether a module can move ---- */

static bool module_can(const situ__refusal *r, const situ__fix *fix) {
  const situ_explained *x = &r->tensor[fix->row];
  char below[SITU_PATH_TEXT] = "";
  if (!fix->whole) module_below(x, below);
  int64_t count = situ__explain_parts(x->root, below, NULL, 0);
  situ_tensor **part = situ__alloc((size_t)(count + 1) * sizeof *part);
  situ_move_request *list = situ__alloc((size_t)(count + 1) * sizeof *list);
  bool good = part && list && situ__explain_parts(x->root, below, part, count) == count;
  for (int64_t i = 0; good && i < count; i++) list[i] = (situ_move_request){ part[i], fix->device, fix->dtype };
  situ_move_plan *moving = good ? situ__move_plan_new(fix->dtype ? "nn_to_dtype" : "nn_to", list, count, false) : NULL;
  good = moving && situ_move_plan_check(moving) == SITU_OK;
  situ_move_plan_free(moving);
  situ__free(part);
  situ__free(list);
  return good;
}

/* ---- repeating the call ---- */

static situ_tensor *apply_fix(const situ__refusal *r, const situ__fix *fix, int row, situ_tensor *t) {
  if (!t || !situ__fix_reaches(r, fix, row)) return t;
  if (fix->device.kind) t = situ__dispatch_up.copy_operand("to", t, fix->device);
  if (fix->action == SITU_FIX_DEQUANTIZE && t) t = situ__dispatch_up.dequantize(t);
  /* Casting a module leaves integer tensors unchanged. */
  bool cast =
      fix->dtype && t && (fix->action != SITU_FIX_NN_TO_DTYPE || situ_dtype_is_floating((situ_dtype)t->view.dtype));
  return cast ? situ__dispatch_up.cast_operand(t, fix->dtype) : t;
}

/* Replaces the operands that the call writes by tensors of the dry run, so that the program's tensors do not
   change. */
static bool put_stand_ins(const situ_call *c, situ_tensor **in) {
  for (int i = 0; i < c->ins && i < SITU_OPERANDS; i++) {
    if (!in[i] ||
        !(c->in_place ? i == 0 : !(c->op->flags & SITU_OP_VARIADIC) && c->op->operand[i].accept & SITU_WRITTEN))
      continue;
    if (situ__is_void(in[i]->view.storage)) continue;
    situ_shape shape = situ__shape(&in[i]->view);
    in[i] = situ__tensor_new(c->op->name, &shape, (situ_dtype)in[i]->view.dtype, in[i]->view.storage->device);
    if (!in[i]) return false;
    situ__storage_wrote(in[i]->view.storage);
  }
  return true;
}

static bool call_again(const situ__refusal *r, const situ__choice *choice) {
  const situ_call *c = r->call;
  situ_tensor **in = situ__alloc((size_t)c->ins * sizeof *in);
  bool good = in != NULL;
  if (good) memcpy(in, c->in, (size_t)c->ins * sizeof *in);
  for (int i = 0; good && i < r->count; i++)
    for (int k = 0; good && k < choice->count; k++) {
      situ_tensor **t = &in[r->row[i].index];
      good = (*t = apply_fix(r, &choice->fix[k], i, *t)) != NULL;
    }
  good = good && put_stand_ins(c, in);
  if (good &&
      (!c->op->infer || (c->op->params_size && !c->params))) { /* a function checks its operands before it calls ops */
    situ_call again = *c;
    again.in = in;
    good = situ__check(&again);
  } else if (good) {
    good = (c->in_place ? situ_op_run_(c->op, in, c->ins, c->params)
                        : situ_op_run(c->op, in, c->ins, c->params, NULL)) != NULL;
  }
  situ__free(in);
  return good;
}

static bool try_choice(const situ__refusal *r, const situ__choice *choice) {
  situ_setting before;
  bool policy = false, good = true;
  for (int k = 0; k < choice->count && good; k++) {
    const situ__fix *fix = &choice->fix[k];
    if (fix->action == SITU_FIX_NN_TO || fix->action == SITU_FIX_NN_TO_DTYPE) good = module_can(r, fix);
    if (fix->action == SITU_FIX_POLICY) situ_policy_begin(&before, fix->policy), policy = true;
  }
  good = good && call_again(r, choice);
  if (policy) situ_policy_end(&before);
  return good;
}

SITU__THREAD_LOCAL bool situ__trying;

/* Keeps the first error: a dry run continues after it. */
typedef struct recorder {
  situ_dry dry; /* first, because it is cast back to this struct */
  situ_status status;
  char *why;
  size_t size;
} recorder;

static void found(situ_dry *dry) {
  recorder *rec = (recorder *)dry;
  if (rec->status != SITU_OK) return;
  rec->status = situ_error();
  (void)snprintf(rec->why, rec->size, "%s", situ_error_message());
}

bool situ__mends(const situ__refusal *r, const situ__choice *choice, situ_status *status, char *why, size_t size) {
  *status = SITU_OK;
  if (choice->broken || !choice->count) return false;
  situ_dry *outer = situ__dry;
  recorder rec = { .dry = { .found = found, .meta_is = outer ? outer->meta_is : (situ_device){ 0 } },
                   .why = why,
                   .size = size };
  situ__errors own;
  situ_scope scope;
  situ__errors_aside(&own);
  situ__dry = NULL;
  situ__trying = true;
  bool good = situ_dry_begin(&rec.dry) == SITU_OK;
  situ_scope_begin_no_grad(&scope);
  good = good && try_choice(r, choice);
  situ_dry_tell(&rec.dry);
  SITU_IGNORE(situ_scope_end(&scope));
  (void)situ_dry_end(&rec.dry);
  situ__dry = outer;
  situ__trying = false;
  (void)situ__errors_back(&own, NULL, 0);
  *status = rec.status;
  return good && rec.status == SITU_OK;
}
