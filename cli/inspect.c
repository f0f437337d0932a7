/* situ inspect: lists the tensors of a file.
   SPDX-License-Identifier: MIT */
#include "cli.h"

#include <situ/io.h>
#include <stdio.h>
#include <string.h>

/* The metadata key of situ_save's checksums. */
#define CHECKSUMS "situ.crc32c"

/* ---- common to all formats ------------------------------------------------------------------- */

static void print_entry_json(const situ_file_entry *e) {
  char shape[200];
  printf("{\"name\": ");
  cli_print_json(e->name);
  printf(", \"dtype\": \"%s\", \"shape\": %s, \"bytes\": %lld, \"offset\": %lld", e->type, cli_shape(&e->shape, shape),
         (long long)e->bytes, (long long)e->offset);
  if (*e->file) {
    printf(", \"file\": ");
    cli_print_json(e->file);
  }
  printf("}");
}

static int64_t elements_of(const situ_file_entry *e) {
  int64_t count = 1;
  for (int i = 0; i < e->shape.ndim; i++) count *= e->shape.dim[i];
  return count;
}

static void print_total(const char *format, int64_t tensors, int64_t elements, int64_t bytes) {
  char size[32];
  printf("%s, %lld tensor%s, %lld element%s, %s\n", format, (long long)tensors, tensors == 1 ? "" : "s",
         (long long)elements, elements == 1 ? "" : "s", cli_bytes((uint64_t)bytes, size));
}

/* ---- .npy ------------------------------------------------------------------------------------ */

static bool is_npy(const char *path) {
  char magic[6] = "";
  FILE *f = fopen(path, "rb");
  bool npy = f && fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "\x93NUMPY", 6) == 0;
  if (f) fclose(f);
  return npy;
}

static int inspect_npy(const cli_options *options) {
  situ_file_entry entry;
  char shape[200];
  if (situ_npy_info(options->file, &entry) != SITU_OK) return cli_failed();
  if (options->json) {
    printf("{\"format\": \"npy\", \"tensors\": [");
    print_entry_json(&entry);
    printf("], \"metadata\": {}}\n");
  } else {
    printf("%s  %s\n", entry.type, cli_shape(&entry.shape, shape));
    print_total("npy", 1, elements_of(&entry), entry.bytes);
  }
  return CLI_OK;
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static void print_json(const situ_safetensors *f) {
  situ_metadata remark;
  printf("{\"format\": \"%s\", \"tensors\": [", situ_safetensors_format(f));
  for (int64_t i = 0; i < situ_safetensors_count(f); i++) {
    if (i) printf(",\n ");
    print_entry_json(situ_safetensors_entry(f, i));
  }
  printf("],\n \"metadata\": {");
  for (int64_t i = 0; situ_safetensors_metadata_at(f, i, &remark); i++) {
    if (i) printf(", ");
    cli_print_json(remark.key);
    printf(": ");
    cli_print_json(remark.value);
  }
  putchar('}');
  cli_print_left(f, true);
  printf("}\n");
}

static int wider(int width, const char *text) { return cli_width(text) > width ? cli_width(text) : width; }

static void print_table(const situ_safetensors *f) {
  int name = 4, type = 5, shape = 5;
  int64_t elements = 0, bytes = 0, count = situ_safetensors_count(f);
  char text[200], size[32], heading[256];
  for (int64_t i = 0; i < count; i++) {
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    name = wider(name, e->name);
    type = wider(type, e->type);
    shape = wider(shape, cli_shape(&e->shape, text));
    elements += elements_of(e);
    bytes += e->bytes;
  }
  /* A name of a megabyte must not pad all other lines. */
  if (name > 80) name = 80;
  snprintf(heading, sizeof heading, "%-*s  %-*s  %-*s  %10s", name, "NAME", type, "DTYPE", shape, "SHAPE", "SIZE");
  cli_print_heading(heading);
  for (int64_t i = 0; i < count; i++) {
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    cli_print_text(e->name, name);
    printf("  %-*s  %-*s  %10s\n", type, e->type, shape, cli_shape(&e->shape, text),
           cli_bytes((uint64_t)e->bytes, size));
  }
  situ_metadata remark;
  for (int64_t i = 0; situ_safetensors_metadata_at(f, i, &remark); i++) {
    if (strcmp(remark.key, CHECKSUMS) == 0) continue; /* for --verify to read */
    printf("metadata  ");
    cli_print_text(remark.key, 0);
    printf(" = ");
    cli_print_text(remark.value, 0);
    putchar('\n');
  }
  cli_print_left(f, false);
  print_total(situ_safetensors_format(f), count, elements, bytes);
}

/* Reads every value, and so compares every checksum that the file has. */
static bool read_all(situ_safetensors *f) {
  for (int64_t i = 0; i < situ_safetensors_count(f); i++) {
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    situ_scope scope;
    situ_scope_begin(&scope);
    if (e->dtype != SITU_DTYPE_DEFAULT) situ_safetensors_load(f, e->name);
    if (situ_scope_end(&scope) != SITU_OK) return false;
  }
  return true;
}

static int inspect_safetensors(const cli_options *options) {
  const situ_load_options load = { .lenient = options->lenient,
                                   .verify = options->verify ? SITU_VERIFY_ALWAYS : SITU_VERIFY_READ };
  situ_safetensors *f = situ_safetensors_open(options->file, &load);
  if (!f) return cli_failed();
  if (options->json) print_json(f);
  else print_table(f);
  int result = CLI_OK;
  if (options->verify) {
    bool summed = strcmp(situ_safetensors_format(f), "torch") == 0 || situ_safetensors_metadata(f, CHECKSUMS);
    if (!read_all(f)) result = cli_failed();
    else if (!options->json) printf("%s\n", summed ? "all checksums match" : "the file has no checksums");
  }
  situ_safetensors_close(f);
  return result;
}

int cli_inspect(const cli_options *options) {
  if (cli_is_program(options->file)) return cli_inspect_program(options);
  return is_npy(options->file) ? inspect_npy(options) : inspect_safetensors(options);
}
