/* Image and sound files: values beside torchvision's (0.29.2), what was written and read, and what is refused. The files
   are the fuzzers' seeds.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/media/image.h"
#include "situ/media.h"
#include "support/test.h"

static const char *seed(const char *name) {
  static char path[512];
  (void)snprintf(path, sizeof path, "%s/fuzz/corpus/%s", getenv("SITU_TEST_ROOT"), name);
  return path;
}

static unsigned char *load(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  unsigned char *data = malloc(1 << 16);
  assert_true(f && data);
  *bytes = fread(data, 1, 1 << 16, f);
  (void)fclose(f);
  return data;
}
static void store(const char *path, const void *data, size_t bytes) {
  FILE *f = fopen(path, "wb");
  assert_true(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0);
}

static situ_tensor *image(const char *name, situ_image_mode mode) {
  char path[64];
  (void)snprintf(path, sizeof path, "image/%s", name);
  return situ_read_image(seed(path), mode, test_device());
}

static bool has(const situ__codec *codec) { return codec->decode && situ__library_open(codec->library); }
/* Skips a test on a machine, or in a build, without the library. */
#define NEEDS_PNG \
  if (!has(&situ__png)) skip()
#define NEEDS_JPEG \
  if (!has(&situ__jpeg)) skip()

/* ---- PNG ---- */

static void png_values_are_torchvisions(void **state) {
  (void)state;
  NEEDS_PNG;
  expect_exact(image("gray1.png", SITU_IMAGE_UNCHANGED), SITU_SHAPE(1, 2, 3), 255, 0, 255, 0, 255, 0);
  expect_exact(image("interlaced.png", SITU_IMAGE_GRAY_ALPHA), SITU_SHAPE(2, 2, 2), 1, 2, 3, 4, 255, 255, 255, 255);
  expect_exact(image("interlaced.png", SITU_IMAGE_RGB), SITU_SHAPE(3, 2, 2), 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4);
  expect_exact(image("palette.png", SITU_IMAGE_UNCHANGED), SITU_SHAPE(1, 1, 2), 0, 1);
  expect_exact(image("palette.png", SITU_IMAGE_GRAY), SITU_SHAPE(1, 1, 2), 18, 48);
  expect_exact(image("palette.png", SITU_IMAGE_GRAY_ALPHA), SITU_SHAPE(2, 1, 2), 18, 48, 255, 128);
  expect_exact(image("palette.png", SITU_IMAGE_RGB), SITU_SHAPE(3, 1, 2), 10, 40, 20, 50, 30, 60);
  expect_exact(image("palette.png", SITU_IMAGE_RGB_ALPHA), SITU_SHAPE(4, 1, 2), 10, 40, 20, 50, 30, 60, 255, 128);
  expect_exact(image("rgb.png", SITU_IMAGE_UNCHANGED), SITU_SHAPE(3, 2, 1), 255, 0, 0, 100, 0, 200);
  expect_exact(image("rgb.png", SITU_IMAGE_GRAY), SITU_SHAPE(1, 2, 1), 76, 81);
  expect_exact(image("rgb16.png", SITU_IMAGE_RGB), SITU_SHAPE(3, 1, 1), 0, 128, 255); /* torchvision's u16 / 257 */
}

static void png_round_trip(void **state) {
  (void)state;
  NEEDS_PNG;
  for (int channels = 1; channels <= 4; channels++) {
    situ_tensor *x =
        situ_randint(0, 256, SITU_SHAPE(channels, 5, 7), &(situ_options){ .dtype = SITU_U8, .device = test_device() });
    assert_int_equal(situ_write_png(x, "t.png", 3 * channels - 3), SITU_OK);
    expect_same(situ_read_image("t.png", SITU_IMAGE_UNCHANGED, test_device()), x, 0, 0);
    assert_int_equal(situ_write_png(situ_transpose(x, 1, 2), "t.png", 6), SITU_OK);
    size_t bytes;
    unsigned char *data = load("t.png", &bytes);
    expect_same(situ_decode_image(data, bytes, SITU_IMAGE_UNCHANGED, test_device()), situ_transpose(x, 1, 2), 0, 0);
    free(data);
  }
}

/* Every beginning of a file, and a changed byte anywhere, is an error or an image, and nothing else. */
static void damaged(const char *name, situ_image_mode mode, bool whole) {
  size_t bytes;
  unsigned char *data = load(seed(name), &bytes);
  situ_tensor *t = NULL;
  for (size_t n = 0; n < bytes - (whole ? 1 : 2); n++) {
    t = situ_decode_image(data, n, mode, test_device());
    if (t) fail_msg("%s: %zu of %zu bytes are taken for an image", name, n, bytes);
    situ_error_clear();
  }
  for (size_t i = 0; i < bytes; i++) {
    data[i] ^= 0x55;
    t = situ_decode_image(data, bytes, mode, test_device());
    assert_int_equal(t == NULL, situ_error() != SITU_OK);
    situ_error_clear();
    data[i] ^= 0x55;
  }
  free(data);
}

