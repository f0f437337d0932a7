/* Files of .pt2 that ask for what does not end, does not fit, or is nothing: each loads and runs, or is refused in words.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "situ/situ.h"
#include "support/archive.h"

/* A program of one input x, f32. The texts have ' for ". */
typedef struct hostile {
  const char *sizes, *ranges; /* of x, and of the symbol s0; NULL: 2 and 3, and any */
  const char *nodes;          /* the last gives y */
  const char *says;           /* the error; NULL: it runs */
} hostile;

#define FREE "{'as_expr':{'expr_str':'Symbol(\\'s0\\', positive=True, integer=True)'}}"
#define TIMES(n) "{'as_expr':{'expr_str':'Mul(Integer(" n "), Symbol(\\'s0\\', positive=True, integer=True))'}}"
#define NAMED(name, arg) "{'name':'" name "','arg':{" arg "}}"
#define TENSOR(name) "'as_tensor':{'name':'" name "'}"
#define X(name) NAMED(name, TENSOR("x"))
#define INT(name, value) NAMED(name, "'as_int':" value)
#define INTS(name, values) NAMED(name, "'as_ints':[" values "]")
#define CALL(target, inputs, outputs) \
  "{'target':'" target "','name':'here','inputs':[" inputs "],'outputs':[" outputs "],'metadata':{}}"
#define GIVES(target, inputs) CALL(target, inputs, "{" TENSOR("y") "}")
#define RELU GIVES("torch.ops.aten.relu.default", X("self"))
#define GRAPH(name, inputs, nodes, outputs) \
  "'as_graph':{'name':'" name "','graph':{'inputs':[" inputs "],'outputs':[" outputs "],'nodes':[" nodes "]}}"

static situ_nn_module *load(const hostile *h, int64_t most) {
  char model[8192];
  const int length = snprintf(
      model, sizeof model,
      "{'graph_module':{'graph':{'inputs':[],'outputs':[],'nodes':[%s],'tensor_values':{'x':{'dtype':7,'sizes':[%s]}}},"
      "'signature':{'input_specs':[{'user_input':{'arg':{" TENSOR(
          "x") "}}}],"
               "'output_specs':[{'user_output':{'arg':{" TENSOR(
                   "y") "}}}]},'module_call_graph':[]},"
                        "'range_constraints':{'s0':{%s}},'schema_version':{'major':8,'minor':20}}",
      h->nodes, h->sizes ? h->sizes : "{'as_int':2},{'as_int':3}", h->ranges ? h->ranges : "");
  assert_true(length > 0 && length < (int)sizeof model);
  for (int i = 0, k = 0; i <= length; i++) { /* \' stays */
    const bool kept = model[i] == '\\';
    if (kept) i++;
    model[k++] = model[i] == '\'' && !kept ? '"' : model[i];
    if (i == length) break;
  }
  assert_true(archive_save("hostile.pt2", model, strlen(model)));
  return situ_export_load("hostile.pt2", &(situ_load_options){ .max_iterations = most });
}

static void expect(const hostile *h, situ_tensor *x) {
  situ_nn_module *m = load(h, 100);
  situ_tensor *y = m ? situ_nn_forward(m, x) : NULL;
  if (h->says && y) fail_msg("a file that must say \"%s\" runs", h->says);
  if (h->says && !strstr(situ_error_message(), h->says))
    fail_msg("\"%s\" does not say \"%s\"", situ_error_message(), h->says);
  if (!h->says && !y) fail_msg("%s: %s", h->nodes, situ_error_message());
  situ_error_clear();
  situ_nn_free(m);
}

static void expect_each(const hostile *h, size_t count, situ_shape shape) {
  for (size_t i = 0; i < count; i++) expect(&h[i], situ_ones(shape, NULL));
}
#define EXPECT_EACH(list, shape) expect_each(list, sizeof(list) / sizeof *(list), shape)

static void sizes_that_no_number_has(void **state) {
  (void)state;
  static const hostile list[] = {
    { TIMES("0"), "", RELU, NULL },
    { TIMES("-3"), "", RELU, NULL },
    { TIMES("4611686018427387904"), "", RELU, NULL },
    { TIMES("99999999999999999999999"), "", RELU, NULL },
    { TIMES("4"), "'min_val':4611686018427387904", RELU, NULL },
    { TIMES("4"), "'max_val':9223372036854775807", RELU, "with s0 in 0 or more, a multiple of 4" },
    { FREE, "'min_val':9,'max_val':4", RELU, "with s0 in 9..4" },
    { FREE, "'min_val':9223372036854775807,'max_val':9223372036854775807", RELU,
      "with s0 in 9223372036854775807 or more" },
    { FREE, "'min_val':-9223372036854775808,'max_val':-1", RELU, "with s0 in 0..-1" },
  };
  EXPECT_EACH(list, SITU_SHAPE(6));
}

