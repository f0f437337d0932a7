/* situ plan: what fits where, what is said when it does not, and that its map does on a module
   what it says.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "situ/io.h"
#include "place/draw_model.h"

static char program[4096], output[1 << 16];

/* Runs `situ plan` with these arguments; output gets both streams. Returns the exit status. */
static int run(const char *arguments) {
  char command[8192];
  snprintf(command, sizeof command, "{ '%s' plan %s; } 2>&1", program, arguments);
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

/* ---- checkpoints ----------------------------------------------------------------------------- */

typedef struct tensor {
  const char *name;
  int64_t elements;
} tensor;

static void save(const char *path, const tensor *list, int count, const situ_save_options *options) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *tree = situ_tree_dict();
  for (int i = 0; i < count; i++)
    tree = situ_tree_put(tree, list[i].name, situ_tree_tensor(situ_zeros(SITU_SHAPE(list[i].elements), NULL)));
  must(situ_save(path, tree, options));
  situ_tree_free(tree);
  must(situ_scope_end(&scope));
}
#define SAVE(path, options, ...) \
  save(path, (const tensor[]){ __VA_ARGS__ }, (int)(sizeof((const tensor[]){ __VA_ARGS__ }) / sizeof(tensor)), options)

/* A small language model of 12 blocks of 1 KiB, whose head is another name of its embedding of 2
   KiB. */
