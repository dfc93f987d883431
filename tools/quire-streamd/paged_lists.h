/// Lists that are requested page by page: each is created once, and stored while its pages are
/// requested.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "quire/status.h"

namespace quire::streamd {

/// Limit on the entries of all stored lists together: the objects of two of the largest parts.
constexpr size_t kPagedEntriesMax = size_t{2} << 20;

template <typename Name, typename VersionEntry>
class PagedLists {
 public:
  using List = std::shared_ptr<const std::vector<VersionEntry>>;

  explicit PagedLists(size_t entries_max = kPagedEntriesMax) : entries_max_(entries_max) {}

  /// Returns the list that is stored under this name. If its first page is requested, or no list is
  /// stored, returns the list that `make` returns (a Result<std::vector<VersionEntry>>).
  template <typename Make>
  Result<List> Get(const Name& name, bool first_page, const Make& make) {
    if (!first_page) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto kept = kept_.find(name); kept != kept_.end()) {
        kept->second.used = true;
        kept->second.last_use = ++uses_;
        return kept->second.list;
      }
    }
    QUIRE_ASSIGN_OR_RETURN(std::vector<VersionEntry> made, make());
    return std::make_shared<const std::vector<VersionEntry>>(std::move(made));
  }
  /// Stores a list of which further pages will be requested. If all lists together then have more
  /// than `entries_max` entries, drops the least recently used ones: a request for a further page
  /// of one creates it again. This list stays, whatever its size.
  void Keep(const Name& name, List list) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_[name] = {std::move(list), true, ++uses_};
    while (kept_.size() > 1 && EntriesLocked() > entries_max_) {
      kept_.erase(std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
    }
  }
  /// Drops lists without a request since the last call.
  void DropUnused() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(kept_, [](const auto& kept) { return !kept.second.used; });
    for (auto& kept : kept_) kept.second.used = false;
  }

 private:
  struct Kept {
    List list;
    bool used = false;
    uint64_t last_use = 0;
  };
  size_t EntriesLocked() const {
    size_t entries = 0;
    for (const auto& kept : kept_) entries += kept.second.list->size();
    return entries;
  }

  const size_t entries_max_;
  std::mutex mutex_;
  uint64_t uses_ = 0;
  std::map<Name, Kept> kept_;
};

}  // namespace quire::streamd
