/* Pictures: areas are bytes, nothing leaves its box, no text lies on another, the file is XML
   whatever names say.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "place/draw/picture.h"
#include "place/draw_model.h"

static char svg[1 << 20];

static situ_place_edge edge_of(const char *from, const char *to, situ_device a, situ_device b, uint64_t bytes) {
  return (situ_place_edge){ .from = from, .to = to, .from_device = a, .to_device = b, .bytes = bytes };
}

static void slurp(const char *path) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t length = fread(svg, 1, sizeof svg - 1, f);
  fclose(f);
  assert_true(length < sizeof svg - 1);
  svg[length] = 0;
}

/* ---- reading the picture again --------------------------------------------------------------- */

static double attribute(const char *tag, const char *name) {
  char key[32];
  snprintf(key, sizeof key, " %s=\"", name);
  const char *at = strstr(tag, key), *end = strchr(tag, '>');
  return at && at < end ? strtod(at + strlen(key), NULL) : 0;
}

typedef struct found {
  situ__rect at;
  char class[8], text[256];
} found;

static int find_all(const char *open, found *list, int most, void (*fill)(const char *tag, found *out)) {
  int count = 0;
  for (const char *tag = svg; (tag = strstr(tag, open)); tag++) {
    assert_true(count < most);
    found *f = &list[count++];
    *f = (found){ 0 };
    const char *class = strstr(tag, "class=\"");
    if (class && class < strchr(tag, '>'))
      snprintf(f->class, sizeof f->class, "%.*s", (int)strcspn(class + 7, "\""), class + 7);
    fill(tag, f);
  }
  return count;
}

static void fill_rect(const char *tag, found *out) {
  out->at = (situ__rect){ attribute(tag, "x"), attribute(tag, "y"), attribute(tag, "width"), attribute(tag, "height") };
  const char *title = strchr(tag, '>') + 1;
  if (strncmp(title, "<title>", 7) == 0)
    snprintf(out->text, sizeof out->text, "%.*s", (int)strcspn(title + 7, "\n<"), title + 7);
}

static void fill_text(const char *tag, found *out) {
  const char *body = strchr(tag, '>') + 1, *turned = strstr(tag, "translate(");
  snprintf(out->text, sizeof out->text, "%.*s", (int)strcspn(body, "<"), body);
  double size = attribute(tag, "font-size"), width = situ__text_width(out->text, size, strchr(out->class, 'b') != NULL);
  bool middle = strchr(out->class, 'c') != NULL;
  if (turned && turned < body) {
    double x = strtod(turned + 10, NULL), y = strtod(strchr(turned, ' '), NULL);
    out->at = (situ__rect){ x - size * 0.8, y - width / 2, size, width };
    return;
  }
  out->at =
      (situ__rect){ attribute(tag, "x") - (middle ? width / 2 : 0), attribute(tag, "y") - size * 0.8, width, size };
}

static bool meet(situ__rect a, situ__rect b) {
  return a.x < b.x + b.w - 0.1 && b.x < a.x + a.w - 0.1 && a.y < b.y + b.h - 0.1 && b.y < a.y + a.h - 0.1;
}
static bool within(situ__rect in, situ__rect out) {
  return in.x >= out.x - 0.3 && in.y >= out.y - 0.3 && in.x + in.w <= out.x + out.w + 0.3 &&
         in.y + in.h <= out.y + out.h + 0.3;
}

enum { MOST = 4000 };
static found box[MOST], label[MOST];

