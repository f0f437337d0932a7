/* The functions and classes that a pickle may name, and what a call of them makes.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "io/format/file_type.h"
#include "pickle.h"

typedef situ__unpickler unpickler;
typedef situ__pickle_value value;

static const situ__torch_type types[] = {
  { "bool", "BoolStorage", "BOOL", SITU_BOOL, 1 },
  { "uint8", "ByteStorage", "U8", SITU_U8, 1 },
  { "int8", "CharStorage", "I8", SITU_I8, 1 },
  { "int16", "ShortStorage", "I16", SITU_I16, 2 },
  { "int32", "IntStorage", "I32", SITU_I32, 4 },
  { "int64", "LongStorage", "I64", SITU_I64, 8 },
  { "float16", "HalfStorage", "F16", SITU_F16, 2 },
  { "bfloat16", "BFloat16Storage", "BF16", SITU_BF16, 2 },
  { "float32", "FloatStorage", "F32", SITU_F32, 4 },
  { "float64", "DoubleStorage", "F64", SITU_F64, 8 },
  { "complex64", "ComplexFloatStorage", "C64", SITU_DTYPE_DEFAULT, 8 },
  { "complex128", "ComplexDoubleStorage", "C128", SITU_DTYPE_DEFAULT, 16 },
  { "complex32", NULL, "C32", SITU_DTYPE_DEFAULT, 4 },
  { "bcomplex32", NULL, "BC32", SITU_DTYPE_DEFAULT, 4 },
  { "uint16", NULL, "U16", SITU_DTYPE_DEFAULT, 2 },
  { "uint32", NULL, "U32", SITU_DTYPE_DEFAULT, 4 },
  { "uint64", NULL, "U64", SITU_DTYPE_DEFAULT, 8 },
  { "float8_e4m3fn", NULL, "F8_E4M3", SITU_DTYPE_DEFAULT, 1 },
  { "float8_e5m2", NULL, "F8_E5M2", SITU_DTYPE_DEFAULT, 1 },
  { "float8_e4m3fnuz", NULL, "F8_E4M3FNUZ", SITU_DTYPE_DEFAULT, 1 },
  { "float8_e5m2fnuz", NULL, "F8_E5M2FNUZ", SITU_DTYPE_DEFAULT, 1 },
  { "float8_e8m0fnu", NULL, "F8_E8M0", SITU_DTYPE_DEFAULT, 1 },
  { "float4_e2m1fn_x2", NULL, "F4_X2", SITU_DTYPE_DEFAULT, 1 },
};
enum { TYPES = sizeof types / sizeof *types };

static const struct {
  const char *module, *name;
} functions[] = {
  { "collections", "OrderedDict" },
  { "torch._utils", "_rebuild_tensor" },
  { "torch._utils", "_rebuild_tensor_v2" },
  { "torch._utils", "_rebuild_tensor_v3" },
  { "torch._utils", "_rebuild_parameter" },
  /* What these make is their first argument, for a tree. */
  { "torch", "Size" },
  { "torch", "device" },
  { "torch.jit._pickle", "build_intlist" },
  { "torch.jit._pickle", "build_doublelist" },
  { "torch.jit._pickle", "build_boollist" },
  { "torch.jit._pickle", "build_tensorlist" },
  { "torch.jit._pickle", "restore_type_tag" },
  { "torch.storage", "UntypedStorage" },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, UNTYPED_STORAGE = FUNCTIONS - 1 };
enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_TENSOR_V2, REBUILD_TENSOR_V3, REBUILD_PARAMETER, FIRST_ARGUMENT };
/* A global's number: a function, then the storage classes, then the dtypes, then what is not known. */
enum { STORAGE_CLASSES = FUNCTIONS, DTYPES = STORAGE_CLASSES + TYPES, UNKNOWNS = DTYPES + TYPES };

/* ---- names ---- */

static bool find_global(const char *module, const char *name, uint32_t *number) {
  for (uint32_t i = 0; i < FUNCTIONS; i++)
    if (strcmp(functions[i].module, module) == 0 && strcmp(functions[i].name, name) == 0) return *number = i, true;
  if (strcmp(module, "torch") != 0) return false;
  for (uint32_t i = 0; i < TYPES; i++) {
    if (strcmp(types[i].name, name) == 0) return *number = DTYPES + i, true;
    if (types[i].storage && strcmp(types[i].storage, name) == 0) return *number = STORAGE_CLASSES + i, true;
  }
  return false;
}

