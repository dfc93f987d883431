# One folder under src/ is one module, described by one call. DEPS is the truth both for linking and
# for what the folder may include (scripts/check_layers.py reads it).
#
#   quire_module(table SOURCES block.cpp ... TESTS block_test.cpp ... FUZZERS table_fuzz.cpp ...
#                DEPS base io filter LIBS lz4 zstd)
#
# A large folder has rooms, lowest first (ROOMS log index store): its files lie in these, and none
# includes a higher room.
#
# With SEPARATE its sources are compiled one by one also in a full build, since a program takes from
# the library what is compiled at once: who opens a stream needs neither datasets nor MPI.
#
# makes the library quire_table, the test program quire_table_test (each of its tests a ctest with
# the label "table"), and for each fuzzer quire_table_fuzz: libFuzzer with QUIRE_BUILD_FUZZERS,
# else a program that runs the seed corpus (tests/corpus/table_fuzz/) once, as a ctest.

include(GoogleTest)

function(quire_module name)
  cmake_parse_arguments(arg "SEPARATE" "" "ROOMS;SOURCES;TESTS;FUZZERS;DEPS;LIBS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "quire_module(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT QUIRE_MPI)
    list(REMOVE_ITEM arg_LIBS mpi)
  endif()
  list(TRANSFORM arg_DEPS PREPEND quire_)
  list(TRANSFORM arg_LIBS PREPEND Quire::)
  set(library quire_${name})
  if(arg_SOURCES)
    set(sources ${arg_SOURCES})
    if(NOT arg_SEPARATE)
      quire_batches(sources ${library} "${sources}")
    endif()
    add_library(${library} STATIC ${sources})
    quire_target_defaults(${library})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY QUIRE_MODULES ${library})
  else()
    add_library(${library} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${library} ${scope} "${PROJECT_SOURCE_DIR}/include"
                                                 "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${library} ${scope} ${arg_DEPS} ${arg_LIBS} Quire::threads)
  set_property(GLOBAL APPEND PROPERTY QUIRE_LIBS ${arg_LIBS})

  if(QUIRE_BUILD_TESTS AND arg_TESTS)
    quire_batches(tests ${library}_test "${arg_TESTS}")
    quire_test(${library}_test SOURCES ${tests} LIBS ${library} LABELS ${name})
  endif()
  foreach(source IN LISTS arg_FUZZERS)
    quire_fuzzer(${name} ${source})
  endforeach()
endfunction()

# Time limits of tests are those of an idle machine of two cores. A busy one gets three times as
# much, sanitizers and long runs more.
set(QUIRE_TEST_TIMEOUT_FACTOR "" CACHE STRING "Multiplies the time limits of the tests")
mark_as_advanced(QUIRE_TEST_TIMEOUT_FACTOR)
function(quire_test_timeout variable seconds)
  set(factor 3)
  if(QUIRE_TEST_TIMEOUT_FACTOR)
    set(factor ${QUIRE_TEST_TIMEOUT_FACTOR})
  elseif(QUIRE_SANITIZE)
    set(factor 6)
  endif()
  math(EXPR timeout "${seconds} * ${factor}")
  set(${variable} ${timeout} PARENT_SCOPE)
endfunction()

# Every ctest that is not a GoogleTest is added here, so that each has a time limit that follows the
# factor above (scripts/check_style.py looks for add_test elsewhere):
#
#   quire_add_test(NAME kill.kills TIMEOUT 300 [PROCESSORS 2] [LABELS ...] [ENVIRONMENT ...]
#                  COMMAND program arguments...)
#
# It is skipped where the program exits with 77.
function(quire_add_test)
  cmake_parse_arguments(arg "" "NAME;TIMEOUT;PROCESSORS" "LABELS;ENVIRONMENT;COMMAND" ${ARGN})
  if(NOT arg_NAME OR NOT arg_TIMEOUT OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "quire_add_test(${ARGN}): it takes NAME, TIMEOUT and COMMAND")
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  quire_test_timeout(timeout ${arg_TIMEOUT})
  list(APPEND arg_ENVIRONMENT ${QUIRE_TEST_ENVIRONMENT})
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
  set_tests_properties(
    ${arg_NAME}
    PROPERTIES LABELS "${arg_LABELS}"
               PROCESSORS ${arg_PROCESSORS}
               TIMEOUT ${timeout}
               SKIP_RETURN_CODE 77
               ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# The environment of every test: what the sanitizers need.
set(QUIRE_TEST_ENVIRONMENT "")
if(QUIRE_SANITIZE STREQUAL "address")
  list(APPEND QUIRE_TEST_ENVIRONMENT
       "LSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/tests/support/lsan.supp':print_suppressions=0"
       "UBSAN_OPTIONS=print_stacktrace=1")
elseif(QUIRE_SANITIZE STREQUAL "thread")
  list(APPEND QUIRE_TEST_ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
endif()

# With QUIRE_FULL_BUILD: sources that include `sources` in batches, of which each lies in one room. So
# the compiler reads headers and instantiates templates once for many sources. Names of one module
# clash nowhere: in its product files they are different, and each x_test.cpp has a namespace x_test.
# The paths in them and to them are the same in every build: the compiler's cache finds what another
# build compiled. A source that was given definitions or options of its own (before this call) stays
# alone.
set(QUIRE_BATCH_SIZE 8)
function(quire_batches variable target sources)
  if(NOT QUIRE_FULL_BUILD)
    set(${variable} ${sources} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/src" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(units "")
  set(batches "")
  foreach(source IN LISTS sources)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(definitions OR options)
      list(APPEND units ${source})
      continue()
    endif()
    cmake_path(GET source PARENT_PATH room)
    if(NOT DEFINED count_${room})
      set(count_${room} 0)
    endif()
    math(EXPR number "${count_${room}} / ${QUIRE_BATCH_SIZE}")
    math(EXPR count_${room} "${count_${room}} + 1")
    list(APPEND batches "${target}_${room}${number}")
    string(APPEND text_${target}_${room}${number} "#include \"${folder}/${source}\"\n")
  endforeach()
  list(REMOVE_DUPLICATES batches)
  foreach(batch IN LISTS batches)
    set(unit "${CMAKE_BINARY_DIR}/batches/${batch}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "${text_${batch}}" @ONLY)
    list(APPEND units "${unit}")
  endforeach()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()

# Where tests of one process are not wanted, `target` is built only if somebody names it.
function(quire_leave_out target)
  if(NOT QUIRE_BUILD_UNIT_TESTS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# A GoogleTest program on one process, each test of it a ctest:
# quire_test(name SOURCES ... LIBS quire_kv ... [LABELS ...] [TIMEOUT seconds])
function(quire_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  quire_test_timeout(timeout ${arg_TIMEOUT})
  add_executable(${name} ${arg_SOURCES})
  quire_leave_out(${name})
  quire_test_defaults(${name})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(
    ${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}"
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${timeout}
    ENVIRONMENT "${QUIRE_TEST_ENVIRONMENT}")
endfunction()

# The first test program compiles the headers, the others use what it has compiled: their flags are
# the same but for the folders of headers. Programs without GoogleTest have other flags and do
# without; that is no warning.
set(CMAKE_PCH_WARN_INVALID OFF)
function(quire_precompile target)
  get_property(first GLOBAL PROPERTY QUIRE_FIRST_PRECOMPILED)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY QUIRE_FIRST_PRECOMPILED ${target})
    target_precompile_headers(
      ${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/tests/support/precompiled.h>")
  endif()
  # The compiler's cache sees in it that the headers are precompiled.
  target_compile_options(${target}
                         PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endfunction()

# Test code is compiled once and run for seconds: optimising it costs more than it gives.
# It may include from the top: "tests/support/test_scale.h".
function(quire_test_defaults target)
  quire_target_defaults(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>
                                           $<$<CONFIG:RelWithDebInfo>:-Og>)
  # What GCC 12 says wrongly of std::string's own copies (its bug 105651) is said of tests only.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(QUIRE_FULL_BUILD)
    quire_precompile(${target})
  endif()
endfunction()

function(quire_fuzzer module source)
  get_filename_component(name ${source} NAME_WE)
  set(target quire_${name})
  set(corpus "${PROJECT_SOURCE_DIR}/tests/corpus/${name}")
  if(QUIRE_BUILD_FUZZERS)
    add_executable(${target} ${source})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    if(NOT TARGET quire_fuzzers)
      add_custom_target(quire_fuzzers)
    endif()
    add_dependencies(quire_fuzzers ${target})
    set(seconds 86400)
    set(command sh "${PROJECT_SOURCE_DIR}/scripts/fuzz-one" $<TARGET_FILE:${target}> ${corpus})
  elseif(QUIRE_BUILD_TESTS)
    add_executable(${target} ${source} "${PROJECT_SOURCE_DIR}/tests/support/fuzz_main.cpp")
    quire_leave_out(${target})
    set(command ${target} ${corpus})
    set(seconds 120)
  else()
    return()
  endif()
  quire_target_defaults(${target})
  target_link_libraries(${target} PRIVATE quire_${module})
  quire_add_test(NAME fuzz.${name} TIMEOUT ${seconds} LABELS fuzz ${module} COMMAND ${command})
endfunction()

# The objects of all modules, and the libraries that they need.
function(quire_module_objects objects_variable libs_variable)
  get_property(modules GLOBAL PROPERTY QUIRE_MODULES)
  get_property(libs GLOBAL PROPERTY QUIRE_LIBS)
  list(REMOVE_DUPLICATES libs)
  # Header-only libraries are compiled in; MPI stands in public headers, the rest does not.
  list(REMOVE_ITEM libs Quire::mpi Quire::xxhash)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  set(${objects_variable} "${objects}" PARENT_SCOPE)
  set(${libs_variable} "${libs}" PARENT_SCOPE)
endfunction()

# The one library of Quire, from the objects of all modules.
function(quire_library)
  quire_module_objects(objects libs)
  if(NOT objects)
    return()
  endif()
  add_library(quire ${objects})
  add_library(Quire::quire ALIAS quire)
  quire_target_defaults(quire)
  set_target_properties(quire PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                         SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(quire INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                             "$<INSTALL_INTERFACE:include>")
  target_link_libraries(quire PRIVATE ${libs} Quire::threads)
  if(QUIRE_MPI)
    target_link_libraries(quire PUBLIC Quire::mpi)
  endif()
  target_link_options(quire PRIVATE "$<$<BOOL:${BUILD_SHARED_LIBS}>:-Wl,--exclude-libs,ALL>"
                      "$<$<AND:$<BOOL:${BUILD_SHARED_LIBS}>,$<NOT:$<BOOL:${QUIRE_SANITIZE}>>>:-Wl,--no-undefined>")
endfunction()
