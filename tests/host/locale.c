/* A host whose locale has a decimal comma: every text and file of situ's is what it is in the C locale, byte by byte. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "situ/situ.h"
#include "support/test.h"

enum { MOST = 1 << 16 };
typedef struct content {
  char bytes[MOST];
  size_t size;
} content;

static void read_content(const char *path, content *out) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  out->size = fread(out->bytes, 1, MOST - 1, file);
  assert_true(out->size > 0 && out->size < MOST - 1);
  out->bytes[out->size] = '\0';
  (void)fclose(file);
}

static situ_nn_module *make_net(void) {
  return situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_leaky_relu(0.25), situ_nn_dropout(0.125),
                            situ_nn_layer_norm(SITU_DIMS(4), OPTIONS_AT(situ_nn_norm, with.eps = 1.5e-3)),
                            situ_nn_softplus(2.5, 20));
}

/* Reads and prints a bit of everything that has a fraction, into files of the current directory. */
static void use_everything(void) {
  FILE *out = fopen("text", "w");
  assert_non_null(out);
  char text[4096];
  situ_manual_seed(1);
  situ_nn_module *net = situ_nn_eval(make_net()), *program = NULL, *again = NULL;
  situ_tensor *x = situ_full(SITU_SHAPE(2, 4), 0.125, NULL);
  assert_true(situ_nn_to_string(net, text, sizeof text) > 0);
  (void)fprintf(out, "%s\n", text);
  assert_true(situ_to_string(situ_nn_forward(net, x), text, sizeof text) > 0);
  (void)fprintf(out, "%s\n", text);

  assert_null(situ_leaky_relu(NULL, 1.5));
  situ_error_clear();
  assert_null(situ_clamp_(situ_full(SITU_SHAPE(2), 1.5, &(situ_options){ .dtype = SITU_I64 }), 0.5, 1.5));
  assert_true(situ_error_json(text, sizeof text) > 0);
  (void)fprintf(out, "%s\n", situ_error_message());
  situ_error_clear();

  situ_tree *inputs = SITU_TREE(x);
  program = situ_export(net, inputs);
  situ_tree_free(inputs);
  assert_non_null(program);
  assert_int_equal(situ_export_save(program, "net.pt2"), SITU_OK);
  assert_int_equal(situ_onnx_export(program, "net.onnx", NULL), SITU_OK);
  again = situ_export_load("net.pt2", NULL);
  assert_non_null(again);
  assert_true(situ_to_string(situ_nn_forward(again, x), text, sizeof text) > 0);
  (void)fprintf(out, "%s\n", text);

  FILE *csv = fopen("numbers.csv", "w");
  assert_non_null(csv);
  (void)fputs("1.5;2.25\n-3e-2;4\n", csv);
  (void)fclose(csv);
  situ_tensor *numbers = situ_csv_load("numbers.csv", &(situ_csv_options){ .delimiter = ';' });
  assert_true(situ_to_string(numbers, text, sizeof text) > 0);
  (void)fprintf(out, "%s\n", text);
  (void)fclose(out);

  assert_int_equal(situ_profile_begin(NULL), SITU_OK);
  (void)situ_nn_forward(net, x);
  situ_profile *profile = situ_profile_end();
  assert_int_equal(situ_profile_export_chrome_trace(profile, "trace.json"), SITU_OK);
  situ_profile_free(profile);
  situ_nn_free(again);
  situ_nn_free(program);
  situ_nn_free(net);
}

/* Times differ from run to run: what is left of the trace when each number with a point is "#". */
static void drop_numbers(content *text) {
  char *to = text->bytes;
  for (const char *at = text->bytes; *at;) {
    const size_t digits = strspn(at, "0123456789"),
                 fraction = digits && at[digits] == '.' ? strspn(at + digits + 1, "0123456789") : 0;
    if (digits) *to++ = '#', at += digits + (fraction ? 1 + fraction : 0);
    else *to++ = *at++;
  }
  *to = '\0';
  text->size = (size_t)(to - text->bytes);
}

static void texts_and_files_are_the_same(void **state) {
  (void)state;
  static const char *const files[] = { "text", "net.pt2", "net.onnx", "trace.json" };
  if (system("localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 >localedef.log 2>&1") != 0 && access("de_DE.UTF-8", R_OK) != 0)
    skip(); /* no source of a locale with a comma (Debian: locales) */
  char here[4096];
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(setenv("LOCPATH", here, 1), 0);
  static content expected[4], got;
  use_everything();
  for (int i = 0; i < 4; i++) read_content(files[i], &expected[i]);
  if (!setlocale(LC_ALL, "de_DE.UTF-8")) skip();
  assert_string_equal(localeconv()->decimal_point, ",");
  use_everything();
  for (int i = 0; i < 4; i++) {
    read_content(files[i], &got);
    if (i == 3) drop_numbers(&got), drop_numbers(&expected[i]);
    assert_int_equal(got.size, expected[i].size);
    assert_memory_equal(got.bytes, expected[i].bytes, got.size);
  }
  assert_string_equal(localeconv()->decimal_point, ","); /* the host's is as it was */
  (void)setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(texts_and_files_are_the_same) };
  return cmocka_run_group_tests_name("host/locale", tests, NULL, NULL);
}
