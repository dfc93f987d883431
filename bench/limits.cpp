// Measures the limits of the machine, with which other numbers are compared.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "commands.h"
#include "io/memory/streaming_stores.h"
#include "keys.h"
#include "report.h"
#include "samples.h"
#include "workspace.h"

namespace quire::bench {
namespace {

struct Settings {
  uint64_t bytes = 512ull << 20;
  std::string directory;
  int repetitions = 3;
};

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kPageBytes = 4096;

// A file that is removed at the end; all lengths are whole chunks.
class ScratchFile {
 public:
  static Result<std::unique_ptr<ScratchFile>> Make(const std::string& path, uint64_t bytes) {
    std::unique_ptr<ScratchFile> file(new ScratchFile(path));
    file->descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->descriptor_ < 0) return file->Failure("open");
    const int error = ::posix_fallocate(file->descriptor_, 0, static_cast<off_t>(bytes));
    if (error != 0) return Status(Code::kNoSpace, path + ": " + std::strerror(error));
    return file;
  }
  ~ScratchFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }

  int descriptor() const { return descriptor_; }
  Status Failure(const char* call) const {
    return Status(Code::kIo, std::string(call) + " " + path_ + ": " + std::strerror(errno));
  }

 private:
  explicit ScratchFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  int descriptor_ = -1;
};

// Measurements of the seconds that `bytes` take.
class Limits {
 public:
  Limits(const Settings& settings, std::string folder)
      : bytes_(settings.bytes), folder_(std::move(folder)), chunk_(kChunkBytes, 'x') {}

  Result<double> MemoryCopy(uint64_t block_bytes) {
    if (source_.empty()) source_.assign(bytes_, 'a');
    if (target_.empty()) target_.assign(bytes_, 'b');
    const Stopwatch watch;
    for (uint64_t done = 0; done < bytes_; done += block_bytes) {
      const uint64_t at = block_bytes < bytes_ / 2 ? 0 : done;
      std::memcpy(&target_[at], &source_[at], std::min(block_bytes, bytes_ - done));
      Touch(target_.data() + at);
    }
    return watch.Seconds();
  }

  // Writes as the log does: copies into a mapping of a file whose space is already allocated.
  Result<double> MappedCopy(const std::string& folder, bool touched_before) {
    return Mapped(folder, touched_before,
                  [this](char* to) { std::memcpy(to, chunk_.data(), kChunkBytes); });
  }

  // Writes as a stream's log does: past the caches, bytes that were just computed.
  Result<double> MappedStores(const std::string& folder, io::StoreKind kind) {
    return Mapped(folder, true, [this, kind](char* to) {
      io::StreamingCopy(to, chunk_.data(), kChunkBytes, kind);
      io::DrainStreamingStores();
    });
  }

  // Writes as a stream's log does if its checksum is computed on the way.
  Result<double> MappedHashedStores(const std::string& folder, io::StoreKind kind) {
    return Mapped(folder, true, [this, kind](char* to) {
      Keep(io::StreamingCopyHashed(to, chunk_.data(), kChunkBytes, 1, kind));
      io::DrainStreamingStores();
    });
  }

  Result<double> FileWrite(bool sync) {
    QUIRE_ASSIGN_OR_RETURN(const auto file, ScratchFile::Make(folder_ + "/written", bytes_));
    const Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(WriteAll(*file));
    if (sync && ::fdatasync(file->descriptor()) != 0) return file->Failure("fdatasync");
    return watch.Seconds();
  }

  // From the device: the page cache is dropped first.
  Result<double> FileRead() {
    QUIRE_ASSIGN_OR_RETURN(const auto file, ScratchFile::Make(folder_ + "/read", bytes_));
    QUIRE_RETURN_IF_ERROR(WriteAll(*file));
    if (::fdatasync(file->descriptor()) != 0) return file->Failure("fdatasync");
    ::posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    const Stopwatch watch;
    for (uint64_t at = 0; at < bytes_; at += kChunkBytes) {
      QUIRE_RETURN_IF_ERROR(ReadAt(*file, at, kChunkBytes));
    }
    return watch.Seconds();
  }

  // One page at a time from the page cache: what a get from a table that is not in the block cache
  // costs at least.
  Result<double> PageReads() {
    QUIRE_ASSIGN_OR_RETURN(const auto file, ScratchFile::Make(folder_ + "/pages", bytes_));
    QUIRE_RETURN_IF_ERROR(WriteAll(*file));
    KeyRandom random(1);
    const Stopwatch watch;
    for (uint64_t done = 0; done < bytes_; done += kPageBytes) {
      QUIRE_RETURN_IF_ERROR(
          ReadAt(*file, random.Below(bytes_ / kPageBytes) * kPageBytes, kPageBytes));
    }
    return watch.Seconds();
  }

  Result<double> Syncs() {
    QUIRE_ASSIGN_OR_RETURN(const auto file, ScratchFile::Make(folder_ + "/synced", kChunkBytes));
    const Stopwatch watch;
    for (int i = 0; i < kSyncCount; ++i) {
      if (::pwrite(file->descriptor(), chunk_.data(), kPageBytes, 0) < 0)
        return file->Failure("pwrite");
      if (::fdatasync(file->descriptor()) != 0) return file->Failure("fdatasync");
    }
    return watch.Seconds();
  }
  static constexpr int kSyncCount = 50;

 private:
  // Keeps the compiler from leaving the copy out.
  static void Touch(void* bytes) { asm volatile("" : : "r"(bytes) : "memory"); }
  static void Keep(uint64_t value) { asm volatile("" : : "r"(value)); }

