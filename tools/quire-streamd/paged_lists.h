// Lists that are asked for page by page: each is made once, and kept while its pages are asked for.
//
// Layer      tools
// Threads    any
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "quire/status.h"

namespace quire::streamd {

template <typename Name, typename Entry>
class PagedLists {
 public:
  using List = std::shared_ptr<const std::vector<Entry>>;

  // The list that is kept under this name. If it is asked for its first page, or none is kept, what
  // `make` returns, a Result<std::vector<Entry>>.
  template <typename Make>
  Result<List> Get(const Name& name, bool first_page, const Make& make) {
    if (!first_page) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto kept = kept_.find(name); kept != kept_.end()) {
        kept->second.used = true;
        return kept->second.list;
      }
    }
    QUIRE_ASSIGN_OR_RETURN(std::vector<Entry> made, make());
    return std::make_shared<const std::vector<Entry>>(std::move(made));
  }
  // There are further pages of this list.
  void Keep(const Name& name, List list) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_[name] = {std::move(list), true};
  }
  // Drops what nobody has asked for since the last call.
  void DropUnused() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(kept_, [](const auto& kept) { return !kept.second.used; });
    for (auto& kept : kept_) kept.second.used = false;
  }

 private:
  struct Kept {
    List list;
    bool used = false;
  };
  std::mutex mutex_;
  std::map<Name, Kept> kept_;
};

}  // namespace quire::streamd
