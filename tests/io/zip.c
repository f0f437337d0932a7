/* The reader of zip directories: what it finds, and that it refuses every damage.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/format/zip.h"

/* Two stored entries: "d/a" with "hello" and "d/b" with "xy", then the directory and its end. */
enum { LOCAL_A = 0, DATA_A = 33, LOCAL_B = 38, DATA_B = 71, CENTRAL_A = 73, CENTRAL_B = 122, END = 171, BYTES = 193 };

static void put(unsigned char *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static void put_both(unsigned char *file, int local, int central, const char *name, const char *data) {
  const size_t bytes = strlen(data);
  const uint32_t crc = situ__crc32(0, data, bytes);
  put(file + local, 0x04034b50, 4);
  put(file + local + 14, crc, 4);
  put(file + local + 18, bytes, 4);
  put(file + local + 22, bytes, 4);
  put(file + local + 26, 3, 2);
  memcpy(file + local + 30, name, 3);
  memcpy(file + local + 33, data, bytes);
  put(file + central, 0x02014b50, 4);
  put(file + central + 16, crc, 4);
  put(file + central + 20, bytes, 4);
  put(file + central + 24, bytes, 4);
  put(file + central + 28, 3, 2);
  put(file + central + 42, (uint64_t)local, 4);
  memcpy(file + central + 46, name, 3);
}

static void make(unsigned char file[BYTES]) {
  memset(file, 0, BYTES);
  put_both(file, LOCAL_A, CENTRAL_A, "d/a", "hello");
  put_both(file, LOCAL_B, CENTRAL_B, "d/b", "xy");
  put(file + END, 0x06054b50, 4);
  put(file + END + 8, 2, 2);
  put(file + END + 10, 2, 2);
  put(file + END + 12, END - CENTRAL_A, 4);
  put(file + END + 16, CENTRAL_A, 4);
}

/* The archive that is read, in a block of exactly its size, so that a sanitizer sees a byte read too far. */
static struct {
  char *data;
  size_t bytes, fails_at; /* fails_at: the number of the read that fails, from 1 */
  size_t reads;
} archive;

static ssize_t read_archive(int fd, void *data, size_t bytes, off_t at) {
  (void)fd;
  assert_true(at >= 0 && (size_t)at + bytes <= archive.bytes);
  if (++archive.reads == archive.fails_at) return 0;
  memcpy(data, archive.data + at, bytes);
  return (ssize_t)bytes;
}

/* `before` bytes stand before the archive. */
static bool parse_at(situ__zip *zip, const unsigned char *file, size_t bytes, size_t before) {
  archive.bytes = before + bytes;
  archive.reads = 0;
  archive.data = calloc(archive.bytes + 1, 1);
  assert_non_null(archive.data);
  if (bytes) memcpy(archive.data + before, file, bytes);
  situ_error_clear();
  situ__sys.pread = read_archive;
  const situ__zip_source source = { .op = "test", .path = "f", .start = (int64_t)before, .bytes = (int64_t)bytes };
  const bool fine = situ__zip_open(zip, &source);
  free(archive.data);
  assert_int_equal(fine, situ_error() == SITU_OK);
  return fine;
}

static bool parse(situ__zip *zip, const unsigned char *file, size_t bytes) { return parse_at(zip, file, bytes, 0); }

static void finds_entries(void **state) {
  (void)state;
  unsigned char file[BYTES];
  situ__zip zip;
  make(file);
  assert_true(parse(&zip, file, BYTES));
  assert_int_equal(zip.count, 2);
  const situ__zip_entry *b = situ__zip_find(&zip, "d/b");
  assert_non_null(b);
  assert_int_equal(b->offset, DATA_B);
  assert_int_equal(b->bytes, 2);
  assert_int_equal(b->crc, situ__crc32(0, "xy", 2));
  assert_null(situ__zip_find(&zip, "d/c"));
  assert_ptr_equal(situ__zip_find_inside(&zip, "b"), b);
  assert_null(situ__zip_find_inside(&zip, "d/b"));
  situ__zip_free(&zip);
  /* Inside of another file, whose offsets it gives. */
  assert_true(parse_at(&zip, file, BYTES, 100));
  assert_int_equal(situ__zip_find(&zip, "d/b")->offset, 100 + DATA_B);
  assert_int_equal(situ__zip_find(&zip, "d/b")->header, 100 + LOCAL_B);
  situ__zip_free(&zip);
}

/* A file that is cut short between two reads is an error, and not the end of the program. */
static void reports_a_file_that_shrinks(void **state) {
  (void)state;
  unsigned char file[BYTES];
  situ__zip zip;
  make(file);
  assert_true(parse(&zip, file, BYTES));
  situ__zip_free(&zip);
  const size_t reads = archive.reads;
  assert_int_equal(reads, 6); /* the end, the directory, two for each entry */
  for (archive.fails_at = 1; archive.fails_at <= reads; archive.fails_at++) {
    assert_false(parse(&zip, file, BYTES));
    assert_int_equal(situ_error(), SITU_E_IO);
  }
  archive.fails_at = 0;
}

/* CRC-32 of "123456789", from the catalogue of CRC algorithms. */
static void sums_as_zip_does(void **state) {
  (void)state;
  assert_int_equal(situ__crc32(0, "123456789", 9), 0xcbf43926);
  assert_int_equal(situ__crc32(situ__crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
}

static void refuse(const unsigned char *file, size_t bytes, const char *word) {
  situ__zip zip;
  if (parse(&zip, file, bytes)) fail_msg("accepted, instead of: %s", word);
  if (!strstr(situ_error_message(), word)) fail_msg("\"%s\" does not say \"%s\"", situ_error_message(), word);
}

static void refuses_what_is_wrong(void **state) {
  (void)state;
  static const struct {
    int at, bytes;
    uint64_t value;
    const char *word;
  } damages[] = {
    { CENTRAL_A + 10, 2, 8, "compressed" },
    { CENTRAL_A + 8, 2, 1, "encrypted" },
    { CENTRAL_B + 42, 4, LOCAL_A, "differs" },   /* another's local header */
    { LOCAL_B + 22, 4, 1, "differs" },           /* sizes that disagree */
    { LOCAL_B + 30, 1, 'e', "differs" },         /* a name that disagrees */
    { LOCAL_B + 6, 2, 8, "differs" },            /* flags */
    { CENTRAL_B + 24, 4, 3, "sizes" },           /* packed and plain sizes */
    { CENTRAL_A + 46, 3, 0x2e2e2f, "relative" }, /* "/.." */
    { CENTRAL_A + 46, 3, 0x2f2e2e, "relative" }, /* "../" */
    { CENTRAL_A + 46, 1, '\\', "relative" },
    { CENTRAL_A + 47, 1, 0, "relative" },    /* a NUL in the name */
    { CENTRAL_A + 47, 1, 0xff, "relative" }, /* not UTF-8 */
    { CENTRAL_A + 42, 4, 0xfffffff0, "outside" },
    { CENTRAL_A + 28, 2, 4000, "too early" },
    { CENTRAL_A + 30, 2, 9, "sizes" }, /* extra fields that are not whole */
    { END + 8, 2, 1, "disks" },
    { END + 4, 2, 1, "disks" },
    { END + 10, 2, 3, "disks" },
    { END + 12, 4, 200, "outside" },
    { END + 16, 4, 0x80000000, "outside" },
    { END + 20, 2, 1, "after its directory" }, /* a comment */
    { LOCAL_A, 4, 0, "without a local header" },
  };
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    unsigned char file[BYTES];
    make(file);
    put(file + damages[i].at, damages[i].value, damages[i].bytes);
    refuse(file, BYTES, damages[i].word);
  }
}

static void refuses_names_twice_and_overlaps(void **state) {
  (void)state;
  unsigned char file[BYTES];
  make(file);
  file[LOCAL_B + 32] = file[CENTRAL_B + 48] = 'a';
  refuse(file, BYTES, "twice");
  /* The first entry reaches over the header of the second. */
  make(file);
  for (int k = 0; k < 2; k++) {
    put(file + LOCAL_A + 18 + 4 * k, 20, 4);
    put(file + CENTRAL_A + 20 + 4 * k, 20, 4);
  }
  refuse(file, BYTES, "overlaps");
}

/* The numbers of a zip64 end win, if they agree with those of the short end. */
static void reads_zip64(void **state) {
  (void)state;
  enum { MORE = 56 + 20 };
  unsigned char file[BYTES + MORE];
  situ__zip zip;
  make(file);
  memmove(file + END + MORE, file + END, BYTES - END);
  memset(file + END, 0, MORE);
  put(file + END, 0x06064b50, 4);
  put(file + END + 4, 44, 8);
  put(file + END + 24, 2, 8);
  put(file + END + 32, 2, 8);
  put(file + END + 40, END - CENTRAL_A, 8);
  put(file + END + 48, CENTRAL_A, 8);
  put(file + END + 56, 0x07064b50, 4);
  put(file + END + 64, END, 8);
  put(file + END + MORE + 12, 0xffffffff, 4);
  put(file + END + MORE + 16, 0xffffffff, 4);
  assert_true(parse(&zip, file, sizeof file));
  assert_int_equal(zip.count, 2);
  situ__zip_free(&zip);
  put(file + END + 32, (uint64_t)1 << 62, 8);
  refuse(file, sizeof file, "disagree");
  put(file + END + 32, 2, 8);
  put(file + END + 64, END - 1, 8);
  refuse(file, sizeof file, "locator");
}

/* No prefix, no suffix and no file with one byte changed is read beyond its end, or found to have bytes outside. */
static void any_byte_may_be_wrong(void **state) {
  (void)state;
  unsigned char file[BYTES];
  situ__zip zip;
  make(file);
  for (size_t bytes = 0; bytes < BYTES; bytes++) {
    assert_false(parse(&zip, file, bytes));
    assert_false(parse(&zip, file + BYTES - bytes, bytes));
  }
  for (int at = 0; at < BYTES; at++)
    for (int flip = 1; flip < 256; flip++) {
      file[at] ^= (unsigned char)flip;
      if (parse(&zip, file, BYTES)) {
        for (int64_t i = 0; i < zip.count; i++)
          assert_true(zip.entry[i].offset >= 0 && zip.entry[i].bytes >= 0 &&
                      zip.entry[i].offset + zip.entry[i].bytes <= CENTRAL_A);
        situ__zip_free(&zip);
      }
      file[at] ^= (unsigned char)flip;
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(finds_entries),
    cmocka_unit_test(sums_as_zip_does),
    cmocka_unit_test(refuses_what_is_wrong),
    cmocka_unit_test(refuses_names_twice_and_overlaps),
    cmocka_unit_test(reports_a_file_that_shrinks),
    cmocka_unit_test(reads_zip64),
    cmocka_unit_test(any_byte_may_be_wrong),
  };
  situ_error_mode(SITU_ERROR_QUIET);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
