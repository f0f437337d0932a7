/* Changes the fields of an ONNX model, and the lengths of the messages around them.
   SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { DEPTH = 12, MOST = 1 << 16 };

typedef struct field {
  uint64_t key, value; /* the number and wire type; a varint, or a length */
  const uint8_t *at;   /* the content */
  size_t length, whole;
} field;

static size_t read_varint(const uint8_t *data, size_t size, uint64_t *out) {
  *out = 0;
  for (size_t i = 0; i < size && i < 10; i++) {
    *out |= (uint64_t)(data[i] & 127) << 7 * i % 64;
    if (data[i] < 128) return i + 1;
  }
  return 0;
}

static bool read_field(const uint8_t *data, size_t size, field *f) {
  size_t n = read_varint(data, size, &f->key), m = 0;
  const unsigned wire = f->key & 7;
  if (!n || !(f->key >> 3) || f->key >> 3 > 5000) return false;
  f->at = data + n;
  if (wire == 1 || wire == 5) f->length = wire == 1 ? 8 : 4;
  else if (wire == 0 || wire == 2) {
    m = read_varint(data + n, size - n, &f->value);
    f->at += m;
    f->length = wire ? f->value : 0;
    if (!m) return false;
  } else return false;
  if (f->length > size - n - m) return false;
  f->whole = n + m + f->length;
  return true;
}

static bool is_message(const uint8_t *data, size_t size) {
  field f;
  if (!size) return false;
  for (; size; data += f.whole, size -= f.whole)
    if (!read_field(data, size, &f)) return false;
  return true;
}

/* Number of fields, also of those inside others. */
static int count_fields(const uint8_t *data, size_t size, int depth) {
  int count = 0;
  for (field f; size && read_field(data, size, &f); data += f.whole, size -= f.whole) {
    count++;
    if ((f.key & 7) == 2 && depth < DEPTH && is_message(f.at, f.length))
      count += count_fields(f.at, f.length, depth + 1);
  }
  return count;
}

/* The n-th of them, and how deep it is. */
static bool find_field(const uint8_t *data, size_t size, int depth, int *n, field *out, int *found) {
  for (field f; size && read_field(data, size, &f); data += f.whole, size -= f.whole) {
    if ((*n)-- == 0) return *out = f, *found = depth, true;
    if ((f.key & 7) == 2 && depth < DEPTH && is_message(f.at, f.length) &&
        find_field(f.at, f.length, depth + 1, n, out, found))
      return true;
  }
  return false;
}

/* Another field of the same number and wire type, each as likely as another. */
static void find_like(const uint8_t *data, size_t size, int depth, uint64_t key, unsigned *seed, int *seen,
                      field *out) {
  for (field f; size && read_field(data, size, &f); data += f.whole, size -= f.whole) {
    if (f.key == key && rand_r(seed) % ++*seen == 0) *out = f;
    if ((f.key & 7) == 2 && depth < DEPTH && is_message(f.at, f.length))
      find_like(f.at, f.length, depth + 1, key, seed, seen, out);
  }
}

typedef struct output {
  uint8_t data[MOST];
  size_t length;
} output;

static void put_bytes(output *o, const void *data, size_t length) {
  if (length > MOST - o->length) length = MOST - o->length;
  memcpy(o->data + o->length, data, length);
  o->length += length;
}
static void put_varint(output *o, uint64_t value) {
  for (; o->length < MOST && value > 127; value >>= 7) o->data[o->length++] = (uint8_t)(value | 128);
  if (o->length < MOST) o->data[o->length++] = (uint8_t)value;
}

typedef struct edit {
  int at; /* number of the field */
  unsigned how, seed;
  field other; /* of the same model */
} edit;

static void put_changed(output *o, const field *f, edit *e) {
  static const int64_t numbers[] = {
    0,         1,       2, 3, -1, -2, 7,  13, 64, INT64_C(1) << 62, INT64_MAX, INT64_MIN, INT64_C(1) << 31,
    INT32_MAX, 1 << 20, 5, 6, 9,  10, 11, 16
  };
  const unsigned wire = f->key & 7;
  if (e->how == 0) return; /* it goes */
  if (wire == 2 && e->how > 2 && (e->how < 8 || is_message(f->at, f->length))) e->how = 2;
  if (e->how == 1) { /* twice */
    put_bytes(o, f->at + f->length - f->whole, f->whole);
    put_bytes(o, f->at + f->length - f->whole, f->whole);
  } else if (e->how == 2) { /* another in its place */
    put_bytes(o, e->other.at + e->other.length - e->other.whole, e->other.whole);
  } else if (wire == 0) {
    put_varint(o, f->key);
    put_varint(o, (uint64_t)numbers[(unsigned)rand_r(&e->seed) % (sizeof numbers / sizeof *numbers)]);
  } else {
    uint8_t bytes[256];
    size_t length = f->length < 200 ? f->length : 200;
    memcpy(bytes, f->at, length);
    length = wire == 2 ? LLVMFuzzerMutate(bytes, length, sizeof bytes) : LLVMFuzzerMutate(bytes, length, length);
    put_varint(o, f->key);
    if (wire == 2) put_varint(o, length);
    else
      while (length < f->length) bytes[length++] = 0;
    put_bytes(o, bytes, length);
  }
}

static void put_fields(const uint8_t *data, size_t size, int depth, edit *e, output *o) {
  for (field f; size && read_field(data, size, &f); data += f.whole, size -= f.whole) {
    if (e->at-- == 0) {
      put_changed(o, &f, e);
    } else if ((f.key & 7) == 2 && depth < DEPTH && e->at >= 0 && is_message(f.at, f.length)) {
      output *inner = malloc(sizeof *inner);
      if (!inner) return;
      inner->length = 0;
      put_fields(f.at, f.length, depth + 1, e, inner);
      put_varint(o, f.key);
      put_varint(o, inner->length);
      put_bytes(o, inner->data, inner->length);
      free(inner);
    } else {
      put_bytes(o, data, f.whole);
    }
  }
}

static size_t change(uint8_t *data, size_t size, size_t most, unsigned *seed) {
  static output o;
  const int count = count_fields(data, size, 0);
  if (!count || size > MOST / 2) return LLVMFuzzerMutate(data, size, most);
  edit e = { .how = (unsigned)rand_r(seed) % 9, .seed = (unsigned)rand_r(seed) };
  int depth = 0;
  bool name = false;
  for (int i = 0; i < 5 && (depth < 2 || name); i++) { /* what is around the graph, and names, seldom */
    int n = e.at = rand_r(seed) % count;
    if (!find_field(data, size, 0, &n, &e.other, &depth)) return LLVMFuzzerMutate(data, size, most);
    name = (e.other.key & 7) == 2 && !is_message(e.other.at, e.other.length);
  }
  int seen = 0;
  find_like(data, size, 0, e.other.key, seed, &seen, &e.other);
  o.length = 0;
  put_fields(data, size, 0, &e, &o);
  if (!o.length || o.length > most) return size;
  memcpy(data, o.data, o.length);
  return o.length;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  if (!size || seed % 256 == 0) return LLVMFuzzerMutate(data, size, most);
  seed = seed * 2654435761u + 1;
  for (int i = seed / 256 % 8 ? 1 : 3; i; i--) size = change(data, size, most, &seed);
  return size;
}
