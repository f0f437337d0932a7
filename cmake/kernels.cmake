# Spells out the kernels that situ_kernels (src/backend/lower/list) lists, for compilers that run before the program does:
# nvcc. A text is read again for each variant, in a namespace of its own, as a function whose name says which it is.
# usage: cmake -DROOT=src -DLIST=file -DTO=directory [-DEVERY=n] -P kernels.cmake
#        (writes directory/<text>.cu for each text; EVERY: each n-th kernel of a text only, from its first on)
# SPDX-License-Identifier: MIT

cmake_minimum_required(VERSION 3.25)

set(compute_f32 "#define T float\n#define TNAME f32\n#define FLOATING 1\n")
set(compute_f64 "#define T double\n#define TNAME f64\n#define FLOATING 1\n")
set(compute_i64 "#define T I64\n#define TNAME i64\n#define FLOATING 0\n")
set(compute_- "")

# What a text was told and what it defines is taken back behind it: macros know no namespaces.
file(GLOB texts ${ROOT}/kernels/flat/*.h ${ROOT}/kernels/group/*.h)
file(GLOB parts ${ROOT}/kernels/*/*.h)
set(macros run NAME OP FLAGS T TNAME FLOATING D0 D1 D2 D3 D4 D5)
foreach(file ${parts})
  file(STRINGS ${file} lines REGEX "^#define [A-Za-z_]")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#define ([A-Za-z_0-9]+).*" "\\1" name "${line}")
    list(APPEND macros ${name})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES macros)
list(TRANSFORM macros PREPEND "#undef ")
list(JOIN macros "\n" undefined)
file(MAKE_DIRECTORY ${TO})
file(WRITE ${TO}/end.h "${undefined}\n")

# A line: text, symbol, NAME, OP, compute dtype, FLAGS, D0 .. D5; `-` is not defined.
file(STRINGS ${LIST} kernels)
set(count 0)
foreach(kernel ${kernels})
  string(REPLACE " " ";" kernel "${kernel}")
  list(POP_FRONT kernel text symbol name op compute flags)
  if(EVERY)
    math(EXPR turn "${listed_${text}} + 0")
    math(EXPR listed_${text} "(${turn} + 1) % ${EVERY}")
    if(turn)
      continue()
    endif()
  endif()
  set(defines "${compute_${compute}}")
  set(k 0)
  foreach(dtype ${kernel})
    if(NOT dtype STREQUAL "-")
      string(APPEND defines "#define D${k} ${dtype}\n")
    endif()
    math(EXPR k "${k} + 1")
  endforeach()
  math(EXPR count "${count} + 1")
  string(APPEND source_${text} "namespace v${count} {\n#define run ${symbol}\n#define NAME ${name}\n#define OP ${op}\n"
    "#define FLAGS ${flags}\n${defines}#include \"@${text}@\"\n#include \"end.h\"\nENTRY(${symbol})\n}\n")
endforeach()

foreach(file ${texts})
  cmake_path(GET file STEM text)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE path)
  if(DEFINED source_${text})
    string(REPLACE "@${text}@" "${path}" source "${source_${text}}")
    file(WRITE ${TO}/${text}.cu "#include \"backend/cuda/kernels.h\"\n${source}")
  elseif(NOT text MATCHES "^(lanes|pack|row)$") # what texts have in common
    message(FATAL_ERROR "no kernel of ${file} is listed: src/backend/lower/list does not ask for any")
  endif()
endforeach()
