/* The files of valid calls. See files.h.
   SPDX-License-Identifier: MIT */
#include "support/api/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/test.h"

const unsigned char api_png[API_PNG] = { 137, 80,  78, 71,  13,  10, 26, 10, 0,  0,   0,   13, 73, 72,
                                         68,  82,  0,  0,   0,   3,  0,  0,  0,  2,   1,   0,  0,  0,
                                         0,   181, 15, 91,  183, 0,  0,  0,  12, 73,  68,  65, 84, 120,
                                         218, 99,  88, 192, 224, 0,  0,  2,  36, 0,   225, 77, 22, 232,
                                         94,  0,   0,  0,   0,   73, 69, 78, 68, 174, 66,  96, 130 };

const char *api_file_of(const char *function) {
  if (strstr(function, "npy")) return "valid.npy";
  if (strstr(function, "csv")) return "valid.csv";
  if (strstr(function, "wav")) return "valid.wav";
  if (strstr(function, "image") || strstr(function, "png") || strstr(function, "jpeg")) return "valid.png";
  if (strstr(function, "idx")) return "valid.idx";
  if (strstr(function, "svg")) return "valid.svg";
  if (strstr(function, "export")) return "valid.pt2";
  if (strstr(function, "gguf")) return "valid.gguf";
  if (strstr(function, "lock")) return "valid.lock";
  if (strstr(function, "scratch")) return "new.scratch";
  return strstr(function, "checkpoint") ? "valid.checkpoint" : "valid.safetensors";
}

static void store(const char *file, const void *data, size_t bytes) {
  FILE *f = fopen(file, "wb");
  assert_true(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0);
}

/* Others wrote it: there is no writer here. */
static void copy_case(const char *name, const char *to) {
  static char bytes[64 << 10];
  const char *root = getenv("SITU_TEST_ROOT");
  char from[512];
  (void)snprintf(from, sizeof from, "%s/%s", root ? root : ".", name);
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  if (!in || !out) fail_msg("%s: cannot be copied", from);
  const size_t size = fread(bytes, 1, sizeof bytes, in);
  assert_true(fwrite(bytes, 1, size, out) == size);
  assert_int_equal(fclose(in) | fclose(out), 0);
}

void api_write_file(const char *file) {
  static const char idx[] = { 0, 0, 8, 1, 0, 0, 0, 2, 5, 6 }, csv[] = "1,2\n3,4\n";
  if (strcmp(file, "valid.csv") == 0) store(file, csv, sizeof csv - 1);
  if (strcmp(file, "valid.idx") == 0) store(file, idx, sizeof idx);
  if (strcmp(file, "valid.pt2") == 0) copy_case("program/data/mlp.pt2", file);
  if (strcmp(file, "valid.gguf") == 0) copy_case("io/gguf/model.gguf", file);
  if (strcmp(file, "valid.png") == 0) store(file, api_png, API_PNG);
  if (strcmp(file, "new.scratch") == 0) (void)remove(file);
}

const char *api_image_root(void) {
  (void)mkdir("images", 0777);
  (void)mkdir("images/class", 0777);
  store("images/class/a.png", api_png, API_PNG);
  return "images";
}
