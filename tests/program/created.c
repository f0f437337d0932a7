/* What a forward creates: a program has the values that the call itself gives, in a process whose memory is never zero
   by chance, or the export is refused. Every function of the headers that makes a tensor by options is tried. */
/* test-devices: cpu */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api/api.h"
#include "support/test.h"

/* ---- memory that holds something ---- */

enum { JUNK = 0xa5 };
static void *take(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  void *memory = alignment ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : malloc(bytes);
  return memory ? memset(memory, JUNK, bytes) : NULL;
}
static void *retake(void *old, size_t bytes, void *payload) {
  return old ? realloc(old, bytes) : take(bytes, 0, payload);
}
static void give(void *memory, void *payload) {
  (void)payload;
  free(memory);
}
static const situ_allocator junk = { .allocate = take, .reallocate = retake, .release = give };

/* ---- a module that creates ---- */

typedef situ_tensor *(*creation)(void *payload);
typedef struct creator {
  situ_nn_module base;
  creation create;
  void *payload;
  bool reads; /* an op reads what is created; else it is the result itself */
} creator;
static situ_tensor *creator_forward(situ_nn_module *self, situ_tensor *x) {
  const creator *m = (const creator *)self;
  situ_tensor *y = m->create(m->payload);
  (void)x;
  return m->reads ? situ_reshape(y, SITU_SHAPE(-1)) : y;
}
static const situ_nn_type creator_type = { .name = "Creator", .size = sizeof(creator), .forward = creator_forward };

typedef enum outcome { SAME, OTHER, REFUSED } outcome;

/* What becomes of an export of create, whose call itself gives `want`. With `writes` the caller writes to the results. */
static outcome export(creation create, void *payload, bool reads, bool writes, situ_tensor *want) {
  creator *m = situ_nn_alloc(&creator_type);
  m->create = create, m->payload = payload, m->reads = reads;
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(1), NULL));
  assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
  situ_nn_module *program = situ_export(situ_nn_done(m), in);
  outcome result = REFUSED;
  if (program) {
    result = SAME;
    for (int run = 0; run < 3; run++) { /* what it creates, it creates anew */
      situ_tensor *got = situ_nn_forward(program, situ_ones(SITU_SHAPE(1), NULL));
      if (!got) fail_msg("a program fails: %s", situ_error_message());
      if (!test_same_bits(situ_reshape(got, SITU_SHAPE(-1)), situ_reshape(want, SITU_SHAPE(-1)))) result = OTHER;
      if (writes && !situ_fill_(got, 3)) fail_msg("a result cannot be written: %s", situ_error_message());
    }
  } else if (situ_error() != SITU_E_UNSUPPORTED) {
    fail_msg("refused otherwise: %s", situ_error_message());
  }
  situ_error_clear();
  situ_nn_free(program);
  situ_nn_free(&m->base);
  situ_tree_free(in);
  return result;
}

/* ---- every function that creates ---- */

/* The index of its options; -1: it does not create. *host: its values come from host memory. */
static int options_of(const api_function *f, bool *host) {
  int at = -1;
  *host = false;
  for (int i = 0; i < f->count; i++) {
    if (strcmp(f->parameter[i].type, "const situ_options *") == 0) at = i;
    *host |= strstr(f->parameter[i].type, "void *") != NULL;
  }
  *host |= api_is(f->name, "situ_tril_indices situ_triu_indices"); /* computed there */
  return strcmp(f->returns, "situ_tensor *") == 0 ? at : -1;
}

static situ_tensor *call_function(void *payload) {
  const api_world *w = payload;
  situ_tensor *result = NULL;
  w->function->call(w->argument, &result);
  return result;
}

/* Whether two calls give the same values, and draw none. */
static bool is_definite(api_world *w, situ_tensor **want) {
  const uint64_t drawn = situ_get_rng_state().offset;
  situ_tensor *again = call_function(w);
  *want = call_function(w);
  if (!again || !*want || situ_get_rng_state().offset != drawn) return false;
  unsigned char bytes[4096];
  const size_t size = (size_t)situ_numel(again) * situ_dtype_size(situ_dtype_of(again));
  assert_true(size <= sizeof bytes);
  return situ_copy_to_host(again, bytes, size) == SITU_OK && test_same_bits(again, *want);
}

static const situ_dtype dtypes[] = { SITU_DTYPE_DEFAULT, SITU_F64, SITU_BF16, SITU_I64, SITU_U8, SITU_BOOL };

static void try_function(const api_function *f, int options, bool host, int64_t counts[3]) {
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
    for (int reads = 0; reads < 2; reads++) {
      api_world w;
      api_valid(&w, f, test_device());
      situ_options *o = *(void **)w.argument[options];
      o->dtype = dtypes[k];
      situ_tensor *want = NULL;
      const bool definite = is_definite(&w, &want), readable = want && (!reads || situ_reshape(want, SITU_SHAPE(-1)));
      situ_error_clear();
      if (readable) { /* not packed blocks, for an op */
        const outcome is = export(call_function, &w, reads, !host, want);
        counts[is]++;
        if (definite && !host && is != SAME)
          fail_msg("%s of %s is %s", f->name, situ_dtype_name(dtypes[k]), is == OTHER ? "exported wrong" : "refused");
        if (!definite && is != REFUSED && situ_numel(want))
          fail_msg("%s of %s is exported, though its values are not known", f->name, situ_dtype_name(dtypes[k]));
        if (is == OTHER) fail_msg("%s of %s is exported wrong", f->name, situ_dtype_name(dtypes[k]));
      }
      situ_tensor *none = NULL;
      api_after(&w, &none, true);
    }
}

