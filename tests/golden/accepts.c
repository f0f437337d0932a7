/* Which dtypes each function takes, and the dtype of what it gives: as torch 2.15 (tools/golden/accepts.py), but for the
   departures below, each with its reason. A departure that has gone fails.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api/invoke.h"
#include "support/test.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })

/* What is called for a name of the table: the function, of operands (letters: see operand), with settings
   (support/api/invoke.h). Where nothing is said, the function has the name, or its beginning: hardtanh_fraction is
   hardtanh, add_fraction is add_scalar; it has one operand, or two if two dtypes vary. */
static const struct special {
  const char *names, *function, *operands, *settings;
} specials[] = {
  { "attention attention_by attention_f16_by", "scaled_dot_product_attention", "xxx", "" },
  { "add_of_0_dim", "add", "xS", "" },
  { "fraction_pow", "scalar_pow", "x", "base=1.5" },
  { "div_trunc", "div_mode", "xy", "rounding_mode=trunc" },
  { "bce_mixed", "binary_cross_entropy_with_logits", "xy", "" },
  { "where", NULL, "bxy", "" },
  { "scatter_mixed", NULL, "xiy", "" },
  { "layer_norm_mixed", NULL, "xY", "" },
  { "addcmul_mixed", NULL, "xyy", "value=1" },
  { "lerp_mixed", "lerp", "xyy", "" },
  /* the dtype of an index or a mask varies: 0s of it */
  { "index_select_by cross_entropy_by nll_loss_by", NULL, "fV", "" },
  { "gather_by take_along_dim_by", NULL, "fX", "" },
  { "scatter_by", NULL, "fXf", "" },
  { "index_add_by index_copy_by", NULL, "fVf", "" },
  { "index_by masked_fill_by masked_select_by", NULL, "fx", "value=0" },
  { "embedding_by", NULL, "Xf", "" },
  { "where_by", NULL, "xff", "" },
  /* several operands of one dtype, or such of other shapes */
  { "matmul mm inner linalg_vecdot linalg_multi_dot dist lerp_scalar add_alpha add_alpha_fraction sub_alpha "
    "mse_loss l1_loss l1_loss_sum mse_loss_sum smooth_l1_loss binary_cross_entropy_with_logits kl_div cross_entropy_probabilities",
    NULL, "xx", "weight=0.5 alpha=2" },
  { "addmm lerp addcdiv addcmul", NULL, "xxx", "value=1" },
  { "addcmul_fraction", NULL, "xxx", "" },
  { "bmm", NULL, "uu", "" },
  { "mv linalg_householder_product", NULL, "xv", "" },
  { "dot outer", NULL, "vv", "" },
  { "addr", NULL, "xvv", "" },
  { "addmv", NULL, "vxv", "" },
  { "addbmm", NULL, "xuu", "" },
  { "bilinear", NULL, "xxu", "" },
  { "linear", NULL, "xxv", "" },
  { "combinations", NULL, "v", "r=2 with_replacement=0" },
  { "conv1d conv_transpose1d", NULL, "uk", "" },
  { "conv2d", NULL, "uw", "" },
  { "conv_transpose2d", NULL, "ur", "" },
  { "max_pool2d avg_pool2d adaptive_avg_pool2d interpolate", NULL, "u", "" },
  { "max_pool3d avg_pool3d", NULL, "q", ".kernel=1" },
  { "masked_select masked_fill_whole masked_fill_fraction", NULL, "xb", "" },
  { "gather scatter_value multilabel_margin_loss index", NULL, "xi", "" },
  { "scatter scatter_add", NULL, "xix", "" },
  { "index_put", NULL, "xix", "indices.0:1 accumulate=1" },
  { "index_fill", NULL, "xj", "value=1" },
  { "index_select cross_entropy nll_loss repeat_interleave_tensor", NULL, "xj", "" },
  { "index_add index_copy", NULL, "xjx", "" },
  { "embedding_weight", NULL, "ix", "" },
  { "ctc_loss", NULL, "xecc", "" },
  /* made in the dtype */
  { "zeros full full_fraction full_minus_1 full_300 full_70000 full_1e10 full_1e40 full_nan full_inf rand randn", NULL,
    "", "" },
  { "arange linspace", NULL, "", "start=0 end=3 steps=4" },
  { "hann_window signal_windows_nuttall fft_fftfreq", NULL, "", "window_length=4 M=4 sym=1 n=4" },
  { "randint randint_200 randint_minus_1 randint_70000 eye randperm randperm_200 randperm_300 randperm_3000", NULL, "",
    "" },
  /* numbers of some functions */
  { "polygamma", NULL, "x", "n=1" },
  { "linalg_matrix_power", NULL, "x", "n=2" },
  { "linalg_matrix_norm", NULL, "x", "ord=1" },
  { "fft_fft fft_rfft fft_irfft stft", NULL, "x", "n_fft=2 .hop_length=1" },
  { "threshold", NULL, "x", "threshold=1" },
  { "fft_fftshift", NULL, "x", "dim=none" },
  { "mvlgamma", NULL, "x", "p=1" },
  { "uniform_ normal_ bernoulli_", NULL, "x", "low=0 high=1 mean=0 std=1 p=0.5" },
  { "logsumexp", NULL, "x", ".dim=1" },
  { "sum_dim argmax_dim", NULL, "x", ".dim=0" },
  { "roll", NULL, "x", "dims=none" },
  { "pad pad_reflect pad_circular pad_replicate", NULL, "x", "value=0" },
};

