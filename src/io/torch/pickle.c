/* Runs the opcodes of a pickle (Lib/pickletools.py of CPython describes them).
   SPDX-License-Identifier: MIT */
#include "pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

typedef situ__unpickler unpickler;

bool situ__unpickle_bad(unpickler *u, const char *what) {
  return situ__problem_set(u->problem, SITU_E_FORMAT, "has a pickle %s (at its byte %zu)", what, u->at);
}

static bool ends_early(unpickler *u) {
  u->cut = true;
  return situ__unpickle_bad(u, "that ends too early");
}

static bool refuse_memory(unpickler *u) {
  return situ__problem_set(u->problem, SITU_E_NOMEM, "has a pickle too large for the memory");
}

bool situ__unpickle_grow(unpickler *u, void *list, size_t count, int64_t *capacity, size_t size) {
  return (count < INT32_MAX && situ__grow(NULL, list, capacity, size, count + 1)) || refuse_memory(u);
}

/* ---- the stack ---- */

bool situ__unpickle_push(unpickler *u, uint32_t value) {
  if (!situ__unpickle_grow(u, &u->stack, u->stack_size, &u->stack_capacity, sizeof *u->stack)) return false;
  u->stack[u->stack_size++] = value;
  return true;
}

bool situ__unpickle_new(unpickler *u, const situ__pickle_value *value) {
  situ__pickle *p = u->pickle;
  if (!situ__unpickle_grow(u, &p->value, p->values, &u->values_capacity, sizeof *p->value)) return false;
  p->value[p->values] = *value;
  return situ__unpickle_push(u, p->values++);
}

static bool push_kind(unpickler *u, situ__pickle_kind kind) {
  return situ__unpickle_new(u, &(situ__pickle_value){ .kind = (uint8_t)kind });
}

static bool push_integer(unpickler *u, situ__pickle_kind kind, int64_t integer) {
  return situ__unpickle_new(u, &(situ__pickle_value){ .kind = (uint8_t)kind, .integer = integer });
}

/* The values above the last mark. */
static size_t count_above_mark(const unpickler *u) { return u->stack_size - (u->marks ? u->mark[u->marks - 1] : 0); }

static bool pop_value(unpickler *u, uint32_t *out) {
  if (count_above_mark(u) == 0) return situ__unpickle_bad(u, "that takes more values than it has");
  *out = u->stack[--u->stack_size];
  return true;
}

/* The value on top, which stays. */
static bool see_top(unpickler *u, uint32_t *out) {
  if (count_above_mark(u) == 0) return situ__unpickle_bad(u, "that takes more values than it has");
  *out = u->stack[u->stack_size - 1];
  return true;
}

static bool push_mark(unpickler *u) {
  if (!situ__unpickle_grow(u, &u->mark, u->marks, &u->mark_capacity, sizeof *u->mark)) return false;
  u->mark[u->marks++] = (uint32_t)u->stack_size;
  return true;
}

/* Takes the values above the last mark off the stack, where they stay until the next push. */
static bool pop_to_mark(unpickler *u, const uint32_t **items, size_t *count) {
  if (u->marks == 0) return situ__unpickle_bad(u, "that looks for a mark which is not there");
  const size_t from = u->mark[--u->marks];
  *count = u->stack_size - from;
  *items = *count > 0 ? u->stack + from : NULL;
  u->stack_size = from;
  return true;
}

/* ---- reading ---- */

static bool read_bytes(unpickler *u, size_t bytes, const unsigned char **out) {
  if (bytes > u->bytes - u->at) return ends_early(u);
  *out = u->data + u->at;
  u->at += bytes;
  return true;
}

static bool read_number(unpickler *u, int bytes, uint64_t *out) {
  const unsigned char *at = NULL;
  if (!read_bytes(u, (size_t)bytes, &at)) return false;
  *out = 0;
  for (int i = bytes - 1; i >= 0; i--) *out = *out << 8 | at[i];
  return true;
}

