#include "store_ways.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "io/memory/streaming_stores.h"
#include "keys.h"

namespace quire::bench {
namespace {

constexpr size_t kPageBytes = 4096;

bool IsStream(const std::string& way) {
  return way.rfind("stream", 0) == 0;
}

Status WriteFile(const std::string& path, const char* from, uint64_t bytes, bool sync) {
  const auto failed = [&path](const char* call) {
    return Status(Code::kIo, std::string(call) + " " + path + ": " + std::strerror(errno));
  };
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return failed("open");
  Status status;
  for (uint64_t done = 0; done < bytes && status.ok();) {
    const ssize_t wrote = ::write(file, from + done, bytes - done);
    if (wrote < 0) status = failed("write");
    if (wrote > 0) done += static_cast<uint64_t>(wrote);
  }
  if (status.ok() && sync && ::fdatasync(file) != 0) status = failed("fdatasync");
  if (::close(file) != 0 && status.ok()) status = failed("close");
  return status;
}

}  // namespace

Variables::Variables(uint64_t count, uint64_t bytes)
    : count_(count),
      bytes_(bytes),
      memory_(static_cast<char*>(std::aligned_alloc(
          kPageBytes, (count * bytes + kPageBytes - 1) / kPageBytes * kPageBytes))) {
  for (uint64_t at = 0; at + 8 <= total_bytes(); at += 8) {
    const uint64_t word = Mix64(at);
    std::memcpy(memory_.get() + at, &word, 8);
  }
}

void Variables::Free::operator()(char* memory) const {
  std::free(memory);
}

void Variables::Change(uint64_t iteration) {
  const uint64_t word = Mix64(iteration);
  for (uint64_t i = 0; i < count_; ++i) std::memcpy(at(i), &word, std::min<uint64_t>(8, bytes_));
}

StoreWays::StoreWays(const Variables& variables, StoreFolders folders, uint32_t rank,
                     const StreamOptions& options)
    : variables_(variables), folders_(std::move(folders)), rank_(rank), options_(options) {
  for (uint64_t i = 0; i < variables.count(); ++i) keys_.push_back("v" + std::to_string(i));
  options_.log_bytes = LogBytes();
  options_.objects_max = static_cast<uint32_t>(std::max<uint64_t>(variables.count(), 64));
}

StoreWays::~StoreWays() = default;

// Returns the size of a log with room for the kept version of each variable and two more, with
// their commits; with deltas, also for the versions between two whole ones.
uint64_t StoreWays::LogBytes() const {
  constexpr uint64_t kCommitBytes = 512;
  constexpr uint64_t kSpareBytes = 64 << 20;
  const uint64_t versions = options_.deltas == StreamDeltas::kOff ? 3 : 8;
  const uint64_t version_bytes = (variables_.bytes() + kCommitBytes) * variables_.count();
  return versions * version_bytes + kSpareBytes;
}

Status StoreWays::OpenWriter(const std::string& way) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<StreamWriter> writer,
                         StreamWriter::Open(folders_.place, way, rank_, options_));
  for (uint64_t i = 0; i < variables_.count(); ++i) {
    QUIRE_RETURN_IF_ERROR(writer->Attach(keys_[i], variables_.at(i), variables_.bytes()));
  }
  writers_[way] = std::move(writer);
  return Status();
}

Status StoreWays::Prepare(const std::string& way) {
  if (IsStream(way) && writers_.count(way) == 0) return OpenWriter(way);
  if (way.rfind("memcpy", 0) == 0 && !map_) {
    QUIRE_ASSIGN_OR_RETURN(TouchedMap map, TouchedMap::Make(folders_.place, LogBytes()));
    map_ = std::make_unique<TouchedMap>(std::move(map));
  }
  return Status();
}