/* A while_loop whose condition is x > -1, and whose body is relu(x). */
#define ARG "{" TENSOR("a") "}"
#define ENDLESS                                                                                                  \
  GIVES(                                                                                                         \
      "torch.ops.higher_order.while_loop",                                                                       \
      NAMED(                                                                                                     \
          "",                                                                                                    \
          GRAPH(                                                                                                 \
              "c", ARG,                                                                                          \
              CALL("torch.ops.aten.gt.Scalar", NAMED("self", TENSOR("a")) "," INT("other", "-1"),                \
                   "{" TENSOR("g") "}") "," CALL("torch.ops.aten.all.default", NAMED("self", TENSOR("g")),       \
                                                 "{" TENSOR("l") "}"),                                           \
              "{" TENSOR(                                                                                        \
                  "l") "}")) "," NAMED("",                                                                       \
                                       GRAPH(                                                                    \
                                           "b", ARG,                                                             \
                                           CALL("torch.ops.aten.relu.default", NAMED("self", TENSOR("a")),       \
                                                "{" TENSOR("r") "}"),                                            \
                                           "{" TENSOR(                                                           \
                                               "r") "}")) "," NAMED("",                                          \
                                                                    "'as_tensors':[{'name':'x'}]") "," NAMED("", \
                                                                                                             "'as_tensors':[]"))

/* As it is, traced, and as the traced program was written. */
static void a_while_loop_that_never_ends(void **state) {
  (void)state;
  static const hostile endless = { NULL, NULL, ENDLESS, "loops run more than 100 iterations in one call" };
  expect(&endless, situ_ones(SITU_SHAPE(2, 3), NULL));
  situ_nn_module *m = load(&endless, 100);
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 3), NULL));
  situ_nn_module *traced = situ_export(m, in);
  if (!traced) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_export_save(traced, "traced.pt2"), SITU_OK);
  assert_int_equal(situ_onnx_export(traced, "traced.onnx", NULL), SITU_OK);
  static const char *const files[] = { "traced.pt2", "traced.onnx" };
  for (int i = 0; i < 2; i++) {
    situ_nn_module *again = situ_export_load(files[i], &(situ_load_options){ .max_iterations = 100 });
    if (!again) fail_msg("%s", situ_error_message());
    assert_null(situ_nn_call(again, in));
    assert_non_null(strstr(situ_error_message(), "loops run more than 100 iterations"));
    situ_error_clear();
    situ_nn_free(again);
  }
  situ_tree_free(in);
  situ_nn_free(traced);
  situ_nn_free(m);
}

#define BRANCH(outputs) \
  GRAPH("g", ARG, CALL("torch.ops.aten.relu.default", NAMED("self", TENSOR("a")), "{" TENSOR("r") "}"), outputs)
#define COND(one, other, outputs)                                                                    \
  CALL("torch.ops.aten.any.default", X("self"), "{" TENSOR("l") "}")                                 \
  "," CALL("torch.ops.higher_order.cond",                                                            \
           NAMED("", TENSOR("l")) "," NAMED("", BRANCH(one)) "," NAMED("", BRANCH(other)) "," NAMED( \
               "", "'as_tensors':[{'name':'x'}]"),                                                   \
           outputs)
#define R "{" TENSOR("r") "}"
#define A "{" TENSOR("a") "}"
#define Y "{" TENSOR("y") "}"

static void branches_of_unlike_counts(void **state) {
  (void)state;
  static const hostile list[] = {
    { NULL, NULL, COND(R, A, Y), NULL },
    { NULL, NULL, COND(R "," A, A, Y), "whose branches give 2 and 1 results" },
    { NULL, NULL, COND(R, A "," R, Y), "whose branches give 1 and 2 results" },
    { NULL, NULL, COND(R, "", Y), "whose branches give 1 and 0 results" },
    { NULL, NULL, COND("", "", Y), "has a block of too few results" },
    { NULL, NULL, COND(R, A, Y ",{" TENSOR("z") "}"), "has a block of too few results" },
  };
  EXPECT_EACH(list, SITU_SHAPE(2, 3));
}

