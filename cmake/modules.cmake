# Backends in files of their own, which the library opens at run time: the core is built and runs without their SDKs. They
# lie in situ/<major version>/ beside the library, in the build tree as after installation.
# SPDX-License-Identifier: MIT

set(situ_module_dir situ/${PROJECT_VERSION_MAJOR})

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
  install(TARGETS situ_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${situ_module_dir})
endfunction()

# What the backends share whose kernels are texts.
file(GLOB situ_lower_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/lower/*.c)

if(SITU_HAVE_OPENCL)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/opencl/*.c)
  situ_module(opencl ${sources} ${situ_lower_sources})
  target_include_directories(situ_opencl SYSTEM PRIVATE ${OpenCL_INCLUDE_DIR})
  target_link_libraries(situ_opencl PRIVATE ${OpenCL_LIBRARY} m)

  # The kernel texts, joined, lie inside the module.
  set(texts ${PROJECT_BINARY_DIR}/generated/opencl)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/*.h ${PROJECT_SOURCE_DIR}/src/kernels/*/*.h)
  file(GLOB kernels CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/kernels/flat/*.h ${PROJECT_SOURCE_DIR}/src/kernels/group/*.h)
  set(flat "")
  foreach(kernel ${kernels})
    cmake_path(GET kernel STEM name)
    add_custom_command(OUTPUT ${texts}/${name}.cl DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/flatten.cmake
      COMMAND ${CMAKE_COMMAND} -DFROM=${kernel} -DTO=${texts}/${name}.cl -DROOT=${PROJECT_SOURCE_DIR}/src
        -P ${PROJECT_SOURCE_DIR}/cmake/flatten.cmake VERBATIM)
    list(APPEND flat ${texts}/${name}.cl)
  endforeach()
  target_compile_definitions(situ_opencl PRIVATE SITU_CL_TEXTS="${texts}")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/opencl/text.c PROPERTIES OBJECT_DEPENDS "${flat}")
endif()

# The CUDA module is made with the toolkit's headers and links nothing of it (src/backend/cuda/table.h).
if(SITU_HAVE_CUDA)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.c)
  situ_module(cuda ${sources} ${situ_lower_sources})
  target_include_directories(situ_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(situ_cuda PRIVATE ${CMAKE_DL_LIBS} m)
endif()
