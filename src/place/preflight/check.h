/* Internals of the preflight: the recorder of one run.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_CHECK_INSIDE_H
#define SITU_PLACE_CHECK_INSIDE_H

#include "base/map.h"
#include "base/text.h"
#include "situ/place/fit.h"
#include "situ/place/mend.h"
#include "situ/sys/dry.h"

/* A storage of the run. */
typedef struct situ__trail {
  char *from;     /* path of the module that created it, or of the parameter or buffer that it belongs to */
  int64_t edge;   /* index of the copy that created it, until its first use; -1: none */
  int64_t number; /* tells it from all others of the run, from 1 */
  bool stands;    /* it stands for memory that exists, which is counted in its place */
  bool named;     /* `from` is of the parameter or buffer */
  const situ_storage *storage;
  struct situ__trail *next, **link; /* of all that are alive */
} situ__trail;

/* A statement of a finding's first fix. */
typedef struct situ__remedy {
  int64_t finding; /* its index in the report */
  situ_place_statement does;
} situ__remedy;
typedef struct situ__remedies {
  situ__remedy *list;
  int64_t count, capacity;
} situ__remedies;

#define SITU__REGISTERED "situ__registered" /* begins the names of what a trial has registered */
struct situ__trial;
typedef struct situ__preflight {
  situ_dry dry;                                                   /* first member: callbacks get a pointer to it */
  void (*bare)(struct situ__preflight *p, const situ_work *work); /* work of forward outside of calls; NULL: unheard */
  situ_place_report report;
  int64_t finding_capacity, edge_capacity, exchange_capacity, load_capacity;
  situ__map findings, edges; /* hash of what tells one from others, plus the number of those of that hash before it:
                                its number in the report, from 1 */
  struct situ__held {
    uint64_t now, present; /* bytes of blocks; those of the run's that exist outside of it */
    uint64_t limit;        /* what the run may have; 0: unknown */
    situ__text full;       /* what is alive when it first has more */
  } * held;                /* as many as report.loads */
  situ__map present;       /* the storages that do */
  situ__trail *trails;
  int64_t storages; /* number of them so far */
  struct situ__trip {
    int64_t edge; /* index in the report */
    uint64_t bytes;
    const char *op; /* static string */
    bool returned;  /* the current backward pass has copied its gradient back */
  } * trips;        /* copies of the forward, in order */
  int64_t trip_count, trip_capacity;
  situ__remedies remedies;
  int64_t moving, copying; /* remedies that move a module; policies */
  int64_t trip_end;        /* all from there on have returned */
  const struct situ__trial *trial;
  const char *root; /* name of the module itself */
  bool copied;      /* the module is: what exists and is read belongs to the run */
  bool itself;      /* it cannot be copied, and runs itself */
  bool counting;    /* forward has begun: launches and copies are the module's own */
  bool backward;    /* in backward */
  bool making;      /* the statements of the trial are made */
  bool unmade;      /* one of them cannot be made */
  bool refused;     /* the program's map, or beside another thread: the error says why */
  bool hears;       /* calls between ranks are of the step that is reported */
  bool failed;      /* out of memory: findings are incomplete */
} situ__preflight;

/* The module that runs, and changes of it that are tried. */
typedef struct situ__trial {
  situ_nn_module *module;
  const situ_tree *inputs;
  const situ_place_check_options *options;
  situ__remedies made;            /* statements that the program is to have */
  const char *map;                /* moves the module before it runs; NULL: it is where it is */
  const situ_place_limit *limits; /* what the run may have of these devices, whatever else they have */
  int64_t limit_count;
  const situ_device *inputs_on; /* where each input is assumed, in the order of the tree; NULL: where it is */
  bool (*results)(const situ_tree *outputs, void *payload); /* NULL, or told of forward's; false: out of memory */
  void *payload;
} situ__trial;

/* ---- check.c: the run. Returns false after recording an error. p is zeroed but for dry.meet; its end, whatever
   happened: situ__preflight_free. ---- */
bool situ__preflight_run(situ__preflight *p, const situ__trial *trial);
void situ__preflight_free(situ__preflight *p);
/* Whether a run of m goes backward. */
bool situ__preflight_goes_back(const situ_nn_module *m, const situ_place_check_options *options);
/* Checks what a program gives. Returns false after recording an error of `caller`. */
bool situ__preflight_options(const char *caller, const situ_place_check_options *options);