bool situ__unpickle_global(unpickler *u, const char *module, const char *name) {
  static const char script[] = "__torch__";
  situ__pickle *p = u->pickle;
  uint32_t number;
  if (!find_global(module, name, &number)) {
    if (!situ__unpickle_grow(u, &p->unknown, p->unknowns, &u->unknowns_capacity, sizeof *p->unknown)) return false;
    p->unknown[p->unknowns] = (situ__pickle_name){ module, name, strncmp(module, script, sizeof script - 1) == 0 };
    number = UNKNOWNS + p->unknowns++;
  }
  return situ__unpickle_new(u, &(value){ .kind = SITU__PICKLE_GLOBAL, .number = number });
}

const situ__pickle_name *situ__pickle_unknown(const situ__pickle *pickle, uint32_t number) {
  return number < UNKNOWNS ? NULL : &pickle->unknown[number - UNKNOWNS];
}

uint32_t situ__pickle_first_unknown(const situ__pickle *pickle) {
  for (uint32_t i = 0; i < pickle->unknowns; i++)
    if (!pickle->unknown[i].script) return UNKNOWNS + i;
  return 0;
}

const char *situ__pickle_global_name(const situ__pickle *pickle, uint32_t number, char text[SITU__GLOBAL_NAME_MAX]) {
  const situ__pickle_name *unknown = situ__pickle_unknown(pickle, number);
  char shown[SITU__SHOWN_MAX];
  int length = 0;
  if (unknown) length = snprintf(text, SITU__SHOWN_MAX, "%s", situ__shown(unknown->module, shown));
  const char *module = number < FUNCTIONS ? functions[number].module : "torch";
  const char *name = unknown              ? situ__shown(unknown->name, shown)
                     : number < FUNCTIONS ? functions[number].name
                     : number < DTYPES    ? types[number - STORAGE_CLASSES].storage
                                          : types[number - DTYPES].name;
  (void)snprintf(text + length, (size_t)(SITU__GLOBAL_NAME_MAX - length), "%s.%s", unknown ? "" : module, name);
  return text;
}

/* ---- storages ---- */

/* ("storage", class, key, device, elements); before 1.6 also None, or of which other storage it is a part. */
bool situ__unpickle_storage(unpickler *u, uint32_t id) {
  situ__pickle *p = u->pickle;
  const value *tuple = &p->value[id], *part[6];
  bool fine = tuple->kind == SITU__PICKLE_TUPLE && (tuple->count == 5 || tuple->count == 6);
  for (uint32_t i = 0; fine && i < tuple->count; i++) part[i] = &p->value[tuple->item[i]];
  fine = fine && part[0]->kind == SITU__PICKLE_STRING && strcmp(part[0]->text, "storage") == 0 &&
         part[1]->kind == SITU__PICKLE_GLOBAL && part[1]->number >= UNTYPED_STORAGE && part[1]->number < DTYPES &&
         part[2]->kind == SITU__PICKLE_STRING && strlen(part[2]->text) == part[2]->length &&
         part[3]->kind == SITU__PICKLE_STRING && part[4]->kind == SITU__PICKLE_INTEGER;
  if (!fine) return situ__unpickle_bad(u, "with a persistent id that is not of a storage");
  if (tuple->count == 6 && part[5]->kind != SITU__PICKLE_NONE)
    return situ__problem_set(u->problem, SITU_E_UNSUPPORTED,
                             "has a storage that is part of another: load it in a newer torch and save it again");
  const situ__torch_type *type = part[1]->number == UNTYPED_STORAGE ? NULL : &types[part[1]->number - STORAGE_CLASSES];
  int64_t bytes;
  if (part[4]->integer < 0 || !situ__mul_i64(part[4]->integer, type ? type->bytes : 1, &bytes))
    return situ__unpickle_bad(u, "with a storage of a size that no file has");
  if (p->storages == SITU__PICKLE_TENSORS)
    return situ__problem_set(u->problem, SITU_E_LIMIT, "has more than %d storages", SITU__PICKLE_TENSORS);
  if (!situ__unpickle_grow(u, &p->storage, p->storages, &u->storages_capacity, sizeof *p->storage)) return false;
  p->storage[p->storages] = (situ__pickle_storage){ part[2]->text, type, part[4]->integer };
  return situ__unpickle_new(u, &(value){ .kind = SITU__PICKLE_STORAGE, .number = p->storages++ });
}

/* ---- tensors ---- */

