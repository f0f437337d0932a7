/* Makes the modules, parameters and buffers of a .pt2 program.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/safetensors/header.h"
#include "io/torch/torch.h"
#include "pt2.h"
#include "situ/autograd.h"
#include "situ/sys/shape.h"

/* A list of tensors of the archive: the weights, or the constants. */
typedef struct section {
  const char *directory; /* in the archive */
  situ__json_item *tree;
  const situ__json_item *list; /* in the tree: the tensors, by their paths */
  situ__names places;          /* in the list */
  char *text;
  situ__names files; /* file names that were loaded: places in `loaded` */
  situ_tensor **loaded;
  int32_t count;
  situ_tree *pickled; /* of early archives: a dict of tensors; NULL: the above */
} section;

/* Early versions of torch.export wrote both sections by torch.save, each into an entry of the archive. */
static bool open_pickled(situ__pt2 *f, section *s, const char *entry) {
  const situ__zip_entry *e = situ__zip_find(&f->zip, entry);
  situ__zip_source inside = f->source;
  situ__torch archive;
  *s = (section){ .directory = entry };
  if (!e) return situ__pt2_bad(f, SITU_E_FORMAT, "has no %s", entry);
  inside.start = e->offset;
  inside.bytes = e->bytes;
  if (situ__torch_open(&archive, &inside, f->mapping, &f->options)) s->pickled = situ__torch_tree(&archive);
  situ__torch_close(&archive);
  if (!s->pickled) return false;
  return situ_tree_kind_of(s->pickled) == SITU_TREE_DICT ||
         situ__pt2_bad(f, SITU_E_FORMAT, "has a %s that is not a dict", entry);
}

static bool open_section(situ__pt2 *f, section *s, const char *directory, const char *config) {
  char name[96];
  *s = (section){ .directory = directory };
  (void)snprintf(name, sizeof name, "%s/%s", directory, config);
  if (!situ__pt2_json(f, name, &s->tree, &s->text)) return false;
  s->list = situ__json_get(s->tree, "config");
  if (!s->list) return situ__pt2_bad(f, SITU_E_FORMAT, "has a %s without its list", name);
  s->loaded = situ__calloc((size_t)s->list->count + 1, sizeof *s->loaded);
  return (s->loaded && situ__json_index(s->list, &s->places)) || situ__pt2_no_memory();
}

static void close_section(section *s) {
  situ__names_free(&s->files);
  situ__names_free(&s->places);
  situ__free(s->tree);
  situ__free(s->text);
  situ__free(s->loaded);
  situ_tree_free(s->pickled);
}

/* ---- a tensor ---- */

typedef struct meta {
  situ_dtype dtype;
  situ_shape size, stride;
  int64_t offset;
  bool dense; /* row-major from the file's first byte */
  int64_t bytes;
} meta;

static bool read_dims(const situ__json_item *list, situ_shape *out) {
  if (!list || list->kind != SITU__JSON_ARRAY || list->count > SITU_MAX_DIMS) return false;
  out->ndim = 0;
  for (EACH_MEMBER(m, list))
    if (!situ__pt2_int(m, &out->dim[out->ndim]) || out->dim[out->ndim++] < 0) return false;
  return true;
}

static bool read_meta(const situ__json_item *item, meta *m) {
  *m = (meta){ .dtype = situ__pt2_dtype(situ__json_get(item, "dtype")) };
  if (!m->dtype) return true; /* the caller names it */
  if (!read_dims(situ__json_get(item, "sizes"), &m->size) || !read_dims(situ__json_get(item, "strides"), &m->stride) ||
      m->size.ndim != m->stride.ndim || !situ__pt2_int(situ__json_get(item, "storage_offset"), &m->offset) ||
      m->offset < 0 || !situ__shape_bytes(&m->size, (int)(8 * situ_dtype_size(m->dtype)), &m->bytes))
    return false;
  m->dense = m->offset == 0 && situ__is_row_major(&m->size, &m->stride);
  return true;
}

static const situ__zip_entry *find_file(const situ__pt2 *f, const section *s, const char *file) {
  char name[512];
  const int length = snprintf(name, sizeof name, "%s/%s", s->directory, file);
  return length > 0 && (size_t)length < sizeof name ? situ__zip_find_inside(&f->zip, name) : NULL;
}

