/* Opens files of torch.save, and loads their tensors.
   SPDX-License-Identifier: MIT */
#include "torch.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/format/file_type.h"
#include "io/format/values.h"
#include "situ/ops.h"

bool situ__torch_refuse(const situ__torch *t, situ_status status, const char *what) {
  return situ__fail(status, t->source.op, "%s: %s", t->source.path, what), false;
}

/* ---- recognition ---- */

typedef enum format { OTHER, ARCHIVE, LEGACY, TAR } format;
enum { FIRST = 512 };

/* The first four bytes of a zip file could be a safetensors header's length; that header begins with a brace. Before
   version 0.1.10 torch.save wrote a tar file. */
static format format_of(const char *first, size_t bytes) {
  enum { TAR_MAGIC = 257 };
  if (bytes >= 4 && memcmp(first, "PK\x03\x04", 4) == 0 && !(bytes > 8 && first[8] == '{')) return ARCHIVE;
  if (situ__torch_legacy_magic(first, bytes)) return LEGACY;
  return bytes > TAR_MAGIC + 5 && memcmp(first + TAR_MAGIC, "ustar", 5) == 0 ? TAR : OTHER;
}

static bool read_format(const char *op, const char *path, int fd, int64_t bytes, format *out) {
  char first[FIRST];
  const size_t count = bytes < FIRST ? (size_t)bytes : FIRST;
  if (situ__file_read(op, path, fd, first, count, 0) != SITU_OK) return false;
  *out = format_of(first, count);
  return true;
}

bool situ__torch_recognize(const char *op, const char *path, bool *is_torch) {
  int64_t bytes;
  bool missing;
  format found = OTHER;
  *is_torch = false;
  const int fd = situ__file_open_if(op, path, &bytes, &missing);
  if (fd < 0) return missing;
  const bool fine = read_format(op, path, fd, bytes, &found);
  situ__file_close(fd);
  *is_torch = fine && found != OTHER;
  return fine;
}

/* ---- opening ---- */

static bool check_kind(const situ__torch *t) {
  const situ__zip *z = &t->zip;
  if (situ__zip_find_inside(z, "archive_format") || situ__zip_find(z, "serialized_exported_program.json"))
    return situ__torch_refuse(t, SITU_E_UNSUPPORTED,
                              "is a program of torch.export.save, not a state dict: use situ_export_load");
  if (!situ__zip_find_inside(z, "data.pkl"))
    return situ__torch_refuse(t, SITU_E_FORMAT, "is a zip file, but not of torch.save");
  const situ__zip_entry *order = situ__zip_find_inside(z, "byteorder"); /* torch before 2.1 writes none */
  return !order || situ__zip_has_text(&t->source, order, "little") ||
         situ__torch_refuse(t, SITU_E_UNSUPPORTED, "does not say that its values are little-endian");
}

static bool check_sum(const situ__torch *t, const situ__zip_entry *e) {
  return t->legacy || t->options.verify != SITU_VERIFY_ALWAYS || situ__zip_check(&t->source, e);
}

static bool read_pickle(situ__torch *t) {
  const situ__zip_entry *e = situ__zip_find_inside(&t->zip, "data.pkl");
  situ__problem problem;
  if (!check_sum(t, e)) return false;
  char *data = situ__zip_load(&t->source, e, SITU__PICKLE_MAX);
  if (!data) return false;
  const bool fine = situ__pickle_parse(&t->pickle, data, (size_t)e->bytes, NULL, &problem);
  situ__free(data);
  return fine || situ__torch_refuse(t, problem.status, problem.text);
}

