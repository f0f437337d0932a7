/* situ devices: lists the available devices, and why the others are not available.
   SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdio.h>

static const struct kind {
  situ_device_kind kind;
  const char *name;
} kinds[] = {
  { SITU_CPU, "cpu" }, { SITU_CUDA, "cuda" }, { SITU_OPENCL, "opencl" },
  { SITU_SIM, "sim" }, { SITU_PLAN, "plan" }, { SITU_META, "meta" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void print_dtypes(uint32_t dtypes, const char *quote, const char *between) {
  bool any = false;
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++) {
    if (!(dtypes >> d & 1)) continue;
    printf("%s%s%s%s", any ? between : "", quote, situ_dtype_name((situ_dtype)d), quote);
    any = true;
  }
}

/* The other devices that are the same chip; nothing if there are none. */
static void print_same_chip(situ_device device, const char *begin, const char *quote) {
  bool any = false;
  for (int k = 0; k < KINDS; k++)
    for (int i = 0, count = situ_device_count(kinds[k].name); i < count; i++) {
      const situ_device other = { .kind = (uint16_t)kinds[k].kind, .index = (uint16_t)i };
      char name[SITU_DEVICE_NAME_MAX];
      if (situ_device_equal(device, other) || !situ_device_same_chip(device, other)) continue;
      printf("%s%s%s%s", any ? ", " : begin, quote, situ_device_name(other, name), quote);
      any = true;
    }
}

static void print_device_json(situ_device device, const char *name, const situ_device_properties *p) {
  printf("{\"device\": \"%s\", \"name\": ", name);
  cli_print_json(p->name);
  printf(", \"driver\": ");
  cli_print_json(p->driver);
  printf(", \"memory_total\": %llu, \"memory_used\": %llu, \"dtypes\": [", (unsigned long long)p->memory_total,
         (unsigned long long)p->memory_used);
  print_dtypes(p->dtypes, "\"", ", ");
  printf("], \"uuid\": \"%s\", \"pci\": \"%s\", \"same_chip\": [", p->uuid, p->pci);
  print_same_chip(device, "", "\"");
  printf("]}");
}

static void print_device(situ_device device, const char *name, const situ_device_properties *p, int width) {
  char total[32];
  printf("%-9s ", name);
  cli_print_text(p->name, width);
  printf(" %10s  ", p->memory_total ? cli_bytes(p->memory_total, total) : "-");
  print_dtypes(p->dtypes, "", " ");
  if (*p->driver) {
    printf("  (");
    cli_print_text(p->driver, 0);
    printf(")");
  }
  putchar('\n');
  if (*p->uuid || *p->pci)
    printf("%-9s %s%s%s%s%s", "", *p->uuid ? "uuid " : "", p->uuid, *p->uuid && *p->pci ? ", " : "",
           *p->pci ? "pci " : "", p->pci);
  print_same_chip(device, "; one chip, and one memory, with ", "");
  if (*p->uuid || *p->pci) putchar('\n');
}

/* The columns of the longest name of a device; a driver may give a long one. */
static int width_of_names(void) {
  int width = 4; /* "NAME" */
  for (int k = 0; k < KINDS; k++)
    for (int i = 0, count = situ_device_count(kinds[k].name); i < count; i++) {
      const situ_device device = { .kind = (uint16_t)kinds[k].kind, .index = (uint16_t)i };
      situ_device_properties properties;
      if (situ_device_info(device, &properties) == SITU_OK && cli_width(properties.name) > width)
        width = cli_width(properties.name);
    }
  return width;
}

/* All devices of one kind, as JSON after `before` others or as lines whose names take `width` columns. Returns how many
   were printed, or -1 on error. */
static int print_kind(const struct kind *k, bool json, int before, int width) {
  int count = situ_device_count(k->name);
  for (int i = 0; i < count; i++) {
    const situ_device device = { .kind = (uint16_t)k->kind, .index = (uint16_t)i };
    situ_device_properties properties;
    char name[SITU_DEVICE_NAME_MAX];
    if (situ_device_info(device, &properties) != SITU_OK) return -1;
    situ_device_name(device, name);
    if (!json) {
      print_device(device, name, &properties, width);
      continue;
    }
    printf("%s", before + i ? ",\n " : "");
    print_device_json(device, name, &properties);
  }
  return count;
}

int cli_devices(const cli_options *options) {
  char heading[192];
  int printed = 0;
  const int width = options->json ? 0 : width_of_names();
  snprintf(heading, sizeof heading, "%-9s %-*s %10s  %s", "DEVICE", width, "NAME", "MEMORY", "DTYPES");
  if (options->json) printf("{\"devices\": [");
  else cli_print_heading(heading);
  for (int k = 0; k < KINDS; k++) {
    int count = print_kind(&kinds[k], options->json, printed, width);
    if (count < 0) return cli_failed();
    printed += count;
  }
  if (options->json) printf("],\n \"absent\": {");
  bool first = true;
  for (int k = 0; k < KINDS; k++) {
    if (situ_device_count(kinds[k].name) > 0) continue;
    const char *reason = situ_device_status(kinds[k].name);
    if (options->json) {
      printf("%s\"%s\": ", first ? "" : ", ", kinds[k].name);
      cli_print_json(reason);
      first = false;
    } else {
      printf("%-9s not available: ", kinds[k].name);
      cli_print_text(reason, 0);
      putchar('\n');
    }
  }
  if (options->json) printf("}}\n");
  return CLI_OK;
}
