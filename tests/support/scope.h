/* A fixture: errors are quiet and cleared, and a scope is open; afterwards no tensor or module may be left alive.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_SCOPE_H
#define SITU_TESTS_SUPPORT_SCOPE_H

#include "situ/situ.h"

static situ_scope scope;
static int64_t tensors, modules;

static int open_scope(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  tensors = situ_live_tensors();
  modules = situ_nn_live_modules();
  situ_scope_begin(&scope);
  return 0;
}

static int close_scope(void **state) {
  (void)state;
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  return situ_live_tensors() == tensors && situ_nn_live_modules() == modules ? 0 : 1;
}

#endif
