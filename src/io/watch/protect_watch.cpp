// PageWatch by read-only pages and a handler of SIGSEGV.
#include <signal.h>
#include <ucontext.h>

#include <cerrno>
#include <utility>

#include "io/memory/fault_handler.h"
#include "io/watch/page_watch_kinds.h"
#include "io/watch/protected_pages.h"

namespace quire::io {
namespace {

constinit FaultHandler segmentation_fault;

ProtectedTable& TheTable() {
  static ProtectedTable& table = *new ProtectedTable;  // never destroyed: the handler may need it
  return table;
}

bool IsStore(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // of the processor's code of a page fault
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#else
  static_cast<void>(context);
  return true;  // a load of a readable page does not fault
#endif
}

void OnSegmentationFault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool ours = info->si_code == SEGV_ACCERR && IsStore(context) &&
                    TheTable().OpenWatched(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (!ours) segmentation_fault.PassOn(signal, info, context);
}

class ProtectWatch : public PageWatch {
 public:
  explicit ProtectWatch(std::unique_ptr<ProtectedPages> pages) : pages_(std::move(pages)) {
    TheTable().Add(pages_.get());
  }
  ~ProtectWatch() override {
    pages_->OpenAll();
    TheTable().Remove(std::move(pages_));
    TheMappingBudget().Give(1);
  }

  Status Collect(std::vector<PageRun>* written) override {
    QUIRE_RETURN_IF_ERROR(NotesAll());
    return pages_->TakeWritten(written);
  }
  Status Look(std::vector<PageRun>* written) const override {
    QUIRE_RETURN_IF_ERROR(NotesAll());
    pages_->ListWritten(written);
    return Status();
  }

  Status Protect() { return pages_->Protect(); }

 private:
  Status NotesAll() const {
    if (!segmentation_fault.IsInstalled()) {
      return Status(Code::kUnsupported, "the program replaced Quire's handler of SIGSEGV");
    }
    if (pages_->given_up()) {
      return Status(Code::kNoSpace,
                    "pages that were written to lie in too many places: each would "
                    "be a mapping of its own (vm.max_map_count)");
    }
    return Status();
  }

  std::unique_ptr<ProtectedPages> pages_;
};

}  // namespace

Result<std::unique_ptr<PageWatch>> NewProtectWatch(char* memory, uint64_t pages) {
  TheTable();  // made before the handler asks for it
  static const bool installed = segmentation_fault.Install(SIGSEGV, OnSegmentationFault);
  if (!installed) return Status(Code::kUnsupported, "the system refuses a handler of SIGSEGV");
  if (!segmentation_fault.IsInstalled()) {
    return Status(Code::kUnsupported, "the program replaced Quire's handler of SIGSEGV");
  }
  if (!TheMappingBudget().Take(1)) {
    return Status(Code::kNoSpace, "there are too many mappings (vm.max_map_count)");
  }
  auto watch = std::make_unique<ProtectWatch>(std::make_unique<ProtectedPages>(memory, pages));
  QUIRE_RETURN_IF_ERROR(watch->Protect());
  return std::unique_ptr<PageWatch>(std::move(watch));
}

}  // namespace quire::io