static situ_tensor *load_file(const situ__pt2 *f, const situ__zip_entry *e, const char *name, const meta *m) {
  const situ__source source = { .op = situ__pt2_op, .path = f->path, .fd = f->source.fd, .mapping = f->mapping };
  const int64_t size = (int64_t)situ_dtype_size(m->dtype);
  const situ_shape shape = m->dense && m->bytes == e->bytes ? m->size : SITU_SHAPE(e->bytes / size);
  return situ__values_load(&source, name, e->offset, &shape, m->dtype, f->options.device, NULL);
}

/* A tensor of a section by its name; tensors of one file share its memory, and equal ones are one tensor, as in the
   module that was exported. */
static situ_tensor *load_tensor(situ__pt2 *f, section *s, const situ__json_item *item) {
  const char *file = situ__pt2_string(situ__json_get(item, "path_name"));
  const situ__json_item *pickled = situ__json_get(item, "use_pickle");
  char shown[SITU__SHOWN_MAX], shown_file[SITU__SHOWN_MAX], dtype[32];
  meta m;
  if (pickled && pickled->kind == SITU__JSON_TRUE)
    return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has a pickled tensor '%s', which is not read",
                         situ__shown(item->key, shown)),
           NULL;
  const situ__zip_entry *e = find_file(f, s, file);
  const situ__json_item *about = situ__json_get(item, "tensor_meta");
  situ__shown(item->key, shown);
  if (!e)
    return situ__pt2_bad(f, SITU_E_FORMAT, "has a tensor '%s', but no %s/%s with its values", shown, s->directory,
                         situ__shown(file, shown_file)),
           NULL;
  if (!read_meta(about, &m))
    return situ__pt2_bad(f, SITU_E_FORMAT, "has a tensor '%s' with bad sizes, strides or offset", shown), NULL;
  if (!m.dtype)
    return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has a tensor '%s' of dtype %s, which this library lacks", shown,
                         situ__pt2_dtype_name(situ__json_get(about, "dtype"), dtype)),
           NULL;
  if (m.dense && m.bytes > e->bytes)
    return situ__pt2_bad(f, SITU_E_FORMAT, "has a tensor '%s' of %lld bytes, and a file of %lld for it", shown,
                         (long long)m.bytes, (long long)e->bytes),
           NULL;
  const int32_t place = situ__names_get(&s->files, file);
  situ_tensor *whole = place >= 0 ? s->loaded[place] : NULL;
  if (!whole) {
    whole = f->options.verify != SITU_VERIFY_ALWAYS || situ__zip_check(&f->source, e) ? load_file(f, e, item->key, &m)
                                                                                      : NULL;
    if (!whole) return NULL;
    if (!situ__names_put(&s->files, file, s->count)) return situ__pt2_no_memory(), NULL;
    s->loaded[s->count++] = whole;
  }
  if (situ_dtype_of(whole) != m.dtype)
    return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has tensor '%s' as %s in '%s', where another is %s", shown,
                         situ_dtype_name(m.dtype), situ__shown(file, shown_file),
                         situ_dtype_name(situ_dtype_of(whole))),
           NULL;
  const situ_shape shape = situ_shape_of(whole);
  if (m.dense && situ_shape_equal(&shape, &m.size)) return whole;
  return situ_as_strided(whole, m.size, m.stride, m.offset);
}

/* ---- modules ---- */

/* Makes the modules that the file lists, in its order, and those of nodes. */
static bool add_children(situ__pt2 *f, situ_nn_module *m, const situ__json_item *model) {
  const situ__json_item *calls = situ__json_get(situ__json_get(model, "graph_module"), "module_call_graph");
  situ__names made = { 0 };
  bool fine = true;
  for (EACH_MEMBER(call, calls)) {
    const char *path = situ__pt2_string(situ__json_get(call, "fqn"));
    if (!fine || !*path || strchr(path, '@') || situ__names_get(&made, path) >= 0) continue;
    const int32_t class = situ__names_get(&f->classes, path);
    fine = (situ__names_put(&made, path, 0) || situ__pt2_no_memory()) &&
           situ_nn_add_child(m, path, NULL, situ__program_child(class >= 0 ? f->class_names[class] : "", m));
  }
  for (int64_t i = 0; i < f->classes.size && fine; i++) {
    const struct situ__names_entry *e = &f->classes.entry[i];
    if (!e->name || !*e->name || situ__names_get(&made, e->name) >= 0) continue;
    situ_nn_module *child = situ__program_child(f->class_names[e->number], m);
    fine = situ_nn_add_child(m, e->name, NULL, child) != NULL;
  }
  situ__names_free(&made);
  return fine;
}

