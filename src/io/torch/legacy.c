/* Files of torch.save before version 1.6: five pickles, one behind the other (a magic number, the number of the format,
   facts of the machine, the object, the keys of its storages), then for each key its number of elements and these.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/size.h"
#include "io/format/values.h"
#include "torch.h"

/* The pickles, as far as they are in memory. */
typedef struct reader {
  situ__torch *t;
  char *data;
  size_t bytes, at;
  bool more; /* the data ended, and the file goes on */
} reader;

/* The magic number, pickled by protocol 2 to 5; from 4 on in a frame. */
size_t situ__torch_legacy_magic(const char *first, size_t bytes) {
  static const char number[] = "\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
  enum { NUMBER = sizeof number - 1, FRAME = 9 };
  if (bytes < 3 || first[0] != '\x80' || first[1] < 2 || first[1] > 5) return 0;
  const size_t at = first[2] == '\x95' ? 2 + FRAME : 2;
  return bytes >= at + NUMBER && memcmp(first + at, number, NUMBER) == 0 ? at + NUMBER : 0;
}

/* ---- the pickles ---- */

static bool parse_next(reader *r, situ__pickle *out) {
  situ__problem problem;
  size_t end;
  if (situ__pickle_parse(out, r->data + r->at, r->bytes - r->at, &end, &problem)) return r->at += end, true;
  r->more = end && end == r->bytes - r->at && (int64_t)r->bytes < r->t->source.bytes;
  return !r->more && situ__torch_refuse(r->t, problem.status, problem.text);
}

static const situ__pickle_value *find_key(const situ__pickle *p, const char *key) {
  const situ__pickle_value *root = &p->value[p->root];
  for (uint32_t i = 0; root->kind == SITU__PICKLE_DICT && i < root->count; i += 2) {
    const situ__pickle_value *k = &p->value[root->item[i]];
    if (k->kind == SITU__PICKLE_STRING && strcmp(k->text, key) == 0) return &p->value[root->item[i + 1]];
  }
  return NULL;
}

static bool check_version(const reader *r, const situ__pickle *p) {
  enum { VERSION = 1001 };
  const situ__pickle_value *v = &p->value[p->root];
  return (v->kind == SITU__PICKLE_INTEGER && v->integer == VERSION) ||
         situ__torch_refuse(r->t, SITU_E_UNSUPPORTED,
                            "is of torch.save before version 1.6, in a format other than 1001");
}

static bool check_machine(const reader *r, const situ__pickle *p) {
  const situ__pickle_value *little = find_key(p, "little_endian");
  if (!little || little->kind != SITU__PICKLE_BOOL)
    return situ__torch_refuse(r->t, SITU_E_FORMAT, "does not say whether its values are little-endian");
  return little->integer ||
         situ__torch_refuse(r->t, SITU_E_UNSUPPORTED, "is of a big-endian machine: only little-endian values are read");
}

/* Reads a pickle that is only looked at. */
static bool check_next(reader *r, bool (*check)(const reader *r, const situ__pickle *p)) {
  situ__pickle p;
  if (!parse_next(r, &p)) return false;
  const bool fine = check(r, &p);
  situ__pickle_free(&p);
  return fine;
}

static bool read_all(reader *r, situ__pickle *keys) {
  r->more = false;
  r->at = situ__torch_legacy_magic(r->data, r->bytes);
  if (!check_next(r, check_version) || !check_next(r, check_machine) || !parse_next(r, &r->t->pickle)) return false;
  if (parse_next(r, keys)) return true;
  situ__pickle_free(&r->t->pickle);
  return false;
}

/* No number says how long the pickles are: they are read again with four times the bytes, until they are complete. */
static bool read_pickles(reader *r, situ__pickle *keys) {
  enum { FIRST = 64 << 10, MOST = 2 * SITU__PICKLE_MAX };
  const situ__zip_source *s = &r->t->source;
  for (int64_t want = FIRST;; want *= 4) {
    r->bytes = (size_t)situ__min_i64(situ__min_i64(want, MOST), s->bytes);
    r->data = situ__alloc(r->bytes + 1);
    if (!r->data) return situ__no_memory(s->op, r->bytes), false;
    bool fine = situ__file_read(s->op, s->path, s->fd, r->data, r->bytes, s->start) == SITU_OK;
    r->more = false;
    fine = fine && read_all(r, keys);
    situ__free(r->data);
    if (!r->more) return fine;
    if (want >= MOST) return situ__torch_refuse(r->t, SITU_E_LIMIT, "has pickles of more than 128 MiB");
  }
}

