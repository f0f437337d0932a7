/* Prints a module as torch does.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/format.h"
#include "base/text.h"
#include "nn/nn.h"

static bool has_children(const situ_nn_module *m) {
  for (int64_t i = 0; i < m->count; i++)
    if (situ__nn_is_child(&m->slots[i])) return true;
  return false;
}

static situ_status print_one(const situ_nn_visit *at, void *payload) {
  situ__text *text = payload;
  const situ_nn_module *m = at->module;
  bool children = has_children(m);
  if (at->leaving) {
    if (children) situ__text_add(text, "\n%*s", 2 * at->depth, "");
    situ__text_add(text, ")");
    return SITU_OK;
  }
  char extra[512] = "";
  if (m->type->extra_repr) (void)m->type->extra_repr(m, extra, sizeof extra);
  if (at->slot) situ__text_add(text, "\n%*s(%s): ", 2 * at->depth, "", at->name);
  situ__text_add(text, "%s%s(", m->parametrized ? "Parametrized" : "", m->type->name);
  if (*extra && children) situ__text_add(text, "\n%*s", 2 * at->depth + 2, "");
  situ__text_add(text, "%s", extra);
  return SITU_OK;
}

static bool print(situ_nn_module *m, situ__text *text) {
  if (situ_nn_walk(m, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_LEAVE, print_one, text) != SITU_OK) return false;
  if (text->failed) situ__no_memory("nn_to_string", text->capacity);
  return !text->failed;
}

int64_t situ_nn_to_string(situ_nn_module *m, char *buffer, size_t size) {
  situ__text text = { 0 };
  int64_t length = -1;
  if (print(m, &text)) {
    length = (int64_t)text.length;
    if (buffer && size) {
      size_t kept = text.length < size ? text.length : size - 1;
      memcpy(buffer, text.data, kept);
      buffer[kept] = 0;
    }
  }
  situ__text_free(&text);
  return length;
}

void situ_nn_print(situ_nn_module *m) {
  situ__text text = { 0 };
  if (print(m, &text)) puts(text.data);
  situ__text_free(&text);
}

/* ---- helpers for extra_repr functions ---- */

const char *situ__nn_number(double value, char buffer[SITU__NUMBER]) {
  /* The shortest text that parses to the same number. */
  for (int digits = 1; digits <= 17; digits++) {
    situ__format(buffer, SITU__NUMBER, "%.*g", digits, value);
    if (situ__strtod(buffer, NULL) == value) break;
  }
  const char *e = strchr(buffer, 'e');
  if (value > -1e16 && value < 1e16 && ((e && e[1] == '+') || !strpbrk(buffer, ".en")))
    situ__format(buffer, SITU__NUMBER, "%.1f", value);
  return buffer;
}

const char *situ__nn_tuple(situ_shape shape, char buffer[SITU__TUPLE]) {
  size_t at = 0;
  for (int d = 0; d < shape.ndim; d++)
    at += (size_t)snprintf(buffer + at, SITU__TUPLE - at, "%s%" PRId64, d ? ", " : "(", shape.dim[d]);
  snprintf(buffer + at, SITU__TUPLE - at, shape.ndim == 0 ? "()" : shape.ndim == 1 ? ",)" : ")");
  return buffer;
}