/* What holds for every picture: returns how many boxes it has. */
static int check_picture(double width, double height) {
  slurp("p.svg");
  int boxes = find_all("<rect class=", box, MOST, fill_rect), labels = find_all("<text ", label, MOST, fill_text);
  situ__rect page = { 0, 0, width, height };
  for (int i = 0; i < boxes; i++) {
    if (!within(box[i].at, page)) fail_msg("box '%s' leaves the page", box[i].text);
    /* Two boxes lie apart, or one in the other. */
    for (int k = 0; k < i; k++)
      if (*box[i].text && *box[k].text && meet(box[i].at, box[k].at) && !within(box[i].at, box[k].at) &&
          !within(box[k].at, box[i].at))
        fail_msg("boxes '%s' and '%s' overlap", box[i].text, box[k].text);
  }
  for (int i = 0; i < labels; i++) {
    if (!within(label[i].at, page)) fail_msg("text '%s' leaves the page", label[i].text);
    for (int k = 0; k < i; k++)
      if (meet(label[i].at, label[k].at)) fail_msg("texts '%s' and '%s' overlap", label[i].text, label[k].text);
    /* No edge of a box runs through a text: it lies wholly in or wholly out. Bytes of arrows have
       a ground of their own. */
    for (int k = 0; k < boxes && strcmp(label[i].class, "p") != 0; k++)
      if (*box[k].text && meet(label[i].at, box[k].at) && !within(label[i].at, box[k].at)) {
        bool grounded = false;
        for (int g = 0; g < boxes; g++) grounded |= strcmp(box[g].class, "p") == 0 && within(label[i].at, box[g].at);
        if (!grounded) fail_msg("the edge of '%s' runs through '%s'", box[k].text, label[i].text);
      }
  }
  return boxes;
}

static const found *box_of(const char *text, int boxes) {
  for (int i = 0; i < boxes; i++)
    if (strcmp(box[i].text, text) == 0) return &box[i];
  fail_msg("no box of '%s'", text);
  return NULL;
}