static void save_model(void) {
  tensor list[40] = { { "lm_head.bias", 256 }, { "model.embed_tokens.weight", 512 }, { "model.norm.weight", 64 } };
  static char name[24][40];
  int count = 3;
  for (int i = 0; i < 12; i++) {
    snprintf(name[2 * i], 40, "model.layers.%d.attn.weight", i);
    snprintf(name[2 * i + 1], 40, "model.layers.%d.mlp.weight", i);
    list[count++] = (tensor){ name[2 * i], 192 };
    list[count++] = (tensor){ name[2 * i + 1], 64 };
  }
  const situ_metadata tie = { "lm_head.weight", "model.embed_tokens.weight" };
  const situ_save_options options = { .metadata = &tie, .metadata_count = 1 };
  save("model.safetensors", list, count, &options);
  const situ_save_options shards = { .metadata = &tie, .metadata_count = 1, .max_shard_bytes = 4096 };
  save("model.index.json", list, count, &shards);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Devices that are not here; numbers in order; blocks whole; the tied head with its embedding. */
static void plans_in_the_order_of_the_model(void **state) {
  (void)state;
  assert_int_equal(run("model.safetensors --memory cuda:0=6KiB,cuda:1=5.5KiB,cpu=1GiB"), 0);
  says("model.safetensors");
  says("0 .. 2: 3 x block ");
  says("3 .. 7: 5 x block ");
  says("8 .. 11: 4 x block");
  says("= model.embed_tokens.weight\n");
  says("cuda:0       6.0 KiB    6.0 KiB        0 B\n");
  says("cuda:1       5.5 KiB    5.0 KiB      512 B\n");
  says("map       model.layers.3=cuda:1, model.layers.4=cuda:1, model.layers.5=cuda:1, "
       "model.layers.6=cuda:1, model.layers.7=cuda:1, model.layers.8=cpu, model.layers.9=cpu, "
       "model.layers.10=cpu, model.layers.11=cpu, model.norm=cpu, *=cuda:0\n");
  does_not_say("gaps");
  does_not_say("\033");
  char whole[sizeof output];
  strcpy(whole, strstr(output, "model  "));
  assert_int_equal(run("model.index.json --memory=cuda:0=6KiB,cuda:1=5.5KiB,cpu=1GiB"), 0);
  assert_string_equal(strstr(output, "model  "), whole);
}

/* placement: K4 */
static void plans_for_devices_in_words(void **state) {
  (void)state;
  assert_int_equal(run("model.safetensors --devices '2 x 6 KiB'"), 1);
  says("fits on no device: plan:0 lacks ");
  assert_int_equal(run("model.safetensors --devices='6 KiB; 5.5 KiB' --memory cpu=1GiB"), 0);
  says("plan:0       6.0 KiB    6.0 KiB        0 B\n");
  says("plan:1       5.5 KiB    5.0 KiB      512 B\n");
  says("model.norm=cpu, *=plan:0\n");
  assert_int_equal(run("model.safetensors --devices '6 Kib'"), 2);
  says("situ: --devices: plan_devices: \"6 Kib\", at \"Kib\": a number of bytes with its unit");
  assert_int_equal(run("model.safetensors --devices ''"), 2);
  says("the profile has no device");
}

/* The tail of the model does not fit behind the others, but into a gap that they left. */
static void fills_gaps_only_if_it_must(void **state) {
  (void)state;
  SAVE("holes.safetensors", NULL, { "a.w", 100 }, { "b.w", 300 }, { "c.w", 50 });
  assert_int_equal(run("holes.safetensors --memory cuda:0=600,cpu=1200"), 0);
  says("gaps were filled");
  says("map       b=cpu, *=cuda:0\n");
  assert_int_equal(run("holes.safetensors --memory cuda:0=600,cpu=1400"), 0);
  does_not_say("gaps");
  says("map       a=cuda:0, *=cpu\n");
}

/* placement: I2 */
static void says_what_does_not_fit(void **state) {
  (void)state;
  assert_int_equal(run("model.safetensors --memory cuda:0=5KiB,cpu=7KiB"), 1);
  assert_string_equal(output, "situ: model.layers.9 (1.0 KiB) fits on no device: cuda:0 lacks 1024 "
                              "bytes, cpu lacks 1024 bytes\n");
  assert_int_equal(run("model.safetensors --memory cpu=3071"), 1);
  assert_string_equal(output,
                      "situ: model.embed_tokens (3.0 KiB, with 1 tied to it) fits on no device: cpu lacks 1 bytes\n");
}

/* What is alike is not split; a container of different parts is, and so is one that only holds
   another. */
static void blocks_are_rows_of_alike(void **state) {
  (void)state;
  SAVE("mixed.safetensors", NULL, { "0.h.0.a", 10 }, { "0.h.0.b", 10 }, { "0.h.1.a", 10 }, { "0.h.1.b", 10 },
       { "1.weight", 30 }, { "1.bias", 10 }, { "2.0.w", 10 }, { "scale", 1 });
  assert_int_equal(run("mixed.safetensors --memory sim:0=84,sim:1=80,cpu=1000"), 0);
  says("map       0.h.1=sim:1, 1=cpu, 2=cpu, *=sim:0\n");
}

/* The order of the model is read off the names; the file has that of the alphabet. */
static void names_tell_the_order(void **state) {
  (void)state;
  static const char *const order[] = { "scale",     "z_embed.w", "blocks.9.w", "blocks.10.w", "encoder.w",
                                       "decoder.w", "fc.w",      "norm.w",     "lm_head.w" };
  SAVE("order.safetensors", NULL, { "blocks.10.w", 1 }, { "blocks.9.w", 1 }, { "decoder.w", 1 }, { "encoder.w", 1 },
       { "fc.w", 1 }, { "lm_head.w", 1 }, { "norm.w", 1 }, { "scale", 1 }, { "z_embed.w", 1 });
  assert_int_equal(run("order.safetensors --json --memory cpu=1KiB"), 0);
  const char *at = strstr(output, "\"tensors\": [{\"path\"");
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    char entry[64];
    snprintf(entry, sizeof entry, "{\"path\": \"%s\"", order[i]);
    at = strstr(at, entry);
    if (!at) fail_msg("%s is not number %zu in:\n%s", order[i], i, output);
  }
}