static void bad_png(void **state) {
  (void)state;
  NEEDS_PNG;
  expect_refused(image("bomb.png", SITU_IMAGE_RGB), SITU_E_FORMAT, "read_image", "60000 x 60000 pixels");
  damaged("image/rgb.png", SITU_IMAGE_UNCHANGED, true);
  damaged("image/palette.png", SITU_IMAGE_RGB_ALPHA, true);
}

/* ---- JPEG ---- */

static void jpeg_values_are_torchvisions(void **state) {
  (void)state;
  NEEDS_JPEG;
  static const struct {
    const char *name;
    situ_image_mode mode;
    double first[3], sum;
  } want[] = { { "rgb.jpg", SITU_IMAGE_UNCHANGED, { 0, 12, 33 }, 28740 },
               { "rgb.jpg", SITU_IMAGE_GRAY, { 0, 8, 15 }, 9788 },
               { "gray.jpg", SITU_IMAGE_UNCHANGED, { 0, 19, 41 }, 9891 },
               { "gray.jpg", SITU_IMAGE_RGB, { 0, 19, 41 }, 29673 },
               { "progressive.jpg", SITU_IMAGE_RGB, { 0, 10, 28 }, 28773 } };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    situ_tensor *t = image(want[i].name, want[i].mode);
    if (!t) fail_msg("%s: %s", want[i].name, situ_error_message());
    situ_tensor *start = situ_narrow(situ_select(situ_select(t, 0, 0), 0, 0), 0, 0, 3);
    test_close_(start, SITU_SHAPE(3), want[i].first, 0, 2, __FILE__, __LINE__); /* libjpegs differ in upsampling */
    expect_close(situ_sum(t, NULL), SITU_SCALAR, 0.005, 0, want[i].sum);
  }
}

static void jpeg_round_trip(void **state) {
  (void)state;
  NEEDS_JPEG;
  for (int channels = 1; channels <= 3; channels += 2) {
    situ_tensor *x = situ_full(SITU_SHAPE(channels, 20, 30), 100, &(situ_options){ .dtype = SITU_U8 });
    assert_int_equal(situ_write_jpeg(x, "t.jpg", 95), SITU_OK);
    situ_tensor *y = situ_read_image("t.jpg", SITU_IMAGE_UNCHANGED, situ_dev("cpu"));
    expect_same(situ_to_dtype(y, SITU_F32), situ_to_dtype(x, SITU_F32), 0, 2);
  }
}

static void bad_jpeg(void **state) {
  (void)state;
  NEEDS_JPEG;
  expect_refused(image("cmyk.jpg", SITU_IMAGE_RGB), SITU_E_UNSUPPORTED, "read_image", "4 colours");
  expect_refused(image("cut.jpg", SITU_IMAGE_RGB), SITU_E_FORMAT, "read_image", "libjpeg: Premature end");
  expect_refused(image("rgb.jpg", SITU_IMAGE_RGB_ALPHA), SITU_E_UNSUPPORTED, "read_image", "no alpha");
  damaged("image/gray.jpg", SITU_IMAGE_UNCHANGED, false);
  size_t bytes;
  unsigned char *data = load(seed("image/gray.jpg"), &bytes);
  for (size_t i = 0; i + 8 < bytes; i++)
    if (data[i] == 0xFF && data[i + 1] == 0xC0) data[i + 5] = data[i + 7] = 0xFF; /* 65,289 pixels each way */
  expect_refused(situ_decode_image(data, bytes, SITU_IMAGE_GRAY, test_device()), SITU_E_FORMAT, "decode_image",
                 "which do not fit");
  free(data);
  data = load(seed("image/gray.jpg"), &bytes);
  for (size_t i = 0; i + 1 < bytes; i++)
    if (data[i] == 0xFF && data[i + 1] == 0xC0) data[i + 1] = 0xC9; /* a frame whose code is arithmetic */
  expect_refused(situ_decode_image(data, bytes, SITU_IMAGE_GRAY, test_device()), SITU_E_UNSUPPORTED, "decode_image",
                 "arithmetic coding");
  free(data);
}