/* The ends of the next arrow at or behind `at`. Returns what follows it; NULL: there is none. */
static const char *next_arrow(const char *at, situ__rect *from, situ__rect *to) {
  static const char begin[] = "<path class=\"o\" d=\"";
  *from = *to = (situ__rect){ 0 };
  at = strstr(at, begin);
  if (!at) return NULL;
  at += sizeof begin - 1;
  assert_int_equal(sscanf(at, "M%lf %lfL%lf %lf", &from->x, &from->y, &to->x, &to->y), 4);
  return at;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* The example of the paper: 6 6 4 3 2 2 1 in 6 x 4, with its aspect ratios. */
static void squares_as_in_the_paper(void **state) {
  (void)state;
  const double weight[] = { 6, 6, 4, 3, 2, 2, 1 };
  situ__rect part[7];
  situ__squarify(weight, 7, (situ__rect){ 0, 0, 6, 4 }, part);
  static const situ__rect want[] = { { 0, 0, 3, 2 },
                                     { 0, 2, 3, 2 },
                                     { 3, 0, 12.0 / 7, 7.0 / 3 },
                                     { 3 + 12.0 / 7, 0, 9.0 / 7, 7.0 / 3 },
                                     { 3, 7.0 / 3, 1.2, 5.0 / 3 },
                                     { 4.2, 7.0 / 3, 1.2, 5.0 / 3 },
                                     { 5.4, 7.0 / 3, 0.6, 5.0 / 3 } };
  for (int i = 0; i < 7; i++) {
    assert_true(__builtin_fabs(part[i].x - want[i].x) < 1e-9 && __builtin_fabs(part[i].y - want[i].y) < 1e-9);
    assert_true(__builtin_fabs(part[i].w - want[i].w) < 1e-9 && __builtin_fabs(part[i].h - want[i].h) < 1e-9);
  }
}

/* Texts may touch: a rectangle is taken where it has an inside in common with another. */
static void edges_are_not_taken(void **state) {
  (void)state;
  situ__picture p = { .op = "test" };
  assert_true(situ__take(&p, (situ__rect){ 10, 10, 4, 2 }));
  assert_true(situ__is_taken(&p, (situ__rect){ 13, 11, 4, 2 }) && situ__is_taken(&p, (situ__rect){ 7, 9, 4, 2 }));
  assert_false(situ__is_taken(&p, (situ__rect){ 14, 10, 4, 2 }) || situ__is_taken(&p, (situ__rect){ 6, 10, 4, 2 }));
  assert_false(situ__is_taken(&p, (situ__rect){ 10, 12, 4, 2 }) || situ__is_taken(&p, (situ__rect){ 10, 8, 4, 2 }));
  situ__free(p.taken);
}

static void areas_are_bytes(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_list(situ_nn_linear(64, 64, &(situ_nn_linear_options){ .no_bias = true }),
                                          situ_nn_linear(64, 128, &(situ_nn_linear_options){ .no_bias = true }),
                                          situ_nn_linear(32, 64, &(situ_nn_linear_options){ .no_bias = true }));
  must(situ_place_svg(m, "p.svg", NULL));
  int boxes = check_picture(1200, 800);
  assert_non_null(strstr(svg, "0.weight\nparameter f32 [64, 64]\n"));
  const found *one = box_of("0", boxes), *two = box_of("1", boxes), *half = box_of("2", boxes);
  double a = one->at.w * one->at.h, b = two->at.w * two->at.h, c = half->at.w * half->at.h;
  assert_true(b / a > 1.95 && b / a < 2.05 && c / a > 0.48 && c / a < 0.52);
  situ_nn_free(m);
}

/* placement: J3 */
static void a_model_on_three_devices(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  const situ_device cpu = situ_dev("cpu"), a = situ_dev("sim:0"), b = situ_dev("sim:1");
  situ_place_edge edges[] = {
    edge_of("0", "1.0", cpu, a, 4096),    edge_of("1.2", "1.3", a, b, 4096), edge_of("1.3", "1.2", b, a, 100),
    edge_of("1.3", "2", b, cpu, 1 << 20), edge_of(NULL, "0", a, cpu, 12345), edge_of("1", "1.0", a, b, 7),
  };
  edges[3].count = 4;
  must(situ_place_svg(m, "p.svg", &(situ_place_svg_options){ .title = "three", .edges = edges, .edge_count = 6 }));
  int boxes = check_picture(1200, 800);
  assert_non_null(strstr(svg, ">three</text>"));
  assert_non_null(strstr(svg, ">sim:1   1.1 KiB   16.8 %</text>"));
  assert_non_null(strstr(svg, ">9 copies between devices, 1.0 MiB:</text>"));
  assert_non_null(strstr(svg, "1.3 (sim:1) → 2 (cpu)   1.0 MiB in 4</text>"));
  assert_non_null(strstr(svg, "Shared, drawn once: 3 = 0"));
  assert_non_null(strstr(svg, "1.3.0.weight\nparameter f32 [16, 8]\n512 B (512 bytes, 7.7 %)\nsim:1\nmoved by nn_to"));
  assert_non_null(strstr(svg, "prefers-color-scheme:dark"));
  int labels = 0; /* the bytes of each copy, beside its arrow */
  for (const char *at = svg; (at = strstr(at, "<rect class=\"p\"")); at++) labels++;
  assert_int_equal(labels, 6);
  /* The same colour for all boxes on one device, another for those on another. */
  assert_string_equal(box_of("1.0", boxes)->class, "g1");
  assert_string_equal(box_of("1.3", boxes)->class, "g2");
  assert_string_equal(box_of("1", boxes)->class, "gm");
  situ_nn_free(m);
}

/* One huge tensor and 200 tiny ones, on two devices: they are gathered, and can be seen. */
static void tiny_parts_are_gathered(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(1024, 1024, NULL));
  must(situ_sim_create(2));
  for (int i = 1; i <= 100; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    situ_nn_module *child = situ_nn_add_child(m, name, NULL, situ_nn_linear(4, 4, NULL));
    if (i > 60) must(situ_nn_to(child, situ_dev("sim:0")));
  }
  const situ_place_edge edge = edge_of("60", "61", situ_dev("cpu"), situ_dev("sim:0"), 4096);
  must(situ_place_svg(m, "p.svg", &(situ_place_svg_options){ .edges = &edge, .edge_count = 1 }));
  int boxes = check_picture(1200, 800);
  assert_true(box_of("60 small parts", boxes)->at.w > 10);
  assert_true(box_of("40 small parts", boxes)->at.w > 10);
  /* The copy between two gatherings has an arrow, and its bytes are beside the middle: only headers of boxes move them. */
  assert_non_null(strstr(svg, "<circle"));
  const char *ground = strstr(svg, "<rect class=\"p\"");
  situ__rect from, to;
  assert_non_null(next_arrow(svg, &from, &to));
  assert_true(ground &&
              __builtin_fabs(attribute(ground, "y") + attribute(ground, "height") / 2 - (from.y + to.y) / 2) < 0.1);
  assert_non_null(strstr(svg, "The smallest are drawn larger than they are."));
  /* An arrow of a part with a box of its own begins there, not at the gathering on its device. */
  const situ_place_edge own = edge_of("0", "61", situ_dev("cpu"), situ_dev("sim:0"), 4096);
  must(situ_place_svg(m, "p.svg", &(situ_place_svg_options){ .edges = &own, .edge_count = 1 }));
  boxes = check_picture(1200, 800);
  assert_non_null(next_arrow(svg, &from, &to));
  assert_true(within(from, box_of("0", boxes)->at) && within(to, box_of("40 small parts", boxes)->at));
  situ_nn_free(m);
}

