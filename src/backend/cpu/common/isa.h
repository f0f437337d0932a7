/* Names of objects in isa/: each symbol exists once for each instruction set of the build.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_H
#define SITU_BACKEND_CPU_ISA_H

#include "cpu.h"
#include "situ_config.h"

/* In a file of isa/: name_base, name_v3 or name_v4; of isa_amx/: name_amx. */
#ifdef SITU_ISA
#define SITU__ISA_PASTE_(name, isa) name##_##isa
#define SITU__ISA_PASTE(name, isa) SITU__ISA_PASTE_(name, isa)
#define SITU__ISA_NAME(name) SITU__ISA_PASTE(name, SITU_ISA)
#endif

/* Declares the object `name` for all instruction sets. */
#define SITU__ISA_DECLARE(type, name) extern const type name##_base, name##_v3, name##_v4

/* Address of the object `name` for `isa`, or for the next lower set of the build. */
#if defined(SITU_HAVE_ISA_V4) && defined(SITU_HAVE_ISA_V3)
#define SITU__ISA_PICK(isa, name) \
  ((isa) >= SITU__ISA_V4 ? &name##_v4 : (isa) == SITU__ISA_V3 ? &name##_v3 : &name##_base)
#elif defined(SITU_HAVE_ISA_V3)
#define SITU__ISA_PICK(isa, name) ((isa) >= SITU__ISA_V3 ? &name##_v3 : &name##_base)
#else
#define SITU__ISA_PICK(isa, name) ((void)(isa), &name##_base)
#endif

#endif
