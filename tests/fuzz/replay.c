/* Runs a fuzz target on every file of a directory: what the fuzzers once found stays found, in every build. Then on COUNT
   inputs of random bytes (100 times as many with SITU_TEST_ALL), for targets to which any bytes mean something.
   SPDX-License-Identifier: MIT */
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

/* Each input follows from its number alone. SITU_FUZZ_FROM: the first number, and every number is said before it is tried, to
   find the one that crashes. */
static void explore(long count) {
  const char *from = getenv("SITU_FUZZ_FROM");
  const long first = from ? atol(from) : 0;
  for (long number = first; number < first + count; number++) {
    uint8_t data[96];
    uint64_t state = (uint64_t)number * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
    for (size_t i = 0; i < sizeof data; i++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      data[i] = (uint8_t)(state >> 32);
    }
    if (from) fprintf(stderr, "%ld\n", number);
    LLVMFuzzerTestOneInput(data, sizeof data);
  }
}

int main(int argc, char **argv) {
  int count = 0;
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s DIRECTORY [COUNT]\n", argv[0]);
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
  const long random = argc == 3 ? atol(argv[2]) * (getenv("SITU_TEST_ALL") ? 100 : 1) : 0;
  explore(random);
  printf("%d inputs replayed, %ld random ones\n", count, random);
  return count == 0;
}
