/* Which chip a device is: UUIDs and PCI addresses, read strictly, looked for and compared.
   SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <string.h>

#include "base/fail.h"
#include "base/problem.h"
#include "base/text.h"
#include "device/device.h"

bool situ__read_uuid(const char *text, char out[SITU_UUID_MAX]) {
  static const char form[SITU_UUID_MAX] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0) text += 4;
  for (size_t i = 0; i < sizeof form; i++) {
    if (form[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != form[i]) return false;
    out[i] = (char)tolower((unsigned char)text[i]);
  }
  return true;
}

/* nvidia-smi writes the domain with eight digits, everyone else with four. */
bool situ__read_pci(const char *text, char out[SITU_PCI_MAX]) {
  static const char hex[] = "0123456789abcdefABCDEF";
  size_t domain = strspn(text, hex);
  const char *at = text + domain; /* ":65:00.0" */
  if (domain < 4 || domain > 8 || *at != ':' || strspn(at + 1, hex) != 2 || at[3] != ':') return false;
  if (strspn(at + 4, hex) != 2 || at[4] > '1' || at[6] != '.' || at[7] < '0' || at[7] > '7' || at[8]) return false;
  while (domain > 4 && *text == '0') text++, domain--;
  for (size_t i = 0; i <= domain + 8; i++) out[i] = (char)tolower((unsigned char)text[i]);
  return true;
}

static const char op[] = "device_parse";

situ_status situ__device_identified(const char *name, unsigned kind, const char *id, situ_device *out) {
  const bool by_uuid = *id == 'u';
  const char *what = by_uuid ? "UUID" : "PCI address", *kind_name = situ__kind_name(kind);
  char wanted[SITU_UUID_MAX], text[SITU_DEVICE_NAME_MAX], shown[SITU__SHOWN_MAX];
  (void)situ__shown(name, shown);
  if (kind == SITU_CPU || kind == SITU_META || kind == SITU_PLAN)
    return situ__fail(SITU_E_ARG, op, "\"%s\": a %s device has no %s; its name is \"%s:0\"", shown, kind_name, what,
                      kind_name);
  if (by_uuid ? !situ__read_uuid(id + strlen("uuid="), wanted) : !situ__read_pci(id + strlen("pci="), wanted))
    return situ__fail(SITU_E_ARG, op, "\"%s\": %s", shown,
                      by_uuid ? "a UUID is 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12, as nvidia-smi -L "
                                "gives it: \"cuda:uuid=GPU-65a3f0c1-1234-5678-9abc-def012345678\""
                              : "a PCI address is domain:bus:device.function in hexadecimal digits, as lspci -D gives "
                                "it: \"cuda:pci=0000:65:00.0\"");
  situ__text there = { 0 };
  const int count = situ_device_count(kind_name);
  for (int i = 0; i < count; i++) {
    const situ_device device = { (uint16_t)kind, (uint16_t)i };
    situ_device_properties has;
    if (!situ_device_is_available(device)) continue; /* the program has it back */
    if (situ_device_info(device, &has) != SITU_OK) return situ__text_free(&there), situ_error();
    const char *own = by_uuid ? has.uuid : has.pci;
    if (strcmp(own, wanted) == 0) return situ__text_free(&there), *out = device, SITU_OK;
    situ__text_add(&there, "%s%s %s%s", there.length ? ", " : "", situ_device_name(device, text),
                   *own ? own : "without a ", *own ? "" : what);
  }
  const situ_status status = there.failed ? situ__no_memory(op, there.length)
                             : count ? situ__fail(SITU_E_ARG, op, "\"%s\": no %s device has this %s; there are: %s",
                                                  shown, kind_name, what, there.data)
                                     : situ__fail(SITU_E_ARG, op, "\"%s\": there is no %s device: %s", shown, kind_name,
                                                  situ_device_status(kind_name));
  return situ__text_free(&there), status;
}

static bool same(const char *a, const char *b) { return *a && strcmp(a, b) == 0; }

bool situ_device_same_chip(situ_device a, situ_device b) {
  situ_device_properties one, other;
  if (!situ__device_resolve("device_same_chip", a, &a) || !situ__device_resolve("device_same_chip", b, &b))
    return false;
  if (situ__same_device(a, b)) return true;
  if (situ_device_info(a, &one) != SITU_OK || situ_device_info(b, &other) != SITU_OK) return false;
  return same(one.uuid, other.uuid) || same(one.pci, other.pci);
}
