# How a test is registered: used by tests/, examples/ and their like.
# SPDX-License-Identifier: MIT

# situ_marker(file key): the words of a line `/* <key>: words */` near the top of a source file, in `marker`.
function(situ_marker file key)
  file(STRINGS ${file} words LIMIT_INPUT 1000 LIMIT_COUNT 1 REGEX "^/\\* ${key}: .* \\*/$")
  string(REGEX REPLACE "^/\\* ${key}: (.*) \\*/$" "\\1" words "${words}")
  separate_arguments(words)
  set(marker ${words} PARENT_SCOPE)
endfunction()

# situ_add_test(name COMMAND ... [LABELS ...] [ENVIRONMENT ...]): what every entry shares.
function(situ_add_test name)
  cmake_parse_arguments(arg "" "DIRECTORY" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
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
endfunction()