/* A little-endian integer of two's complement of so many bytes. */
static bool push_long(unpickler *u, uint64_t bytes) {
  uint64_t value = 0;
  if (bytes > 8)
    return situ__problem_set(u->problem, SITU_E_UNSUPPORTED, "has a pickle with an integer of more than 64 bits");
  if (!read_number(u, (int)bytes, &value)) return false;
  if (bytes > 0 && bytes < 8 && value >> (8 * bytes - 1)) value |= ~(uint64_t)0 << (8 * bytes);
  return push_integer(u, SITU__PICKLE_INTEGER, (int64_t)value);
}

static bool push_integer_of(unpickler *u, int bytes) {
  uint64_t value = 0;
  if (!read_number(u, bytes, &value)) return false;
  return push_integer(u, SITU__PICKLE_INTEGER, bytes == 4 ? (int32_t)(uint32_t)value : (int64_t)value);
}

static bool push_real(unpickler *u) {
  const unsigned char *at = NULL;
  uint64_t bits = 0;
  situ__pickle_value value = { .kind = SITU__PICKLE_REAL };
  if (!read_bytes(u, 8, &at)) return false;
  for (int i = 0; i < 8; i++) bits = bits << 8 | at[i]; /* big-endian, unlike the integers */
  memcpy(&value.real, &bits, sizeof bits);
  return situ__unpickle_new(u, &value);
}

/* Each text takes at least two bytes more in the pickle than here with its NUL, so that the block has space for all. */
static const char *keep_text(unpickler *u, const unsigned char *text, size_t length) {
  char *to = u->pickle->texts + u->pickle->texts_bytes;
  memcpy(to, text, length);
  to[length] = '\0';
  u->pickle->texts_bytes += length + 1;
  return to;
}

static bool push_text(unpickler *u, int length_bytes) {
  uint64_t length = 0;
  const unsigned char *text = NULL;
  if (!read_number(u, length_bytes, &length)) return false;
  if (length > u->bytes) return ends_early(u);
  if (!read_bytes(u, (size_t)length, &text)) return false;
  if (situ__utf8_prefix((const char *)text, (size_t)length) != length)
    return situ__unpickle_bad(u, "with a string that is not UTF-8");
  situ__pickle_value value = { .kind = SITU__PICKLE_STRING, .length = (size_t)length };
  value.text = keep_text(u, text, (size_t)length);
  return situ__unpickle_new(u, &value);
}

/* ---- the memo ---- */

enum { NOT_SEEN = UINT32_MAX };

/* Python's picklers number what they remember from 0 on, or from 1 on (Python 2): what lies between is never seen. */
static bool put_memo(unpickler *u, uint64_t index) {
  uint32_t top = 0;
  if (index > u->at) return situ__unpickle_bad(u, "that numbers what it remembers beyond its length");
  if (!see_top(u, &top)) return false;
  for (; u->memos <= index; u->memo[u->memos++] = NOT_SEEN)
    if (!situ__unpickle_grow(u, &u->memo, u->memos, &u->memo_capacity, sizeof *u->memo)) return false;
  u->memo[index] = top;
  return true;
}

static bool put_memo_at(unpickler *u, int bytes) {
  uint64_t index = 0;
  return read_number(u, bytes, &index) && put_memo(u, index);
}

static bool get_memo(unpickler *u, int bytes) {
  uint64_t index = 0;
  if (!read_number(u, bytes, &index)) return false;
  if (index >= u->memos || u->memo[index] == NOT_SEEN) return situ__unpickle_bad(u, "that remembers what it never saw");
  return situ__unpickle_push(u, u->memo[index]);
}

/* ---- containers ---- */

bool situ__unpickle_add(unpickler *u, uint32_t container, const uint32_t *items, size_t count) {
  situ__pickle_value *c = &u->pickle->value[container];
  for (size_t i = 0; i < count; i++) {
    int64_t capacity = c->capacity;
    if (!situ__unpickle_grow(u, &c->item, c->count, &capacity, sizeof *c->item)) return false;
    c->capacity = (uint32_t)capacity;
    c->item[c->count++] = items[i];
  }
  return true;
}