  // Stores chunk behind chunk.
  Result<double> Mapped(const std::string& folder, bool touched_before,
                        const std::function<void(char* to)>& store) {
    QUIRE_ASSIGN_OR_RETURN(const auto file, ScratchFile::Make(folder + "/mapped", bytes_));
    void* place =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor(), 0);
    if (place == MAP_FAILED) return file->Failure("mmap");
    char* bytes = static_cast<char*>(place);
    if (touched_before) std::memset(bytes, 0, bytes_);
    const Stopwatch watch;
    for (uint64_t at = 0; at < bytes_; at += kChunkBytes) store(bytes + at);
    const double seconds = watch.Seconds();
    ::munmap(place, bytes_);
    return seconds;
  }

  Status WriteAll(const ScratchFile& file) {
    for (uint64_t at = 0; at < bytes_; at += kChunkBytes) {
      if (::pwrite(file.descriptor(), chunk_.data(), kChunkBytes, static_cast<off_t>(at)) !=
          static_cast<ssize_t>(kChunkBytes)) {
        return file.Failure("pwrite");
      }
    }
    return Status();
  }

  Status ReadAt(const ScratchFile& file, uint64_t at, size_t size) {
    if (::pread(file.descriptor(), chunk_.data(), size, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(size)) {
      return file.Failure("pread");
    }
    return Status();
  }

  uint64_t bytes_;
  std::string folder_;
  std::vector<char> chunk_;
  std::vector<char> source_, target_;
};

Status RunLimits(const Settings& settings) {
  Settings whole = settings;
  whole.bytes = std::max<uint64_t>(settings.bytes / kChunkBytes, 1) * kChunkBytes;
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory folder,
                         TemporaryDirectory::Make(settings.directory));
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory shared, TemporaryDirectory::Make("/dev/shm"));
  Limits limits(whole, folder.path());
  std::vector<std::pair<std::string, std::function<Result<double>()>>> cases = {
      {"memory_copy", [&] { return limits.MemoryCopy(whole.bytes); }},
      {"memory_copy_in_cache", [&] { return limits.MemoryCopy(256 * 1024); }},
      {"mapped_copy_tmpfs", [&] { return limits.MappedCopy(shared.path(), false); }},
      {"mapped_copy_tmpfs_touched", [&] { return limits.MappedCopy(shared.path(), true); }},
      {"mapped_copy_file", [&] { return limits.MappedCopy(folder.path(), false); }},
      {"mapped_copy_file_touched", [&] { return limits.MappedCopy(folder.path(), true); }},
      {"write_page_cache", [&] { return limits.FileWrite(false); }},
      {"write_device", [&] { return limits.FileWrite(true); }},
      {"read_device", [&] { return limits.FileRead(); }},
      {"read_page_cache_4k", [&] { return limits.PageReads(); }},
      {"sync_4k", [&] { return limits.Syncs(); }},
  };
  for (const io::StoreKind kind : io::StoreKinds()) {
    cases.emplace_back(
        std::string("mapped_stores_tmpfs_touched_") + io::StoreKindName(kind),
        [&limits, &shared, kind] { return limits.MappedStores(shared.path(), kind); });
    cases.emplace_back(
        std::string("mapped_hashed_stores_tmpfs_touched_") + io::StoreKindName(kind),
        [&limits, &shared, kind] { return limits.MappedHashedStores(shared.path(), kind); });
  }
  std::map<std::string, std::vector<double>> seconds;
  for (int repetition = 0; repetition < settings.repetitions; ++repetition) {
    for (const auto& [name, measure] : cases) {
      QUIRE_ASSIGN_OR_RETURN(const double taken, measure());
      seconds[name].push_back(taken);
    }
  }
  for (const auto& [name, measure] : cases) {
    const double median = Median(seconds[name]);
    Json results = {{"gb_per_s", Rounded(static_cast<double>(whole.bytes) / median / 1e9)}};
    if (name == "read_page_cache_4k") {
      results["ops_per_s"] = Rounded(static_cast<double>(whole.bytes) / kPageBytes / median);
    }
    if (name == "sync_4k") results = {{"ops_per_s", Rounded(Limits::kSyncCount / median)}};
    PrintCase("limits",
              {{"what", name},
               {"bytes", whole.bytes},
               {"repetitions", settings.repetitions},
               {"storage", FileSystemName(folder.path())}},
              results);
  }
  return Status();
}

}  // namespace

Command AddLimits(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  settings->directory = DefaultDirectory();
  CLI::App* sub = app.add_subcommand("limits",
                                     "What one core of this machine can do: copies in memory (far "
                                     "beyond and within its caches) and\n"
                                     "into mappings of files whose space is allocated (tmpfs, "
                                     "--directory; touched before or not), there also past the "
                                     "caches, by each kind of store,\n"
                                     "without and with a checksum on the way;\n"
                                     "writes of 1 MiB to the page cache and, with fdatasync, to "
                                     "the device; reads from the device,\n"
                                     "and of single pages from the page cache; synchronous writes "
                                     "of 4 KiB. Told: GB or operations\n"
                                     "per second.");
  sub->add_option("--bytes", settings->bytes, "volume of each measurement")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  sub->add_option("--directory", settings->directory, "where to write")->capture_default_str();
  sub->add_option("--repetitions", settings->repetitions, "medians are told")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  return {sub, [settings] { return RunLimits(*settings); }, false};
}

}  // namespace quire::bench
