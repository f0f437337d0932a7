# The last words of configure: what this build will have, and why not.
# SPDX-License-Identifier: MIT

function(situ_line label text)
  string(LENGTH "${label}" length)
  math(EXPR fill "12 - ${length}")
  string(REPEAT " " ${fill} pad)
  message(STATUS "  ${label}${pad}${text}")
endfunction()

list(JOIN SITU_ISAS ", " isas)
set(build "${CMAKE_BUILD_TYPE}")
if(SITU_SANITIZE)
  string(APPEND build ", sanitizers ${SITU_SANITIZE}")
endif()

message(STATUS "situ ${PROJECT_VERSION}")
situ_line("build" "${build}, ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_SYSTEM_PROCESSOR}")
situ_line("CPU kernels" "${isas}")
foreach(feature ${SITU_FEATURES})
  string(TOLOWER ${feature} label)
  situ_line(${label} "${SITU_${feature}_NOTE}")
endforeach()
if(SITU_TESTS)
  situ_line("tests" "${SITU_TESTS_NOTE}")
  situ_line("libtorch" "${SITU_TORCH_NOTE}")
endif()