/* Gradients of ATen with lists that do not fit their operands. */
static void gradients_by_lists_of_wrong_lengths(void **state) {
  (void)state;
#define WINDOWS(stride, padding, dilation)                                                                         \
  INTS("stride", stride)                                                                                           \
  "," INTS("padding", padding) "," INTS("dilation", dilation) "," NAMED("transposed", "'as_bool':false") "," INTS( \
      "output_padding", "0") "," INT("groups", "1") "," NAMED("output_mask", "'as_bools':[true,true,true]")
#define CONVOLUTION(sizes, windows)                    \
  GIVES("torch.ops.aten.convolution_backward.default", \
        X("grad_output") "," X("input") "," X("weight") "," INTS("bias_sizes", sizes) "," windows)
#define SLICE(sizes)                                                                                       \
  GIVES("torch.ops.aten.slice_backward.default",                                                           \
        X("grad_output") "," INTS("input_sizes", sizes) "," INT("dim", "0") "," INT("start", "0") "," INT( \
            "end", "2") "," INT("step", "1"))
#define NINE "1,1,1,1,1,1,1,1,1"
  static const hostile list[] = {
    { NULL, NULL, CONVOLUTION("1", WINDOWS("1,1,1,1,1", "0", "1")),
      "has a weight that is not of 1 to 3 spatial dimensions" },
    { NULL, NULL, CONVOLUTION("1", WINDOWS("1", NINE, "1")), "at most 8 whole numbers as padding, and is given 9" },
    { NULL, NULL, CONVOLUTION("", WINDOWS("", "", "")), "has a weight that is not of 1 to 3 spatial dimensions" },
    { NULL, NULL, CONVOLUTION(NINE "," NINE, WINDOWS("1", "0", "1")), "as bias_sizes, and is given 18" },
    { NULL, NULL, SLICE("2,3"), NULL },
    { NULL, NULL, SLICE("2"), "gradient is f32 [2, 3], the tensor f32 [2]" },
    { NULL, NULL, SLICE(""), "a 0-dim tensor has no dimension to pick from" },
    { NULL, NULL, SLICE("2,3,4"), "the tensor f32 [2, 3, 4]" },
    { NULL, NULL, SLICE("4611686018427387904,3"), "has more than 2^63 elements" },
    { NULL, NULL, SLICE(NINE), "as input_sizes, and is given 9" },
    { NULL, NULL,
      GIVES("torch.ops.aten.native_layer_norm_backward.default",
            X("grad_out") "," X("input") "," INTS("normalized_shape", "3,3,3") "," X("mean") "," X("rstd") "," X(
                "weight") "," X("bias") "," NAMED("output_mask", "'as_bools':[]")),
      "has no elements to normalize" },
    { NULL, NULL,
      GIVES(
          "torch.ops.aten.value_selecting_reduction_backward.default",
          X("grad") "," INT("dim", "7") "," X("indices") "," INTS("sizes", "") "," NAMED("keepdim", "'as_bool':true")),
      "reshape" },
  };
  EXPECT_EACH(list, SITU_SHAPE(2, 3));
}

/* The result's memory is an operand's, of another shape, or nothing that can be written. */
static void results_that_are_operands(void **state) {
  (void)state;
#define ADD(out) GIVES("torch.ops.aten.add.out", X("self") "," X("other") "," NAMED("out", out))
#define VIEW(target, more) CALL(target, X("self") more, "{" TENSOR("v") "}") ","
  static const hostile list[] = {
    { NULL, NULL, ADD(TENSOR("x")), NULL },
    { NULL, NULL, VIEW("torch.ops.aten.t.default", "") ADD(TENSOR("v")), "has an out of another size than its result" },
    { NULL, NULL, VIEW("torch.ops.aten.expand.default", "," INTS("size", "5,2,3")) ADD(TENSOR("v")),
      "has an out of another size than its result" },
    { NULL, NULL, VIEW("torch.ops.aten.bitwise_not.default", "") ADD(TENSOR("v")),
      "input is f32, must be an integer dtype or bool" },
    { NULL, NULL, ADD("'as_none':true"), "needs a tensor as out" },
    { NULL, NULL, ADD("'as_int':4"), "needs a tensor as out" },
    { NULL, NULL, /* whose last parameters are a list's */
      CALL("torch.ops.aten.full.default", INTS("size", "1,1,4,6") "," INT("fill_value", "0"),
           "{" TENSOR("z") "}") "," VIEW("torch.ops.aten.view.default", "," INTS("size", "1,1,2,3"))
          GIVES("torch.ops.aten.upsample_nearest2d.out",
                NAMED("self", TENSOR("v")) "," INTS("output_size", "4,6") "," NAMED("out", TENSOR("z"))),
      NULL },
  };
  EXPECT_EACH(list, SITU_SHAPE(2, 3));
}