/* What the end of a name says. */
static const struct ending {
  const char *end, *settings;
} endings[] = {
  { "_fraction",
    "other=1.5 exponent=1.5 min_val=-0.5 max_val=0.5 min=0.5 max=1.5 threshold=0.5 value=0.5 fill_value=1.5 "
    "alpha=0.5" },
  { "_fraction_", "other=1.5 min=0.5 max=1.5 value=0.5" },
  { "_tanh", "approximate=tanh" },
  { "_nan", "min=nan fill_value=nan" },
  { "_inf", "fill_value=inf" },
  { "_negative", "exponent=-1" },
  { "_zero", "other=0" },
  { "_i32", ".dtype=i32" },
  { "_f32", ".dtype=f32" },
  { "_eval", "training=0" },
  { "_reflect", "mode=reflect" },
  { "_circular", "mode=circular" },
  { "_replicate", "mode=replicate" },
  { "_sum", "reduction=sum" },
  { "_minus_1", "fill_value=-1 low=-1" },
  { "_200", "high=200 n=200" },
  { "_300", "fill_value=300 n=300" },
  { "_3000", "n=3000" },
  { "_70000", "fill_value=70000 high=70000" },
  { "_1e10", "fill_value=1e10" },
  { "_1e40", "fill_value=1e40" },
};

/* Of every call, where nothing else is said. */
static const char all[] = "other=2 exponent=2 base=2 min=0 max=1 value=2 fill_value=2 low=0 high=2 n=2 shape=2 "
                          "dim=0 k=1 dims=0 shifts=1 repeats=2,1 pad=1,1 num_classes=3 normalized_shape=2 num_groups=1 "
                          "training=1 .training=1 .kernel=2 output_size=1 .size=3 N=2 num_samples=1 replacement=1";

static const situ_dtype dtypes[] = { SITU_BOOL, SITU_U8,  SITU_I8,   SITU_I16, SITU_I32,
                                     SITU_I64,  SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };
enum { COUNT = sizeof dtypes / sizeof *dtypes };

/* Where situ has another dtype than torch, or takes or refuses what torch does not: a function, dtypes of the first and
   of the other operand ("" any; of lines with one dtype that is the other), what situ gives for it. Every cell that is
   covered must differ. */
typedef struct departure {
  const char *names, *first, *other, *gives, *why;
} departure;
#define INDICES "i32 indices are taken wherever i64 are"
#define KERNEL "torch has no kernel for it; the result is what it is for other dtypes"
#define PROMOTED "the promoted dtype, as everywhere; torch gives the target's"
static const departure departures[] = {
  { "all any", "", "u8", "bool", "bool for u8 too: torch's u8 is from before it had bool" },
  { "argmin argmax argmax_dim", "", "bool", "i64", KERNEL },
  { "topk pad_reflect pad_replicate", "", "bool", "bool", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "u8", "u8", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "i8", "i8", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "i16", "i16", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "i32", "i32", KERNEL },
  { "linalg_vander linalg_householder_product ctc_loss pdist multilabel_margin_loss", "", "f16", "f16", KERNEL },
  { "linalg_vander linalg_householder_product ctc_loss pdist multilabel_margin_loss", "", "bf16", "bf16", KERNEL },
  { "max_pool1d", "", "i64", "i64", KERNEL },
  { "avg_pool3d", "", "i64", "-", "an average of averages divides twice, which is not what one division gives" },
  { "avg_pool3d", "", "f16", "f16", KERNEL },
  { "avg_pool3d", "", "bf16", "bf16", KERNEL },
  { "one_hot", "", "i32", "i64", INDICES },
  { "take_along_dim_by cross_entropy_by nll_loss_by index_copy_by", "", "i32", "f32", INDICES },
  { "where_by index_by", "", "u8", "-", "torch calls masks of u8 deprecated" },
  { "signal_windows_nuttall", "", "f16", "f16", KERNEL },
  { "signal_windows_nuttall", "", "bf16", "bf16", KERNEL },
  { "randperm_300 randperm_3000", "", "bf16", "-", "bf16 does not have these numbers: some would come twice" },
  { "bce_mixed", "f64", "f16 bf16 f32", "f64", PROMOTED },
  { "bce_mixed", "f32", "f16 bf16", "f32", PROMOTED },
  { "bce_mixed", "f16", "bf16", "f32", PROMOTED },
  { "bce_mixed", "bf16", "f16", "f32", PROMOTED },
  { "layer_norm_mixed", "f16 bf16", "f32", "-", "dtypes are not mixed in silence: cast the input, or use autocast" },
  { 0 },
};

