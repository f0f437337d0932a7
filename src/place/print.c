/* The module tree with its devices and bytes, for a terminal.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "situ/place.h"
#include "situ/sys/op.h"

/* ---- sums ---- */

typedef struct sum {
  situ_placement place;
  bool           any;
} sum;

static uint64_t tensor_bytes(const situ_tensor *t) { return (uint64_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t)); }

static situ_status add(const situ_nn_visit *at, void *payload) {
  sum *s = payload;
  situ_device device = situ_device_of(at->tensor);
  if (at->slot->kind == SITU_NN_PARAMETER) s->place.parameters++;
  else s->place.buffers++;
  s->place.bytes += tensor_bytes(at->tensor);
  if (s->any && !situ_device_equal(device, s->place.device)) s->place.mixed = true;
  if (!s->any) s->place.device = device;
  s->any = true;
  return SITU_OK;
}

situ_status situ_place_of(situ_nn_module *m, situ_placement *out) {
  sum s = { .any = false };
  if (!m || !out) return situ_fail(SITU_E_ARG, "place_of", "%s is NULL", m ? "out" : "module");
  situ_status status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_ONCE, add, &s);
  if (status == SITU_OK) *out = s.place;
  return status;
}

/* ---- the tree ---- */

static bool colour_wanted(void) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* One colour a device; kinds differ in hue. */
static const char *colour_of(situ_device device) {
  static const char *const hue[] = { "32", "36", "35", "34", "33", "31", "92", "96" };
  return hue[(device.kind + 3u * device.index) % (sizeof hue / sizeof *hue)];
}

static void human(uint64_t bytes, char out[16]) {
  static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
  double value = (double)bytes;
  size_t u = 0;
  while (value >= 1024 && u < 4) {
    value /= 1024;
    u++;
  }
  snprintf(out, 16, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
}

static void device_cell(situ_device device, bool mixed, bool colour) {
  char name[SITU_DEVICE_NAME_MAX];
  const char *text = mixed ? "mixed" : device.kind ? situ_device_name(device, name) : "-";
  if (colour && !mixed && device.kind) printf("\033[%sm%-9s\033[0m", colour_of(device), text);
  else printf("%-9s", text);
}

enum { NAME = 38 };

static situ_status line(const situ_nn_visit *at, void *payload) {
  bool colour = *(const bool *)payload;
  char bytes[16];
  if (at->tensor) {
    situ_shape shape = situ_shape_of(at->tensor);
    char text[SITU_SHAPE_TEXT];
    human(tensor_bytes(at->tensor), bytes);
    int indent = 2 * at->depth + 2;
    printf("%*s%-*s ", indent, "", NAME - indent > 0 ? NAME - indent : 0, at->name);
    device_cell(situ_device_of(at->tensor), false, colour);
    printf(" %-5s %10s  %s %s\n", situ_dtype_name(situ_dtype_of(at->tensor)), bytes, situ_shape_text(&shape, text),
           at->slot->kind == SITU_NN_PARAMETER ? "" : "buffer");
    return SITU_OK;
  }
  situ_placement place;
  situ_status status = situ_place_of(at->module, &place);
  if (status != SITU_OK) return status;
  human(place.bytes, bytes);
  char label[128];
  snprintf(label, sizeof label, "%s%s%s", at->name, *at->name ? ": " : "", at->module->type->name);
  printf("%*s%-*s ", 2 * at->depth, "", NAME - 2 * at->depth > 0 ? NAME - 2 * at->depth : 0, label);
  device_cell(place.device, place.mixed, colour);
  printf(" %-5s %10s\n", "", bytes);
  return SITU_OK;
}

void situ_place_print(situ_nn_module *m) {
  bool colour = colour_wanted();
  if (!m) {
    situ_fail(SITU_E_ARG, "place_print", "module is NULL");
    return;
  }
  printf("%-*s %-9s %-5s %10s  %s\n", NAME, "module", "device", "dtype", "bytes", "shape");
  SITU_IGNORE(situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_MODULES, line, &colour));
}
