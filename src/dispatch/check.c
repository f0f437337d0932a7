/* The check that every call passes, on every device: handles, then devices, then dtypes. The op's own infer checks
   shapes and values.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "dispatch/dispatch.h"

static const situ_operand *operand_at(const situ_op *op, int i) {
  return &op->operand[op->flags & SITU_OP_VARIADIC ? 0 : i];
}

static int count_operands(const situ_op *op) {
  int count = 0;
  while (count < SITU_OPERANDS && op->operand[count].name) count++;
  return count;
}

static bool check_handles(const situ_call *c) {
  const situ_op *op = c->op;
  bool variadic = op->flags & SITU_OP_VARIADIC;
  int declared = count_operands(op);
  if (variadic ? c->ins < 1 : c->ins != declared)
    return situ_refuse(c, SITU_E_ARG, variadic ? "needs at least %d tensor, got %d" : "takes %d operands, got %d",
                       variadic ? 1 : declared, c->ins);
  for (int i = 0; i < c->ins; i++) {
    const situ_operand *o = operand_at(op, i);
    if (!c->in[i] && o->accept & SITU_OPTIONAL && !situ__scope_has_failed()) continue;
    if (!situ__alive(c->in[i])) return situ__need(op->name, o->name, c->in[i]);
  }
  return true;
}

/* Sets the call's device. Returns false if the operands are on several devices. */
static bool find_device(situ_call *c) {
  c->device = (situ_device){ 0 };
  for (int i = 0; i < c->ins; i++) {
    if (!c->in[i]) continue;
    situ_device d = c->in[i]->view.storage->device;
    if (!c->device.kind) c->device = d;
    else if (!situ__same_device(c->device, d)) return false;
  }
  return true;
}

bool situ__explain_devices(const situ_call *c) { return situ__explain(c, SITU_E_DEVICE, false, "device mismatch"); }

bool situ__accepts(unsigned accept, situ_dtype dtype) {
  unsigned kinds = accept & (SITU_FLOATING | SITU_INTEGRAL | SITU_BOOLEAN | SITU_INDEX);
  if (!kinds) return true;
  if (kinds & SITU_INDEX && (dtype == SITU_I64 || dtype == SITU_I32)) return true;
  static const unsigned of_kind[] = {
    [SITU__KIND_BOOL] = SITU_BOOLEAN, [SITU__KIND_INTEGER] = SITU_INTEGRAL, [SITU__KIND_FLOAT] = SITU_FLOATING
  };
  return kinds & of_kind[situ__dtype_kind(dtype)];
}

static const char *describe_accepted(unsigned accept) {
  if (accept & SITU_INDEX) return accept & SITU_BOOLEAN ? "i64, i32 or bool" : "i64 or i32";
  switch (accept & (SITU_FLOATING | SITU_INTEGRAL | SITU_BOOLEAN)) {
  case SITU_FLOATING: return "a floating dtype";
  case SITU_INTEGRAL: return "an integer dtype";
  case SITU_BOOLEAN: return "bool";
  case SITU_FLOATING | SITU_INTEGRAL: return "a floating or integer dtype";
  case SITU_FLOATING | SITU_BOOLEAN: return "a floating dtype or bool";
  default: return "an integer dtype or bool";
  }
}

static situ_dtype dtype_of(const situ_call *c, int i) { return (situ_dtype)c->in[i]->view.dtype; }

/* Blocks are bytes of u8: only ops that say that they know them may read them. */
static bool check_blocks(const situ_call *c) {
  for (int i = 0; i < c->ins; i++) {
    const situ_operand *o = operand_at(c->op, i);
    const situ_block_type type = c->in[i] ? situ__blocks_of(&c->in[i]->view) : SITU_BLOCK_NONE;
    if (type && !(o->accept & SITU_BLOCKS))
      return situ__explain(c, SITU_E_DTYPE, true,
                           "%s holds %s blocks, not numbers: situ_dequantize(%s) gives their values", o->name,
                           situ__block(type)->name, o->name);
  }
  return true;
}

