# What tests find of devices: their environment, and what stands in for drivers and hardware.
# SPDX-License-Identifier: MIT

# PoCL, which is what CI has, gives two devices when it is asked to. Compiled programs are kept for the tests of this build.
# A kernel's group size is fixed in its text: PoCL need not compile it once more for the size of a launch, a quarter of the time.
# A test whose device is not there says so and is skipped.
set(opencl_environment "")
if(SITU_HAVE_OPENCL)
  set(opencl_environment "POCL_DEVICES=pthread pthread" SITU_MODULE_DIR=${PROJECT_BINARY_DIR}/${situ_module_dir}
    XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache POCL_CACHE_DIR=${PROJECT_BINARY_DIR}/cache/pocl
    POCL_WORK_GROUP_SPECIALIZATION=0)
  if(SITU_SANITIZE)
    list(APPEND opencl_environment LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/opencl/lsan.supp:print_suppressions=0)
  endif()
endif()

# SITU_TEST_CUDA=device: the machine's own CUDA, which ./run test --device cuda:0 chooses where there is a GPU. Tests that
# are linked with one of support/cuda/double.cmake's targets say that they are skipped where the build lacks it.
set(SITU_TEST_CUDA double CACHE STRING "What tests on cuda:0 run on: double (no GPU is needed) or device")
set(cuda_environment "")
if(SITU_HAVE_CUDA)
  include(support/cuda/double.cmake)
  set(cuda_environment SITU_MODULE_DIR=${PROJECT_BINARY_DIR}/${situ_module_dir})
  if(SITU_TEST_CUDA STREQUAL "double")
    list(APPEND cuda_environment SITU_CUDA_PATH=${CMAKE_CURRENT_BINARY_DIR}/cuda/double)
  endif()
  set(situ_test_cudnn_missing "this build has no header of cuDNN 9.8 or later")
else()
  set(situ_test_cuda_missing "this build has no CUDA module (${SITU_CUDA_NOTE})")
  set(situ_test_cudnn_missing ${situ_test_cuda_missing})
endif()

# A cuda:0 that fails where a work asks for a kernel that is not listed (cmake/kernels.cmake); no GPU and no toolkit are
# needed.
set(listed_sources ${situ_list_sources} ${situ_lower_sources})
list(FILTER listed_sources EXCLUDE REGEX "/list/main\\.c$")
add_library(situ_listed MODULE support/listed/module.c ${listed_sources})
if(SITU_SANITIZE OR SITU_TEST_DIRECTORIES) # no test of such a build uses it
  set_target_properties(situ_listed PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
set_target_properties(situ_listed PROPERTIES OUTPUT_NAME situ-cuda PREFIX lib C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/listed)
target_compile_definitions(situ_listed PRIVATE _GNU_SOURCE=)
target_include_directories(situ_listed PRIVATE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(situ_listed PRIVATE situ_flags Threads::Threads m)

# Ranks on paper: a cuda:0 without memory and a network without values (support/paper).
add_library(situ_paper SHARED support/paper/module.c support/paper/network.c)
set_target_properties(situ_paper PROPERTIES OUTPUT_NAME situ-cuda LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/paper)
target_compile_definitions(situ_paper PRIVATE _GNU_SOURCE=)
target_include_directories(situ_paper PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(situ_paper PRIVATE situ_flags Threads::Threads m)
add_library(situ_test_paper INTERFACE)
target_link_libraries(situ_test_paper INTERFACE situ_paper)
set_target_properties(situ_test_paper PROPERTIES SITU_ENVIRONMENT SITU_MODULE_DIR=${CMAKE_CURRENT_BINARY_DIR}/paper)

add_subdirectory(support/numbered)
if(NOT (SITU_SANITIZE OR SITU_COVERAGE OR SITU_FUZZ OR SITU_TEST_ROOMS))
  add_subdirectory(support/counted)
endif()

# What stands between the module and libOpenCL in tests of failures, and of devices that CI does not have.
if(SITU_HAVE_OPENCL)
  add_library(situ_test_shim SHARED EXCLUDE_FROM_ALL support/opencl/shim.c)
  target_compile_definitions(situ_test_shim PRIVATE _GNU_SOURCE=)
  target_include_directories(situ_test_shim PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(situ_test_shim SYSTEM PRIVATE ${OpenCL_INCLUDE_DIR})
  target_link_libraries(situ_test_shim PRIVATE situ_flags Threads::Threads ${CMAKE_DL_LIBS})
endif()

# What the examples are run on as well, and what they find in their environment.
set(example_devices sim:0)
if(SITU_HAVE_OPENCL)
  list(APPEND example_devices opencl:0)
endif()
if(SITU_HAVE_CUDA AND SITU_TEST_CUDA STREQUAL "device")
  list(APPEND example_devices cuda:0)
endif()
set(SITU_EXAMPLE_DEVICES ${example_devices} PARENT_SCOPE)
set(SITU_DEVICE_ENVIRONMENT SITU_SIM=2 ${opencl_environment} ${cuda_environment} PARENT_SCOPE)
