/* Statements of situ_place_mend: whether their text is what their record says.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_STATEMENTS_H
#define SITU_TEST_STATEMENTS_H

#include <ctype.h>

#include "support/pairs.h"

static inline void expect_code(const situ_place_statement *s) {
  char code[256] = "", module[128], dtype[16];
  const char *below = strchr(s->target, '.'), *name = s->target, *device = name_of(s->device);
  (void)snprintf(dtype, sizeof dtype, "SITU_%s", situ_dtype_name(s->dtype));
  for (char *c = dtype; *c; c++) *c = (char)toupper((unsigned char)*c);
  (void)snprintf(module, sizeof module, below ? "situ_nn_get_submodule(%.*s, \"%s\")" : "%.*s", (int)strcspn(name, "."),
                 name, below ? below + 1 : "");
  switch (s->action) {
  case SITU_FIX_TO: (void)snprintf(code, sizeof code, "%s = situ_to(%s, situ_dev(\"%s\"));", name, name, device); break;
  case SITU_FIX_TO_DTYPE: (void)snprintf(code, sizeof code, "%s = situ_to_dtype(%s, %s);", name, name, dtype); break;
  case SITU_FIX_NN_TO: (void)snprintf(code, sizeof code, "situ_nn_to(%s, situ_dev(\"%s\"));", module, device); break;
  case SITU_FIX_NN_TO_DTYPE: (void)snprintf(code, sizeof code, "situ_nn_to_dtype(%s, %s);", module, dtype); break;
  case SITU_FIX_BUFFER: assert_non_null(strstr(s->code, "situ_nn_buffer(m, ")); return;
  case SITU_FIX_CHILD: assert_non_null(strstr(s->code, "situ_nn_child(m, ")); return;
  case SITU_FIX_DEQUANTIZE: assert_non_null(strstr(s->code, "situ_dequantize(")); return;
  case SITU_FIX_POLICY: fail_msg("a policy is not a fix");
  }
  assert_string_equal(s->code, code);
}

#endif