static bool check_dtype(const situ_call *c) {
  int leader = -1, unlike = -1, first = -1;
  for (int i = 0; i < c->ins; i++) {
    if (!c->in[i]) continue;
    const situ_operand *o = operand_at(c->op, i);
    if (first < 0 && !situ__accepts(o->accept, dtype_of(c, i))) first = i;
    if (!(o->accept & SITU_SAME)) continue;
    if (leader < 0) leader = i;
    else if (unlike < 0 && dtype_of(c, i) != dtype_of(c, leader)) unlike = i;
  }
  if (first >= 0) {
    const situ_operand *o = operand_at(c->op, first);
    return situ__explain(c, SITU_E_DTYPE, true, "%s is %s, must be %s", o->name, situ_dtype_name(dtype_of(c, first)),
                         describe_accepted(o->accept));
  }
  return unlike < 0 || situ__explain(c, SITU_E_DTYPE, false, "%s is %s, %s is %s: they must be equal",
                                     operand_at(c->op, unlike)->name, situ_dtype_name(dtype_of(c, unlike)),
                                     operand_at(c->op, leader)->name, situ_dtype_name(dtype_of(c, leader)));
}

/* The same three checks in one pass, for valid calls. On false, nothing is recorded: the separate checks then find
   and explain the error. */
static bool is_plainly_good(situ_call *c) {
  static const unsigned kinds[SITU_DTYPES] = { [SITU_BOOL] = SITU_BOOLEAN,
                                               [SITU_U8] = SITU_INTEGRAL,
                                               [SITU_I8] = SITU_INTEGRAL,
                                               [SITU_I16] = SITU_INTEGRAL,
                                               [SITU_I32] = SITU_INTEGRAL | SITU_INDEX,
                                               [SITU_I64] = SITU_INTEGRAL | SITU_INDEX,
                                               [SITU_F16] = SITU_FLOATING,
                                               [SITU_BF16] = SITU_FLOATING,
                                               [SITU_F32] = SITU_FLOATING,
                                               [SITU_F64] = SITU_FLOATING };
  const situ_op *op = c->op;
  const situ_tensor *first = c->in[0];
  if (op->flags & SITU_OP_VARIADIC || !situ__alive(first)) return false;
  const situ_device device = first->view.storage->device;
  const uint8_t dtype = first->view.dtype;
  for (int i = 0; i < c->ins; i++) {
    const unsigned accept = op->operand[i].accept;
    const situ_tensor *t = c->in[i];
    if (!op->operand[i].name) return false;
    if (!t && accept & SITU_OPTIONAL && !situ__scope_has_failed()) continue;
    if (!situ__alive(t) || !situ__same_device(t->view.storage->device, device)) return false;
    const unsigned asked = accept & (SITU_FLOATING | SITU_INTEGRAL | SITU_BOOLEAN | SITU_INDEX);
    if (asked && !(asked & kinds[t->view.dtype])) return false;
    if (accept & SITU_SAME && t->view.dtype != dtype) return false;
    if (t->view.dtype == SITU_U8 && !(accept & SITU_BLOCKS) && situ__blocks_of(&t->view)) return false;
  }
  c->device = device;
  return c->ins == SITU_OPERANDS || !op->operand[c->ins].name;
}

situ__verdict situ__examine(situ_call *c) {
  if (is_plainly_good(c)) return SITU__GOOD;
  if (!check_handles(c)) return SITU__REFUSED;
  if (!find_device(c)) return SITU__MIXED;
  return check_blocks(c) && check_dtype(c) ? SITU__GOOD : SITU__REFUSED;
}

bool situ__check(situ_call *c) {
  situ__verdict verdict = situ__examine(c);
  return verdict == SITU__MIXED ? situ__explain_devices(c) : verdict == SITU__GOOD;
}
