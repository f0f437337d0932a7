/* For tests about two devices: a program begins `here`, which is the default device, and moves
   things `there`. A suite with the marker `test-devices: meta sim:0 sim:1 opencl:0 opencl:1` runs
   once for each pair cpu+meta, cpu+sim:0, sim:0+sim:1, cpu+opencl:0, opencl:0+opencl:1.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PAIRS_H
#define SITU_TEST_PAIRS_H

#include <stdio.h>
#include <string.h>

#include "situ/ledger.h"
#include "situ/place.h"
#include "situ/sys/sim.h"
#include "support/modules.h"

static inline situ_device there(void) { return test_device(); }
static inline situ_device here(void) { return there().index == 1 ? test_device_at(0) : situ_dev("cpu"); }
/* Only a simulated device can be told to lack something, to be full or to fail. */
#define needs_sim() \
  if (there().kind != SITU_SIM) skip()

/* Meta has shapes and no values. */
static inline bool has_values(situ_device d) { return d.kind != SITU_META; }

static inline int pair_begin(void **state) {
  int failed = test_begin_modules(state);
  return failed | (situ_set_default_device(here()) != SITU_OK);
}
static inline int pair_end(void **state) {
  int failed = situ_set_default_device((situ_device){ 0 }) != SITU_OK;
  return failed | test_end_modules(state);
}
#define PAIR_TEST(name) cmocka_unit_test_setup_teardown(name, pair_begin, pair_end)

#define expect_ok(call) test_ok_((call), #call, __FILE__, __LINE__)
static inline void test_ok_(situ_status status, const char *call, const char *file, int line) {
  if (status == SITU_OK) return;
  print_error("%s: %s\n", call, situ_error_message());
  _fail(file, line);
}

#define expect_on(tensor, device) test_on_((tensor), (device), __FILE__, __LINE__)
static inline void test_on_(const situ_tensor *t, situ_device device, const char *file, int line) {
  char got[SITU_DEVICE_NAME_MAX], wanted[SITU_DEVICE_NAME_MAX];
  if (t && situ_device_equal(situ_device_of(t), device)) return;
  print_error("on %s, wanted %s: %s\n", t ? situ_device_name(situ_device_of(t), got) : "nothing",
              situ_device_name(device, wanted), situ_error_message());
  _fail(file, line);
}

/* "sim:1" for a printf; good until eight more have been asked for. */
static inline const char *name_of(situ_device device) {
  static char names[8][SITU_DEVICE_NAME_MAX];
  static unsigned next;
  return situ_device_name(device, names[next++ % 8]);
}
static inline const char *where(const situ_tensor *t) { return name_of(situ_device_of(t)); }

#endif
