# A GoogleTest program that runs on several ranks:
#
#   quire_mpi_test(NAME kv_parallel SOURCES kv_parallel_test.cpp DEPS kv RANKS 1 2 3 4
#                  [TIMEOUT seconds] [LIBS ...] [TRANSPORTS auto mpi])
#
# One ctest for each number of ranks and each transport: <name>.<ranks> uses shared memory between
# the ranks of a node, <name>.<ranks>.mpi sends everything through MPI. main() comes from
# tests/support/mpi_main.cpp. Started by scripts/mpirun, which knows what the MPI at hand needs.
# Not registered where ThreadSanitizer is on: it runs without MPI in the process.

function(quire_mpi_test)
  cmake_parse_arguments(arg "" "NAME;TIMEOUT" "SOURCES;DEPS;LIBS;RANKS;TRANSPORTS;ARGS" ${ARGN})
  if(NOT QUIRE_BUILD_TESTS OR NOT QUIRE_MPI OR QUIRE_SANITIZE STREQUAL "thread")
    return()
  endif()
  set(ranks 1 2 3 4)
  set(transports auto mpi)
  set(timeout 120)
  foreach(option IN ITEMS RANKS TRANSPORTS TIMEOUT)
    if(arg_${option})
      string(TOLOWER ${option} variable)
      set(${variable} ${arg_${option}})
    endif()
  endforeach()
  list(TRANSFORM arg_DEPS PREPEND quire_)
  list(TRANSFORM arg_LIBS PREPEND Quire::)

  add_executable(${arg_NAME} ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp")
  quire_test_defaults(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_DEPS} ${arg_LIBS} Quire::mpi GTest::gmock)
  foreach(count IN LISTS ranks)
    foreach(transport IN LISTS transports)
      set(test ${arg_NAME}.${count})
      if(transport STREQUAL "mpi")
        string(APPEND test .mpi)
      endif()
      quire_add_mpirun(${test} ${count} ${timeout} ${transport} $<TARGET_FILE:${arg_NAME}>
                       ${arg_ARGS})
    endforeach()
  endforeach()
endfunction()

# quire_add_mpirun(test ranks seconds transport command...) registers any program as a parallel ctest.
function(quire_add_mpirun test ranks seconds transport)
  quire_add_parallel_test(${test} ${ranks} ${seconds} ${transport}
                          "${PROJECT_SOURCE_DIR}/scripts/mpirun" -n ${ranks} ${ARGN})
endfunction()

# The same for tests that call scripts/mpirun themselves.
# Its ranks wait more than they compute: two count as one processor.
function(quire_add_parallel_test test ranks seconds transport)
  math(EXPR processors "(${ranks} + 1) / 2")
  quire_add_test(
    NAME ${test}
    TIMEOUT ${seconds}
    PROCESSORS ${processors}
    LABELS parallel
    ENVIRONMENT "QUIRE_MPIEXEC=${MPIEXEC_EXECUTABLE}" "QUIRE_TRANSPORT=${transport}"
    COMMAND ${ARGN})
endfunction()
