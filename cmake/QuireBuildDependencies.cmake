# What only the build of Quire itself needs: header-only parts, tests, benchmarks, tools. None of it
# is asked of a program that uses the installed package.

# xxHash is compiled in (XXH_INLINE_ALL), so nothing of it is linked.
quire_find_c_library(xxhash xxhash.h "" REQUIRED libxxhash-dev)

quire_find_c_library(zlib zlib.h z)
quire_find_c_library(leveldb leveldb/db.h leveldb)
quire_find_c_library(rocksdb rocksdb/db.h rocksdb)
quire_find_c_library(cli11 CLI/CLI.hpp "")
quire_find_c_library(crypto openssl/hmac.h crypto)
quire_find_c_library(nlohmann_json nlohmann/json.hpp "")
quire_find_c_library(benchmark benchmark/benchmark.h benchmark)

if(QUIRE_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND OR NOT TARGET GTest::gmock)
    message(FATAL_ERROR "The tests of Quire need GoogleTest: install libgtest-dev and libgmock-dev, "
                        "or configure with -DQUIRE_BUILD_TESTS=OFF.")
  endif()
endif()

if(QUIRE_MPI AND QUIRE_SANITIZE STREQUAL "address")
  # A target of its own: a source in C of a program with precompiled headers would ask for its own.
  add_library(quire_keep_loaded OBJECT tests/support/keep_loaded.c)
  target_sources(
    Quire::mpi
    INTERFACE
      "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:quire_keep_loaded>>")
  target_link_options(Quire::mpi INTERFACE -Wl,--export-dynamic-symbol=dlclose)
endif()
