/* Every public function of two tensors and more, found in the table of the headers: where all are on one device the result is
   there, and where one is not the call is refused, whatever the function does before it comes to the check.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
/* test-slow: opencl:0 opencl:1 cuda:0 */
/* test-cost: 400 */
#include "situ/sys/dry.h"
#include "support/api/api.h"
#include "support/pairs.h"

enum { OPERANDS = 24, ALL = -1 };

/* A call with valid arguments (support/api.h), and where its operands stand in them. */
typedef struct call {
  api_world world;
  const char *name;
  int count;
  situ_tensor **at[OPERANDS];
} call;

/* ---- which functions ---- */

/* What is no op, though it takes tensors and gives one; what LAPACK computes, which a device may lack; roi_align, as ones
   are not numbers of images. */
static bool is_left_out(const char *name) {
  if (api_is(name, "situ_linalg_cross situ_linalg_householder_product situ_linalg_multi_dot situ_linalg_vecdot"))
    return false;
  return api_is(name, "situ_op_run2 situ_op_run3 situ_conv2d_by situ_linear_by situ_block_linear situ_block_embedding "
                      "situ_roi_align") ||
         strncmp(name, "situ_linalg_", 12) == 0 || strncmp(name, "situ_cholesky_", 14) == 0;
}

static bool is_number_or_options(const char *type) {
  return !strchr(type, '*') || api_is(type, "situ_tensor ** situ_generator *") || strcmp(type, "const char *") == 0 ||
         strstr(type, "_options *");
}

/* Does it make a tensor of tensors, two at least, and of numbers? */
static bool is_function(const api_function *f) {
  int tensors = 0;
  if (strcmp(f->returns, "situ_tensor *") != 0 || is_left_out(f->name)) return false;
  for (int i = 0; i < f->count; i++) {
    const char *type = f->parameter[i].type;
    if (strcmp(type, "situ_tensor *") == 0) tensors++;
    else if (strcmp(type, "situ_tensor *const *") == 0) tensors += 2;
    else if (!is_number_or_options(type)) return false;
  }
  return tensors > 1;
}

