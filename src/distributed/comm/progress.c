/* Calls on their way: headers go out and come in, values follow once all ranks agree, and a deadline ends the wait.
   SPDX-License-Identifier: MIT */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/format.h"
#include "comm.h"

enum { HEADER_TAG = 1, VALUES_TAG = 2 };

/* Seconds in which a rank that is alive says that it has given up as well, and in which its words leave. */
#define ANSWER_TIME 1.0
#define FAREWELL_TIME 0.2

/* Short waits are frequent, and ranks may share a core: poll, then yield, then sleep 50 us at a time. */
static void pause_polling(int turn) {
  if (turn < 16) return;
  if (turn < 200) (void)sched_yield();
  else (void)nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* ---- failure ---- */

situ_status situ__comm_failure(const char *op, const situ_comm *c) { return situ__fail(c->failed, op, "%s", c->text); }

/* Memory that the engine may still touch is never freed. */
static void abandon_values(situ_comm_request *r) {
  if (!r->values || r->way->engine->abandon(r->way->state, r->values)) return;
  r->transfer.send = r->transfer.receive = NULL;
  r->source = r->target = NULL;
}

/* Ends a call whose values may still be on their way. */
static void give_up(situ_comm *c, situ_comm_request *r) {
  for (int i = 0; i < c->size; i++)
    if (r->sending[i] && !c->host.engine->abandon(c->host.state, r->sending[i])) r->header = NULL;
  memset(r->sending, 0, (size_t)c->size * sizeof *r->sending);
  abandon_values(r);
  r->values = NULL;
  r->stage = SITU__COMM_FAILED;
}

/* The last collective that has ended here, with all before it. */
static int64_t last_ended(const situ_comm *c) {
  for (const situ_comm_request *r = c->first; r; r = r->later)
    if (r->header->number && r->stage < SITU__COMM_DONE) return r->header->number - 1;
  return c->posted;
}

/* Sends words to all peers and gives them a moment to leave. */
static void tell_peers(situ_comm *c, int64_t ended) {
  situ__comm_header *words = situ__calloc(1, sizeof *words);
  void **sending = situ__calloc((size_t)c->size, sizeof *sending);
  bool freed = true;
  if (words && sending) {
    *words =
        (situ__comm_header){ .magic = SITU__COMM_MAGIC, .status = c->failed, .culprit = c->culprit, .number = ended };
    (void)snprintf(words->text, sizeof words->text, "%.319s", c->text);
    situ_comm_report report;
    for (int i = 0; i < c->size; i++) {
      const situ_comm_transfer t = {
        .op = SITU_COMM_SEND, .dtype = SITU_U8, .count = sizeof *words, .send = words, .peer = i, .tag = HEADER_TAG
      };
      if (i != c->rank && c->host.engine->begin(c->host.state, &t, &sending[i], &report) != SITU_OK) sending[i] = NULL;
    }
    const double until = situ__seconds() + FAREWELL_TIME;
    bool left = true;
    for (int turn = 0; left && situ__seconds() < until; turn++) {
      left = false;
      for (int i = 0; i < c->size; i++) {
        bool done = false;
        if (sending[i] && (c->host.engine->test(c->host.state, sending[i], &done, &report) != SITU_OK || done))
          sending[i] = NULL;
        left |= sending[i] != NULL;
      }
      if (left) pause_polling(turn);
    }
    for (int i = 0; i < c->size; i++)
      if (sending[i]) freed &= c->host.engine->abandon(c->host.state, sending[i]);
  }
  situ__free(sending);
  if (freed) situ__free(words);
}

void situ__comm_fail(situ_comm *c, situ_status status, int culprit, const char *fmt, ...) {
  if (c->failed || situ_is_dry()) return;
  va_list args;
  va_start(args, fmt);
  (void)situ__vformat(c->text, sizeof c->text, fmt, args);
  va_end(args);
  c->failed = status;
  c->culprit = culprit;
  const int64_t ended = last_ended(c);
  for (situ_comm_request *r = c->first; r; r = r->later)
    if (r->stage < SITU__COMM_DONE) give_up(c, r);
  c->first = NULL;
  c->last = &c->first;
  tell_peers(c, ended);
}

/* ---- headers ---- */

static bool expect_header(situ_comm *c, int peer, situ_comm_report *report) {
  situ__peer *p = &c->peers[peer];
  const situ_comm_transfer t = { .op = SITU_COMM_RECEIVE,
                                 .dtype = SITU_U8,
                                 .count = sizeof *p->next,
                                 .receive = p->next,
                                 .peer = peer,
                                 .tag = HEADER_TAG };
  if (c->host.engine->begin(c->host.state, &t, &p->incoming, report) == SITU_OK) return true;
  p->incoming = NULL;
  return false;
}

bool situ__comm_listen(const char *op, situ_comm *c) {
  situ_comm_report report = { .rank = -1 };
  for (int i = 0; i < c->size; i++) {
    if (i == c->rank) continue;
    if (!(c->peers[i].next = situ__calloc(1, sizeof *c->peers[i].next)))
      return situ__no_memory(op, sizeof *c->peers[i].next), false;
    if (!expect_header(c, i, &report)) return situ__fail(SITU_E_COMM, op, "rank %d: %s", i, report.text), false;
  }
  return true;
}

static bool keep_header(situ__peer *p) {
  if (!situ__grow(NULL, &p->inbox, &p->capacity, sizeof *p->inbox, p->count + 1)) return false;
  p->inbox[p->count++] = *p->next;
  return true;
}

static void take_header(situ__peer *p, situ__comm_header *h) {
  *h = p->inbox[0];
  p->count--;
  memmove(p->inbox, p->inbox + 1, p->count * sizeof *p->inbox);
}

/* Lists the ranks for which `is` holds: "rank 1", "ranks 1, 3". Returns the first; -1: there are none. */
static int list_ranks(const situ_comm *c, bool (*is)(const situ_comm *c, const void *of, int rank), const void *of,
                      char text[96]) {
  int first = -1, count = 0;
  size_t n = 0;
  char list[80] = "";
  for (int i = 0; i < c->size; i++) {
    if (!is(c, of, i)) continue;
    if (first < 0) first = i;
    if (n < sizeof list - 12) n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", count ? ", " : "", i);
    count++;
  }
  (void)snprintf(text, 96, "rank%s %s", count > 1 ? "s" : "", list);
  return first;
}
static bool is_absent(const situ_comm *c, const void *of, int rank) {
  (void)c;
  return !((const situ_comm_request *)of)->answered[rank];
}
static bool is_silent(const situ_comm *c, const void *of, int rank) {
  (void)of;
  return rank != c->rank && c->peers[rank].silent;
}

/* After a failure: waits a moment for the words of the others. Those who say nothing have stopped. */
static void listen_for_answers(situ_comm *c) {
  for (int i = 0; i < c->size; i++) c->peers[i].silent = i != c->rank && !c->peers[i].heard;
  const double until = situ__seconds() + ANSWER_TIME;
  bool left = true;
  for (int turn = 0; left && situ__seconds() < until; turn++) {
    left = false;
    for (int i = 0; i < c->size; i++) {
      situ__peer *p = &c->peers[i];
      bool done = false;
      situ_comm_report report;
      if (!p->silent || !p->incoming) continue;
      if (c->host.engine->test(c->host.state, p->incoming, &done, &report) != SITU_OK) p->incoming = NULL;
      else if (done) p->incoming = NULL, p->silent = false;
      left |= p->silent && p->incoming;
    }
    if (left) pause_polling(turn);
  }
}

/* A transfer did not end, and the engine does not say why: adds which ranks say nothing any more. */
static void name_silent_ranks(situ_comm *c) {
  char who[96];
  const size_t length = strlen(c->text);
  listen_for_answers(c);
  if ((c->culprit = list_ranks(c, is_silent, NULL, who)) >= 0)
    (void)snprintf(c->text + length, sizeof c->text - length, "; %s did not answer", who);
}

/* Whether a transfer has ended; *transfer becomes NULL when the engine has freed it. */
static bool has_ended(const situ__comm_way *way, void **transfer) {
  bool done = false;
  situ_comm_report report;
  const bool good = !*transfer || way->engine->test(way->state, *transfer, &done, &report) == SITU_OK;
  if (!good || done) *transfer = NULL;
  return good && !*transfer;
}

/* Calls that have ended by now, though no rank needs them to. */
static void end_earlier_calls(situ_comm *c) {
  for (situ_comm_request *r = c->first; r; r = r->later) {
    if (r->stage != SITU__COMM_VALUES) continue;
    bool ended = has_ended(r->way, &r->values);
    for (int i = 0; i < c->size; i++) ended = has_ended(&c->host, &r->sending[i]) && ended;
    if (ended) r->stage = SITU__COMM_DONE;
  }
}

/* A rank has given up. This rank first ends the calls that have ended there: else they would be in different steps, or
   this one would never have begun. They need nothing more of that rank, because no call ends before all have come. */
static void hear_failure(situ_comm *c, int peer, situ__comm_header *h) {
  c->peers[peer].heard = true;
  if (h->number > c->owed) c->owed = h->number;
  if (c->words) return;
  c->words = h;
  c->speaker = peer;
}

static bool owes_a_call(const situ_comm *c) {
  for (const situ_comm_request *r = c->first; r; r = r->later)
    if (r->header->number && r->header->number <= c->owed && r->stage < SITU__COMM_DONE) return true;
  return false;
}

/* Gives up, too. The text of the words names the call already. */
static void follow_words(situ_comm *c) {
  const situ__comm_header *h = c->words;
  char who[48] = "";
  end_earlier_calls(c);
  if (!strstr(h->text, " gave up")) (void)snprintf(who, sizeof who, "rank %d gave up: ", c->speaker);
  situ__comm_fail(c, h->status == SITU_E_TIMEOUT ? SITU_E_TIMEOUT : SITU_E_COMM, h->culprit, "%s%.319s", who, h->text);
  if (h->status == SITU_E_TIMEOUT && h->culprit < 0) name_silent_ranks(c);
}

static void receive_headers(situ_comm *c) {
  for (int i = 0; i < c->size && !c->failed; i++) {
    situ__peer *p = &c->peers[i];
    bool done = true;
    while (p->incoming && done && !c->failed) {
      p->report.rank = -1;
      if (c->host.engine->test(c->host.state, p->incoming, &done, &p->report) != SITU_OK) {
        p->incoming = NULL;
        p->lost = true; /* it may have ended in order, and no call may need it any more */
      } else if (done) {
        p->incoming = NULL;
        p->next->text[sizeof p->next->text - 1] = p->next->name[SITU__COMM_NAME - 1] = 0;
        if (p->next->magic == SITU__COMM_MAGIC && p->next->status) hear_failure(c, i, p->next);
        else if (!keep_header(p)) situ__comm_fail(c, SITU_E_NOMEM, c->rank, "rank %d: out of memory", c->rank);
        else p->lost = !expect_header(c, i, &p->report);
      }
    }
  }
}

/* The engine's words about a call; but if a rank has told why it gives up, meanwhile, before it was lost, its own. */
static void fail_by_engine(situ_comm *c, situ_status status, const situ_comm_report *report, situ_comm_request *r,
                           int peer) {
  char call[SITU__COMM_NAME * 3], who[48] = "";
  const int culprit = report->rank >= 0 ? report->rank : peer;
  if (status == SITU_E_COMM) receive_headers(c);
  if (c->failed) return;
  if (c->words) {
    r->stage = SITU__COMM_HEADERS; /* else it would pass for one that has ended */
    follow_words(c);
    return;
  }
  situ__comm_call_text(r->header, call);
  if (culprit >= 0 && status == SITU_E_COMM) (void)snprintf(who, sizeof who, "rank %d is lost: ", culprit);
  situ__comm_fail(c, status, culprit, "%s: %s%.159s", call, who, report->text);
}

/* ---- calls ---- */

void situ__comm_post(situ_comm *c, situ_comm_request *r) {
  if (r->header->number) c->posted = r->header->number;
  *c->last = r;
  c->last = &r->later;
  situ_comm_report report = { .rank = -1 };
  for (int i = 0; i < c->size && !c->failed; i++) {
    if (r->answered[i]) continue;
    const situ_comm_transfer t = { .op = SITU_COMM_SEND,
                                   .dtype = SITU_U8,
                                   .count = sizeof *r->header,
                                   .send = r->header,
                                   .peer = i,
                                   .tag = HEADER_TAG };
    const situ_status status = c->host.engine->begin(c->host.state, &t, &r->sending[i], &report);
    if (status == SITU_OK) continue;
    r->sending[i] = NULL;
    fail_by_engine(c, status, &report, r, i);
  }
}

static void read_headers(situ_comm *c, situ_comm_request *r) {
  for (int i = 0; i < c->size && !c->failed; i++) {
    situ__peer *p = &c->peers[i];
    situ__comm_header its;
    char text[SITU__COMM_TEXT];
    if (r->answered[i]) continue;
    if (p->claimed || !p->count) {
      if (!p->claimed && p->lost) fail_by_engine(c, SITU_E_COMM, &p->report, r, i);
      p->claimed = true;
      continue;
    }
    take_header(p, &its);
    r->answered[i] = true;
    r->awaited--;
    r->mixed |= !its.direct && situ__comm_is_direct(r);
    if (!situ__comm_match(r->header, &its, c->rank, i, text)) situ__comm_fail(c, SITU_E_COMM, i, "%s", text);
  }
  if (!c->failed && r->awaited == 0) r->stage = SITU__COMM_READY;
}

static void begin_values(situ_comm *c, situ_comm_request *r) {
  situ_comm_report report = { .rank = -1 };
  if (r->mixed && !situ__comm_leave_device(r)) {
    situ__comm_fail(c, SITU_E_COMM, c->rank, "rank %d gave up: %.159s", c->rank, situ_error_message());
    return;
  }
  const situ_status status = r->way->engine->begin(r->way->state, &r->transfer, &r->values, &report);
  if (status == SITU_OK) {
    r->stage = SITU__COMM_VALUES;
    return;
  }
  r->values = NULL;
  fail_by_engine(c, status, &report, r, -1);
}

/* Returns the engine's request, or NULL once it is done. */
static void *test_transfer(situ_comm *c, situ_comm_request *r, const situ__comm_way *way, void *transfer, int peer) {
  bool done = false;
  situ_comm_report report = { .rank = -1 };
  const situ_status status = way->engine->test(way->state, transfer, &done, &report);
  if (status == SITU_OK) return done ? NULL : transfer;
  if (transfer == r->values) r->values = NULL;
  else r->sending[peer] = NULL;
  fail_by_engine(c, status, &report, r, peer);
  return NULL;
}

/* Whether the header has left for all ranks. */
static bool has_left(const situ_comm *c, const situ_comm_request *r) {
  for (int i = 0; i < c->size; i++)
    if (r->sending[i]) return false;
  return true;
}

static void progress_call(situ_comm *c, situ_comm_request *r, bool *collectives_wait) {
  /* A device carries its transfers one behind the other, so there pairs keep their place, too. */
  const bool pair = situ__comm_is_pair(r->transfer.op) && !situ__comm_is_direct(r);
  for (int i = 0; i < c->size && !c->failed; i++)
    if (r->sending[i]) r->sending[i] = test_transfer(c, r, &c->host, r->sending[i], i);
  if (r->stage == SITU__COMM_HEADERS) read_headers(c, r);
  if (r->stage == SITU__COMM_READY && !c->failed && (pair || !*collectives_wait)) begin_values(c, r);
  if (r->stage == SITU__COMM_VALUES && !c->failed && r->values) r->values = test_transfer(c, r, r->way, r->values, -1);
  if (r->stage == SITU__COMM_VALUES && !c->failed && !r->values && has_left(c, r)) r->stage = SITU__COMM_DONE;
  *collectives_wait |= !pair && r->stage < SITU__COMM_VALUES;
}

static void progress_calls(situ_comm *c) {
  bool collectives_wait = false;
  for (int i = 0; i < c->size; i++) c->peers[i].claimed = false;
  for (situ_comm_request *r = c->first; r && !c->failed; r = r->later) {
    if (c->words && r->header->number > c->owed) break;
    progress_call(c, r, &collectives_wait);
  }
}

void situ__comm_progress(situ_comm *c) {
  if (!c->failed) receive_headers(c);
  if (!c->words || owes_a_call(c)) progress_calls(c);
  if (!c->failed && c->words && !owes_a_call(c)) follow_words(c);
  if (c->failed) return;
  for (situ_comm_request **at = &c->first; *at;) {
    if ((*at)->stage == SITU__COMM_DONE) *at = (*at)->later;
    else at = &(*at)->later;
  }
  c->last = &c->first;
  while (*c->last) c->last = &(*c->last)->later;
}

/* ---- the deadline ---- */

static void time_out(situ_comm *c, const situ_comm_request *r) {
  char call[SITU__COMM_NAME * 3], who[96];
  situ__comm_call_text(r->header, call);
  if (r->stage == SITU__COMM_HEADERS) {
    const int culprit = list_ranks(c, is_absent, r, who);
    situ__comm_fail(c, SITU_E_TIMEOUT, culprit, "%s: %s did not come to it within %g s", call, who, c->deadline);
    return;
  }
  situ__comm_fail(c, SITU_E_TIMEOUT, -1, "%s: not done within %g s", call, c->deadline);
  name_silent_ranks(c);
}

void situ__comm_await(situ_comm *c, situ_comm_request *r) {
  const double until = situ__seconds() + c->deadline;
  for (int turn = 0; r->stage < SITU__COMM_DONE; turn++) {
    /* Asked before: a rank that was stopped finds what has arrived meanwhile. */
    const bool late = situ__seconds() > until;
    situ__comm_progress(c);
    if (r->stage >= SITU__COMM_DONE) break;
    if (late && c->words) follow_words(c);
    else if (late) time_out(c, r);
    else pause_polling(turn);
  }
}
