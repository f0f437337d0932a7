/* Host memory: the allocator hook, the counter that fails the n-th allocation, free lists for
   small objects.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "base/refs.h"
#include "base/slab.h"
#include "base/thread.h"

enum { HUGE_PAGE = 2 << 20 };

/* ---- the hook ----------------------------------------------------------------------------- */

static void *plain_allocate(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  if (alignment <= _Alignof(max_align_t)) return malloc(bytes);
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
  /* Page faults of 4 KiB cost more than the kernels that use the memory. madvise is a hint: its failure is
     harmless. */
  if (alignment >= HUGE_PAGE) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

static void *plain_reallocate(void *old, size_t bytes, void *payload) {
  (void)payload;
  return realloc(old, bytes);
}

static void plain_release(void *memory, void *payload) {
  (void)payload;
  free(memory);
}

static const situ_allocator plain = { plain_allocate, plain_reallocate, plain_release, NULL };
static situ_allocator hook = { plain_allocate, plain_reallocate, plain_release, NULL };

void situ_set_allocator(const situ_allocator *allocator) { hook = allocator ? *allocator : plain; }

/* ---- failure injection ---- */

bool situ__alloc_watched;
static uint64_t allocations, fail_at;
static bool fail_after;

void situ_fail_allocation(uint64_t nth, bool sticky) {
  __atomic_store_n(&fail_at, nth, __ATOMIC_RELAXED);
  __atomic_store_n(&fail_after, sticky, __ATOMIC_RELAXED);
  __atomic_store_n(&allocations, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&situ__alloc_watched, true, __ATOMIC_RELEASE);
}

uint64_t situ_allocation_count(void) { return __atomic_load_n(&allocations, __ATOMIC_RELAXED); }

bool situ__alloc_count(void) {
  uint64_t number = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  uint64_t nth = __atomic_load_n(&fail_at, __ATOMIC_RELAXED);
  if (nth == 0) return false;
  return number == nth || (number > nth && __atomic_load_n(&fail_after, __ATOMIC_RELAXED));
}

/* ---- blocks of any size ------------------------------------------------------------------- */

void *situ__alloc_uncounted(size_t bytes) { return hook.allocate(bytes ? bytes : 1, 0, hook.payload); }

SITU__THREAD_LOCAL situ__scratch *situ__scratch_now;

void *situ__scratch_take(size_t bytes) {
  enum { ALIGNMENT = 64 };
  situ__scratch *s = situ__scratch_now;
  const size_t at = s->used, size = ((bytes ? bytes - 1 : 0) / ALIGNMENT + 1) * ALIGNMENT;
  s->used = size > SIZE_MAX - at ? SIZE_MAX : at + size;
  return s->used <= s->bytes ? s->memory + at : NULL;
}

void *situ__alloc(size_t bytes) {
  void *scratch = __builtin_expect(situ__scratch_now != NULL, 0) ? situ__scratch_take(bytes) : NULL;
  if (scratch) return scratch;
  return situ__alloc_refused() ? NULL : situ__alloc_uncounted(bytes);
}

void *situ__calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *memory = situ__alloc(bytes);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

void *situ__realloc(void *old, size_t bytes) {
  if (situ__alloc_refused()) return NULL;
  return hook.reallocate(old, bytes ? bytes : 1, hook.payload);
}

void *situ__aligned(size_t alignment, size_t bytes) {
  if (situ__alloc_refused()) return NULL;
  return situ__aligned_uncounted(alignment, bytes);
}

void *situ__aligned_uncounted(size_t alignment, size_t bytes) {
  return hook.allocate(bytes ? bytes : 1, alignment, hook.payload);
}

bool situ__grow_slow(const char *op, void *array, int64_t *capacity, size_t size, int64_t needed) {
  enum { FIRST = 8 }; /* elements, whatever their size: parallel arrays that grow together have one capacity */
  size_t wanted = *capacity ? 2 * (size_t)*capacity : FIRST, bytes;
  if (wanted < (size_t)needed) wanted = (size_t)needed;
  if (__builtin_mul_overflow(wanted, size, &bytes) || bytes > PTRDIFF_MAX) bytes = SIZE_MAX;
  void *old;
  memcpy(&old, array, sizeof old); /* a pointer of any type */
  void *larger = bytes == SIZE_MAX ? NULL : situ__realloc(old, bytes);
  if (!larger && op) situ__no_memory(op, bytes);
  if (!larger) return false;
  memcpy(array, &larger, sizeof larger);
  *capacity = (int64_t)wanted;
  return true;
}

void situ__free(void *memory) {
  if (memory && !situ__scratch_owns(memory)) hook.release(memory, hook.payload);
}

char *situ__strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = situ__alloc(bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- small objects ------------------------------------------------------------------------ */

enum {
  STEP = SITU__SLAB_STEP,
  LARGEST = SITU__SLAB_LARGEST,
  CLASSES = LARGEST / STEP,
  KEEP = 1024 /* objects of a class in one thread: enough for a training step */
};

typedef struct object {
  struct object *next;
} object;
typedef struct lists {
  object *first[CLASSES];
  uint32_t count[CLASSES];
} lists;

static SITU__THREAD_LOCAL lists *mine;
static SITU__THREAD_LOCAL bool ended; /* thread_exit has run: keep nothing */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* AddressSanitizer sees each object as an allocation. */
#ifdef SITU__ASAN
static void *make_object(size_t class) { return situ__aligned_uncounted(STEP, (class + 1) * STEP); }
static void drop_object(void *memory) { situ__free(memory); }
#else
static void *make_object(size_t class) { return situ__slab_take((class + 1) * STEP); }
static void drop_object(void *memory) { situ__slab_give(memory); }
#endif

static void thread_exit(void *memory) {
  (void)memory;
  situ__small_trim();
  situ__free(mine);
  mine = NULL;
  ended = true;
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

static lists *open_lists(void) {
  if (ended) return NULL;
  (void)pthread_once(&once, make_key);
  mine = situ__alloc_uncounted(sizeof *mine);
  if (!mine) return NULL;
  memset(mine, 0, sizeof *mine);
  (void)pthread_setspecific(at_exit, mine);
  return mine;
}

void *situ__small_alloc(size_t size) {
  if (size == 0 || size > LARGEST) return situ__alloc(size);
  if (situ__alloc_refused()) return NULL;
  size_t class = (size - 1) / STEP;
  lists *l = mine;
  if (__builtin_expect(l != NULL && l->first[class] != NULL, 1)) {
    object *found = l->first[class];
    SITU__UNPOISON(found, (class + 1) * STEP);
    l->first[class] = found->next;
    l->count[class]--;
    __builtin_prefetch(found->next, 1); /* for the next call, which reads it */
    return found;
  }
  return make_object(class);
}

void situ__small_free(void *memory, size_t size) {
  if (!memory) return;
  size_t class = (size - 1) / STEP;
  lists *l = mine;
  if (size == 0 || size > LARGEST) {
    situ__free(memory);
    return;
  }
  if ((!l && !(l = open_lists())) || l->count[class] >= KEEP) {
    drop_object(memory);
    return;
  }
  object *back = memory;
  back->next = l->first[class];
  l->first[class] = back;
  l->count[class]++;
  SITU__POISON(back + 1, (class + 1) * STEP - sizeof *back); /* LeakSanitizer must be able to read the link */
}

void *situ__small_grow(void *old, size_t old_size, size_t size) {
  if (old_size > LARGEST) return situ__realloc(old, size);
  void *grown = situ__small_alloc(size);
  if (!grown || !old) return grown;
  memcpy(grown, old, old_size);
  situ__small_free(old, old_size);
  return grown;
}

typedef struct shared_text {
  int64_t owners;
  char text[];
} shared_text;

/* The names of most parameters: never freed, so their owners are not counted. */
enum { FOREVER = -1 };
static struct {
  int64_t owners;
  char text[8];
} common[] = { { FOREVER, "weight" }, { FOREVER, "bias" } };

static shared_text *shared_of(char *text) { return (shared_text *)(void *)(text - offsetof(shared_text, text)); }
static bool is_counted(shared_text *t) { return __atomic_load_n(&t->owners, __ATOMIC_RELAXED) != FOREVER; }

char *situ__shared_text(const char *text) {
  if (!text) return NULL;
  for (size_t i = 0; i < sizeof common / sizeof *common; i++)
    if (strcmp(text, common[i].text) == 0) return common[i].text;
  const size_t bytes = strlen(text) + 1;
  shared_text *made = situ__small_alloc(sizeof *made + bytes);
  if (!made) return NULL;
  made->owners = 1;
  return memcpy(made->text, text, bytes);
}

char *situ__share_text(char *shared) {
  if (shared && is_counted(shared_of(shared))) situ__refs_add(&shared_of(shared)->owners);
  return shared;
}

void situ__drop_given(char *shared) {
  shared_text *t = shared_of(shared);
  if (is_counted(t) && situ__refs_drop(&t->owners)) situ__small_free(t, sizeof *t + strlen(shared) + 1);
}

static void trim_lists(lists *l) {
  for (size_t class = 0; class < CLASSES; class ++) {
    for (object *next, *o = l->first[class]; o; o = next) {
      next = o->next;
      SITU__UNPOISON(o, (class + 1) * STEP);
      drop_object(o);
    }
    l->first[class] = NULL;
    l->count[class] = 0;
  }
}

void situ__small_trim(void) {
  if (mine) trim_lists(mine);
  situ__slab_trim();
}
