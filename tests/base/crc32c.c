/* CRC-32C: known answers, and all ways of computing it against each other.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"

/* RFC 3720, appendix B.4. */
static void known_answers(void **state) {
  (void)state;
  unsigned char block[32];
  assert_int_equal(situ__crc32c(0, "123456789", 9), 0xE3069283u);
  assert_int_equal(situ__crc32c(0, NULL, 0), 0);
  memset(block, 0, sizeof block);
  assert_int_equal(situ__crc32c(0, block, 32), 0x8A9136AAu);
  memset(block, 0xFF, sizeof block);
  assert_int_equal(situ__crc32c(0, block, 32), 0x62A8AB43u);
  for (int i = 0; i < 32; i++) block[i] = (unsigned char)i;
  assert_int_equal(situ__crc32c(0, block, 32), 0x46DD794Eu);
}

/* Bit by bit, as the definition has it. */
static uint32_t by_definition(uint32_t crc, const unsigned char *data, size_t bytes) {
  crc = ~crc;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

static void all_ways_agree(void **state) {
  (void)state;
  static const size_t sizes[] = { 1, 7, 8, 9, 63, 255, 256, 257, 319, 512, 767, 4095, 12287, 12288, 12289, 40000 };
  unsigned char *data = malloc(40016);
  for (uint32_t i = 0; i < 40016; i++) data[i] = (unsigned char)(i * 2654435761u >> 21);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t shift = 0; shift < 9; shift += 3) {
      uint32_t want = by_definition(0x1234, data + shift, sizes[s]);
      assert_int_equal(situ__crc32c(0x1234, data + shift, sizes[s]), want);
      assert_int_equal(situ__crc32c_portable(0x1234, data + shift, sizes[s]), want);
      /* In two steps. */
      size_t half = sizes[s] / 3;
      uint32_t first = situ__crc32c(0x1234, data + shift, half);
      assert_int_equal(situ__crc32c(first, data + shift + half, sizes[s] - half), want);
    }
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(known_answers), cmocka_unit_test(all_ways_agree) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
