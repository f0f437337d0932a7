/* What a .pt2 file has and situ lacks is refused by its name, and by that of its node, the call, its place in the file, its
   module and its line of Python: each row of ATen's overloads gets arguments, dtypes and tensors that it does not take, in a
   program of its own.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/graph/bind.h"
#include "program/refusal.h"
#include "situ/situ.h"
#include "support/archive.h"

static const char path[] = "refused.pt2", site[] = "from model.py:12 in forward";
/* It is the graph's second node. */
static const char place[] = "graph.nodes[1]";

/* ---- a program of one call ---- */

typedef struct given {
  bool none, wrong;  /* no argument; texts for all */
  const char *extra; /* the name of one more argument */
  int dtype;         /* torch's number, for arguments that are dtypes */
  int input, dims;   /* the dtype and rank of x */
} given;

static char json[1 << 14];
static size_t length;
static void add(const char *fmt, ...) SITU_PRINTF(1, 2);
static void add(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  length += (size_t)vsnprintf(json + length, sizeof json - length, fmt, args);
  va_end(args);
  assert_true(length < sizeof json);
}

/* An argument of each type of parameter (src/program/graph/bind.c). */
static const struct {
  char type;
  const char *json;
} forms[] = {
  { 't', "{\"as_tensor\": {\"name\": \"x\"}}" },
  { 'x', "{\"as_tensor\": {\"name\": \"x\"}}" },
  { 'h', "{\"as_tensor\": {\"name\": \"x\"}}" },
  { 'T', "{\"as_tensors\": [{\"name\": \"x\"}]}" },
  { 'i', "{\"as_int\": 1}" },
  { 'I', "{\"as_ints\": [1]}" },
  { 'L', "{\"as_ints\": [1]}" },
  { 'n', "{\"as_int\": 1}" },
  { 'F', "{\"as_floats\": [1.5]}" },
  { 'b', "{\"as_bool\": true}" },
  { 's', "{\"as_string\": \"none\"}" },
  { 'S', "{\"as_strings\": [\"none\"]}" },
};

static const char *form_of(char type) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].type == type) return forms[i].json;
  fail_msg("no argument of type %c is known here", type);
  return NULL;
}

static void add_arguments(const situ__op_row *row, const given *g) {
  const char *name, *comma = "";
  int size;
  char type;
  for (int k = 0; !g->none && (type = situ__op_parameter(row, k, &name, &size)); k++) {
    if (type == '_') continue;
    add("%s{\"name\": \"%.*s\", \"arg\": ", comma, size, name);
    if (g->wrong) add("{\"as_string\": \"situ_nonsense\"}");
    else if (type == 'd') add("{\"as_scalar_type\": %d}", g->dtype);
    else if (name[size] == '(') /* the first of a few texts */
      add("{\"as_string\": \"%.*s\"}", (int)strcspn(name + size + 1, "|)"), name + size + 1);
    else add("%s", form_of(type));
    add(", \"kind\": 1}");
    comma = ", ";
  }
  if (g->extra) add("%s{\"name\": \"%s\", \"arg\": {\"as_int\": 1}, \"kind\": 1}", comma, g->extra);
}

static void add_node(const char *target, const char *name, const situ__op_row *row, const given *g) {
  add("{\"target\": \"%s\", \"name\": \"%s\", \"inputs\": [", target, name);
  if (row) add_arguments(row, g);
  else add("{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}, \"kind\": 1}");
  add("], \"outputs\": [");
  const int results = row ? row->results : 0;
  if (row && row->size)
    add(row->real ? "{\"as_sym_float\": {\"as_name\": \"s\"}}" : "{\"as_sym_int\": {\"as_name\": \"s\"}}");
  else if (results == SITU__RESULTS_LIST) add("{\"as_tensors\": [{\"name\": \"%s\"}]}", name);
  for (int i = 0; !(row && row->size) && i < (results ? results : 1); i++)
    add("%s{\"as_tensor\": {\"name\": \"%s%d\"}}", i ? ", " : "", name, i);
  add("], \"metadata\": {\"stack_trace\": \"File \\\"/a/model.py\\\", line 12, in forward\\n    y\", \"nn_module_stack\": "
      "\"L__self__,,__main__.M;L__self__fc,fc,torch.nn.Linear\"}}");
}

static situ_nn_module *load(const situ__op_row *row, const given *g) {
  static const char spec[] = "{\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}";
  length = 0;
  add("{\"graph_module\": {\"graph\": {\"inputs\": [%s], \"outputs\": [%s], \"nodes\": [", form_of('t'), form_of('t'));
  add_node("torch.ops.aten.clone.default", "before", NULL, g);
  add(", ");
  add_node(row->target, "the_node", row, g);
  add("], \"tensor_values\": {\"x\": {\"dtype\": %d, \"sizes\": [", g->input);
  for (int d = 0; d < g->dims; d++) add("%s{\"as_int\": %d}", d ? ", " : "", d % 2 ? 3 : 2);
  add("]}}}, \"signature\": {\"input_specs\": [{\"user_input\": %s}], \"output_specs\": [{\"user_output\": %s}]}, "
      "\"module_call_graph\": []}, \"schema_version\": {\"major\": 8, \"minor\": 1}, \"range_constraints\": {}}",
      spec, spec);
  assert_true(archive_save(path, json, length));
  return situ_export_load(path, NULL);
}

/* ---- each row ---- */

