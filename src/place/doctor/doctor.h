/* Internals of the doctor: what it hears of a program, and the pages that it makes of it (`situ doctor`).
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_DOCTOR_H
#define SITU_PLACE_DOCTOR_H

#include "base/mutex.h"
#include "base/text.h"
#include "situ/ledger.h"
#include "situ/live.h"
#include "situ/optim.h"
#include "situ/place/check.h"

/* The sections of a report, in its order. */
typedef enum situ__doctor_kind {
  SITU__DOCTOR_WRONG,  /* calls that the preflight refuses */
  SITU__DOCTOR_FAILED, /* calls that failed */
  SITU__DOCTOR_PARTS,  /* the lint's */
  SITU__DOCTOR_HIDDEN, /* copies that no call asks for */
  SITU__DOCTOR_AGAIN,  /* repeated copies of the same values */
  SITU__DOCTOR_UNUSED, /* memory that nothing writes, or no result depends on */
  SITU__DOCTOR_KINDS
} situ__doctor_kind;

typedef struct situ__doctor_finding {
  situ__doctor_kind kind;
  bool note;
  char *text, *fix; /* lines; fix: C, "" if there is none */
  uint64_t storage; /* of one that nothing has written; 0: another finding */
  int64_t looks;    /* how often it was seen so */
  bool of_ledger;   /* made anew for each report */
} situ__doctor_finding;

/* An outermost module. Another thread may be using one that this thread has not called last, so only that thread looks
   at it. */
typedef struct situ__doctor_root {
  situ_nn_module *module;
  const void *thread; /* that has called it last: an address in it */
  int64_t calls;
  bool checked; /* the look at its first call is over */
  const situ_nn_type *type;
  situ__text tree, map, mend; /* as text; as SVG; statements for all that the preflight found */
} situ__doctor_root;

enum { SITU__DOCTOR_ROOTS = 16, SITU__DOCTOR_OPTIMS = 32, SITU__DOCTOR_DEVICES = 8, SITU__DOCTOR_SAMPLES = 400 };
enum { SITU__DOCTOR_LINTS = 128 };

/* Memory of one device, in bytes, at each sample. */
typedef struct situ__doctor_memory {
  situ_device device;
  uint64_t peak, used[SITU__DOCTOR_SAMPLES];
} situ__doctor_memory;

typedef struct situ__doctor {
  situ__mutex lock;           /* of all below */
  double began, ledger_began; /* situ__seconds() */
  char page[4096];            /* path of the HTML page; the text is beside it, with ".txt" */
  situ__doctor_finding *finding;
  int64_t findings, finding_capacity;
  situ__doctor_root root[SITU__DOCTOR_ROOTS];
  int roots;
  int64_t other_calls; /* of modules that are not in the list, which is full */
  struct situ__doctor_optim {
    situ_optim *optim;
    const void *thread; /* that has made or stepped it last */
    bool stepped;
  } optim[SITU__DOCTOR_OPTIMS];
  int optims;
  situ__doctor_memory memory[SITU__DOCTOR_DEVICES];
  int devices, samples;
  double period; /* between samples, in seconds */
  struct situ__doctor_span {
    double from, to;
  } lints[SITU__DOCTOR_LINTS]; /* when they read parameters, to compare them */
  int lint_count;
  int forks;
  bool forked; /* this process is a child of one that was watched: it has neither ledger nor samples */
} situ__doctor;
extern situ__doctor situ__doctor_now;

/* ---- hear.c: on the program's threads ---- */
extern const struct situ__watch situ__doctor_watch;
/* Adds a finding, unless there is one of this kind with this text; the caller has the lock. */
void situ__doctor_add(situ__doctor_kind kind, bool note, const char *text, const char *fix);
/* Notes the storages on all devices that nothing has written. */
void situ__doctor_look_at_memory(bool last);

/* ---- copies.c, page.c, html.c: on the thread that has the ledger, with the lock ---- */
/* What the ledger has, in groups. */
typedef struct situ__doctor_copies {
  situ_transfer *list;
  int64_t count;
  struct situ__doctor_group {
    const situ_transfer *last;
    situ_transfers sum;
  } * group; /* the largest first */
  int64_t groups;
  situ_transfers total;
  uint64_t waits;
} situ__doctor_copies;
/* ledger NULL: none. Free the copies in any case. */
void situ__doctor_copies_of(const situ_ledger *ledger, situ__doctor_copies *copies);
void situ__doctor_copies_free(situ__doctor_copies *copies);
/* Replaces the findings of the ledger. */
void situ__doctor_judge_copies(const situ_ledger *ledger, const situ__doctor_copies *copies);

/* How a report came about. */
typedef struct situ__doctor_end {
  const char *how; /* "at its end", "on signal 11", "while it ran" */
  double seconds;  /* since the start */
} situ__doctor_end;
const char *situ__doctor_title(situ__doctor_kind kind);
/* The number of findings that are not notes. */
int64_t situ__doctor_mistakes(void);
void situ__doctor_page(situ__text *text, const situ__doctor_copies *copies, const situ__doctor_end *end);
void situ__doctor_html(situ__text *text, const situ__doctor_copies *copies, const situ__doctor_end *end);
/* Memory over time with the copies, as SVG. */
void situ__doctor_timeline(situ__text *text, const situ__doctor_copies *copies, double seconds);

/* ---- samples.c ---- */
/* Adds a device whose memory is to be sampled; the caller has the lock, as for the next. */
void situ__doctor_know(situ_device device);
void situ__doctor_sample(void);

#endif