/* A copy to the outside leaves the map at the edge that is nearest to its box. */
static void arrows_leave_by_the_nearest_edge(void **state) {
  (void)state;
  enum { PARTS = 16 };
  static const char *const sides[] = { "left", "right", "top", "bottom" };
  char path[PARTS][8];
  situ_place_entry list[PARTS];
  situ_place_edge edges[PARTS];
  const situ_device cpu = situ_dev("cpu"), meta = situ_dev("meta");
  for (int i = 0; i < PARTS; i++) {
    (void)snprintf(path[i], sizeof path[i], "p%d", i);
    list[i] = (situ_place_entry){
      .path = path[i], .role = SITU_PLACE_PARAMETER, .type = "f32", .device = cpu, .shape = SITU_SHAPE(4), .bytes = 4096
    };
    edges[i] = edge_of(path[i], NULL, cpu, meta, 4096);
  }
  situ_snapshot *s = situ_snapshot_of(list, PARTS);
  must(situ_snapshot_svg(s, "p.svg", &(situ_place_svg_options){ .edges = edges, .edge_count = PARTS }));
  const int boxes = check_picture(1200, 800);
  double end[4] = { 1e9, -1e9, 1e9, -1e9 }; /* of the map: the least and the largest x, then y */
  for (int i = 0; i < PARTS; i++) {
    const situ__rect r = box_of(path[i], boxes)->at;
    end[0] = r.x < end[0] ? r.x : end[0], end[1] = r.x + r.w > end[1] ? r.x + r.w : end[1];
    end[2] = r.y < end[2] ? r.y : end[2], end[3] = r.y + r.h > end[3] ? r.y + r.h : end[3];
  }
  int used[4] = { 0 };
  const char *at = svg;
  for (int i = 0; i < PARTS; i++) {
    situ__rect from, to;
    assert_non_null(at = next_arrow(at, &from, &to));
    const situ__rect r = box_of(path[i], boxes)->at;
    assert_true(within(from, r));
    const double far[4] = { r.x - end[0], end[1] - r.x - r.w, r.y - end[2], end[3] - r.y - r.h };
    const int side = to.x < end[0] ? 0 : to.x > end[1] ? 1 : to.y < end[2] ? 2 : 3;
    assert_true(side < 3 || to.y > end[3]);
    used[side]++;
    for (int k = 0; k < 4; k++)
      if (far[k] < far[side] - 1) fail_msg("the arrow of %s leaves on the %s, not %s", path[i], sides[side], sides[k]);
  }
  for (int k = 0; k < 4; k++) assert_true(used[k] > 0);
  situ_snapshot_free(s);
}