static const situ__op_family *const families[] = {
  &situ__elementwise_family, &situ__special_family, &situ__shape_family,    &situ__join_family,
  &situ__layers_family,      &situ__image_family,   &situ__reduce_family,   &situ__order_family,
  &situ__index_family,       &situ__make_family,    &situ__linalg_family,   &situ__loss_family,
  &situ__recurrent_family,   &situ__size_family,    &situ__backward_family, &situ__quantized_family,
};

static int each_row(int (*check)(const situ__op_row *row)) {
  int count = 0;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++) count += check(&families[f]->row[i]);
  return count;
}

static void expect_site(const situ__op_row *row, const char *what) {
  const char *said = situ_error_message();
  if (!strstr(said, site) || !strstr(said, "in fc")) fail_msg("%s: \"%s\" has no line of Python", row->target, said);
  expect_place(path, place, "the_node", row->target, what);
}

static void refuses(const situ__op_row *row, const given *g, const char *what) {
  if (load(row, g)) fail_msg("%s is loaded, without \"%s\"", row->target, what);
  expect_site(row, what);
}

static int refuse_arguments(const situ__op_row *row) {
  const given unknown = { .extra = "situ_unknown", .dtype = 7, .input = 7 };
  refuses(row, &unknown, "has an argument situ_unknown, which situ does not know");
  for (int k = 0; k < 2; k++) {
    if (!load(row, &(given){ .none = k, .wrong = !k, .dtype = 7, .input = 7 })) expect_site(row, NULL);
  }
  return 1;
}

static int refuse_dtypes(const situ__op_row *row) {
  static const struct {
    int number;
    const char *name;
  } lacking[] = { { 9, "complex32" },      { 10, "complex64" }, { 11, "complex128" }, { 28, "uint16" },
                  { 29, "float8_e4m3fn" }, { 34, "uint32" },    { 35, "uint64" },     { 99, "number 99" } };
  const char *name;
  int size, dtypes = 0;
  char type, what[64];
  for (int k = 0; (type = situ__op_parameter(row, k, &name, &size)); k++) dtypes += type == 'd';
  for (size_t i = 0; dtypes && i < sizeof lacking / sizeof *lacking; i++) {
    (void)snprintf(what, sizeof what, "uses the dtype %s, which this library lacks", lacking[i].name);
    refuses(row, &(given){ .dtype = lacking[i].number, .input = 7 }, what);
  }
  return dtypes ? (int)(sizeof lacking / sizeof *lacking) : 0;
}

/* One tensor as every one, of several dtypes and ranks. */
static int refuse_tensors(const situ__op_row *row) {
  static const int number[] = { 7, 5, 12 };
  static const situ_dtype same[] = { SITU_F32, SITU_I64, SITU_BOOL };
  int count = 0;
  for (int i = 0; i < 3; i++)
    for (int dims = 0; dims <= SITU_MAX_DIMS; dims += dims < 4 ? 1 : 4) {
      situ_scope scope;
      situ_scope_begin_no_grad(&scope);
      situ_shape shape = { .ndim = dims };
      for (int d = 0; d < dims; d++) shape.dim[d] = d % 2 ? 3 : 2;
      situ_nn_module *m = load(row, &(given){ .dtype = 7, .input = number[i], .dims = dims });
      if (!m) expect_site(row, NULL), count++;
      situ_tree *in = m ? SITU_TREE(situ_ones(shape, &(situ_options){ .dtype = same[i] })) : NULL;
      situ_tree *out = m ? situ_nn_call(m, in) : NULL;
      if (m && !out) expect_site(row, NULL), count++;
      situ_tree_free(out);
      situ_tree_free(in);
      situ_nn_free(m);
      SITU_IGNORE(situ_scope_end(&scope));
    }
  return count;
}

static void refuse_other_arguments(void **state) {
  (void)state;
  assert_true(each_row(refuse_arguments) > 700);
}

static void refuse_unknown_dtypes(void **state) {
  (void)state;
  assert_true(each_row(refuse_dtypes) >= 8 * 30);
}

static void refuse_other_tensors(void **state) {
  (void)state;
  const int count = each_row(refuse_tensors);
  print_message("%d refusals of tensors, %d in all\n", count, refusals);
  assert_true(count > 1000);
}

/* Forms in place, with out and as copies follow from a row, but not those that torch lacks. */
static void names_that_torch_lacks_are_unknown(void **state) {
  (void)state;
  static const char *const lacking[] = { "isclose_.default", "add__.Tensor",    "add_.out",
                                         "add_copy.Tensor",  "view_.default",   "special_erf_.default",
                                         "t_copy_.default",  "maximum_.default" };
  static const char *const there[] = { "add_.Tensor",      "add.out",         "t_.default",         "view_copy.default",
                                       "__iand__.Tensor",  "round_.decimals", "squeeze_copy.dims",  "multiply_.Tensor",
                                       "floor_divide.out", "erf_.default",    "unfold_copy.default" };
  situ__arena arena = { 0 };
  for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
    if (situ__op_row_for(&arena, lacking[i])) fail_msg("%s is known", lacking[i]);
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    if (!situ__op_row_for(&arena, there[i])) fail_msg("%s is unknown", there[i]);
  situ__arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(refuse_other_arguments),
    cmocka_unit_test(refuse_unknown_dtypes),
    cmocka_unit_test(refuse_other_tensors),
    cmocka_unit_test(names_that_torch_lacks_are_unknown),
  };
  situ_error_mode(SITU_ERROR_QUIET);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
