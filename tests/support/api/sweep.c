/* Calls of every public function with bad arguments, in child processes, and what is wrong with the answers.
   SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "io/media/image.h"
#include "support/api/api.h"
#include "support/test.h"
#include "situ/sys/op.h"
#include "situ_config.h"

/* A call may take so much processor time, and wait so long. PoCL takes 13 seconds for a sum of 2^30 elements, and on a busy
   machine ThreadSanitizer more than two minutes. */
#ifdef __SANITIZE_THREAD__
enum { SECONDS = 120, SECONDS_ON_THE_CLOCK = 480 };
#else
enum { SECONDS = 30, SECONDS_ON_THE_CLOCK = 120 };
#endif
enum { COMPLAINTS = 60 };

/* Shared with the child that makes the calls: it goes on until a call kills it, and the next child goes on behind that. */
typedef struct progress {
  int function, argument, value; /* of the call that is being made; argument -1: with valid arguments only */
  bool over, calling;            /* all is done; the function runs, and not what makes its arguments */
  int64_t calls, refused;
  int complaints, crashes, hangs;
  char what[512];
} progress;
static progress *now;

static const api_function *functions;
static size_t function_count;
static bool (*make_bad)(api_world *w, int i, int k);

static void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (now->complaints++ < COMPLAINTS || getenv("SITU_TEST_ALL")) (void)fprintf(stderr, "%s: %s\n", now->what, text);
}

/* ---- one call ---- */

/* What only the library can call with valid arguments: it makes the struct that the first one is; what needs another
   call before. */
static const char no_valid_call[] =
    "situ_grad_collected situ_backward_linear situ_backward_through situ_batch_broadcast situ_batch_leading situ_batch_fold "
    "situ_batch_each situ_batch_run situ_autograd_graph_saved_tensors_hooks_end situ_autograd_queue_callback situ_take_ready_grad "
    "situ_comm_send situ_comm_receive situ_comm_refuse situ_device_adopt situ_device_abandon situ_from_memory "
    "situ_memory_of situ_device_wait_event situ_device_record_event situ_device_query_event situ_device_release_event "
    "situ_device_open_queue situ_copy_from_image situ_copy_to_image";
/* Linear algebra is refused, whatever it is given, by a device without LAPACK; but powers are products. Images are by a
   build without their library, and NCCL by other devices than CUDA's. */
static bool is_refused(const char *function) {
  if (api_is(function, "situ_decode_image situ_read_image situ_write_png") && !situ__library_open(situ__png.library))
    return true;
  if (api_is(function, "situ_write_jpeg") && (!situ__jpeg.encode || !situ__library_open(situ__jpeg.library)))
    return true;
  if (test_device().kind != SITU_CUDA && api_is(function, "situ_comm_use_nccl situ_comm_device_engine_of")) return true;
  return !(test_has_lapack() && situ_device_has(test_device(), SITU_VERB_LINALG)) &&
         (!strncmp(function, "situ_linalg_", 12) ||
          api_is(function, "situ_cholesky_solve situ_cholesky_inverse situ_logdet"));
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
  return hash;
}

/* Of all values that the arguments show. */
static uint64_t values_of(const api_world *w) {
  uint64_t hash = 14695981039346656037u;
  char bytes[4096];
  if (api_is(api_name(w), "graph_capture_end graph_values_begin"))
    return hash; /* while a graph is recorded nothing can be read */
  for (int i = 0; i < w->tensor_count; i++) {
    situ_tensor *t = w->tensor[i];
    const situ_shape shape = situ_shape_of(t);
    const situ_dtype dtype = situ_dtype_of(t);
    const size_t size = (size_t)situ_numel(t) * situ_dtype_size(dtype);
    hash = mix(mix(hash, &shape.ndim, sizeof shape.ndim), &dtype, sizeof dtype);
    if (size <= sizeof bytes && situ_device_of(t).kind != SITU_META && situ_copy_to_host(t, bytes, size) == SITU_OK)
      hash = mix(hash, bytes, size);
    situ_error_clear();
  }
  return hash;
}

static bool failed_as_told(const api_function *f, const void *result) {
  switch (f->result) {
  case API_STATUS: return *(const situ_status *)result != SITU_OK;
  case API_POINTER: return !*(void *const *)result;
  default: return situ_error() != SITU_OK;
  }
}

static void judge(const api_world *w, const void *result) {
  const bool error = situ_error() != SITU_OK;
  const char *wrong = api_disagreement(w->function->name, w->function->result, result, error, error);
  if (w->must_work) {
    const char *name = w->function->name;
    if (api_disagreement(name, w->function->result, result, false, false) && !api_is(name, no_valid_call) &&
        !is_refused(name))
      complain("refused");
    return;
  }
  if (wrong) complain("%s: %s", wrong, situ_error_message());
  if (w->must_fail && situ_error() != SITU_E_ARG)
    complain(error ? "not SITU_E_ARG: %s" : "accepted%s", error ? situ_error_message() : "");
}

