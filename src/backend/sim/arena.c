/* Memory of a simulated device: pages mapped twice, once without access, and a first-fit allocator over them.
   SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/sim/sim.h"
#include "base/alloc.h"
#include "base/fork.h"

/* Reserves addresses, not memory: pages are allocated at the first touch. */
size_t situ__sim_arena_most(void) { return (size_t)1 << (sizeof(size_t) > 4 ? 34 : 28); }

static bool map(situ__sim_arena *arena) {
  size_t most = situ__sim_arena_most();
  int file = memfd_create("situ-sim", MFD_CLOEXEC);
  if (file < 0) return false;
  void *handle = MAP_FAILED, *alias = MAP_FAILED;
  if (ftruncate(file, (off_t)most) == 0) {
    handle = mmap(NULL, most, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    alias = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  (void)close(file); /* the mappings keep it alive */
  if (handle == MAP_FAILED || alias == MAP_FAILED) {
    if (handle != MAP_FAILED) (void)munmap(handle, most);
    if (alias != MAP_FAILED) (void)munmap(alias, most);
    return false;
  }
  /* A forked child must not see its parent's device, and a core file need not contain it. */
  (void)madvise(alias, most, MADV_DONTFORK);
  (void)madvise(alias, most, MADV_DONTDUMP);
  arena->handle = handle;
  arena->alias = alias;
  return true;
}

static bool reserve(situ__sim_arena *arena, size_t extents) {
  return situ__grow(NULL, &arena->free, &arena->capacity, sizeof *arena->free, extents);
}

static bool open_arena(situ__sim_arena *arena) {
  situ__fork_guard();
  if (!reserve(arena, 16) || !map(arena)) return false;
  arena->free[0] = (situ__sim_extent){ 0, situ__sim_arena_most() };
  arena->count = 1;
  return true;
}

static size_t rounded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

void *situ__sim_arena_alloc(situ__sim_arena *arena, size_t bytes) {
  if (bytes == 0 || bytes > situ__sim_arena_most()) return NULL;
  if (!arena->handle && !open_arena(arena)) return NULL;
  if (!reserve(arena, arena->live + 2)) return NULL;
  bytes = rounded(bytes);
  for (size_t i = 0; i < arena->count; i++) {
    situ__sim_extent *e = &arena->free[i];
    if (e->bytes < bytes) continue;
    void *found = arena->handle + e->at;
    e->at += bytes;
    e->bytes -= bytes;
    if (e->bytes == 0) memmove(e, e + 1, (--arena->count - i) * sizeof *e);
    arena->live++;
    return found;
  }
  return NULL;
}

/* Returns the whole pages between two addresses to the system; pages it does not take stay allocated. */
static void give_pages_back(char *begin, char *end) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)begin + page - 1) / page * page;
  uintptr_t last = (uintptr_t)end / page * page;
  if (last > first) (void)madvise(begin + (first - (uintptr_t)begin), last - first, MADV_REMOVE);
}

void situ__sim_arena_free(situ__sim_arena *arena, void *handle, size_t bytes) {
  bytes = rounded(bytes);
  size_t at = (size_t)((char *)handle - arena->handle), i = 0;
  give_pages_back(arena->alias + at, arena->alias + at + bytes);
  while (i < arena->count && arena->free[i].at < at) i++;
  situ__sim_extent *e = &arena->free[i];
  bool joins_before = i > 0 && e[-1].at + e[-1].bytes == at;
  bool joins_after = i < arena->count && at + bytes == e->at;
  if (joins_before && joins_after) {
    e[-1].bytes += bytes + e->bytes;
    memmove(e, e + 1, (--arena->count - i) * sizeof *e);
  } else if (joins_before) {
    e[-1].bytes += bytes;
  } else if (joins_after) {
    e->at = at;
    e->bytes += bytes;
  } else {
    memmove(e + 1, e, (arena->count++ - i) * sizeof *e);
    *e = (situ__sim_extent){ at, bytes };
  }
  arena->live--;
}
