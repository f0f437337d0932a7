/* Internals of situ plan: tensors of a file in the order of the model, blocks that are not split, devices with limits.
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

/* One tensor. An alias is another name of a tensor of the file, with 0 bytes. */
typedef struct plan_item {
  const char *path;
  const situ_file_entry *entry;
  bool alias;
  int64_t block;
  int64_t tied; /* the first item of the same tensor; -1: this is it */
} plan_item;

/* A block of consecutive items, which is not split. Blocks that share a tensor are joined: `lead` is the first. */
typedef struct plan_block {
  int64_t first, count, lead;
  size_t prefix;  /* length of its name in its first item's path */
  uint64_t bytes; /* lead: of all joined blocks */
  int device;
} plan_block;

typedef struct plan {
  plan_device device[PLAN_DEVICES];
  int devices;
  plan_item *item;
  int64_t items;
  plan_block *block;
  int64_t blocks;
  bool filled; /* gaps were filled: the order of the devices is not that of the model */
} plan;

/* Parses a profile of devices that are not here, then "cuda:0=8GiB,cpu=32GiB"; each may be NULL. Returns false after
   printing an error to stderr. (budget.c) */
bool plan_read_memory(const char *profile, const char *text, plan *p);
/* Sorts the items into the model's order and divides them into blocks; returns false when out of memory. (blocks.c) */
bool plan_divide(plan *p);
/* Assigns a device to every block; returns false, with an error on stderr, if one fits on no device. (fit.c) */
bool plan_fit(plan *p);
/* The plan as a map for situ_nn_to_map: "embed=cuda:0, *=cpu". The caller frees it; NULL when out of memory. (map.c) */
char *plan_map(const plan *p);

/* The items of one module or, if its path ends there, one tensor. */
typedef struct plan_range {
  int64_t first, end;
  size_t prefix; /* length of its path in theirs */
  size_t parts;  /* offset of the names of its parts */
} plan_range;
/* The part of a module that begins with item `first`. */
plan_range plan_part_at(const plan *p, const plan_range *module, int64_t first);
bool plan_is_module(const plan *p, const plan_range *part);

#endif