/* A group of small parts on each of as many devices as a snapshot can have. */
static void groups_on_all_devices(void **state) {
  (void)state;
  enum { PLACES = 256 };
  static char path[PLACES][16];
  static situ_place_entry list[PLACES];
  for (int i = 0; i < PLACES; i++) {
    (void)snprintf(path[i], sizeof path[i], i ? "small.%d" : "large", i);
    list[i] = (situ_place_entry){ .path = path[i],
                                  .role = SITU_PLACE_PARAMETER,
                                  .type = "u8",
                                  .device = { i ? SITU_CUDA : SITU_CPU, (uint16_t)i },
                                  .shape = SITU_SHAPE(4),
                                  .bytes = i ? 4 : 1 << 30 };
  }
  list[0].device.index = 0;
  situ_snapshot *s = situ_snapshot_of(list, PLACES);
  must(situ_snapshot_svg(s, "p.svg", &(situ_place_svg_options){ .width = 2000, .height = 6000 }));
  situ_snapshot_free(s);
}

/* Trees of all sorts: the numbers come from a small generator, the same ones on every run. */
static void no_layout_goes_wrong(void **state) {
  (void)state;
  enum { EDGES = 100 }; /* the last picture has more arrows than are drawn */
  uint32_t seed = 1;
  char paths[160][64];
  for (int round = 0; round < 60; round++) {
    situ_place_entry list[160];
    situ_place_edge edges[EDGES];
    for (int i = 0; i < 160; i++) {
      seed = seed * 1664525u + 1013904223u;
      snprintf(paths[i], sizeof paths[i], "m%02d.block%d.%d.a_rather_long_name", i / 20, i / 10 % 2, i);
      list[i] = (situ_place_entry){ .path = paths[i],
                                    .role = i % 7 ? SITU_PLACE_PARAMETER : SITU_PLACE_BUFFER,
                                    .type = "f32",
                                    .device = { SITU_CUDA, (uint16_t)(seed >> 28 & (unsigned)round & 15u) },
                                    .shape = SITU_SHAPE(1, 2, 3),
                                    .bytes = (uint64_t)1 << (seed >> 20) % (1 + (unsigned)round) };
    }
    for (int i = 0; i < EDGES; i++) {
      seed = seed * 1664525u + 1013904223u;
      const situ_place_entry *a = &list[seed >> 8 & 127], *b = &list[seed >> 16 & 127];
      edges[i] = edge_of(i % 10 ? a->path : NULL, i % 11 ? b->path : "no such", a->device, b->device, seed);
    }
    situ_snapshot *s = situ_snapshot_of(list, 160);
    int width = 320 + 53 * round, height = 3000 - 40 * round;
    must(situ_snapshot_svg(
        s, "p.svg",
        &(situ_place_svg_options){
            .edges = edges, .edge_count = round < 59 ? round % 31 : EDGES, .width = width, .height = height }));
    assert_true(check_picture(width, height) > 1);
    situ_snapshot_free(s);
  }
}

/* ---- hostile input --------------------------------------------------------------------------- */

