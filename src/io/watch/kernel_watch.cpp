// PageWatch by userfaultfd. At a write to a page the kernel lifts its protection, by itself and
// inside system calls, too. The page table records which pages lost it; PAGEMAP_SCAN finds them
// there and protects them again in one step.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/threads/fork_generation.h"
#include "io/files/descriptor.h"
#include "io/files/page_memory.h"
#include "io/files/posix_error.h"
#include "io/watch/page_watch_kinds.h"

namespace quire::io {
namespace {

// The kernel's interface, as of Linux 6.7: headers of systems are older.
constexpr uint64_t kFeatureWpShared = 1ull << 12;       // UFFD_FEATURE_WP_HUGETLBFS_SHMEM
constexpr uint64_t kFeatureWpUnpopulated = 1ull << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr uint64_t kFeatureWpAsync = 1ull << 15;        // UFFD_FEATURE_WP_ASYNC
constexpr int kUserModeOnly = 1;                        // UFFD_USER_MODE_ONLY
constexpr unsigned long kNewFromDevice = _IO(0xAA, 0);  // USERFAULTFD_IOC_NEW
constexpr uint64_t kPageIsWritten = 1 << 1;             // PAGE_IS_WRITTEN
constexpr uint64_t kScanProtects = 1 << 0;              // PM_SCAN_WP_MATCHING
constexpr uint64_t kScanChecksAsync = 1 << 1;           // PM_SCAN_CHECK_WPASYNC

struct PageRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
struct ScanArguments {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t regions;
  uint64_t region_count;
  uint64_t pages_max;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);

constexpr int kTriesMax = 100;  // of calls that end early because other threads map memory

Status Unsupported(const std::string& what) {
  return Status(Code::kUnsupported, what + ": " + ErrnoText(errno));
}

// Descriptors that all watches of a process share, open as long as one of them lives. A child of
// fork inherits its parent's; these act on the memory of the parent, and must not be used.
struct Descriptors {
  uint32_t generation = 0;  // of the process that opened them
  std::shared_ptr<const FileDescriptor> faults;
  std::shared_ptr<const FileDescriptor> pagemap;
};

FileDescriptor OpenFaults() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | kUserModeOnly;
  FileDescriptor by_call(static_cast<int>(::syscall(SYS_userfaultfd, kFlags)));
  if (by_call.ok()) return by_call;
  const FileDescriptor device = FileDescriptor::Open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  return FileDescriptor(device.ok() ? ::ioctl(device.get(), kNewFromDevice, kFlags) : -1);
}

Result<Descriptors> OpenDescriptors() {
  FileDescriptor faults = OpenFaults();
  if (!faults.ok()) return Unsupported("userfaultfd is refused");
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = kFeatureWpAsync | kFeatureWpUnpopulated | kFeatureWpShared;
  if (::ioctl(faults.get(), UFFDIO_API, &api) != 0) {
    return Unsupported("userfaultfd has no asynchronous write protection");
  }
  FileDescriptor pagemap = FileDescriptor::Open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (!pagemap.ok()) return Unsupported("/proc/self/pagemap is not there");
  return Descriptors{base::ForkGeneration(),
                     std::make_shared<const FileDescriptor>(std::move(faults)),
                     std::make_shared<const FileDescriptor>(std::move(pagemap))};
}

Result<Descriptors> TheDescriptors() {
  static std::mutex mutex;
  static Descriptors shared;
  const std::lock_guard lock(mutex);
  if (shared.faults != nullptr && shared.generation == base::ForkGeneration()) return shared;
  QUIRE_ASSIGN_OR_RETURN(shared, OpenDescriptors());
  return shared;
}

class KernelWatch : public PageWatch {
 public:
  KernelWatch(const Descriptors& descriptors, char* memory, uint64_t pages)
      : open_(descriptors),
        begin_(reinterpret_cast<uintptr_t>(memory)),
        bytes_(pages * PageBytes()) {}

  ~KernelWatch() override {
    if (!registered_ || open_.generation != base::ForkGeneration()) return;
    uffdio_range range = {begin_, bytes_};
    Retry(UFFDIO_UNREGISTER, &range);  // if it fails, unmapping the memory ends it
  }

  Status Start() {
    uffdio_register registration = {};
    registration.range = {begin_, bytes_};
    registration.mode = UFFDIO_REGISTER_MODE_WP;
    if (!Retry(UFFDIO_REGISTER, &registration)) return Unsupported("userfaultfd refuses memory");
    registered_ = true;
    // Pages that were never protected count as written. The scan protects them in a quarter of the
    // time that UFFDIO_WRITEPROTECT takes.
    std::vector<PageRun> all;
    return Collect(&all);
  }

  Status Collect(std::vector<PageRun>* written) override {
    return Scan(kScanProtects | kScanChecksAsync, written);
  }
  Status Look(std::vector<PageRun>* written) const override {
    return Scan(kScanChecksAsync, written);
  }

 private:
  Status Scan(uint64_t flags, std::vector<PageRun>* written) const {
    if (open_.generation != base::ForkGeneration()) {
      return Status(Code::kUnsupported, "userfaultfd watches the parent of this process");
    }
    std::array<PageRegion, 256> regions;
    ScanArguments scan = {};
    scan.size = sizeof(scan);
    scan.flags = flags;
    scan.end = begin_ + bytes_;
    scan.regions = reinterpret_cast<uintptr_t>(regions.data());
    scan.region_count = regions.size();
    scan.category_mask = kPageIsWritten;
    scan.return_mask = kPageIsWritten;
    for (uint64_t at = begin_; at != scan.end; at = scan.walk_end) {
      scan.start = at;
      const int found = ::ioctl(open_.pagemap->get(), kPagemapScan, &scan);
      if (found < 0) return Unsupported("PAGEMAP_SCAN fails");
      if (scan.walk_end <= at) return Status(Code::kUnsupported, "PAGEMAP_SCAN goes no further");
      for (size_t i = 0; i < static_cast<size_t>(found); ++i) {
        const PageRegion& region = regions[i];
        AppendRun((region.start - begin_) / PageBytes(), (region.end - region.start) / PageBytes(),
                  written);
      }
    }
    return Status();
  }

  bool Retry(unsigned long call, void* argument) const {
    for (int tries = 0; tries < kTriesMax; ++tries) {
      if (::ioctl(open_.faults->get(), call, argument) == 0) return true;
      if (errno != EAGAIN && errno != EINTR) return false;
    }
    return false;
  }

  const Descriptors open_;
  const uint64_t begin_;
  const uint64_t bytes_;
  bool registered_ = false;
};

}  // namespace

Result<std::unique_ptr<PageWatch>> NewKernelWatch(char* memory, uint64_t pages) {
  QUIRE_ASSIGN_OR_RETURN(const Descriptors descriptors, TheDescriptors());
  auto watch = std::make_unique<KernelWatch>(descriptors, memory, pages);
  QUIRE_RETURN_IF_ERROR(watch->Start());
  return std::unique_ptr<PageWatch>(std::move(watch));
}

}  // namespace quire::io
