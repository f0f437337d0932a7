/* The program situ, run as a user runs it: what it prints, and its exit status.
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

#include "situ/io.h"
#include "situ/ops.h"

static char program[4096];
static char output[65536];

/* Runs the program with these arguments (for the shell); output gets both streams. Returns the exit
   status. */
static int run(const char *arguments) {
  char command[8192];
  snprintf(command, sizeof command, "{ '%s' %s; } 2>&1", program, arguments);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t length = fread(output, 1, sizeof output - 1, pipe);
  output[length] = '\0';
  int status = pclose(pipe);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void says(const char *what) {
  if (!strstr(output, what)) fail_msg("no '%s' in:\n%s", what, output);
}

static void does_not_say(const char *what) {
  if (strstr(output, what)) fail_msg("'%s' in:\n%s", what, output);
}

static void make_files(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  const situ_options i64 = { .dtype = SITU_I64 };
  situ_tree *tree =
      situ_tree_put(situ_tree_dict(), "fc.weight", situ_tree_tensor(situ_ones(SITU_SHAPE(64, 784), NULL)));
  tree = situ_tree_put(tree, "steps", situ_tree_tensor(situ_ones(SITU_SCALAR, &i64)));
  tree = situ_tree_put(tree, "od\033[31md\n", situ_tree_tensor(situ_ones(SITU_SHAPE(0), NULL)));
  const situ_metadata remark = { "made \"by\"", "a test\033" };
  assert_int_equal(situ_save("t.safetensors", tree, &(situ_save_options){ .metadata = &remark, .metadata_count = 1 }),
                   SITU_OK);
  assert_int_equal(situ_save("t.index.json", tree, &(situ_save_options){ .max_shard_bytes = 10 }), SITU_OK);
  assert_int_equal(situ_npy_save("-t.npy", situ_ones(SITU_SHAPE(3, 4), &i64), NULL), SITU_OK);
  situ_tree_free(tree);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static void inspects_safetensors(void **state) {
  (void)state;
  assert_int_equal(run("inspect t.safetensors"), 0);
  says("fc.weight");
  says("F32    [64, 784]   196.0 KiB\n");
  says("I64    []                8 B\n");
  says("safetensors, 3 tensors, 50177 elements, 196.0 KiB\n");
  says("metadata  made \"by\" = a test?\n");
  /* What a file says must not steer the terminal. */
  says("od?[31md?");
  does_not_say("\033");
  does_not_say("situ.crc32c");
  assert_int_equal(run("inspect --verify t.safetensors"), 0);
  says("all checksums match\n");
  assert_int_equal(run("inspect t.index.json --verify"), 0);
  says("3 tensors");
}

static void inspects_npy(void **state) {
  (void)state;
  assert_int_equal(run("inspect -- -t.npy"), 0);
  assert_string_equal(output, "<i8  [3, 4]\nnpy, 1 tensor, 12 elements, 96 B\n");
  assert_int_equal(run("inspect --json ./-t.npy"), 0);
  says("{\"format\": \"npy\", \"tensors\": [{\"name\": \"\", \"dtype\": \"<i8\", \"shape\": [3, "
       "4], \"bytes\": 96");
}

/* That it is JSON is asked of another program, where there is one. */
static void prints_json(void **state) {
  (void)state;
  assert_int_equal(run("inspect --json t.safetensors"), 0);
  says("\"name\": \"fc.weight\", \"dtype\": \"F32\", \"shape\": [64, 784], \"bytes\": 200704");
  says("\"od\\u001b[31md\\u000a\"");
  says("\"made \\\"by\\\"\": \"a test\\u001b\"");
  assert_int_equal(run("inspect --json t.index.json"), 0);
  says("\"file\": \"t-");
  if (system("command -v python3 >/dev/null") != 0) return;
  static const char *const calls[] = { "inspect --json t.safetensors", "inspect --json t.index.json",
                                       "inspect --json -- -t.npy", "devices --json" };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    char arguments[256];
    snprintf(arguments, sizeof arguments, "%s | python3 -m json.tool >/dev/null && echo fine", calls[i]);
    run(arguments);
    assert_string_equal(output, "fine\n");
  }
}

/* Whether the dtypes of each device begin below their heading, however long a driver's name for it is. */
static bool has_straight_columns(void) {
  const char *heading = strstr(output, "DTYPES");
  if (!heading) return false;
  const long column = heading - output;
  for (const char *dtypes = heading; (dtypes = strstr(dtypes + 1, "bool "));) {
    const char *line = dtypes;
    while (line[-1] != '\n') line--;
    if (dtypes - line != column) return false;
  }
  return true;
}

static void lists_devices(void **state) {
  (void)state;
  unsetenv("SITU_SIM");
  assert_int_equal(run("devices"), 0);
  says("cpu  ");
  assert_true(has_straight_columns());
  says("sim       not available: ");
  setenv("SITU_SIM", "2", 1);
  assert_int_equal(run("devices"), 0);
  says("sim:0 ");
  says("sim:1 ");
  does_not_say("\033"); /* a pipe is no terminal */
  assert_int_equal(run("devices --json"), 0);
  says("{\"device\": \"sim:1\", ");
  says("\"uuid\": \"51700000-0000-0000-0000-000000000001\", \"pci\": \"5170:00:01.0\", \"same_chip\": []}");
  setenv("SITU_PLAN", "2 x 24 GiB, no f64", 1);
  assert_int_equal(run("devices"), 0);
  says("          uuid 51700000-0000-0000-0000-000000000001, pci 5170:00:01.0\n");
  says("plan:1    planned device");
  setenv("SITU_PLAN", "24", 1);
  assert_int_equal(run("devices"), 0);
  says("SITU_PLAN=\"24\" is ignored");
  unsetenv("SITU_PLAN");
}

static void tells_what_went_wrong(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    int status;
    const char *text;
  } cases[] = {
    { "", 2, "usage: situ COMMAND" },
    { "help", 0, "usage: situ COMMAND" },
    { "--help", 0, "usage: situ COMMAND" },
    { "-h", 0, "usage: situ COMMAND" },
    { "devices --help", 0, "usage: situ devices" },
    { "plan t.safetensors -h", 0, "--tie A=B" },
    { "help --help", 0, "usage: situ help" },
    { "inspect -- --help", 1, "No such file" },
    { "-V", 0, "situ " SITU_VERSION_STRING "\n" },
    { "version", 0, "situ " SITU_VERSION_STRING "\n" },
    { "--version", 0, "situ " SITU_VERSION_STRING "\n" },
    { "inspct", 2, "unknown command 'inspct'" },
    { "inspect", 2, "missing FILE" },
    { "inspect a b", 2, "too many arguments: 'b'" },
    { "inspect --jsn t.safetensors", 2, "unknown option '--jsn'" },
    { "devices --verify", 2, "unknown option '--verify'" },
    { "version 1", 2, "too many arguments: '1'" },
    { "inspect no-such-file", 1, "No such file" },
    { "inspect .", 1, "directory" },
    { "inspect bad", 1, "is not a safetensors file" },
    { "inspect --verify damaged.safetensors", 1, "does not match its checksum" },
    { "inspect damaged.safetensors", 0, "fc.weight" },
    { "inspect longer.safetensors", 1, "behind its last tensor" },
    { "inspect --lenient longer.safetensors", 0, "fc.weight" },
    { "devices >/dev/full", 1, "No space left" },
  };
  assert_int_equal(system("head -c 100 /dev/zero | tr '\\0' x >bad"), 0);
  assert_int_equal(system("cp t.safetensors damaged.safetensors && printf x | dd "
                          "of=damaged.safetensors bs=1 seek=5000 "
                          "conv=notrunc 2>/dev/null"),
                   0);
  assert_int_equal(system("cp t.safetensors longer.safetensors && printf x >>longer.safetensors"), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = run(cases[i].arguments);
    if (status != cases[i].status) fail_msg("situ %s: %d\n%s", cases[i].arguments, status, output);
    says(cases[i].text);
  }
}

