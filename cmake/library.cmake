# The library, compiled once and linked twice: libsitu.so (BUILD_SHARED_LIBS=OFF: libsitu.a) for users, libsitu_static.a for
# the tests that look inside.
# SPDX-License-Identifier: MIT

file(GLOB_RECURSE situ_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
if(NOT situ_sources)
  message(FATAL_ERROR "No sources under ${PROJECT_SOURCE_DIR}/src.")
endif()

# Backends that will be modules of their own, opened at run time, are no part of the core.
list(FILTER situ_sources EXCLUDE REGEX "/src/backend/(opencl|cuda|lower)/")

# Files that are compiled once for each instruction set.
set(situ_isa_sources ${situ_sources})
list(FILTER situ_isa_sources INCLUDE REGEX "/src/backend/cpu/[a-z]+/isa/")
list(FILTER situ_sources EXCLUDE REGEX "/src/backend/cpu/[a-z]+/isa/")
foreach(set bf16 amx)
  set(situ_${set}_sources ${situ_sources})
  list(FILTER situ_${set}_sources INCLUDE REGEX "/src/backend/cpu/[a-z]+/isa_${set}/")
  list(FILTER situ_sources EXCLUDE REGEX "/src/backend/cpu/[a-z]+/isa_${set}/")
endforeach()

if(SITU_FUZZ)
  # libFuzzer learns from the comparisons of what parses files; in loops over elements they would take half of the time.
  set(situ_loops ${situ_sources} ${situ_isa_sources})
  list(FILTER situ_loops EXCLUDE REGEX "/src/(data|io|program)/")
  set_source_files_properties(${situ_loops} PROPERTIES COMPILE_OPTIONS -fno-sanitize-coverage=trace-cmp)
endif()

# situ_objects(target sources...): the settings that every part of the library shares.
function(situ_objects target)
  add_library(${target} OBJECT ${ARGN})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  target_compile_definitions(${target} PRIVATE SITU_BUILDING _GNU_SOURCE=)
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PRIVATE situ_flags situ_deps)
endfunction()

situ_objects(situ_core ${situ_sources})

# Code of the cpu backend is aligned, so that what is written elsewhere does not move hot loops across cache lines: that
# made 10 to 25 % up and down.
set(situ_aligned "")
if(NOT CMAKE_BUILD_TYPE STREQUAL Debug AND NOT SITU_SANITIZE)
  set(situ_aligned -falign-functions=64 -falign-loops=32)
endif()
set(situ_cpu_sources ${situ_sources})
list(FILTER situ_cpu_sources INCLUDE REGEX "/src/backend/cpu/")
set_property(SOURCE ${situ_cpu_sources} APPEND PROPERTY COMPILE_OPTIONS ${situ_aligned})
# What stands above the ops calls them, and has no loops over elements: at -O3 it is a sixth larger, and as fast. The
# floors below stay at -O3: with all of them at -O2 a call of an op takes 1 to 4 % more time.
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT SITU_SANITIZE AND NOT SITU_COVERAGE)
  set(situ_callers ${situ_sources})
  list(FILTER situ_callers INCLUDE REGEX "/src/(tree|nn|optim|place|program|distributed)/")
  set_property(SOURCE ${situ_callers} APPEND PROPERTY COMPILE_OPTIONS -O2)
endif()
# Under a sanitizer, -O1 leaves the tiles of products in memory, where each access is checked.
if(SITU_SANITIZE)
  foreach(file gemm/isa/gemm.c conv/isa/conv.c)
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/${file} APPEND PROPERTY COMPILE_OPTIONS -O2)
  endforeach()
endif()
set(situ_parts $<TARGET_OBJECTS:situ_core>)

# situ_isa(name sources flags...): one more compilation of the files in the list `sources`, whose symbols end in the
# name.
set(SITU_ISAS "")
function(situ_isa name sources)
  if(${sources})
    situ_objects(situ_isa_${name} ${${sources}})
    target_compile_definitions(situ_isa_${name} PRIVATE SITU_ISA=${name})
    target_compile_options(situ_isa_${name} PRIVATE ${ARGN})
    # At -O2 GCC calls vector functions in loops of a known length alone: a value's last bit would depend on its place.
    if(situ_aligned)
      target_compile_options(situ_isa_${name} PRIVATE -O3 ${situ_aligned})
    endif()
    set(situ_parts ${situ_parts} $<TARGET_OBJECTS:situ_isa_${name}> PARENT_SCOPE)
  endif()
  set(SITU_ISAS ${SITU_ISAS} ${name} PARENT_SCOPE)
endfunction()