static void bad_image_arguments(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(3, 4, 4), &(situ_options){ .dtype = SITU_U8 });
  const char *no_pixels = "must be u8 [1 to 4 channels, height, width]";
#define REFUSED(call, ...)             \
  assert_int_not_equal(call, SITU_OK); \
  expect_error(__VA_ARGS__)
  REFUSED(situ_write_png(situ_to_dtype(x, SITU_F32), "t.png", 6), SITU_E_ARG, "write_png", no_pixels);
  REFUSED(situ_write_png(situ_select(x, 0, 0), "t.png", 6), SITU_E_ARG, "write_png", no_pixels);
  REFUSED(situ_write_png(x, "t.png", 10), SITU_E_ARG, "write_png", "compression_level is 10");
  REFUSED(situ_write_jpeg(situ_narrow(x, 0, 0, 2), "t.jpg", 75), SITU_E_ARG, "write_jpeg", "1 or 3 channels");
  REFUSED(situ_write_jpeg(x, "t.jpg", 0), SITU_E_ARG, "write_jpeg", "quality is 0");
  expect_refused(situ_decode_image("GIF89a", 6, SITU_IMAGE_RGB, test_device()), SITU_E_FORMAT, "decode_image",
                 "neither a PNG nor a JPEG");
  expect_refused(situ_read_image("missing.png", SITU_IMAGE_RGB, test_device()), SITU_E_IO, "read_image", "missing.png");
  if (!has(&situ__png)) { REFUSED(situ_write_png(x, "t.png", 6), SITU_E_UNSUPPORTED, "write_png", "libpng16-16"); }
  if (!has(&situ__jpeg)) { REFUSED(situ_write_jpeg(x, "t.jpg", 75), SITU_E_UNSUPPORTED, "write_jpeg", "libjpeg"); }
}

/* ---- WAV ---- */

static situ_tensor *wav(const char *name, bool as_is, int64_t *rate) {
  return situ_wav_load(seed(name), &(situ_wav_options){ .not_normalized = as_is, .device = test_device() }, rate);
}

static void wav_values(void **state) {
  (void)state;
  int64_t rate = 0;
  expect_exact(wav("wav/u8.wav", false, &rate), SITU_SHAPE(1, 3), -1, 0, 0.9921875);
  assert_int_equal(rate, 8000);
  expect_exact(wav("wav/u8.wav", true, NULL), SITU_SHAPE(1, 3), 0, 128, 255);
  expect_exact(wav("wav/i16.wav", false, &rate), SITU_SHAPE(2, 2), -1, 0.5, 1 / 32768.0, -1 / 32768.0);
  assert_int_equal(rate, 44100);
  situ_tensor *t = wav("wav/i16.wav", true, NULL);
  assert_int_equal(situ_dtype_of(t), SITU_I16);
  expect_exact(t, SITU_SHAPE(2, 2), -32768, 16384, 1, -1);
  expect_exact(wav("wav/i24ext.wav", false, NULL), SITU_SHAPE(1, 2), -1, 8388607 / 8388608.0);
  expect_exact(wav("wav/i24ext.wav", true, NULL), SITU_SHAPE(1, 2), -2147483648.0, 2147483392.0);
  expect_exact(wav("wav/f32.wav", false, NULL), SITU_SHAPE(2, 2), 0.5, 2, -1, 0);
  t = wav("wav/f64.wav", true, NULL);
  assert_int_equal(situ_dtype_of(t), SITU_F64);
  expect_exact(t, SITU_SHAPE(1, 2), 0.25, -0.125);
}

static void wav_round_trip(void **state) {
  (void)state;
  static const situ_dtype dtypes[] = { SITU_U8, SITU_I16, SITU_I32, SITU_F32, SITU_F64 };
  int64_t rate = 0;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    situ_tensor *x = situ_to_dtype(test_random(SITU_SHAPE(3, 5), 0, 200, false), dtypes[i]);
    assert_int_equal(situ_wav_save("t.wav", x, 22050, 0), SITU_OK);
    expect_same(situ_wav_load("t.wav", &(situ_wav_options){ .not_normalized = true, .device = test_device() }, &rate),
                x, 0, 0);
    assert_int_equal(rate, 22050);
  }
  situ_tensor *x = T32(SITU_SHAPE(1, 7), -1.5, -1, -0.3, 0, 0.25, 1, NAN);
  for (int bits = 8; bits <= 32; bits += 8) {
    const double step = ldexp(1, 1 - bits), most = 1 - step;
    assert_int_equal(situ_wav_save("t.wav", x, 8000, bits), SITU_OK);
    situ_tensor *y = situ_wav_load("t.wav", &(situ_wav_options){ .device = test_device() }, NULL);
    expect_close(y, SITU_SHAPE(1, 7), 0, step * 0.51 + 1e-7, -1, -1, -0.3, 0, 0.25, most, 0);
  }
  assert_int_equal(situ_wav_save("t.wav", situ_zeros(SITU_SHAPE(2, 0), NULL), 8000, 16), SITU_OK);
  expect_exact(situ_wav_load("t.wav", NULL, NULL), SITU_SHAPE(2, 0), 0);
}

