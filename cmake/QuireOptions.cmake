# The options of a build, and what follows from them for every target: quire_target_defaults().

if(PROJECT_IS_TOP_LEVEL)
  set(quire_top ON)
else()
  set(quire_top OFF)
endif()

option(QUIRE_BUILD_TESTS "Build the tests" ${quire_top})
option(QUIRE_BUILD_UNIT_TESTS "Build also the tests that need but one process" ON)
option(QUIRE_BUILD_BENCH "Build quire-bench" ${quire_top})
option(QUIRE_BUILD_EXAMPLES "Build the examples" ${quire_top})
option(QUIRE_BUILD_TOOLS "Build the quire command" ${quire_top})
option(QUIRE_BUILD_FUZZERS "Build libFuzzer targets (clang only)" OFF)
option(QUIRE_MPI "Build the MPI transport" ON)
set(QUIRE_MPI_FLAVOR "" CACHE STRING "Which installed MPI: empty (the default one), openmpi or mpich")
option(QUIRE_FULL_BUILD "Compile sources in batches, precompile the tests' headers" OFF)
option(QUIRE_WERROR "Treat warnings as errors" OFF)
set(QUIRE_SANITIZE "" CACHE STRING "Sanitizers: empty, address (with undefined) or thread")
set_property(CACHE QUIRE_SANITIZE PROPERTY STRINGS "" address thread)
option(BUILD_SHARED_LIBS "Build libquire as a shared library" OFF)

if(NOT QUIRE_SANITIZE MATCHES "^(address|thread|)$")
  message(FATAL_ERROR "QUIRE_SANITIZE is '${QUIRE_SANITIZE}'; it must be empty, address or thread.")
endif()
if(QUIRE_BUILD_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "QUIRE_BUILD_FUZZERS needs clang: configure with -DCMAKE_CXX_COMPILER=clang++ "
                      "-DCMAKE_C_COMPILER=clang.")
endif()

if(quire_top)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(QUIRE_CCACHE ccache)
  mark_as_advanced(QUIRE_CCACHE)
  if(QUIRE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${QUIRE_CCACHE}")
    set(CMAKE_C_COMPILER_LAUNCHER "${QUIRE_CCACHE}")
  endif()
endif()

set(QUIRE_SANITIZE_FLAGS "")
if(QUIRE_SANITIZE STREQUAL "address" OR QUIRE_BUILD_FUZZERS)
  set(QUIRE_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(QUIRE_SANITIZE STREQUAL "thread")
  set(QUIRE_SANITIZE_FLAGS -fsanitize=thread)
endif()
if(QUIRE_BUILD_FUZZERS)
  set(QUIRE_FUZZ_COMPILE_FLAGS -fsanitize=fuzzer-no-link)
endif()

# Warnings that GCC gives without reason: on std::string's own copies (GCC 12, its bug 105651), and,
# there and where sanitizers add branches, on the value of an empty std::optional.
set(QUIRE_WARNINGS_OFF "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND QUIRE_WARNINGS_OFF -Wno-restrict)
  endif()
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 OR QUIRE_SANITIZE)
    list(APPEND QUIRE_WARNINGS_OFF -Wno-maybe-uninitialized)
  endif()
endif()

# Language level, warnings, visibility and sanitizers of one target. No -march: code for newer
# processors is chosen at run time.
function(quire_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(
    ${target}
    PROPERTIES CXX_EXTENSIONS OFF
               CXX_VISIBILITY_PRESET hidden
               C_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               POSITION_INDEPENDENT_CODE ON)
  target_compile_options(
    ${target}
    PRIVATE -Wall -Wextra -Wconversion -Wshadow ${QUIRE_WARNINGS_OFF} -fno-omit-frame-pointer
            $<$<BOOL:${QUIRE_WERROR}>:-Werror> ${QUIRE_SANITIZE_FLAGS} ${QUIRE_FUZZ_COMPILE_FLAGS})
  target_link_options(${target} PRIVATE ${QUIRE_SANITIZE_FLAGS})
endfunction()
