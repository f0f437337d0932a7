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
/* Peers that a pass looks at though no call waits for them: what they say there is rare, and can wait some passes. */
enum { PEERS_A_PASS = 8 };

/* Seconds in which a rank that is alive says that it has given up as well, and in which its words leave. */
#define ANSWER_TIME 1.0
#define FAREWELL_TIME 0.2
/* Seconds beyond the deadline in which the others say who is late, if this rank waits for one that waits itself. */
#define HEARSAY_TIME 0.5

/* Seconds after which a rank sleeps: more than a sleep takes, else ranks that meet often would each sleep through the
   other one's wait; and while an engine is at work, which may copy only while it is asked. */
#define MEETING_TIME 5e-4
#define MOVING_TIME 5e-3

/* Short waits are frequent, and ranks may share a core: poll, then yield, then sleep 50 us at a time. */
static void pause_polling(unsigned turn, bool sleeps) {
  if (turn < 16) return;
  if (!sleeps) (void)sched_yield();
  else (void)nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* ---- failure ---- */

situ_status situ__comm_failure(const char *op, const situ_comm *c) { return situ__fail(c->failed, op, "%s", c->text); }

/* Memory that the engine may still touch is never freed. */
static void abandon_values(situ_comm_request *r) {
  if (!r->values || r->way->engine->abandon(r->way->state, r->values)) return;
  if (situ__comm_has_tensors(r)) situ__comm_leave_tensors(r);
  r->transfer.send = r->transfer.receive = NULL;
}

/* Ends a call whose values may still be on their way. */
static void give_up(situ_comm *c, situ_comm_request *r) {
  for (int k = 0; k < r->rounds; k++)
    if (r->sending[k] && !c->host.engine->abandon(c->host.state, r->sending[k])) r->header = NULL;
  memset(r->sending, 0, (size_t)r->rounds * sizeof *r->sending);
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
    for (unsigned turn = 0; left && situ__seconds() < until; turn++) {
      left = false;
      for (int i = 0; i < c->size; i++) {
        bool done = false;
        if (sending[i] && (c->host.engine->test(c->host.state, sending[i], &done, &report) != SITU_OK || done))
          sending[i] = NULL;
        left |= sending[i] != NULL;
      }
      if (left) pause_polling(turn, turn >= 200);
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
                                 .count = sizeof p->next->header,
                                 .receive = &p->next->header,
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

/* Puts the header that has arrived into its inbox. Returns false, with nothing done, when memory runs out. */
static bool keep_header(situ_comm *c, situ__peer *p) {
  const bool pair = situ__comm_is_pair((situ_comm_op)p->next->header.op);
  situ__inbox *box = &p->inbox[pair];
  situ__letter *next = p->spare ? p->spare : situ__alloc(sizeof *next);
  if (!next) return false;
  p->spare = NULL;
  p->next->later = NULL;
  if (box->first) box->last->later = p->next;
  else box->first = p->next;
  box->last = p->next;
  p->next = next;
  c->pairs += pair;
  return true;
}

/* The caller gives it back (drop_letter). */
static situ__letter *take_letter(situ_comm *c, situ__peer *p, bool pair) {
  situ__letter *first = p->inbox[pair].first;
  p->inbox[pair].first = first->later;
  c->pairs -= pair;
  return first;
}

static void drop_letter(situ__peer *p, situ__letter *letter) {
  if (p->spare) situ__free(letter);
  else p->spare = letter;
}

/* Lists the ranks that say nothing: "rank 1", "ranks 1, 3". Returns the first; -1: there are none. */
static int list_silent(const situ_comm *c, char text[96]) {
  int first = -1, count = 0;
  size_t n = 0;
  char list[80] = "";
  for (int i = 0; i < c->size; i++) {
    if (i == c->rank || !c->peers[i].silent) continue;
    if (first < 0) first = i;
    if (n < sizeof list - 12) n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", count ? ", " : "", i);
    count++;
  }
  (void)snprintf(text, 96, "rank%s %s", count > 1 ? "s" : "", list);
  return first;
}

/* After a failure: waits a moment for the words of the others. Those who say nothing have stopped. */
static void listen_for_answers(situ_comm *c) {
  for (int i = 0; i < c->size; i++) c->peers[i].silent = i != c->rank && !c->peers[i].heard;
  const double until = situ__seconds() + ANSWER_TIME;
  bool left = true;
  for (unsigned turn = 0; left && situ__seconds() < until; turn++) {
    left = false;
    for (int i = 0; i < c->size; i++) {
      situ__peer *p = &c->peers[i];
      bool done = false;
      situ_comm_report report;
      if (!p->silent || !p->incoming) continue;
      if (c->host.engine->test(c->host.state, p->incoming, &done, &report) != SITU_OK) p->incoming = NULL;
      else if (done) {
        p->incoming = NULL;
        p->silent = !p->next->header.status; /* that of a call may be from before the rank stopped */
        if (p->silent) (void)expect_header(c, i, &report);
      }
      left |= p->silent && p->incoming;
    }
    if (left) pause_polling(turn, turn >= 200);
  }
}

/* A transfer did not end, and the engine does not say why: adds which ranks say nothing any more. */
static void name_silent_ranks(situ_comm *c) {
  char who[96];
  const size_t length = strlen(c->text);
  listen_for_answers(c);
  if ((c->culprit = list_silent(c, who)) >= 0)
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

/* Whether the engine has not been given all values yet. */
static bool has_more(const situ_comm_request *r) {
  return r->stage == SITU__COMM_VALUES && r->begun < r->transfer.count;
}

/* Calls that have ended by now, though no rank needs them to. */
static void end_earlier_calls(situ_comm *c) {
  for (situ_comm_request *r = c->first; r; r = r->later) {
    if (r->stage != SITU__COMM_VALUES) continue;
    bool ended = !has_more(r) && has_ended(r->way, &r->values);
    for (int k = 0; k < r->rounds; k++) ended = has_ended(&c->host, &r->sending[k]) && ended;
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

/* Gives up, too. The text of the words names the call already, unless memory ran out where no call was open. */
static void follow_words(situ_comm *c) {
  const situ__comm_header *h = c->words;
  char call[SITU__COMM_NAME * 3] = "", who[SITU__COMM_NAME * 3 + 48] = "";
  end_earlier_calls(c);
  if (c->first && !strstr(h->text, "step ")) situ__comm_call_text(c->first->header, call);
  if (!strstr(h->text, " gave up"))
    (void)snprintf(who, sizeof who, "%s%srank %d gave up: ", call, *call ? ": " : "", c->speaker);
  situ__comm_fail(c, h->status == SITU_E_TIMEOUT ? SITU_E_TIMEOUT : SITU_E_COMM, h->culprit, "%s%.319s", who, h->text);
  if (h->status == SITU_E_TIMEOUT && h->culprit < 0) name_silent_ranks(c);
}

static void fail_without_memory(situ_comm *c) {
  char call[SITU__COMM_NAME * 3] = "";
  if (c->first) situ__comm_call_text(c->first->header, call);
  situ__comm_fail(c, SITU_E_NOMEM, c->rank, "%s%srank %d: out of memory", call, *call ? ": " : "", c->rank);
}

/* All that a peer has sent by now. */
static void receive_from(situ_comm *c, int peer) {
  situ__peer *p = &c->peers[peer];
  bool done = true;
  p->heard_at = c->pass;
  while (p->incoming && done && !c->failed) {
    p->report.rank = -1;
    if (c->host.engine->test(c->host.state, p->incoming, &done, &p->report) != SITU_OK) {
      p->incoming = NULL;
      p->lost = true; /* it may have ended in order, and no call may need it any more */
    } else if (done) {
      situ__comm_header *h = &p->next->header;
      p->incoming = NULL;
      if (!h->status) *h->text = 0; /* nothing has arrived there */
      h->text[sizeof h->text - 1] = h->name[SITU__COMM_NAME - 1] = 0;
      if (h->magic == SITU__COMM_MAGIC && h->status) hear_failure(c, peer, h);
      else if (!keep_header(c, p)) fail_without_memory(c);
      else p->lost = !expect_header(c, peer, &p->report);
    }
  }
}

/* From so many peers, in turn: calls look at those that they wait for. */
static void receive_headers(situ_comm *c, int count) {
  for (int k = 0; k < count && k < c->size && !c->failed; k++) {
    receive_from(c, c->looked_at);
    c->looked_at = (c->looked_at + 1) % c->size;
  }
}

/* The engine's words about a call; but if a rank has told why it gives up, meanwhile, before it was lost, its own. */
static void fail_by_engine(situ_comm *c, situ_status status, const situ_comm_report *report, situ_comm_request *r,
                           int peer) {
  char call[SITU__COMM_NAME * 3], who[48] = "";
  const int culprit = report->rank >= 0 ? report->rank : peer;
  if (status == SITU_E_COMM) receive_headers(c, c->size);
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

/* A collective's headers go in rounds: in round k a rank sends its own to the rank 2^k behind it, and waits for that of
   the rank 2^k before it. All calls match if each matches these, because a rank sends the next one only then; and after
   the last round all have come. */
static int target_of(const situ_comm *c, const situ_comm_request *r, int round) {
  return situ__comm_is_pair(r->transfer.op) ? r->transfer.peer : (c->rank + (1 << round)) % c->size;
}
static int source_of(const situ_comm *c, const situ_comm_request *r) {
  const int far = 1 << r->round; /* less than size */
  return situ__comm_is_pair(r->transfer.op) ? r->transfer.peer : (c->rank + c->size - far) % c->size;
}

/* What the device is given from now on does not hold the values up. */
static void mark_work(situ_comm *c, situ_comm_request *r) {
  situ_comm_report report = { .rank = -1 };
  const situ_status status = c->device_engine->mark(c->direct.state, &r->transfer.behind, &report);
  if (status == SITU_OK) return;
  r->transfer.behind = NULL;
  fail_by_engine(c, status, &report, r, -1);
}

static void send_header(situ_comm *c, situ_comm_request *r) {
  const int k = r->round;
  if (k == r->rounds) return;
  r->header[k] = *r->header;
  r->header[k].direct = situ__comm_is_direct(r) && !r->mixed;
  const situ_comm_transfer t = { .op = SITU_COMM_SEND,
                                 .dtype = SITU_U8,
                                 .count = offsetof(situ__comm_header, text), /* it has no words */
                                 .send = &r->header[k],
                                 .peer = target_of(c, r, k),
                                 .tag = HEADER_TAG };
  situ_comm_report report = { .rank = -1 };
  const situ_status status = c->host.engine->begin(c->host.state, &t, &r->sending[k], &report);
  if (status == SITU_OK) return;
  r->sending[k] = NULL;
  fail_by_engine(c, status, &report, r, t.peer);
}

void situ__comm_post(situ_comm *c, situ_comm_request *r) {
  if (r->simulated) return;
  c->sent += r->sent;
  c->received += r->received;
  if (r->header->number) c->posted = r->header->number;
  else r->header->behind = c->posted;
  *c->last = r;
  c->last = &r->later;
  if (situ__comm_is_direct(r)) mark_work(c, r);
  if (!c->failed) send_header(c, r);
}

static void compare_header(situ_comm *c, situ_comm_request *r, const situ__comm_header *its, int from) {
  char text[SITU__COMM_TEXT];
  r->mixed |= !its->direct && situ__comm_is_direct(r);
  if (!situ__comm_match(r->header, its, c->rank, from, text)) situ__comm_fail(c, SITU_E_COMM, from, "%s", text);
}

/* The next header from this peer, which the caller gives back (drop_letter); NULL: it has not come, or an earlier call
   waits for it. */
static situ__letter *next_letter(situ_comm *c, situ_comm_request *r, int from) {
  const bool pair = situ__comm_is_pair(r->transfer.op);
  situ__peer *p = &c->peers[from];
  if (p->claimed[pair] == c->pass) return NULL;
  if (!p->inbox[pair].first && p->heard_at != c->pass) receive_from(c, from);
  if (c->failed) return NULL;
  if (p->inbox[pair].first) return take_letter(c, p, pair);
  if (p->lost) fail_by_engine(c, SITU_E_COMM, &p->report, r, from);
  p->claimed[pair] = c->pass;
  return NULL;
}

static void read_headers(situ_comm *c, situ_comm_request *r) {
  while (r->round < r->rounds) {
    const int from = source_of(c, r);
    situ__letter *its = next_letter(c, r, from);
    if (!its) return;
    compare_header(c, r, &its->header, from);
    drop_letter(&c->peers[from], its);
    if (c->failed) return;
    r->round++;
    send_header(c, r);
    if (c->failed) return;
  }
  r->stage = SITU__COMM_READY;
}

/* A rank waits in a SEND or RECEIVE that this one should have called before a collective. */
static void refuse_strays(situ_comm *c) {
  for (int i = 0; c->pairs && i < c->size && !c->failed; i++) {
    const situ__peer *p = &c->peers[i];
    const situ__letter *its = p->inbox[true].first;
    if (!its || its->header.behind >= c->posted || p->claimed[true] == c->pass)
      continue; /* claimed: it has just come */
    situ_comm_request *r = c->first;
    while (r && r->header->number <= its->header.behind) r = r->later;
    if (r) compare_header(c, r, &its->header, i);
  }
}

/* As many of the values that are left as the engine carries at a time. */
static situ_comm_transfer next_piece(const situ_comm_request *r) {
  situ_comm_transfer t = r->transfer;
  const int64_t most = r->way->engine->most;
  const size_t at = (size_t)r->begun * situ_dtype_size(t.dtype);
  t.count -= r->begun;
  if (most > 0 && t.count > most && !situ__comm_has_blocks(t.op)) t.count = most;
  if (at && t.send) t.send = (const char *)t.send + at;
  if (at && t.receive) t.receive = (char *)t.receive + at;
  return t;
}

static void begin_values(situ_comm *c, situ_comm_request *r) {
  situ_comm_report report = { .rank = -1 };
  if (r->transfer.op == SITU_COMM_BARRIER) { /* its headers say that all have come */
    r->stage = SITU__COMM_VALUES;
    return;
  }
  if (r->mixed && !situ__comm_leave_device(r)) {
    situ__comm_fail(c, SITU_E_COMM, c->rank, "rank %d gave up: %.159s", c->rank, situ_error_message());
    return;
  }
  const situ_comm_transfer piece = next_piece(r);
  r->transfer.behind = NULL;
  const situ_status status = r->way->engine->begin(r->way->state, &piece, &r->values, &report);
  if (status == SITU_OK) {
    r->stage = SITU__COMM_VALUES;
    r->begun += piece.count;
    return;
  }
  r->values = NULL;
  fail_by_engine(c, status, &report, r, -1);
}

/* Returns the engine's request, or NULL once it is done. round: of a header; -1: values. */
static void *test_transfer(situ_comm *c, situ_comm_request *r, const situ__comm_way *way, void *transfer, int round) {
  bool done = false;
  situ_comm_report report = { .rank = -1 };
  const situ_status status = way->engine->test(way->state, transfer, &done, &report);
  if (status == SITU_OK) return done ? NULL : transfer;
  if (round < 0) r->values = NULL;
  else r->sending[round] = NULL;
  fail_by_engine(c, status, &report, r, round < 0 ? -1 : target_of(c, r, round));
  return NULL;
}

static bool headers_have_left(const situ_comm_request *r) {
  for (int k = 0; k < r->rounds; k++)
    if (r->sending[k]) return false;
  return true;
}

static void progress_values(situ_comm *c, situ_comm_request *r) {
  if (r->values) r->values = test_transfer(c, r, r->way, r->values, -1);
  if (!r->values && !c->failed && has_more(r)) begin_values(c, r);
  else if (!r->values && !c->failed && headers_have_left(r)) r->stage = SITU__COMM_DONE;
}

static void progress_call(situ_comm *c, situ_comm_request *r, bool *collectives_wait) {
  /* A device carries its transfers one behind the other, so there pairs keep their place, too. */
  const bool pair = situ__comm_is_pair(r->transfer.op) && !situ__comm_is_direct(r);
  for (int k = 0; k < r->rounds && !c->failed; k++)
    if (r->sending[k]) r->sending[k] = test_transfer(c, r, &c->host, r->sending[k], k);
  /* It has ended on a rank, so all have come, though one that gave up may not have sent all of its headers. */
  if (r->stage == SITU__COMM_HEADERS && r->header->number && r->header->number <= c->owed) r->stage = SITU__COMM_READY;
  if (r->stage == SITU__COMM_HEADERS && !c->failed) read_headers(c, r);
  if (r->stage == SITU__COMM_READY && !c->failed && (pair || !*collectives_wait)) begin_values(c, r);
  if (r->stage == SITU__COMM_VALUES && !c->failed) progress_values(c, r);
  /* Calls that follow begin on all ranks behind the last piece. */
  *collectives_wait |= !pair && (r->stage < SITU__COMM_VALUES || has_more(r));
  if (pair && has_more(r)) c->peers[r->transfer.peer].claimed[true] = c->pass;
}

static void progress_calls(situ_comm *c) {
  bool collectives_wait = false;
  for (situ_comm_request *r = c->first; r && !c->failed; r = r->later) {
    if (c->words && r->header->number > c->owed) break;
    progress_call(c, r, &collectives_wait);
  }
  if (!c->words) refuse_strays(c);
}

void situ__comm_progress(situ_comm *c) {
  if (c->rehearses) return;
  c->pass++;
  if (!c->failed) receive_headers(c, PEERS_A_PASS);
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

/* Whether r waits for a header that its sender sends when it comes to the call: then that rank is known to be late. */
static bool knows_who_is_late(const situ_comm_request *r) { return r->stage == SITU__COMM_HEADERS && !r->round; }

static void time_out(situ_comm *c, const situ_comm_request *r) {
  char call[SITU__COMM_NAME * 3];
  situ__comm_call_text(r->header, call);
  if (knows_who_is_late(r)) {
    const int late = source_of(c, r);
    situ__comm_fail(c, SITU_E_TIMEOUT, late, "%s: rank %d did not come to it within %g s", call, late, c->deadline);
    return;
  }
  situ__comm_fail(c, SITU_E_TIMEOUT, -1, "%s: not done within %g s", call, c->deadline);
  name_silent_ranks(c);
}

/* To read the clock takes as long as to ask an engine: short waits do without. */
enum { CLOCK_TURNS = 8 };

static void await_stage(situ_comm *c, situ_comm_request *r, situ__comm_stage stage) {
  bool sleeps = false;
  double until = 0, late = 0; /* of the first time that the clock was read */
  for (unsigned turn = 0; r->stage < stage; turn++) {
    /* Asked before: a rank that was stopped finds what has arrived meanwhile. */
    if (turn % CLOCK_TURNS == CLOCK_TURNS - 1) {
      const double now = situ__seconds();
      if (until == 0) until = now + c->deadline;
      late = now - until;
      const bool moves = c->first && c->first->stage == SITU__COMM_VALUES;
      sleeps = late + c->deadline > (moves ? MOVING_TIME : MEETING_TIME);
    }
    if (late > 0 && !c->failed) receive_headers(c, c->size);
    situ__comm_progress(c);
    if (r->stage >= stage) break;
    if (late > 0 && c->words) follow_words(c);
    else if (late > (r->stage == SITU__COMM_HEADERS && r->round ? HEARSAY_TIME : 0)) time_out(c, r);
    else pause_polling(turn, sleeps);
  }
}

void situ__comm_await(situ_comm *c, situ_comm_request *r) { await_stage(c, r, SITU__COMM_DONE); }
void situ__comm_await_begun(situ_comm *c, situ_comm_request *r) { await_stage(c, r, SITU__COMM_VALUES); }
