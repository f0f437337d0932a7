/* The start and the end of the doctor. The only constructor of the library: it is in no static program, and no floor
   below knows of it. Nothing begins unless SITU_DOCTOR is set.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/replace.h"
#include "base/watch.h"
#include "place/doctor/doctor.h"

situ__doctor situ__doctor_now = { .lock = SITU__MUTEX_INIT };

/* ---- writing ---- */

static void write_pages(const situ_ledger *ledger, const char *how) {
  situ__doctor *d = &situ__doctor_now;
  char path[sizeof d->page + 8];
  situ__doctor_copies copies;
  situ__text text = { 0 }, html = { 0 };
  const situ__doctor_end end = { .how = how, .seconds = situ__seconds() - d->began };
  situ__mutex_lock(&d->lock);
  situ__doctor_copies_of(ledger, &copies);
  situ__doctor_judge_copies(ledger, &copies);
  situ__doctor_page(&text, &copies, &end);
  situ__doctor_html(&html, &copies, &end);
  situ__doctor_copies_free(&copies);
  situ__mutex_unlock(&d->lock);
  const size_t length = strlen(d->page);
  memcpy(path, d->page, length);
  memcpy(path + length, ".txt", sizeof ".txt");
  const bool good = situ__replace_by_text("doctor", path, &text) == SITU_OK &&
                    situ__replace_by_text("doctor", d->page, &html) == SITU_OK;
  if (!good) situ__log("SITU_DOCTOR: %s", situ_error_message());
  situ_error_clear();
  situ__text_free(&text);
  situ__text_free(&html);
}

/* ---- a thread of its own has the ledger, samples memory, and writes ---- */

enum { RUNNING, ENDED, DONE };
static pthread_t keeper;
static sem_t wake, ready;
static int state;     /* RUNNING; the signal or ENDED asks for the last pages; DONE: they are written */
static int signalled; /* 0: none */

static void sleep_for(double seconds) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  const long long end = until.tv_sec * 1000000000LL + until.tv_nsec + (long long)(1e9 * seconds);
  until = (struct timespec){ .tv_sec = end / 1000000000LL, .tv_nsec = end % 1000000000LL };
  (void)sem_timedwait(&wake, &until);
}

static void write_last(const situ_ledger *ledger) {
  char how[32] = "at its end";
  if (signalled) (void)snprintf(how, sizeof how, "on signal %d", signalled);
  write_pages(ledger, how);
}

/* Until the end: a killed process has what was written before. Writing takes at most a twentieth of the time. */
static void *keep(void *unused) {
  situ__errors own;
  situ_ledger ledger;
  (void)unused;
  situ__errors_aside(&own);
  situ__doctor_now.ledger_began = situ__seconds();
  situ_ledger_begin_with(&ledger, &(situ_ledger_options){ .all_threads = true });
  (void)sem_post(&ready);
  double next = situ__seconds() + 0.2;
  while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == RUNNING) {
    situ__mutex_lock(&situ__doctor_now.lock);
    situ__doctor_sample();
    const double period = situ__doctor_now.period;
    situ__mutex_unlock(&situ__doctor_now.lock);
    if (situ__seconds() > next) {
      const double before = situ__seconds();
      write_pages(&ledger, "while it ran");
      next = situ__seconds() + 1 + 20 * (situ__seconds() - before);
    }
    sleep_for(period);
  }
  write_last(&ledger);
  __atomic_store_n(&state, DONE, __ATOMIC_RELEASE);
  SITU_IGNORE(situ_ledger_end(&ledger));
  (void)situ__errors_back(&own, NULL, 0);
  return NULL;
}

/* ---- the end ---- */

static void at_exit(void) {
  situ__doctor_look_at_memory(true);
  if (situ__doctor_now.forked) {
    write_pages(NULL, "at its end");
    return;
  }
  __atomic_store_n(&state, ENDED, __ATOMIC_RELEASE);
  (void)sem_post(&wake);
  (void)pthread_join(keeper, NULL);
}

