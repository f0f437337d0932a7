/* The explanation of a refused call in words: the table, the odd one out, and the line of code that would mend it.
   SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/explain.h"

void situ__append(char *text, size_t size, const char *fmt, ...) {
  size_t length = strlen(text);
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text + length, size - length, fmt, args);
  va_end(args);
}

/* ---- the table ---- */

const char *situ__place_text(void *site, char *buffer, size_t size) {
  situ__site_text(site, buffer, size);
  char *in = strstr(buffer, " in ");
  if (in && strchr(buffer, ':')) *in = 0;
  return buffer;
}

static const char *role(const situ_explained *x) {
  if (x->held == SITU_HELD_UNREGISTERED) return "plain tensor (not registered)";
  if (x->held == SITU_HELD_INPUT && x->tensor->role == SITU_ROLE_TENSOR) return "input";
  return situ_role_name((situ_role)x->tensor->role);
}

static void describe(const situ_op *op, const situ_explained *x, situ__row *row, situ_error_operand *out) {
  const situ_tensor *t = x->tensor;
  const situ_storage *s = t->view.storage;
  situ_shape shape = situ__shape(&t->view);
  char site[SITU__CELL];
  if (op->flags & SITU_OP_VARIADIC) snprintf(row->operand, sizeof row->operand, "%s[%d]", op->operand[0].name, row->index);
  else snprintf(row->operand, sizeof row->operand, "%s", op->operand[row->index].name);
  snprintf(row->tensor, sizeof row->tensor, "%s%s", *x->path ? x->path : situ_name(t), x->view ? " (view)" : "");
  if (s->moved_at) snprintf(row->placed, sizeof row->placed, "moved by situ_%s at %.180s", s->moved_by, situ__place_text(s->moved_at, site, sizeof site));
  else snprintf(row->placed, sizeof row->placed, "created at %.200s", situ__place_text(t->created_at, site, sizeof site));
  *out = (situ_error_operand){ .operand = row->operand, .tensor = row->tensor, .role = role(x), .device = situ_device_name(s->device, row->device),
                               .shape = situ_shape_text(&shape, row->shape), .dtype = situ_dtype_name((situ_dtype)t->view.dtype),
                               .placed = row->placed, .odd = row->odd };
}

void situ__describe_rows(situ__refusal *r) {
  for (int i = 0; i < r->count; i++) describe(r->call->op, &r->tensor[i], &r->row[i], &r->list[i]);
}

static int widest(const char *const *column, int count) {
  int width = 0;
  for (int i = 0; i < count; i++) width = (int)strlen(column[i]) > width ? (int)strlen(column[i]) : width;
  return width;
}

/* One aligned line an operand, under a line of headings. */
static void table(situ__refusal *r) {
  enum { COLUMNS = 7 };
  const char *column[COLUMNS][SITU__SHOWN + 1] = { { "operand" }, { "tensor" }, { "role" }, { "device" }, { "shape" }, { "dtype" }, { "placed by" } };
  int width[COLUMNS];
  for (int i = 0; i < r->count; i++) {
    const situ_error_operand *o = &r->list[i];
    const char *row[COLUMNS] = { o->operand, *o->tensor ? o->tensor : "-", o->role, o->device, o->shape, o->dtype, o->placed };
    for (int k = 0; k < COLUMNS; k++) column[k][i + 1] = row[k];
  }
  for (int k = 0; k < COLUMNS; k++) width[k] = widest(column[k], r->count + 1);
  for (int i = 0; i <= r->count; i++) {
    SITU__APPEND(r->text, "\n   %s", i && r->row[i - 1].odd ? ">" : " ");
    for (int k = 0; k < COLUMNS - 1; k++) SITU__APPEND(r->text, "%-*s  ", width[k], column[k][i]);
    SITU__APPEND(r->text, "%s", column[COLUMNS - 1][i]);
  }
  if (r->more) SITU__APPEND(r->text, "\n    and %d more", r->more);
}

/* ---- the fix ---- */

/* How the program may call a tensor that is no module's. */
static const char *variable(const situ__refusal *r, int i) {
  const char *name = situ_name(r->tensor[i].tensor);
  if (*name) return name;
  return r->tensor[i].held == SITU_HELD_INPUT ? "x" : r->row[i].operand;
}

/* A statement on a line of its own, once, with the place where it belongs if that is known. */
static void statement(situ__refusal *r, const char *code, const char *where) {
  if (!strstr(r->fix, code)) SITU__APPEND(r->fix, "%s%s%s", *r->fix ? "\n" : "", code, where);
}

