/* situ run, inspect, plan and convert of programs: what they print, write and refuse, and their exit status.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program/onnx/message.h"
#include "situ/situ.h"

static char program[4096], data[4096], output[1 << 16];

/* Runs the program with these arguments, where DATA is the directory of exported programs; output gets both streams.
   Returns the exit status. */
static int run(const char *arguments) {
  char command[16384];
  int length = snprintf(command, sizeof command, "{ DATA='%s'; '%s' %s; } 2>&1", data, program, arguments);
  assert_true(length < (int)sizeof command);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t got = fread(output, 1, sizeof output - 1, pipe);
  output[got] = '\0';
  int status = pclose(pipe);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void says(const char *what) {
  if (!strstr(output, what)) fail_msg("no '%s' in:\n%s", what, output);
}

static void does(const char *arguments) {
  if (run(arguments) != 0) fail_msg("situ %s:\n%s", arguments, output);
}

/* Inputs, and the result of the same program in this process. */
static situ_tensor *make_inputs(void) {
  char path[8192];
  situ_manual_seed(3);
  situ_tensor *x = situ_randn(SITU_SHAPE(5, 6), NULL);
  assert_int_equal(situ_npy_save("x.npy", x, NULL), SITU_OK);
  assert_int_equal(situ_npy_save("x64.npy", situ_to_dtype(x, SITU_F64), NULL), SITU_OK);
  assert_int_equal(situ_npy_save("wide.npy", situ_randn(SITU_SHAPE(5, 7), NULL), NULL), SITU_OK);
  (void)snprintf(path, sizeof path, "%s/mlp.pt2", data);
  situ_nn_module *m = situ_export_load(path, NULL);
  assert_non_null(m);
  situ_tensor *y = situ_nn_forward(situ_nn_eval(m), x);
  assert_non_null(y);
  situ_nn_free(m);
  return y;
}

static bool file_is(const char *path, situ_tensor *want) {
  bool close = false;
  situ_tensor *got = situ_npy_load(path, NULL);
  assert_non_null(got);
  assert_int_equal(situ_allclose(got, want, 1e-6, 1e-6, false, &close), SITU_OK);
  return close;
}

static void runs_programs(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *y = make_inputs();
  does("run \"$DATA\"/mlp.pt2 --input x.npy --output pt2");
  says("output  f32 [5, 3]  -> pt2/output.npy\n");
  says(" on cpu; peak ");
  assert_true(file_is("pt2/output.npy", y));
  does("run \"$DATA\"/mlp.onnx --input=input=x.npy --output=onnx --bench");
  says("linear_2  f32 [5, 3]  -> onnx/linear_2.npy\n");
  says("latency of ");
  says(", p50 ");
  does("run \"$DATA\"/mlp.onnx --input x.npy --profile --trace trace.json");
  says(" launches and copies\n");
  says("  linear (small)\n");
  assert_int_equal(access("trace.json", R_OK), 0);
  does("run \"$DATA\"/mlp.onnx --input x.npy --output sim --device sim:pci=5170:00:00.0");
  assert_true(situ_npy_load("onnx/linear_2.npy", NULL) &&
              file_is("sim/linear_2.npy", situ_npy_load("onnx/linear_2.npy", NULL)));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static void inspects_programs(void **state) {
  (void)state;
  does("inspect \"$DATA\"/tiny-bert.pt2");
  says("  attention_mask  i64 [");
  says("\n  last_hidden_state\n  pooler_output\n");
  says(" linear.default\n");
  says("LayerNorm: LayerNorm");
  says("pt2, 23 parameters and 2 buffers, ");
  does("inspect \"$DATA\"/mlp.onnx");
  says("5 calls of 3 operators\n       3  Gemm\n");
  does("plan \"$DATA\"/mlp.onnx --memory cuda:0=100,cpu=1GiB --shape input=64,6");
  says("inputs    input [64, 6]\n");
  says("cuda:0         100 B    1.7 KiB        0 B");
  says("does not fit\n");
  says("map       *=cpu\n");
  assert_int_equal(run("plan \"$DATA\"/mlp.pt2 --memory cpu=100"), 1);
  says("fits on no device");
}

static void prints_json(void **state) {
  (void)state;
  static const char *const calls[] = { "inspect --json \"$DATA\"/tiny-bert.pt2",
                                       "inspect --json \"$DATA\"/mlp.onnx",
                                       "plan --json \"$DATA\"/mlp.pt2 --memory cpu=1GiB",
                                       "run --json \"$DATA\"/mlp.onnx --input x.npy --output json --bench",
                                       "run --json \"$DATA\"/mlp.onnx --input x.npy --profile",
                                       "convert --json \"$DATA\"/mlp.onnx j.safetensors",
                                       "inspect --json lacks.onnx 2>/dev/null" };
  /* ModelProto with ir_version 8, opset 17, and a node Nonsense from x to y. */
  static const char lacks[] = "\x08\x08\x42\x02\x10\x11\x3a\x24\x0a\x10\x0a\x01x\x12\x01y\x22\x08Nonsense"
                              "\x5a\x0b\x0a\x01x\x12\x06\x0a\x04\x08\x01\x12\x00\x62\x03\x0a\x01y";
  FILE *f = fopen("lacks.onnx", "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(lacks, 1, sizeof lacks - 1, f), sizeof lacks - 1);
  fclose(f);
  if (system("command -v python3 >/dev/null") != 0) skip();
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    char arguments[512];
    (void)snprintf(arguments, sizeof arguments, "%s | python3 -m json.tool >/dev/null && echo fine", calls[i]);
    run(arguments);
    if (strcmp(output, "fine\n") != 0) fail_msg("%s: %s", calls[i], output);
  }
}

/* Results output_2, a/b and a_b are three files. */
static void tells_names_apart(void **state) {
  /* output_2 = Exp(x), a/b = Neg(x), a_b = Abs(x), of f32 [2, 3] */
  static const unsigned char model[] = {
    0x08, 0x0e, 0x3a, 0x76, 0x0a, 0x12, 0x0a, 0x01, 0x78, 0x12, 0x08, 0x6f, 0x75, 0x74, 0x70, 0x75, 0x74, 0x5f, 0x32,
    0x22, 0x03, 0x45, 0x78, 0x70, 0x0a, 0x0d, 0x0a, 0x01, 0x78, 0x12, 0x03, 0x61, 0x2f, 0x62, 0x22, 0x03, 0x4e, 0x65,
    0x67, 0x0a, 0x0d, 0x0a, 0x01, 0x78, 0x12, 0x03, 0x61, 0x5f, 0x62, 0x22, 0x03, 0x41, 0x62, 0x73, 0x12, 0x01, 0x67,
    0x5a, 0x13, 0x0a, 0x01, 0x78, 0x12, 0x0e, 0x0a, 0x0c, 0x08, 0x01, 0x12, 0x08, 0x0a, 0x02, 0x08, 0x02, 0x0a, 0x02,
    0x08, 0x03, 0x62, 0x10, 0x0a, 0x08, 0x6f, 0x75, 0x74, 0x70, 0x75, 0x74, 0x5f, 0x32, 0x12, 0x04, 0x0a, 0x02, 0x08,
    0x01, 0x62, 0x0b, 0x0a, 0x03, 0x61, 0x2f, 0x62, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x62, 0x0b, 0x0a, 0x03, 0x61,
    0x5f, 0x62, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x12
  };
  situ_scope scope;
  (void)state;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_randn(SITU_SHAPE(2, 3), NULL);
  assert_int_equal(situ_npy_save("two.npy", x, NULL), SITU_OK);
  FILE *f = fopen("names.onnx", "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(model, 1, sizeof model, f), sizeof model);
  assert_int_equal(fclose(f), 0);
  does("run names.onnx --input two.npy --output names");
  says("situ: result 'a_b' is named output_5.npy, since a_b.npy is another result's\n");
  assert_true(file_is("names/output_2.npy", situ_exp(x)) && file_is("names/a_b.npy", situ_neg(x)) &&
              file_is("names/output_5.npy", situ_abs(x)));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* A file with a size in multiples of 4. */
static void make_steps(void) {
  const situ_export_dim dim = { .dim = 2, .name = "height", .multiple = 4 };
  situ_nn_module *m = situ_nn_sequential(situ_nn_pixel_unshuffle(4), situ_nn_relu());
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(1, 1, 8, 8), NULL));
  situ_nn_module *traced = situ_export_dynamic(m, inputs, &dim, 1);
  assert_int_equal(situ_export_save(traced, "steps.pt2"), SITU_OK);
  situ_nn_free(traced);
  situ_tree_free(inputs);
  situ_nn_free(m);
}

static void converts(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *y = make_inputs();
  does("convert \"$DATA\"/mlp.pt2 c.safetensors");
  does("inspect c.safetensors");
  says("safetensors, 6 tensors, 435 elements, ");
  does("convert \"$DATA\"/mlp.onnx c.pt2 --shape 5,6");
  does("inspect c.pt2");
  says("input  f32 [s31, 6]");
  does("convert \"$DATA\"/../pt2/drawn/d100423.pt2 fixed.pt2 --shape x=4,3,4");
  says("note: s77 is fixed (see --shape) at 4 in the new file: export_dynamic: 1 calls cannot be written: mul.Scalar");
  make_steps();
  does("convert steps.pt2 again.pt2");
  does("inspect again.pt2");
  says("[1, 1, height, 8]  height in steps of 4");
  does("run c.pt2 --input x.npy --output converted");
  does("run \"$DATA\"/mlp.onnx --input x.npy --output onnx");
  assert_true(file_is("converted/output.npy", situ_npy_load("onnx/linear_2.npy", NULL)));
  does("convert \"$DATA\"/mlp.pt2 c.onnx");
  does("run c.onnx --input x.npy --output exported");
  assert_true(file_is("exported/output.npy", y));
  does("convert \"$DATA\"/mlp.onnx c.onnx");
  does("run c.onnx --input x.npy --output again");
  assert_true(file_is("again/linear_2.npy", situ_npy_load("onnx/linear_2.npy", NULL)));
  does("convert x.npy c.safetensors");
  does("convert c.safetensors y.npy");
  assert_true(file_is("y.npy", situ_npy_load("x.npy", NULL)));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* MaxPool of [?, 3, ?, ?] by a kernel of 33 x 33. */
static void write_pool(void) {
  static const unsigned char type[] = { 0x0a, 14, 0x08, 0x01, 0x12, 10, 0x0a, 0, 0x0a, 2, 0x08, 3, 0x0a, 0, 0x0a, 0 };
  message model = { .length = 0 }, graph = { .length = 0 }, value = { .length = 0 }, kernel = { .length = 0 };
  put_text(&kernel, 1, "kernel_shape");
  for (int i = 0; i < 2; i++) put_int(&kernel, 8, 33);
  put_int(&kernel, 20, 7);
  put_node(&graph, "MaxPool", "image", NULL, "y", &kernel);
  put_text(&value, 1, "image");
  put_bytes(&value, 2, type, sizeof type);
  put_message(&graph, INPUT, &value);
  put_any(&graph, OUTPUT, "y");
  message import = { .length = 0 };
  put_int(&import, 2, 17);
  put_int(&model, 1, 8);
  put_message(&model, 8, &import);
  put_message(&model, 7, &graph);
  FILE *f = fopen("pool.onnx", "wb");
  assert_non_null(f);
  assert_true(fwrite(model.data, 1, model.length, f) == model.length);
  assert_int_equal(fclose(f), 0);
}

/* A program that fails at the smallest sizes that its file allows is shown at others, and with the node that failed; no
   line of the tool's own source is. */
static void tells_where_and_at_which_sizes(void **state) {
  (void)state;
  static const char *const calls[] = { "convert pool.onnx pool.pt2", "plan pool.onnx --memory cpu=1GiB" };
  write_pool();
  for (int i = 0; i < 2; i++) {
    assert_int_equal(run(calls[i]), 1);
    says("it runs with --shape image=1,3,64,64\n");
    assert_null(strstr(output, "   at "));
  }
  assert_int_equal(run("convert pool.onnx pool.pt2 --shape image=1,3,1,9"), 1);
  says("in the outermost module, MaxPool of pool.onnx, graph.node[0] \"here\"\n");
  assert_null(strstr(output, "it runs with"));
  does("convert pool.onnx pool.pt2 --shape image=1,3,64,64");
  situ_scope scope;
  situ_scope_begin(&scope);
  assert_int_equal(situ_npy_save("one.npy", situ_ones(SITU_SHAPE(1, 3, 1, 1), NULL), NULL), SITU_OK);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(run("run pool.onnx --input one.npy"), 1);
  says("in the outermost module, MaxPool of pool.onnx, graph.node[0] \"here\"\n");
}

static void tells_what_went_wrong(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    int status;
    const char *text;
  } cases[] = {
    { "run", 2, "missing MODEL" },
    { "run a.onnx b.onnx", 2, "too many arguments: 'b.onnx'" },
    { "run \"$DATA\"/mlp.onnx", 2, "needs --input input=FILE.npy" },
    { "run \"$DATA\"/mlp.onnx --input", 2, "missing value" },
    { "run \"$DATA\"/mlp.onnx --bench=3", 2, "unknown option '--bench=3'" },
    { "run \"$DATA\"/mlp.onnx --memory cpu=1", 2, "unknown option '--memory'" },
    { "run \"$DATA\"/mlp.onnx --input y=x.npy", 2, "no input 'y'; its inputs are input\n" },
    { "run \"$DATA\"/tiny-bert.pt2 --input ids=x.npy", 2, "its inputs are input_ids, attention_mask\n" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --input x.npy", 2, "one too many" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --input input=x.npy", 2, "given twice" },
    { "run \"$DATA\"/mlp.onnx --input x64.npy", 1, "x64.npy is <f8 [5, 6], but input input is f32" },
    { "run \"$DATA\"/mlp.onnx --input wide.npy", 1, "is f32 [5, 7], but the program takes f32 [" },
    { "run \"$DATA\"/mlp.onnx --input none.npy", 1, "No such file" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --device gpu", 2, "'gpu' is not a device" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --device meta", 2, "'meta' is not a device" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --device plan:0", 2, "'plan:0' is not a device" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --device sim:99", 1, "sim:99 is not available" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --device sim:pci=0000:65:00.0", 1, "; there are: sim:0 5170:00:00.0" },
    { "run \"$DATA\"/mlp.onnx --input x.npy --output x.npy/a", 1, "cannot make the directory" },
    { "run x.npy --input x.npy", 1, "is neither" },
    { "run none.onnx", 1, "No such file" },
    { "run lacks.onnx", 1, "lacks: Nonsense (opset 17); export it with operators that docs/onnx.md lists\n" },
    { "inspect lacks.onnx", 1, "lacks: Nonsense (opset 17)" },
    { "inspect --verify \"$DATA\"/mlp.onnx", 2, "not for programs" },
    { "inspect x.onnx", 1, "No such file" },
    { "plan \"$DATA\"/mlp.onnx --memory cpu=1GiB --shape 5,x", 2, "is not NAME=SIZE" },
    { "plan \"$DATA\"/mlp.onnx --memory cpu=1GiB --shape 5,", 2, "is not NAME=SIZE" },
    { "plan \"$DATA\"/mlp.onnx --memory cpu=1GiB --shape y=5", 2, "its inputs are input\n" },
    { "plan \"$DATA\"/mlp.onnx --memory cpu=1GiB --shape 5,7", 1, "but the program takes f32 [" },
    { "plan c.safetensors --memory cpu=1GiB --shape 5,7", 2, "--shape is for programs" },
    { "convert x.npy", 2, "missing TO" },
    { "convert \"$DATA\"/mlp.pt2 y.safetensors --shape 5,6", 2, "--shape is for writing .pt2" },
    { "convert x.npy y.npz", 2, "cannot write 'y.npz'; what can be is .safetensors" },
    { "convert x.txt y.npy", 2, "cannot read 'x.txt'; what can be is .safetensors" },
    { "convert x.npy y.pt2", 1, "no program" },
    { "convert \"$DATA\"/mlp.pt2 y.npy", 1, "holds one array" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = run(cases[i].arguments);
    if (status != cases[i].status) fail_msg("situ %s: %d\n%s", cases[i].arguments, status, output);
    says(cases[i].text);
  }
}

/* The program lies beside the tests in the build directory; there is none, or no ONNX, in some builds. */
static bool find_program(void) {
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(data, sizeof data, "%s/program/data", root ? root : ".");
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
  if (length <= 0) return false;
  program[length] = '\0';
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(program, '/');
    if (slash) *slash = '\0';
  }
  strcat(program, "/cli/situ");
  if (access(program, X_OK) != 0) return false;
  setenv("SITU_SIM", "2", 1);
  return run("inspect \"$DATA\"/mlp.onnx") == 0 || !strstr(output, "was built without");
}

int main(void) {
  if (!find_program()) return 77;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(runs_programs),
    cmocka_unit_test(inspects_programs),
    cmocka_unit_test(prints_json),
    cmocka_unit_test(tells_names_apart),
    cmocka_unit_test(converts),
    cmocka_unit_test(tells_what_went_wrong),
    cmocka_unit_test(tells_where_and_at_which_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