static void prints_json(void **state) {
  (void)state;
  assert_int_equal(run("model.safetensors --json --memory cuda:0=5KiB,cpu=1GiB"), 0);
  says("{\"limits\": [{\"device\": \"cuda:0\", \"limit\": 5120, \"used\": 5120}, {\"device\": "
       "\"cpu\"");
  says("\"in_order\": true,\n \"map\": \"model.embed_tokens=cuda:0, model.layers.0=cuda:0, ");
  says("\"placement\": {\"bytes\": 15616,");
  if (system("command -v python3 >/dev/null") != 0) return;
  assert_int_equal(run("model.safetensors --json --memory cuda:0=5KiB,cpu=1GiB | python3 -m "
                       "json.tool >/dev/null && echo fine"),
                   0);
  assert_string_equal(output, "fine\n");
}

static void draws(void **state) {
  (void)state;
  assert_int_equal(run("model.safetensors --memory cuda:0=6KiB,cpu=1GiB --svg plan.svg"), 0);
  FILE *f = fopen("plan.svg", "rb");
  assert_non_null(f);
  size_t length = fread(output, 1, sizeof output - 1, f);
  fclose(f);
  output[length] = 0;
  says("<svg ");
  says(">model.safetensors</text>");
  says("Shared, drawn once: lm_head.weight = model.embed_tokens.weight");
}

/* What the model has once and the file twice. */
static void ties_that_the_file_does_not_tell(void **state) {
  (void)state;
  SAVE("twice.safetensors", NULL, { "a.w", 100 }, { "b.w", 100 }, { "c.w", 100 }, { "d.w", 50 });
  assert_int_equal(run("twice.safetensors --memory cuda:0=400,cpu=1KiB --tie a.w=b.w,b.w=c.w"), 0);
  says("= a.w\n");
  says("map       d=cpu, *=cuda:0\n");
  says("total      600 B in 2 tensors");
}

/* On a module of the same names the map gives the plan. */
static void the_map_is_one_for_nn_to_map(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  must(situ_nn_to(m, situ_dev("cpu")));
  situ_tree *dict = situ_nn_state_dict(m);
  must(situ_save("net.safetensors", dict, NULL));
  situ_tree_free(dict);
  assert_int_equal(run("net.safetensors --memory sim:0=3KiB,cpu=1GiB --tie 3.weight=0.weight"), 0);
  char *map = strstr(output, "\nmap       ") + 11;
  map[strcspn(map, "\n")] = 0;
  must(situ_nn_to_map(m, map));
  situ_snapshot *s = situ_place_snapshot(m);
  int on_sim = 0;
  for (int64_t i = 0; i < situ_snapshot_count(s); i++) on_sim += situ_snapshot_at(s, i)->device.kind == SITU_SIM;
  assert_true(on_sim > 0);
  for (int i = 0; i < 4; i++) {
    char path[32];
    snprintf(path, sizeof path, "1.%d", i);
    situ_placement block;
    must(situ_place_of(situ_nn_get_submodule(m, path), &block));
    assert_false(block.mixed);
  }
  situ_snapshot_free(s);
  situ_nn_free(m);
}

static void names_of_files_are_harmless(void **state) {
  (void)state;
  SAVE("names.safetensors", NULL, { "a\033[31m,b=c.w", 10 }, { ".x.", 10 }, { "..", 10 }, { "", 10 }, { "d", 10 });
  assert_int_equal(run("names.safetensors --memory cuda:0=80,cpu=1KiB"), 0);
  does_not_say("\033");
  says("a?[31m,b=c");
  static char deep[20004];
  for (int i = 0; i < 10000; i++) memcpy(deep + (size_t)i * 2, i % 2 ? "0." : "a.", 2);
  deep[20000] = 'w';
  SAVE("deep.safetensors", NULL, { deep, 10 }, { "z", 10 });
  assert_int_equal(run("deep.safetensors --memory cuda:0=40,cpu=1KiB >/dev/null"), 0);
}

