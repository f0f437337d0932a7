# Tests that are not programs of cmocka's: scripts, and programs under a tool.
# SPDX-License-Identifier: MIT

# Every kernel under Oclgrind, which finds what lies outside of a buffer and data races, as a device says that it is a
# processor, and a GPU.
find_program(SITU_OCLGRIND oclgrind)
mark_as_advanced(SITU_OCLGRIND)
if(SITU_OCLGRIND AND TARGET situ_test_shim AND TARGET test_backend_opencl_kernels AND NOT SITU_SANITIZE AND NOT SITU_COVERAGE)
  foreach(kind cpu gpu)
    situ_add_test("backend/opencl/oclgrind[${kind}]" LABELS backend slow DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/backend/opencl/oclgrind/${kind}
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/support/opencl/oclgrind.sh ${SITU_OCLGRIND} $<TARGET_FILE:situ_test_shim>
        $<TARGET_FILE:test_backend_opencl_kernels>
      ENVIRONMENT SITU_SIM=2 SITU_TEST_DEVICE=opencl:0 SITU_SHIM=${kind} ${opencl_environment})
  endforeach()
endif()

# Products by the text for GPUs, on a device with groups of 32 threads, of which a square of 16 computes.
if(TARGET situ_test_shim AND TARGET test_ops_linalg_matmul AND NOT SITU_SANITIZE AND NOT SITU_COVERAGE)
  situ_add_test("ops/linalg/matmul[group=32]" LABELS ops DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/ops/group
    COMMAND $<TARGET_FILE:test_ops_linalg_matmul>
    ENVIRONMENT SITU_SIM=2 SITU_TEST_DEVICE=opencl:0 "SITU_SHIM=gpu group=32"
      LD_PRELOAD=$<TARGET_FILE:situ_test_shim> ${opencl_environment})
endif()

# Every op on a GPU under NVIDIA's sanitizer: accesses outside of memory, and races in local memory.
if(SITU_HAVE_CUDA AND SITU_TEST_CUDA STREQUAL "device" AND TARGET test_ops_parity)
  find_program(SITU_COMPUTE_SANITIZER compute-sanitizer HINTS ${CUDAToolkit_BIN_DIR})
  mark_as_advanced(SITU_COMPUTE_SANITIZER)
  foreach(tool memcheck racecheck)
    set(run SKIPPED "compute-sanitizer was not found (it comes with the CUDA toolkit)")
    if(SITU_COMPUTE_SANITIZER)
      set(run COMMAND ${SITU_COMPUTE_SANITIZER} --tool ${tool} --error-exitcode 9 $<TARGET_FILE:test_ops_parity>)
    endif()
    situ_add_test("backend/cuda/${tool}[cuda:0]" LABELS backend slow ${run} ENVIRONMENT SITU_SIM=2
      ${cuda_environment} SITU_TEST_ROOT=${CMAKE_CURRENT_SOURCE_DIR} SITU_TEST_DEVICE=cuda:0
      DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/backend/cuda/${tool})
    set_tests_properties("backend/cuda/${tool}[cuda:0]" PROPERTIES TIMEOUT 7200)
  endforeach()
endif()

# Training over each MPI that is there; two hundred drills with --all. They link the shared library.
if(BUILD_SHARED_LIBS AND NOT SITU_SANITIZE AND NOT SITU_COVERAGE AND NOT SITU_TEST_DIRECTORIES)
  foreach(flavour openmpi mpich)
    set(script ${CMAKE_CURRENT_SOURCE_DIR}/distributed/mpi.sh ${flavour} $<TARGET_FILE:situ> ${PROJECT_SOURCE_DIR})
    situ_add_test("distributed/mpi[${flavour}]" LABELS distributed COMMAND ${script})
    situ_add_test("distributed/drills[${flavour}]" LABELS distributed slow COMMAND ${script} 100)
    set_tests_properties("distributed/mpi[${flavour}]" "distributed/drills[${flavour}]" PROPERTIES TIMEOUT 1800 PROCESSORS 2)
  endforeach()
  situ_add_test(distributed/demo LABELS distributed
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/distributed/demo.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:situ>)
  set_tests_properties(distributed/demo PROPERTIES TIMEOUT 600 PROCESSORS 2)
endif()