Result<uint64_t> StoreWays::Store(const std::string& way) {
  QUIRE_RETURN_IF_ERROR(Prepare(way));
  Status status;
  uint64_t count = variables_.count();
  if (way == "stream") {
    status = PutEach();
  } else if (way == "stream-snapshot") {
    status = writers_[way]->Snapshot().status();
  } else if (way == "memcpy-whole") {
    status = CopyWhole();
  } else if (way == "memcpy" || way == "memcpy-flush") {
    status = CopyEach(way == "memcpy-flush");
  } else if (way != "tmpfs" && way != "file" && way != "file-sync") {
    return Status(Code::kInvalidArgument, "nothing is stored by the way of " + way);
  } else {
    if (way == "file") count = std::min(count, kFilesMax);
    if (way == "file-sync") count = std::min(count, kSyncedMax);
    status = WriteFiles(FolderOf(way), count, way == "file-sync");
  }
  QUIRE_RETURN_IF_ERROR(status);
  return count * variables_.bytes();
}

Status StoreWays::PutEach() {
  StreamWriter& writer = *writers_["stream"];
  for (const std::string& key : keys_) QUIRE_RETURN_IF_ERROR(writer.Put(key).status());
  return Status();
}

char* StoreWays::NextInMap(uint64_t bytes) {
  if (map_at_ + bytes > map_->size()) map_at_ = 0;
  char* to = map_->data() + map_at_;
  map_at_ += (bytes + io::kLineBytes - 1) / io::kLineBytes * io::kLineBytes;
  return to;
}

Status StoreWays::CopyEach(bool flush) {
  const uint64_t bytes = variables_.bytes();
  for (uint64_t i = 0; i < variables_.count(); ++i) {
    char* to = NextInMap(bytes);
    std::memcpy(to, variables_.at(i), bytes);
    asm volatile("" : : "r"(to) : "memory");
    if (!flush) continue;
    io::WriteBack(to, bytes);
    io::DrainStreamingStores();
  }
  return Status();
}

Status StoreWays::CopyWhole() {
  char* to = NextInMap(variables_.total_bytes());
  std::memcpy(to, variables_.at(0), variables_.total_bytes());
  asm volatile("" : : "r"(to) : "memory");
  return Status();
}

Status StoreWays::WriteFiles(const std::string& folder, uint64_t count, bool sync) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string path = folder + "/" + keys_[i];
    QUIRE_RETURN_IF_ERROR(WriteFile(path, variables_.at(i), variables_.bytes(), sync));
  }
  return Status();
}

const std::string& StoreWays::FolderOf(const std::string& way) const {
  return way == "tmpfs" ? folders_.place : folders_.directory;
}

Status StoreWays::Forget(const std::string& way) {
  if (way != "tmpfs" && way.rfind("file", 0) != 0) return Status();
  for (const std::string& key : keys_) {
    const std::string path = FolderOf(way) + "/" + key;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return Status(Code::kIo, "unlink " + path + ": " + std::strerror(errno));
    }
  }
  return Status();
}

StreamStatistics StoreWays::Statistics(const std::string& way) const {
  const auto writer = writers_.find(way);
  return writer == writers_.end() ? StreamStatistics() : writer->second->Statistics();
}

std::string StoreWays::Tracking(const std::string& way) const {
  const auto writer = writers_.find(way);
  if (writer == writers_.end()) return "none";
  const Result<std::string> tracking = writer->second->Tracking(keys_.front());
  return tracking.ok() ? *tracking : "none";
}

Status StoreWays::Check(const std::string& way) const {
  if (!IsStream(way)) return Status();
  StreamReaderOptions options;
  options.remote = false;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StreamReader> reader,
                         StreamReader::Open(folders_.place, way, rank_, options));
  std::string bytes;
  for (uint64_t i = 0; i < variables_.count(); ++i) {
    QUIRE_RETURN_IF_ERROR(reader->Get(keys_[i], 0, &bytes));
    if (Slice(bytes) == Slice(variables_.at(i), variables_.bytes())) continue;
    return Status(Code::kCorruption, "not what was stored: " + keys_[i] + ", by " + way);
  }
  return Status();
}

}  // namespace quire::bench