static void bad_wav(void **state) {
  (void)state;
  size_t bytes;
  unsigned char *data = load(seed("wav/i16.wav"), &bytes);
  for (size_t n = 0; n < bytes; n++) {
    store("t.wav", data, n);
    assert_null(situ_wav_load("t.wav", NULL, NULL));
    assert_int_equal(situ_error(), SITU_E_FORMAT);
    situ_error_clear();
  }
  static const struct {
    size_t at;
    unsigned char value;
    situ_status status;
    const char *text;
  } wrong[] = {
    { 0, 'X', SITU_E_FORMAT, "is not a WAV file" },         { 16, 14, SITU_E_FORMAT, "has a format of 14 bytes" },
    { 20, 6, SITU_E_UNSUPPORTED, "format 6 with 16 bits" }, { 22, 0, SITU_E_FORMAT, "0 channels" },
    { 32, 3, SITU_E_FORMAT, "frames of 3 bytes" },          { 34, 12, SITU_E_UNSUPPORTED, "with 12 bits" },
    { 40, 7, SITU_E_FORMAT, "7 bytes of frames of 4" },     { 43, 1, SITU_E_FORMAT, "has a chunk of" }
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const unsigned char was = data[wrong[i].at];
    data[wrong[i].at] = wrong[i].value;
    store("t.wav", data, bytes);
    expect_refused(situ_wav_load("t.wav", NULL, NULL), wrong[i].status, "wav_load", wrong[i].text);
    data[wrong[i].at] = was;
  }
  enum { FORMAT = 12, SAMPLES = 36 }; /* where these chunks begin */
  unsigned char *twice = malloc(bytes + SAMPLES - FORMAT);
  assert_non_null(twice);
  memcpy(twice, data, SAMPLES);
  memcpy(twice + SAMPLES, data + FORMAT, bytes - FORMAT);
  store("t.wav", twice, bytes + SAMPLES - FORMAT);
  expect_refused(situ_wav_load("t.wav", NULL, NULL), SITU_E_FORMAT, "wav_load", "a format of 16 bytes at byte 36");
  free(twice);
  free(data);
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 0, 0);
  REFUSED(situ_wav_save("t.wav", situ_select(x, 0, 0), 8000, 0), SITU_E_SHAPE, "wav_save", "[channels, frames]");
  REFUSED(situ_wav_save("t.wav", situ_to_dtype(x, SITU_F16), 8000, 0), SITU_E_DTYPE, "wav_save", "f16");
  REFUSED(situ_wav_save("t.wav", x, 0, 0), SITU_E_LIMIT, "wav_save", "at 0 a second");
  REFUSED(situ_wav_save("t.wav", x, 8000, 12), SITU_E_ARG, "wav_save", "bits is 12");
  REFUSED(situ_wav_save("t.wav", situ_to_dtype(x, SITU_I16), 8000, 8), SITU_E_ARG, "wav_save", "bits is 8");
}

/* ---- folders ---- */

static void make_folder(void) {
  const char *const directories[] = { "set", "set/b", "set/a", "set/a/in", "set/a-", "set/a/in-" };
  for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) (void)mkdir(directories[i], 0777);
  const char *const files[] = { "set/b/2.png",     "set/a/z.PNG",  "set/a/in/1.png",
                                "set/a/in-/0.png", "set/a-/q.png", "set/b/10.png" };
  for (int i = 0; i < 6; i++) {
    situ_tensor *x = situ_full(SITU_SHAPE(1, 2, 2), i, &(situ_options){ .dtype = SITU_U8 });
    assert_int_equal(situ_write_png(x, files[i], 6), SITU_OK);
  }
  store("set/b/notes.txt", "", 0);
  store("set/file.png", "", 0);
}

static situ_tensor *halved(situ_tensor *t, void *payload) {
  return situ_mul_scalar(situ_to_dtype(t, SITU_F32), *(double *)payload);
}

static situ_tensor *never(situ_tensor *t, void *payload) {
  (void)payload;
  fail_msg("called on %s", t ? "an image" : "NULL");
  return t;
}

