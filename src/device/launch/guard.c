/* Guards of copies that the program makes itself: by direction, with places that may copy nonetheless.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "base/text.h"
#include "device/launch/launch.h"

typedef struct direction {
  const char *name, *guard; /* of the direction, and of its field in situ_policy */
  uint8_t rule;
} direction;

static direction direction_of(const situ_policy *p, situ_device from, situ_device to) {
  if (situ__backend(from)->host_memory) return (direction){ "host -> device", "guard_to_device", p->guard_to_device };
  if (situ__backend(to)->host_memory) return (direction){ "device -> host", "guard_to_host", p->guard_to_host };
  return (direction){ "device -> device", "guard_between_devices", p->guard_between_devices };
}

/* Whether a text begins with the entry, up to the end of a name or number. */
static bool begins_with(const char *text, const char *entry, size_t length) {
  return strncmp(text, entry, length) == 0 && (!text[length] || strchr(":+ ", text[length]));
}

/* at: "src/data.c:12 in next", or without line tables "next+0x1c (program)". Folders depend on where the program was
   started, and do not count. */
static bool is_at(const char *at, const char *entry, size_t length) {
  const char *slash = strrchr(at, '/'), *function = strstr(at, " in ");
  for (size_t k = length; k > 0; k--)
    if (entry[k - 1] == '/') return is_at(at, entry + k, length - k);
  return begins_with(slash ? slash + 1 : at, entry, length) || (function && begins_with(function + 4, entry, length));
}

static bool is_allowed(const char *list, const char *at) {
  for (const char *entry = list; entry && *at && *(entry += strspn(entry, ", ")); entry += strcspn(entry, ", "))
    if (is_at(at, entry, strcspn(entry, ", "))) return true;
  return false;
}

situ_status situ__guard_copy(const char *op, situ_device from, situ_device to, size_t bytes, situ__copy_reason why,
                             situ_storage *about) {
  const situ_policy policy = situ_get_policy();
  if (situ__backend(from)->host_memory && situ__backend(to)->host_memory) return SITU_OK;
  const direction way = direction_of(&policy, from, to);
  const bool by_program = why == SITU__COPY_USER || why == SITU__COPY_READ || why == SITU__COPY_MOVE;
  if (way.rule == SITU_GUARD_ALLOW || !by_program) return SITU_OK;
  char at[256], name[2][SITU_DEVICE_NAME_MAX], size[SITU__BYTES_TEXT];
  if (is_allowed(policy.guard_allow, situ__site_text(situ__call_site(), at, sizeof at))) return SITU_OK;
  situ__described d = { "a tensor", "" };
  situ__device_up.describe_storage(about, &d);
  situ_device_name(from, name[0]), situ_device_name(to, name[1]), situ__bytes_text(bytes, size);
  if (way.rule == SITU_GUARD_REFUSE)
    return situ__fail(
        SITU_E_DEVICE, op,
        "%s: %s would be copied from %s to %s%s, and this thread's policy refuses copies %s (%s); add the "
        "place to its guard_allow, or copy where a policy without guards is in force",
        d.what, size, name[0], name[1], d.where, way.name, way.guard);
  if (situ__is_new_here(SITU__WARN_GUARD, op))
    situ__log("%s: %s: %s copied from %s to %s at %s (%s warns; this line is not warned of again)", op, d.what, size,
              name[0], name[1], *at ? at : "an unknown line", way.guard);
  return SITU_OK;
}
