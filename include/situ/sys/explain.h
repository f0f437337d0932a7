/* What an error message says of its tensors: the modules that hold them (requested by the explanation, provided by
   nn), where they were made and moved; and the table of a failed operation that is not an op.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_EXPLAIN_H
#define SITU_SYS_EXPLAIN_H

#include "../tensor.h"

SITU_BEGIN

enum { SITU_PATH_TEXT = 200 };

/** A tensor's relation to modules. */
typedef enum situ_held {
  SITU_HELD_NOT = 0,
  SITU_HELD_INPUT,       /**< an input of a running module */
  SITU_HELD_REGISTERED,  /**< a parameter or buffer, which moves with the module */
  SITU_HELD_UNREGISTERED /**< a field of the module's struct points to it, but it was not registered */
} situ_held;

/** One tensor of an explanation. The caller sets tensor and of_gradient, nn the rest. */
typedef struct situ_explained {
  const situ_tensor *tensor;
  bool of_gradient; /**< tensor is a gradient: only path and goes_to are set, to the tensor's whose gradient it is */
  situ_held held;
  bool view;           /**< another tensor on the storage of the tensor at `path` */
  bool loose;          /**< registered, but in a module outside the running one: only a field of `owner` points to it */
  bool given;          /**< the program has a variable for it: an input of the outermost running module, or what it has
                            given func_functional_call in the place of the tensor at `path` */
  void *site;          /**< return address of the outermost module call that it was an input of; NULL: none */
  const void *root;    /**< the outermost module that owns it; only to compare */
  int root_length;     /**< length of that module's name at the beginning of `path` */
  size_t field;        /**< UNREGISTERED, loose: offset in the owner's struct of the field that points to it; 0:
                                                 behind a pointer */
  situ_device goes_to; /**< device that the owner was moved to; {0}: not moved */
  char name[64];       /**< of that field, if a part was registered for it; INPUT: the program's name; "": unknown */
  char owner[SITU_PATH_TEXT]; /**< path of the module whose struct points to it */
  char path[SITU_PATH_TEXT];  /**< "model.fc1.weight"; "": not in a module */
} situ_explained;

enum { SITU_EXPLAINED_DEVICES = 8, SITU_EXPLAINED_INPUTS = 8 };

/** An input of a running module. */
typedef struct situ_explained_input {
  const situ_tensor *tensor;
  char name[64]; /**< the program's; "": unknown */
} situ_explained_input;

typedef struct situ_explanation {
  situ_explained *operand;
  int count;
  char module[SITU_PATH_TEXT]; /**< the running module: "model.fc1 (Linear 784 -> 64)"; "": none */
  char root[SITU_PATH_TEXT];   /**< the C name of the outermost running module: "model" */
  const void *root_module;     /**< the same module; only to compare */
  const void *code;            /**< the forward of the innermost running module; NULL: none */
  void *site;                  /**< return address of the outermost call */
  situ_device home;            /**< device of most of the running module; {0}: unknown */
  situ_device
      device[SITU_EXPLAINED_DEVICES]; /**< of the outermost module's tensors except the operands, most frequent first */
  int devices;
  situ_dtype dtype; /**< of most of its floating tensors except the operands; 0: it has no others */
  bool dtypes;      /**< it has several floating dtypes */
  situ_explained_input input[SITU_EXPLAINED_INPUTS]; /**< what the program passed to the library's module that runs,
                                                          beside the operands: all must be on one device */
  int inputs;
  void *inputs_at; /**< return address of that call */
} situ_explanation;

/** All are called on the thread whose call failed, and must neither allocate nor fail. */
typedef struct situ_module_lore {
  /** Fills everything except operand[].tensor and count. */
  void (*look)(situ_explanation *e);
  /** Writes to buffer the other tensors of the running modules that are not on `device`; "": none. */
  void (*elsewhere)(const situ_explanation *e, situ_device device, char *buffer, size_t size);
  /** Lists the tensors of a module: of root (if it is alive), or of its descendant at path `below` ("enc.1"). Returns
      their number, of which at most `capacity` were written; 0 if the module was freed. */
  int64_t (*parts)(const void *root, const char *below, situ_tensor **list, int64_t capacity);
} situ_module_lore;
/** Installs the functions; called by nn when the first module is made. */
SITU_API void situ_explain_modules(const situ_module_lore *lore);

/** For explanations of other errors: fills the module information of e->operand[0..count-1]. */
SITU_API void situ_explain_look(situ_explanation *e);

/** An operand of a failed operation that is not an op: a step, a backward, a load. */
typedef struct situ_blamed {
  const char *operand;       /**< its role in the operation: "gradient" */
  const situ_tensor *tensor; /**< NULL: left out */
  const char *name;          /**< overrides the name from modules and the tensor's own; NULL: use these */
  bool odd;                  /**< it is the mismatched one */
} situ_blamed;
/** Records a mismatch with a table of its operands, as ops do; fix: one statement per line, or NULL. Returns status. */
SITU_API situ_status situ_fail_blamed(situ_status status, const char *op, const situ_blamed *list, int count,
                                      const char *fix, const char *fmt, ...) SITU_PRINTF(6, 7) SITU_COLD;

/** The placement history of a tensor's storage. */
typedef struct situ_facts {
  char created[200], moved[200]; /**< "train.c:12 in main"; "": unknown, never moved */
  char adopted[200];             /**< where the program gave the device (situ_device_adopt); "": it did not */
  const char *moved_by;          /**< name of the call: "nn_to"; NULL: never moved */
  const char *memory;            /**< "of the program, read-only"; NULL: an allocation of situ's */
  uint64_t bytes, serial;        /**< of the storage */
  bool written;                  /**< it holds values, or a part of it does */
  bool unstated;                 /**< it was made on the default device, as the program stated none */
} situ_facts;
/** Fills *out. Returns false after recording an error under op, if t is not a live tensor. */
SITU_API bool situ_facts_of(const char *op, const situ_tensor *t, situ_facts *out);

SITU_END
#endif
