# Backends in files of their own, which the library opens at run time: the core is built and runs without their SDKs. They
# lie in situ/<major version>/ beside the library, in the build tree as after installation.
# SPDX-License-Identifier: MIT

set(situ_module_dir situ/${PROJECT_VERSION_MAJOR})

# What is installed, to build no more than that.
add_custom_target(installed DEPENDS situ)

# situ_module(name sources...): the target situ_<name>, libsitu-<name>.so.
function(situ_module name)
  add_library(situ_${name} MODULE ${ARGN})
  set_target_properties(situ_${name} PROPERTIES
    OUTPUT_NAME situ-${name} PREFIX lib C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${situ_module_dir})
  target_compile_definitions(situ_${name} PRIVATE _GNU_SOURCE=)
  target_include_directories(situ_${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(situ_${name} PRIVATE situ_flags Threads::Threads)
  if(NOT SITU_SANITIZE)
    target_link_options(situ_${name} PRIVATE -Wl,--no-undefined)
  endif()
  add_dependencies(installed situ_${name})
  install(TARGETS situ_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${situ_module_dir})
endfunction()

# What the backends share whose kernels are texts.
file(GLOB situ_lower_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/lower/*.c)
list(APPEND situ_lower_sources ${PROJECT_SOURCE_DIR}/src/base/dtype.c ${PROJECT_SOURCE_DIR}/src/base/block.c) # a module links nothing of the library
file(GLOB kernel_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/*.h ${PROJECT_SOURCE_DIR}/src/kernels/*/*.h)
set(kernel_texts ${kernel_headers})
list(FILTER kernel_texts INCLUDE REGEX "/kernels/(flat|group)/")
list(FILTER kernel_texts EXCLUDE REGEX "/(lanes|pack|row)\\.h$") # what texts have in common

# Every kernel that lowering can ask a GPU for: it is asked with each combination, on a target that lists them.
file(GLOB situ_list_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/lower/list/*.c)
add_executable(situ_kernels EXCLUDE_FROM_ALL ${situ_list_sources} ${situ_lower_sources})
target_compile_definitions(situ_kernels PRIVATE _GNU_SOURCE=)
target_include_directories(situ_kernels PRIVATE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(situ_kernels PRIVATE situ_flags Threads::Threads m)
set(situ_kernel_list ${PROJECT_BINARY_DIR}/generated/kernels.txt)
add_custom_command(OUTPUT ${situ_kernel_list} DEPENDS situ_kernels COMMAND situ_kernels > ${situ_kernel_list} VERBATIM)
add_custom_target(situ_kernel_list DEPENDS ${situ_kernel_list})
# situ_spell_kernels(directory every): <text>.cu for each text, with each n-th of its kernels, and in `spelled` their paths.
function(situ_spell_kernels directory every)
  set(files "")
  foreach(kernel ${kernel_texts})
    cmake_path(GET kernel STEM text)
    list(APPEND files ${directory}/${text}.cu)
  endforeach()
  add_custom_command(OUTPUT ${files}
    DEPENDS ${kernel_headers} ${PROJECT_SOURCE_DIR}/cmake/kernels.cmake ${situ_kernel_list} situ_kernel_list
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}/src -DLIST=${situ_kernel_list} -DTO=${directory}
      -DEVERY=${every} -P ${PROJECT_SOURCE_DIR}/cmake/kernels.cmake VERBATIM)
  set(spelled ${files} PARENT_SCOPE)
endfunction()

if(SITU_HAVE_OPENCL)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/opencl/*.c)
  situ_module(opencl ${sources} ${situ_lower_sources})
  target_include_directories(situ_opencl SYSTEM PRIVATE ${OpenCL_INCLUDE_DIR})
  target_link_libraries(situ_opencl PRIVATE ${OpenCL_LIBRARY} m)

  # The kernel texts, joined, lie inside the module.
  set(texts ${PROJECT_BINARY_DIR}/generated/opencl)
  set(flat "")
  foreach(kernel ${kernel_texts})
    cmake_path(GET kernel STEM name)
    add_custom_command(OUTPUT ${texts}/${name}.cl DEPENDS ${kernel_headers} ${PROJECT_SOURCE_DIR}/cmake/flatten.cmake
      COMMAND ${CMAKE_COMMAND} -DFROM=${kernel} -DTO=${texts}/${name}.cl -DROOT=${PROJECT_SOURCE_DIR}/src
        -P ${PROJECT_SOURCE_DIR}/cmake/flatten.cmake VERBATIM)
    list(APPEND flat ${texts}/${name}.cl)
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/src/backend/opencl/builtins.cl ${texts}/builtins.cl COPYONLY)
  list(APPEND flat ${texts}/builtins.cl)
  target_compile_definitions(situ_opencl PRIVATE SITU_CL_TEXTS="${texts}")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/opencl/text.c PROPERTIES OBJECT_DEPENDS "${flat}")
endif()

# The CUDA module is made with the toolkit's headers and links nothing of it (src/backend/cuda/table.h).
if(SITU_HAVE_CUDA)
  find_package(CUDAToolkit REQUIRED QUIET) # here again: what it sets for cmake/features.cmake ends with a function there
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.c)
  if(NOT SITU_CUDNN_INCLUDE)
    list(FILTER sources EXCLUDE REGEX "/(dnn|conv|attention)\\.c$")
  endif()
  situ_module(cuda ${sources} ${situ_lower_sources})
  target_include_directories(situ_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  if(SITU_CUDNN_INCLUDE)
    target_include_directories(situ_cuda SYSTEM PRIVATE ${SITU_CUDNN_INCLUDE})
    target_compile_definitions(situ_cuda PRIVATE SITU_CUDNN=1)
  endif()
  target_link_libraries(situ_cuda PRIVATE ${CMAKE_DL_LIBS} m)

  # Its kernels, spelled out and compiled: a fatbin for each text lies inside the module. Code for the architectures named, and
  # for the last one also PTX, from which drivers make code for later ones.
  set(SITU_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "CUDA architectures that the kernels are compiled for")
  set(SITU_CUDA_FLAGS -O3 --compress-mode=size CACHE STRING "How nvcc compiles kernels")
  find_program(SITU_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} REQUIRED)
  mark_as_advanced(SITU_NVCC)
  set(cuda_kernels ${PROJECT_BINARY_DIR}/generated/cuda)
  set(codes "")
  foreach(architecture ${SITU_CUDA_ARCHITECTURES})
    list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET SITU_CUDA_ARCHITECTURES -1 last)
  list(APPEND codes -gencode arch=compute_${last},code=compute_${last})
  set(SITU_CUDA_EVERY 1 CACHE STRING "Compile each n-th CUDA kernel of a text only, which shows that texts compile; 1: all")
  mark_as_advanced(SITU_CUDA_EVERY)
  situ_spell_kernels(${cuda_kernels} ${SITU_CUDA_EVERY})
  set(fatbins "")
  foreach(kernel ${kernel_texts})
    cmake_path(GET kernel STEM name)
    add_custom_command(OUTPUT ${cuda_kernels}/${name}.fatbin DEPENDS ${cuda_kernels}/${name}.cu ${kernel_headers}
      COMMAND ${SITU_NVCC} -std=c++17 -fmad=false -w ${SITU_CUDA_FLAGS} ${codes} -I${PROJECT_SOURCE_DIR}/src
        -fatbin -o ${cuda_kernels}/${name}.fatbin ${cuda_kernels}/${name}.cu
      COMMENT "Compiling the CUDA kernels of ${name}" VERBATIM)
    list(APPEND fatbins ${cuda_kernels}/${name}.fatbin)
  endforeach()
  target_compile_definitions(situ_cuda PRIVATE SITU_CUDA_KERNELS="${cuda_kernels}")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels.c PROPERTIES OBJECT_DEPENDS "${fatbins}")
endif()

# What ./run builds for a device: the module, or nothing where it cannot be built, of which the library says why.
foreach(kind opencl cuda)
  add_custom_target(module-${kind})
  if(TARGET situ_${kind})
    add_dependencies(module-${kind} situ_${kind})
  endif()
endforeach()