static bool has_word(const char *list, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += length)
    if ((at == list || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) return true;
  return !*list;
}

static const departure *departure_for(const char *name, const char *first, const char *other) {
  for (const departure *d = departures; d->names; d++)
    if (has_word(d->names, name) && has_word(d->first, first) && has_word(d->other, other)) return d;
  return NULL;
}

static bool is_one_of(const char *name, const char *words) { return *words && has_word(words, name); }

static situ_tensor *ones(situ_shape shape, situ_dtype dtype) { return situ_ones(shape, HERE(.dtype = dtype)); }
static situ_tensor *zeros(situ_shape shape, situ_dtype dtype) { return situ_zeros(shape, HERE(.dtype = dtype)); }

/* x, y and what is written with other letters for their shapes have the dtypes of the line. */
static situ_tensor *operand(char letter, situ_dtype x, situ_dtype y) {
  switch (letter) {
  case 'x': return ones(SITU_SHAPE(2, 2), x);
  case 'X': return zeros(SITU_SHAPE(2, 2), x);
  case 'v': return ones(SITU_SHAPE(2), x);
  case 'V': return zeros(SITU_SHAPE(2), x);
  case 'u': return ones(SITU_SHAPE(1, 2, 2), x);
  case 'k': return ones(SITU_SHAPE(2, 2, 1), x);
  case 'w': return ones(SITU_SHAPE(4, 1, 1, 1), x);
  case 'r': return ones(SITU_SHAPE(1, 4, 1, 1), x);
  case 'q': return ones(SITU_SHAPE(1, 1, 2, 2), x);
  case 'y': return ones(SITU_SHAPE(2, 2), y);
  case 'Y': return ones(SITU_SHAPE(2), y);
  case 'S': return ones(SITU_SCALAR, y);
  case 'f': return ones(SITU_SHAPE(2, 2), SITU_F32);
  case 'h': return ones(SITU_SHAPE(2, 2), SITU_F16);
  case 'b': return ones(SITU_SHAPE(2, 2), SITU_BOOL);
  case 'i': return zeros(SITU_SHAPE(2, 2), SITU_I64);
  case 'j': return zeros(SITU_SHAPE(2), SITU_I64);
  case 'e': return zeros(SITU_SHAPE(0), SITU_I64);
  case 'c': return zeros(SITU_SCALAR, SITU_I64);
  default: return NULL;
  }
}

/* "hardtanh_fraction" is "hardtanh", and "add_fraction_" is "add_scalar_". */
static void find_function(const char *name, char *function, size_t size) {
  char stem[64];
  const bool in_place = name[strlen(name) - 1] == '_';
  snprintf(function, size, "%s", name);
  snprintf(stem, sizeof stem, "%.*s", (int)strlen(name) - in_place, name);
  while (!invoke_knows(function) && strchr(stem, '_')) {
    *strrchr(stem, '_') = 0;
    snprintf(function, size, "%s_scalar%s", stem, in_place ? "_" : "");
    if (!invoke_knows(function)) snprintf(function, size, "%s%s", stem, in_place ? "_" : "");
  }
}

static struct special special_of(const char *name, bool two) {
  for (size_t k = 0; k < sizeof specials / sizeof *specials; k++)
    if (is_one_of(name, specials[k].names)) return specials[k];
  return (struct special){ name, NULL, two ? "xy" : "x", "" };
}