/* ---- account.c: memory of training: steps of a clone, as a program makes them. Frees *inputs if no module is called
   with them. ---- */
void situ__preflight_train(situ__preflight *p, situ_nn_module *clone, const situ__trial *trial, situ_tree **inputs);

/* ---- exchanges.c: calls between ranks ---- */
/* Forgets those so far, and notes the next ones. */
void situ__preflight_hear(situ__preflight *p);
void situ__preflight_exchanged(situ_dry *dry, const situ_dry_exchange *exchange);
void situ__place_exchanges_free(situ_place_report *r);

/* ---- memory.c: bytes of each device ---- */
void situ__preflight_take(situ__preflight *p, situ_place_load *load, uint64_t bytes);
void situ__preflight_give(situ__preflight *p, situ_device device, uint64_t bytes);
/* Counts a storage that exists outside the run, once, in place of its copy (NULL: none): memory that many share, or
   that has another size than a copy would have. */
void situ__preflight_stand(situ__preflight *p, const situ_storage *copy, const situ_storage *original);
/* Counts the memory of what exists, but for the peak: the run makes its own. NULL: nothing. */
void situ__preflight_present(situ__preflight *p, const situ_tensor *t);
/* From here on peaks are of what follows. */
void situ__preflight_forget_peaks(situ__preflight *p);
/* Adds a mistake for each device that has less memory than the run needs beside that of others, which stays. */
void situ__preflight_fits(situ__preflight *p);

/* ---- agree.c: makes fixes that move parts agree, over all findings, and tries them together. ---- */
void situ__preflight_agree(situ__preflight *p, const situ__trial *trial);
/* Adds the statements that move the module and all inputs to one device, or cast them to one dtype; 0: they stay. */
bool situ__preflight_whole(const situ__trial *trial, situ_device to, situ_dtype dtype, situ__remedies *all);
/* Appends "code   where". */
void situ__preflight_line(situ__text *text, const situ_place_statement *s);

/* ---- remedies.c: statements, and which of them a run makes itself. They return false when out of memory. ---- */
/* Copies the texts. */
bool situ__remedies_add(situ__remedies *all, const situ__remedy *r);
void situ__remedies_free(situ__remedies *all);
void situ__statement_free(situ_place_statement *s);
bool situ__same_statement(const situ_place_statement *a, const situ_place_statement *b);
/* Adds what the first fix of an error says. */
bool situ__remedies_of(situ__remedies *all, int64_t finding, const situ_error_report *error);
/* The name of the module itself. */
const char *situ__trial_root(const situ__trial *trial);
/* The path below the root of a module of the trial that a statement moves or casts, or in a field of which it registers
   what the field points to; NULL: it does something else. */
const char *situ__remedy_below(const situ__trial *trial, const situ__remedy *r);
/* Whether a statement is about this input. */
bool situ__remedy_is_of(const situ__trial *trial, const situ__remedy *r, const situ_tensor *input);
/* Whether all that the first fix of an error says is done by statements of the trial that stand at this call. */
bool situ__trial_makes(const situ__trial *trial, const situ_error_report *error);
/* The program's name for an input. */
const char *situ__input_name(const char *path, const situ_tensor *t);

/* ---- note.c: recording ---- */
/* The path of the running module; the root's own name for the root. "": none is running. */
enum { SITU__PREFLIGHT_PATH = 256 };
const char *situ__preflight_running(const situ__preflight *p, char module[SITU__PREFLIGHT_PATH]);
void situ__preflight_watch(situ__preflight *p);
/* Adds a finding; copies its strings, NULL is "". If the finding exists, counts it. Returns true if it is new. */
bool situ__preflight_add(situ__preflight *p, const situ_place_finding *finding);
/* Begins backward from another result. */
void situ__preflight_pass(situ__preflight *p);
situ_place_load *situ__preflight_load(situ__preflight *p, situ_device device);
/* Sets the name of a storage's owner: "encoder.fc1.weight". */
void situ__preflight_name(situ__preflight *p, const situ_storage *storage, const char *path);

#endif
