/* Hooks for saved tensors.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_SAVED_H
#define SITU_AUTOGRAD_SAVED_H

#include "autograd/tape.h"

/* This thread's innermost hooks; NULL: none. */
extern SITU__THREAD_LOCAL struct situ__saved_scope *situ__saved_hooks;

/* Packs a saved value by this thread's hooks: *saved becomes a tensor without memory. Returns false after recording an
   error, with *saved as it was. */
bool situ__saved_pack(const char *op, situ_tensor **saved);
bool situ__saved_is_packed(const situ_tensor *saved);
/* The value again, owned by the scope; NULL after recording an error. */
situ_tensor *situ__saved_unpack(const char *op, situ_tensor *shell);

#endif