static bool read_dims(const unpickler *u, const value *tuple, situ_shape *out) {
  if (tuple->kind != SITU__PICKLE_TUPLE || tuple->count > SITU_MAX_DIMS) return false;
  out->ndim = (int)tuple->count;
  for (uint32_t i = 0; i < tuple->count; i++) {
    const value *dim = &u->pickle->value[tuple->item[i]];
    if (dim->kind != SITU__PICKLE_INTEGER || dim->integer < 0) return false;
    out->dim[i] = dim->integer;
  }
  return true;
}

/* Elements from the first to the last. */
static bool find_span(situ__pickle_tensor *t) {
  int64_t reach;
  t->span = 1;
  for (int d = 0; d < t->size.ndim; d++)
    if (t->size.dim[d] == 0) return t->span = 0, true;
  for (int d = 0; d < t->size.ndim; d++)
    if (!situ__mul_i64(t->size.dim[d] - 1, t->stride.dim[d], &reach) || !situ__add_i64(t->span, reach, &t->span))
      return false;
  return true;
}

/* Whether the elements lie in the storage, by the size that the file claims. */
static bool is_inside(const unpickler *u, situ__pickle_tensor *t) {
  const situ__pickle_storage *s = &u->pickle->storage[t->storage];
  const int64_t count = s->type ? s->count : s->count / t->type->bytes;
  return situ__shape_bytes(&t->size, 8 * t->type->bytes, &t->bytes) && find_span(t) && t->offset <= count &&
         t->span <= count - t->offset;
}

static bool is_empty_dict(const value *v) {
  return (v->kind == SITU__PICKLE_DICT || v->kind == SITU__PICKLE_ORDERED) && v->count == 0;
}

/* What a tensor may have beside its values: hooks are code, and metadata mark views that are conjugated or negated. */
static bool is_plain(const value *requires_grad, const value *hooks, const value *metadata) {
  return requires_grad->kind == SITU__PICKLE_BOOL && (hooks->kind == SITU__PICKLE_NONE || is_empty_dict(hooks)) &&
         (!metadata || metadata->kind == SITU__PICKLE_NONE || is_empty_dict(metadata));
}

static bool push_tensor(unpickler *u, const situ__pickle_tensor *t) {
  situ__pickle *p = u->pickle;
  if (p->tensors == SITU__PICKLE_TENSORS)
    return situ__problem_set(u->problem, SITU_E_LIMIT, "has more than %d tensors", SITU__PICKLE_TENSORS);
  if (!situ__unpickle_grow(u, &p->tensor, p->tensors, &u->tensors_capacity, sizeof *p->tensor)) return false;
  p->tensor[p->tensors] = *t;
  return situ__unpickle_new(u, &(value){ .kind = SITU__PICKLE_TENSOR, .number = p->tensors++ });
}

/* (storage, offset, size, stride), from v2 on also requires_grad, hooks[, metadata], and in v3 the dtype before the
   metadata. */
static bool rebuild_tensor(unpickler *u, const value *arguments, int version) {
  const uint32_t least = version == 1 ? 4 : version == 2 ? 6 : 7, most = version == 1 ? 4 : least + 1;
  const value *part[8] = { NULL };
  if (arguments->count < least || arguments->count > most)
    return situ__unpickle_bad(u, "with a tensor of other parts than torch writes");
  for (uint32_t i = 0; i < arguments->count; i++) part[i] = &u->pickle->value[arguments->item[i]];
  if (part[0]->kind != SITU__PICKLE_STORAGE || part[1]->kind != SITU__PICKLE_INTEGER || part[1]->integer < 0 ||
      (version > 1 && !is_plain(part[4], part[5], part[least])))
    return situ__unpickle_bad(u, "with a tensor of other parts than torch writes");
  const bool typed =
      version == 3 && part[6]->kind == SITU__PICKLE_GLOBAL && part[6]->number >= DTYPES && part[6]->number < UNKNOWNS;
  situ__pickle_tensor t = { .storage = part[0]->number, .offset = part[1]->integer };
  t.type = typed ? &types[part[6]->number - DTYPES] : u->pickle->storage[t.storage].type;
  const situ__torch_type *stored = u->pickle->storage[t.storage].type;
  if (!t.type || (version == 3) != typed || (stored && stored != t.type))
    return situ__unpickle_bad(u, "with a tensor without a dtype, or of another one than its storage");
  if (!read_dims(u, part[2], &t.size) || !read_dims(u, part[3], &t.stride) || t.size.ndim != t.stride.ndim)
    return situ__unpickle_bad(u, "with a tensor whose sizes and strides are not up to 8 numbers each");
  if (!is_inside(u, &t)) return situ__unpickle_bad(u, "with a tensor that lies outside of its storage");
  return push_tensor(u, &t);
}

