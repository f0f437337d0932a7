/* situ plan, from inside: tensors of a file in the order of the model, blocks that stay whole,
   devices with limits.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CLI_PLAN_H
#define SITU_CLI_PLAN_H

#include <situ/io.h>

enum { PLAN_DEVICES = 64 };

typedef struct plan_device {
  situ_device device;
  char name[SITU_DEVICE_NAME_MAX];
  uint64_t limit, used;
} plan_device;

/* One tensor. An alias is another name of a tensor of the file: it has no bytes of its own. */
typedef struct plan_item {
  const char *path;
  const situ_file_entry *entry;
  bool alias;
  int64_t block;
  int64_t tied; /* the first item of the same tensor; -1: this is it */
} plan_item;

/* What is not split: a run of items. Blocks that share a tensor are joined: `lead` is the first. */
typedef struct plan_block {
  int64_t first, count, lead;
  size_t prefix;  /* so much of its first item's path names it */
  uint64_t bytes; /* of the lead: of all that are joined */
  int device;
} plan_block;

typedef struct plan {
  plan_device device[PLAN_DEVICES];
  int devices;
  plan_item *item;
  int64_t items;
  plan_block *block;
  int64_t blocks;
  bool filled; /* the order of the devices is not that of the model: gaps were filled */
} plan;

/* Reads "cuda:0=8GiB,cpu=32GiB"; false: said on stderr. (budget.c) */
bool plan_read_memory(const char *text, plan *p);
/* Puts the items in the model's order and divides them into blocks; false: no memory. (blocks.c) */
bool plan_divide(plan *p);
/* Gives every block a device; false: something fits nowhere, said on stderr. (fit.c) */
bool plan_fit(plan *p);
/* What a model is told to have itself spread so: "embed=cuda:0, *=cpu" for situ_nn_to_map. To be
   freed; NULL: no memory. (map.c) */
char *plan_map(const plan *p);

/* The items of one module or, if its path ends there, one tensor. */
typedef struct plan_range {
  int64_t first, end;
  size_t prefix; /* so much of their paths is its own */
  size_t parts;  /* where the names of its parts begin */
} plan_range;
/* The part of a module that begins with item `first`. */
plan_range plan_part_at(const plan *p, const plan_range *module, int64_t first);
bool plan_is_module(const plan *p, const plan_range *part);

#endif
