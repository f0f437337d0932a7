#!/bin/sh
# The checks of the tree are worth nothing unless they fail: breaks one rule after another in a toy tree.
# SPDX-License-Identifier: MIT
# usage: check_tools.sh TOOLS_DIRECTORY
set -eu
tools=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

tree() { # tree: a small house in which nothing is wrong
  rm -rf "$work/house"
  mkdir -p "$work/house"
  cd "$work/house"
  mkdir -p include/situ/sys src/base src/device src/tensor src/ops src/nn src/optim src/backend/cpu src/backend/sim cli
  echo '#include "api.h"' >include/situ/tensor.h
  touch include/situ/api.h include/situ/sys/backend.h src/base/size.h src/device/queue.h src/tensor/view.h src/ops/relu.h
  touch src/nn/linear.h src/optim/sgd.h src/backend/cpu/cpu.h src/backend/sim/sim.h
  printf '#include <stdio.h>\n#include "base/size.h"\n#include "situ/tensor.h"\n#include "view.h"\n' >src/tensor/view.c
  printf '#include "situ/sys/backend.h"\n#include "device/queue.h"\n#include "cpu.h"\n' >src/backend/cpu/gemm.c
  printf '#include "situ/tensor.h"\n#include "base/size.h"\n' >src/nn/linear.c
  printf '/* free(p) in words */\nvoid f(void) { b->free(p); puts("exit(1)"); situ__free(p); }\n' >src/base/words.c
}

failed=0
fails() { # fails TOOL WHERE WHAT [OBJECTS]: TOOL must fail on the tree and name the place
  if "$tools/$1" "$work/house" ${4:+"$4"} >"$work/out" 2>&1 || ! grep -q "^$2" "$work/out"; then
    echo "$1 does not see $3:" >&2
    cat "$work/out" >&2
    failed=1
  fi
}
passes() {
  "$tools/$1" "$work/house" >"$work/out" 2>&1 || { echo "$1 fails on a clean tree:" >&2; cat "$work/out" >&2; failed=1; }
}
include() { # include FILE LINE WHAT: one line added to a clean tree's file must be refused
  tree
  echo "$2" >>"$1"
  fails check_floors "$1:$(wc -l <"$1" | tr -d ' '):" "$3"
}
line() { # line FILE LINE WHAT
  tree
  echo "$2" >>"$1"
  fails check_sizes "$1:$(wc -l <"$1" | tr -d ' '):" "$3"
}

tree
passes check_floors
passes check_sizes

include src/tensor/view.c '#include "ops/relu.h"' "a look upwards"
include src/base/size.h '#include "../tensor/view.h"' "a look upwards by a relative path"
include src/nn/linear.c '#include "tensor/view.h"' "a module that looks inside"
include src/nn/linear.c '#include "optim/sgd.h"' "a look sideways"
include src/backend/sim/sim.h '#include "../cpu/cpu.h"' "a backend that includes its sibling"
include src/backend/cpu/gemm.c '#  include "tensor/view.h"' "a backend that knows tensors"
include include/situ/tensor.h '#include "base/size.h"' "a public header that includes an internal one"
include cli/main.c '#include "device/queue.h"' "a program that looks inside"
tree && mkdir -p src/io/npy src/io/format && touch src/io/npy/npy.h src/io/format/json.c
echo '#include "io/npy/npy.h"' >src/io/format/json.c
fails check_floors src/io/format/json.c:1: "a folder that looks at a higher one of its room"
tree && mkdir -p src/device/launch && touch src/device/launch/launch.h
echo '#include "device/launch/launch.h"' >src/device/memory.c
fails check_floors src/device/memory.c:1: "a room that looks at the folder above its own files"
tree && mkdir -p objects/src/base && echo 'void f(void);' >src/tensor/view.c && touch src/base/words.c
printf 'void g(void); void f(void);\nvoid f(void) { g(); }\n' >src/base/words.c && printf 'void g(void);\nvoid g(void) {}\n' >src/tensor/view.c
mkdir -p objects/src/tensor && "${CC:-cc}" -c src/base/words.c -o objects/src/base/words.c.o && "${CC:-cc}" -c src/tensor/view.c -o objects/src/tensor/view.c.o
fails check_floors src/base/words.c: "a call upwards" "$work/house/objects"
tree && mkdir src/attic && touch src/attic/old.c
fails check_floors src/attic/old.c "a room that is not in the plan"

