/* Devices that are not here, described in words: a model is checked and fitted for them on any machine.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_PLAN_H
#define SITU_SYS_PLAN_H

#include "../device.h"

SITU_BEGIN

/** Makes plan:0, plan:1, ... of a profile, in place of those before it:

      "2 x 24 GiB, no f64, 12 GB/s; 80 GiB"

    Groups of devices are separated by semicolons. A group begins with its number (1 if it is left out) and the memory
    of each; then, in any order, dtypes that they do not compute with, and the speed of copies to and from each
    (situ_place_layout_seconds). Units are B, KiB, MiB, GiB, TiB, KB, MB, GB, TB. "": no device. What drivers and other
    programs hold must be left out of the memory. The environment variable SITU_PLAN is a profile that is read at the
    first use.

    A planned device has the kernels of the cpu, and no storage. situ_place_check (.device, .map), situ_place_mend and
    situ_place_fit run a model for it as for any other device: operands on different devices, dtypes that it lacks, and
    peaks beyond its memory are found. A tensor cannot be made there or moved there: SITU_E_UNSUPPORTED.

    A profile with a mistake is SITU_E_ARG, which says where, and changes nothing. */
SITU_API SITU_CHECKED situ_status situ_plan_devices(const char *profile);

SITU_END
#endif
