# Compiler and linker flags, in one interface target (situ_flags) that everything of ours uses and nothing of ours exports.
# SPDX-License-Identifier: MIT
include(CheckCCompilerFlag)
include(CheckCSourceRuns)
include(CheckLinkerFlag)

add_library(situ_flags INTERFACE)

# Adds a flag when the compiler (or the linker) takes it: hardening flags differ by compiler, version and architecture.
function(situ_try_flags kind)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "SITU_${kind}${flag}" var)
    set(CMAKE_REQUIRED_QUIET ON)
    if(kind STREQUAL "link")
      check_linker_flag(C "${flag}" ${var})
      if(${var})
        target_link_options(situ_flags INTERFACE "${flag}")
      endif()
    else()
      # -Werror, because some compilers only warn about a flag that they do not know.
      set(CMAKE_REQUIRED_FLAGS "-Werror")
      check_c_compiler_flag("${flag}" ${var})
      if(${var})
        target_compile_options(situ_flags INTERFACE "${flag}")
      endif()
    endif()
    mark_as_advanced(${var})
  endforeach()
endfunction()

target_compile_options(situ_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wvla -Wformat=2
  -Wimplicit-fallthrough
  # clang has no vector expf and its like, and would say so of each such loop.
  $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>
  # Results must not depend on the compiler's mood: no contraction, and no fast-math. What is given up below (errno from
  # maths functions, floating-point traps) nobody reads, and it lets the loops vectorise.
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  # Provenance finds the caller's line by walking frame pointers: every frame must have one.
  -fno-omit-frame-pointer -fno-optimize-sibling-calls
  # Line tables only: enough for provenance to name file:line, a tenth of the size of -g.
  $<$<CONFIG:Release>:-g1>)

# Under a sanitizer gcc warns of paths that cannot be taken: there a warning stays a warning.
if(SITU_WERROR AND NOT SITU_SANITIZE)
  target_compile_options(situ_flags INTERFACE -Werror)
endif()

if(SITU_SANITIZE)
  target_compile_options(situ_flags INTERFACE -O1 -g1 -fsanitize=${SITU_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(situ_flags INTERFACE -fsanitize=${SITU_SANITIZE})
elseif(SITU_COVERAGE)
  target_compile_options(situ_flags INTERFACE -O0 -g --coverage)
  target_link_options(situ_flags INTERFACE --coverage)
elseif(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
  # gcc clears and copies a few hundred bytes with `rep stos` and `rep movs`, whose start alone costs ten nanoseconds or
  # more on every small op: sizes and strides of a view are a few words.
  situ_try_flags(compile -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign)
  situ_try_flags(compile -mmemcpy-strategy=unrolled_loop:512:noalign,libcall:-1:noalign)
  situ_try_flags(compile -fstack-protector-strong -fstack-clash-protection)
  situ_try_flags(link -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  # The distribution may have set another level: undefine first, or the compiler warns in every file.
  target_compile_options(situ_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
if(SITU_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SITU_FUZZ=ON needs clang (it brings libFuzzer): configure with -DCMAKE_C_COMPILER=clang.")
  endif()
  target_compile_options(situ_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