static void tells_what_is_wrong(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    int status;
    const char *text;
  } cases[] = {
    { "", 2, "missing FILE" },
    { "model.safetensors", 2, "missing --memory" },
    { "model.safetensors --memory", 2, "missing value of '--memory'" },
    { "model.safetensors --memory cpu=1 --svg", 2, "missing value of '--svg'" },
    { "model.safetensors --memory cpu=1 --verify", 2, "unknown option '--verify'" },
    { "model.safetensors --memory cpu", 2, "'cpu' is not DEVICE=BYTES" },
    { "model.safetensors --memory ''", 2, "'' is not DEVICE=BYTES" },
    { "model.safetensors --memory cpu=1GiB,", 2, "'' is not DEVICE=BYTES" },
    { "model.safetensors --memory gpu=1GiB", 2, "'gpu=1GiB' is not the name of a device" },
    { "model.safetensors --memory cuda:01=1GiB", 2, "is not the name of a device" },
    { "model.safetensors --memory meta=1GiB", 2, "meta has no memory" },
    { "model.safetensors --memory cpu=0GiB", 2, "has 0 bytes" },
    { "model.safetensors --memory cpu=", 2, "has no number" },
    { "model.safetensors --memory cpu=-1", 2, "has no number" },
    { "model.safetensors --memory cpu=8gb", 2, "unknown unit" },
    { "model.safetensors --memory cpu=8GiBs", 2, "unknown unit" },
    { "model.safetensors --memory cpu=18446744073709551616", 2, "more than 2^64" },
    { "model.safetensors --memory cpu=99999999TiB", 2, "more than 2^64" },
    { "model.safetensors --memory cpu=1GiB,sim:0=1GiB,cpu=2GiB", 2, "'cpu=2GiB' is a device that was given already" },
    { "model.safetensors --memory cpu=1GiB --tie a=b", 2, "'a=b' is not TENSOR=TENSOR" },
    { "model.safetensors --memory cpu=1GiB --tie lm_head.bias", 2, "is not TENSOR=TENSOR" },
    { "model.safetensors --memory cpu=1GiB --tie lm_head.weight=model.embed_tokens.weight", 2,
      "names one tensor twice, or tied ones" },
    { "model.safetensors --memory cpu=1GiB --tie lm_head.bias=lm_head.weight", 2, "differs in shape" },
    { "no-such-file --memory cpu=1GiB", 1, "No such file" },
    { ". --memory cpu=1GiB", 1, "directory" },
    { "cut.safetensors --memory cpu=1GiB", 1, "situ: " },
    { "model.safetensors --memory cpu=1GiB --svg no/such/dir.svg", 1, "no/such/dir.svg" },
    { "model.safetensors --memory cpu=1GiB >/dev/full", 1, "No space left" },
  };
  assert_int_equal(system("head -c 900 model.safetensors >cut.safetensors"), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = run(cases[i].arguments);
    if (status != cases[i].status) fail_msg("situ plan %s: %d\n%s", cases[i].arguments, status, output);
    says(cases[i].text);
    assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1); /* one line */
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

int main(void) {
  if (!find_program()) return 77;
  save_model();
  const struct CMUnitTest tests[] = {
    DRAW_TEST(plans_in_the_order_of_the_model),
    DRAW_TEST(plans_for_devices_in_words),
    DRAW_TEST(fills_gaps_only_if_it_must),
    DRAW_TEST(says_what_does_not_fit),
    DRAW_TEST(blocks_are_rows_of_alike),
    DRAW_TEST(names_tell_the_order),
    DRAW_TEST(prints_json),
    DRAW_TEST(draws),
    DRAW_TEST(ties_that_the_file_does_not_tell),
    DRAW_TEST(the_map_is_one_for_nn_to_map),
    DRAW_TEST(names_of_files_are_harmless),
    DRAW_TEST(tells_what_is_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