static bool push_tuple(unpickler *u, size_t count) {
  if (count_above_mark(u) < count) return situ__unpickle_bad(u, "that takes more values than it has");
  u->stack_size -= count;
  /* The new value overwrites the first item on the stack. */
  const uint32_t first = count > 0 ? u->stack[u->stack_size] : 0;
  if (!push_kind(u, SITU__PICKLE_TUPLE)) return false;
  const uint32_t tuple = u->pickle->values - 1;
  return situ__unpickle_add(u, tuple, &first, count > 0) &&
         (count < 2 || situ__unpickle_add(u, tuple, u->stack + u->stack_size, count - 1));
}

static bool push_marked_tuple(unpickler *u) {
  const uint32_t *items = NULL;
  size_t count = 0;
  if (!pop_to_mark(u, &items, &count)) return false;
  u->stack_size += count;
  return push_tuple(u, count);
}

static bool append_items(unpickler *u, const uint32_t *items, size_t count) {
  uint32_t list = 0;
  if (!see_top(u, &list)) return false;
  if (u->pickle->value[list].kind == SITU__PICKLE_OBJECT) return true; /* nothing of it is kept */
  if (u->pickle->value[list].kind != SITU__PICKLE_LIST)
    return situ__unpickle_bad(u, "that appends to something other than a list");
  return situ__unpickle_add(u, list, items, count);
}

bool situ__pickle_is_key(const situ__pickle_value *v) {
  if (v->kind == SITU__PICKLE_STRING) return memchr(v->text, '\0', v->length) == NULL;
  return v->kind == SITU__PICKLE_INTEGER;
}

static bool set_items(unpickler *u, const uint32_t *items, size_t count) {
  uint32_t dict = 0;
  if (!see_top(u, &dict)) return false;
  const uint8_t kind = u->pickle->value[dict].kind;
  if (kind == SITU__PICKLE_OBJECT) return true; /* nothing of it is kept */
  if (kind != SITU__PICKLE_DICT && kind != SITU__PICKLE_ORDERED)
    return situ__unpickle_bad(u, "that sets an item of something other than a dict");
  if (count % 2 != 0) return situ__unpickle_bad(u, "with a key that has no value");
  for (size_t i = 0; i < count; i += 2)
    if (!situ__pickle_is_key(&u->pickle->value[items[i]]))
      return situ__unpickle_bad(u, "with a key that is neither a string nor an integer");
  return situ__unpickle_add(u, dict, items, count);
}

static bool append_one(unpickler *u) {
  uint32_t item = 0;
  return pop_value(u, &item) && append_items(u, &item, 1);
}

static bool set_one(unpickler *u) {
  uint32_t pair[2] = { 0 };
  return pop_value(u, &pair[1]) && pop_value(u, &pair[0]) && set_items(u, pair, 2);
}

static bool add_marked(unpickler *u, bool (*add)(unpickler *u, const uint32_t *items, size_t count)) {
  const uint32_t *items = NULL;
  size_t count = 0;
  return pop_to_mark(u, &items, &count) && add(u, items, count);
}

/* ---- calls ---- */

/* A line of text, as GLOBAL has two of them. */
static bool read_line(unpickler *u, const char **out) {
  const unsigned char *from = u->data + u->at, *end = memchr(from, '\n', u->bytes - u->at);
  if (!end) return ends_early(u);
  const size_t length = (size_t)(end - from);
  if (memchr(from, '\0', length) || situ__utf8_prefix((const char *)from, length) != length)
    return situ__unpickle_bad(u, "with a name that is not text");
  u->at += length + 1;
  *out = keep_text(u, from, length);
  return true;
}

static bool push_global(unpickler *u) {
  const char *module = NULL, *name = NULL;
  return read_line(u, &module) && read_line(u, &name) && situ__unpickle_global(u, module, name);
}

static bool push_stack_global(unpickler *u) {
  uint32_t name = 0, module = 0;
  if (!pop_value(u, &name) || !pop_value(u, &module)) return false;
  const situ__pickle_value *m = &u->pickle->value[module], *n = &u->pickle->value[name];
  if (m->kind != SITU__PICKLE_STRING || n->kind != SITU__PICKLE_STRING || memchr(m->text, '\0', m->length) ||
      memchr(n->text, '\0', n->length))
    return situ__unpickle_bad(u, "with a name that is not text");
  return situ__unpickle_global(u, m->text, n->text);
}