tree && for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do touch "src/ops/op$number.c"; done
fails check_sizes "src/ops:" "a folder of many sources"

line src/tensor/view.c 'void *p = malloc(3);' "malloc"
line src/tensor/view.c '/* a
 comment */ free(p);' "free after a comment"
line src/ops/relu.h 'int n = atoi(text);' "atoi"
line src/base/size.h 'static void f(void) { abort(); }' "abort"
line src/ops/relu.h 'static void f(void) { pthread_mutex_lock(&m); }' "a lock that a fork would not free"
line src/ops/relu.h 'static void f(void) { vsnprintf(text, 8, fmt, args); }' "a decimal comma"
line src/ops/relu.h '  int good = backend->kernel[work->verb](0, work);' "a way around the door to kernels"
line src/nn/linear.c '  const int64_t more = *capacity ? 2 * *capacity : 8;' "an array that grows without situ__grow"
line src/nn/linear.c '  return good || (situ__fail(SITU_E_ARG, op, "x"), false);' "an error in an expression that is returned"
line src/nn/linear.c '  good = situ__no_memory(op, 8) == SITU_OK;' "an error that is compared with success"
line src/nn/linear.c '  if (!p) return (void)situ__null(op, "p"), NULL;' "an error that is cast away"
line cli/main.c '// TO''DO: later' "an open end"
tree && awk 'BEGIN { for (i = 0; i < 601; i++) print "/* */" }' >src/nn/long.c
fails check_sizes src/nn/long.c:601: "a file that is too long"

# words FILE WHERE WHAT: a line of prose, given on stdin, that check_words must refuse
words() {
  tree
  cat >>"$1"
  fails check_words "$1:$2:" "$3"
}
if command -v python3 >/dev/null; then
  tree
  passes check_words
  words src/base/words.c 3 "a riddle" <<'TEXT'
/* A tensor that is no leaf. */
TEXT
  words src/base/size.h 1 "words over two lines" <<'TEXT'
/* Where memory is
   to be had. */
TEXT
  words src/base/size.h 1 "a word that went" <<'TEXT'
/* Free memory lies in the depot. */
TEXT
  words src/base/size.h 1 "a message" <<'TEXT'
void f(void) { fail("%d is no dtype", 7); }
TEXT
  words include/situ/api.h 1 "an undocumented function" <<'TEXT'
SITU_API int situ_count(void);
TEXT
  words include/situ/api.h 3 "a zero that is another number" <<'TEXT'
typedef struct situ_x_options {
  size_t size;
  double eps; /**< 0: 1e-5 */
} situ_x_options;
TEXT
  mkdir -p "$work/house/docs"
  words README.md 1 "a word of a document" <<'TEXT'
What is saved is saved. `nobody` is code, somebody is not.
TEXT
  tree && mkdir tools && echo '/* Nobody. */' >src/base/size.h
  echo 'nobody | src/base/size.h | Nobody. | a name' >tools/check_words.allow
  passes check_words
  : >src/base/size.h
  fails check_words tools/check_words.allow:1: "a row that allows nothing"

  # abi WHAT HEADER LINE: a line that changes what a module and the library must agree on
  abi() {
    tree
    printf '#include "api.h"\ntypedef enum situ_kind { SITU_FIRST } situ_kind;\nSITU_API int situ_kinds(void);\n' \
      >include/situ/tensor.h
    printf '#include "../tensor.h"\n#define SITU_BACKEND_ABI 1\n/* A comment. */\nint count(situ_kind kind);\n' \
      >include/situ/sys/backend.h
    "$tools/check_abi" --write "$work/house" >/dev/null
    passes check_abi
    sed -i "s/A comment/Other words/; s/int count/int   count/" include/situ/sys/backend.h
    sed -i "s/int situ_kinds(void)/long situ_kinds(int more)/" include/situ/tensor.h
    passes check_abi
    sed -i "$3" "$2"
    fails check_abi include/situ/sys/backend.h:2: "$1"
  }
  abi "another declaration" include/situ/sys/backend.h 's/count(/count(int index, /'
  abi "another number" include/situ/sys/backend.h 's/ABI 0x/ABI 0x1/'
  abi "a code before others in an included header" include/situ/tensor.h 's/SITU_FIRST/SITU_NEW, &/'

  # document WHERE WHAT: a README, given on stdin, that check_docs must refuse
  document() {
    tree
    mkdir docs tests bench
    touch CONTRIBUTING.md CMakeLists.txt CMakePresets.json tests/CMakeLists.txt bench/CMakeLists.txt
    touch include/situ/situ.h include/situ/sys/op.h
    cat >README.md
    [ -n "$1" ] && fails check_docs "README.md$1" "$2" || passes check_docs
  }
  document '' <<'TEXT'
