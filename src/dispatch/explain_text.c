/* The text that explains an invalid call: the table, the operand at fault, and the line of code that fixes it.
   SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/explain.h"
#include "base/format.h"

void situ__append(char *text, size_t size, const char *fmt, ...) {
  size_t length = strlen(text);
  va_list args;
  va_start(args, fmt);
  (void)situ__vformat(text + length, size - length, fmt, args);
  va_end(args);
}

/* ---- the table ---- */

const char *situ__place_text(void *site, char *buffer, size_t size) {
  situ__site_text(site, buffer, size);
  char *in = strstr(buffer, " in ");
  if (in && strchr(buffer, ':')) *in = 0;
  return buffer;
}

static void put_role(const situ_explained *x, situ__explained_row *row) {
  const char *name = situ_role_name((situ_role)x->tensor->role);
  if (x->held == SITU_HELD_UNREGISTERED) name = "plain tensor (not registered)";
  if (x->held == SITU_HELD_NOT && x->given) name = "given to functional_call";
  if (x->held == SITU_HELD_INPUT && x->tensor->role == SITU_ROLE_TENSOR) name = "input";
  if (x->loose) snprintf(row->role, sizeof row->role, "%s (not registered in %.140s)", name, x->owner);
  else snprintf(row->role, sizeof row->role, "%s", name);
}

static void describe_row(const situ_explained *x, situ__explained_row *row, situ_error_operand *out) {
  const situ_tensor *t = x->tensor;
  const situ_storage *s = t->view.storage;
  situ_shape shape = situ__shape(&t->view);
  char site[SITU__CELL];
  void *adopted;
  put_role(x, row);
  snprintf(row->tensor, sizeof row->tensor, "%s%s",
           *x->path    ? x->path
           : row->name ? row->name
                       : situ_name(t),
           x->view ? " (view)" : "");
  if (s->moved_at)
    snprintf(row->placed, sizeof row->placed, "moved by situ_%s at %.180s", s->moved_by,
             situ__place_text(s->moved_at, site, sizeof site));
  else
    snprintf(row->placed, sizeof row->placed, "created at %.200s", situ__place_text(t->created_at, site, sizeof site));
  if (situ__device_adoption(s->device, &adopted) == SITU__ADOPTED && adopted)
    situ__append(row->placed, sizeof row->placed, ", %s adopted at %.80s", situ_device_name(s->device, row->device),
                 situ__place_text(adopted, site, sizeof site));
  *out = (situ_error_operand){ .operand = row->operand,
                               .tensor = row->tensor,
                               .role = row->role,
                               .device = situ_device_name(s->device, row->device),
                               .shape = situ_shape_text(&shape, row->shape),
                               .dtype = situ_dtype_name((situ_dtype)t->view.dtype),
                               .placed = row->placed };
}

void situ__describe_rows(situ__refusal *r) {
  for (int i = 0; i < r->count; i++) describe_row(&r->tensor[i], &r->row[i], &r->list[i]);
}

static int find_width(const char *const *column, int count) {
  int width = 0;
  for (int i = 0; i < count; i++) width = (int)strlen(column[i]) > width ? (int)strlen(column[i]) : width;
  return width;
}

/* Writes a line of headings and one aligned line per operand. */
static void append_table(situ__refusal *r) {
  enum { COLUMNS = 7 };
  const char *column[COLUMNS][SITU__SHOWN + 1] = { { "operand" }, { "tensor" }, { "role" },     { "device" },
                                                   { "shape" },   { "dtype" },  { "placed by" } };
  int width[COLUMNS];
  for (int i = 0; i < r->count; i++) {
    const situ_error_operand *o = &r->list[i];
    const char *row[COLUMNS] = { o->operand, *o->tensor ? o->tensor : "-", o->role, o->device, o->shape, o->dtype,
                                 o->placed };
    for (int k = 0; k < COLUMNS; k++) column[k][i + 1] = row[k];
  }
  for (int k = 0; k < COLUMNS; k++) width[k] = find_width(column[k], r->count + 1);
  for (int i = 0; i <= r->count; i++) {
    SITU__APPEND(r->text, "\n   %s", i && r->row[i - 1].odd ? ">" : " ");
    for (int k = 0; k < COLUMNS - 1; k++) SITU__APPEND(r->text, "%-*s  ", width[k], column[k][i]);
    SITU__APPEND(r->text, "%s", column[COLUMNS - 1][i]);
  }
  if (r->more) SITU__APPEND(r->text, "\n    and %d more", r->more);
}

/* ---- the whole text ---- */

static void append_lines(situ__refusal *r, const char *title, const char *text) {
  int indent = (int)strlen(title);
  for (const char *at = text; *at;) {
    size_t length = strcspn(at, "\n");
    SITU__APPEND(r->text, "\n  %-*s%.*s", indent, at == text ? title : "", (int)length, at);
    at += length + (at[length] != 0);
  }
}

void situ__describe(situ__refusal *r) {
  int odd = 0;
  for (int i = 0; i < r->count; i++) {
    r->list[i].odd = r->row[i].odd;
    if (r->row[i].odd && r->decided) SITU__APPEND(r->odd, "%s%s", odd++ ? ", " : "", r->list[i].operand);
  }
  if (*r->modules.module) SITU__APPEND(r->text, "\n  module %s", r->modules.module);
  append_table(r);
  if (*r->odd) SITU__APPEND(r->text, "\n  odd %s out: %s", odd > 1 ? "ones" : "one", r->odd);
  append_lines(r, "fix: ", r->fix);
  append_lines(r, "no fix: ", r->even_then);
  append_lines(r, "next: ", r->next);
}
