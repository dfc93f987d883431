/// Streams in memory, for tests of the daemon without logs.
///
/// Layer      tools (tests)
/// Threads    any
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quire/stream.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"

namespace quire::streamd {

/// A part of a store: every version of everything.
struct FakePart {
  struct Stored {
    StreamVersion version;
    std::string bytes;
    std::optional<uint64_t> hash;  ///< nullopt: unknown
  };
  std::mutex mutex;
  std::condition_variable committed;
  std::map<std::string, std::vector<Stored>> objects;  ///< newest last
  uint64_t snapshot = 0;
  bool finished = false;
  int reserved = 0;  ///< by a mirror
  int listed = 0;    // objects or versions, by a reader
  uint64_t room = UINT64_MAX;

  /// Commits one version more.
  void Put(const std::string& key, const std::string& bytes, uint64_t time_ns = 1);
};

std::unique_ptr<StreamReader> NewFakeReader(std::shared_ptr<FakePart> part);
std::unique_ptr<stream::Mirror> NewFakeMirror(std::shared_ptr<FakePart> part);

}  // namespace quire::streamd
