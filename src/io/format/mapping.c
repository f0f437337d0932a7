/* Memory-mapped files.
   SPDX-License-Identifier: MIT */
#include "mapping.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "situ/sys/shape.h"
#include "situ/sys/plain.h"

struct situ__mapping {
  char *address;
  size_t bytes;
  atomic_int owners;
};

situ__mapping *situ__mapping_new(const char *op, const char *path, int fd, int64_t bytes) {
  situ__mapping *m = situ__alloc(sizeof *m);
  if (!m) return situ__no_memory(op, sizeof *m), NULL;
  /* Private and writable: an in-place op on a tensor must neither crash nor change the file. */
  void *address = situ__sys.mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (address == MAP_FAILED) {
    situ__fail(SITU_E_IO, op, "%s: cannot be mapped: %s", path, strerror(errno));
    situ__free(m);
    return NULL;
  }
  m->address = address;
  m->bytes = (size_t)bytes;
  atomic_init(&m->owners, 1);
  return m;
}

void situ__mapping_release(situ__mapping *m) {
  if (!m || atomic_fetch_sub(&m->owners, 1) != 1) return;
  situ__sys.munmap(m->address, m->bytes);
  situ__free(m);
}

const char *situ__mapping_at(const situ__mapping *m, int64_t offset) { return m->address + offset; }

static void release_mapping(void *payload) { situ__mapping_release(payload); }

situ_tensor *situ__mapping_tensor(situ__mapping *m, int64_t offset, const situ_shape *shape, situ_dtype dtype) {
  atomic_fetch_add(&m->owners, 1);
  situ_tensor *t =
      situ_from_blob(m->address + offset, *shape, NULL, release_mapping, m, &(situ_options){ .dtype = dtype });
  if (t) situ_desc(t)->storage->flags |= SITU_STORAGE_MAPPED;
  return t;
}
