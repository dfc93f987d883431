#include "io/watch/protected_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "io/files/page_memory.h"
#include "io/watch/page_watch_kinds.h"
#include "io/files/posix_error.h"
#include "io/files/proc_file.h"

namespace quire::io {
namespace {

constexpr uint64_t kPagesPerWord = 64;
constexpr int64_t kUsualMappingsMax = 65530;
// If the runs have this many pages on average, one call for the whole range costs as much as one
// call for each run.
constexpr uint64_t kPagesPerCall = 32;

int64_t RunsMax() {
  const int64_t mappings =
      std::strtoll(ReadProcFile("/proc/sys/vm/max_map_count").c_str(), nullptr, 10);
  // A run takes two mappings: its own, and the read-only pages behind it.
  return (mappings > 0 ? std::min(mappings, kUsualMappingsMax) : kUsualMappingsMax) / 4;
}

bool Allow(uintptr_t begin, uint64_t bytes, int access) {
  return ::mprotect(reinterpret_cast<void*>(begin), bytes, access) == 0;
}

void AppendNoted(uint64_t first, uint64_t word, std::vector<PageRun>* runs) {
  for (uint64_t bit = 0; bit < kPagesPerWord; ++bit) {
    if ((word >> bit & 1) != 0) AppendRun(first + bit, 1, runs);
  }
}

}  // namespace

bool MappingBudget::Take(int64_t runs) {
  static const int64_t runs_max = RunsMax();
  if (taken_.fetch_add(runs, std::memory_order_relaxed) + runs <= runs_max || runs <= 0)
    return true;
  Give(runs);
  return false;
}

MappingBudget& TheMappingBudget() {
  static constinit MappingBudget budget;
  return budget;
}

ProtectedPages::ProtectedPages(char* memory, uint64_t pages)
    : begin_(reinterpret_cast<uintptr_t>(memory)),
      end_(begin_ + pages * PageBytes()),
      pages_(pages),
      words_(new std::atomic<uint64_t>[(pages + kPagesPerWord - 1) / kPagesPerWord]()) {}

ProtectedPages::~ProtectedPages() {
  TheMappingBudget().Give(runs_.load());
}

bool ProtectedPages::IsNoted(uint64_t page) const {
  return page < pages_ && (words_[page / kPagesPerWord].load() >> page % kPagesPerWord & 1) != 0;
}

Status ProtectedPages::MakeReadOnly(uint64_t first, uint64_t count) {
  if (Allow(begin_ + first * PageBytes(), count * PageBytes(), PROT_READ)) return Status();
  return ErrnoStatus(errno, "protect", "pages that are watched");
}

Status ProtectedPages::Protect() {
  return MakeReadOnly(0, pages_);
}

bool ProtectedPages::OpenAll() {
  const bool opened = Allow(begin_, end_ - begin_, PROT_READ | PROT_WRITE);
  TheMappingBudget().Give(runs_.exchange(0));
  return opened;
}

bool ProtectedPages::GiveUp() {
  given_up_.store(true);
  return OpenAll();
}

// Returns the change in the number of runs when a page is opened: one more, none if a run grows, or
// one less if two are joined.
int64_t ProtectedPages::RunsMadeBy(uint64_t page) const {
  if (IsNoted(page)) return 0;
  return 1 - (page > 0 && IsNoted(page - 1) ? 1 : 0) - (IsNoted(page + 1) ? 1 : 0);
}

// Opens the page first, and then notes it. TakeWritten protects the page of each note that it
// takes, so that no page stays open without a note.
bool ProtectedPages::Open(uintptr_t address) {
  const uint64_t page = (address - begin_) / PageBytes();
  const int64_t runs = RunsMadeBy(page);
  if (!TheMappingBudget().Take(runs)) return GiveUp();
  runs_.fetch_add(runs);
  if (!Allow(begin_ + page * PageBytes(), PageBytes(), PROT_READ | PROT_WRITE)) return GiveUp();
  words_[page / kPagesPerWord].fetch_or(uint64_t{1} << page % kPagesPerWord);
  return true;
}

void ProtectedPages::ListWritten(std::vector<PageRun>* written) const {
  for (uint64_t first = 0; first < pages_; first += kPagesPerWord) {
    AppendNoted(first, words_[first / kPagesPerWord].load(), written);
  }
}

Status ProtectedPages::TakeWritten(std::vector<PageRun>* written) {
  std::vector<PageRun> runs;
  for (uint64_t first = 0; first < pages_; first += kPagesPerWord) {
    std::atomic<uint64_t>& word = words_[first / kPagesPerWord];
    if (word.load(std::memory_order_relaxed) == 0) continue;
    AppendNoted(first, word.exchange(0), &runs);
  }
  TheMappingBudget().Give(runs_.exchange(0));
  written->insert(written->end(), runs.begin(), runs.end());
  if (runs.size() > pages_ / kPagesPerCall + 1) return MakeReadOnly(0, pages_);
  for (const PageRun& run : runs) QUIRE_RETURN_IF_ERROR(MakeReadOnly(run.first, run.count));
  return Status();
}

void ProtectedTable::FreeOld() noexcept {
  if (handlers_.load() != 0) return;  // the next change frees
  old_tables_.clear();
  old_pages_.clear();
}

void ProtectedTable::Add(ProtectedPages* pages) {
  const std::lock_guard lock(mutex_);
  Sorted* const now = current_.load();
  auto next = std::make_unique<Sorted>();
  next->reserve((now == nullptr ? 0 : now->size()) + 1);
  bool added = false;
  for (size_t i = 0; now != nullptr && i < now->size(); ++i) {
    const Range& range = (*now)[i];
    if (range.pages.load() == nullptr) continue;
    if (!added && pages->begin() < range.begin) {
      next->emplace_back(pages->begin(), pages);
      added = true;
    }
    next->push_back(range);
  }
  if (!added) next->emplace_back(pages->begin(), pages);
  old_tables_.reserve(old_tables_.size() + 1);
  old_pages_.reserve(old_pages_.size() + next->size());  // for all that may be removed
  old_tables_.emplace_back(current_.exchange(next.release()));
  FreeOld();
}

void ProtectedTable::Remove(std::unique_ptr<ProtectedPages> pages) noexcept {
  const std::lock_guard lock(mutex_);
  for (Range& range : *current_.load()) {
    if (range.pages.load() == pages.get()) range.pages = nullptr;
  }
  old_pages_.push_back(std::move(pages));
  FreeOld();
}

bool ProtectedTable::OpenWatched(uintptr_t address) {
  handlers_.fetch_add(1);
  bool opened = false;
  if (const Sorted* const sorted = current_.load(); sorted != nullptr) {
    const auto behind =
        std::upper_bound(sorted->begin(), sorted->end(), address,
                         [](uintptr_t at, const Range& range) { return at < range.begin; });
    ProtectedPages* const pages = behind == sorted->begin() ? nullptr : (behind - 1)->pages.load();
    opened = pages != nullptr && address < pages->end() && pages->Open(address);
  }
  handlers_.fetch_sub(1);
  return opened;
}

}  // namespace quire::io
