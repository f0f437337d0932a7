/* situ plan: assigns the tensors of a checkpoint to devices with limits.
   SPDX-License-Identifier: MIT */
#include "plan.h"

#include <inttypes.h>
#include <situ/place.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* The tensor with a second name in a metadata entry: {"lm_head.weight": "embed.weight"}, as written by safetensors'
   save_model. NULL: another metadata entry. */
static const situ_file_entry *declared(const situ_safetensors *f, const situ_metadata *remark) {
  if (!*remark->key || situ_safetensors_find(f, remark->key)) return NULL;
  return situ_safetensors_find(f, remark->value);
}

/* All tensors of the file, and their aliases. */
static bool read_items(const situ_safetensors *f, plan *p) {
  int64_t count = situ_safetensors_count(f), remarks = 0;
  situ_metadata remark;
  while (situ_safetensors_metadata_at(f, remarks, &remark)) remarks++;
  p->item = calloc((size_t)(count + remarks) + 1, sizeof *p->item);
  if (!p->item) return false;
  for (int64_t i = 0; i < count; i++) {
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    p->item[p->items++] = (plan_item){ .path = e->name, .entry = e };
  }
  for (int64_t i = 0; situ_safetensors_metadata_at(f, i, &remark); i++) {
    const situ_file_entry *e = declared(f, &remark);
    if (e) p->item[p->items++] = (plan_item){ .path = remark.key, .entry = e, .alias = true };
  }
  return true;
}

static plan_item *find_item(plan *p, const char *name, size_t length) {
  for (int64_t i = 0; i < p->items; i++)
    if (strncmp(p->item[i].path, name, length) == 0 && !p->item[i].path[length]) return &p->item[i];
  return NULL;
}

static bool same_shape(const situ_file_entry *a, const situ_file_entry *b) {
  bool same = strcmp(a->type, b->type) == 0 && a->shape.ndim == b->shape.ndim;
  for (int d = 0; same && d < a->shape.ndim; d++) same = a->shape.dim[d] == b->shape.dim[d];
  return same;
}

/* --tie: tensors that are in the file twice and in the model once, "head.weight=embed.weight,...". */
static bool tie_items(plan *p, const char *text) {
  for (const char *at = text; at && *at;) {
    size_t length = strcspn(at, ","), name = strcspn(at, "=,");
    char shown[CLI_SHOWN];
    plan_item *a = find_item(p, at, name);
    plan_item *b = name < length ? find_item(p, at + name + 1, length - name - 1) : NULL;
    const char *bad = !a || !b                          ? "is not TENSOR=TENSOR with tensors of the file"
                      : a->entry == b->entry            ? "names one tensor twice, or tied ones"
                      : !same_shape(a->entry, b->entry) ? "differs in shape or dtype"
                                                        : NULL;
    if (bad) {
      fprintf(stderr, "situ: --tie: '%s' %s\n", cli_shown(at, length, shown), bad);
      return false;
    }
    const situ_file_entry *old = a->entry;
    for (int64_t i = 0; i < p->items; i++)
      if (p->item[i].entry == old) p->item[i].entry = b->entry, p->item[i].alias = true;
    at += length + (at[length] == ',');
  }
  return true;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The plan as a snapshot of a module on those devices. */
static situ_snapshot *snapshot_of(const plan *p, const char *file) {
  situ_place_entry *list = calloc((size_t)p->items + 1, sizeof *list);
  if (!list) return NULL;
  const char *slash = strrchr(file, '/');
  list[0] = (situ_place_entry){ .path = "", .type = slash ? slash + 1 : file };
  for (int64_t i = 0; i < p->items; i++) {
    const plan_item *item = &p->item[i];
    const situ_file_entry *e = item->entry;
    list[i + 1] = (situ_place_entry){
      .path = item->path,
      .role = SITU_PLACE_TENSOR,
      .type = e->dtype ? situ_dtype_name(e->dtype) : e->type,
      .device = p->device[p->block[item->block].device].device,
      .shape = e->shape,
      .bytes = (uint64_t)e->bytes,
      .tied = item->tied < 0 ? NULL : p->item[item->tied].path,
    };
  }
  situ_snapshot *s = situ_snapshot_of(list, p->items + 1);
  free(list);
  return s;
}

static void print_table(const plan *p, const situ_snapshot *s, const char *map) {
  char heading[80], limit[32], used[32], left[32];
  situ_snapshot_print(s);
  snprintf(heading, sizeof heading, "\n%-9s %10s %10s %10s", "DEVICE", "LIMIT", "USED", "FREE");
  cli_print_heading(heading);
  for (int d = 0; d < p->devices; d++) {
    const plan_device *at = &p->device[d];
    printf("%-9s %10s %10s %10s\n", at->name, cli_bytes(at->limit, limit), cli_bytes(at->used, used),
           cli_bytes(at->limit - at->used, left));
  }
  if (p->filled) printf("gaps were filled: the devices are not in the order of the model\n");
  printf("\nmap       ");
  cli_print_text(map, 0);
  putchar('\n');
}

static bool print_json(const plan *p, const situ_snapshot *s, const char *map) {
  int64_t length = situ_snapshot_json(s, NULL, 0);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  if (!text || situ_snapshot_json(s, text, (size_t)length + 1) < 0) {
    free(text);
    return false;
  }
  printf("{\"limits\": [");
  for (int d = 0; d < p->devices; d++)
    printf("%s{\"device\": \"%s\", \"limit\": %" PRIu64 ", \"used\": %" PRIu64 "}", d ? ", " : "", p->device[d].name,
           p->device[d].limit, p->device[d].used);
  printf("],\n \"in_order\": %s,\n \"map\": ", p->filled ? "false" : "true");
  cli_print_json(map);
  printf(",\n \"placement\": %s}\n", text);
  free(text);
  return true;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int show(const plan *p, const cli_options *options) {
  situ_snapshot *s = snapshot_of(p, options->file);
  char *map = plan_map(p);
  int result = s && map ? CLI_OK : situ_error() ? cli_failed() : cli_no_memory();
  if (result == CLI_OK && options->svg && situ_snapshot_svg(s, options->svg, NULL) != SITU_OK) result = cli_failed();
  if (result == CLI_OK && !options->json) print_table(p, s, map);
  if (result == CLI_OK && options->json && !print_json(p, s, map)) result = cli_no_memory();
  situ_snapshot_free(s);
  free(map);
  return result;
}

int cli_plan(const cli_options *options) {
  if (cli_is_program(options->file)) return cli_plan_program(options);
  if (options->shape.count) {
    fprintf(stderr, "situ: --shape is for programs (.pt2, .onnx)\n");
    return CLI_USAGE;
  }
  plan p = { .devices = 0 };
  if (!plan_read_memory(options->devices, options->memory, &p)) return CLI_USAGE;
  const situ_load_options load = { .lenient = options->lenient };
  situ_safetensors *f = situ_safetensors_open(options->file, &load);
  if (!f) return cli_failed();
  int result = read_items(f, &p) ? CLI_OK : cli_no_memory();
  if (result == CLI_OK && !tie_items(&p, options->tie)) result = CLI_USAGE;
  if (result == CLI_OK && !plan_divide(&p)) result = cli_no_memory();
  if (result == CLI_OK && !plan_fit(&p)) result = CLI_FAILED;
  if (result == CLI_OK) result = show(&p, options);
  free(p.item);
  free(p.block);
  situ_safetensors_close(f);
  return result;
}
