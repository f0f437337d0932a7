# Installation: library, headers, pkg-config file, CMake package, man page, licence. Everything is found relative to where it lies, so
# that `cmake --install build --prefix ANYWHERE` works.
# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/situ)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS situ EXPORT situTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT situTargets NAMESPACE situ:: DESTINATION ${cmake_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/situConfig.cmake.in
  ${PROJECT_BINARY_DIR}/generated/situConfig.cmake INSTALL_DESTINATION ${cmake_dir})
# Before 1.0 a minor version may break its callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/situConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/situConfig.cmake ${PROJECT_BINARY_DIR}/generated/situConfigVersion.cmake
  DESTINATION ${cmake_dir})

file(RELATIVE_PATH SITU_PC_TO_PREFIX /${pc_dir} /)
string(REGEX REPLACE "/$" "" SITU_PC_TO_PREFIX "${SITU_PC_TO_PREFIX}")
# The library needs the C library alone, which libsitu.so links itself.
set(SITU_PC_SYSTEM "")
foreach(library ${situ_system})
  if(NOT library MATCHES "^-")
    string(PREPEND library -l)
  endif()
  string(APPEND SITU_PC_SYSTEM " ${library}")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/situ.pc.in ${PROJECT_BINARY_DIR}/generated/situ.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/situ.pc DESTINATION ${pc_dir})

if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/situ.1)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/situ.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