/* A parameter of something unknown is that. */
static bool rebuild_parameter(unpickler *u, const value *arguments) {
  const situ__pickle *p = u->pickle;
  const int of = arguments->count == 3 ? p->value[arguments->item[0]].kind : SITU__PICKLE_NONE;
  const bool fine = (of == SITU__PICKLE_TENSOR || of == SITU__PICKLE_OBJECT) &&
                    is_plain(&p->value[arguments->item[1]], &p->value[arguments->item[2]], NULL);
  if (!fine) return situ__unpickle_bad(u, "with a parameter of other parts than torch writes");
  return situ__unpickle_push(u, arguments->item[0]);
}

/* ---- calls ---- */

static bool is_pair(const situ__pickle *p, const value *v) {
  return (v->kind == SITU__PICKLE_LIST || v->kind == SITU__PICKLE_TUPLE) && v->count == 2 &&
         situ__pickle_is_key(&p->value[v->item[0]]);
}

/* OrderedDict(), or of a list of [key, value], as Python 2 writes it. */
static bool make_ordered(unpickler *u, const value *arguments) {
  const situ__pickle *p = u->pickle;
  const value none = { .kind = SITU__PICKLE_LIST };
  const value list = arguments->count ? p->value[arguments->item[0]] : none;
  bool fine = arguments->count < 2 && list.kind == SITU__PICKLE_LIST;
  for (uint32_t i = 0; fine && i < list.count; i++) fine = is_pair(p, &p->value[list.item[i]]);
  if (!fine) return situ__unpickle_bad(u, "with an OrderedDict that is not made of a list of pairs");
  if (!situ__unpickle_new(u, &(value){ .kind = SITU__PICKLE_ORDERED })) return false;
  for (uint32_t i = 0; i < list.count; i++)
    if (!situ__unpickle_add(u, p->values - 1, p->value[list.item[i]].item, 2)) return false;
  return true;
}

bool situ__unpickle_object(unpickler *u, uint32_t class_of, const char *opcode) {
  const value *c = &u->pickle->value[class_of];
  char what[64];
  if (c->kind == SITU__PICKLE_GLOBAL && c->number >= UNKNOWNS)
    return situ__unpickle_new(u, &(value){ .kind = SITU__PICKLE_OBJECT, .maker = c->number });
  (void)snprintf(what, sizeof what, "that makes an object (%s)", opcode);
  return situ__unpickle_bad(u, what);
}

bool situ__unpickle_call(unpickler *u, uint32_t function, uint32_t arguments) {
  const value f = u->pickle->value[function];
  const value tuple = u->pickle->value[arguments]; /* copies: values move when there are more of them */
  char text[SITU__GLOBAL_NAME_MAX];
  if (f.kind == SITU__PICKLE_OBJECT) /* as a partial function is */
    return situ__unpickle_new(u, &(value){ .kind = SITU__PICKLE_OBJECT, .maker = f.maker });
  if (f.kind != SITU__PICKLE_GLOBAL || tuple.kind != SITU__PICKLE_TUPLE)
    return situ__unpickle_bad(u, "that calls something other than a function");
  if (f.number >= UNKNOWNS) return situ__unpickle_object(u, function, "REDUCE");
  if (f.number >= FIRST_ARGUMENT && f.number < UNTYPED_STORAGE && tuple.count > 0)
    return situ__unpickle_push(u, tuple.item[0]);
  switch (f.number) {
  case ORDERED_DICT: return make_ordered(u, &tuple);
  case REBUILD_TENSOR: return rebuild_tensor(u, &tuple, 1);
  case REBUILD_TENSOR_V2: return rebuild_tensor(u, &tuple, 2);
  case REBUILD_TENSOR_V3: return rebuild_tensor(u, &tuple, 3);
  case REBUILD_PARAMETER: return rebuild_parameter(u, &tuple);
  default: break;
  }
  return situ__problem_set(u->problem, SITU_E_UNSUPPORTED,
                           "calls %s; only tensors, dicts, lists, numbers and strings are read",
                           situ__pickle_global_name(u->pickle, f.number, text));
}
