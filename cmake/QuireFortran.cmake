# Fortran, where there is a compiler: QUIRE_HAVE_FORTRAN. The modules are in bindings/fortran/.
include_guard(GLOBAL)

set(QUIRE_HAVE_FORTRAN OFF)
if(PROJECT_IS_TOP_LEVEL)
  # A compiler may have been installed since CMake stored that there was none.
  if("$CACHE{CMAKE_Fortran_COMPILER}" STREQUAL "NOTFOUND")
    unset(CMAKE_Fortran_COMPILER CACHE)
  endif()
  include(CheckLanguage)
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
    set(QUIRE_HAVE_FORTRAN ON)
  else()
    message(STATUS "No Fortran compiler: the modules PAPYRUS and QUIRE are not built (gfortran)")
  endif()
endif()