static void every_function_that_creates(void **state) {
  (void)state;
  const api_function *f;
  const size_t count = api_functions_list(&f);
  int64_t counts[3] = { 0 };
  int functions = 0;
  for (size_t i = 0; i < count; i++) {
    bool host;
    const int options = options_of(&f[i], &host);
    if (options < 0) continue;
    situ_scope s;
    situ_scope_begin(&s);
    try_function(&f[i], options, host, counts);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    functions++;
  }
  printf("%d functions: %lld exports have the values, %lld are refused\n", functions, (long long)counts[SAME],
         (long long)counts[REFUSED]);
  assert_true(functions >= 20 && counts[SAME] >= 50);
}

/* ---- several writes ---- */

static situ_tensor *wide_eye(void *payload) {
  (void)payload;
  return situ_eye(3, 5, NULL);
}
static situ_tensor *tall_eye(void *payload) {
  (void)payload;
  return situ_eye(5, 3, &(situ_options){ .dtype = SITU_F64 });
}
static situ_tensor *part_of_eye(void *payload) {
  (void)payload;
  return situ_contiguous(situ_transpose(situ_narrow(situ_eye(6, 4, NULL), 0, 1, 3), 0, 1));
}
static situ_tensor *filled_part(void *payload) {
  situ_tensor *t = situ_zeros(SITU_SHAPE(3, 4), NULL);
  (void)payload;
  return situ_fill_(situ_narrow(t, 1, 1, 2), 7) ? t : NULL;
}
static situ_tensor *channels_last(void *payload) {
  (void)payload;
  return situ_full(SITU_SHAPE(1, 2, 3, 2), 5, &(situ_options){ .memory_format = SITU_CHANNELS_LAST });
}
static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };
static situ_tensor *loaded(void *payload) {
  situ_tensor *t = situ_zeros(SITU_SHAPE(6), NULL);
  (void)payload;
  return situ_copy_from_host(t, numbers, sizeof numbers) == SITU_OK ? t : NULL;
}
static situ_tensor *loaded_in_part(void *payload) {
  situ_tensor *t = situ_zeros(SITU_SHAPE(2, 6), NULL);
  (void)payload;
  return situ_copy_from_host(situ_select(t, 1, 2), numbers, 2 * sizeof *numbers) == SITU_OK ? t : NULL;
}
static situ_tensor *loaded_when_used(void *payload) {
  situ_tensor *t = situ_zeros(SITU_SHAPE(6), NULL), *y = situ_add_scalar(t, 1);
  (void)payload;
  return situ_copy_from_host(t, numbers, sizeof numbers) == SITU_OK ? situ_add(y, t) : NULL;
}
static situ_tensor *buffer_loaded(void *payload) {
  situ_tensor *t = payload;
  return situ_copy_from_host(t, numbers, sizeof numbers) == SITU_OK ? situ_add_scalar(t, 1) : NULL;
}
static situ_tensor *drawn_in_place(void *payload) {
  situ_tensor *t = situ_zeros(SITU_SHAPE(6), NULL);
  (void)payload;
  return situ_uniform_(t, 0, 1, NULL);
}
static situ_tensor *half_written(void *payload) {
  situ_tensor *t = situ_empty(SITU_SHAPE(2, 6), NULL);
  (void)payload;
  return situ_fill_(situ_select(t, 0, 0), 3) ? t : NULL;
}

static situ_tensor *added_to(void *payload) {
  (void)payload;
  situ_tensor *t = situ_add_(situ_zeros(SITU_SHAPE(6), NULL), situ_arange(0, 6, 1, NULL));
  return situ_mul_scalar(situ_add_scalar_(t, 1), 2);
}
static situ_tensor *added_through_a_view(void *payload) {
  (void)payload;
  situ_tensor *t = situ_eye(3, 3, NULL), *row = situ_select(t, 0, 1), *before = situ_clone(t);
  return situ_add_scalar_(row, 2) ? situ_add(situ_mul_scalar(t, 10), before) : NULL;
}

static void several_writes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    creation create;
    outcome want;
  } rows[] = {
    { "wide_eye", wide_eye, SAME },
    { "tall_eye", tall_eye, SAME },
    { "part_of_eye", part_of_eye, SAME },
    { "filled_part", filled_part, SAME },
    { "channels_last", channels_last, SAME },
    { "loaded", loaded, REFUSED },
    { "loaded_in_part", loaded_in_part, REFUSED },
    { "loaded_when_used", loaded_when_used, REFUSED },
    { "buffer_loaded", buffer_loaded, REFUSED },
    { "drawn_in_place", drawn_in_place, REFUSED },
    { "half_written", half_written, REFUSED },
    { "added_to", added_to, SAME },
    { "added_through_a_view", added_through_a_view, SAME },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int reads = 0; reads < 2; reads++) {
      situ_tensor *buffer = situ_ones(SITU_SHAPE(6), NULL), *want = rows[i].create(buffer);
      const outcome is = export(rows[i].create, buffer, reads, true, want);
      if (is != rows[i].want) fail_msg("%s, read by %d ops: %d, not %d", rows[i].name, reads, is, rows[i].want);
    }
}

int main(void) {
  situ_set_allocator(&junk);
  const struct CMUnitTest tests[] = { TEST(every_function_that_creates), TEST(several_writes) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