<!-- given: int n -->
```c
static int twice(int k) {
  return 2 * k;
}
n = twice(n);
```

```sh
cd build && ctest -R x   # a comment | with a pipe
```
TEXT
  document :1: "a block without a language" <<'TEXT'
```
step 0
```
TEXT
  document :1: "a block of an unknown language" <<'TEXT'
```C
int n;
```
TEXT
  document :1: "Python that does not compile" <<'TEXT'
```python
f(
```
TEXT
  document :3: "an indented block" <<'TEXT'
Commands:

    ./run test
TEXT
  document ': a block does not compile' "C that does not compile" <<'TEXT'
```c
int n = twice(3);
```
TEXT
  document ':1: a block does not compile' "a program that does not compile" <<'TEXT'
```c
int main(void) { return n; }
```
TEXT
  document ':2: src/base/words.c does not have' "an excerpt that is not in its file" <<'TEXT'
<!-- from: src/base/words.c -->
```c
void f(int n);
```
TEXT
  document ':1: ./run' "a command that does not exist" <<'TEXT'
```sh
./run dance
```
TEXT
  document ':1: the diff' "a diff that does not apply" <<'TEXT'
```diff
--- a/src/base/words.c
+++ b/src/base/words.c
@@ -1,1 +1,1 @@
-/* other words */
+/* words */
```
TEXT
  document ':1: `src/base/none.c`' "a path that is not there" <<'TEXT'
See `src/base/none.c`.
TEXT
  document ':2: `situ_none(x)`' "a name that nothing has" <<'TEXT'
`src/base/{size.h,words.c}` exists,
and `situ_none(x)` does not.
TEXT
  document ':1: `./run dance`' "a command in a sentence that does not exist" <<'TEXT'
Try `./run dance`.
TEXT
  document ':1: the link docs/none.md' "a link that leads nowhere" <<'TEXT'
See [none](docs/none.md).
TEXT
  document ':2: the diff' "a diff that the tree does not have" <<'TEXT'
<!-- in the tree -->
```diff
--- a/src/base/words.c
+++ b/src/base/words.c
@@ -1,1 +1,1 @@
-/* free(p) in words */
+/* words */
```
TEXT
  document ':2: there is no src/base/other.c' "a new file that is not there" <<'TEXT'
