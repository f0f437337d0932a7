/* Images in directories, one a class (torchvision.datasets.ImageFolder).
   SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/text.h"
#include "situ/media.h"
#include "situ/ops.h"

static const char op[] = "image_folder";
/* Links may lead upwards, and a name is part of a path of at most PATH_MAX. */
enum { MOST_DEPTH = 32 };

typedef struct file {
  char *path;
  int64_t label;
} file;

typedef struct image_folder {
  situ_dataset base;
  situ_image_folder_options options;
  char **classes;
  int64_t class_count;
  file *files;
  int64_t count, capacity;
} image_folder;

/* ---- names ---- */

/* Sorted names of a directory. */
typedef struct names {
  char **name;
  int64_t count, capacity;
} names;

static void free_names(names *n) {
  for (int64_t i = 0; i < n->count; i++) situ__free(n->name[i]);
  situ__free(n->name);
}

static char *join(const char *directory, const char *name) {
  situ__text text = { 0 };
  situ__text_add(&text, "%s%s%s", directory, *directory ? "/" : "", name);
  if (text.failed) situ__no_memory(op, text.length);
  return text.data; /* NULL if that failed: nothing was added before */
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool read_directory(const char *path, names *out) {
  DIR *d = opendir(path);
  *out = (names){ 0 };
  if (!d) return situ__fail(SITU_E_IO, op, "%s: %s", path, strerror(errno)), false;
  bool good = true;
  for (struct dirent *e; good && (errno = 0, e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    good = situ__grow(op, &out->name, &out->capacity, sizeof *out->name, out->count + 1) &&
           (out->name[out->count] = join("", e->d_name));
    out->count += good;
  }
  if (good && errno) good = (situ__fail(SITU_E_IO, op, "%s: %s", path, strerror(errno)), false);
  (void)closedir(d);
  if (out->count) qsort(out->name, (size_t)out->count, sizeof *out->name, by_name);
  return good;
}

static bool is_directory(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}
static bool is_image(const char *name) {
  static const char *const ends[] = { ".png", ".jpg", ".jpeg" };
  const char *end = strrchr(name, '.');
  for (int i = 0; end && i < 3; i++)
    if (!strcasecmp(end, ends[i])) return true;
  return false;
}

/* ---- the list of samples ---- */

static bool add_file(image_folder *f, char *path, int64_t label) {
  if (!situ__grow(op, &f->files, &f->capacity, sizeof *f->files, f->count + 1)) return situ__free(path), false;
  f->files[f->count++] = (file){ path, label };
  return true;
}

/* torch's order: by directory, then by name. */
static int by_directory(const void *a, const void *b) {
  const char *x = ((const file *)a)->path, *y = ((const file *)b)->path;
  const size_t i = (size_t)(strrchr(x, '/') - x), j = (size_t)(strrchr(y, '/') - y);
  const int order = memcmp(x, y, i < j ? i : j);
  if (order || i != j) return order ? order : i < j ? -1 : 1;
  return strcmp(x + i, y + j);
}

/* Adds the images in a directory and below it. */
static bool add_images(image_folder *f, const char *directory, int64_t label, int depth) {
  names n;
  if (depth > MOST_DEPTH)
    return situ__fail(SITU_E_LIMIT, op, "%s: more than %d directories in one another", directory, MOST_DEPTH), false;
  bool good = read_directory(directory, &n);
  for (int64_t i = 0; good && i < n.count; i++) {
    char *path = join(directory, n.name[i]);
    if (!path) good = false;
    else if (is_directory(path)) good = add_images(f, path, label, depth + 1), situ__free(path);
    else if (is_image(path)) good = add_file(f, path, label);
    else situ__free(path);
  }
  free_names(&n);
  return good;
}

/* Makes each subdirectory a class. */
static bool add_classes(image_folder *f, const char *root) {
  names n;
  bool good = read_directory(root, &n);
  f->classes = good ? situ__calloc((size_t)n.count + 1, sizeof *f->classes) : NULL;
  if (good && !f->classes) good = (situ__no_memory(op, (size_t)n.count * sizeof *f->classes), false);
  for (int64_t i = 0; good && i < n.count; i++) {
    char *path = join(root, n.name[i]);
    const int64_t before = f->count;
    if (path && is_directory(path)) {
      f->classes[f->class_count] = n.name[i];
      n.name[i] = NULL;
      good = add_images(f, path, f->class_count++, 0);
      if (f->count > before) qsort(f->files + before, (size_t)(f->count - before), sizeof *f->files, by_directory);
      else if (good)
        good = (situ__fail(SITU_E_ARG, op, "%s: no .png, .jpg or .jpeg file is in this class", path), false);
    }
    good = good && path;
    situ__free(path);
  }
  free_names(&n);
  if (good && !f->class_count)
    return situ__fail(SITU_E_ARG, op, "%s: no directory is in it, which would be a class", root), false;
  return good;
}

/* ---- the data set ---- */

static int64_t length_of(situ_dataset *self) { return ((image_folder *)self)->count; }

static situ_tree *get(situ_dataset *self, int64_t index) {
  const image_folder *f = (image_folder *)self;
  const situ_device host = situ_dev("cpu");
  situ_tensor *image = situ_read_image(f->files[index].path, SITU_IMAGE_RGB, host);
  if (image && f->options.transform) image = f->options.transform(image, f->options.payload);
  situ_tensor *label =
      situ_full(SITU_SCALAR, (double)f->files[index].label, &(situ_options){ .dtype = SITU_I64, .device = host });
  return image && label ? SITU_TREE(image, label) : NULL;
}

static void release(situ_dataset *self) {
  image_folder *f = (image_folder *)self;
  for (int64_t i = 0; i < f->count; i++) situ__free(f->files[i].path);
  for (int64_t i = 0; i < f->class_count; i++) situ__free(f->classes[i]);
  situ__free(f->files);
  situ__free(f->classes);
}

static const situ_dataset_type type = {
  .name = "ImageFolder", .size = sizeof(image_folder), .length = length_of, .get = get, .release = release
};

situ_dataset *situ_image_folder(const char *root, const situ_image_folder_options *options) {
  if (!situ__given(op, "root", root)) return NULL;
  image_folder *f = (image_folder *)situ_dataset_alloc(&type);
  if (!f) return NULL;
  if (options) f->options = *options;
  if (add_classes(f, root)) return &f->base;
  situ_dataset_free(&f->base);
  return NULL;
}

static image_folder *given_folder(const char *called, situ_dataset *folder) {
  if (!situ__valid(called, "folder", folder, SITU__A_DATASET)) return NULL;
  if (folder->type == &type) return (image_folder *)folder;
  return situ__fail(SITU_E_ARG, called, "%s is not an ImageFolder", folder->type->name), NULL;
}

int64_t situ_image_folder_classes(situ_dataset *folder) {
  const image_folder *f = given_folder("image_folder_classes", folder);
  return f ? f->class_count : -1;
}

const char *situ_image_folder_class(situ_dataset *folder, int64_t index) {
  const image_folder *f = given_folder("image_folder_class", folder);
  if (!f) return NULL;
  if (index >= 0 && index < f->class_count) return f->classes[index];
  return situ__fail(SITU_E_INDEX, "image_folder_class", "index %lld of %lld classes", (long long)index,
                    (long long)f->class_count),
         NULL;
}