static bool call_function(unpickler *u) {
  uint32_t function = 0, arguments = 0;
  return pop_value(u, &arguments) && pop_value(u, &function) && situ__unpickle_call(u, function, arguments);
}

static bool push_storage(unpickler *u) {
  uint32_t id = 0;
  return pop_value(u, &id) && situ__unpickle_storage(u, id);
}

/* Attributes. Those of a state dict, the versions of its modules, are dropped. */
static bool set_attributes(unpickler *u) {
  uint32_t state = 0, object = 0;
  if (!pop_value(u, &state) || !see_top(u, &object)) return false;
  situ__pickle_value *s = &u->pickle->value[state], *o = &u->pickle->value[object];
  if (o->kind == SITU__PICKLE_OBJECT) return o->count = 1, o->state = state, true;
  bool fine = o->kind == SITU__PICKLE_ORDERED && s->kind == SITU__PICKLE_DICT;
  for (uint32_t i = 0; fine && i < s->count; i += 2) {
    const situ__pickle_value *key = &u->pickle->value[s->item[i]];
    fine = key->kind == SITU__PICKLE_STRING && strcmp(key->text, "_metadata") == 0;
  }
  return fine || situ__unpickle_bad(u, "that sets attributes of an object (BUILD)");
}

/* NEWOBJ, and NEWOBJ_EX, which has arguments by name too. */
static bool make_new(unpickler *u, bool by_name) {
  uint32_t arguments = 0, class_of = 0;
  return (!by_name || pop_value(u, &arguments)) && pop_value(u, &arguments) && pop_value(u, &class_of) &&
         situ__unpickle_object(u, class_of, by_name ? "NEWOBJ_EX" : "NEWOBJ");
}

static bool make_marked(unpickler *u) {
  const uint32_t *items = NULL;
  size_t count = 0;
  if (!pop_to_mark(u, &items, &count)) return false;
  if (count == 0) return situ__unpickle_bad(u, "that takes more values than it has");
  return situ__unpickle_object(u, items[0], "OBJ");
}

static bool make_named(unpickler *u) {
  const uint32_t *items = NULL;
  uint32_t class_of = 0;
  size_t count = 0;
  return pop_to_mark(u, &items, &count) && push_global(u) && pop_value(u, &class_of) &&
         situ__unpickle_object(u, class_of, "INST");
}

static bool refuse_opcode(unpickler *u, unsigned opcode) {
  const char *what = NULL;
  switch (opcode) {
  case 0x82:
  case 0x83:
  case 0x84: what = "that calls by a number of copyreg's registry (EXT)"; break;
  case 'B':
  case 'C':
  case 0x8e:
  case 0x96: what = "with bytes, which are not read"; break;
  case 0x8f:
  case 0x90:
  case 0x91: what = "with a set, which is not read"; break;
  default: break;
  }
  if (what) return situ__unpickle_bad(u, what);
  return situ__problem_set(u->problem, SITU_E_FORMAT, "has a pickle with the opcode 0x%02x, which is not read", opcode);
}

/* ---- the machine ---- */

static bool skip_frame(unpickler *u) {
  uint64_t bytes = 0;
  if (!read_number(u, 8, &bytes)) return false;
  if (bytes <= u->bytes - u->at) return true;
  u->cut = true;
  return situ__unpickle_bad(u, "with a frame that ends after it");
}

static bool push_long_of(unpickler *u, int length_bytes) {
  uint64_t bytes = 0;
  return read_number(u, length_bytes, &bytes) && push_long(u, bytes);
}