<!-- in the tree, with src/base/other.c -->
```diff
```
TEXT

  # facts LINE WHAT FINDING [SLOT]: a README of this line, and a backend whose slot `count` is documented
  facts() {
    tree
    mkdir -p docs tests/golden/data bench examples include/situ/ops
    touch CONTRIBUTING.md CMakeLists.txt CMakePresets.json tests/CMakeLists.txt bench/CMakeLists.txt
    touch include/situ/situ.h include/situ/sys/op.h examples/01_one.c
    echo 'SITU_API situ_optim *situ_optim_sgd(void);' >include/situ/optim.h
    echo 'relu: f32' >tests/golden/data/accepts.txt
    echo 'SITU_API void *situ_relu(void *x);' >include/situ/ops/unary.h
    printf 'enum {\n  SITU_VERB_COPY,\n  SITU_VERBS\n};\ntypedef struct situ_backend {\n  int (*count)(int i);\n' \
      >include/situ/sys/backend.h
    printf '  bool %s; /* a flag */\n} situ_backend;\n' "${4:-count}" >>include/situ/sys/backend.h
    echo '| `count(i)` | must | how many |' >docs/add-a-backend.md
    echo "$1" >README.md
    [ -n "$2" ] && fails check_docs "$3" "$2" || passes check_docs
  }
  rest='1 *verbs*, one optimisers, zero learning-rate schedules, (10 calls)'
  facts="1 ops (0 of them in place), $rest, one programs, smallest first"
  facts "$facts" "" ""
  facts "2${facts#1}" "a wrong number of ops" 'README.md: "2 ops ("'
  facts "over 2${facts#1}" "more ops than there are" 'README.md: "over 2 ops ("'
  facts "$(echo "$facts" | sed 's/(10/(over 9/')" "a number of calls that has grown by more" 'README.md: "(over 9 calls)"'
  facts "1 ops (0 of them in place), $rest, two programs, smallest first" "a wrong number of examples" \
    'README.md: "two programs'
  facts "${facts#1 ops}" "a number that is gone" 'no document has'
  facts "$facts" "a slot without a row" 'docs/add-a-backend.md: there is no row for the slot other' other

  # figures README WHAT FINDING: a README of these words beside two processors' figures
  figures() {
    tree
    mkdir -p docs tests bench
    touch CONTRIBUTING.md CMakeLists.txt CMakePresets.json tests/CMakeLists.txt bench/CMakeLists.txt
    touch include/situ/situ.h include/situ/sys/op.h
    for figures in "9.57 18.29 70.30 1.08" "11.49 **17.89** 73.06 2.97"; do
      printf '| H1 | %s | at least 1 | %s [1.00 to 2.00] |\n' 'a + b on 64 floats, result made and freed' "${figures%% *}" \
        'MLP 10-16-1: forward, backward, SGD step' "$(echo "$figures" | cut -d ' ' -f 2)" \
        'adamw_16 step, 1T' "$(echo "$figures" | cut -d ' ' -f 3)" 'gpt step, 1T' "${figures##* }"
    done >docs/performance.md
    echo "\`./run test\` takes 20 minutes on two cores." >docs/testing.md
    echo 'echo test' >run
    echo "$1" >README.md
    [ -n "$2" ] && fails check_docs "$3" "$2" || passes check_docs
  }
  speed='`a + b` on 64 floats is 9.6 to 11 times as fast, an SGD step of a tiny MLP 18 times;
    a fused AdamW step over 100 small tensors 70 to 73 times. Training steps of larger models on one thread are'
  figures "$speed 1.08 to 2.97 times as fast." "" ""
  figures "$speed 1.08 to 3.97 times as fast." "a figure that is not measured" 'README.md: "1.08 to 3.97 times"'
  figures "$speed 1.1 to 2.9 times as fast." "a figure that is rounded down" 'README.md: "1.1 to 2.9 times"'
  figures "$speed 1.08 to 2.97 times as fast, and pools 8 %." "a figure without a line" 'README.md: "8 %"'
  figures "${speed%% is *} is fast." "a figure that is gone" 'no document has'
  figures "$speed 1.08 to 2.97 times as fast; \`./run test\` takes 12 to 22 min." "a second length of the tests" \
    'the time of ./run test stands in README.md, docs/testing.md'
  mkdir docs/decisions
  echo 'See [none](none.md).' >docs/decisions/README.md
  printf '# 0002 One\n' | tee docs/decisions/0001-one.md docs/decisions/0002-one.md >docs/decisions/0002-two.md
  fails check_docs docs/decisions/README.md:1: "a wrong link in a directory of docs"
  fails check_docs docs/decisions/0001-one.md:1: "a decision whose title has another number"
  fails check_docs "docs/decisions/0001-one.md: docs/decisions/README.md" "a decision that is not in the list"
  fails check_docs "docs/decisions/0002-two.md: docs/decisions/0002-one.md" "two decisions of one number"

  # table ROW TAG WHERE WHAT: a row, and a tag above a test, that placement_table must refuse
  table() {
    tree
    mkdir -p tools tests/place docs
    printf '# A. Tensors\nA1 | They move\nA2* | They fly | not\n%s\n' "$1" >tools/placement_table.rows
    printf '/* placement: A1 */\nstatic void moves(void **state) {}\n%s\nstatic void more(void **state) {}\n' "$2" >tests/place/move.c
    "$tools/placement_table" --write "$work/house" >/dev/null || :
    [ -n "$3" ] && fails placement_table "$3" "$4" || passes placement_table
  }
  table "" "" "" ""
  echo '/* placement: A1 */' >>tests/place/move.c
  fails placement_table tests/place/move.c:5: "a tag above nothing"
  table "" "" "" ""
  sed -i 's/A1/A3/' tools/placement_table.rows
  fails placement_table tests/place/move.c:1: "a tag of no row"
  table "" "" "" ""
  echo edited >>docs/placement-table.md
  fails placement_table docs/placement-table.md: "a page that is not what the tool writes"
  table "A3 | They swim" "" tools/placement_table.rows:4: "a row that works without a test"
  table "" "/* placement: A2 */" tools/placement_table.rows:3: "a test of what does not work"
  table "A1 | They move" "" tools/placement_table.rows:4: "a row that is there twice"
  table "A3 | They swim | partly" "" tools/placement_table.rows:4: "a row that does not say what it lacks"
  tree
  passes check_names
  printf 'typedef struct situ__row {\n  int at;\n} situ__row;\n' | tee src/base/size.h >src/tensor/view.h
  fails check_names src/base/size.h:1: "a struct's name with two meanings"
  tree && echo 'extern int situ__recording;' >src/base/size.h
  printf 'static inline bool situ__recording(void) { return true; }\n' >src/tensor/view.h
  fails check_names src/base/size.h:1: "a name of a variable and a function"
  tree && printf 'int order(void) {\n  return 1;\n}\n' >src/base/size.h && printf 'static int order;\n' >src/tensor/view.h
  fails check_names src/tensor/view.h:1: "a name that hides another"
  tree && for name in one two; do
    printf 'static int %s(const char *name, const char *other) {\n  return name && other && strlen(name) < strlen(other) ? 1 : 0;\n}\n' $name
  done | split -l 3 - src/base/part && mv src/base/partaa src/base/one.c && mv src/base/partab src/base/two.c
  fails check_names src/base/one.c:1: "a function that is written twice"
  tree && mkdir -p src/kernels/flat && printf 'DEVICE I64 shuffle(I64 i) {\n  return i;\n}\n' >src/kernels/flat/draw.h
  fails check_names src/kernels/flat/draw.h:1: "a kernel's function with the name of one of OpenCL C"
  tree && mkdir -p src/kernels && echo 'int whole_add(int a);' >src/kernels/unary.h
  fails check_names src/kernels/unary.h:1: "a word of an identifier that went"
  tree && mkdir -p include/situ/ops src/ops/unary src/ops/matrix
  echo 'SITU_API SITU_CHECKED situ_tensor *situ_neg(situ_tensor *input);' >include/situ/ops/unary.h
  printf 'situ_tensor *situ_neg(situ_tensor *input) {\n  return input;\n}\n' >src/ops/matrix/neg.c
  fails check_names src/ops/matrix/neg.c:1: "a function in the folder of another header"
  mv src/ops/matrix/neg.c src/ops/unary && passes check_names
  sed -i 's/input/x/' src/ops/unary/neg.c
  fails check_names src/ops/unary/neg.c:1: "a parameter with another name than in the header"
  printf '#define PLAIN(id) \\\n  situ_tensor *situ_##id(situ_tensor *x) { return x; }\nPLAIN(neg)\n' >src/ops/unary/neg.c
  fails check_names src/ops/unary/neg.c:3: "such a parameter in a macro"
fi

[ "$failed" -eq 0 ] && echo "each broken rule was seen"
