/* Floor 1: what the ledger keeps of a copy. The public side is situ/ledger.h.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_LEDGER_H
#define SITU_DEVICE_LEDGER_H

#include "situ/ledger.h"
#include "situ/sys/backend.h"

/* Why bytes were copied. */
typedef enum situ__copy_reason {
  SITU__COPY_USER,
  SITU__COPY_READ,
  SITU__COPY_MOVE,
  SITU__COPY_INTERNAL,
  SITU__COPY_POLICY
} situ__copy_reason;

typedef struct situ__transfer {
  situ_device from, to;
  uint64_t bytes;
  uint64_t at; /* byte of the storage that it is about, from where on */
  void *site;
  const char *op;     /* static text */
  uint64_t serial;    /* of the storage it is about: the one that was read, or else written */
  uint32_t version;   /* of that storage */
  uint8_t reason;     /* a situ__copy_reason */
  uint8_t role;       /* a situ_role */
  bool written;       /* the source is no storage */
  const void *thread; /* filled in by situ__ledger_note, as is: */
  double time;
  char tensor[64];
} situ__transfer;

/* True while somebody wants to know of this thread's copies: sites need not be found for nothing. */
bool situ__ledger_recording(void);
/* Notes a copy of `about`, which gives name, role, number and version. */
void situ__ledger_note(const situ__transfer *transfer, situ_storage *about);

/* May this thread look at it? False: recorded. */
bool situ__ledger_usable(const char *op, const situ_ledger *ledger);
/* The transfers that it has in detail, oldest first; to be freed with situ__free. False: no memory, recorded. */
bool situ__ledger_entries(const char *op, const situ_ledger *ledger, situ__transfer **list, int64_t *count);

/* ledger_text.c: what situ_ledger_end says when there are some and none was allowed. */
situ_status situ__ledger_refuse(const situ_ledger *ledger) SITU_COLD;

#endif
