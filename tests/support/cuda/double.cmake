# CUDA's runtime without a GPU (double.h), under the name of the real one, and an empty library of that name.
# SPDX-License-Identifier: MIT

# Its kernels are the module's, compiled for the host: lanes are fibers (support/cuda/emulate.h).
enable_language(CXX)
situ_spell_kernels(${CMAKE_CURRENT_BINARY_DIR}/cuda/kernels 1)
list(APPEND spelled ${CMAKE_CURRENT_SOURCE_DIR}/support/cuda/example.cu)
add_library(situ_cuda_emulated OBJECT ${spelled})
set_source_files_properties(${spelled} PROPERTIES LANGUAGE CXX OBJECT_DEPENDS
  "${kernel_headers};${CMAKE_CURRENT_SOURCE_DIR}/support/cuda/emulate_cuda.h")
set_target_properties(situ_cuda_emulated PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17)
target_include_directories(situ_cuda_emulated PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(situ_cuda_emulated PRIVATE -x c++ -w -O1 -ffp-contract=off
  -include ${CMAKE_CURRENT_SOURCE_DIR}/support/cuda/emulate_cuda.h)
# Texts of many kernels that each run little are compiled longer than they would run longer.
set(many ${spelled})
list(FILTER many INCLUDE REGEX "/(elementwise|reduce|nll|optimizer|random)\\.cu$")
set_source_files_properties(${many} PROPERTIES COMPILE_OPTIONS -O0)

file(GLOB double_files CONFIGURE_DEPENDS support/cuda/*.c)
list(FILTER double_files EXCLUDE REGEX "/(lt|nccl[^/]*|dnn[^/]*)\\.c$")
# A fiber is left by a jump to another's stack, which a fortified longjmp takes for a mistake.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/support/cuda/emulate.c PROPERTIES COMPILE_OPTIONS
  "-U_FORTIFY_SOURCE;-fno-stack-clash-protection")
add_library(situ_cuda_double SHARED ${double_files} $<TARGET_OBJECTS:situ_cuda_emulated>)
# The optional libraries, each under the name of the real one.
function(situ_add_double target name version)
  add_library(${target} SHARED ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda/double)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE=)
  target_link_libraries(${target} PRIVATE situ_cuda_double situ_flags ${CMAKE_DL_LIBS} m)
endfunction()
set(cuda_doubles situ_cublaslt_double situ_nccl_double)
situ_add_double(situ_cublaslt_double cublasLt 13 support/cuda/lt.c)
situ_add_double(situ_nccl_double nccl 2 support/cuda/nccl.c support/cuda/nccl_meet.c)
if(SITU_CUDNN_INCLUDE)
  file(GLOB dnn_files CONFIGURE_DEPENDS support/cuda/dnn*.c)
  situ_add_double(situ_cudnn_double cudnn 9 ${dnn_files})
  target_include_directories(situ_cudnn_double SYSTEM PRIVATE ${SITU_CUDNN_INCLUDE})
  find_file(SITU_CUDA_STUB libcuda.so HINTS ${CUDAToolkit_LIBRARY_DIR}/stubs /usr/local/cuda/lib64/stubs)
  mark_as_advanced(SITU_CUDA_STUB)
  if(NOT SITU_CUDA_STUB)
    set(SITU_CUDA_STUB "")
  endif()
  target_compile_definitions(situ_cudnn_double PRIVATE SITU_TEST_LIBCUDA="${SITU_CUDA_STUB}")
  list(APPEND cuda_doubles situ_cudnn_double)
endif()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/empty.c CONTENT "extern int situ_nothing;\nint situ_nothing = 0;\n")
add_library(situ_cuda_empty SHARED ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
foreach(library double empty)
  set_target_properties(situ_cuda_${library} PROPERTIES OUTPUT_NAME cudart SOVERSION 13
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda/${library})
endforeach()
target_compile_definitions(situ_cuda_double PRIVATE _GNU_SOURCE=)
target_include_directories(situ_cuda_double PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(situ_cuda_double SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(situ_cuda_double PRIVATE situ_flags Threads::Threads)

# What tests that are made for the double are linked with, whatever else there is: each also has the paths of the real
# libraries that it is compared with, if there are any.
set(hints HINTS ${CUDAToolkit_LIBRARY_DIR} PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/local/cuda/lib64 /opt/cuda/lib64)
find_file(SITU_NCCL_LIBRARY libnccl.so.2 ${hints})
find_file(SITU_CUDNN_LIBRARY libcudnn.so.9 ${hints})
mark_as_advanced(SITU_NCCL_LIBRARY SITU_CUDNN_LIBRARY)
if(NOT SITU_NCCL_LIBRARY)
  set(SITU_NCCL_LIBRARY "")
endif()
set(kinds cuda)
if(SITU_CUDNN_INCLUDE)
  list(APPEND kinds cudnn)
endif()
foreach(kind ${kinds})
  add_library(situ_test_${kind} INTERFACE)
  add_dependencies(situ_test_${kind} situ_cuda situ_cuda_empty ${cuda_doubles})
  target_link_libraries(situ_test_${kind} INTERFACE situ_cuda_double)
  target_compile_definitions(situ_test_${kind} INTERFACE SITU_TEST_NCCL="${SITU_NCCL_LIBRARY}"
    SITU_TEST_CUDNN="${SITU_CUDNN_LIBRARY}")
  set_target_properties(situ_test_${kind} PROPERTIES SITU_ENVIRONMENT
    "SITU_MODULE_DIR=${PROJECT_BINARY_DIR}/${situ_module_dir};SITU_CUDA_PATH=${CMAKE_CURRENT_BINARY_DIR}/cuda/double")
endforeach()