/* Signals that end a process. The handler that was there before gets the signal afterwards. */
static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP };
enum { FATAL = sizeof fatal / sizeof *fatal };
static struct sigaction handlers[FATAL]; /* that were there before */

/* The crashed thread may hold a lock that the pages need: then the pages of a moment ago have to do. */
static void on_signal(int number, siginfo_t *info, void *context) {
  const struct timespec nap = { .tv_nsec = 10000000 };
  (void)context;
  for (int i = 0; i < FATAL; i++)
    if (fatal[i] == number) (void)sigaction(number, &handlers[i], NULL);
  if (!situ__doctor_now.forked && !pthread_equal(pthread_self(), keeper)) {
    signalled = number;
    __atomic_store_n(&state, ENDED, __ATOMIC_RELEASE);
    (void)sem_post(&wake);
    for (int i = 0; i < 500 && __atomic_load_n(&state, __ATOMIC_ACQUIRE) != DONE; i++) (void)nanosleep(&nap, NULL);
  }
  if (info->si_code <= 0 || number == SIGABRT) (void)raise(number); /* a fault happens again by itself */
}

static void watch_signals(void) {
  struct sigaction ours = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK };
  (void)sigemptyset(&ours.sa_mask);
  for (int i = 0; i < FATAL; i++)
    if (sigaction(fatal[i], NULL, &handlers[i]) == 0 && handlers[i].sa_handler != SIG_IGN)
      (void)sigaction(fatal[i], &ours, NULL);
}

/* ---- forks ---- */

static void in_parent(void) { situ__doctor_now.forks++; }

static void in_child(void) {
  situ__doctor *d = &situ__doctor_now;
  char *name = strrchr(d->page, '/');
  name = name ? name + 1 : d->page;
  char dot[32];
  (void)snprintf(dot, sizeof dot, "%ld.html", (long)getpid());
  if ((size_t)(name - d->page) + sizeof dot < sizeof d->page) memcpy(name, dot, sizeof dot);
  d->forked = true;
}

/* ---- the start ---- */

/* %p in the name is the process. Returns false if it is too long. */
static bool set_page(const char *name) {
  char *page = situ__doctor_now.page;
  const size_t size = sizeof situ__doctor_now.page;
  const char *mark = strstr(name, "%p");
  const int length = mark ? snprintf(page, size, "%.*s%ld%s", (int)(mark - name), name, (long)getpid(), mark + 2)
                          : snprintf(page, size, "%s", name);
  return length > 0 && (size_t)length < size;
}

static bool start_keeper(void) {
  sigset_t all, own;
  if (sem_init(&wake, 0, 0) != 0 || sem_init(&ready, 0, 0) != 0) return false;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &own); /* the program's handlers do not run there */
  const bool started = pthread_create(&keeper, NULL, keep, NULL) == 0;
  (void)pthread_sigmask(SIG_SETMASK, &own, NULL);
  while (started && sem_wait(&ready) != 0) {}
  return started;
}

static __attribute__((constructor)) void begin(void) {
  const char *name = secure_getenv("SITU_DOCTOR");
  situ__doctor *d = &situ__doctor_now;
  if (!name || !*name) return;
  if (!set_page(name)) {
    situ__log("SITU_DOCTOR: the name of the page is too long");
    return;
  }
  d->began = situ__seconds();
  d->period = 1e-3;
  situ__doctor_know((situ_device){ .kind = SITU_CPU });
  situ__fork_watch(); /* before our own handlers: the child has its locks free when they run */
  if (!start_keeper() || atexit(at_exit) != 0 || pthread_atfork(NULL, in_parent, in_child) != 0) {
    situ__log("SITU_DOCTOR: no thread, or no memory, is left for it");
    return;
  }
  watch_signals();
  situ__watching = &situ__doctor_watch;
}
