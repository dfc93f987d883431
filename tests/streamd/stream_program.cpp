// Writes and reads streams whose versions describe themselves, for the tests of the daemon.
//
//   stream_program write PLACE STORE RANK BYTES COUNT PAUSE_MS
//       puts COUNT versions, one every PAUSE_MS; "wrote N"
//   stream_program follow PLACE STORE RANK COUNT TIMEOUT_MS
//       waits for each snapshot and checks its version; "read N"
//   stream_program get PLACE STORE RANK VERSION TIMEOUT_MS
//       "version N", or "error CODE"
//   stream_program speed PLACE STORE RANK COUNT TIMEOUT_MS
//       views all versions, once, and measures all but the first; "mb_per_s X"
//   stream_program versions PLACE STORE RANK 0 TIMEOUT_MS
//       "version N" for each, newest first
//   stream_program wait PLACE STORE RANK MS TIMEOUT_MS
//       "waits", then waits MS for the next snapshot; "timed_out CPU_US": the processor time
//
// In version n every 8 bytes are n * 2^32 + their place.
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "io/files/file_system.h"
#include "quire/stream.h"
#include "stream/remote/remote_reader.h"
#include "stream/store/writer.h"

namespace {

using quire::Code;
using quire::Status;

int Fail(const Status& status) {
  std::printf("error %d %s\n", static_cast<int>(status.code()), status.ToString().c_str());
  return 1;
}

uint64_t Word(uint64_t version, uint64_t at) {
  return version << 32 | at;
}

bool IsVersion(const std::string& bytes, uint64_t version) {
  for (uint64_t at = 0; 8 * at + 8 <= bytes.size(); ++at) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + 8 * at, 8);
    if (word != Word(version, at)) return false;
  }
  return !bytes.empty();
}

void Say(const char* what, uint64_t number) {
  std::printf("%s %llu\n", what, static_cast<unsigned long long>(number));
  std::fflush(stdout);
}

struct Arguments {
  std::string place;
  std::string store;
  uint32_t rank = 0;
  std::vector<uint64_t> numbers;
};

int Write(const Arguments& arguments) {
  const uint64_t bytes = arguments.numbers.at(0);
  quire::StreamOptions options;
  options.log_bytes = 8 * bytes + (1 << 20);
  options.keep_versions = 3;
  options.wait_ms = 10'000;
  auto writer = quire::stream::OpenWriter(quire::io::PosixFileSystem(), arguments.place,
                                          arguments.store, arguments.rank, options);
  if (!writer.ok()) return Fail(writer.status());
  auto memory = (*writer)->Create("T", bytes);
  if (!memory.ok()) return Fail(memory.status());
  for (uint64_t i = 0; i < arguments.numbers.at(1); ++i) {
    const uint64_t version = (*writer)->LastSnapshot() + 1;
    for (uint64_t at = 0; at < bytes / 8; ++at) {
      const uint64_t word = Word(version, at);
      std::memcpy(*memory + 8 * at, &word, 8);
    }
    auto put = (*writer)->Put("T");
    if (!put.ok()) return Fail(put.status());
    Say("wrote", *put);
    std::this_thread::sleep_for(std::chrono::milliseconds(arguments.numbers.at(2)));
  }
  const Status finished = (*writer)->Finish();
  return finished.ok() ? 0 : Fail(finished);
}

quire::Result<std::unique_ptr<quire::StreamReader>> Open(const Arguments& arguments) {
  quire::StreamReaderOptions options;
  options.timeout_ms = arguments.numbers.at(1);
  return quire::stream::OpenReader(quire::io::PosixFileSystem(), arguments.place, arguments.store,
                                   arguments.rank, options);
}

int Follow(const Arguments& arguments) {
  auto reader = Open(arguments);
  if (!reader.ok()) return Fail(reader.status());
  uint64_t snapshot = 0;
  for (uint64_t i = 0; i < arguments.numbers.at(0); ++i) {
    auto next = (*reader)->Wait(snapshot, arguments.numbers.at(1));
    if (next.status().code() == Code::kNotFound) break;
    if (!next.ok()) return Fail(next.status());
    snapshot = *next;
    std::string bytes;
    const Status got = (*reader)->Get("T", snapshot, &bytes);
    if (got.code() == Code::kNotFound) continue;  // collected meanwhile
    if (!got.ok()) return Fail(got);
    if (!IsVersion(bytes, snapshot)) return Fail(Status(Code::kCorruption, "other bytes"));
    Say("read", snapshot);
    auto view = (*reader)->View("T", 0);
    if (!view.ok()) return Fail(view.status());
    const quire::Slice seen = (*view)->bytes();
    if (!IsVersion(std::string(seen), (*view)->version().version)) {
      return Fail(Status(Code::kCorruption, "other bytes in a view"));
    }
  }
  return 0;
}

int Get(const Arguments& arguments) {
  auto reader = Open(arguments);
  if (!reader.ok()) return Fail(reader.status());
  auto view = (*reader)->View("T", arguments.numbers.at(0));
  if (!view.ok()) return Fail(view.status());
  const uint64_t version = (*view)->version().version;
  if (!IsVersion(std::string((*view)->bytes()), version)) {
    return Fail(Status(Code::kCorruption, "other bytes"));
  }
  Say("version", version);
  return 0;
}

int Speed(const Arguments& arguments) {
  auto reader = Open(arguments);
  if (!reader.ok()) return Fail(reader.status());
  auto versions = (*reader)->Versions("T");
  if (!versions.ok()) return Fail(versions.status());
  if (versions->size() < 2) return Fail(Status(Code::kNotFound));
  auto begin = std::chrono::steady_clock::now();
  uint64_t bytes = 0;
  for (const quire::StreamVersion& version : *versions) {
    // The first view connects, and makes the mirror.
    if (&version == &versions->at(1)) {
      begin = std::chrono::steady_clock::now();
      bytes = 0;
    }
    auto view = (*reader)->View("T", version.version);
    if (!view.ok()) return Fail(view.status());
    bytes += (*view)->bytes().size();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("mb_per_s %.0f\n", static_cast<double>(bytes) / 1e6 / took.count());
  return 0;
}

int Versions(const Arguments& arguments) {
  auto reader = Open(arguments);
  if (!reader.ok()) return Fail(reader.status());
  auto versions = (*reader)->Versions("T");
  if (!versions.ok()) return Fail(versions.status());
  for (const quire::StreamVersion& version : *versions) Say("version", version.version);
  return 0;
}

uint64_t ProcessorUs() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000 +
         static_cast<uint64_t>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int Wait(const Arguments& arguments) {
  auto reader = Open(arguments);
  if (!reader.ok()) return Fail(reader.status());
  auto newest = (*reader)->LastSnapshot();
  if (!newest.ok()) return Fail(newest.status());
  Say("waits", *newest);
  const uint64_t before = ProcessorUs();
  auto next = (*reader)->Wait(*newest, arguments.numbers.at(0));
  if (next.status().code() != Code::kTimedOut) return Fail(next.status());
  Say("timed_out", ProcessorUs() - before);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  Arguments arguments{argv[2], argv[3], static_cast<uint32_t>(std::stoul(argv[4])), {}};
  for (int i = 5; i < argc; ++i) arguments.numbers.push_back(std::stoull(argv[i]));
  const std::string mode = argv[1];
  if (mode == "write" && argc == 8) return Write(arguments);
  if (mode == "follow") return Follow(arguments);
  if (mode == "get") return Get(arguments);
  if (mode == "speed") return Speed(arguments);
  if (mode == "versions") return Versions(arguments);
  if (mode == "wait") return Wait(arguments);
  return 2;
}
