/* Runs a fuzz target on every file of a directory: what the fuzzers once found stays found, in every build. */
/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each input gets a block of exactly its size, so that a sanitizer sees the first byte read too far. */
static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) return 1;
  long size = ftell(file);
  rewind(file);
  uint8_t *data = size >= 0 ? malloc(size > 0 ? (size_t)size : 1) : NULL;
  int bad = !data || fread(data, 1, (size_t)size, file) != (size_t)size;
  if (!bad) LLVMFuzzerTestOneInput(data, (size_t)size);
  free(data);
  fclose(file);
  return bad;
}

int main(int argc, char **argv) {
  int count = 0;
  if (argc != 2) {
    fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
  DIR *dir = opendir(argv[1]);
  if (!dir) {
    perror(argv[1]);
    return 1;
  }
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    if (length < 0 || (size_t)length >= sizeof path || replay(path)) {
      fprintf(stderr, "cannot read %s/%s\n", argv[1], entry->d_name);
      closedir(dir);
      return 1;
    }
    count++;
  }
  closedir(dir);
  printf("%d inputs replayed\n", count);
  return count == 0;
}