/* "   before train.c:12", where lines are known. */
static const char *before(void *site, char buffer[SITU__CELL + 16]) {
  char place[SITU__CELL];
  bool line = site && !situ__own_code(site) && strchr(situ__place_text(site, place, sizeof place), ':');
  snprintf(buffer, SITU__CELL + 16, "%s%s", line ? "   before " : "", line ? place : "");
  return buffer;
}

static void fix_row(situ__refusal *r, int i, const char *to_tensor, const char *to_module, const char *value) {
  char code[2 * SITU_PATH_TEXT + 100], where[SITU__CELL + 16];
  const situ_explained *x = &r->tensor[i];
  if (x->held == SITU_HELD_UNREGISTERED) {
    const char *dot = strrchr(x->path, '.'), *field = *situ_name(x->tensor) && dot ? dot + 1 : "<field>";
    snprintf(code, sizeof code, "situ_nn_buffer(m, %s, ...);", field);
    statement(r, code, "   where the module is made: what is registered moves with it");
    return;
  }
  if (x->held == SITU_HELD_REGISTERED) snprintf(code, sizeof code, "%s(%s, %s);", to_module, r->modules.root, value);
  else snprintf(code, sizeof code, "%s = %s(%s, %s);", variable(r, i), to_tensor, variable(r, i), value);
  /* An input is best brought along before the outermost module gets it. */
  statement(r, code, before(x->site && !situ__own_code(x->site) ? x->site : situ__call_site(), where));
}

/* A model that was left on the host while its input was brought to a device is more likely to be the one at fault. */
static void or_move_module(situ__refusal *r, int i) {
  if (r->tensor[i].held != SITU_HELD_INPUT || r->tensor[r->like].held != SITU_HELD_REGISTERED) return;
  if (r->tensor[r->like].tensor->view.storage->device.kind != SITU_CPU || situ_device_equal(r->modules.home, r->tensor[i].tensor->view.storage->device)) return;
  char code[SITU_PATH_TEXT + 100], where[SITU__CELL + 16];
  snprintf(code, sizeof code, "or situ_nn_to(%s, situ_dev(\"%s\"));", r->modules.root, r->list[i].device);
  statement(r, code, before(r->tensor[i].site ? r->tensor[i].site : situ__call_site(), where));
}

void situ__describe_fix(situ__refusal *r, situ_dtype want) {
  char value[64] = "";
  bool device = r->status == SITU_E_DEVICE;
  if (!device && !want && r->like >= 0) want = (situ_dtype)r->tensor[r->like].tensor->view.dtype;
  if (device && r->like >= 0) snprintf(value, sizeof value, "situ_dev(\"%s\")", r->list[r->like].device);
  if (want) snprintf(value, sizeof value, "SITU_%s", situ_dtype_name(want));
  for (char *c = value + 5; want && *c; c++) *c = (char)toupper((unsigned char)*c);
  if (!*value) return;
  /* Where nothing decides, all are marked, and brought to the first. */
  bool decided = r->like < 0 || !r->row[r->like].odd;
  int odd = 0;
  for (int i = 0; i < r->count; i++) {
    if (!r->row[i].odd) continue;
    if (decided) SITU__APPEND(r->odd, "%s%s", odd++ ? ", " : "", r->list[i].operand);
    if (i != r->like) fix_row(r, i, device ? "situ_to" : "situ_to_dtype", device ? "situ_nn_to" : "situ_nn_to_dtype", value);
    if (device && decided) or_move_module(r, i);
  }
}

/* ---- the whole text ---- */

static void lines(situ__refusal *r, const char *title, const char *text) {
  int indent = (int)strlen(title);
  for (const char *at = text; *at;) {
    size_t length = strcspn(at, "\n");
    SITU__APPEND(r->text, "\n  %-*s%.*s", indent, at == text ? title : "", (int)length, at);
    at += length + (at[length] != 0);
  }
}

void situ__describe(situ__refusal *r) {
  if (*r->modules.module) SITU__APPEND(r->text, "\n  module %s", r->modules.module);
  table(r);
  if (*r->odd) SITU__APPEND(r->text, "\n  odd %s out: %s", strchr(r->odd, ',') ? "ones" : "one", r->odd);
  lines(r, "fix: ", r->fix);
  lines(r, "next: ", r->next);
}
