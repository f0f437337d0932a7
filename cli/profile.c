/* situ run --profile, --trace: where the time of a call goes.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <situ/profile.h>
#include <stdio.h>
#include <stdlib.h>

#include "run.h"

static int print_json(const situ_profile *profile) {
  const int64_t count = situ_profile_key_averages(profile, SITU_PROFILE_NAME, NULL, 0);
  situ_profile_row *rows = count >= 0 ? malloc((size_t)(count + 1) * sizeof *rows) : NULL;
  if (!rows) return count < 0 ? cli_failed() : cli_no_memory();
  const bool good = situ_profile_key_averages(profile, SITU_PROFILE_NAME, rows, count) == count;
  printf(",\n \"profile\": {\"seconds\": %.9f, \"ops\": [", situ_profile_seconds(profile));
  for (int64_t i = 0; good && i < count; i++) {
    printf(i ? ",\n  {\"op\": " : "\n  {\"op\": ");
    cli_print_json(rows[i].key);
    printf(", \"times\": %" PRId64 ", \"seconds\": %.9f, \"bytes\": %" PRIu64 ", \"operations\": %.0f}", rows[i].count,
           rows[i].seconds, rows[i].bytes, rows[i].operations);
  }
  printf("]}");
  free(rows);
  return good ? CLI_OK : cli_failed();
}

static int tell(const situ_profile *profile, const cli_options *options) {
  if (options->trace && situ_profile_export_chrome_trace(profile, options->trace) != SITU_OK) return cli_failed();
  if (!options->profile) return CLI_OK;
  if (options->json) return print_json(profile);
  situ_profile_print(profile);
  return CLI_OK;
}

int run_profile(situ_nn_module *program, const situ_tree *inputs, situ_device device, const cli_options *options) {
  if (situ_profile_begin(NULL) != SITU_OK) return cli_failed();
  const bool good = run_timed(program, inputs, device) >= 0;
  situ_profile *profile = situ_profile_end();
  const int result = good && profile ? tell(profile, options) : cli_failed();
  situ_profile_free(profile);
  return result;
}