/* ---- the storages ---- */

static int storage_by_key(const void *a, const void *b) {
  return strcmp(((const situ__pickle_storage *)a)->key, ((const situ__pickle_storage *)b)->key);
}

static bool refuse_storage(const situ__torch *t, const char *key, const char *what) {
  char shown[SITU__SHOWN_MAX];
  return situ__fail(SITU_E_FORMAT, t->source.op, "%s: has a storage '%s' %s", t->source.path, situ__shown(key, shown),
                    what),
         false;
}

/* Reads how many elements the storage at *at has, and moves *at behind them. */
static bool place_storage(situ__torch *t, const situ__pickle_storage *list, char *key, int64_t *at) {
  const situ__zip_source *s = &t->source;
  const situ__pickle_storage wanted = { .key = key };
  const situ__pickle_storage *found =
      t->pickle.storages ? bsearch(&wanted, list, t->pickle.storages, sizeof *list, storage_by_key) : NULL;
  int64_t count, bytes;
  if (!found) return refuse_storage(t, key, "that no tensor has");
  if (s->bytes - *at < (int64_t)sizeof count) return refuse_storage(t, key, "that is not all in the file");
  if (situ__file_read(s->op, s->path, s->fd, &count, sizeof count, s->start + *at) != SITU_OK) return false;
  *at += (int64_t)sizeof count;
  if (count < 0 || !situ__mul_i64(count, found->type ? found->type->bytes : 1, &bytes) || bytes > s->bytes - *at)
    return refuse_storage(t, key, "that is not all in the file");
  t->zip.entry[t->zip.count++] = (situ__zip_entry){ .name = key, .offset = s->start + *at, .bytes = bytes };
  *at += bytes;
  return true;
}

static bool place_all(situ__torch *t, const situ__pickle *keys, const situ__pickle_storage *list, int64_t at) {
  const situ__pickle_value *root = &keys->value[keys->root];
  bool fine = root->kind == SITU__PICKLE_LIST;
  for (uint32_t i = 0; fine && i < root->count; i++)
    fine = situ__pickle_is_key(&keys->value[root->item[i]]) && keys->value[root->item[i]].kind == SITU__PICKLE_STRING;
  if (!fine) return situ__torch_refuse(t, SITU_E_FORMAT, "has keys of storages that are not a list of strings");
  if (root->count > t->pickle.storages) return situ__torch_refuse(t, SITU_E_FORMAT, "has more keys than storages");
  t->zip.entry = situ__calloc((size_t)root->count + 1, sizeof *t->zip.entry);
  if (!t->zip.entry) return situ__no_memory(t->source.op, (size_t)root->count * sizeof *t->zip.entry), false;
  for (uint32_t i = 0; i < root->count; i++)
    if (!place_storage(t, list, (char *)keys->value[root->item[i]].text, &at)) return false;
  if (at != t->source.bytes && !t->options.lenient)
    return situ__torch_refuse(t, SITU_E_FORMAT, "has bytes after its last storage");
  const situ__zip_entry *twice = situ__zip_sort(&t->zip);
  return !twice || refuse_storage(t, twice->name, "twice");
}

/* The storages become entries as of an archive, under their keys. */
bool situ__torch_open_legacy(situ__torch *t) {
  reader r = { .t = t };
  situ__pickle keys;
  if (!read_pickles(&r, &keys)) return false;
  const size_t bytes = ((size_t)t->pickle.storages + 1) * sizeof *t->pickle.storage;
  situ__pickle_storage *list = situ__alloc(bytes);
  if (!list) situ__no_memory(t->source.op, bytes);
  else if (t->pickle.storages) memcpy(list, t->pickle.storage, bytes - sizeof *list);
  if (list && t->pickle.storages > 1) qsort(list, t->pickle.storages, sizeof *list, storage_by_key);
  const bool fine = list && place_all(t, &keys, list, (int64_t)r.at);
  situ__free(list);
  t->zip.names = keys.texts; /* which the entries' names are in */
  keys.texts = NULL;
  situ__pickle_free(&keys);
  return fine;
}
