/* A device by its UUID or PCI address: what is read, what is refused, in the program and in maps; two devices that are one chip,
   and what is said of their memory.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <ctype.h>
#include <stdlib.h>

#include "situ/policy.h"
#include "support/pairs.h"

#define UUID "65a3f0c1-1234-5678-9abc-def012345678"
static const situ_device sim0 = { SITU_SIM, 0 }, sim1 = { SITU_SIM, 1 };

static int begin(void **state) {
  return pair_begin(state) | (situ_sim_create(2) != SITU_OK) | (situ_sim_identify(0, UUID, "0000:65:00.0") != SITU_OK);
}
static int end(void **state) {
  return pair_end(state) | (situ_sim_reset(0) != SITU_OK) | (situ_sim_reset(1) != SITU_OK);
}

/* placement: A3 */
static void a_device_by_its_uuid_or_address(void **state) {
  (void)state;
  static const char *const names[] = { "sim:uuid=" UUID,       "sim:uuid=GPU-" UUID, /* as nvidia-smi gives it */
                                       "sim:uuid=MIG-" UUID,   "sim:uuid=65A3F0C1-1234-5678-9ABC-DEF012345678",
                                       "sim:pci=0000:65:00.0", "sim:pci=00000000:65:00.0" };
  char buffer[SITU_DEVICE_NAME_MAX], name[64];
  situ_device_properties p;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    situ_device device = { 7, 7 };
    expect_ok(situ_device_parse(names[i], &device));
    assert_string_equal(situ_device_name(device, buffer), "sim:0");
  }
  /* What is shown is what is read; each device has its own. */
  expect_ok(situ_device_info(sim1, &p));
  (void)snprintf(name, sizeof name, "sim:uuid=%s", p.uuid);
  assert_true(situ_device_equal(situ_dev(name), sim1));
  (void)snprintf(name, sizeof name, "sim:pci=%s", p.pci);
  assert_true(situ_device_equal(situ_dev(name), sim1));
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL));
  expect_ok(situ_nn_to_map(m, "0=sim:uuid=" UUID ", 1=sim:pci=5170:00:01.0"));
  expect_on(situ_nn_get_tensor(m, "0.weight"), sim0);
  expect_on(situ_nn_get_tensor(m, "1.weight"), sim1);
  situ_nn_free(m);
}

