/* situ plan of a program: the memory that it needs on each device, and the first that has it. A program runs on one
   device, so it is not divided.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <situ/place.h>
#include <stdio.h>

#include "cli.h"
#include "plan.h"

/* Bytes of a forward on one device. */
typedef struct need {
  uint64_t parameters, buffers, peak;
  bool whole; /* the preflight check reached the end of forward */
} need;

/* Runs forward without memory, on inputs of which only the shapes matter. A device of another machine counts as cpu. */
static bool find_need(situ_nn_module *program, const situ_tree *inputs, situ_device device, need *out) {
  const situ_device there = situ_device_is_available(device) ? device : (situ_device){ .kind = SITU_CPU };
  const situ_place_check_options check = { .device = there, .backward = SITU_PLACE_BACKWARD_NEVER };
  situ_place_report report;
  if (situ_place_check(program, inputs, &check, &report) != SITU_OK) return false;
  *out = (need){ .whole = report.finished };
  for (int64_t i = 0; i < report.load_count; i++) {
    out->parameters += report.loads[i].parameters;
    out->buffers += report.loads[i].buffers;
    out->peak += report.loads[i].peak;
  }
  /* A wrong shape is a mistake of the call; what the check cannot follow is not. */
  const situ_place_finding *wrong = NULL;
  for (int64_t i = 0; i < report.finding_count && !wrong; i++)
    if (!report.findings[i].note && report.findings[i].problem != SITU_PLACE_VALUES) wrong = &report.findings[i];
  if (wrong) cli_print_error(wrong->text, true);
  situ_place_report_free(&report);
  return !wrong;
}

static void print_shapes(const situ_tree *inputs, bool json) {
  char shape[200];
  for (int64_t i = 0; i < situ_tree_count(inputs); i++) {
    const situ_tensor *t = situ_tree_tensor_at(inputs, i);
    const situ_shape s = situ_shape_of(t);
    if (json) printf("%s", i ? ", " : "");
    else printf("%s", i ? ", " : "inputs    ");
    if (json) cli_print_json(situ_tree_key(inputs, i));
    else cli_print_text(situ_tree_key(inputs, i), 0);
    printf(json ? ": %s" : " %s", cli_shape(&s, shape));
  }
}

static void print_text(const plan *p, const need *needs, const situ_tree *inputs, int chosen) {
  char heading[120], limit[32], parameters[32], buffers[32], peak[32];
  print_shapes(inputs, false);
  snprintf(heading, sizeof heading, "\n%-9s %10s %10s %10s %10s", "DEVICE", "LIMIT", "PARAMETERS", "BUFFERS", "PEAK");
  cli_print_heading(heading);
  for (int d = 0; d < p->devices; d++) {
    const need *n = &needs[d];
    printf("%-9s %10s %10s %10s %10s  %s\n", p->device[d].name, cli_bytes(p->device[d].limit, limit),
           cli_bytes(n->parameters, parameters), cli_bytes(n->buffers, buffers), cli_bytes(n->peak, peak),
           n->peak <= p->device[d].limit ? "fits" : "does not fit");
  }
  if (!needs[0].whole) printf("the peak is of a part: the program reads values, which a plan does not have\n");
  if (chosen >= 0) printf("\nmap       *=%s\n", p->device[chosen].name);
}

static void print_json(const plan *p, const need *needs, const situ_tree *inputs, int chosen) {
  printf("{\"inputs\": {");
  print_shapes(inputs, true);
  printf("},\n \"devices\": [");
  for (int d = 0; d < p->devices; d++)
    printf("%s{\"device\": \"%s\", \"limit\": %" PRIu64 ", \"parameters\": %" PRIu64 ", \"buffers\": %" PRIu64
           ", \"peak\": %" PRIu64 ", \"fits\": %s}",
           d ? ",\n  " : "", p->device[d].name, p->device[d].limit, needs[d].parameters, needs[d].buffers,
           needs[d].peak, needs[d].peak <= p->device[d].limit ? "true" : "false");
  printf("],\n \"complete\": %s, \"map\": ", needs[0].whole ? "true" : "false");
  if (chosen >= 0) printf("\"*=%s\"}\n", p->device[chosen].name);
  else printf("null}\n");
}

static int plan_on(const plan *p, situ_nn_module *program, const situ_tree *inputs, const cli_options *options) {
  need needs[PLAN_DEVICES];
  int chosen = -1;
  for (int d = 0; d < p->devices; d++) {
    if (find_need(program, inputs, p->device[d].device, &needs[d])) {
      if (chosen < 0 && needs[d].peak <= p->device[d].limit) chosen = d;
      continue;
    }
    if (situ_error()) return cli_failed();
    return cli_tell_shape(program, options), CLI_FAILED;
  }
  if (options->json) print_json(p, needs, inputs, chosen);
  else print_text(p, needs, inputs, chosen);
  if (chosen < 0) fprintf(stderr, "situ: the program fits on no device\n");
  return chosen < 0 ? CLI_FAILED : CLI_OK;
}

int cli_plan_program(const cli_options *options) {
  plan p = { .devices = 0 };
  bool usage = false;
  if (options->tie || options->svg || options->lenient) {
    fprintf(stderr, "situ: --tie, --svg and --lenient are for files of tensors, not for programs\n");
    return CLI_USAGE;
  }
  if (!plan_read_memory(options->devices, options->memory, &p)) return CLI_USAGE;
  situ_nn_module *program = cli_open_program(options->file);
  if (!program) return CLI_FAILED;
  situ_nn_eval(program);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *inputs = cli_make_inputs(program, options, (situ_device){ .kind = SITU_META }, &usage);
  int result = inputs ? plan_on(&p, program, inputs, options) : usage ? CLI_USAGE : CLI_FAILED;
  situ_tree_free(inputs);
  if (situ_scope_end(&scope) != SITU_OK && result == CLI_OK) result = CLI_FAILED;
  situ_nn_free(program);
  return result;
}
