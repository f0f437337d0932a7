/* Explains an invalid call: its operands, what modules know about them, and which operand is at fault. All of this
   runs only after an error, and allocates only to try fixes (try.c): when memory has run out, no fix is proposed.
   SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/format.h"
#include "dispatch/explain.h"

static const situ_module_lore *module_lore;

void situ_explain_modules(const situ_module_lore *lore) { __atomic_store_n(&module_lore, lore, __ATOMIC_RELEASE); }

void situ_explain_look(situ_explanation *e) {
  const situ_module_lore *by = __atomic_load_n(&module_lore, __ATOMIC_ACQUIRE);
  if (by) by->look(e);
}

int64_t situ__explain_parts(const void *root, const char *below, situ_tensor **list, int64_t capacity) {
  const situ_module_lore *by = __atomic_load_n(&module_lore, __ATOMIC_ACQUIRE);
  return by ? by->parts(root, below, list, capacity) : 0;
}

/* ---- rows of the table ---- */

static situ__by by_of(situ_status status) { return status == SITU_E_DEVICE ? SITU__BY_DEVICE : SITU__BY_DTYPE; }

static const situ_operand *schema_of(const situ_call *c, int i) {
  return &c->op->operand[c->op->flags & SITU_OP_VARIADIC ? 0 : i];
}

/* Whether an operand is at fault by itself, whatever the others are: the op takes no such dtype, or no blocks. */
static bool is_refused(const situ_call *c, int i) {
  const situ_view_desc *v = &c->in[i]->view;
  const unsigned accept = schema_of(c, i)->accept;
  return !situ__accepts(accept, (situ_dtype)v->dtype) || (situ__blocks_of(v) && !(accept & SITU_BLOCKS));
}

/* If there are more operands than rows, shows the first few, those at fault, and `like`: the first of the majority, or
   -1. */
static bool is_shown(const situ__refusal *r, int like, int i) {
  const situ_call *c = r->call;
  if (c->ins <= SITU__SHOWN || i < SITU__SHOWN / 4 || i == like) return true;
  if (r->refused) return is_refused(c, i);
  return like >= 0 && situ__vote_key(c, by_of(r->status), i) != situ__vote_key(c, by_of(r->status), like);
}

static void collect_rows(situ__refusal *r, int like) {
  const situ_call *c = r->call;
  for (int i = 0; i < c->ins; i++) {
    if (!situ__alive(c->in[i])) continue;
    if (r->count == SITU__SHOWN || !is_shown(r, like, i)) {
      r->more++;
      continue;
    }
    situ__explained_row *row = &r->row[r->count];
    if (c->op->flags & SITU_OP_VARIADIC)
      snprintf(row->operand, sizeof row->operand, "%s[%d]", c->op->operand[0].name, i);
    else snprintf(row->operand, sizeof row->operand, "%s", c->op->operand[i].name);
    row->index = i;
    row->accept = schema_of(c, i)->accept;
    r->tensor[r->count++].tensor = c->in[i];
  }
}

/* Marks the operands that differ from the majority; all of them if there is a draw. */
static void mark_odd(situ__refusal *r, situ__majority by) {
  int best = by.like < 0 ? -1 : situ__vote_key(r->call, by_of(r->status), by.like);
  r->decided = by.decided;
  for (int i = 0; i < r->count; i++) {
    int own = situ__vote_key(r->call, by_of(r->status), r->row[i].index);
    r->row[i].odd = own >= 0 && (!by.decided || own != best);
    if (r->like < 0 && own == best) r->like = i;
  }
}

/* ---- the report ---- */

static bool copies_are_proposed(const situ__refusal *r) {
  return r->fix_count && r->fixes[0].action == SITU_FIX_POLICY;
}

