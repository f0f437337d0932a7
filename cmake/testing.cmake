# How a test is registered: used by tests/, examples/ and their like.
# SPDX-License-Identifier: MIT

# situ_read_test_lines(file): the words of each line `/* test-<key>: words */` near the top of a source file, in test_<key>;
# docs/testing.md tells what each means.
function(situ_read_test_lines file)
  set(keys devices slow quick listed sanitized limit cost environment options links args)
  foreach(key ${keys})
    set(test_${key} "" PARENT_SCOPE)
  endforeach()
  file(STRINGS ${file} lines LIMIT_INPUT 2000 REGEX "test-[a-z]+: ")
  foreach(line ${lines})
    if(NOT line MATCHES "^/\\* test-([a-z]+): (.*) \\*/$" OR NOT CMAKE_MATCH_1 IN_LIST keys)
      message(FATAL_ERROR "${file}: not a line that docs/testing.md tells of: ${line}")
    endif()
    separate_arguments(words UNIX_COMMAND "${CMAKE_MATCH_2}")
    set(test_${CMAKE_MATCH_1} ${words} PARENT_SCOPE)
  endforeach()
endfunction()

# situ_value_on(device words...): in `value` the last word that is a number for all devices, or <device>=number.
function(situ_value_on device)
  set(value "")
  foreach(word ${ARGN})
    if(word MATCHES "^(${device}=)?([0-9]+)$")
      set(value ${CMAKE_MATCH_2})
    endif()
  endforeach()
  set(value ${value} PARENT_SCOPE)
endfunction()

# situ_is_slow_on(device words...): in `slow` the label slow if a word is the device, or <device>/sanitized, /plain (without a
# sanitizer) or /double in such a build.
function(situ_is_slow_on device)
  set(kinds ${device} ${device}/plain)
  if(SITU_SANITIZE)
    set(kinds ${device} ${device}/sanitized)
  endif()
  if(SITU_TEST_CUDA STREQUAL "double")
    list(APPEND kinds ${device}/double)
  endif()
  set(slow "" PARENT_SCOPE)
  foreach(word ${ARGN})
    if(word IN_LIST kinds)
      set(slow slow PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# situ_add_test(name COMMAND ... [LABELS ...] [ENVIRONMENT ...] [DIRECTORY ...]): what every entry shares. With
# SKIPPED "reason" in place of COMMAND it says why it does not run.
function(situ_add_test name)
  cmake_parse_arguments(arg "" "DIRECTORY;SKIPPED" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  if(arg_SKIPPED)
    set(arg_COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${arg_SKIPPED}")
  endif()
  set(timeout 300)
  if(CMAKE_CROSSCOMPILING) # they run in an emulator
    set(timeout 3000)
  elseif(SITU_SANITIZE)
    set(timeout 900)
  endif()
  file(MAKE_DIRECTORY ${arg_DIRECTORY})
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_DIRECTORY})
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}" SKIP_RETURN_CODE 77 TIMEOUT ${timeout})
  if(arg_SKIPPED)
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED")
  endif()
endfunction()