/* False: there is no such bad value. */
static bool make_call(const api_function *f, int argument, int value) {
  static int64_t result[64];
  const int64_t tensors = situ_live_tensors(), modules = situ_nn_live_modules(), bytes = situ_live_bytes();
  situ_scope scope;
  api_world w;
  memset(result, 0, sizeof result);
  situ_error_clear();
  situ_scope_begin(&scope);
  api_valid(&w, f, test_device());
  const bool any = argument < 0 || make_bad(&w, argument, value);
  if (any) {
    (void)snprintf(now->what, sizeof now->what, "%s%s%s", f->name, argument < 0 ? "" : ", ",
                   argument < 0 ? "" : w.text);
    situ_error_clear();
    const uint64_t before = values_of(&w);
    if (w.failed) situ__fail(SITU_E_SHAPE, "failed", "in this scope");
    now->calling = true;
    f->call(w.argument, result);
    now->calling = false;
    const bool error = situ_error() != SITU_OK, failed = failed_as_told(f, result);
    now->calls++;
    now->refused += error;
    judge(&w, result);
    if (argument < 0 && error && !api_is(f->name, no_valid_call) && !is_refused(f->name))
      complain("refused with valid arguments: %s", situ_error_message());
    situ_error_clear();
    if (error && !w.must_work && values_of(&w) != before) complain("values changed though it failed");
    api_after(&w, result, failed);
  } else { /* what valid arguments have begun is ended by the call */
    f->call(w.argument, result);
    api_after(&w, result, failed_as_told(f, result));
  }
  situ_error_clear();
  if (situ_scope_end(&scope) != SITU_OK) complain("the scope's end: %s", situ_error_message());
  situ_error_clear();
  SITU_IGNORE(situ_synchronize(test_device()));
  SITU_IGNORE(situ_synchronize((situ_device){ SITU_SIM, 1 })); /* make_bad's other device: its zeros have no inverse */
  situ_error_clear();
  if (any && (situ_live_tensors() != tensors || situ_nn_live_modules() != modules || situ_live_bytes() != bytes))
    complain("left %lld tensors, %lld modules, %lld bytes alive", (long long)(situ_live_tensors() - tensors),
             (long long)(situ_nn_live_modules() - modules), (long long)(situ_live_bytes() - bytes));
  return any;
}

/* ---- all calls ---- */

static void deadline(void) {
  const struct itimerval limit = { .it_value.tv_sec = SECONDS };
  (void)setitimer(ITIMER_PROF, &limit, NULL);
  (void)alarm(SECONDS_ON_THE_CLOCK);
}

/* Goes on from the call that `now` says. */
static void child(void) {
  const char *only = getenv("SITU_SWEEP");
  assert_non_null(freopen("/dev/null", "w", stdout));
  const int deadly[] = { SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGABRT }; /* cmocka catches them */
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) (void)signal(deadly[i], SIG_DFL);
  api_begin();
  for (; now->function < (int)function_count; now->function++, now->argument = -1, now->value = 0) {
    const api_function *f = &functions[now->function];
    if (only && strcmp(only, f->name) != 0) continue;
    for (; now->argument < f->count; now->argument++, now->value = 0)
      for (;; now->value++) {
        (void)snprintf(now->what, sizeof now->what, "%s, before argument %d", f->name, now->argument);
        deadline();
        if (!make_call(f, now->argument, now->value) || now->argument < 0) break;
      }
  }
  now->over = true;
}

void api_sweep(bool (*bad)(api_world *w, int i, int k)) {
  make_bad = bad;
  function_count = api_functions_list(&functions);
  now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(now != MAP_FAILED);
  *now = (progress){ .argument = -1 };
  while (!now->over) {
    int status = 0;
    const pid_t pid = fork(); /* before the library has a thread or a device */
    assert_true(pid >= 0);
    if (pid == 0) {
      child();
      _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (now->over) break;
    const bool hang = WIFSIGNALED(status) && (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGALRM);
    if (hang) now->hangs++;
    else now->crashes++;
    (void)fprintf(stderr, "%s: %s %d\n", now->what,
                  hang                  ? "HANGS, signal"
                  : WIFSIGNALED(status) ? "CRASHES, signal"
                                        : "ENDS the process with",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (now->argument < 0 || !now->calling) now->argument++, now->value = 0;
    else now->value++;
    now->calling = false;
  }
  print_message("%zu functions, %lld calls, %lld refused; %d crashes, %d hangs, %d complaints\n", function_count,
                (long long)now->calls, (long long)now->refused, now->crashes, now->hangs, now->complaints);
  assert_int_equal(now->crashes + now->hangs + now->complaints, 0);
}