/* The program lies beside the tests in the build directory. */
static bool find_program(void) {
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
  if (length <= 0) return false;
  program[length] = '\0';
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(program, '/');
    if (slash) *slash = '\0';
  }
  strcat(program, "/cli/situ");
  return access(program, X_OK) == 0;
}

/* Tensors and metadata, but no program. */
static void reads_gguf(void **state) {
  (void)state;
  const char *root = getenv("SITU_TEST_ROOT");
  char command[4096];
#define GGUF(format) (snprintf(command, sizeof command, format, root ? root : "."), command)
  (void)run(GGUF("inspect %.3000s/io/gguf/model.gguf"));
  says("blk.0.attn_k.weight       Q4_0   [16, 18]       288 B\n");
  says("metadata  general.architecture = llama\n");
  says("metadata  tokenizer.ggml.tokens = 8 strings\n");
  says("metadata  test.yes = true\n");
  says("metadata  test.i64 = -9223372036854775808\n");
  says("gguf, 14 tensors");
  assert_int_equal(run(GGUF("inspect --json %.3000s/io/gguf/model.gguf")), 0);
  says("{\"format\": \"gguf\"");
  assert_int_equal(run(GGUF("plan --memory cpu=1MiB %.3000s/io/gguf/model.gguf")), 0);
  says("map       *=cpu");
  assert_int_equal(run(GGUF("plan --memory cpu=1KiB %.3000s/io/gguf/model.gguf")), 1);
  assert_int_equal(run(GGUF("convert %.3000s/io/gguf/model.gguf g.safetensors")), 0);
  assert_int_equal(run("inspect g.safetensors"), 0);
  says("metadata  situ.blocks.blk.0.attn_k.weight = Q4_0\n");
  assert_int_equal(run(GGUF("run %.3000s/io/gguf/model.gguf")), 1);
  says("model.gguf has weights, but no program to run");
  assert_int_equal(run("run t.safetensors"), 1);
  says("t.safetensors has weights, but no program to run");
}

/* A training program's file: what is not weights is said, and not converted. */
static void reads_torch(void **state) {
  (void)state;
  const char *root = getenv("SITU_TEST_ROOT");
  char command[4096];
  assert_int_equal(run(GGUF("inspect %.3000s/io/data/training.pth.tar")), 0);
  says("state_dict.weight");
  says("left      args: an object of argparse.Namespace\nleft      best_acc1: a tensor outside of the state dict\n");
  says("left      optimizer: an optimiser's state\n");
  assert_int_equal(run(GGUF("inspect --json %.3000s/io/data/training.pth.tar")), 0);
  says("\"epoch\": \"a number, not a tensor\"");
  assert_int_equal(run(GGUF("convert %.3000s/io/data/training.pth.tar w.safetensors")), 0);
  says("left      epoch: a number, not a tensor\n");
  assert_int_equal(run("inspect w.safetensors"), 0);
  says("safetensors, 2 tensors, 8 elements");
  assert_int_equal(run(GGUF("convert %.3000s/io/data/shards.bin.index.json w.safetensors")), 0);
  assert_null(strstr(output, "left"));
}

int main(void) {
  if (!find_program()) return 77;
  make_files();
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(inspects_safetensors), cmocka_unit_test(inspects_npy),          cmocka_unit_test(prints_json),
    cmocka_unit_test(lists_devices),        cmocka_unit_test(tells_what_went_wrong), cmocka_unit_test(reads_gguf),
    cmocka_unit_test(reads_torch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