static void names_cannot_leave_their_text(void **state) {
  (void)state;
  const situ_place_entry entries[] = {
    { .path = "", .role = SITU_PLACE_MODULE, .type = "</title><script>alert(1)</script>" },
    { .path = "a\"><script/>&\x01\xff]]>.w",
      .role = SITU_PLACE_BUFFER,
      .type = "f32",
      .device = { SITU_META, 0 },
      .bytes = 4 },
  };
  situ_snapshot *s = situ_snapshot_of(entries, 2);
  const situ_place_edge edge = edge_of("<b>", "a\"><script/>&\x01\xff]]>", situ_dev("cpu"), situ_dev("meta"), 1);
  must(situ_snapshot_svg(s, "p.svg", &(situ_place_svg_options){ .edges = &edge, .edge_count = 1 }));
  check_picture(1200, 800);
  assert_null(strstr(svg, "<script"));
  assert_non_null(strstr(svg, "&lt;/title&gt;&lt;script&gt;alert(1)"));
  assert_non_null(strstr(svg, "a&quot;&gt;&lt;script/&gt;&amp;??]]&gt;"));
  situ_snapshot_free(s);
}

/* A number says nothing without what it counts, and at the root nothing is counted. */
static void numbers_are_shown_with_what_they_count(void **state) {
  (void)state;
  situ_place_entry entries[] = {
    { .path = "7.w", .role = SITU_PLACE_PARAMETER, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4096 },
    { .path = "layers.3.w", .role = SITU_PLACE_PARAMETER, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4096 },
  };
  situ_snapshot *s = situ_snapshot_of(entries, 2);
  must(situ_snapshot_svg(s, "p.svg", NULL));
  check_picture(1200, 800);
  assert_non_null(strstr(svg, ">7   4.0 KiB<"));
  assert_non_null(strstr(svg, ">layers.3   4.0 KiB<"));
  situ_snapshot_free(s);
}

static void bad_wishes_are_refused(void **state) {
  (void)state;
  situ_nn_module *small = situ_nn_linear(2, 2, NULL);
  must(situ_place_svg(small, "p.svg", &(situ_place_svg_options){ .width = 320, .height = 320 }));
  situ_nn_free(small);
  situ_nn_module *m = situ_nn_linear(2, 2, NULL), *empty = situ_nn_relu();
  const situ_place_edge edge = edge_of("weight", NULL, situ_dev("cpu"), situ_dev("cpu"), 1);
  const situ_place_svg_options bad[] = {
    { .width = 10 }, { .height = -1 }, { .width = 1 << 20 }, { .edges = &edge, .edge_count = -1 }, { .edge_count = 1 }
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(situ_place_svg(m, "never.svg", &bad[i]), SITU_E_ARG);
    expect_error(SITU_E_ARG, "place_svg", "");
    assert_null(fopen("never.svg", "rb"));
  }
  assert_int_equal(situ_place_svg(m, NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_svg", "`path` is NULL");
  must(situ_place_svg(empty, "p.svg", NULL)); /* no tensors: a page without boxes */
  check_picture(1200, 800);
  situ_nn_free(m);
  situ_nn_free(empty);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  const situ_place_edge edge = edge_of("1.2", "1.3", situ_dev("sim:0"), situ_dev("sim:1"), 4096);
  const situ_place_svg_options options = { .edges = &edge, .edge_count = 1 };
  uint64_t nth = 1;
  for (;; nth++) {
    situ_fail_allocation(nth, false);
    situ_status status = situ_place_svg(m, "q.svg", &options);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    expect_error(SITU_E_NOMEM, "", "");
    assert_null(fopen("q.svg", "rb"));
  }
  assert_true(nth > 8);
  remove("q.svg");
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    DRAW_TEST(edges_are_not_taken),
    DRAW_TEST(squares_as_in_the_paper),
    DRAW_TEST(areas_are_bytes),
    DRAW_TEST(a_model_on_three_devices),
    DRAW_TEST(tiny_parts_are_gathered),
    DRAW_TEST(arrows_leave_by_the_nearest_edge),
    DRAW_TEST(groups_on_all_devices),
    DRAW_TEST(no_layout_goes_wrong),
    DRAW_TEST(names_cannot_leave_their_text),
    DRAW_TEST(numbers_are_shown_with_what_they_count),
    DRAW_TEST(bad_wishes_are_refused),
    DRAW_TEST(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
