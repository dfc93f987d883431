# Installs the library, its headers, the CMake package and the pkg-config file.

if(NOT TARGET quire)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(quire_installed quire)
foreach(target IN ITEMS nvs_shared nvs_static papyruskv_shared papyruskv_static quire_fortran)
  if(TARGET ${target})
    list(APPEND quire_installed ${target})
  endif()
endforeach()
install(
  TARGETS ${quire_installed}
  EXPORT QuireTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Without MPI there is nothing behind the headers that take a communicator.
set(quire_absent_headers "")
if(NOT QUIRE_MPI)
  set(quire_absent_headers PATTERN "*mpi.h" EXCLUDE)
endif()
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/quire"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.hpp"
  ${quire_absent_headers})

if(TARGET nvs_shared)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/nvs" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h")
endif()
if(TARGET papyruskv_shared)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/papyrus"
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endif()
# Fortran's modules are of one compiler; their sources are for the others, and for Quire that was
# built without one.
if(TARGET quire_fortran)
  install(DIRECTORY "${PROJECT_BINARY_DIR}/fortran/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.mod")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/fortran/"
        DESTINATION ${CMAKE_INSTALL_DATADIR}/quire/fortran
        FILES_MATCHING PATTERN "*.f90" PATTERN "*.inc")

set(quire_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Quire)
install(EXPORT QuireTargets NAMESPACE Quire:: DESTINATION ${quire_package_dir})
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/QuireConfig.cmake.in" "${PROJECT_BINARY_DIR}/QuireConfig.cmake"
  INSTALL_DESTINATION ${quire_package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/QuireConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/QuireConfig.cmake"
              "${PROJECT_BINARY_DIR}/QuireConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/QuireDependencies.cmake"
        DESTINATION ${quire_package_dir})

# pkg-config knows no imported targets: name the libraries, and the include folder and flags of MPI.
set(quire_pc_libs_private "-lstdc++ -lm -pthread")
get_property(quire_pc_modules GLOBAL PROPERTY QUIRE_LIBS)
list(REMOVE_DUPLICATES quire_pc_modules)
foreach(library IN LISTS quire_pc_modules)
  string(REPLACE "Quire::" "" library ${library})
  string(TOUPPER ${library} upper)
  if(QUIRE_${upper}_LIBRARY)
    string(APPEND quire_pc_libs_private " ${QUIRE_${upper}_LIBRARY}")
  endif()
endforeach()
set(quire_pc_libs "-L\${libdir} -lquire")
set(quire_pc_cflags "-I\${includedir}")
if(QUIRE_MPI)
  list(TRANSFORM QUIRE_MPI_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE quire_pc_mpi_include)
  string(JOIN " " quire_pc_mpi_include ${quire_pc_mpi_include})
  string(JOIN " " quire_pc_mpi_libs ${QUIRE_MPI_LIBRARIES})
  string(APPEND quire_pc_cflags " ${quire_pc_mpi_include} -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX")
  string(APPEND quire_pc_libs " ${quire_pc_mpi_libs}")
endif()
if(NOT BUILD_SHARED_LIBS)
  string(APPEND quire_pc_libs " ${quire_pc_libs_private}")
endif()
# The prefix is found from where the file lies, so that "cmake --install --prefix" may choose it.
file(RELATIVE_PATH quire_pc_prefix "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
set(quire_pc_modules quire)
if(TARGET nvs_shared)
  list(APPEND quire_pc_modules nvs)
endif()
if(TARGET papyruskv_shared)
  list(APPEND quire_pc_modules papyruskv)
  set(papyruskv_pc_libs "-L\${libdir} -lpapyruskv ${quire_pc_mpi_libs}")
endif()
if(TARGET quire_fortran)
  list(APPEND quire_pc_modules quire_fortran)
endif()
foreach(module IN LISTS quire_pc_modules)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in" "${PROJECT_BINARY_DIR}/${module}.pc"
                 @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${module}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