static void folders(void **state) {
  (void)state;
  NEEDS_PNG;
  make_folder();
  double factor = 0.5;
  situ_dataset *set = situ_image_folder("set", &(situ_image_folder_options){ .transform = halved, .payload = &factor });
  if (!set) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_image_folder_classes(set), 3);
  assert_string_equal(situ_image_folder_class(set, 0), "a");
  assert_string_equal(situ_image_folder_class(set, 1), "a-");
  assert_string_equal(situ_image_folder_class(set, 2), "b");
  expect_refused(situ_image_folder_class(set, 3), SITU_E_INDEX, "image_folder_class", "3 of 3");
  static const double value[] = { 1, 2, 3, 4, 5, 0 }, label[] = { 0, 0, 0, 1, 2, 2 };
  assert_int_equal(situ_dataset_length(set), 6);
  for (int i = 0; i < 6; i++) {
    situ_tree *sample = situ_dataset_get(set, i);
    double got;
    situ_tensor *x = situ_tree_tensor_at(sample, 0);
    assert_int_equal(situ_size(x, 0), 3);
    assert_int_equal(situ_item(situ_mean(x, NULL), &got), SITU_OK);
    if (got != value[i] / 2) fail_msg("sample %d is %g, must be %g", i, got, value[i] / 2);
    assert_int_equal(situ_item(situ_tree_tensor_at(sample, 1), &got), SITU_OK);
    assert_true(got == label[i]);
    situ_tree_free(sample);
  }
  situ_dataset_free(set);
  situ_tree *rows = SITU_TREE(situ_zeros(SITU_SHAPE(2), NULL));
  situ_dataset *other = situ_tensor_dataset(rows);
  assert_int_equal(situ_image_folder_classes(other), -1);
  expect_error(SITU_E_ARG, "image_folder_classes", "TensorDataset is not an ImageFolder");
  situ_dataset_free(other);
}

/* Images are opened when they are asked for; without a transform they are as they were read. */
static void folders_of_many_images(void **state) {
  (void)state;
  enum { IMAGES = 100 };
  char path[64];
  (void)mkdir("many", 0777);
  (void)mkdir("many/class", 0777);
  for (int i = 0; i < IMAGES; i++) {
    (void)snprintf(path, sizeof path, "many/class/%03d.png", i);
    store(path, "", 0);
  }
  situ_dataset *set = situ_image_folder("many", &(situ_image_folder_options){ .transform = never });
  assert_int_equal(situ_dataset_length(set), IMAGES);
  assert_null(situ_dataset_get(set, 7));
  expect_error(SITU_E_FORMAT, "read_image", "007.png");
  situ_dataset_free(set);
  NEEDS_PNG;
  situ_tensor *x = situ_full(SITU_SHAPE(3, 2, 2), 9, &(situ_options){ .dtype = SITU_U8 });
  assert_int_equal(situ_write_png(x, "many/class/000.png", 6), SITU_OK);
  set = situ_image_folder("many", NULL);
  situ_tree *sample = situ_dataset_get(set, 0);
  if (!sample) fail_msg("%s", situ_error_message());
  expect_same(situ_tree_tensor_at(sample, 0), x, 0, 0);
  situ_tree_free(sample);
  situ_dataset_free(set);
}

static void bad_folders(void **state) {
  (void)state;
  char path[80] = "deep";
  for (size_t at = 4; at < 4 + 2 * 34; memcpy(path + at, "/d", 3), at += 2) (void)mkdir(path, 0777);
  (void)mkdir(path, 0777);
  store("deep/d/1.png", "", 0);
  expect_refused(situ_image_folder("deep", NULL), SITU_E_LIMIT, "image_folder", "more than 32 directories");
  (void)mkdir("empty", 0777);
  (void)mkdir("half", 0777);
  (void)mkdir("half/class", 0777);
  expect_refused(situ_image_folder("missing", NULL), SITU_E_IO, "image_folder", "missing: ");
  expect_refused(situ_image_folder("empty", NULL), SITU_E_ARG, "image_folder", "which would be a class");
  expect_refused(situ_image_folder("half", NULL), SITU_E_ARG, "image_folder", "half/class: no .png");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(png_values_are_torchvisions),
                                      TEST(png_round_trip),
                                      TEST(bad_png),
                                      TEST(jpeg_values_are_torchvisions),
                                      TEST(jpeg_round_trip),
                                      TEST(bad_jpeg),
                                      TEST(bad_image_arguments),
                                      TEST(wav_values),
                                      TEST(wav_round_trip),
                                      TEST(bad_wav),
                                      TEST(folders),
                                      TEST(folders_of_many_images),
                                      TEST(bad_folders) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
