/* Device names: a strict parser, and a suggestion for names that it rejects.
   SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "device/device.h"

static const char *const kinds[SITU_DEVICE_KINDS] = {
  [SITU_DEVICE_DEFAULT] = "default", [SITU_CPU] = "cpu",   [SITU_META] = "meta", [SITU_SIM] = "sim",
  [SITU_OPENCL] = "opencl",          [SITU_CUDA] = "cuda", [SITU_PLAN] = "plan",
};

/* Names that other libraries use. */
static const struct {
  const char *written, *meant;
} aliases[] = {
  { "gpu", "cuda" },  { "nvidia", "cuda" }, { "hip", "cuda" },      { "host", "cpu" },      { "ocl", "opencl" },
  { "cl", "opencl" }, { "pocl", "opencl" }, { "simulated", "sim" }, { "simulator", "sim" },
};

const char *situ__kind_name(unsigned kind) { return kind < SITU_DEVICE_KINDS ? kinds[kind] : NULL; }

bool situ_device_equal(situ_device a, situ_device b) { return a.kind == b.kind && a.index == b.index; }

const char *situ_device_name(situ_device device, char buffer[SITU_DEVICE_NAME_MAX]) {
  const char *kind = situ__kind_name(device.kind);
  if (!situ__given("device_name", "buffer", buffer)) return "";
  bool single = device.kind <= SITU_META && device.index == 0;
  (void)snprintf(buffer, SITU_DEVICE_NAME_MAX, single ? "%s" : "%s:%u", kind ? kind : "refused", device.index);
  return buffer;
}

/* ---- suggestions ---- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Damerau-Levenshtein distance of two short words (longer ones are cut). */
static size_t distance(const char *a, const char *b) {
  enum { LONGEST = 15 };
  size_t table[LONGEST + 1][LONGEST + 1], m = smaller(strlen(a), LONGEST), n = smaller(strlen(b), LONGEST);
  for (size_t i = 0; i <= m; i++) {
    for (size_t j = 0; j <= n; j++) {
      size_t *d = &table[i][j];
      if (i == 0 || j == 0) {
        *d = i + j;
        continue;
      }
      *d = smaller(smaller(table[i - 1][j], table[i][j - 1]) + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) *d = smaller(*d, table[i - 2][j - 2] + 1);
    }
  }
  return table[m][n];
}

/* Returns the kind closest to the word; cpu if none is close. */
static unsigned nearest_kind(const char *word) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(word, aliases[i].written) == 0) word = aliases[i].meant;
  unsigned best = SITU_CPU;
  size_t least = 3; /* a distance of 3 is another word */
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    size_t d = distance(word, kinds[kind]);
    if (d < least) {
      least = d;
      best = kind;
    }
  }
  return best;
}

/* Guesses the device from the letters and the number of a rejected name. */
static situ_device guess_device(const char *name) {
  char word[16];
  size_t length = 0;
  const char *c = name;
  while (*c && !isalpha((unsigned char)*c)) c++;
  for (; isalpha((unsigned char)*c); c++)
    if (length < sizeof word - 1) word[length++] = (char)tolower((unsigned char)*c);
  word[length] = 0;
  situ_device meant = { (uint16_t)nearest_kind(word), 0 };
  while (*c && !isdigit((unsigned char)*c)) c++;
  unsigned index = 0;
  for (; isdigit((unsigned char)*c) && index < SITU__DEVICES_MAX; c++) index = index * 10 + (unsigned)(*c - '0');
  bool negative = strchr(name, '-') != NULL;
  unsigned count = (unsigned)situ_device_count(kinds[meant.kind]);
  if (!negative && index < (count ? count : SITU__DEVICES_MAX)) meant.index = (uint16_t)index;
  return meant;
}

/* Makes the name printable for a terminal, and short. */
static const char *make_printable(const char *name, char buffer[44]) {
  size_t length = 0;
  for (const char *c = name; *c && length < 40; c++) buffer[length++] = isprint((unsigned char)*c) ? *c : '?';
  if (strlen(name) > length) length -= 3, memcpy(buffer + length, "...", 3), length += 3;
  buffer[length] = 0;
  return buffer;
}

static situ_status refuse_name(const char *name, const char *why) {
  char text[44], meant[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_ARG, "device_parse", "\"%s\": %s; did you mean \"%s\"?", make_printable(name, text), why,
                    situ_device_name(guess_device(name), meant));
}

/* ---- parsing ---- */

/* Returns the kind that the first `length` characters name; 0 if none. */
static unsigned read_kind(const char *name, size_t length) {
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++)
    if (strlen(kinds[kind]) == length && memcmp(name, kinds[kind], length) == 0) return kind;
  return 0;
}

static situ_status unknown_kind(const char *name, size_t length) {
  bool upper = false;
  for (size_t i = 0; i < length; i++) upper |= isupper((unsigned char)name[i]) != 0;
  if (*name == 0) return refuse_name(name, "the name is empty");
  if (length == 0) return refuse_name(name, "there is no kind before the colon");
  if (upper) return refuse_name(name, "device names are written in lower case");
  return refuse_name(name, "there is no such kind of device (cpu, meta, sim, opencl, cuda, plan)");
}

situ_status situ_device_parse(const char *name, situ_device *out) {
  if (!name) return situ__null("device_parse", "name");
  if (!out) return situ__null("device_parse", "out");
  size_t length = strcspn(name, ":");
  unsigned kind = read_kind(name, length);
  if (!kind) return unknown_kind(name, length);

  unsigned index = 0;
  if (name[length] == ':') {
    const char *digits = name + length + 1;
    if (strncmp(digits, "uuid=", 5) == 0 || strncmp(digits, "pci=", 4) == 0)
      return situ__device_identified(name, kind, digits, out);
    size_t count = strspn(digits, "0123456789");
    if (*digits == 0) return refuse_name(name, "there is no index after the colon");
    if (*digits == '-') return refuse_name(name, "an index cannot be negative");
    if (digits[count] != 0) return refuse_name(name, "an index is made of digits only");
    if (count > 1 && *digits == '0') return refuse_name(name, "an index has no leading zero");
    for (const char *c = digits; *c && index < SITU__DEVICES_MAX; c++) index = index * 10 + (unsigned)(*c - '0');
  }
  /* Names of a kind without devices are valid: a program must be able to ask for cuda:0. */
  unsigned there = (unsigned)situ_device_count(kinds[kind]);
  unsigned limit = there ? there : SITU__DEVICES_MAX;
  if (index >= limit) {
    char why[96];
    const char *s = there == 1 ? "" : "s", *are = there == 1 ? "is" : "are";
    if (there) {
      (void)snprintf(why, sizeof why, "there %s %u %s device%s", are, there, kinds[kind], s);
    } else {
      (void)snprintf(why, sizeof why, "an index is below %d, and there is no %s device", SITU__DEVICES_MAX,
                     kinds[kind]);
    }
    return refuse_name(name, why);
  }
  *out = (situ_device){ (uint16_t)kind, (uint16_t)index };
  return SITU_OK;
}

situ_device situ_dev(const char *name) {
  situ_device device = { SITU_DEVICE_KINDS, 0 };
  /* The error is recorded, and each call that gets the value records one too. */
  SITU_IGNORE(situ_device_parse(name, &device));
  return device;
}