set(SITU_CPU_KERNELS base v3 v4 CACHE STRING "Instruction sets of the CPU kernels: base, base and v3, or all three")
set(SITU_HAVE_ISA_V3 0)
set(SITU_HAVE_ISA_V4 0)
set(SITU_HAVE_ISA_BF16 0)
set(SITU_HAVE_ISA_AMX 0)
set(CMAKE_REQUIRED_QUIET ON)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  check_c_compiler_flag(-march=x86-64-v3 SITU_CC_HAS_V3)
  check_c_compiler_flag(-march=x86-64-v4 SITU_CC_HAS_V4)
  check_c_compiler_flag(-mprefer-vector-width=512 SITU_CC_HAS_WIDTH_512)
  set(situ_amx_flags -mamx-tile -mamx-bf16 -mavx512bf16)
  check_c_compiler_flag("${situ_amx_flags}" SITU_CC_HAS_AMX)
  check_c_compiler_flag(-mavx512bf16 SITU_CC_HAS_BF16)
  mark_as_advanced(SITU_CC_HAS_BF16 SITU_CC_HAS_AMX SITU_CC_HAS_V3 SITU_CC_HAS_V4 SITU_CC_HAS_WIDTH_512)
  situ_isa(base situ_isa_sources -march=x86-64)
  if(SITU_CC_HAS_V3 AND "v3" IN_LIST SITU_CPU_KERNELS)
    set(SITU_HAVE_ISA_V3 1)
    situ_isa(v3 situ_isa_sources -march=x86-64-v3)
  endif()
  if(SITU_CC_HAS_V4 AND "v4" IN_LIST SITU_CPU_KERNELS)
    set(SITU_HAVE_ISA_V4 1)
    situ_isa(v4 situ_isa_sources -march=x86-64-v4
      $<$<BOOL:${SITU_CC_HAS_WIDTH_512}>:-mprefer-vector-width=512>)
    if(SITU_CC_HAS_BF16)
      set(SITU_HAVE_ISA_BF16 1)
      situ_isa(bf16 situ_bf16_sources -march=x86-64-v4 -mavx512bf16 -mavx512vnni
        $<$<BOOL:${SITU_CC_HAS_WIDTH_512}>:-mprefer-vector-width=512>)
    endif()
    if(SITU_CC_HAS_AMX AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
      set(SITU_HAVE_ISA_AMX 1)
      situ_isa(amx situ_amx_sources -march=x86-64-v4 ${situ_amx_flags})
    endif()
  endif()
else()
  situ_isa(base situ_isa_sources)
endif()
unset(CMAKE_REQUIRED_QUIET)

configure_file(${PROJECT_SOURCE_DIR}/cmake/situ_config.h.in ${PROJECT_BINARY_DIR}/generated/situ_config.h)

# situ_own_section(target): provenance tells the library's frames from the program's by address. Linked into a program, the
# library's code is told apart by a section of its own; without objcopy a message leaves out the caller's line.
function(situ_own_section target)
  if(CMAKE_OBJCOPY)
    set(rename "")
    foreach(section .text .text.unlikely .text.hot .text.startup .text.exit)
      list(APPEND rename --rename-section ${section}=situ_text)
    endforeach()
    add_custom_command(TARGET ${target} POST_BUILD COMMAND ${CMAKE_OBJCOPY} ${rename} $<TARGET_FILE:${target}> VERBATIM)
  endif()
endfunction()

if(BUILD_SHARED_LIBS)
  add_library(situ SHARED ${situ_parts})
  set_target_properties(situ PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
  target_link_libraries(situ PRIVATE situ_flags situ_deps)
  # Calls inside the library go straight to their function, not through the table that a program could override.
  check_linker_flag(C -Wl,-Bsymbolic-functions SITU_LD_HAS_BSYMBOLIC)
  mark_as_advanced(SITU_LD_HAS_BSYMBOLIC)
  if(SITU_LD_HAS_BSYMBOLIC)
    target_link_options(situ PRIVATE -Wl,-Bsymbolic-functions)
  endif()
  # The addresses of ten thousand pointers in its tables take 4 KB when they are packed, else 257. glibc knows that from
  # 2.36 on, musl from 1.2.4: only where a program with such addresses runs. OFF: for an older C library than this one.
  if(NOT CMAKE_CROSSCOMPILING)
    set(CMAKE_REQUIRED_QUIET ON)
    set(CMAKE_REQUIRED_FLAGS "-fPIE -pie")
    set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs -Wl,--fatal-warnings)
    check_c_source_runs("static int x, *volatile at[2] = { &x, &x };
      int main(void) { return at[0] != &x || at[1] != &x; }" SITU_LD_PACKS_RELOCATIONS)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    unset(CMAKE_REQUIRED_FLAGS)
    unset(CMAKE_REQUIRED_QUIET)
    mark_as_advanced(SITU_LD_PACKS_RELOCATIONS)
    if(SITU_LD_PACKS_RELOCATIONS)
      target_link_options(situ PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
  endif()
  # Its threads, and what it asked to be called at their end, outlive a dlclose.
  check_linker_flag(C -Wl,-z,nodelete SITU_LD_HAS_NODELETE)
  mark_as_advanced(SITU_LD_HAS_NODELETE)
  if(SITU_LD_HAS_NODELETE)
    target_link_options(situ PRIVATE -Wl,-z,nodelete)
  endif()
  if(NOT SITU_SANITIZE MATCHES "address|thread" OR NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    # clang leaves the sanitizer's own symbols to be found in the program.
    target_link_options(situ PRIVATE -Wl,--no-undefined)
  endif()
else()
  add_library(situ STATIC ${situ_parts})
  set(situ_system m ${CMAKE_DL_LIBS} -pthread) # what its programs link
  target_link_libraries(situ INTERFACE ${situ_system})
  situ_own_section(situ)
endif()
add_library(situ::situ ALIAS situ)
set_target_properties(situ PROPERTIES LINKER_LANGUAGE C)
target_include_directories(situ PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

add_library(situ_static STATIC EXCLUDE_FROM_ALL ${situ_parts})
set_target_properties(situ_static PROPERTIES LINKER_LANGUAGE C)
target_compile_definitions(situ_static INTERFACE _GNU_SOURCE=)
target_include_directories(situ_static INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(situ_static INTERFACE situ_deps)
situ_own_section(situ_static)
