# Joins a kernel text with the headers of ours that it includes: OpenCL compilers get one text and no directories.
# usage: cmake -DFROM=text.h -DTO=text.cl -DROOT=src -P flatten.cmake
# SPDX-License-Identifier: MIT

# Includes are found at a line's start, and their place by a marker that no text has.
file(READ ${FROM} text)
while("\n${text}" MATCHES "\n#include \"([^\"\n]*)\"")
  set(line "#include \"${CMAKE_MATCH_1}\"")
  if(EXISTS ${ROOT}/${CMAKE_MATCH_1})
    file(READ ${ROOT}/${CMAKE_MATCH_1} included)
  else()
    file(READ ${ROOT}/kernels/${CMAKE_MATCH_1} included)
  endif()
  string(FIND "${text}" "${line}" at)
  string(SUBSTRING "${text}" 0 ${at} before)
  string(LENGTH "${line}" length)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${text}" ${at} -1 after)
  set(text "${before}${included}${after}")
endwhile()
file(WRITE ${TO} "${text}")