/* placement: A3 */
static void unknown_ids_list_those_that_are_there(void **state) {
  (void)state;
  static const struct {
    const char *name, *why;
  } rows[] = {
    { "sim:uuid=GPU-00000000-0000-0000-0000-000000000001",
      "no sim device has this UUID; there are: sim:0 " UUID ", sim:1 51700000-0000-0000-0000-000000000001" },
    { "sim:pci=0000:66:00.0", "no sim device has this PCI address; there are: sim:0 0000:65:00.0, sim:1 5170:00:01.0" },
    { "cpu:pci=0000:66:00.0", "a cpu device has no PCI address; its name is \"cpu:0\"" },
    { "cpu:uuid=1", "a cpu device has no UUID; its name is \"cpu:0\"" },
    { "plan:uuid=" UUID, "a plan device has no UUID; its name is \"plan:0\"" },
    { "sim:uuid=", "a UUID is 32 hexadecimal digits" },
    { "sim:uuid=GPU-", "a UUID is 32 hexadecimal digits" },
    { "sim:uuid=" UUID "0", "a UUID is 32 hexadecimal digits" },
    { "sim:uuid=" UUID " ", "a UUID is 32 hexadecimal digits" },
    { "sim:uuid=GPU-GPU-" UUID, "a UUID is 32 hexadecimal digits" },
    { "sim:uuid=65a3f0c11234567809abcdef01234567", "a UUID is 32 hexadecimal digits" },
    { "sim:pci=", "a PCI address is domain:bus:device.function" },
    { "sim:pci=65:00.0", "a PCI address is domain:bus:device.function" },
    { "sim:pci=0000:65:00", "a PCI address is domain:bus:device.function" },
    { "sim:pci=0000:65:20.0", "a PCI address is domain:bus:device.function" }, /* 32 devices on a bus */
    { "sim:pci=0000:65:00.8", "a PCI address is domain:bus:device.function" },
    { "sim:pci=0000:65:00.0x", "a PCI address is domain:bus:device.function" },
    { "sim:pci=000000000:65:00.0", "a PCI address is domain:bus:device.function" },
    { "sim:UUID=" UUID, "an index is made of digits only" },
    { "sim:uuid:" UUID, "an index is made of digits only" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    situ_device device = { 7, 7 };
    assert_int_equal(situ_device_parse(rows[i].name, &device), SITU_E_ARG);
    assert_true(device.kind == 7 && device.index == 7);
    if (!strstr(situ_error_message(), rows[i].why)) fail_msg("%s: %s", rows[i].name, situ_error_message());
    expect_error(SITU_E_ARG, "device_parse", "");
  }
}

/* A name with one wrong character is refused, or is that of the device that it names. */
static void drawn_ids_are_read_strictly(void **state) {
  (void)state;
  static const char *const good[] = { "sim:uuid=GPU-" UUID, "sim:uuid=" UUID, "sim:pci=0000:65:00.0" };
  static const char characters[] = "0123456789abcdefABCDEF-:.=gG \n\x7f\xff";
  unsigned seed = 55;
  int read = 0;
  for (int i = 0; i < 20000; i++) {
    char name[64], wanted[64];
    situ_device device;
    (void)snprintf(name, sizeof name, "%s", good[i % 3]);
    char *at = name + 4 + rand_r(&seed) % (strlen(name) - 4);
    if (i % 7 == 0) *at = '\0';
    else if (i % 7 == 1) memmove(at, at + 1, strlen(at));
    else *at = characters[rand_r(&seed) % (sizeof characters - 1)];
    if (situ_device_parse(name, &device) == SITU_OK) {
      (void)snprintf(wanted, sizeof wanted, "%s", good[i % 3]);
      for (char *c = name + 4; *c; c++) *c = (char)tolower((unsigned char)*c);
      for (char *c = wanted + 4; *c; c++) *c = (char)tolower((unsigned char)*c);
      assert_string_equal(name, wanted);
      assert_true(situ_device_equal(device, sim0));
      read++;
    } else {
      expect_error(SITU_E_ARG, "device_parse", "");
    }
  }
  assert_in_range(read, 100, 5000);
}

static void wrong_identities_are_refused(void **state) {
  (void)state;
  situ_device_properties p;
  assert_int_equal(situ_sim_identify(0, "0000", NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "sim_identify", "\"0000\" is not a UUID");
  assert_int_equal(situ_sim_identify(0, NULL, "65"), SITU_E_ARG);
  expect_error(SITU_E_ARG, "sim_identify", "\"65\" is not a PCI address");
  assert_int_equal(situ_sim_identify(99, NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "sim_identify", "there is no sim:99");
  expect_ok(situ_device_info(sim0, &p));
  assert_string_equal(p.uuid, UUID);
  expect_ok(situ_sim_identify(0, "", ""));
  expect_ok(situ_device_info(sim0, &p));
  assert_true(!*p.uuid && !*p.pci);
  assert_true(situ_device_equal(situ_dev("sim:pci=5170:00:01.0"), sim1));
}

/* ---- one chip --------------------------------------------------------------------------------- */

/* placement: A4 */
static void one_chip_is_known_by_either(void **state) {
  (void)state;
  assert_false(situ_device_same_chip(sim0, sim1));
  expect_ok(situ_sim_identify(1, "GPU-" UUID, NULL));
  assert_true(situ_device_same_chip(sim0, sim1) && situ_device_same_chip(sim1, sim0));
  expect_ok(situ_sim_identify(1, NULL, "0000:65:00.0"));
  assert_true(situ_device_same_chip(sim0, sim1));
  expect_ok(situ_sim_identify(0, "", "")); /* what is unknown is not equal */
  expect_ok(situ_sim_identify(1, "", ""));
  assert_false(situ_device_same_chip(sim0, sim1));
  assert_true(situ_device_same_chip(sim0, sim0));
  assert_false(situ_device_same_chip(situ_dev("cpu"), situ_dev("meta")));
  assert_true(situ_device_same_chip((situ_device){ 0 }, situ_dev("cpu")));
  assert_false(situ_device_same_chip((situ_device){ SITU_SIM, 9 }, sim0));
  expect_error(SITU_E_ARG, "device_same_chip", "sim:9 is not there");
}

/* Of the peaks of a run and of limits it is said that they are of one memory. */
/* placement: A4 */
static void its_memory_is_one(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(situ_nn_sequential(situ_nn_linear(64, 64, NULL), situ_nn_linear(64, 64, NULL)));
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 64), &(situ_options){ .device = sim0 }));
  const situ_place_limit limits[] = { { sim0, 0 }, { sim1, 0 } };
  situ_place_layout layout;
  situ_setting before;
  expect_ok(situ_nn_to_map(m, "0=sim:0, 1=sim:1"));
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                            .device_to_host = SITU_POLICY_COPY,
                                            .device_to_device = SITU_POLICY_COPY });
  for (int same = 0; same < 2; same++) {
    situ_place_report r;
    char text[1024];
    if (same) expect_ok(situ_sim_identify(1, UUID, NULL));
    expect_ok(situ_place_check(m, in, NULL, &r));
    assert_int_equal(r.mistakes, 0);
    assert_true(situ_place_report_to_string(&r, text, sizeof text) > 0);
    assert_int_equal(strstr(text, "are one chip: its memory has the peaks of both, together at most ") != NULL, same);
    situ_place_report_free(&r);
    if (!same) {
      expect_ok(situ_place_fit(m, in, limits, 2, NULL, &layout));
      situ_place_layout_free(&layout);
    }
  }
  assert_int_equal(situ_place_fit(m, in, limits, 2, NULL, &layout), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_fit", "limits[0] and limits[1] are one chip, with one memory");
  situ_policy_end(&before);
  situ_tree_free(in);
  situ_nn_free(m);
}

#define ID_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
  const struct CMUnitTest tests[] = {
    ID_TEST(a_device_by_its_uuid_or_address), ID_TEST(unknown_ids_list_those_that_are_there),
    ID_TEST(drawn_ids_are_read_strictly),     ID_TEST(wrong_identities_are_refused),
    ID_TEST(one_chip_is_known_by_either),     ID_TEST(its_memory_is_one),
  };
  return cmocka_run_group_tests_name("device/identity", tests, NULL, NULL);
}