# Checks of the tree itself. They look at sources or at the finished library, so one ordinary build is enough for them.
if(NOT SITU_SANITIZE AND NOT SITU_COVERAGE)
  situ_add_test(tools/check_floors LABELS tools COMMAND ${PROJECT_SOURCE_DIR}/tools/check_floors ${PROJECT_SOURCE_DIR}
    ${PROJECT_BINARY_DIR}/CMakeFiles)
  situ_add_test(tools/check_sizes COMMAND ${PROJECT_SOURCE_DIR}/tools/check_sizes LABELS tools)
  situ_add_test(tools/format COMMAND ${PROJECT_SOURCE_DIR}/tools/format --check LABELS tools)
  set_tests_properties(tools/format PROPERTIES SKIP_RETURN_CODE 77)
  situ_add_test(tools/check_tools LABELS tools
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/check_tools.sh ${PROJECT_SOURCE_DIR}/tools)

  situ_add_test(tools/doxygen COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/doxygen.sh ${PROJECT_SOURCE_DIR} LABELS tools)
  if(NOT SITU_TEST_DIRECTORIES)
    situ_add_test(tools/exchange LABELS tools
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/exchange.sh ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR})
  endif()

  situ_add_test(tools/worked_examples_read LABELS tools
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/worked_examples.sh ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER}
      ${PROJECT_BINARY_DIR}/generated)
  situ_add_test(tools/worked_examples LABELS tools slow
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/worked_examples.sh ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR})
  set_tests_properties(tools/worked_examples PROPERTIES TIMEOUT 7200 RUN_SERIAL ON)

  # Every node test of package onnx: thousands of files.
  if(SITU_CMOCKA_LIBRARY)
    if(TARGET test_program_onnx_nodes)
      set(onnx_nodes $<TARGET_FILE:test_program_onnx_nodes>)
    else() # of SITU_TESTS_TOGETHER
      set(onnx_nodes ${CMAKE_CURRENT_BINARY_DIR}/test_program_onnx_nodes)
    endif()
    situ_add_test(program/onnx/all_nodes LABELS program slow
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/onnx_nodes.sh ${PROJECT_SOURCE_DIR} ${onnx_nodes})
    set_tests_properties(program/onnx/all_nodes PROPERTIES TIMEOUT 1200)
  endif()

  # Those that are Python. mutate changes hundreds of conditions and statements, each of which a test must notice; it builds a
  # tree of its own.
  set(mutate_labels slow)
  set(check_docs_arguments --cc ${CMAKE_C_COMPILER} --library $<TARGET_FILE:situ>)
  find_program(SITU_PYTHON python3)
  mark_as_advanced(SITU_PYTHON)
  foreach(tool check_abi check_words check_docs check_names placement_table mutate)
    set(run SKIPPED "tools/${tool} needs python3")
    if(SITU_PYTHON)
      set(run COMMAND ${SITU_PYTHON} ${PROJECT_SOURCE_DIR}/tools/${tool} ${${tool}_arguments})
    endif()
    situ_add_test(tools/${tool} LABELS tools ${${tool}_labels} ${run})
  endforeach()
  set_tests_properties(tools/mutate PROPERTIES TIMEOUT 10800 RUN_SERIAL ON)
  # The lines that the breaks of the placement table change are still there.
  if(SITU_PYTHON)
    situ_add_test(tools/placement_breaks LABELS tools
      COMMAND ${SITU_PYTHON} ${PROJECT_SOURCE_DIR}/tools/mutate --placement --list)
  endif()

  find_program(SITU_CXX NAMES c++ g++ clang++)
  mark_as_advanced(SITU_CXX)
  foreach(std c11 c17 c2x c++17)
    if(std STREQUAL "c++17")
      set(compiler ${SITU_CXX})
    else()
      set(compiler ${CMAKE_C_COMPILER})
    endif()
    if(compiler)
      situ_add_test(headers/${std} LABELS headers
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers/check.sh ${std} ${PROJECT_SOURCE_DIR}/include ${compiler})
    endif()
  endforeach()

  # The messages in it name lines of source.
  find_library(SITU_LIBDW_LIBRARY libdw.so.1)
  mark_as_advanced(SITU_LIBDW_LIBRARY)
  if(SITU_LIBDW_LIBRARY AND TARGET test_seeds_document_000)
    situ_add_test(seeds/myths LABELS seeds
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/seeds/myths.sh ${PROJECT_SOURCE_DIR}/docs/pytorch-myths.md
        ${CMAKE_CURRENT_SOURCE_DIR}/seeds ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  foreach(compiler gcc clang)
    situ_add_test(seeds/warnings[${compiler}] LABELS seeds
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/seeds/warnings/check.sh ${PROJECT_SOURCE_DIR}/include ${compiler})
  endforeach()

  if(BUILD_SHARED_LIBS AND SITU_CLI AND NOT SITU_TEST_DIRECTORIES) # with the examples
    foreach(kind shared static)
      add_executable(situ_planted_${kind} cli/doctor/planted.c)
    endforeach()
    target_link_libraries(situ_planted_shared PRIVATE situ_flags situ::situ)
    target_link_libraries(situ_planted_static PRIVATE situ_flags situ_static)
    situ_add_test(cli/doctor LABELS cli ENVIRONMENT SITU_SIM=2 ${library_environment}
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/doctor.sh $<TARGET_FILE:situ_cli> $<TARGET_FILE:situ_planted_shared>
        $<TARGET_FILE:situ_planted_static> $<TARGET_FILE_DIR:example_03_mlp>)
  endif()
  if(BUILD_SHARED_LIBS)
    situ_add_test(packaging/symbols LABELS packaging
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/symbols.sh $<TARGET_FILE:situ> ${PROJECT_SOURCE_DIR}/include)
    situ_add_test(tensor/python LABELS tensor
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tensor/python.sh $<TARGET_FILE:situ> ${PROJECT_SOURCE_DIR})
    situ_add_test(host/blas LABELS host
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/host/blas.sh $<TARGET_FILE:situ> ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
    if(SITU_LIBDW_LIBRARY)
      situ_add_test(host/lines LABELS host
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/host/lines.sh $<TARGET_FILE:situ> ${PROJECT_SOURCE_DIR})
    endif()
    situ_add_test(packaging/static LABELS packaging slow
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/static.sh ${CMAKE_COMMAND} ${CMAKE_GENERATOR} ${PROJECT_SOURCE_DIR}
        ${CMAKE_C_COMPILER} "${CMAKE_C_COMPILER_LAUNCHER}")
    set_tests_properties(packaging/static PROPERTIES TIMEOUT 3600)
  endif()
  situ_add_test(packaging/install LABELS packaging
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/install.sh ${CMAKE_COMMAND} ${CMAKE_GENERATOR}
      ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR})
  if(SITU_LIBDW_LIBRARY AND NOT SITU_TEST_DIRECTORIES) # with the demo
    situ_add_test(packaging/readme LABELS packaging
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/readme.sh ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR}
        ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
    set_tests_properties(packaging/readme PROPERTIES TIMEOUT 3600 COST 400)
  endif()
  set_tests_properties(packaging/install tools/format tools/check_tools PROPERTIES COST 400)
endif()