static situ_status send_report(situ__refusal *r, const char *name) {
  const situ_module_lore *by = __atomic_load_n(&module_lore, __ATOMIC_ACQUIRE);
  if (by && r->status == SITU_E_DEVICE && r->like >= 0 && !r->row[r->like].odd && !copies_are_proposed(r))
    by->elsewhere(&r->modules, r->tensor[r->like].tensor->view.storage->device, r->next, sizeof r->next);
  situ__describe(r);
  return situ__fail_report(&(situ_error_report){ .status = r->status,
                                                 .op = name,
                                                 .message = r->text,
                                                 .site = r->site,
                                                 .module = r->modules.module,
                                                 .odd = r->odd,
                                                 .fix = r->fix,
                                                 .next = r->next,
                                                 .operands = r->list,
                                                 .count = r->count,
                                                 .fixes = r->fixes,
                                                 .fix_count = r->fix_count });
}

/* Returns NULL when memory runs out: then an error has its text alone. */
static situ__refusal *new_refusal(situ_status status) {
  situ__refusal *r = situ__alloc_uncounted(sizeof *r);
  if (!r) return NULL;
  memset(r, 0, sizeof *r);
  r->status = status, r->like = -1;
  return r;
}

static void open_text(situ__refusal *r, const char *headline) {
  r->modules.operand = r->tensor;
  r->modules.count = r->count;
  situ_explain_look(&r->modules);
  situ__site_text(situ__call_site(), r->site, sizeof r->site);
  SITU__APPEND(r->text, "%s%s%s", headline, *r->site ? "   at " : "", r->site);
}

/* mismatch: operands are at fault, each by itself if `refused`, or because they differ. Returns false when memory runs
   out. */
static bool explain_refusal(const situ_call *c, situ_status status, bool refused, bool mismatch, const char *name,
                            const char *headline) {
  situ__refusal *r = new_refusal(status);
  if (!r) return false;
  r->call = c, r->refused = r->decided = refused;
  situ_dtype want = SITU_DTYPE_DEFAULT;
  const situ__majority by = mismatch ? situ__vote(c, by_of(status)) : (situ__majority){ .like = -1 };
  collect_rows(r, by.like);
  open_text(r, headline);
  for (int i = 0; refused && i < r->count; i++) {
    r->row[i].odd = is_refused(c, r->row[i].index);
    if (r->row[i].odd && !want) want = situ__acceptable(r->row[i].accept);
  }
  if (mismatch && !refused) mark_odd(r, by);
  situ__describe_rows(r);
  if (mismatch) situ__propose(r, want);
  (void)send_report(r, name);
  situ__free(r);
  return true;
}

situ_status situ_fail_blamed(situ_status status, const char *op, const situ_blamed *list, int count, const char *fix,
                             const char *fmt, ...) {
  char name[SITU__OP_NAME], text[3000], headline[3100];
  va_list args;
  if (!fmt) fmt = "";
  va_start(args, fmt);
  situ__vformat(text, sizeof text, fmt, args);
  va_end(args);
  snprintf(headline, sizeof headline, "%s: %s", situ__error_name(op, name), text);
  situ__refusal *r = situ_error() == SITU_OK ? new_refusal(status) : NULL; /* later errors are only counted */
  if (!r) return situ__fail(status, op, "%s", text);
  r->decided = true;
  for (int i = 0; list && i < count; i++) {
    if (!situ__alive(list[i].tensor)) continue;
    if (r->count == SITU__SHOWN) {
      r->more++;
      continue;
    }
    situ__explained_row *row = &r->row[r->count];
    *row = (situ__explained_row){ .index = -1, .odd = list[i].odd, .name = list[i].name };
    snprintf(row->operand, sizeof row->operand, "%s", list[i].operand);
    r->tensor[r->count++].tensor = list[i].tensor;
  }
  open_text(r, headline);
  situ__describe_rows(r);
  SITU__APPEND(r->fix, "%s", fix ? fix : "");
  (void)send_report(r, name);
  situ__free(r);
  return status;
}