/* Operands of other shapes than the valid ones, and operands in options, each of which makes another call. */
static const struct variant {
  const char *function;
  int operand;
  const char *field; /* in options; NULL: the operand */
  situ_dtype dtype;
  situ_shape shape;
} variants[] = {
  { "situ_mul", 1, NULL, SITU_F32, { 0 } },
  { "situ_matmul", ALL, NULL, SITU_F32, { 1, { 2 } } },
  { "situ_matmul", 0, NULL, SITU_F32, { 3, { 1, 2, 2 } } },
  { "situ_matmul", 0, NULL, SITU_F32, { 1, { 2 } } },
  { "situ_matmul", 1, NULL, SITU_F32, { 1, { 2 } } },
  { "situ_cross_entropy", 0, "weight", SITU_F32, { 1, { 2 } } },
  { "situ_nll_loss", 0, "weight", SITU_F32, { 1, { 2 } } },
  { "situ_multi_margin_loss", 0, "weight", SITU_F32, { 1, { 2 } } },
  { "situ_scaled_dot_product_attention", 0, "attn_mask", SITU_BOOL, { 2, { 2, 2 } } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* ---- calls ---- */

/* What a function is given in place of the valid tensor: ones, as indices zeros. */
static situ_tensor *filled(situ_dtype dtype, situ_shape shape, situ_device device) {
  const situ_options where = { .dtype = dtype, .device = device };
  return situ_dtype_is_floating(dtype) || dtype == SITU_BOOL ? situ_ones(shape, &where) : situ_zeros(shape, &where);
}
static situ_tensor *like(const situ_tensor *t, situ_device device) {
  return filled(situ_dtype_of(t), situ_shape_of(t), device);
}

static void add_operand(call *c, situ_tensor **at, situ_device device) {
  if (!*at) return;
  *at = like(*at, device);
  assert_non_null(*at);
  assert_true(c->count < OPERANDS);
  c->at[c->count++] = at;
}

static void add_field(call *c, const struct variant *v, int parameter, situ_device device) {
  const api_struct *s = api_find_struct(c->world.function->parameter[parameter].type);
  for (int k = 0; s && k < s->count; k++) {
    if (strcmp(s->field[k].name, v->field) != 0) continue;
    char *options = *(char **)c->world.argument[parameter];
    situ_tensor **at = (situ_tensor **)(void *)(options + s->field[k].offset);
    *at = filled(v->dtype, v->shape, device);
    add_operand(c, at, device);
  }
}

/* v: NULL: the valid call. */
static void make(call *c, const api_function *f, const struct variant *v, situ_device device) {
  *c = (call){ .name = f->name };
  api_valid(&c->world, f, here());
  for (int i = 0; i < f->count; i++) {
    const char *type = f->parameter[i].type;
    if (strcmp(type, "situ_tensor *") == 0) add_operand(c, c->world.argument[i], device);
    if (strcmp(type, "situ_tensor *const *") == 0)
      for (int k = 0; k < *(int *)c->world.argument[i + 1]; k++) /* the parameter `count` */
        add_operand(c, *(situ_tensor ***)c->world.argument[i] + k, device);
    if (v && v->field) add_field(c, v, i, device);
  }
  for (int k = 0; v && !v->field && k < c->count; k++)
    if (v->operand == ALL || v->operand == k) *c->at[k] = filled(v->dtype, v->shape, device);
}

static situ_tensor *run(call *c) {
  situ_tensor *y = NULL;
  checked_call look;
  checked_begin(&look, c->name);
  c->world.function->call(c->world.argument, &y);
  checked_end(&look, API_POINTER, &y);
  return y;
}

/* Calls body for each function, in a scope. */
static int each_call(void (*body)(const api_function *f, const struct variant *v)) {
  const api_function *list;
  const size_t count = api_functions_list(&list);
  int calls = 0;
  for (size_t k = 0; k < count; k++) {
    if (!is_function(&list[k])) continue;
    for (int v = -1; v < VARIANTS; v++) {
      if (v >= 0 && strcmp(variants[v].function, list[k].name) != 0) continue;
      situ_scope s;
      situ_scope_begin(&s);
      body(&list[k], v < 0 ? NULL : &variants[v]);
      SITU_IGNORE(situ_scope_end(&s));
      calls++;
    }
  }
  return calls;
}

/* What is written in place stays where it is: then the others are the odd ones. */
static bool is_in_place(const char *name) { return name[strlen(name) - 1] == '_'; }

/* Does the message have the operand that is elsewhere, as the odd one unless it is one of two? */
static bool is_foreign_named(const char *device, bool odd) {
  const situ_error_operand *list;
  int count = situ_error_operands(&list);
  for (int i = 0; i < count; i++)
    if ((list[i].odd || !odd) && strcmp(list[i].device, device) == 0) return true;
  return false;
}

static void check_result(const api_function *f, const struct variant *v) {
  const situ_device both[] = { here(), there() };
  for (int d = 0; d < 2; d++) {
    call c;
    make(&c, f, v, both[d]);
    situ_tensor *y = run(&c);
    const bool unable =
        !y && situ_error() == SITU_E_UNSUPPORTED && !has_values(both[d]); /* masked_select: asks for values */
    if (!y && !unable) fail_msg("%s on %s: %s", f->name, name_of(both[d]), situ_error_message());
    if (y) expect_on(y, both[d]);
    api_after(&c.world, &y, !y);
    situ_error_clear();
  }
}

static void results_are_where_the_operands_are(void **state) {
  (void)state;
  print_message("%d functions\n", each_call(check_result));
}

/* With one operand elsewhere; `worse`: it has a shape that does not fit either, and if it is floating another dtype. */
static int refusals;
static void check_refusal(const api_function *f, const struct variant *v, int d, int foreign, bool worse) {
  const situ_device one = d ? there() : here(), other = d ? here() : there();
  call c;
  uint32_t version[OPERANDS];
  make(&c, f, v, one);
  const situ_dtype dtype = situ_dtype_of(*c.at[foreign]);
  situ_tensor *t =
      worse ? filled(dtype == SITU_F32 ? SITU_F64 : dtype, SITU_SHAPE(7, 1, 5), other) : like(*c.at[foreign], other);
  *c.at[foreign] = t;
  for (int i = 0; i < c.count; i++) version[i] = situ_version_of(*c.at[i]);
  situ_tensor *y = run(&c);
  if (y || situ_error() != SITU_E_DEVICE ||
      !is_foreign_named(name_of(other), c.count > 2 && !(foreign == 0 && is_in_place(f->name))))
    fail_msg("%s on %s, operand %d on %s: %s", f->name, name_of(one), foreign, name_of(other), situ_error_message());
  for (int i = 0; i < c.count; i++) {
    expect_on(*c.at[i], i == foreign ? other : one);
    assert_int_equal(situ_version_of(*c.at[i]), version[i]);
  }
  api_after(&c.world, &y, true);
  refusals++;
}

static int count_operands(const api_function *f, const struct variant *v) {
  call c;
  situ_tensor *none = NULL;
  make(&c, f, v, here());
  api_after(&c.world, &none, true);
  return c.count;
}

static void check_refusals(const api_function *f, const struct variant *v) {
  const int count = count_operands(f, v);
  for (int d = 0; d < 2; d++)
    for (int round = 0; round < 2 * count; round++) check_refusal(f, v, d, round / 2, round % 2);
}

/* placement: D1 */
static void a_foreign_operand_is_refused(void **state) {
  (void)state;
  refusals = 0;
  const int calls = each_call(check_refusals);
  printf("%d functions, %d mixed calls on %s and %s, all refused\n", calls, refusals, name_of(here()),
         name_of(there()));
}

/* ---- the fix in the message ---- */

enum { ELSEWHERE, OF_ANOTHER_DTYPE, BOTH, WITHOUT_VALUES, FAULTS };

static situ_tensor *faulty(situ_tensor *t, situ_device one, situ_device other, int fault) {
  t = like(t, fault == OF_ANOTHER_DTYPE ? one : other);
  if (fault == WITHOUT_VALUES)
    return situ_empty(situ_shape_of(t), &(situ_options){ .dtype = situ_dtype_of(t), .device = situ_dev("meta") });
  if (fault == ELSEWHERE) return t;
  return situ_to_dtype(t, situ_dtype_of(t) == SITU_F32 ? SITU_F64 : SITU_F32);
}

static situ_tensor *named(situ_tensor *t, int number) {
  char name[8];
  (void)snprintf(name, sizeof name, "t%d", number);
  assert_non_null(situ_set_name(t, name));
  return t;
}

/* Makes one choice of the report: variables are known by their names. */
static bool make_choice(const situ_error_report *r, int choice, situ_tensor **t, int count) {
  for (int k = 0; k < r->fix_count; k++) {
    const situ_error_fix *fix = &r->fixes[k];
    if (fix->choice != choice) continue;
    if (fix->action != SITU_FIX_TO && fix->action != SITU_FIX_TO_DTYPE) return false;
    int i = 0;
    while (i < count && strcmp(situ_name(t[i]), fix->target) != 0) i++;
    if (i == count) return false;
    situ_dtype dtype = strcmp(fix->dtype, "f64") == 0    ? SITU_F64
                       : strcmp(fix->dtype, "f32") == 0  ? SITU_F32
                       : strcmp(fix->dtype, "i64") == 0  ? SITU_I64
                       : strcmp(fix->dtype, "bool") == 0 ? SITU_BOOL
                                                         : SITU_DTYPE_DEFAULT;
    t[i] = fix->action == SITU_FIX_TO ? situ_to(t[i], situ_dev(fix->device)) : situ_to_dtype(t[i], dtype);
    if (!t[i]) return false;
    (void)named(t[i], i);
  }
  return true;
}

static struct tally { int refused, tried, without[FAULTS]; } sum;

static void put_operands(call *c, situ_tensor *const *t) {
  for (int i = 0; i < c->count; i++) *c->at[i] = t[i];
}

static void try_fixes(call *c, situ_device one, int fault) {
  situ_tensor *t[OPERANDS];
  int choices = 0;
  for (int i = 0; i < c->count; i++) t[i] = *c->at[i];
  if (run(c) || (situ_error() != SITU_E_DEVICE && situ_error() != SITU_E_DTYPE)) return;
  situ_error_report r;
  char message[4096];
  assert_true(situ_error_read(&r));
  sum.refused++;
  sum.without[fault] += r.fix_count == 0;
  for (int k = 0; k < r.fix_count; k++) choices = r.fixes[k].choice >= choices ? r.fixes[k].choice + 1 : choices;
  (void)snprintf(message, sizeof message, "%s", r.message);
  for (int choice = 0; choice < choices; choice++) {
    situ_tensor *mended[OPERANDS];
    memcpy(mended, t, sizeof t);
    bool made = make_choice(&r, choice, mended, c->count);
    if (choice == choices - 1) situ_error_clear();
    put_operands(c, mended);
    situ_tensor *y = made ? run(c) : NULL;
    bool unable = made && !y && situ_error() == SITU_E_UNSUPPORTED && !has_values(one); /* masked_select on meta */
    if (!y && !unable) fail_msg("%s: choice %d does not mend:\n%s\n%s", c->name, choice, message, situ_error_message());
    sum.tried++;
  }
}

/* In a dry run no function stops at its own check: the ops that it is made of report what they get. */
static void expect_variables(situ_dry *dry) {
  situ_error_report r;
  (void)dry;
  for (int k = 0; situ_error_read(&r) && k < r.fix_count; k++) {
    const situ_error_fix *fix = &r.fixes[k];
    int number;
    if (fix->action != SITU_FIX_TO && fix->action != SITU_FIX_TO_DTYPE) continue;
    if (sscanf(fix->target, "t%d", &number) != 1) fail_msg("%s is not an operand in:\n%s", fix->target, r.message);
  }
}

static void try_dry(call *c) {
  situ_dry dry = { .found = expect_variables };
  situ_tensor *y = NULL;
  expect_ok(situ_dry_begin(&dry));
  c->world.function->call(c->world.argument, &y);
  situ_dry_tell(&dry);
  (void)situ_dry_end(&dry);
}

static void check_fixes(const api_function *f, const struct variant *v) {
  const int count = count_operands(f, v);
  for (int round = 0; round < 2 * count * FAULTS; round++) {
    const int d = round % 2, i = round / 2 % count, fault = round / 2 / count;
    const situ_device one = d ? there() : here(), other = d ? here() : there();
    situ_scope s;
    situ_scope_begin(&s);
    call c;
    make(&c, f, v, one);
    *c.at[i] = faulty(*c.at[i], one, other, fault);
    for (int k = 0; k < c.count; k++) (void)named(*c.at[k], k);
    try_dry(&c);
    try_fixes(&c, one, fault);
    situ_error_clear();
    situ_tensor *none = NULL;
    api_after(&c.world, &none, true);
    SITU_IGNORE(situ_scope_end(&s));
  }
}

static void every_proposed_fix_mends(void **state) {
  (void)state;
  sum = (struct tally){ 0 };
  (void)each_call(check_fixes);
  printf(
      "%d calls refused on %s and %s, %d fixes tried; without a fix: %d elsewhere, %d of another dtype, %d of both, %d without values\n",
      sum.refused, name_of(here()), name_of(there()), sum.tried, sum.without[ELSEWHERE], sum.without[OF_ANOTHER_DTYPE],
      sum.without[BOTH], sum.without[WITHOUT_VALUES]);
  assert_true(sum.tried > 300);
  assert_int_equal(sum.without[ELSEWHERE], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(every_proposed_fix_mends),
    PAIR_TEST(results_are_where_the_operands_are),
    PAIR_TEST(a_foreign_operand_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