/* The tensor of a path in a section, and what the file says of it beside its values. */
static situ_tensor *find_tensor(situ__pt2 *f, section *from, const char *path, const situ__json_item **tensor_meta) {
  char shown[SITU__SHOWN_MAX];
  const situ__json_item *item = situ__json_find(from->list, &from->places, path);
  const situ_tree *pickled = from->pickled ? situ_tree_find(from->pickled, path) : NULL;
  if (pickled && situ_tree_kind_of(pickled) == SITU_TREE_TENSOR) return situ_tree_value(pickled);
  if (!item) return situ__pt2_bad(f, SITU_E_FORMAT, "has no values of '%s'", situ__shown(path, shown)), NULL;
  *tensor_meta = situ__json_get(item, "tensor_meta");
  return load_tensor(f, from, item);
}

/* What the file says of the graph's values. */
typedef struct values {
  const situ__json_item *list;
  situ__names places; /* in the list, by name */
} values;

static bool add_part(situ__pt2 *f, situ_nn_module *m, const values *about_all, const situ__json_item *spec,
                     section sections[2]) {
  const situ__json_item *held = spec->count == 1 ? spec + 1 : spec;
  const bool parameter = held->key && strcmp(held->key, "parameter") == 0;
  const bool buffer = held->key && strcmp(held->key, "buffer") == 0;
  const bool constant = held->key && strcmp(held->key, "tensor_constant") == 0;
  if (!parameter && !buffer && !constant) return true;
  const char *path = situ__pt2_string(situ__json_get(held, parameter ? "parameter_name"
                                                           : buffer  ? "buffer_name"
                                                                     : "tensor_constant_name"));
  const char *value = situ__pt2_string(situ__json_get(situ__json_get(held, "arg"), "name"));
  const situ__json_item *about = situ__json_find(about_all->list, &about_all->places, value);
  const situ__json_item *persistent = situ__json_get(held, "persistent");
  const bool transient = constant || (buffer && persistent && persistent->kind == SITU__JSON_FALSE);
  situ_tensor *t = find_tensor(f, &sections[transient], path, &about);
  const situ_nn_kind kind = parameter ? SITU_NN_PARAMETER : transient ? SITU_NN_TRANSIENT : SITU_NN_BUFFER;
  if (!t || !situ_nn_add_tensor(m, path, NULL, t, kind)) return false;
  const situ__json_item *grad = situ__json_get(about, "requires_grad");
  const bool frozen = parameter && grad && grad->kind == SITU__JSON_FALSE;
  return !frozen || situ_requires_grad_(t, false);
}

/* The weights, and the constants. */
static bool open_sections(situ__pt2 *f, section sections[2]) {
  if (f->early)
    return open_pickled(f, &sections[0], "serialized_state_dict.pt") &&
           open_pickled(f, &sections[1], "serialized_constants.pt");
  return open_section(f, &sections[0], "data/weights", "model_weights_config.json") &&
         open_section(f, &sections[1], "data/constants", "model_constants_config.json");
}

bool situ__pt2_build(situ__pt2 *f, situ_nn_module *m, const situ__json_item *model) {
  const situ__json_item *module = situ__json_get(model, "graph_module");
  section sections[2] = { { 0 }, { 0 } };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  values all = { .list = situ__json_get(situ__json_get(module, "graph"), "tensor_values") };
  bool fine = add_children(f, m, model) && open_sections(f, sections) &&
              (situ__json_index(all.list, &all.places) || situ__pt2_no_memory());
  for (EACH_MEMBER(spec, situ__json_get(situ__json_get(module, "signature"), "input_specs")))
    fine = fine && add_part(f, m, &all, spec, sections);
  situ__names_free(&all.places);
  close_section(&sections[0]);
  close_section(&sections[1]);
  return situ_scope_end(&scope) == SITU_OK && fine;
}
