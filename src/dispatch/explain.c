/* The explanation of a refused call: every operand with its name, role, device, shape, dtype and where it was placed,
   the odd one out, and a line of code that would mend it.
   SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/text.h"
#include "dispatch/dispatch.h"

enum { SHOWN = 32, CELL = 200 };

typedef struct cells { char device[SITU_DEVICE_NAME_MAX], shape[SITU_SHAPE_TEXT], placed[CELL + 16], tensor[CELL]; } cells;

static const char *roles[] = { [SITU_ROLE_TENSOR] = "tensor", [SITU_ROLE_INPUT] = "input", [SITU_ROLE_PARAMETER] = "parameter",
                               [SITU_ROLE_BUFFER] = "buffer", [SITU_ROLE_GRADIENT] = "gradient", [SITU_ROLE_OPTIMIZER] = "optimiser state" };

static void describe(const situ_call *c, int i, unsigned odd, cells *cell, situ_error_operand *out) {
  const situ_tensor *t = c->in[i];
  bool variadic = c->op->flags & SITU_OP_VARIADIC;
  situ_shape shape = situ__shape(&t->view);
  const situ_storage *storage = t->view.storage;
  char site[CELL];
  if (storage->moved_at) snprintf(cell->placed, sizeof cell->placed, "moved at %s", situ__site_text(storage->moved_at, site, sizeof site));
  else snprintf(cell->placed, sizeof cell->placed, "created at %s", situ__site_text(t->created_at, site, sizeof site));
  snprintf(cell->tensor, sizeof cell->tensor, "%s", situ_name(t));
  *out = (situ_error_operand){ .operand = c->op->operand[variadic ? 0 : i].name, .tensor = cell->tensor, .role = roles[t->role],
                               .device = situ_device_name(storage->device, cell->device), .shape = situ_shape_text(&shape, cell->shape),
                               .dtype = situ_dtype_name((situ_dtype)t->view.dtype), .placed = cell->placed,
                               .odd = i < 32 && odd >> i & 1 };
}

static int widest(const char *const *column, int count) {
  int width = 0;
  for (int i = 0; i < count; i++) width = (int)strlen(column[i]) > width ? (int)strlen(column[i]) : width;
  return width;
}

/* One aligned line an operand, under a line of headings. */
static void table(situ__text *text, const situ_error_operand *list, int count) {
  enum { COLUMNS = 7 };
  const char *column[COLUMNS][SHOWN + 1] = { { "operand" }, { "tensor" }, { "role" }, { "device" }, { "shape" }, { "dtype" }, { "placed by" } };
  int width[COLUMNS];
  for (int i = 0; i < count; i++) {
    const char *row[COLUMNS] = { list[i].operand, *list[i].tensor ? list[i].tensor : "-", list[i].role, list[i].device, list[i].shape,
                                 list[i].dtype, list[i].placed };
    for (int k = 0; k < COLUMNS; k++) column[k][i + 1] = row[k];
  }
  for (int k = 0; k < COLUMNS; k++) width[k] = widest(column[k], count + 1);
  for (int i = 0; i <= count; i++) {
    situ__text_add(text, "\n   %s", i && list[i - 1].odd ? ">" : " ");
    for (int k = 0; k < COLUMNS; k++) situ__text_add(text, k < COLUMNS - 1 ? "%-*s  " : "%.*s", k < COLUMNS - 1 ? width[k] : CELL, column[k][i]);
  }
}

/* What would mend a device mismatch: bring the odd one to the others. */
static void fix(situ__text *text, const situ_error_operand *list, int count) {
  int odd = 0, at = -1, other = -1;
  for (int i = 0; i < count; i++) {
    if (list[i].odd) odd++, at = i;
    else other = i;
  }
  if (odd == 1 && other >= 0) {
    const char *name = *list[at].tensor ? list[at].tensor : list[at].operand;
    situ__text_add(text, "\n  odd one out: %s", list[at].operand);
    situ__text_add(text, "\n  fix: %s = situ_to(%s, situ_dev(\"%s\"));", name, name, list[other].device);
  } else {
    situ__text_add(text, "\n  fix: bring all operands to one device with situ_to, or the module with situ_nn_to");
  }
}

bool situ__explain(const situ_call *c, situ_status status, unsigned odd, const char *fmt, ...) {
  situ_error_operand list[SHOWN];
  cells cell[SHOWN];
  int count = 0;
  for (int i = 0; i < c->ins && count < SHOWN; i++)
    if (c->in[i]) {
      describe(c, i, odd, &cell[count], &list[count]);
      count++;
    }
  char headline[512], site[CELL];
  va_list args;
  va_start(args, fmt);
  vsnprintf(headline, sizeof headline, fmt, args);
  va_end(args);
  situ__text text = { 0 };
  situ__text_add(&text, "%s", headline);
  situ__text_add(&text, "   at %s", situ__site_text(situ__call_site(), site, sizeof site));
  table(&text, list, count);
  if (status == SITU_E_DEVICE) fix(&text, list, count);
  situ__fail_report(&(situ_error_report){ .status = status, .op = c->op->name, .message = text.data ? text.data : headline,
                                          .operands = list, .count = count });
  situ__text_free(&text);
  return false;
}

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
