/* The explanation of a refused call: which operands there are, what modules know of them, and which is the odd one out.
   Nothing is done here until a call is refused, and then nothing is allocated.
   SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "base/fail.h"
#include "dispatch/explain.h"

static const situ_module_lore *lore;

void situ_explain_modules(const situ_module_lore *by) { __atomic_store_n(&lore, by, __ATOMIC_RELEASE); }

void situ_explain_look(situ_explanation *e) {
  const situ_module_lore *by = __atomic_load_n(&lore, __ATOMIC_ACQUIRE);
  if (by) by->look(e);
}

/* ---- what the operands should have in common ---- */

static const situ_operand *schema(const situ_call *c, int i) { return &c->op->operand[c->op->flags & SITU_OP_VARIADIC ? 0 : i]; }

static int device_key(situ_device device) { return device.kind << 16 | device.index; }

/* A device, or a dtype, as a number; -1: this operand has no say. Dtypes must agree only where the schema says so. */
static int key(const situ_call *c, situ_status status, int i) {
  if (!c->in[i]) return -1;
  if (status == SITU_E_DEVICE) return device_key(c->in[i]->view.storage->device);
  return schema(c, i)->accept & SITU_SAME ? c->in[i]->view.dtype : -1;
}

static int count_of(const situ_call *c, situ_status status, int wanted) {
  int count = 0;
  for (int i = 0; i < c->ins; i++) count += key(c, status, i) == wanted;
  return count;
}

/* What speaks for a device or dtype: first how many operands have it, then how many of these the module has registered,
   then whether the module's other tensors have it. */
static int weight(const situ__refusal *r, int wanted) {
  int registered = 0, home = r->status == SITU_E_DEVICE && r->modules.home.kind && device_key(r->modules.home) == wanted;
  for (int i = 0; i < r->count; i++)
    registered += r->tensor[i].held == SITU_HELD_REGISTERED && key(r->call, r->status, r->row[i].index) == wanted;
  return 1000 * count_of(r->call, r->status, wanted) + 10 * registered + home;
}

/* The majority's; -1: there is none. */
static int common(const situ__refusal *r) {
  int best = -1, most = 0;
  bool tie = false;
  for (int i = 0; i < r->call->ins; i++) {
    int own = key(r->call, r->status, i), w = own < 0 || own == best ? 0 : weight(r, own);
    if (w < most || !w) continue;
    tie = w == most;
    most = w;
    best = own;
  }
  return tie ? -1 : best;
}

/* ---- the rows ---- */

/* With more operands than rows, the first few are shown, and those that are unlike the first. */
static bool shown(const situ_call *c, situ_status status, int i) {
  return c->ins <= SITU__SHOWN || i < SITU__SHOWN / 4 || (status == SITU_E_DEVICE && key(c, status, i) != key(c, status, 0));
}

static void collect(situ__refusal *r) {
  const situ_call *c = r->call;
  for (int i = 0; i < c->ins; i++) {
    if (!situ__alive(c->in[i])) continue;
    if (r->count == SITU__SHOWN || !shown(c, r->status, i)) {
      r->more++;
      continue;
    }
    r->tensor[r->count].tensor = c->in[i];
    r->row[r->count].index = i;
    r->row[r->count++].accept = schema(c, i)->accept;
  }
  r->modules.operand = r->tensor;
  r->modules.count = r->count;
  situ_explain_look(&r->modules);
}

/* Marks those that have not what most have: if nothing decides, all. */
static void vote(situ__refusal *r) {
  int best = common(r);
  for (int i = 0; i < r->count; i++) {
    int own = key(r->call, r->status, r->row[i].index);
    r->row[i].odd = own >= 0 && own != best;
    if (own >= 0 && r->like < 0 && (best < 0 || own == best)) r->like = i;
  }
}

/* ---- all of it ---- */

/* The dtype to cast an operand to that is of none that the op accepts. */
static situ_dtype acceptable(unsigned accept) {
  if (accept & SITU_FLOATING) return SITU_F32;
  return accept & (SITU_INDEX | SITU_INTEGRAL) ? SITU_I64 : SITU_BOOL;
}

/* odd: the operands at fault, by number; 0: to be found, where one can be. */
static void refuse(const situ_call *c, situ_status status, unsigned odd, bool mismatch, const char *name, const char *headline) {
  situ__refusal r = { .call = c, .status = status, .like = -1 };
  situ_dtype want = SITU_DTYPE_DEFAULT;
  collect(&r);
  for (int i = 0; odd && i < r.count; i++) {
    r.row[i].odd = r.row[i].index < 32 && odd >> r.row[i].index & 1;
    if (r.row[i].odd && !want) want = acceptable(r.row[i].accept);
  }
  if (mismatch && !odd) vote(&r);
  situ__site_text(situ__call_site(), r.site, sizeof r.site);
  SITU__APPEND(r.text, "%s%s%s", headline, *r.site ? "   at " : "", r.site);
  situ__describe_rows(&r);
  if (mismatch) situ__describe_fix(&r, want);
  const situ_module_lore *by = __atomic_load_n(&lore, __ATOMIC_ACQUIRE);
  if (by && status == SITU_E_DEVICE && r.like >= 0 && !r.row[r.like].odd)
    by->elsewhere(&r.modules, r.tensor[r.like].tensor->view.storage->device, r.next, sizeof r.next);
  situ__describe(&r);
  situ__fail_report(&(situ_error_report){ .status = status, .op = name, .message = r.text, .site = r.site, .module = r.modules.module, .odd = r.odd,
                                          .fix = r.fix, .next = r.next, .operands = r.list, .count = r.count });
}

bool situ__explain(const situ_call *c, situ_status status, unsigned odd, const char *fmt, ...) {
  char name[SITU__OP_NAME], text[512], headline[600];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  situ__error_name(c->op->name, name);
  if (status == SITU_E_DEVICE) snprintf(headline, sizeof headline, "%s in %s", text, name);
  else snprintf(headline, sizeof headline, "%s: %s", name, text);
  if (situ_error() == SITU_OK) refuse(c, status, odd, true, name, headline);
  else situ__fail(status, c->op->name, "%s", headline);  /* counted, not kept */
  return false;
}

/* Whatever else fails in a call: shapes and dtypes with the operands, the rest with the module. */
static bool explain_error(situ_status status, const char *name, const char *text) {
  const situ_call *c = situ__now.call;
  char headline[2048];
  snprintf(headline, sizeof headline, "%s: %s", name, text);
  if (status == SITU_E_SHAPE || status == SITU_E_DTYPE) {
    refuse(c, status, 0, false, name, headline);
    return true;
  }
  situ_explanation modules = { .count = 0 };
  situ_explain_look(&modules);
  if (!*modules.module) return false;
  char message[4096] = "", site[SITU__CELL];
  situ__site_text(situ__call_site(), site, sizeof site);
  SITU__APPEND(message, "%s%s%s\n  module %s", headline, *site ? "\n  at " : "", site, modules.module);
  situ__fail_report(&(situ_error_report){ .status = status, .op = name, .message = message, .site = site, .module = modules.module });
  return true;
}

__attribute__((constructor)) static void install(void) { situ__error_explain(explain_error); }

/* ---- for ops ---- */

bool situ_refuse(const situ_call *c, situ_status status, const char *fmt, ...) {
  char message[2048];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  situ__fail(status, c->op->name, "%s", message);
  return false;
}

situ_status situ_fail(situ_status status, const char *op, const char *fmt, ...) {
  char message[2048];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return situ__fail(status, op, "%s", message);
}