/* torch's clamp gives the largest number where the smallest is above it. */
static void bounds_that_are_the_wrong_way_round(void **state) {
  (void)state;
#define QUANTIZE(scale, zero, low, high, dtype)                                                 \
  GIVES("torch.ops.quantized_decomposed.quantize_per_tensor.default",                           \
        X("input") "," NAMED("scale", "'as_float':" scale) "," INT("zero_point", zero) "," INT( \
            "quant_min", low) "," INT("quant_max", high) "," NAMED("dtype", "'as_scalar_type':" dtype))
  static const hostile round = { NULL, NULL, QUANTIZE("0.1", "3", "100", "-7", "2"), NULL };
  situ_nn_module *m = load(&round, 0);
  double value = 0;
  assert_int_equal(situ_item(situ_sum(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 3), NULL)), NULL), &value), SITU_OK);
  assert_true(value == -42);
  situ_nn_free(m);
  static const hostile list[] = {
    { NULL, NULL, QUANTIZE("0.0", "0", "-128", "127", "2"), NULL },
    { NULL, NULL, QUANTIZE("'NaN'", "0", "-128", "127", "2"), NULL },
    { NULL, NULL, QUANTIZE("1.0", "9223372036854775807", "-9223372036854775808", "9223372036854775807", "5"),
      "a whole number beyond 2^53" },
    { NULL, NULL, QUANTIZE("1.0", "0", "-1000", "1000", "1"), NULL },
    { NULL, NULL, QUANTIZE("1.0", "0", "0", "255", "99"), "uses the dtype number 99" },
  };
  EXPECT_EACH(list, SITU_SHAPE(2, 3));
}

static void lists_that_are_too_long(void **state) {
  (void)state;
#define SPLIT(target, name, number) CALL(target, X("self") "," INT(name, number), "{'as_tensors':[{'name':'y'}]}")
#define MANY "2147483648"
  static const hostile list[] = {
    { NULL, NULL, SPLIT("torch.ops.aten.chunk.default", "chunks", MANY),
      "gives another number of pieces than in the file" },
    { NULL, NULL, SPLIT("torch.ops.aten.split.Tensor", "split_size", "0"), "size 0 must be positive" },
    { NULL, NULL, SPLIT("torch.ops.aten.split.Tensor", "split_size", MANY), NULL },
    { NULL, NULL, SPLIT("torch.ops.aten.unbind.int", "dim", "4294967296"), "dimension 2147483647 is outside -2..1" },
    { NULL, NULL, SPLIT("torch.ops.aten.unbind.int", "dim", MANY), "dimension 2147483647 is outside -2..1" },
    { NULL, NULL,
      CALL("torch.ops.aten.expand.default", X("self") "," INTS("size", MANY ",2,3"), "{" TENSOR("v") "}") "," CALL(
          "torch.ops.aten.unbind.int", NAMED("self", TENSOR("v")), "{'as_tensors':[{'name':'y'}]}"),
      "gives another number of pieces than in the file" },
    { NULL, NULL, GIVES("torch.ops.aten.repeat.default", X("self") "," INTS("repeats", MANY "," MANY)),
      "has more than 2^63 elements" },
    { NULL, NULL, GIVES("torch.ops.aten.tile.default", X("self") "," INTS("dims", "1,1,1,1,1,1,1,1,1,1,1")),
      "as dims, and is given 11" },
  };
  EXPECT_EACH(list, SITU_SHAPE(2, 3));
}

static situ_scope scope;

static int open_scope(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  situ_scope_begin_no_grad(&scope);
  return 0;
}
static int close_scope(void **state) {
  (void)state;
  SITU_IGNORE(situ_scope_end(&scope));
  return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(sizes_that_no_number_has),  TEST(a_while_loop_that_never_ends),
    TEST(branches_of_unlike_counts), TEST(gradients_by_lists_of_wrong_lengths),
    TEST(results_that_are_operands), TEST(bounds_that_are_the_wrong_way_round),
    TEST(lists_that_are_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
