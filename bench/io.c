/* Files that bench/torch/io.py has beside PyTorch's: 64 tensors of 4 MiB of f32, in the page cache. With `serve FILE` a
   line of input is a job; the answer is its processor seconds, which other programs do not lengthen:
     save   situ_save without sync, into FILE     write  the same bytes by write(2) into FILE.raw
     read   situ_load of FILE                     map    mapped, and one number of each page read
   SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "support/measure.h"

enum { TENSORS = 64, ELEMENTS = 1 << 20, PAGE = 4096 / sizeof(float) };

static situ_tree *make_tensors(void) {
  situ_tree *tree = situ_tree_dict();
  for (int k = 0; k < TENSORS; k++) {
    char name[32];
    (void)snprintf(name, sizeof name, "layer.%d.weight", k);
    tree = situ_tree_put(tree, name, situ_tree_tensor(situ_randn(SITU_SHAPE(1024, ELEMENTS / 1024), NULL)));
  }
  need(situ_error());
  return tree;
}

static situ_status write_tensor(const char *path, situ_tensor *t, void *payload) {
  const char *at = situ_data_ptr(t);
  (void)path;
  for (size_t left = sizeof(float) * ELEMENTS; left > 0;) {
    const ssize_t written = write(*(int *)payload, at, left);
    if (written < 0) exit(1);
    left -= (size_t)written;
    at += written;
  }
  return SITU_OK;
}

static float sum;
static situ_status touch_tensor(const char *path, situ_tensor *t, void *payload) {
  const float *at = situ_data_ptr(t);
  (void)path, (void)payload;
  for (int k = 0; k < ELEMENTS; k += PAGE) sum += at[k];
  return SITU_OK;
}

/* Returns false where there is no such job. */
static bool do_job(const char *job, const char *path, const situ_tree *tensors) {
  char raw[4096];
  situ_scope s;
  situ_scope_begin(&s);
  if (strcmp(job, "save") == 0) {
    need(situ_save(path, tensors, &(situ_save_options){ .no_sync = true }));
  } else if (strcmp(job, "write") == 0) {
    (void)snprintf(raw, sizeof raw, "%s.raw", path);
    (void)unlink(raw); /* as save, which writes a new file */
    int file = open(raw, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    need(situ_tree_each(tensors, write_tensor, &file));
    (void)close(file);
  } else if (strcmp(job, "read") == 0) {
    situ_tree *tree = situ_load(path, NULL);
    need(situ_error());
    situ_tree_free(tree);
  } else if (strcmp(job, "map") == 0) {
    situ_tree *tree = situ_load(path, &(situ_load_options){ .map = true });
    need(situ_error());
    need(situ_tree_each(tree, touch_tensor, NULL));
    situ_tree_free(tree);
  } else {
    return false;
  }
  need(situ_scope_end(&s));
  return true;
}

int main(int argc, char **argv) {
  static const char *const all[] = { "save", "write", "read", "map" };
  char job[16];
  situ_scope s;
  need(situ_set_num_threads(1));
  situ_scope_begin(&s);
  situ_tree *tensors = make_tensors();
  if (argc < 3 || strcmp(argv[1], "serve") != 0) return fprintf(stderr, "usage: io serve FILE\n"), 2;
  for (int k = 0; k < 4; k++) (void)do_job(all[k], argv[2], tensors);
  while (scanf("%15s", job) == 1) {
    const double begin = processor_seconds();
    if (!do_job(job, argv[2], tensors)) return 1;
    printf("%.9f\n", processor_seconds() - begin);
    (void)fflush(stdout);
  }
  situ_tree_free(tensors);
  return situ_scope_end(&s) != SITU_OK;
}