/* The call of that name; NULL operands in place of those with dtypes of the line if `missing`. */
static situ_tensor *call(invocation *v, const char *name, bool two, situ_dtype x, situ_dtype y, bool missing) {
  const struct special s = special_of(name, two);
  char function[64], settings[600];
  const char *operands = s.operands, *end = "";
  if (!strcmp(name, "attention_by")) operands = "fffx";
  if (!strcmp(name, "attention_f16_by")) operands = "hhhx";
  for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
    const size_t length = strlen(name), of_end = strlen(endings[k].end);
    if (length > of_end && !strcmp(name + length - of_end, endings[k].end)) end = endings[k].settings;
  }
  snprintf(settings, sizeof settings, "%s %s %s attn_mask:3 .dtype=%d", end, s.settings, all, *operands ? 0 : (int)y);
  if (s.function) snprintf(function, sizeof function, "%s", s.function);
  else find_function(name, function, sizeof function);
  *v = (invocation){ .functions = function, .settings = settings, .device = test_device(), .outs = 1 };
  static const char *const ordinal[] = { "0", "1", "2", "3" };
  for (; operands[v->tensors]; v->tensors++) {
    const char letter = operands[v->tensors];
    situ_tensor *t = missing && strchr("xXvVukwrqyYS", letter) ? NULL : operand(letter, x, y);
    v->tensor[v->tensors] = (invoke_tensor){ ordinal[v->tensors], t };
  }
  if (!invoke(v)) fail_msg("%s: %s", name, v->message);
  return v->out[0];
}

static bool is_named(const invocation *v) { return strcmp(situ_error_op(), v->called) == 0; }

static int wrong, checked;

static void check_cell(const char *name, const char *first, situ_dtype other, const char *want) {
  situ_dtype own = other;
  for (int k = 0; k < COUNT; k++)
    if (!strcmp(situ_dtype_name(dtypes[k]), first)) own = dtypes[k];
  situ_scope s;
  situ_scope_begin(&s);
  invocation v;
  situ_tensor *result = call(&v, name, *first != 0, own, other, false);
  const char *got = result ? situ_dtype_name(situ_dtype_of(result)) : "-";
  const departure *d = departure_for(name, first, situ_dtype_name(other));
  const bool unsaid = !result && (situ_error() == SITU_OK || !is_named(&v));
  checked++;
  if (unsaid || strcmp(got, d ? d->gives : want) || (d && !strcmp(want, d->gives))) {
    wrong++;
    print_error("%s %s %s: %s, %s has %s%s%s%s\n", name, first, situ_dtype_name(other), got,
                d ? "the departure" : "torch", d ? d->gives : want,
                d && !strcmp(want, d->gives) ? ", as torch: the departure has gone" : "", result ? "" : ": ",
                result ? "" : situ_error_message());
  }
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
}

/* Calls f with each line of the table: a name, the dtype of the first of two operands or "", and what torch gives. */
static void each_line(void (*f)(const char *name, const char *first, char *cells)) {
  char path[1024], line[256];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(path, sizeof path, "%s/golden/data/accepts.txt", root ? root : "tests");
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  wrong = checked = 0;
  while (fgets(line, sizeof line, file)) {
    if (*line == '#') continue;
    char *cells = strchr(line, ':');
    if (!cells) fail_msg("not a line of the table: %s", line);
    *cells++ = 0;
    char *first = strchr(line, ' ');
    if (first) *first++ = 0;
    f(line, first ? first : "", cells);
  }
  fclose(file);
}

static void check_line(const char *name, const char *first, char *cells) {
  char *at = NULL;
  int k = 0;
  for (char *cell = strtok_r(cells, " \n", &at); cell; cell = strtok_r(NULL, " \n", &at))
    check_cell(name, first, dtypes[k++], cell);
  assert_int_equal(k, COUNT);
}

static void dtypes_are_taken_as_in_torch(void **state) {
  (void)state;
  each_line(check_line);
  print_message("  %d cells\n", checked);
  if (wrong) fail_msg("%d of %d cells differ", wrong, checked);
}

/* Without operands, unless it takes none. */
static void check_name(const char *name, const char *first, char *cells) {
  (void)cells;
  invocation v;
  if (call(&v, name, *first != 0, SITU_F32, SITU_F32, true)) return;
  if (situ_error() != SITU_E_ARG || !is_named(&v)) {
    wrong++;
    print_error("%s: named %s: %s\n", v.called, situ_error_op(), situ_error_message());
  }
  situ_error_clear();
}

/* The error of a missing operand names the function that was called. */
static void the_function_called_is_named(void **state) {
  (void)state;
  each_line(check_name);
  if (wrong) fail_msg("%d functions are not named by their errors", wrong);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(dtypes_are_taken_as_in_torch), TEST(the_function_called_is_named) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