bool situ__explain(const situ_call *c, situ_status status, bool refused, const char *fmt, ...) {
  char name[SITU__OP_NAME], text[512], headline[600];
  va_list args;
  va_start(args, fmt);
  situ__vformat(text, sizeof text, fmt, args);
  va_end(args);
  situ__error_name(c->op->name, name);
  if (status == SITU_E_DEVICE) snprintf(headline, sizeof headline, "%s in %s", text, name);
  else snprintf(headline, sizeof headline, "%s: %s", name, text);
  if (situ_error() != SITU_OK || situ__trying || !explain_refusal(c, status, refused, true, name, headline))
    situ__fail(status, c->op->name, "%s", headline); /* later errors are only counted */
  return false;
}

/* In a dry run a check proposes for all of a model at once. */
situ_status situ__explain_incapable(const char *op, situ_dtype lacking, const char *text) {
  char name[SITU__OP_NAME], headline[600];
  const situ_call *c = situ__now.call;
  const bool plain = !c || situ_error() != SITU_OK || situ__trying || situ_is_dry() || situ__sampling;
  situ__refusal *r = plain ? NULL : new_refusal(SITU_E_UNSUPPORTED);
  if (!r) return situ__fail(SITU_E_UNSUPPORTED, op, "%s", text);
  snprintf(headline, sizeof headline, "%s: %s", situ__error_name(op, name), text);
  r->call = c, r->decided = true;
  collect_rows(r, -1);
  open_text(r, headline);
  for (int i = 0; i < r->count; i++) r->row[i].odd = lacking && (situ_dtype)r->tensor[i].tensor->view.dtype == lacking;
  situ__describe_rows(r);
  situ__propose_capable(r);
  (void)send_report(r, name);
  situ__free(r);
  return SITU_E_UNSUPPORTED;
}

/* Explains all other errors in a call: shapes and dtypes with the operands, the rest with the module. */
bool situ__explain_error(situ_status status, const char *name, const char *text) {
  const situ_call *c = situ__now.call;
  char headline[2048];
  snprintf(headline, sizeof headline, "%s: %s", name, text);
  if (status == SITU_E_SHAPE || status == SITU_E_DTYPE) return explain_refusal(c, status, false, false, name, headline);
  situ_explanation modules = { .count = 0 };
  situ_explain_look(&modules);
  if (!*modules.module) return false;
  char message[4096] = "", site[SITU__CELL];
  situ__site_text(situ__call_site(), site, sizeof site);
  SITU__APPEND(message, "%s%s%s\n  module %s", headline, *site ? "\n  at " : "", site, modules.module);
  situ__fail_report(
      &(situ_error_report){ .status = status, .op = name, .message = message, .site = site, .module = modules.module });
  return true;
}

void situ__explain_module(char *buffer, size_t size) {
  situ_explanation modules = { .count = 0 };
  situ_explain_look(&modules);
  (void)snprintf(buffer, size, "%s", modules.module);
}

void situ__explain_tensor(const situ_tensor *t, char *buffer, size_t size) {
  situ_explained own = { .tensor = t };
  situ_explanation modules = { .operand = &own, .count = 1 };
  situ_explain_look(&modules);
  (void)snprintf(buffer, size, "%s", own.path);
}

situ_status situ__blame(situ_status status, const char *op, const situ_blamed *list, int count, const char *text) {
  return situ_fail_blamed(status, op, list, count, NULL, "%s", text);
}

/* ---- for ops ---- */

static SITU_PRINTF(3, 0) situ_status fail_with(situ_status status, const char *op, const char *fmt, va_list args) {
  char message[2048];
  message[0] = 0;
  if (fmt) situ__vformat(message, sizeof message, fmt, args);
  return situ__fail(status, op, "%s", message);
}

bool situ_refuse(const situ_call *call, situ_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fail_with(status, call ? call->op->name : "refuse", fmt, args);
  va_end(args);
  return false;
}

situ_status situ_fail(situ_status status, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  status = fail_with(status, op, fmt, args);
  va_end(args);
  return status;
}