/* Finds the file of each storage, and compares its size with the one that the pickle claims. */
static bool check_storages(situ__torch *t) {
  const situ__pickle *p = &t->pickle;
  t->file = situ__calloc((size_t)p->storages + 1, sizeof *t->file);
  t->uses = situ__calloc((size_t)t->zip.count + 1, sizeof *t->uses);
  if (!t->file || !t->uses) return situ__no_memory(t->source.op, (size_t)t->zip.count * sizeof *t->uses), false;
  for (uint32_t i = 0; i < p->storages; i++) {
    const situ__pickle_storage *s = &p->storage[i];
    char name[128], shown[SITU__SHOWN_MAX], text[192];
    const int length = snprintf(name, sizeof name, "data/%s", s->key);
    t->file[i] = t->legacy                   ? situ__zip_find(&t->zip, s->key)
                 : length < (int)sizeof name ? situ__zip_find_inside(&t->zip, name)
                                             : NULL;
    if (!t->file[i] || t->file[i]->bytes != s->count * (s->type ? s->type->bytes : 1)) {
      (void)snprintf(text, sizeof text, "has a storage '%s' that is missing or of another size",
                     situ__shown(s->key, shown));
      return situ__torch_refuse(t, SITU_E_FORMAT, text);
    }
  }
  for (uint32_t i = 0; i < p->tensors; i++) t->uses[t->file[p->tensor[i].storage] - t->zip.entry]++;
  return true;
}

bool situ__torch_open(situ__torch *t, const situ__zip_source *source, situ__mapping *mapping,
                      const situ_load_options *options) {
  *t = (situ__torch){ .source = *source, .mapping = mapping };
  if (options) t->options = *options;
  return situ__zip_open(&t->zip, source) && check_kind(t) && read_pickle(t) && check_storages(t);
}

void situ__torch_close(situ__torch *t) {
  situ__pickle_free(&t->pickle);
  situ__zip_free(&t->zip);
  situ__free(t->file);
  situ__free(t->uses);
  t->file = NULL;
  t->uses = NULL;
}

bool situ__torch_open_file(situ__torch *t, const char *op, const char *path, const situ_load_options *options) {
  situ__zip_source source = { .op = op, .path = path, .skip = "code/" };
  situ__mapping *mapping = NULL;
  format found;
  *t = (situ__torch){ .source = source };
  t->source.fd = source.fd = situ__file_open(op, path, &source.bytes);
  if (source.fd < 0 || !read_format(op, path, source.fd, source.bytes, &found)) return false;
  if (found == TAR)
    return situ__torch_refuse(
        t, SITU_E_UNSUPPORTED,
        "is a tar file: those of torch.save before version 0.1.10 are not read; load it in torch and save it again");
  if (options && options->map && !(mapping = situ__mapping_new(op, path, source.fd, source.bytes))) return false;
  if (found != LEGACY) return situ__torch_open(t, &source, mapping, options);
  *t = (situ__torch){ .source = source, .mapping = mapping, .legacy = true };
  if (options) t->options = *options;
  return situ__torch_open_legacy(t) && check_storages(t);
}

void situ__torch_close_file(situ__torch *t) {
  situ__torch_close(t);
  situ__mapping_release(t->mapping);
  situ__file_close(t->source.fd);
  t->mapping = NULL;
  t->source.fd = -1;
}

/* ---- tensors ---- */

situ_tensor *situ__torch_tensor(const situ__torch *t, const char *name, const situ__pickle_tensor *tensor) {
  const situ__zip_entry *e = t->file[tensor->storage];
  const situ__torch_type *type = tensor->type;
  char shown[SITU__SHOWN_MAX];
  if (type->dtype == SITU_DTYPE_DEFAULT)
    return situ__fail(SITU_E_UNSUPPORTED, t->source.op, "%s: '%s' is of dtype %s, which this library does not have",
                      t->source.path, situ__shown(name, shown), type->name),
           NULL;
  if (!check_sum(t, e)) return NULL;
  const situ__source source = { t->source.op, t->source.path, t->source.fd, t->mapping };
  const bool dense = situ__is_row_major(&tensor->size, &tensor->stride);
  const situ_shape shape = dense ? tensor->size : SITU_SHAPE(tensor->span);
  situ_tensor *all = situ__values_load(&source, name, e->offset + tensor->offset * type->bytes, &shape, type->dtype,
                                       t->options.device, NULL);
  return dense || !all ? all : situ_as_strided(all, tensor->size, tensor->stride, 0);
}
