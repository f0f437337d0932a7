/* Provenance: the program's line behind a call. Finding the address costs a few loads; resolving it to text is slow
   and happens only when a message is read.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/map.h"
#include "base/mutex.h"
#include "device/device.h"

/* ---- the library's own code ---- */

/* Linker symbols: the bounds of this shared library, or of the whole program when linked statically; and the bounds
   of the section that holds libsitu.a's code, which separates it from the rest of the program. */
#define LINKER_SYMBOL extern const char __attribute__((weak, visibility("hidden")))
LINKER_SYMBOL __ehdr_start[], etext[], __start_situ_text[], __stop_situ_text[];

/* Set by the first thread that asks, `told` last. Equal: unknown. */
static uintptr_t first_byte, past_last;
static bool told;

static bool in_program(void) {
  uintptr_t headers = (uintptr_t)getauxval(AT_PHDR), start = (uintptr_t)__ehdr_start;
  return headers >= start && headers - start < 4096; /* the program headers follow its first bytes */
}

static SITU_COLD void find_own_text(void) {
  if ((uintptr_t)__start_situ_text != 0) {
    first_byte = (uintptr_t)__start_situ_text;
    past_last = (uintptr_t)__stop_situ_text;
  } else if ((uintptr_t)__ehdr_start != 0 && !in_program()) {
    first_byte = (uintptr_t)__ehdr_start;
    past_last = (uintptr_t)etext;
  }
  __atomic_store_n(&told, true, __ATOMIC_RELEASE);
}

static inline void tell_own_text(void) {
  if (__builtin_expect(!__atomic_load_n(&told, __ATOMIC_ACQUIRE), 0)) find_own_text();
}

/* ---- modules count as part of the library ---- */

typedef struct text {
  const void *symbol; /* a symbol that the module exports */
  uintptr_t first, past;
} text;
static text modules[SITU_DEVICE_KINDS];
static unsigned module_count; /* written before any thread can run a module's code */

static int note_module(struct dl_phdr_info *object, size_t size, void *payload) {
  (void)size;
  text *t = payload;
  uintptr_t symbol = (uintptr_t)t->symbol;
  bool its = false;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + part->p_vaddr;
    if (part->p_type != PT_LOAD) continue;
    its = its || (symbol >= start && symbol < start + part->p_memsz);
    if (part->p_flags & PF_X) t->first = start, t->past = start + part->p_memsz;
  }
  return its;
}

void situ__site_add_module(const void *symbol) {
  text t = { .symbol = symbol };
  if (module_count < SITU_DEVICE_KINDS && dl_iterate_phdr(note_module, &t)) modules[module_count++] = t;
}

static SITU_COLD __attribute__((noinline)) bool in_module(uintptr_t address) {
  for (unsigned i = 0; i < module_count; i++)
    if (address >= modules[i].first && address < modules[i].past) return true;
  return false;
}

bool situ__own_code(const void *address) {
  tell_own_text();
  return (uintptr_t)address >= first_byte && (uintptr_t)address < past_last;
}

void *situ__call_site(void) {
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
  if (situ__origin.within) return situ__origin.within;
  tell_own_text();
  if (first_byte == past_last) return NULL;
  /* Every function of the library keeps a frame pointer (cmake/flags.cmake), and the walk stops at the first caller
     outside the library, so it follows no foreign frame. It begins in the caller, which is the library's. */
  void *const *frame = *(void *const *)__builtin_frame_address(0);
  const uintptr_t first = first_byte, size = past_last - first;
  for (int depth = 0; depth < 256; depth++) {
    uintptr_t back = (uintptr_t)frame[1];
    if (back - first >= size && (!module_count || !in_module(back)))
      return frame[1] == situ__origin.outside ? situ__origin.site : frame[1];
    frame = frame[0];
  }
#endif
  return NULL;
}

/* ---- addresses as text ---- */

/* Symbol and offset; for a symbol that is not exported, program+offset, which addr2line accepts. */
static void symbol_text(void *call, char *buffer, size_t size) {
  Dl_info info;
  if (!dladdr(call, &info) || !info.dli_fname) {
    (void)snprintf(buffer, size, "%p", call);
    return;
  }
  const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash + 1 : info.dli_fname;
  if (info.dli_sname) {
    (void)snprintf(buffer, size, "%s+0x%zx (%s)", info.dli_sname, (size_t)((char *)call - (char *)info.dli_saddr),
                   file);
  } else {
    (void)snprintf(buffer, size, "%s+0x%zx", file, (size_t)((char *)call - (char *)info.dli_fbase));
  }
}

const char *situ__site_text(void *site, char *buffer, size_t size) {
  if (size == 0) return buffer;
  *buffer = 0;
  if (!site) return buffer;
  /* A return address points to the next instruction, often on the next line. */
  void *call = (char *)site - 1;
  if (!situ__line_text(call, buffer, size)) symbol_text(call, buffer, size);
  return buffer;
}

/* ---- lines that were warned of ---- */

bool situ__is_new(const void *about) {
  static situ__mutex lock = SITU__MUTEX_INIT;
  static situ__map warned;
  situ__mutex_lock(&lock);
  bool fresh = !situ__map_get(&warned, about);
  if (fresh) (void)situ__map_put(&warned, about, &warned); /* if memory runs out, it may warn twice */
  situ__mutex_unlock(&lock);
  return fresh;
}

/* Calls of the program are more bytes apart than there are kinds. */
bool situ__is_new_here(situ__warning kind, const void *op) {
  const char *site = situ__call_site();
  return situ__is_new((site ? site : (const char *)op) + kind);
}
