/* What the ledger records of a copy. The public interface is situ/ledger.h.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_LEDGER_H
#define SITU_DEVICE_LEDGER_H

#include "base/fail.h"
#include "situ/ledger.h"
#include "situ/sys/backend.h"

/* Why bytes were copied. */
typedef enum situ__copy_reason {
  SITU__COPY_USER,
  SITU__COPY_READ,
  SITU__COPY_MOVE,
  SITU__COPY_INTERNAL,
  SITU__COPY_POLICY,
  SITU__COPY_OFFLOAD,
  SITU__COPY_IMAGE, /* of the device's own, on the device */
  SITU__COPY_INPUT,
  SITU__COPY_FALLBACK
} situ__copy_reason;

typedef struct situ__transfer {
  situ_device from, to;
  uint64_t bytes;
  uint64_t at; /* first byte in the storage that the copy is about */
  void *site;
  const char *op;     /* static text */
  uint64_t serial;    /* of the storage it is about: the source, or else the target */
  uint32_t version;   /* of that storage */
  uint8_t reason;     /* a situ__copy_reason */
  uint8_t role;       /* a situ_role */
  bool written;       /* the source is not a storage */
  const void *thread; /* set by situ__ledger_note, as are all below: */
  double time;
  char tensor[64];
  char module[64]; /* in whose call it was made, of POLICY and INPUT */
} situ__transfer;

/* Returns true while a ledger records this thread's copies; else call sites need not be looked up. */
bool situ__ledger_recording(void);
/* Records a copy of `about`, which gives name, role, serial and version. */
void situ__ledger_note(const situ__transfer *transfer, situ_storage *about);

/* Records a wait for a device, without a copy. */
void situ__ledger_wait(const char *op, situ_device device);
/* The newest wait that the ledger counts, for a ledger that has counted one. */
typedef struct situ__wait {
  situ_device device;
  void *site;
  char op[SITU__OP_NAME];
} situ__wait;
situ__wait situ__ledger_last_wait(const situ_ledger *ledger);

/* Copies of an open ledger that its options allow although it allows none. */
uint64_t situ__ledger_allowed(const situ_ledger *ledger);

/* Returns false after recording an error if this thread cannot use the ledger. */
bool situ__ledger_usable(const char *op, const situ_ledger *ledger);
/* Sets *list to the recorded transfers, oldest first; free it with situ__free. Returns false after recording
   SITU_E_NOMEM. */
bool situ__ledger_entries(const char *op, const situ_ledger *ledger, situ__transfer **list, int64_t *count);

/* text.c: records the error of situ_ledger_end for a ledger that allows no transfers or waits and has some. */
situ_status situ__ledger_refuse(const situ_ledger *ledger) SITU_COLD;

#endif