static bool run_opcode(unpickler *u, unsigned opcode) {
  switch (opcode) {
  case '(': return push_mark(u);
  case ')': return push_kind(u, SITU__PICKLE_TUPLE);
  case ']': return push_kind(u, SITU__PICKLE_LIST);
  case '}': return push_kind(u, SITU__PICKLE_DICT);
  case 'N': return push_kind(u, SITU__PICKLE_NONE);
  case 0x88: return push_integer(u, SITU__PICKLE_BOOL, 1);
  case 0x89: return push_integer(u, SITU__PICKLE_BOOL, 0);
  case 'K': return push_integer_of(u, 1);
  case 'M': return push_integer_of(u, 2);
  case 'J': return push_integer_of(u, 4);
  case 0x8a: return push_long_of(u, 1);
  case 0x8b: return push_long_of(u, 4);
  case 'G': return push_real(u);
  case 'U': /* of Python 2, as 'T' */
  case 0x8c: return push_text(u, 1);
  case 'T':
  case 'X': return push_text(u, 4);
  case 0x8d: return push_text(u, 8);
  case 't': return push_marked_tuple(u);
  case 0x85: return push_tuple(u, 1);
  case 0x86: return push_tuple(u, 2);
  case 0x87: return push_tuple(u, 3);
  case 'a': return append_one(u);
  case 'e': return add_marked(u, append_items);
  case 's': return set_one(u);
  case 'u': return add_marked(u, set_items);
  case 'h': return get_memo(u, 1);
  case 'j': return get_memo(u, 4);
  case 'q': return put_memo_at(u, 1);
  case 'r': return put_memo_at(u, 4);
  case 0x94: return put_memo(u, u->memos);
  case 0x95: return skip_frame(u);
  case 'c': return push_global(u);
  case 0x93: return push_stack_global(u);
  case 'R': return call_function(u);
  case 'i': return make_named(u);
  case 'o': return make_marked(u);
  case 0x81: return make_new(u, false);
  case 0x92: return make_new(u, true);
  case 'b': return set_attributes(u);
  case 'Q': return push_storage(u);
  default: return refuse_opcode(u, opcode);
  }
}

/* all: nothing may follow. */
static bool run_all(unpickler *u, bool all) {
  enum { PROTO = 0x80, STOP = '.', OLDEST = 2, NEWEST = 5 };
  if (u->bytes < 2 && !all) return ends_early(u);
  if (u->bytes < 2 || u->data[0] != PROTO || u->data[1] < OLDEST || u->data[1] > NEWEST)
    return situ__unpickle_bad(u, "that is not of protocol 2 to 5");
  u->at = 2;
  while (u->at < u->bytes) {
    const unsigned opcode = u->data[u->at++];
    if (opcode == STOP) {
      if (u->marks || u->stack_size != 1) return situ__unpickle_bad(u, "that does not end with one value");
      u->pickle->root = u->stack[0];
      return !all || u->at == u->bytes || situ__unpickle_bad(u, "with bytes after its end");
    }
    if (!run_opcode(u, opcode)) return false;
  }
  return ends_early(u);
}

bool situ__pickle_parse(situ__pickle *pickle, const char *data, size_t bytes, size_t *end, situ__problem *problem) {
  *pickle = (situ__pickle){ .texts = situ__alloc(bytes + 1) };
  unpickler u = { .pickle = pickle, .data = (const unsigned char *)data, .bytes = bytes, .problem = problem };
  const bool fine = pickle->texts ? run_all(&u, !end) : refuse_memory(&u);
  if (end) *end = fine ? u.at : u.cut ? bytes : 0;
  situ__free(u.stack);
  situ__free(u.mark);
  situ__free(u.memo);
  if (!fine) situ__pickle_free(pickle);
  return fine;
}

void situ__pickle_free(situ__pickle *pickle) {
  for (uint32_t i = 0; i < pickle->values; i++) {
    const uint8_t kind = pickle->value[i].kind;
    if (kind >= SITU__PICKLE_TUPLE && kind <= SITU__PICKLE_ORDERED) situ__free(pickle->value[i].item);
  }
  situ__free(pickle->value);
  situ__free(pickle->storage);
  situ__free(pickle->tensor);
  situ__free(pickle->unknown);
  situ__free(pickle->texts);
  *pickle = (situ__pickle){ 0 };
}
